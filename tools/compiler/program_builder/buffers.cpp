// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/buffers.h"

#include "driver/base/format.h"
#include "driver/isa/instruction.h"

namespace neuron::builder {

Buffer Buffers::add(BufferInfo info) {
  Journal& journal = schedule_of_buffers().journal();
  if (journal.error()) return {};
  if (!names_.insert(info.name).second) {
    journal.fail(runtime::fail(NRT_INVALID, "two buffers have the name \"{}\"", info.name));
    return {};
  }
  // The name is a key of def.json and, of a constant, a file.
  if (info.name.empty() || info.name.size() > 255 || info.name == Transfer::kOnChipName) {
    journal.fail(runtime::fail(NRT_INVALID,
                               "a buffer has the name \"{}\"; give 1 to 255 bytes other than "
                               "\"{}\"",
                               info.name, Transfer::kOnChipName));
    return {};
  }
  const unsigned element = isa::dtype_bytes(info.dtype);
  uint64_t count = 1;
  for (uint64_t size : info.shape) {
    if (size == 0 || size > (uint64_t{1} << 40) / count) count = 0;
    if (count == 0) break;
    count *= size;
  }
  if (element == 0 || count == 0) {
    journal.fail(runtime::fail(
        NRT_INVALID, "buffer \"{}\" has data type {} and a dimension of 0 or too many elements",
        info.name, isa::dtype_name(info.dtype)));
    return {};
  }
  info.bytes = count * element;
  if (info.kind == BufferKind::kConstant && !info.source && info.contents.size() != info.bytes) {
    journal.fail(runtime::fail(NRT_INVALID, "constant \"{}\" has {} bytes, its shape asks for {}",
                               info.name, info.contents.size(), info.bytes));
    return {};
  }
  Buffer buffer;
  buffer.index = static_cast<int32_t>(buffers_.size());
  buffer.dtype = info.dtype;
  buffer.columns = info.shape.empty() ? 1 : info.shape.back();
  buffer.rows = count / buffer.columns;
  buffers_.push_back(std::move(info));
  return buffer;
}

Buffer Buffers::input(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape) {
  return add({.name = name, .kind = BufferKind::kInput, .dtype = dtype, .shape = std::move(shape)});
}

Buffer Buffers::output(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape,
                       const std::string& donor) {
  const Buffer buffer =
      add({.name = name, .kind = BufferKind::kOutput, .dtype = dtype, .shape = std::move(shape)});
  if (donor.empty() || !buffer.present()) return buffer;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].name != donor || buffers_[i].kind != BufferKind::kInput ||
        buffers_[i].bytes != buffers_.back().bytes) {
      continue;
    }
    schedule_of_buffers().same_memory(static_cast<uint32_t>(buffer.index),
                                      static_cast<uint32_t>(i));
    return buffer;
  }
  schedule_of_buffers().journal().fail(
      runtime::fail(NRT_INVALID,
                    "output \"{}\" is to have the memory of input \"{}\", which does not exist or "
                    "has another size",
                    name, donor));
  return {};
}

void Buffers::true_size(const Buffer& output, const Buffer& counter) {
  Journal& journal = schedule_of_buffers().journal();
  if (journal.error() || !output.present() || !counter.present()) return;
  BufferInfo& told = buffers_[static_cast<size_t>(output.index)];
  const BufferInfo& word = buffers_[static_cast<size_t>(counter.index)];
  if (told.kind != BufferKind::kOutput) {
    journal.fail(runtime::fail(
        NRT_INVALID, "buffer \"{}\" is to tell its true size, but is no output", told.name));
    return;
  }
  if (word.kind != BufferKind::kTemporary ||
      (word.dtype != NEURON_DTYPE_I32 && word.dtype != NEURON_DTYPE_U32)) {
    journal.fail(runtime::fail(NRT_INVALID,
                               "the true size of output \"{}\" is counted in buffer \"{}\" of type "
                               "{}; expected a temporary buffer of type i32 or u32",
                               told.name, word.name, isa::dtype_name(word.dtype)));
    return;
  }
  told.counter = counter.index;
  told.counted_bytes = isa::dtype_bytes(told.dtype);
}

Buffer Buffers::temporary(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape) {
  return add(
      {.name = name, .kind = BufferKind::kTemporary, .dtype = dtype, .shape = std::move(shape)});
}

Buffer Buffers::shared_temporary(const std::string& name, uint8_t dtype,
                                 std::vector<uint64_t> shape) {
  return add({.name = name,
              .kind = BufferKind::kTemporary,
              .dtype = dtype,
              .shape = std::move(shape),
              .shared = true});
}

Buffer Buffers::scratch(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape,
                        uint64_t offset) {
  const Buffer buffer = add({.name = name,
                             .kind = BufferKind::kScratch,
                             .dtype = dtype,
                             .shape = std::move(shape),
                             .offset = offset});
  if (!buffer.present()) return buffer;
  const auto number = static_cast<uint32_t>(buffer.index);
  if (!scratch_) scratch_ = number;
  schedule_of_buffers().same_memory(number, *scratch_, offset);
  return buffer;
}

Buffer Buffers::constant(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape,
                         std::vector<uint8_t> contents) {
  return add({.name = name,
              .kind = BufferKind::kConstant,
              .dtype = dtype,
              .shape = std::move(shape),
              .contents = std::move(contents)});
}

Buffer Buffers::streamed_constant(const std::string& name, uint8_t dtype,
                                  std::vector<uint64_t> shape, ConstantSource contents) {
  return add({.name = name,
              .kind = BufferKind::kConstant,
              .dtype = dtype,
              .shape = std::move(shape),
              .source = std::move(contents)});
}

}  // namespace neuron::builder
