// SPDX-License-Identifier: Apache-2.0
#include "driver/isa/explain.h"

#include <cinttypes>

#include "driver/isa/cost.h"
#include "driver/isa/indirection.h"
#include "driver/isa/line.h"
#include "driver/isa/opcode_table.h"
#include "driver/isa/rules.h"

namespace neuron::isa {
namespace {

constexpr uint8_t kEveryEngine = 0x3F;

std::string engine_list(unsigned mask) {
  if (mask == kEveryEngine) return "all engines";
  std::string text;
  for (unsigned e = 0; e < 6; ++e) {
    if (!(mask >> e & 1)) continue;
    if (!text.empty()) text += ", ";
    text += engine_name(e);
  }
  return text;
}

// The rules that every instruction of the group obeys, beside the rules of its opcode.
void common_rules(const OpcodeInfo& info, std::vector<std::string>& rules) {
  const unsigned group = info.opcode >> 8;
  if (group < 2 || group > 6 || !((info.required | info.optional) & (kSlotDst | kSlotSrc0))) return;
  rules.emplace_back(
      "R1: up to 32 partitions start at 0, 32, 64 or 96, up to 64 at 0 or 64, more at 0");
  rules.emplace_back(
      "R2: at most 4 free dimensions; every element lies in its partition, aligned to its size");
  rules.emplace_back("R3: elements have 1, 2 or 4 bytes; arithmetic is in fp32");
  if (takes_int64(info.opcode)) {
    rules.emplace_back(
        "R3: on Pool, from generation 3 on, also i64 and u64, which wrap in 64 bits and take twice "
        "the cycles behind the start; operands of one type (tensor_copy converts), integer "
        "scalars");
  }
  if (group == 5 || group == 6 || (info.engines >> NEURON_ENGINE_POOL & 1)) {
    rules.emplace_back("R5: Pool reaches SBUF only");
  }
  unsigned indirect = 0;
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const bool executes = ((info.engines | info.engines_v3) >> engine & 1) != 0;
    if (executes) indirect |= indirect_operands(info.opcode, engine);
  }
  if (indirect != 0) {
    std::string names;
    for (unsigned o = 0; o < 3; ++o) {
      if ((indirect >> o & 1) == 0) continue;
      names += (names.empty() ? "" : ", ") + std::string(o == 0 ? "dst" : o == 1 ? "src0" : "src1");
    }
    rules.push_back("R7: from generation 4 on " + names +
                    " may be indirect: n elements by offsets in SBUF; a source starts on the "
                    "partition of its index");
  }
  const bool accumulates = info.word == OpWord::kVector && (info.op_bits >> 20 & 7) != 0;
  if (info.word == OpWord::kAct || accumulates || info.opcode == NEURON_OP_READ_ACC) {
    rules.emplace_back(
        "R8: one 32-bit accumulator per partition; idle, reset, reduce, "
        "reset_reduce, load_reduce");
  }
}

void split_rules(const char* text, std::vector<std::string>& rules) {
  const std::string all = text;
  for (size_t from = 0; from < all.size();) {
    size_t to = all.find("; ", from);
    if (to == std::string::npos) to = all.size();
    rules.push_back(all.substr(from, to - from));
    from = to + 2;
  }
}

// True if registers complete an operand, which then cannot be judged here.
bool is_dynamic(const Instruction& i) {
  bool dynamic =
      i.scalar0.kind == NEURON_SCALAR_REGISTER || i.scalar1.kind == NEURON_SCALAR_REGISTER;
  for (const Binding& bind : i.bind) dynamic |= bind.mode != NEURON_BIND_UNUSED;
  return dynamic;
}

// The values of a field whose names the assembler knows, as far as `accepts` takes them.
template <class Name, class Accepts>
std::string names_of(unsigned count, const Name& name, const Accepts& accepts) {
  std::string text;
  for (unsigned value = 0; value < count; ++value) {
    const std::string word = name(value);
    if (word == "?" || !accepts(value)) continue;
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

constexpr unsigned kAluNumbers = 64, kFunctionNumbers = 128, kDtypeNumbers = 32;

enum class Field { kFunction, kFirst, kSecond, kReduce, kReduceOfAct, kRegister };

void set_field(Instruction& i, Field field, uint8_t value) {
  switch (field) {
    case Field::kFunction:
      i.act.function = value;
      break;
    case Field::kFirst:
      i.vector.op0 = value;
      break;
    case Field::kSecond:
      i.vector.op1 = value;
      break;
    case Field::kReduce:
      i.vector.reduce = value;
      break;
    case Field::kReduceOfAct:
      i.act.reduce = value;
      break;
    case Field::kRegister:
      i.flow.alu = value;
      break;
  }
}

// Whether the rules accept some instruction of the opcode with this value in the field: with the
// scalars, the other operation and the command of the accumulator that go with it.
bool is_possible(unsigned opcode, unsigned engine, const Limits& limits, Field field,
                 uint8_t value) {
  if (field == Field::kRegister) return is_register_alu(value);
  constexpr uint8_t kOthers[] = {NEURON_ALU_BYPASS, NEURON_ALU_ADD, NEURON_ALU_MUL, NEURON_ALU_AND,
                                 NEURON_ALU_EQ};
  for (unsigned variant = 0; variant < 4 * std::size(kOthers) * 2; ++variant) {
    Instruction i;
    i.opcode = static_cast<uint16_t>(opcode);
    i.scalar0.kind = (variant & 1) != 0 ? NEURON_SCALAR_IMMEDIATE : NEURON_SCALAR_ABSENT;
    i.scalar1.kind = (variant & 2) != 0 ? NEURON_SCALAR_IMMEDIATE : NEURON_SCALAR_ABSENT;
    const uint8_t other = kOthers[variant / 4 % std::size(kOthers)];
    const bool accumulates = variant / (4 * std::size(kOthers)) != 0;
    i.vector.op0 = i.vector.op1 = other;
    i.vector.axes = 1;
    i.vector.reduce = NEURON_ALU_ADD;
    i.vector.reduce_command = i.act.reduce_command =
        accumulates ? NEURON_REDUCE_ACCUMULATE : NEURON_REDUCE_IDLE;
    i.act.reduce = accumulates ? NEURON_ALU_ADD : NEURON_ALU_BYPASS;
    set_field(i, field, value);
    if (!check_operations(i, engine, limits)) return true;
  }
  return false;
}

std::vector<std::pair<std::string, std::string>> choices_of(unsigned engine, const Limits& limits,
                                                            const OpcodeInfo& info) {
  std::vector<std::pair<std::string, std::string>> choices;
  const auto add = [&](const char* what, Field field) {
    const bool function = field == Field::kFunction;
    const std::string names = names_of(
        function ? kFunctionNumbers : kAluNumbers,
        [&](unsigned n) { return function ? activation_name(n) : alu_name(n); },
        [&](unsigned n) {
          return is_possible(info.opcode, engine, limits, field, static_cast<uint8_t>(n));
        });
    if (!names.empty()) choices.emplace_back(what, names);
  };
  const bool vector = info.word == OpWord::kVector || info.word == OpWord::kPool;
  const bool act = info.word == OpWord::kAct;
  if (act && (info.op_bits & 0xFF) != 0) add("functions", Field::kFunction);
  if (vector && (info.op_bits & 0x3F) != 0) {
    const bool two = info.word == OpWord::kVector && (info.op_bits >> 6 & 0x3F) != 0;
    add(two ? "op0" : "op", Field::kFirst);
    if (two) add("op1", Field::kSecond);
  }
  if (info.word == OpWord::kVector && (info.op_bits >> 14 & 0x3F) != 0) {
    add("reduce", Field::kReduce);
  }
  if (act && (info.op_bits >> 16 & 0x3F) != 0) add("reduce", Field::kReduceOfAct);
  if (info.opcode == NEURON_OP_ALU) add("op", Field::kRegister);
  return choices;
}

std::string availability(const OpcodeInfo& info, unsigned engine, const Limits& limits) {
  Line line;
  const char* name = engine_name(engine);
  const unsigned first = first_generation(info, engine);
  if (info.generation > limits.generation) {
    line.addf("needs generation %u; this device is of generation %u", info.generation,
              limits.generation);
  } else if (!info.available) {
    line.add("defined, but this device does not execute it");
  } else if (first == 0) {
    line.addf("not executed by %s", name);
  } else if (first > limits.generation) {
    line.addf("needs generation %u on %s", first, name);
  } else {
    line.addf("available on %s", name);
  }
  return line.take();
}

}  // namespace

std::string all_functions() {
  return names_of(kFunctionNumbers, activation_name, [](unsigned) { return true; });
}
std::string all_operations() {
  return names_of(kAluNumbers, alu_name, [](unsigned) { return true; });
}
std::string all_dtypes() {
  return names_of(kDtypeNumbers, dtype_name, [](unsigned type) { return dtype_bytes(type) != 0; });
}

Explanation explain_opcode(unsigned opcode, unsigned engine, const Limits& limits) {
  Explanation e;
  e.text = opcode_name(opcode);
  const OpcodeInfo* info = find_opcode(opcode);
  if (info == nullptr) {
    e.availability = "not an opcode of the instruction set";
    return e;
  }
  e.engines = engine_list(info->engines);
  if (info->engines_v3) e.engines += "; " + engine_list(info->engines_v3) + " from generation 3";
  const bool later = first_generation(*info, NEURON_ENGINE_DVE) > info->generation;
  if (later && (info->engines >> NEURON_ENGINE_DVE & 1)) e.engines += "; DVE from generation 4";
  e.generation = info->generation;
  e.available = info->available && info->generation <= limits.generation;
  e.availability = availability(*info, engine, limits);
  e.choices = choices_of(engine, limits, *info);
  common_rules(*info, e.rules);
  if (const OpcodeText* text = find_opcode_text(opcode)) {
    e.summary = text->summary;
    e.cost = text->cost;
    split_rules(text->rules, e.rules);
  }
  return e;
}

Explanation explain(const Instruction& i, unsigned engine, const Limits& limits) {
  Explanation e = explain_opcode(i.opcode, engine, limits);
  e.of_instruction = true;
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
  encode(i, bytes);
  e.text = disassemble(i, static_cast<int>(engine));
  Violation v = check_encoding(bytes, engine, limits);
  if (v) {
    e.problem = describe(v, i);
  } else if ((v = check_operands(i, engine, limits)) && !is_dynamic(i)) {
    e.problem = describe(v, i);
  }
  if (v || e.generation == 0) return e;
  const Cost cost = cost_of(i, engine, limits.generation);
  e.cycles = cycles_of(i, engine, limits.generation);
  e.interval_ps = cost.interval;
  e.latency_ps = cost.latency;
  return e;
}

std::string to_text(const Explanation& e) {
  std::string text = e.text + "\n";
  const auto row = [&](const char* name, const std::string& value) {
    if (value.empty()) return;
    text += "  ";
    text += name;
    text.append(14 - std::string(name).size(), ' ');
    text += value + "\n";
  };
  row("does", e.summary);
  row("engines", e.engines);
  if (e.generation != 0) row("generation", std::to_string(e.generation));
  row("availability", e.availability);
  for (const auto& [what, names] : e.choices) row(what.c_str(), names);
  const char* name = "rules";
  for (const std::string& rule : e.rules) {
    row(name, rule);
    name = "";
  }
  row("cost", e.cost);
  Line line;
  if (!e.of_instruction) {
    // Of an opcode alone there is no cost to tell.
  } else if (e.interval_ps == 0 && e.problem.empty() && e.generation != 0) {
    line.add("depends on registers");
  } else if (e.problem.empty() && e.generation != 0) {
    if (e.cycles != 0) line.addf("%" PRIu64 " cycles, ", e.cycles);
    line.addf("%" PRIu64 ".%03" PRIu64 " ns", e.interval_ps / 1000, e.interval_ps % 1000);
    if (e.latency_ps != 0) {
      line.addf("; result visible %" PRIu64 ".%03" PRIu64 " ns later", e.latency_ps / 1000,
                e.latency_ps % 1000);
    }
  }
  row("this one", line.take());
  row("refused", e.problem);
  return text;
}

}  // namespace neuron::isa
