// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/custom_call.h"

#include <algorithm>
#include <cstring>

namespace neuron::builder {

// Writes calls into a program.
class OperatorCaller {
 public:
  explicit OperatorCaller(Program& program) : program_(program) {}

  void list(const CustomCall& call, const Buffer& output);

 private:
  bool check(const CustomCall& call) const;
  Buffer bytes_constant(const std::string& name, std::vector<uint8_t> bytes);
  std::string free_name(const std::string& name) const;
  bool describe_tensor(const Buffer& buffer, bool write, neuron_operator_argument& argument);
  Buffer call_table(const CustomCall& call, const neuron_operator_description& description,
                    const std::vector<int32_t>& tensors);

  Program& program_;
};

// A constant of raw bytes; one with the same bytes is not stored twice.
Buffer OperatorCaller::bytes_constant(const std::string& name, std::vector<uint8_t> bytes) {
  for (size_t n = 0; n < program_.buffers_.size(); ++n) {
    const BufferInfo& info = program_.buffers_[n];
    if (info.kind == BufferKind::kConstant && info.dtype == NEURON_DTYPE_U8 &&
        info.contents == bytes) {
      return {static_cast<int32_t>(n), NEURON_DTYPE_U8, 1, bytes.size()};
    }
  }
  const uint64_t count = bytes.size();
  return program_.constant(free_name(name), NEURON_DTYPE_U8, {count}, std::move(bytes));
}

// `name`, or with a number behind it if a buffer has it.
std::string OperatorCaller::free_name(const std::string& name) const {
  std::string free = name;
  for (unsigned number = 2; program_.has_name(free); ++number) {
    free = name + "." + std::to_string(number);
  }
  return free;
}

bool OperatorCaller::describe_tensor(const Buffer& buffer, bool write,
                                     neuron_operator_argument& argument) {
  // The addresses of inputs and outputs come into the table when tensors are bound.
  if (!program_.check_buffer_side(buffer.all(), write)) return false;
  const BufferInfo& info = program_.buffers_[static_cast<size_t>(buffer.index)];
  argument.kind = NEURON_OPERATOR_TENSOR;
  argument.dtype = info.dtype;
  if (info.shape.size() > NEURON_OPERATOR_DIMENSIONS ||
      std::any_of(info.shape.begin(), info.shape.end(),
                  [](uint64_t size) { return size > NEURON_OPERATOR_DIMENSION_MAX; })) {
    program_.fail(runtime::fail(
        NRT_INVALID,
        "tensor \"{}\" of a custom operator has {} dimensions, expected at most {}, "
        "of at most {} elements",
        info.name, info.shape.size(), NEURON_OPERATOR_DIMENSIONS, NEURON_OPERATOR_DIMENSION_MAX));
    return false;
  }
  argument.dimensions = static_cast<uint32_t>(info.shape.size());
  std::copy(info.shape.begin(), info.shape.end(), argument.size);
  return true;
}

bool OperatorCaller::check(const CustomCall& call) const {
  if (!call.name.empty() && call.name.size() < NEURON_OPERATOR_NAME && !call.image.empty() &&
      call.image.size() <= NEURON_OPERATOR_IMAGE_MAX &&
      call.arguments.size() < NEURON_OPERATOR_ARGUMENTS) {
    return true;
  }
  program_.fail(runtime::fail(NRT_INVALID,
                              "custom operator \"{}\" has an image of {} bytes and {} arguments, "
                              "expected a name of 1 to {} "
                              "bytes, an image of at most {} and at most {} arguments",
                              call.name, call.image.size(), call.arguments.size(),
                              NEURON_OPERATOR_NAME - 1, NEURON_OPERATOR_IMAGE_MAX,
                              NEURON_OPERATOR_ARGUMENTS - 1));
  return false;
}

Buffer OperatorCaller::call_table(const CustomCall& call,
                                  const neuron_operator_description& description,
                                  const std::vector<int32_t>& tensors) {
  std::vector<uint8_t> bytes(sizeof(description));
  std::memcpy(bytes.data(), &description, sizeof(description));
  const Buffer image = bytes_constant(call.name + ".image", call.image);
  const Buffer described = bytes_constant(call.name + ".description", std::move(bytes));
  BufferInfo table;
  table.name = free_name(call.name);
  table.kind = BufferKind::kTable;
  table.dtype = NEURON_DTYPE_U64;
  table.shape = {NEURON_CALL_TENSORS + tensors.size()};
  table.list = {described.index, image.index};
  table.list.insert(table.list.end(), tensors.begin(), tensors.end());
  return program_.add(std::move(table));
}

void OperatorCaller::list(const CustomCall& call, const Buffer& output) {
  Schedule& schedule = program_.schedule_;
  schedule.journal().next_operation();
  if (!schedule.open() || !check(call)) return;
  neuron_operator_description description{};
  description.magic = NEURON_OPERATOR_MAGIC;
  description.version = NEURON_OPERATOR_VERSION;
  description.flags = call.multicore ? NEURON_OPERATOR_MULTICORE : 0;
  description.arguments = static_cast<uint32_t>(call.arguments.size() + 1);
  description.image_bytes = call.image.size();
  std::copy(call.name.begin(), call.name.end(), description.name);
  Draft draft(NEURON_OP_CUSTOM_OPERATOR, NEURON_ENGINE_POOL);
  draft.i.address.count = 1;
  std::vector<int32_t> tensors;
  for (size_t n = 0; n < call.arguments.size(); ++n) {
    const CustomArgument& from = call.arguments[n];
    neuron_operator_argument& argument = description.argument[n];
    argument.kind = from.kind;
    argument.value = from.value;
    if (from.kind != NEURON_OPERATOR_TENSOR) continue;
    if (!describe_tensor(from.tensor, false, argument)) return;
    tensors.push_back(from.tensor.index);
    draft.reads.push_back(region_of(from.tensor.all()));
  }
  if (!describe_tensor(output, true, description.argument[call.arguments.size()])) return;
  tensors.push_back(output.index);
  draft.reads.push_back(region_of(output.all()));  // it may write a part
  draft.writes.push_back(region_of(output.all()));
  const Buffer table = call_table(call, description, tensors);
  if (!program_.ok() || !program_.check_instruction(draft.engine, draft.i)) return;
  Schedule::Item item;
  item.engine = draft.engine;
  item.step.instruction = draft.i;
  item.step.addresses = {{NEURON_ADDRESS_ADDR, table.index, 0}};
  item.step.label = schedule.journal().label(0, output.index);
  item.reads = std::move(draft.reads);
  item.writes = std::move(draft.writes);
  schedule.add(std::move(item));
}

void custom_operator(Program& program, const CustomCall& call, const Buffer& output) {
  OperatorCaller(program).list(call, output);
}

}  // namespace neuron::builder
