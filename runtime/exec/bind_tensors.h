// SPDX-License-Identifier: Apache-2.0
//
// From two tensor sets to the binding of a model: the slow path of an execution, taken when a set
// or one of its tensors has changed. match() finds the tensors by name and checks them; resolve()
// finds or builds the rings for their addresses.
// Callers: match(): anyone; resolve(): executor, holding the core's turn.
// Fails: NRT_INVALID (a tensor is missing, has another size, or lies where the core cannot reach
// it), NRT_INVALID_HANDLE (it was freed), NRT_RESOURCE.
#ifndef RUNTIME_EXEC_BIND_TENSORS_H
#define RUNTIME_EXEC_BIND_TENSORS_H

#include "runtime/model/loaded_model.h"
#include "runtime/session/session.h"
#include "runtime/tensor/tensor_set.h"

namespace neuron::runtime {

Result<std::shared_ptr<const MatchedTensors>> match(Session& session, LoadedModel& model,
                                                    const TensorSet& inputs,
                                                    const TensorSet& outputs);
// A version that no set has, for tensors that do not come from two sets.
uint64_t private_version();
Result<Resolution*> resolve(LoadedModel& model, const MatchedTensors& tensors);

}  // namespace neuron::runtime

#endif
