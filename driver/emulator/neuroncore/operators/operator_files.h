// SPDX-License-Identifier: Apache-2.0
// The memory that a custom operator's process shares with its core: a file of inputs, which nobody
// can write any more, and a file of results.
//
// Both are files without a name whose size nobody can change, so no access of the core's own
// mapping can fail, whatever the process does. What the process writes is read when it has ended.
// Callers: OperatorRunner, in the group's thread. Owns both files and a mapping of the results.
// Fails: an errno, with nothing made.
#ifndef DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_FILES_H
#define DRIVER_EMULATOR_NEURONCORE_OPERATORS_OPERATOR_FILES_H

#include <cstddef>
#include <cstdint>
#include <span>

#include "driver/base/file_descriptor.h"
#include "hw/custom_operator.h"

namespace neuron::core {

// A mapped file without a name, of a fixed size.
class OperatorMemory {
 public:
  OperatorMemory() = default;
  ~OperatorMemory() { reset(); }
  OperatorMemory(const OperatorMemory&) = delete;
  OperatorMemory& operator=(const OperatorMemory&) = delete;

  // 0 or an errno. `executable`: it may be started as a program.
  int create(const char* name, uint64_t bytes, bool executable = false);
  // Nobody can write it from now on; the mapping is gone. 0 or an errno.
  int make_constant();
  void reset();

  int file() const { return file_.get(); }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  base::FileDescriptor file_;
  std::span<std::byte> bytes_;
};

}  // namespace neuron::core

#endif
