// SPDX-License-Identifier: Apache-2.0
#include "runtime/debug/target.h"

#include <algorithm>

#include "hw/address_map.h"
#include "hw/control.h"

namespace neuron::debug {
namespace {

using runtime::fail;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

}  // namespace

bool EngineState::stopped() const {
  return state == NEURON_STATE_BREAK || state == NEURON_STATE_STOPPED;
}

std::optional<unsigned> engine_named(const std::string& name) {
  constexpr const char* kOthers[][2] = {{"tensor", "pe"},
                                        {"scalar", "activation"},
                                        {"gpsimd", "pool"},
                                        {"vector", "dve"},
                                        {"sync", "sp"}};
  std::string wanted = lower(name);
  for (const auto& [other, own] : kOthers) {
    if (wanted == other) wanted = own;
  }
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    if (lower(isa::engine_name(engine)) == wanted) return engine;
  }
  return std::nullopt;
}

uint64_t Target::engine_block(unsigned engine) const {
  return model_.core().place().window_bar0() + NEURON_CORE_ENGINE(engine);
}

Result<uint32_t> Target::read(uint64_t at) const {
  return model_.core().device().read_register(at);
}

Result<void> Target::write(uint64_t at, uint32_t value) const {
  return model_.core().device().write_register(at, value);
}

uint32_t Target::index_of(const Place& place) const {
  return static_cast<uint32_t>(place.pc + model_.image(place.engine).wrapper);
}

uint32_t Target::instructions(unsigned engine) const {
  const auto& image = model_.image(engine);
  return image.instructions - image.wrapper;
}

bool Target::has(const Place& place) const {
  const auto& image = model_.image(place.engine);
  return place.pc >= -static_cast<int64_t>(image.wrapper) && place.pc < instructions(place.engine);
}

Result<EngineState> Target::state(unsigned engine) const {
  const uint64_t block = engine_block(engine);
  EngineState state;
  NEURON_TRY(status, read(block + NEURON_ENG_STATUS));
  NEURON_TRY(pc, read(block + NEURON_ENG_PC));
  NEURON_TRY(waiting, read(block + NEURON_ENG_WAITING));
  NEURON_TRY(value, read(block + NEURON_ENG_WAIT_VAL));
  NEURON_TRY(low, read(block + NEURON_ENG_TIME_LO));
  NEURON_TRY(high, read(block + NEURON_ENG_TIME_HI));
  state.state = status & 0xF;
  state.at = {engine, static_cast<int64_t>(pc) - model_.image(engine).wrapper};
  state.waiting = waiting;
  state.wait_value = value;
  state.time_ps = uint64_t{high} << 32 | low;
  return state;
}

Result<uint32_t> Target::register_of(unsigned engine, unsigned number) const {
  return read(engine_block(engine) + NEURON_ENG_REG0 + 4ull * number);
}

Result<uint32_t> Target::semaphore(unsigned number) const {
  return read(model_.core().place().window_bar0() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_READ +
              4ull * number);
}

Result<std::vector<uint8_t>> Target::bytes(Memory memory, uint32_t partition, uint32_t offset,
                                           uint32_t count) const {
  const bool sbuf = memory == Memory::kSbuf;
  const uint64_t stride = sbuf ? NEURON_SBUF_PARTITION_STRIDE : NEURON_PSUM_PARTITION_STRIDE;
  if (partition >= NEURON_PARTITIONS || uint64_t{offset} + count > stride) {
    return fail(NRT_INVALID, "{} has {} partitions, and no {} bytes from {:#x} on",
                sbuf ? "SBUF" : "PSUM", NEURON_PARTITIONS, count, offset);
  }
  const uint64_t base = model_.core().place().window_bar0() +
                        (sbuf ? NEURON_CORE_SBUF : NEURON_CORE_PSUM) + partition * stride;
  std::vector<uint8_t> out;
  for (uint64_t at = offset & ~3ull; at < uint64_t{offset} + count; at += 4) {
    NEURON_TRY(word, read(base + at));
    for (unsigned n = 0; n < 4; ++n) {
      if (at + n < offset || out.size() == count) continue;
      out.push_back(static_cast<uint8_t>(word >> 8 * n));
    }
  }
  return out;
}

Result<void> Target::command(unsigned engine, uint32_t code, uint32_t steps) const {
  const uint64_t block = engine_block(engine);
  if (code == NEURON_CMD_STEP) NEURON_CHECK(write(block + NEURON_ENG_STEPS, steps));
  return write(block + NEURON_ENG_CONTROL, code);
}

Result<void> Target::set_breakpoints(const std::vector<Place>& places) const {
  std::array<std::array<uint32_t, kMostBreakpoints>, NEURON_CORE_ENGINES> words{};
  std::array<size_t, NEURON_CORE_ENGINES> counts{};
  for (const Place& place : places) {
    if (counts[place.engine] == kMostBreakpoints) {
      return fail(NRT_INVALID, "{} has {} breakpoints, which is all that an engine can have",
                  isa::engine_name(place.engine), kMostBreakpoints);
    }
    words[place.engine][counts[place.engine]++] = 1u << 31 | index_of(place);
  }
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    for (size_t n = 0; n < kMostBreakpoints; ++n) {
      NEURON_CHECK(write(engine_block(engine) + NEURON_ENG_BREAK0 + 4 * n, words[engine][n]));
    }
  }
  return {};
}

isa::Instruction Target::instruction(const Place& place) const {
  return isa::decode(isa::Bytes(
      model_.image(place.engine).code.data() + size_t{index_of(place)} * NEURON_INSTRUCTION_BYTES,
      NEURON_INSTRUCTION_BYTES));
}

std::string Target::text(const Place& place) const {
  return isa::disassemble(instruction(place), static_cast<int>(place.engine));
}

std::string Target::line(const Place& place) const {
  const auto& lines = model_.image(place.engine).lines;
  const uint32_t debug = instruction(place).debug;
  const auto found =
      std::lower_bound(lines.begin(), lines.end(), debug,
                       [](const auto& line, uint32_t wanted) { return line.debug < wanted; });
  if (place.pc < 0 || found == lines.end() || found->debug != debug) return {};
  return found->file + ":" + std::to_string(found->line);
}

std::string Target::section(const Place& place) const {
  const uint32_t debug = instruction(place).debug;
  for (const auto& range : model_.debug().functions) {
    if (place.pc >= 0 && debug >= range.first && debug <= range.last) return range.name;
  }
  return {};
}

std::optional<unsigned> Target::semaphore_number(const std::string& name) const {
  for (const auto& semaphore : model_.semaphores()) {
    if (semaphore.name == name) return semaphore.number;
  }
  return std::nullopt;
}

}  // namespace neuron::debug
