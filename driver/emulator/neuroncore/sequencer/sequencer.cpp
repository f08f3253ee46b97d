// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/sequencer/sequencer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "driver/base/abandonment.h"
#include "driver/isa/opcode_table.h"
#include "hw/address_map.h"

namespace neuron::core {
namespace {

constexpr uint32_t kMaxCached = 4096;

// Fixed size, so that the compiler emits a few vector compares instead of a call.
bool same_bytes(const std::byte* a, const std::byte* b) {
  using Vector = uint64_t __attribute__((vector_size(16)));
  Vector difference[2] = {};
#pragma GCC unroll 4
  for (size_t i = 0; i < NEURON_INSTRUCTION_BYTES; i += 32) {
    Vector x[2];
    Vector y[2];
    std::memcpy(x, a + i, 32);
    std::memcpy(y, b + i, 32);
    difference[0] |= x[0] ^ y[0];
    difference[1] |= x[1] ^ y[1];
  }
  const Vector all = difference[0] | difference[1];
  return (all[0] | all[1]) == 0;
}

bool uses_registers(const isa::Instruction& i) {
  for (const isa::Binding& b : i.bind) {
    if (b.mode != NEURON_BIND_UNUSED) return true;
  }
  return i.scalar0.kind == NEURON_SCALAR_REGISTER || i.scalar1.kind == NEURON_SCALAR_REGISTER;
}

void analyse(CachedInstruction& entry, unsigned engine, const isa::Limits& limits) {
  const isa::Bytes bytes(entry.bytes);
  entry.decoded = isa::decode(bytes);
  entry.encoding = isa::check_encoding(bytes, engine, limits);
  const isa::Instruction& i = entry.decoded;
  entry.dynamic = uses_registers(i);
  entry.operands = {};
  if (!entry.encoding && !entry.dynamic) {
    entry.operands = isa::check_operands(i, engine, limits);
    if (!entry.operands) entry.cost = cost_of(i, engine, limits.generation);
    entry.traced_shape = traced_shape_of(i, engine, limits.generation);
  }
  entry.waits = i.wait[0].condition != NEURON_WAIT_NONE || i.wait[1].condition != NEURON_WAIT_NONE;
  entry.meets = isa::meets_other_core(i.opcode);
  entry.target_epoch = 0;
  entry.updates =
      i.update[0].operation != NEURON_UPDATE_NONE || i.update[1].operation != NEURON_UPDATE_NONE;
}

}  // namespace

uint32_t traced_shape_of(const isa::Instruction& i, unsigned engine, unsigned generation) {
  if (i.opcode == NEURON_OP_CC_ADVANCE) return i.scalar0.value << 16 | (i.scalar1.value & 0xFFFF);
  const uint64_t elements = i.src0.present()  ? i.src0.elements()
                            : i.dst.present() ? i.dst.elements()
                                              : 0;
  const unsigned mode = isa::performance_mode(i, engine, generation);
  return static_cast<uint32_t>(elements) << 8 | (mode > 1 ? mode : 0);
}

void Sequencer::start(chip::Bus& bus) {
  ++epoch_;
  ++starts;
  current = nullptr;
  const uint64_t base = program_base();
  code_ = nullptr;
  if (prog_count == 0 || prog_count > NEURON_PROGRAM_MAX) return;
  const uint64_t bytes = uint64_t{prog_count} * NEURON_INSTRUCTION_BYTES;
  if (bus.layout().is_hbm(base)) {
    code_ = bus.direct(base, bytes);
  }
  const uint32_t wanted = std::min(std::bit_ceil(prog_count), kMaxCached);
  if (wanted > cache_size_) {
    // Without this memory the engine cannot fetch, and it reports that itself.
    cache_.reset(new (std::nothrow) CachedInstruction[wanted]);
    cache_size_ = cache_ != nullptr ? wanted : 0;
  }
}

void Sequencer::reset() {
  // Decoded code stays in the cache; it is compared with memory before it is used again.
  auto cache = std::move(cache_);
  const uint32_t size = cache_size_;
  const uint32_t epoch = epoch_;
  const Place kept = place;
  const unsigned number = engine;
  *this = Sequencer();
  cache_ = std::move(cache);
  cache_size_ = size;
  epoch_ = epoch;
  place = kept;
  engine = number;
}

const std::byte* Sequencer::code_at(chip::Bus& bus, uint32_t at) const {
  const size_t offset = size_t{at} * NEURON_INSTRUCTION_BYTES;
  return code_ != nullptr ? code_ + offset
                          : bus.direct(program_base() + offset, NEURON_INSTRUCTION_BYTES);
}

uint32_t Sequencer::innermost_loop(chip::Bus& bus, uint32_t target, CachedInstruction& jump) {
  if (jump.target_epoch == epoch_) return jump.target_loop;
  if (loops_epoch_ != epoch_) {
    loops_.clear();
    loops_known_ = 0;
    loops_epoch_ = epoch_;
  }
  // A loop body that holds the target begins before it.
  uint32_t steps = 0;
  for (; loops_known_ < target; ++loops_known_) {
    base::Abandonment::look_now_and_then(steps);
    const std::byte* code = code_at(bus, loops_known_);
    uint32_t head = NEURON_OP_NOP;
    uint32_t length = 0;
    if (code != nullptr) {
      std::memcpy(&head, code, sizeof head);
      std::memcpy(&length, code + NEURON_LOOP_LENGTH, sizeof length);
    }
    if ((head & NEURON_HEAD_OPCODE_MASK) != NEURON_OP_LOOP) continue;
    const uint64_t end = std::min<uint64_t>(uint64_t{loops_known_} + 1 + length, prog_count);
    loops_.push_back({loops_known_ + 1, static_cast<uint32_t>(end)});
  }
  jump.target_epoch = epoch_;
  jump.target_loop = 0;
  for (auto body = loops_.rbegin(); body != loops_.rend(); ++body) {
    if (body->first > target || target >= body->end) continue;
    jump.target_loop = body->first;
    break;
  }
  return jump.target_loop;
}

CachedInstruction* Sequencer::fetch(chip::Bus& bus, const isa::Limits& limits, Fault& fault) {
  if (pc >= prog_count) {
    fault = make_fault(NEURON_FAULT_PC_RANGE, program_base(), prog_count);
    return nullptr;
  }
  const uint64_t address = program_base() + uint64_t{pc} * NEURON_INSTRUCTION_BYTES;
  const std::byte* memory = code_at(bus, pc);
  if (memory == nullptr || address % NEURON_INSTRUCTION_BYTES != 0 || cache_size_ == 0) {
    fault = make_fault(NEURON_FAULT_FETCH, address);
    return nullptr;
  }
  CachedInstruction& entry = cache_[pc & (cache_size_ - 1)];
  if (entry.valid && entry.pc == pc && same_bytes(entry.bytes.data(), memory)) [[likely]] {
    entry.epoch = epoch_;
    return &entry;
  }
  if (entry.valid && entry.pc == pc && entry.epoch == epoch_) {
    fault = make_fault(NEURON_FAULT_CODE_WRITE, address);
    return nullptr;
  }
  std::memcpy(entry.bytes.data(), memory, NEURON_INSTRUCTION_BYTES);
  entry.pc = pc;
  entry.epoch = epoch_;
  entry.valid = true;
  analyse(entry, engine, limits);
  return &entry;
}

void Sequencer::add_pending(const PendingUpdate& update) {
  unsigned at = pending_count;
  while (at > 0 && pending[at - 1].time > update.time) {
    pending[at] = pending[at - 1];
    --at;
  }
  pending[at] = update;
  ++pending_count;
}

void Sequencer::pop_pending() {
  for (unsigned i = 1; i < pending_count; ++i) pending[i - 1] = pending[i];
  --pending_count;
}

}  // namespace neuron::core
