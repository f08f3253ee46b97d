// SPDX-License-Identifier: Apache-2.0
//
// Runs a loaded model once: binds tensors, launches, waits, reports.
// Callers: nrt_execute, nrt_execute_repeat, workers of asynchronous queues. All but meet_ranks()
// and match_cached() run in the turn of the model's core (CoreTurn), which the caller holds.
// Borrows everything. The launch path (the same two sets as before) takes one lock, allocates
// nothing and makes no system call except to wait. Fails: NRT_INVALID for missing or wrong tensors,
// NRT_INVALID_HANDLE for a freed one in a set, NRT_TIMEOUT, or the status of the fault with a
// sentence that says where and why. After a failure the core is reset and works again;
// NRT_EXEC_UNIT_UNRECOVERABLE if that fails.
#ifndef RUNTIME_EXEC_EXECUTOR_H
#define RUNTIME_EXEC_EXECUTOR_H

#include "runtime/model/loaded_model.h"
#include "runtime/session/session.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tensor/tensor_set.h"

namespace neuron::runtime {

class ExecuteTrace;

// Before an execution, and before the core's turn is taken: the ranks of a model with collectives
// meet if they have not yet. A failure counts as an execution that never reached its core.
Result<void> meet_ranks(Session& session, LoadedModel& model);

// `call`: what a system trace says of the caller; null if it says nothing.
Result<void> execute(Session& session, LoadedModel& model, const TensorSet& inputs,
                     const TensorSet& outputs, ExecuteTrace* call = nullptr);

// The tensors that `inputs` and `outputs` name, from the model's memo if the sets are unchanged.
// Any thread.
Result<std::shared_ptr<const MatchedTensors>> match_cached(Session& session, LoadedModel& model,
                                                           const TensorSet& inputs,
                                                           const TensorSet& outputs);

// Runs at most `count` executions one after the other. `done` receives how many succeeded: at least
// one, unless there is an error. An error is that of the next one.
Result<void> execute_matched(Session& session, LoadedModel& model, const MatchedTensors& tensors,
                             uint32_t count, uint32_t& done, ExecuteTrace* call = nullptr);

// `count` executions, the outputs of each being inputs of the next. An output feeds the input of
// its name; without a common name, output i feeds input i if type and shape are the same for all.
// Fed inputs hold the last but one result afterwards; other inputs stay as they are.
Result<void> execute_repeat(Session& session, LoadedModel& model, const TensorSet& inputs,
                            const TensorSet& outputs, int count, ExecuteTrace* call = nullptr);

}  // namespace neuron::runtime

#endif
