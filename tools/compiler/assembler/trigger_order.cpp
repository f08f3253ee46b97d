// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/trigger_order.h"

#include <array>
#include <charconv>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "driver/isa/instruction.h"
#include "hw/neff_program.h"

namespace neuron::assembler {
namespace {

// Enough for any program that a person writes; a longer one is judged up to here.
constexpr uint32_t kMostSteps = 1u << 20;

using Known = std::optional<int64_t>;

class Walk {
 public:
  explicit Walk(const neff::EngineProgram& program);
  std::optional<WrongTrigger> run();

 private:
  // Queue set, instance, function + 1 (0: the main program).
  using Ring = std::tuple<uint32_t, std::string, uint32_t>;
  struct Contents {
    std::vector<uint32_t> transfers;  // indices into EngineProgram::dma
    size_t next = 0;
  };
  struct Loop {
    uint32_t first = 0, end = 0;
    uint8_t counter = 0;
    int64_t step = 1, limit = 0;
  };

  static Ring ring_of(const neff::DmaTransfer& transfer) {
    return {transfer.queue, transfer.instance, transfer.function ? *transfer.function + 1 : 0};
  }
  std::optional<uint32_t> function_of(uint32_t pc) const;
  const neff::DmaTransfer* named_by(uint32_t pc) const;
  std::optional<WrongTrigger> trigger(uint32_t pc);
  Known value_of(const isa::Scalar& scalar) const;
  uint32_t target_of(const isa::Instruction& i) const {
    const auto entry = calls_to_.find(pc_);
    return entry != calls_to_.end() ? entry->second : pc_ + static_cast<uint32_t>(i.flow.target);
  }
  // False: the way on depends on data.
  bool advance(const isa::Instruction& i);
  bool enter_loop(const isa::Instruction& i);
  bool branch(const isa::Instruction& i);
  void repeat_loops();

  const neff::EngineProgram& program_;
  std::map<Ring, Contents> rings_;
  std::map<uint32_t, uint32_t> blocks_;    // pc -> the id that its trigger names
  std::map<uint32_t, uint32_t> calls_to_;  // pc -> the entry that its call or branch names
  std::array<Known, NEURON_REGISTERS> registers_{};
  std::vector<Loop> loops_;
  std::vector<std::pair<uint32_t, size_t>> calls_;  // where to return to, loops that are open there
  uint32_t pc_ = 0;
};

Walk::Walk(const neff::EngineProgram& program) : program_(program) {
  for (uint32_t n = 0; n < program.dma.size(); ++n) {
    rings_[ring_of(program.dma[n])].transfers.push_back(n);
  }
  for (const neff::Relocation& relocation : program.relocations) {
    if (relocation.kind == NEURON_RELOC_PC) {
      for (const neff::ProgramEntry& entry : program.entries) {
        if (entry.name == relocation.symbol) calls_to_[relocation.pc] = entry.pc;
      }
    }
    if (relocation.kind != NEURON_RELOC_DMA_BLOCK) continue;
    uint32_t id = 0;
    const std::string& text = relocation.symbol;
    if (std::from_chars(text.data(), text.data() + text.size(), id).ec == std::errc()) {
      blocks_[relocation.pc] = id;
    }
  }
  pc_ = program.entries[program.main].pc;
}

std::optional<uint32_t> Walk::function_of(uint32_t pc) const {
  for (uint32_t n = 0; n < program_.entries.size(); ++n) {
    const neff::ProgramEntry& entry = program_.entries[n];
    if (entry.kind == NEURON_ENTRY_FUNCTION && pc >= entry.pc && pc - entry.pc < entry.length) {
      return n;
    }
  }
  return std::nullopt;
}

// The first transfer with the id that the trigger names, of the function around it or else of the
// main program.
const neff::DmaTransfer* Walk::named_by(uint32_t pc) const {
  const auto block = blocks_.find(pc);
  if (block == blocks_.end()) return nullptr;
  const auto function = function_of(pc);
  const neff::DmaTransfer* found = nullptr;
  for (const neff::DmaTransfer& transfer : program_.dma) {
    if (transfer.id != block->second) continue;
    if (transfer.function == function) return &transfer;
    if (found == nullptr) found = &transfer;
  }
  return found;
}

std::optional<WrongTrigger> Walk::trigger(uint32_t pc) {
  const neff::DmaTransfer* named = named_by(pc);
  if (named == nullptr) return std::nullopt;
  Contents& ring = rings_[ring_of(*named)];
  const auto index = static_cast<uint32_t>(named - program_.dma.data());
  if (ring.next == ring.transfers.size()) {
    if (!named->function) return WrongTrigger{pc, index, std::nullopt};
    ring.next = 0;  // a function's ring holds its transfers several times
  }
  const uint32_t next = ring.transfers[ring.next++];
  if (program_.dma[next].id == named->id) return std::nullopt;
  return WrongTrigger{pc, index, next};
}

Known Walk::value_of(const isa::Scalar& scalar) const {
  if (scalar.kind == NEURON_SCALAR_IMMEDIATE) return static_cast<int32_t>(scalar.value);
  if (scalar.kind == NEURON_SCALAR_REGISTER) return registers_[scalar.value % NEURON_REGISTERS];
  if (!scalar.present()) return 0;
  return std::nullopt;
}

bool Walk::enter_loop(const isa::Instruction& i) {
  const Known first = value_of(i.scalar0), limit = value_of(i.scalar1);
  if (!first || !limit || i.loop.step <= 0) return false;
  const uint32_t end = pc_ + 1 + i.loop.length;
  if (*first >= *limit) {
    pc_ = end;
    return true;
  }
  registers_[i.flow.rd % NEURON_REGISTERS] = first;
  loops_.push_back({pc_ + 1, end, i.flow.rd, i.loop.step, *limit});
  ++pc_;
  return true;
}

bool Walk::branch(const isa::Instruction& i) {
  bool taken = i.flow.condition == NEURON_BRANCH_ALWAYS;
  if (!taken) {
    const Known a = registers_[i.flow.ra % NEURON_REGISTERS];
    const Known b = i.flow.imm ? value_of(i.scalar0) : registers_[i.flow.rb % NEURON_REGISTERS];
    if (!a || !b || i.flow.is_unsigned) return false;
    const bool results[] = {true, *a == *b, *a != *b, *a<*b, *a <= *b, *a> * b, *a >= *b};
    taken = i.flow.condition < std::size(results) && results[i.flow.condition];
  }
  pc_ = taken ? target_of(i) : pc_ + 1;
  const size_t open = calls_.empty() ? 0 : calls_.back().second;
  while (taken && loops_.size() > open && (pc_ < loops_.back().first || pc_ >= loops_.back().end)) {
    loops_.pop_back();
  }
  return true;
}

// Goes back to the beginning of each loop whose end has been reached, if it runs again.
void Walk::repeat_loops() {
  const size_t open = calls_.empty() ? 0 : calls_.back().second;
  while (loops_.size() > open && pc_ == loops_.back().end) {
    const Loop& loop = loops_.back();
    Known& counter = registers_[loop.counter % NEURON_REGISTERS];
    if (counter && *counter + loop.step < loop.limit) {
      counter = *counter + loop.step;
      pc_ = loop.first;
      return;
    }
    loops_.pop_back();
  }
}

bool Walk::advance(const isa::Instruction& i) {
  Known& rd = registers_[i.flow.rd % NEURON_REGISTERS];
  switch (i.opcode) {
    case NEURON_OP_LOOP:
      return enter_loop(i);
    case NEURON_OP_BRANCH:
      return branch(i);
    case NEURON_OP_CALL:
      calls_.push_back({pc_ + 1, loops_.size()});
      pc_ = target_of(i);
      return calls_.size() <= NEURON_CALL_LEVELS;
    case NEURON_OP_RET:
      if (calls_.empty()) return false;
      pc_ = calls_.back().first;
      loops_.resize(calls_.back().second);
      calls_.pop_back();
      return true;
    case NEURON_OP_HALT:
      return false;
    case NEURON_OP_MOV:
      rd = value_of(i.scalar0);
      break;
    case NEURON_OP_ALU: {
      const Known a = registers_[i.flow.ra % NEURON_REGISTERS];
      const Known b = i.flow.imm ? value_of(i.scalar0) : registers_[i.flow.rb % NEURON_REGISTERS];
      const bool sum = i.flow.alu == NEURON_ALU_ADD;
      rd.reset();
      if (a && b && (sum || i.flow.alu == NEURON_ALU_SUB)) {
        rd = static_cast<int32_t>(sum ? *a + *b : *a - *b);
      }
      break;
    }
    case NEURON_OP_TIME:
      registers_[(i.flow.rd + 1u) % NEURON_REGISTERS].reset();
      [[fallthrough]];
    case NEURON_OP_LOAD:
    case NEURON_OP_SEM:
    case NEURON_OP_IDENT:
      rd.reset();
      break;
    default:
      break;
  }
  ++pc_;
  return true;
}

std::optional<WrongTrigger> Walk::run() {
  const auto* first = reinterpret_cast<const std::byte*>(program_.code.data());
  for (uint32_t step = 0; step < kMostSteps && pc_ < program_.instructions(); ++step) {
    const auto i = isa::decode(std::span<const std::byte, NEURON_INSTRUCTION_BYTES>(
        first + size_t{pc_} * NEURON_INSTRUCTION_BYTES, NEURON_INSTRUCTION_BYTES));
    if (i.opcode == NEURON_OP_DMA_TRIGGER) {
      if (auto wrong = trigger(pc_)) return wrong;
    }
    if (!advance(i)) break;
    repeat_loops();
  }
  return std::nullopt;
}

}  // namespace

std::optional<WrongTrigger> find_wrong_trigger(const neff::EngineProgram& program) {
  if (program.dma.empty() || program.main >= program.entries.size()) return std::nullopt;
  return Walk(program).run();
}

}  // namespace neuron::assembler
