// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/operators/operator_call.h"

#include <cstddef>
#include <cstring>

#include "driver/isa/instruction.h"

namespace neuron::core {
namespace {

Fault malformed(size_t byte) {
  return operator_failure(NEURON_OPERATOR_DESCRIPTION, 0, static_cast<uint32_t>(byte));
}

template <class T>
Fault read_object(const chip::Bus& bus, const chip::Access& access, uint64_t address, T& object) {
  if (bus.read(address, std::as_writable_bytes(std::span(&object, 1)), access)) return {};
  return refused_access(bus, address, sizeof(object));
}

size_t offset_of_argument(unsigned number) {
  return offsetof(neuron_operator_description, argument) +
         number * sizeof(neuron_operator_argument);
}

}  // namespace

Fault refused_access(const chip::Bus& bus, uint64_t address, uint64_t bytes) {
  uint32_t id = 0;
  const neuron_fault code = bus.refusal(address, id);
  return make_fault(code, address, code == NEURON_FAULT_LINK ? id : static_cast<uint32_t>(bytes));
}

Fault OperatorCall::read(const chip::Bus& bus, const chip::Access& access, uint64_t table) {
  std::array<uint64_t, NEURON_CALL_TENSORS> head;
  if (Fault fault = read_object(bus, access, table, head)) return fault;
  image_ = head[NEURON_CALL_IMAGE];
  if (Fault fault = read_object(bus, access, head[NEURON_CALL_DESCRIPTION], description_)) {
    return fault;
  }
  if (Fault fault = check()) return fault;
  for (unsigned t = 0; t < tensor_count_; ++t) {
    const uint64_t word = table + sizeof(uint64_t) * (NEURON_CALL_TENSORS + t);
    if (Fault fault = read_object(bus, access, word, tensors_[t].address)) return fault;
  }
  return {};
}

Fault OperatorCall::check() {
  const neuron_operator_description& d = description_;
  if (d.magic != NEURON_OPERATOR_MAGIC) return malformed(0);
  if (d.version != NEURON_OPERATOR_VERSION) return malformed(4);
  if ((d.flags & ~NEURON_OPERATOR_MULTICORE) != 0) return malformed(8);
  if (d.arguments == 0 || d.arguments > NEURON_OPERATOR_ARGUMENTS) return malformed(12);
  if (d.image_bytes == 0 || d.image_bytes > NEURON_OPERATOR_IMAGE_MAX) return malformed(16);
  if (d.zero != 0) return malformed(24);
  if (d.name[0] == '\0' || std::memchr(d.name, '\0', sizeof(d.name)) == nullptr) {
    return malformed(offsetof(neuron_operator_description, name));
  }
  uint64_t all = 0;
  tensor_count_ = 0;
  for (unsigned n = 0; n < d.arguments; ++n) {
    const neuron_operator_argument& argument = d.argument[n];
    const bool is_output = n + 1 == d.arguments;
    const bool is_tensor = argument.kind == NEURON_OPERATOR_TENSOR;
    if (argument.kind < NEURON_OPERATOR_TENSOR || argument.kind > NEURON_OPERATOR_SCALAR_INT ||
        argument.offset != 0 || (is_output && !is_tensor)) {
      return malformed(offset_of_argument(n));
    }
    if (!is_tensor) continue;
    if (argument.dimensions > NEURON_OPERATOR_DIMENSIONS) return malformed(offset_of_argument(n));
    uint64_t bytes = isa::dtype_bytes(argument.dtype);
    for (unsigned i = 0; i < argument.dimensions; ++i) {
      if (argument.size[i] == 0 || argument.size[i] > NEURON_OPERATOR_DIMENSION_MAX) bytes = 0;
      bytes *= argument.size[i];  // below 2^26 before, so that it cannot overflow
      if (bytes > NEURON_OPERATOR_TENSORS_MAX) bytes = 0;
    }
    all += bytes;
    if (bytes == 0 || all > NEURON_OPERATOR_TENSORS_MAX) return malformed(offset_of_argument(n));
    tensors_[tensor_count_++] = {n, 0, bytes};
  }
  return {};
}

}  // namespace neuron::core
