// SPDX-License-Identifier: Apache-2.0
// Tightly coupled memory of the core: a pool of 16 KiB for operators, and the transfers between it
// and device memory.
//
// Callers: operators. Thread-safe: no. Fails: tcm_malloc returns null; a transfer that leaves its
// tensor (BOUNDS) or the pool (TCM), and tcm_free of something else, end the call.
#ifndef DRIVER_OPERATOR_TCM_H
#define DRIVER_OPERATOR_TCM_H

#include <cstring>
#include <memory>

#include "driver/operator/storage.h"

namespace torch {
namespace neuron {

void* tcm_malloc(size_t nbytes);
void tcm_free(void* pointer);

}  // namespace neuron

// Ends the call if `bytes` begin in the pool and end outside of it.
void check_tcm(const void* pointer, size_t bytes);

template <bool read_only>
class TensorTcmAccessor {
 public:
  explicit TensorTcmAccessor(std::shared_ptr<Storage> storage) : storage_(std::move(storage)) {}

  template <typename T>
  void tensor_to_tcm(T* tcm_ptr, size_t tensor_offset, size_t num_elem) {
    std::memcpy(tcm_ptr, place<T>(tcm_ptr, tensor_offset, num_elem), num_elem * sizeof(T));
    ::neuron::operators::count_transfer(num_elem * sizeof(T));
  }
  template <typename T>
  void tcm_to_tensor(T* tcm_ptr, size_t tensor_offset, size_t num_elem) {
    static_assert(!read_only, "a constant tensor has an accessor that only reads");
    std::memcpy(place<T>(tcm_ptr, tensor_offset, num_elem), tcm_ptr, num_elem * sizeof(T));
    ::neuron::operators::count_transfer(num_elem * sizeof(T));
  }

 private:
  template <typename T>
  std::byte* place(const T* tcm_ptr, size_t offset, size_t count) const {
    check_type<T>(*storage_);
    const auto all = static_cast<size_t>(storage_->count);
    if (offset > all || count > all - offset) {
      ::neuron::operators::fail(NEURON_OPERATOR_BOUNDS, offset > all ? offset : offset + count - 1,
                                "a transfer with TCM leaves its tensor");
    }
    check_tcm(tcm_ptr, count * sizeof(T));
    return storage_->data + offset * sizeof(T);
  }

  std::shared_ptr<Storage> storage_;
};

}  // namespace torch

#endif
