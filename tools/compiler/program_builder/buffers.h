// SPDX-License-Identifier: Apache-2.0
//
// The buffers of a program in HBM: its inputs, outputs, constants, and memory of its own.
// Callers: kernels, through Program. Thread-safe: no. Owns what it is told of them; a Buffer is a
// plain value. Fails: as Program, with a sentence in its journal; the Buffer is then absent.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_BUFFERS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_BUFFERS_H

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/program_parts.h"
#include "tools/compiler/program_builder/schedule.h"

namespace neuron::builder {

class Buffers {
 public:
  // Names are those of the model's tensors and variables.
  Buffer input(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape);
  // `donor`: an input of as many bytes whose memory the output may have. Whoever executes the
  // program may then give both the same tensor: what is written overwrites the input, and is
  // ordered so.
  Buffer output(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape,
                const std::string& donor = "");
  // Tells whoever executes the program how much of an output it has written: as many elements as
  // the first word of `counter` says then, an i32 or u32 temporary that the program writes. Nothing
  // that counts more than the output has is read from it.
  void true_size(const Buffer& output, const Buffer& counter);
  Buffer temporary(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape);
  // One place for both programs of a virtual core of two physical ones (Program::physical_cores),
  // which each have a buffer of this name and size. What orders their accesses is in
  // pair_operations.h.
  Buffer shared_temporary(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape);
  // Memory at byte `offset` of the scratchpad, which the models of a core share: what it holds is
  // gone when another model executes. Such buffers may overlap, and are ordered so. Prepared
  // transfers reach it, generated ones do not.
  Buffer scratch(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape,
                 uint64_t offset);
  Buffer constant(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape,
                  std::vector<uint8_t> contents);
  // The contents come when the file is written, so that large ones need no memory before.
  Buffer streamed_constant(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape,
                           ConstantSource contents);

 protected:
  ~Buffers() = default;
  virtual Schedule& schedule_of_buffers() = 0;

  Buffer add(BufferInfo info);
  bool has_name(const std::string& name) const { return names_.contains(name); }

  std::vector<BufferInfo> buffers_;

 private:
  std::set<std::string> names_;
  std::optional<uint32_t> scratch_;  // The first buffer of it
};

}  // namespace neuron::builder

#endif
