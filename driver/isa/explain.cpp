// SPDX-License-Identifier: Apache-2.0
#include "driver/isa/explain.h"

#include <cinttypes>

#include "driver/isa/cost.h"
#include "driver/isa/line.h"
#include "driver/isa/opcode_table.h"

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
  if (group == 5 || group == 6 || (info.engines >> NEURON_ENGINE_POOL & 1)) {
    rules.emplace_back("R5: Pool reaches SBUF only");
  }
  if (info.word == OpWord::kAct || info.opcode == NEURON_OP_TENSOR_SCALAR_REDUCE ||
      info.opcode == NEURON_OP_TENSOR_SCALAR_CUMULATIVE || info.opcode == NEURON_OP_READ_ACC) {
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

std::string availability(const OpcodeInfo& info, unsigned engine, const Limits& limits) {
  Line line;
  const unsigned bit = engine < 6 ? 1u << engine : 0;
  const char* name = engine_name(engine);
  if (info.generation > limits.generation) {
    line.addf("needs generation %u; this device is of generation %u", info.generation,
              limits.generation);
  } else if (!info.available) {
    line.add("defined, but this device does not execute it");
  } else if (info.engines & bit) {
    line.addf("available on %s", name);
  } else if (info.engines_v3 & bit) {
    line.addf(limits.engines_v3 ? "available on %s" : "needs generation 3 on %s", name);
  } else {
    line.addf("not executed by %s", name);
  }
  return line.take();
}

}  // namespace

Explanation explain(const Instruction& i, unsigned engine, const Limits& limits) {
  Explanation e;
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
  encode(i, bytes);
  e.text = disassemble(i, static_cast<int>(engine));
  Violation v = check_encoding(bytes, engine, limits);
  if (v) {
    e.problem = describe(v, i);
  } else if ((v = check_operands(i, engine, limits)) && !is_dynamic(i)) {
    e.problem = describe(v, i);
  }
  const OpcodeInfo* info = find_opcode(i.opcode);
  if (info == nullptr) {
    e.availability = "not an opcode of the instruction set";
    return e;
  }
  e.engines = engine_list(info->engines);
  if (info->engines_v3) e.engines += "; " + engine_list(info->engines_v3) + " from generation 3";
  e.generation = info->generation;
  e.available = info->available && info->generation <= limits.generation;
  e.availability = availability(*info, engine, limits);
  common_rules(*info, e.rules);
  if (const OpcodeText* text = find_opcode_text(i.opcode)) {
    e.summary = text->summary;
    e.cost = text->cost;
    split_rules(text->rules, e.rules);
  }
  if (v) return e;
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
  const char* name = "rules";
  for (const std::string& rule : e.rules) {
    row(name, rule);
    name = "";
  }
  row("cost", e.cost);
  Line line;
  if (e.interval_ps == 0 && e.problem.empty() && e.generation != 0) {
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
