// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/report.h"

#include <algorithm>

#include "driver/base/json_text.h"
#include "tools/neuron-profile/analysis/analysis.h"

namespace neuron::profile {
namespace {

using runtime::format;
using tools::Paint;
using tools::Style;

constexpr size_t kInstructions = 12;
constexpr unsigned kOrder[] = {NEURON_ENGINE_PE, NEURON_ENGINE_DVE, NEURON_ENGINE_ACTIVATION,
                               NEURON_ENGINE_POOL, NEURON_ENGINE_SP};

std::string number_text(const Metric& metric) {
  return metric.whole ? format("{}", static_cast<uint64_t>(metric.value))
                      : format("{:.9g}", metric.value);
}

// Wraps a sentence behind a prefix.
std::string paragraph(const std::string& text, size_t width, const std::string& indent) {
  std::string out = indent;
  size_t column = indent.size();
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    if (column + word.size() > width && column > indent.size()) {
      out += "\n" + indent;
      column = indent.size();
    } else if (column > indent.size()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    at = end + 1;
  }
  return out + "\n";
}

std::string cut(const std::string& text, size_t columns) {
  return text.size() <= columns ? text : text.substr(0, columns - 3) + "...";
}

std::string engines_table(const Summary& summary, const CriticalPath& path) {
  std::string out = format("{:<8} {:>12} {:>11} {:>8} {:>8} {:>8}\n", "ENGINE", "INSTRUCTIONS",
                           "ACTIVE", "ACTIVE%", "WAIT%", "PATH%");
  for (const unsigned engine : kOrder) {
    const EngineTotals& totals = summary.engines[engine];
    out += format("{:<8} {:>12} {:>11} {:>8} {:>8} {:>8}\n", engine_name(engine), totals.count,
                  time_text(totals.active), share_text(totals.active, summary.total),
                  share_text(totals.wait, summary.total),
                  share_text(path.by_engine[engine], path.total));
  }
  const uint64_t dma = path.by_kind[static_cast<size_t>(StepKind::kTransfer)] +
                       path.by_kind[static_cast<size_t>(StepKind::kDmaStart)];
  out += format("{:<8} {:>12} {:>11} {:>8} {:>8} {:>8}\n", "DMA", summary.all_queues().descriptors,
                time_text(summary.dma_active), share_text(summary.dma_active, summary.total), "",
                share_text(dma, path.total));
  return out;
}

std::string path_table(const CriticalPath& path) {
  std::string out = format("{:<22} {:>11} {:>8}\n", "CRITICAL PATH", "TIME", "SHARE");
  for (size_t kind = 0; kind < kStepKinds; ++kind) {
    if (path.by_kind[kind] == 0) continue;
    out += format("{:<22} {:>11} {:>8}\n", step_name(static_cast<StepKind>(kind)),
                  time_text(path.by_kind[kind]), share_text(path.by_kind[kind], path.total));
  }
  if (path.unexplained != 0) {
    out += format("{:<22} {:>11} {:>8}\n", "not followed", time_text(path.unexplained),
                  share_text(path.unexplained, path.total));
  }
  return out;
}

std::string queues_table(const Program& program, const Summary& summary) {
  if (summary.queues.empty()) return {};
  std::string out = format("{:<28} {:>11} {:>10} {:>10} {:>11} {:>10}\n", "QUEUE", "DESCRIPTORS",
                           "BYTES", "AVERAGE", "ACTIVE", "RATE");
  for (const auto& [number, queue] : summary.queues) {
    const double rate = queue.active == 0 ? 0
                                          : static_cast<double>(queue.bytes) * 1e3 /
                                                static_cast<double>(queue.active);
    out += format("{:<28} {:>11} {:>10} {:>10} {:>11} {:>5.1f} GB/s\n",
                  cut(program.queue_name(number), 28), queue.descriptors, bytes_text(queue.bytes),
                  bytes_text(queue.bytes / std::max<uint64_t>(queue.descriptors, 1)),
                  time_text(queue.active), rate);
  }
  return out;
}

std::string collectives_table(const Program& program, const Summary& summary) {
  const Collectives& all = summary.collectives;
  if (all.operations.empty()) return {};
  std::string out =
      format("{:<40} {:>6} {:>11} {:>8} {:>11} {:>10} {:>10} {:>11}  {}\n", "COLLECTIVE", "RUNS",
             "TIME", "TIME%", "WAITED", "SENT", "RECEIVED", "BUS RATE", "ALGORITHM");
  for (const auto& [key, totals] : all.operations) {
    const Collective& of = program.stream(key.first)->collectives[key.second];
    const uint64_t average = totals.runs == 0 ? 0 : totals.time / totals.runs;
    out +=
        format("{:<40} {:>6} {:>11} {:>8} {:>11} {:>10} {:>10} {:>11}  {}\n", cut(of.name, 40),
               totals.runs, time_text(totals.time), share_text(totals.time, summary.total),
               time_text(totals.waited), bytes_text(totals.sent),
               of.sized ? bytes_text(totals.received) : "?",
               of.sized ? format("{:.2f} GB/s", of.bus_rate(average) * 1e-9) : "?", of.algorithm);
  }
  out += format("\n{:<14} {:>11} {:>10} {:>11} {:>10} {:>10} {:>10} {:>11}\n", "PEER", "TRANSFERS",
                "SENT", "ACTIVE", "RATE", "MESSAGES", "RECEIVED", "WAITED FOR");
  for (const auto& [rank, link] : all.links) {
    const uint64_t timed = link.bytes - link.network_bytes;
    const double rate =
        link.active == 0 ? 0 : static_cast<double>(timed) * 1e3 / static_cast<double>(link.active);
    out += format("{:<14} {:>11} {:>10} {:>11} {:>5.1f} GB/s {:>10} {:>10} {:>11}{}\n",
                  format("rank {}", rank), link.transfers, bytes_text(link.bytes),
                  time_text(link.active), rate, link.messages, bytes_text(link.received),
                  time_text(link.waited), link.network_bytes == 0 ? "" : "  over the network");
  }
  return out;
}

std::string instructions_table(const Program& program, const Summary& summary, size_t width) {
  const std::vector<InstructionRow> rows = instructions_by_time(program, summary);
  std::string out = format("{:<7} {:>6} {:>8} {:>11} {:>7} {:>11}  {}\n", "ENGINE", "PC", "COUNT",
                           "ACTIVE", "SHARE", "WAITED", "INSTRUCTION");
  for (size_t n = 0; n < std::min(rows.size(), kInstructions); ++n) {
    const InstructionRow& row = rows[n];
    const std::string line = program.line(row.engine, row.totals->debug);
    out += format(
        "{:<7} {:>6} {:>8} {:>11} {:>7} {:>11}  {}\n", engine_name(row.engine),
        program.program_counter(row.engine, row.pc), row.totals->count,
        time_text(row.totals->active), share_text(row.totals->active, summary.total),
        time_text(row.totals->wait),
        cut((line.empty() ? "" : line + " ") + program.text(row.engine, row.pc, row.totals->opcode),
            std::max<size_t>(width, 120) - 58));
  }
  if (rows.size() > kInstructions) {
    out += format("... and {} instructions more (view --output-format csv has all)\n",
                  rows.size() - kInstructions);
  }
  return out;
}

}  // namespace

std::vector<Notice> notices(const Profile& profile) {
  std::vector<Notice> list;
  if (profile.lost() != 0) {
    list.push_back(
        {"dropped events",
         format("{} events are missing: the device dropped them, because the profiled process did "
                "not read them in time. Counts and shares are too small.",
                profile.lost())});
  }
  if (!profile.ends_early().empty()) {
    list.push_back(
        {"file ends early",
         format("The file ends early, because it could not be written further ({}). Executions "
                "behind the last one here are missing: make room, and profile again.",
                profile.ends_early())});
  }
  if (!profile.ended()) {
    list.push_back({"profile not ended",
                    "The profile was not ended: the profiled process died, or still runs. What it "
                    "had written is shown."});
  }
  return list;
}

std::string warnings(const Profile& profile) {
  std::string out;
  for (const Notice& notice : notices(profile)) out += notice.sentence + "\n";
  return out;
}

Result<std::string> report_text(Profile& profile, uint32_t part, size_t execution,
                                const Style& style) {
  const Part& of = profile.parts()[part];
  const Program& program = of.program;
  NEURON_TRY(analysis, Analysis::of(profile, part, execution));
  const auto& [summary, timeline, path, findings] = analysis;
  const size_t width = std::clamp<size_t>(style.width, 80, 140);

  std::string out =
      format("{}, NeuronCore {} (device {}, core {}), execution {} of {}: {} of device time{}\n\n",
             program.name.empty() ? "a model" : program.name, program.vnc, program.device,
             program.core, execution + 1, of.executions.size(), time_text(summary.total),
             of.executions[execution].failed ? ", failed" : "");
  out += painted(style, Paint::kStrong, paragraph(findings.bottleneck, width, ""));
  out += "\n" + engines_table(summary, path) + "\n" + path_table(path) + "\n";
  const std::string queues = queues_table(program, summary);
  if (!queues.empty()) out += queues + "\n";
  const std::string collectives = collectives_table(program, summary);
  if (!collectives.empty()) out += collectives + "\n";
  out += instructions_table(program, summary, width);
  if (!findings.places.empty()) out += "\nWHERE THE CRITICAL PATH IS\n";
  for (const CostlyPlace& place : findings.places) {
    out += format("  {} ({}) {}: {}\n", time_text(place.on_path),
                  share_text(place.on_path, path.total), place.where, cut(place.what, 90));
    out += paragraph(place.advice, width, "      ");
  }
  if (!findings.findings.empty()) out += "\nFINDINGS\n";
  for (const Finding& finding : findings.findings) {
    std::string sentence = finding.sentence;
    if (!finding.advice.empty()) sentence += " " + finding.advice;
    if (finding.saving != 0) {
      sentence += format(" About {} ({}) can be saved.", time_text(finding.saving),
                         share_text(finding.saving, path.total));
    }
    std::string text = paragraph(sentence, width, "    ");
    text[2] = '-';
    out += text;
  }
  return out;
}

Result<std::string> summary_text(Profile& profile, uint32_t part, size_t execution) {
  NEURON_TRY(summary, summarize(profile, part, execution));
  const Program& program = profile.parts()[part].program;
  std::string out =
      format("{:<46} {}\n{:<46} {}\n", "nc_idx", program.core, "nd_idx", program.device);
  for (const Metric& metric : metrics_of(profile, part, summary)) {
    out += format("{:<46} {}\n", metric.name, number_text(metric));
  }
  return out;
}

Result<std::string> summary_json(Profile& profile, uint32_t part, size_t execution, bool pretty) {
  NEURON_TRY(summary, summarize(profile, part, execution));
  const char* line = pretty ? "\n" : "";
  std::string out = format("{{{}\"n_{}\":{{{}", line, profile.parts()[part].program.hash, line);
  bool first = true;
  for (const Metric& metric : metrics_of(profile, part, summary)) {
    out += format("{}{}{}:{}{}", first ? "" : ",", first ? "" : line,
                  base::json_string(metric.name), pretty ? " " : "", number_text(metric));
    first = false;
  }
  return out + line + "}" + line + "}\n";
}

void write_session_json(const Profile& profile, const Write& write) {
  const Program& program = profile.parts()[0].program;
  write(format(R"({{"NeffNodes":[{{"NodeInfo":{{"Name":{},"UUID":"{}","Hash":{},"Graphs":[)",
               base::json_string(program.name), program.uuid, program.hash));
  bool first = true;
  for (const Part& part : profile.parts()) {
    for (size_t n = 0; n < part.executions.size(); ++n) {
      const Execution& execution = part.executions[n];
      const isa::Clock& clock = isa::generation_row(part.program.generation).timing.others;
      write(format(
          R"({}{{"NC":{},"Execution":{},"CycleCount":{},"DurationNs":{},"Failed":{},"DroppedEvents":{}}})",
          first ? "" : ",", part.program.vnc, n + 1,
          execution.device_ps * clock.cycles / clock.picoseconds, execution.device_ps / 1000,
          execution.failed, execution.lost));
      first = false;
    }
  }
  write("]}}]}\n");
}

void write_session_text(const Profile& profile, const Write& write) {
  for (const Part& part : profile.parts()) {
    const Program& program = part.program;
    write(format("{} on NeuronCore {} (device {}, core {}), uuid {}\n", program.name, program.vnc,
                 program.device, program.core, program.uuid));
    for (size_t n = 0; n < part.executions.size(); ++n) {
      const Execution& execution = part.executions[n];
      write(format("  execution {}: {} of device time{}{}\n", n + 1, time_text(execution.device_ps),
                   execution.failed ? ", failed" : "",
                   execution.lost == 0 ? "" : format(", {} events lost", execution.lost)));
    }
  }
}

}  // namespace neuron::profile
