// SPDX-License-Identifier: Apache-2.0
// The memory and the shape of a tensor, shared by the tensors and accessors that name it.
//
// Callers: Tensor and its accessors. The memory is that of a file that the process shares with its
// core, or the process's own. Fails: by operators::fail.
#ifndef DRIVER_OPERATOR_STORAGE_H
#define DRIVER_OPERATOR_STORAGE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "driver/operator/options.h"
#include "driver/operator/process.h"

namespace torch {

class CoherencyEnforcer {
 public:
  enum Policy { COHERENT, INCOHERENT_VERBOSE, INCOHERENT_QUIET };
};

struct Storage {
  // Memory of the process itself, uninitialised.
  Storage(IntArrayRef shape, ScalarType element);
  // Memory of a file.
  Storage(IntArrayRef shape, ScalarType element, std::byte* memory);

  std::byte* data = nullptr;
  ScalarType type = kFloat;
  std::vector<int64_t> sizes, strides;  // in elements, outermost first
  int64_t count = 1;
  CoherencyEnforcer::Policy policy = CoherencyEnforcer::COHERENT;
  unsigned read_streams = 0, write_streams = 0;  // open ones

  // A stream opens; the policy may forbid it.
  void open_stream(bool writes);
  void close_stream(bool writes) { writes ? --write_streams : --read_streams; }

 private:
  void measure();
  std::unique_ptr<std::byte[]> own_;
};

template <typename T>
void check_type(const Storage& storage) {
  if (storage.type != type_of<T>()) {
    ::neuron::operators::fail(NEURON_OPERATOR_TYPE, static_cast<uint64_t>(storage.type),
                              "an accessor has another element type than its tensor");
  }
}

// Accessors of elements and streams are for a single core.
inline void check_single_core() {
  if (::neuron::operators::place.cores != 1) {
    ::neuron::operators::fail(NEURON_OPERATOR_ONE_CORE, 0,
                              "in multicore mode tensors have TCM accessors only");
  }
}

}  // namespace torch

#endif
