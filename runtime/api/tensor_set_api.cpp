// SPDX-License-Identifier: Apache-2.0
//
// Tensor sets: names for the tensors of an execution.
#include "nrt/nrt.h"
#include "runtime/api/guard.h"
#include "runtime/neff/text.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tensor/tensor_set.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

NRT_EXPORT NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t** result) {
  return guarded("nrt_allocate_tensor_set", [&](Session& session) -> Result<void> {
    if (result == nullptr) return null_argument("result");
    NEURON_TRY(handle,
               session.handles.insert(HandleKind::kTensorSet, std::make_unique<TensorSet>()));
    *result = handle;
    return {};
  });
}

NRT_EXPORT void nrt_destroy_tensor_set(nrt_tensor_set_t** tensor_set) {
  if (tensor_set == nullptr || *tensor_set == nullptr) return;
  void* handle = *tensor_set;
  *tensor_set = nullptr;
  unguarded_state("nrt_destroy_tensor_set", [&]() -> Result<void> {
    SessionUse use;
    if (!use) return {};
    if (!use->handles.remove(handle, HandleKind::kTensorSet)) {
      return fail(NRT_INVALID_HANDLE, "tensor set {} was destroyed before, or is something else",
                  handle);
    }
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t* tensor_set,
                                                   const char* tensor_name, nrt_tensor_t* tensor) {
  return guarded("nrt_add_tensor_to_tensor_set", [&](Session& session) -> Result<void> {
    NEURON_TRY(set, pin<TensorSet>(session, tensor_set, HandleKind::kTensorSet, "tensor_set"));
    if (tensor_name == nullptr) return null_argument("tensor_name");
    NEURON_TRY(object, pin<Tensor>(session, tensor, HandleKind::kTensor, "tensor"));
    object->in_set.store(true, std::memory_order_relaxed);
    set->put(tensor_name, tensor);
    return {};
  });
}

NRT_EXPORT NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t* tensor_set,
                                                     const char* tensor_name,
                                                     nrt_tensor_t** tensor) {
  return guarded("nrt_get_tensor_from_tensor_set", [&](Session& session) -> Result<void> {
    NEURON_TRY(set, pin<TensorSet>(session, tensor_set, HandleKind::kTensorSet, "tensor_set"));
    if (tensor_name == nullptr) return null_argument("tensor_name");
    if (tensor == nullptr) return null_argument("tensor");
    void* found = set->find(tensor_name);
    if (found == nullptr) {
      return fail(NRT_FAILURE, "the set has no tensor '{}'", neuron::neff::printable(tensor_name));
    }
    *tensor = static_cast<nrt_tensor_t*>(found);
    return {};
  });
}
