// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what a core fetches: 128 bytes are decoded, checked, explained and, if the checks
// accept them, executed. Nothing may crash; what was accepted survives encoding; an instruction of
// a compute unit changes nothing but its destinations.
//
// An input: engine, flags (1 = bend the head of each instruction towards what the engine executes,
// 2 = without waits and breakpoints), four 16-bit registers, then up to four instructions.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/isa/cost.h"
#include "driver/isa/explain.h"
#include "driver/isa/opcode_table.h"
#include "hw/address_map.h"
#include "hw/control.h"

namespace {

using namespace neuron;
using isa::Instruction;
using Raw = std::array<std::byte, NEURON_INSTRUCTION_BYTES>;

constexpr uint64_t kCode = 0x100000;
constexpr size_t kHeader = 10, kMaxInstructions = 4;
constexpr unsigned kCoreEngines = NEURON_CORE_ENGINES;
constexpr uint64_t kMaxCells = 1 << 16;          // elements of all partitions of one operand
constexpr isa::ModelTime kMaxTime = 50'000'000;  // of one instruction: longer ones are only checked

[[noreturn]] void fail(const char* what, const Instruction& i) {
  std::fprintf(stderr, "%s: %s\n", what, isa::disassemble(i).c_str());
  std::abort();
}

class NoHostMemory final : public chip::HostMemory {
 public:
  std::byte* translate(uint64_t, size_t) override { return nullptr; }
};

struct Machine {
  Machine() {
    chip::ChipConfig config;
    config.hbm_bytes_each = 16u << 20;
    config.workers = 1;
    std::string error;
    chip = core::create_chip(config, host, error);
    if (chip == nullptr) {
      std::fprintf(stderr, "%s\n", error.c_str());
      std::abort();
    }
  }
  void set(unsigned engine, uint32_t at, uint32_t value) {
    chip->write_register(NEURON_CORE_ENGINE(engine) + at, value, true);
  }
  void run(unsigned engine, const std::vector<Instruction>& program) {
    std::byte* code = chip->hbm().direct(kCode, program.size() * NEURON_INSTRUCTION_BYTES);
    for (size_t n = 0; n < program.size(); ++n) {
      isa::encode(program[n],
                  isa::MutableBytes(code + n * NEURON_INSTRUCTION_BYTES, NEURON_INSTRUCTION_BYTES));
    }
    set(engine, NEURON_ENG_PROG_LO, kCode);
    set(engine, NEURON_ENG_PROG_HI, 0);
    set(engine, NEURON_ENG_PROG_COUNT, static_cast<uint32_t>(program.size()));
    set(engine, NEURON_ENG_ENTRY, 0);
    set(engine, NEURON_ENG_CONTROL, NEURON_CMD_START);
    chip->run_group(0, std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
  }
  NoHostMemory host;
  std::unique_ptr<chip::Chip> chip;
};

// Bytes of partitions that one destination may change.
struct Region {
  unsigned space, start, parts;
  int64_t first, last;
};

void add_region(std::vector<Region>& regions, const isa::Operand& o) {
  if (!o.present()) return;
  const int64_t bytes = isa::dtype_bytes(o.dtype);
  Region r{o.space, o.start, o.parts, o.base, o.base};
  for (unsigned d = 0; d < o.ndim; ++d) {
    const int64_t reach = (int64_t{o.size[d]} - 1) * o.step[d] * bytes;
    (reach < 0 ? r.first : r.last) += reach;
  }
  r.last += bytes - 1;
  regions.push_back(r);
}

std::vector<Region> destinations(const Instruction& i) {
  std::vector<Region> regions;
  if (i.group() < 2 || i.group() > 5) return regions;
  add_region(regions, i.dst);
  if (i.opcode == NEURON_OP_TOPK) add_region(regions, i.src1);
  if (i.opcode == NEURON_OP_MATCH_REPLACE8 && i.scalar1.present()) {
    regions.push_back({i.scalar1.space, i.scalar1.start, i.dst.parts, i.scalar1.value,
                       i.scalar1.value + 8 * int64_t{isa::dtype_bytes(i.scalar1.dtype)} - 1});
  }
  return regions;
}

// Words in and around the destinations that none of them names, with their values before.
class Guard {
 public:
  Guard(chip::Chip& chip, std::vector<Region> regions) : chip_(chip), regions_(std::move(regions)) {
    for (const Region& r : regions_) {
      const int64_t first = r.first & ~int64_t{3}, last = r.last & ~int64_t{3};
      for (int p = int{static_cast<int>(r.start)} - 1; p <= static_cast<int>(r.start + r.parts);
           ++p) {
        for (const int64_t at : {first - 8, first - 4, first, last, last + 4, last + 8}) {
          watch(r.space, p, at);
        }
      }
    }
  }
  bool intact() const {
    return std::all_of(words_.begin(), words_.end(), [&](const Word& w) {
      uint32_t value = 0;
      return chip_.bus().read32(w.address, value, {}) && value == w.value;
    });
  }

 private:
  struct Word {
    uint64_t address;
    uint32_t value;
  };
  void watch(unsigned space, int partition, int64_t at) {
    const bool psum = space == NEURON_SPACE_PSUM;
    const int64_t limit = psum ? NEURON_PSUM_PARTITION_BYTES : NEURON_V2_SBUF_PARTITION_BYTES;
    if (partition < 0 || partition >= NEURON_PARTITIONS || at < 0 || at + 4 > limit) return;
    for (const Region& r : regions_) {
      if (r.space == space && partition >= static_cast<int>(r.start) &&
          partition < static_cast<int>(r.start + r.parts) && at + 3 >= r.first && at <= r.last) {
        return;
      }
    }
    const uint64_t window = NEURON_V2_BAR0_DEVICE_BASE;
    const auto row = static_cast<uint64_t>(partition);
    const uint64_t address = window + static_cast<uint64_t>(at) +
                             (psum ? NEURON_CORE_PSUM + row * NEURON_PSUM_PARTITION_STRIDE
                                   : row * NEURON_SBUF_PARTITION_STRIDE);
    uint32_t value = 0;
    if (chip_.bus().read32(address, value, {})) words_.push_back({address, value});
  }
  chip::Chip& chip_;
  std::vector<Region> regions_;
  std::vector<Word> words_;
};

bool is_dynamic(const Instruction& i) {
  bool dynamic =
      i.scalar0.kind == NEURON_SCALAR_REGISTER || i.scalar1.kind == NEURON_SCALAR_REGISTER;
  for (const isa::Binding& b : i.bind) dynamic |= b.mode != NEURON_BIND_UNUSED;
  return dynamic;
}

// Small enough to run in a fuzzer. A stream may be long without an end; registers may make one so.
bool is_small(const Instruction& i, unsigned engine) {
  for (const isa::Operand* o : {&i.dst, &i.src0, &i.src1}) {
    if (o->present() && o->elements() * o->parts > kMaxCells) return false;
  }
  if (i.opcode == NEURON_OP_DMA_GENERATE && is_dynamic(i)) return false;
  return isa::cost_of(i, engine).interval <= kMaxTime;
}

void bend(Raw& bytes, unsigned engine) {
  uint16_t wanted = 0;
  std::memcpy(&wanted, bytes.data(), 2);
  const auto opcodes = isa::all_opcodes();
  uint16_t opcode = wanted & NEURON_HEAD_OPCODE_MASK;
  if (isa::find_opcode(opcode) == nullptr) opcode = opcodes[wanted % opcodes.size()].opcode;
  Instruction i = isa::decode(isa::Bytes(bytes));
  const uint16_t head = opcode | NEURON_ISA_VERSION << NEURON_HEAD_ISA_SHIFT;
  std::memcpy(bytes.data(), &head, 2);
  i = isa::decode(isa::Bytes(bytes));
  i.engines |= 1u << engine;
  i.size = 0;
  i.rounding %= 3;
  isa::encode(i, isa::MutableBytes(bytes));  // drops bits behind the slots of the opcode
}

bool accepted(const Raw& bytes, Instruction& i, unsigned engine) {
  i = isa::decode(isa::Bytes(bytes));
  isa::Violation v = isa::check_encoding(isa::Bytes(bytes), engine, {});
  const isa::Violation w = isa::check_operands(i, engine, {});
  (void)isa::describe(v, i);
  (void)isa::describe(w, i);
  if (isa::disassemble(i, static_cast<int>(engine)).empty()) fail("no text", i);
  (void)isa::to_text(isa::explain(i, engine));
  if (v) return false;
  Raw again{};
  isa::encode(i, isa::MutableBytes(again));
  if (again != bytes) fail("an accepted instruction changed on its way round", i);
  return !w || is_dynamic(i);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Machine machine;
  if (size < kHeader + NEURON_INSTRUCTION_BYTES) return 0;
  const unsigned engine = data[0] % (kCoreEngines + 1);
  const unsigned flags = data[1];
  std::vector<Instruction> program;
  for (unsigned r = 0; r < 4; ++r) {
    Instruction i;
    i.opcode = NEURON_OP_MOV;
    i.engines = static_cast<uint8_t>(1u << engine);
    i.flow.rd = static_cast<uint8_t>(r);
    i.scalar0 = {static_cast<uint32_t>(data[2 + 2 * r] | data[3 + 2 * r] << 8),
                 NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_NONE, 0, 0};
    program.push_back(i);
  }
  const size_t count = std::min((size - kHeader) / NEURON_INSTRUCTION_BYTES, kMaxInstructions);
  std::vector<Region> regions;
  bool bounded = true;  // every change lies in the regions
  for (size_t n = 0; n < count; ++n) {
    Raw bytes;
    std::memcpy(bytes.data(), data + kHeader + n * NEURON_INSTRUCTION_BYTES, bytes.size());
    if (flags & 1) bend(bytes, engine);
    Instruction i;
    if (!accepted(bytes, i, engine) || engine >= kCoreEngines) continue;
    if (!is_small(i, engine)) continue;
    if (flags & 2) {
      i.wait = {};
      i.brk = false;
    }
    const bool compute = i.group() >= 2 && i.group() <= 5;
    bounded = bounded && compute && !is_dynamic(i);
    for (const Region& r : destinations(i)) regions.push_back(r);
    program.push_back(i);
  }
  if (program.size() == 4) return 0;
  Instruction halt;
  halt.opcode = NEURON_OP_HALT;
  halt.engines = static_cast<uint8_t>(1u << engine);
  program.push_back(halt);
  const Guard guard(*machine.chip, bounded ? regions : std::vector<Region>{});
  machine.run(engine, program);
  if (!guard.intact()) fail("bytes outside the destinations have changed", program[4]);
  machine.chip->reset(1);
  return 0;
}
