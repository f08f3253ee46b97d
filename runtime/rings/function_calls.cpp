// SPDX-License-Identifier: Apache-2.0
#include "runtime/rings/function_calls.h"

#include <algorithm>
#include <span>

#include "driver/isa/instruction.h"

namespace neuron::runtime {
namespace {

constexpr uint16_t kTarget = NEURON_INST_OP + 4;  // where flow instructions have their distance

isa::Instruction instruction_at(const neff::EngineProgram& program, uint32_t pc) {
  return isa::decode(std::as_bytes(std::span(program.code))
                         .subspan(size_t{pc} * NEURON_INSTRUCTION_BYTES)
                         .first<NEURON_INSTRUCTION_BYTES>());
}

// Whether the instruction behind this one is reached in another way only.
bool leaves(const isa::Instruction& i) {
  return i.opcode == NEURON_OP_RET || i.opcode == NEURON_OP_HALT ||
         (i.opcode == NEURON_OP_BRANCH && i.flow.condition == NEURON_BRANCH_ALWAYS);
}

}  // namespace

FunctionCalls::FunctionCalls(const neff::EngineProgram& program) : program_(program) {
  find_functions();
  read_instructions();
  sort();
}

const FunctionCalls::Function& FunctionCalls::of(uint32_t entry) const {
  static const Function none;
  const auto found = functions_.find(entry);
  return found == functions_.end() ? none : found->second;
}

void FunctionCalls::mark(std::optional<uint32_t> entry) {
  if (entry) functions_.at(*entry).understood = false;
}

void FunctionCalls::find_functions() {
  for (uint32_t entry = 0; entry < program_.entries.size(); ++entry) {
    const neff::ProgramEntry& place = program_.entries[entry];
    if (place.kind != NEURON_ENTRY_FUNCTION) continue;
    functions_.try_emplace(entry);
    const auto [other, added] = places_.try_emplace(place.pc, entry);
    // Two names of one place, of which a caller means either.
    if (!added) {
      mark(entry);
      mark(other->second);
    }
    if (place.length == 0 || uint64_t{place.pc} + place.length > program_.instructions()) {
      mark(entry);
    }
  }
  uint64_t end = 0;
  std::optional<uint32_t> longest;
  for (const auto& [pc, entry] : places_) {
    if (pc < end) {
      mark(entry);
      mark(longest);
    }
    const uint64_t its_end = uint64_t{pc} + program_.entries[entry].length;
    if (its_end <= end) continue;
    end = its_end;
    longest = entry;
  }
}

std::optional<uint32_t> FunctionCalls::holder(int64_t pc) const {
  if (pc < 0 || pc >= program_.instructions()) return std::nullopt;
  auto next = places_.upper_bound(static_cast<uint32_t>(pc));
  if (next == places_.begin()) return std::nullopt;
  const auto& [first, entry] = *std::prev(next);
  if (pc - first >= program_.entries[entry].length) return std::nullopt;
  return entry;
}

void FunctionCalls::read_jump(uint32_t pc, int64_t target, bool call) {
  const auto from = holder(pc), to = holder(target);
  if (!call) {
    if (from == to) return;
    mark(from);
    mark(to);
    return;
  }
  if (!to || program_.entries[*to].pc != target) {
    mark(to);
    mark(from);  // Nobody can say what it calls
    return;
  }
  Function& called = functions_.at(*to);
  called.calls.push_back(pc);
  if (!from) return;
  functions_.at(*from).callees.insert(*to);
  called.callers.insert(*from);
}

void FunctionCalls::read_instructions() {
  std::map<uint32_t, uint32_t> named;  // Targets that the file gives by name
  for (const neff::Relocation& relocation : program_.relocations) {
    if (relocation.kind != NEURON_RELOC_PC) continue;
    if (relocation.field != kTarget || relocation.target >= program_.entries.size()) {
      mark(holder(relocation.pc));
      continue;
    }
    named[relocation.pc] = program_.entries[relocation.target].pc;
  }
  bool reached = false;  // From the instruction in front
  for (uint32_t pc = 0; pc < program_.instructions(); ++pc) {
    const isa::Instruction i = instruction_at(program_, pc);
    const auto here = holder(pc);
    if (reached && here != holder(int64_t{pc} - 1)) {
      mark(here);
      mark(holder(int64_t{pc} - 1));
    }
    reached = !leaves(i);
    if (i.opcode == NEURON_OP_CALL || i.opcode == NEURON_OP_BRANCH) {
      const auto name = named.find(pc);
      read_jump(pc, name != named.end() ? int64_t{name->second} : int64_t{pc} + i.flow.target,
                i.opcode == NEURON_OP_CALL);
    } else if (i.opcode == NEURON_OP_LOOP && holder(int64_t{pc} + i.loop.length) != here) {
      mark(here);
    }
  }
  if (reached && program_.instructions() != 0) mark(holder(program_.instructions() - 1));
}

// From those that call nothing to their callers. What calls itself never comes.
void FunctionCalls::sort() {
  std::map<uint32_t, size_t> waits;
  for (const auto& [entry, function] : functions_) {
    if (!function.understood) continue;
    waits[entry] = function.callees.size();
    if (function.callees.empty()) order_.push_back(entry);
  }
  for (size_t next = 0; next < order_.size(); ++next) {
    known_.insert(order_[next]);
    for (const uint32_t caller : of(order_[next]).callers) {
      const auto found = waits.find(caller);
      if (found != waits.end() && --found->second == 0) order_.push_back(caller);
    }
  }
}

}  // namespace neuron::runtime
