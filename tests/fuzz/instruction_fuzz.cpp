// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what a core fetches: 128 bytes are decoded, checked, explained and, if the checks
// accept them, executed. Nothing may crash; what was accepted survives encoding; an instruction of
// a compute unit changes nothing but its destinations.
//
// An input: engine, flags (1 = bend the head of each instruction towards what the engine executes,
// 2 = without waits and breakpoints, bits 3:2 = generation 2, 3 or 4, bit 4 = strict mode, on
// memory that was written before), four 16-bit registers, then up to four instructions. Where one
// of them lets two cores meet, both cores of the pair execute the program.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
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

// Where a word of SBUF or PSUM can be read; false: there is none.
using ReadWord = std::function<bool(unsigned space, unsigned row, int64_t at, uint32_t& value)>;

constexpr uint16_t kDevices[] = {NEURON_PCI_DEVICE_TRN1, NEURON_PCI_DEVICE_TRN2,
                                 NEURON_PCI_DEVICE_TRN3};
// Where SBUF is written before a program runs in strict mode: bytes of each partition.
constexpr uint32_t kWritten = 0x10000;

struct Machine {
  Machine(unsigned generation, bool strict) : first_window(window_of(generation, 0)) {
    second_window = window_of(generation, 1);
    ::setenv("NEURON_EMULATOR_STRICT", strict ? "1" : "0", 1);
    chip::ChipConfig config;
    config.pci_device = kDevices[generation - 2];
    config.hbm_bytes_each = 16u << 20;
    config.workers = 1;
    std::string error;
    chip = core::create_chip(config, host, error);
    if (chip == nullptr) {
      std::fprintf(stderr, "%s\n", error.c_str());
      std::abort();
    }
  }
  static uint64_t window_of(unsigned generation, unsigned core) {
    return generation == 2 ? NEURON_V2_CORE_WINDOW(core) : NEURON_V3_CORE_WINDOW(core);
  }
  bool read(unsigned space, unsigned row, int64_t at, uint32_t& value) {
    const uint64_t base = chip->bus().layout().core_address(0) + static_cast<uint64_t>(at);
    return chip->bus().read32(space == NEURON_SPACE_PSUM
                                  ? base + NEURON_CORE_PSUM + row * NEURON_PSUM_PARTITION_STRIDE
                                  : base + row * NEURON_SBUF_PARTITION_STRIDE,
                              value, {});
  }
  void start(uint64_t window, uint64_t code, unsigned engine,
             const std::vector<Instruction>& program) {
    std::byte* bytes = chip->hbm().direct(code, program.size() * NEURON_INSTRUCTION_BYTES);
    for (size_t n = 0; n < program.size(); ++n) {
      isa::encode(program[n], isa::MutableBytes(bytes + n * NEURON_INSTRUCTION_BYTES,
                                                NEURON_INSTRUCTION_BYTES));
    }
    const auto set = [&](uint32_t at, uint64_t value) {
      chip->write_register(window + NEURON_CORE_ENGINE(engine) + at, static_cast<uint32_t>(value),
                           true);
    };
    set(NEURON_ENG_PROG_LO, code);
    set(NEURON_ENG_PROG_HI, 0);
    set(NEURON_ENG_PROG_COUNT, program.size());
    set(NEURON_ENG_ENTRY, 0);
    set(NEURON_ENG_CONTROL, NEURON_CMD_START);
  }
  void run(unsigned engine, const std::vector<Instruction>& program, bool pair) {
    start(first_window, kCode, engine, program);
    if (pair) start(second_window, kCode + 0x10000, engine, program);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    // Each meeting needs both; without one, a second look finds nothing to do.
    for (size_t turn = 0; turn < (pair ? program.size() : 1); ++turn) {
      chip->run_slice(0, end);
      if (pair) chip->run_slice(1, end);
    }
  }
  NoHostMemory host;
  std::unique_ptr<chip::Chip> chip;
  const uint64_t first_window;
  uint64_t second_window = 0;
};

// One for each generation, with strict mode and without; made when first needed.
Machine& machine_of(unsigned generation, bool strict) {
  static std::array<std::unique_ptr<Machine>, 6> all;
  auto& machine = all[2 * (generation - 2) + (strict ? 1 : 0)];
  if (machine == nullptr) machine = std::make_unique<Machine>(generation, strict);
  return *machine;
}

// What writes SBUF and PSUM, for strict mode.
std::vector<Instruction> writes() {
  std::vector<Instruction> program;
  for (const unsigned space : {NEURON_SPACE_SBUF, NEURON_SPACE_PSUM}) {
    Instruction i;
    i.opcode = NEURON_OP_MEMSET;
    i.engines = 1u << NEURON_ENGINE_DVE;
    i.dst.space = static_cast<uint8_t>(space);
    i.dst.parts = NEURON_PARTITIONS;
    i.dst.dtype = NEURON_DTYPE_F32;
    i.dst.ndim = 1;
    i.dst.size[0] = space == NEURON_SPACE_SBUF ? kWritten / 4 : NEURON_PSUM_PARTITION_BYTES / 4;
    i.dst.step[0] = 1;
    i.vector.imm = 0x3F800000;
    program.push_back(i);
  }
  Instruction halt;
  halt.opcode = NEURON_OP_HALT;
  halt.engines = 1u << NEURON_ENGINE_DVE;
  halt.drain = true;
  program.push_back(halt);
  return program;
}

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
  // Wherever its offsets may lead.
  if (o.indirect) r.last = NEURON_V4_SBUF_PARTITION_BYTES - 1;
  regions.push_back(r);
}

std::vector<Region> destinations(const Instruction& i) {
  std::vector<Region> regions;
  if (i.group() < 2 || i.group() > 5) return regions;
  add_region(regions, i.dst);
  if (i.opcode == NEURON_OP_TOPK) add_region(regions, i.src1);
  if (i.opcode == NEURON_OP_QUANTIZE_MX) {
    isa::Operand scales = i.src1;  // of up to 32 partitions: rows up to 15 of the quadrant
    scales.parts = std::max<uint8_t>(scales.parts, 16);
    add_region(regions, scales);
  }
  if (i.opcode == NEURON_OP_MATCH_REPLACE8 && i.scalar1.present()) {
    regions.push_back({i.scalar1.space, i.scalar1.start, i.dst.parts, i.scalar1.value,
                       i.scalar1.value + 8 * int64_t{isa::dtype_bytes(i.scalar1.dtype)} - 1});
  }
  return regions;
}

// Words in and around the destinations that none of them names, with their values before.
class Guard {
 public:
  Guard(ReadWord read, uint32_t sbuf_bytes, std::vector<Region> regions)
      : read_(std::move(read)), sbuf_bytes_(sbuf_bytes), regions_(std::move(regions)) {
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
      return read_(w.space, w.row, w.at, value) && value == w.value;
    });
  }

 private:
  struct Word {
    unsigned space, row;
    int64_t at;
    uint32_t value;
  };
  void watch(unsigned space, int partition, int64_t at) {
    const bool psum = space == NEURON_SPACE_PSUM;
    const int64_t limit = psum ? NEURON_PSUM_PARTITION_BYTES : sbuf_bytes_;
    if (partition < 0 || partition >= NEURON_PARTITIONS || at < 0 || at + 4 > limit) return;
    for (const Region& r : regions_) {
      if (r.space == space && partition >= static_cast<int>(r.start) &&
          partition < static_cast<int>(r.start + r.parts) && at + 3 >= r.first && at <= r.last) {
        return;
      }
    }
    const auto row = static_cast<unsigned>(partition);
    uint32_t value = 0;
    if (read_(space, row, at, value)) words_.push_back({space, row, at, value});
  }
  ReadWord read_;
  uint32_t sbuf_bytes_;
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
bool is_small(const Instruction& i, unsigned engine, unsigned generation) {
  for (const isa::Operand* o : {&i.dst, &i.src0, &i.src1}) {
    if (o->present() && o->elements() * o->parts > kMaxCells) return false;
  }
  if (i.opcode == NEURON_OP_DMA_GENERATE && is_dynamic(i)) return false;
  return isa::cost_of(i, engine, generation).interval <= kMaxTime;
}

// An indirect operand has one dimension and a place of its index, of a type that offsets have.
void bend_indirect(isa::Operand& operand) {
  if (!operand.indirect) return;
  constexpr uint8_t kTypes[] = {NEURON_DTYPE_U16, NEURON_DTYPE_I32, NEURON_DTYPE_U32};
  isa::IndexPlace index = operand.index();
  index.dtype = kTypes[index.dtype % 3];
  index.base &= ~3u;
  operand.ndim = 1;
  operand.step = {1, 0, 0, 0};
  operand.size = {operand.size[0], 0, 0, 0};
  operand.set_index(index);
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
  for (isa::Operand* operand : {&i.dst, &i.src0, &i.src1}) bend_indirect(*operand);
  isa::encode(i, isa::MutableBytes(bytes));  // drops bits behind the slots of the opcode
}

bool accepted(const Raw& bytes, Instruction& i, unsigned engine, const isa::Limits& limits) {
  i = isa::decode(isa::Bytes(bytes));
  isa::Violation v = isa::check_encoding(isa::Bytes(bytes), engine, limits);
  const isa::Violation w = isa::check_operands(i, engine, limits);
  (void)isa::describe(v, i);
  (void)isa::describe(w, i);
  if (isa::disassemble(i, static_cast<int>(engine)).empty()) fail("no text", i);
  (void)isa::to_text(isa::explain(i, engine, limits));
  if (v) return false;
  Raw again{};
  isa::encode(i, isa::MutableBytes(again));
  if (again != bytes) fail("an accepted instruction changed on its way round", i);
  return !w || is_dynamic(i);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < kHeader + NEURON_INSTRUCTION_BYTES) return 0;
  const unsigned engine = data[0] % (kCoreEngines + 1);
  const unsigned flags = data[1];
  const unsigned generation = 2 + (flags >> 2 & 3) % 3;
  const bool strict = (flags & 16) != 0;
  const isa::Limits limits = isa::limits_of(generation);
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
  bool pair = false;
  for (size_t n = 0; n < count; ++n) {
    Raw bytes;
    std::memcpy(bytes.data(), data + kHeader + n * NEURON_INSTRUCTION_BYTES, bytes.size());
    if (flags & 1) bend(bytes, engine);
    Instruction i;
    if (!accepted(bytes, i, engine, limits) || engine >= kCoreEngines) continue;
    if (!is_small(i, engine, generation)) continue;
    if (flags & 2) {
      if (!isa::meets_other_core(i.opcode)) i.wait = {};
      i.brk = false;
    }
    pair = pair || isa::meets_other_core(i.opcode);
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
  Machine& machine = machine_of(generation, strict);
  if (strict) machine.run(NEURON_ENGINE_DVE, writes(), generation > 2);
  const ReadWord read = [&](unsigned space, unsigned row, int64_t at, uint32_t& value) {
    return machine.read(space, row, at, value);
  };
  const Guard guard(read, limits.sbuf_partition_bytes, bounded ? regions : std::vector<Region>{});
  machine.run(engine, program, pair);
  if (!guard.intact()) fail("bytes outside the destinations have changed", program[4]);
  machine.chip->reset(3);
  return 0;
}
