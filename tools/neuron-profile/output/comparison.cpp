// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "driver/base/json_text.h"

namespace neuron::profile {
namespace {

using base::json_string;
using runtime::format;

constexpr size_t kLines = 10;

// What an instruction is in both profiles: its source line and its text.
using Key = std::tuple<unsigned, std::string, std::string>;

std::map<Key, uint64_t> active_by_instruction(const Program& program, const Summary& summary) {
  std::map<Key, uint64_t> times;
  for (unsigned engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    for (const auto& [pc, totals] : summary.instructions[engine]) {
      if (program.is_setup(engine, pc)) continue;
      times[{engine, program.line(engine, totals.debug), opcode_name(totals.opcode)}] +=
          totals.active;
    }
  }
  return times;
}

double change(double before, double after) {
  if (before == after) return 0;
  return before == 0 ? std::copysign(INFINITY, after) : (after - before) / before;
}

std::string change_text(double before, double after) {
  const double value = change(before, after);
  return std::isinf(value) ? "new" : format("{:+.1f} %", 100 * value);
}

}  // namespace

Result<Comparison> compare(Profile& before, size_t execution_before, Profile& after,
                           size_t execution_after) {
  NEURON_TRY(a, Analysis::of(before, 0, execution_before));
  NEURON_TRY(b, Analysis::of(after, 0, execution_after));
  const Program& program_a = before.parts()[0].program;
  const Program& program_b = after.parts()[0].program;
  Comparison result;
  result.total_change =
      change(static_cast<double>(a.summary.total), static_cast<double>(b.summary.total));
  result.text = format(
      "{} ({}) -> {} ({}): {} -> {}, {}\n\n", program_a.name, before.path(), program_b.name,
      after.path(), time_text(a.summary.total), time_text(b.summary.total),
      change_text(static_cast<double>(a.summary.total), static_cast<double>(b.summary.total)));
  std::string kinds;
  result.text +=
      format("{:<24} {:>11} {:>11} {:>11}\n", "CRITICAL PATH", "BEFORE", "AFTER", "CHANGE");
  for (size_t kind = 0; kind < kStepKinds; ++kind) {
    const uint64_t x = a.path.by_kind[kind], y = b.path.by_kind[kind];
    if (x == 0 && y == 0) continue;
    const char* name = step_name(static_cast<StepKind>(kind));
    result.text += format("{:<24} {:>11} {:>11} {:>11}\n", name, time_text(x), time_text(y),
                          change_text(static_cast<double>(x), static_cast<double>(y)));
    kinds += format("{}{}:{{\"before_ps\":{},\"after_ps\":{}}}", kinds.empty() ? "" : ",",
                    json_string(name), x, y);
  }
  std::string metrics;
  result.text += format("\n{:<40} {:>14} {:>14} {:>10}\n", "METRIC", "BEFORE", "AFTER", "CHANGE");
  const std::vector<Metric> ms = metrics_of(before, 0, a.summary),
                            ns = metrics_of(after, 0, b.summary);
  for (size_t n = 0; n < std::min(ms.size(), ns.size()); ++n) {
    metrics += format("{}{}:{{\"before\":{:.12g},\"after\":{:.12g}}}", metrics.empty() ? "" : ",",
                      json_string(ms[n].name), ms[n].value, ns[n].value);
    if (ms[n].value == ns[n].value) continue;
    result.text += format("{:<40} {:>14.6g} {:>14.6g} {:>10}\n", ms[n].name, ms[n].value,
                          ns[n].value, change_text(ms[n].value, ns[n].value));
  }
  struct Line {
    Key key;
    int64_t delta;
    uint64_t x, y;
  };
  std::vector<Line> lines;
  auto times_b = active_by_instruction(program_b, b.summary);
  for (const auto& [key, x] : active_by_instruction(program_a, a.summary)) {
    const auto found = times_b.find(key);
    const uint64_t y = found == times_b.end() ? 0 : found->second;
    if (found != times_b.end()) times_b.erase(found);
    lines.push_back({key, static_cast<int64_t>(y - x), x, y});
  }
  for (const auto& [key, y] : times_b) lines.push_back({key, static_cast<int64_t>(y), 0, y});
  std::stable_sort(lines.begin(), lines.end(), [](const Line& p, const Line& q) {
    return std::abs(p.delta) > std::abs(q.delta);
  });
  result.text += format("\n{:<8} {:>11} {:>11}  {}\n", "ENGINE", "BEFORE", "AFTER", "INSTRUCTION");
  for (size_t n = 0; n < std::min(lines.size(), kLines) && lines[n].delta != 0; ++n) {
    const auto& [engine, line, opcode] = lines[n].key;
    result.text += format("{:<8} {:>11} {:>11}  {} {}\n", engine_name(engine),
                          time_text(lines[n].x), time_text(lines[n].y), opcode, line);
  }
  result.json =
      format(
          R"({{"before":{},"after":{},"total_time_change":{:.9g},"critical_path":{{{}}},"metrics":{{{}}}}})",
          json_string(before.path()), json_string(after.path()),
          std::isinf(result.total_change) ? 0 : result.total_change, kinds, metrics) +
      "\n";
  return result;
}

}  // namespace neuron::profile
