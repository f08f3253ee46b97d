// SPDX-License-Identifier: Apache-2.0
#include "tools/device_checks/part.h"

#include <ndl/ndl.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "tools/common/exit_status.h"
#include "tools/telemetry/generation.h"

namespace neuron::checks {
namespace {

using telemetry::HardwareCounters;

constexpr uint32_t kCountersMs = 2000;
constexpr const char* kPartKinds[] = {"memory", "programs", "reset"};

HardwareCounters read_counters(int device) {
  HardwareCounters counters;
  std::string text(16384, '\0');
  const ssize_t length =
      ndl_read_attribute(device, "stats/hardware/", kCountersMs, text.data(), text.size());
  if (length <= 0) return counters;
  text.resize(static_cast<size_t>(length));
  const auto read = [&](const char* key, uint64_t& value) {
    const size_t at = text.find(std::string("/") + key + " ");
    if (at != std::string::npos) {
      value =
          std::strtoull(text.c_str() + at + std::char_traits<char>::length(key) + 2, nullptr, 10);
    }
  };
  read("mem_ecc_corrected", counters.mem_ecc_corrected);
  read("mem_ecc_uncorrected", counters.mem_ecc_uncorrected);
  read("mem_ecc_repairable_uncorrected", counters.mem_ecc_repairable_uncorrected);
  read("sram_ecc_corrected", counters.sram_ecc_corrected);
  read("sram_ecc_uncorrected", counters.sram_ecc_uncorrected);
  return counters;
}

bool tells_repairable(int device) {
  ndl_observation_t seen{};
  seen.size = sizeof seen;
  return ndl_observe_device(device, kCountersMs, &seen) == 0 &&
         telemetry::generation_of(seen.architecture).tells_repairable;
}

void tell_errors(const Part& part, const HardwareCounters& before, const HardwareCounters& after,
                 const UseLine& use) {
  const auto count = [&](uint64_t old, uint64_t now, const char* what, const char* engine,
                         Verdict verdict, Action action, Repair repair = Repair::kNone) {
    if (now <= old) return;
    Line line;
    line.kind = Line::Kind::kFinding;
    Finding& finding = line.finding;
    finding.check = "device.errors";
    finding.verdict = verdict;
    finding.device = part.device;
    finding.core = part.core;
    finding.engine = engine;
    finding.found = std::to_string(now - old) + " " + what + " during the check";
    finding.expected = "0";
    finding.action = action;
    finding.repair = repair;
    use(line);
  };
  count(before.mem_ecc_corrected, after.mem_ecc_corrected, "corrected errors", "HBM",
        Verdict::kWarn, Action::kNone);
  count(before.sram_ecc_corrected, after.sram_ecc_corrected, "corrected errors", "SRAM",
        Verdict::kWarn, Action::kNone);
  // If repairable errors have no counter of their own, this one includes them.
  count(before.mem_ecc_uncorrected, after.mem_ecc_uncorrected, "uncorrectable errors", "HBM",
        Verdict::kFail, Action::kReplaceInstance,
        tells_repairable(part.device) ? Repair::kImpossible : Repair::kUnknown);
  count(before.mem_ecc_repairable_uncorrected, after.mem_ecc_repairable_uncorrected,
        "repairable errors", "HBM", Verdict::kFail, Action::kResetDevice, Repair::kPossible);
  count(before.sram_ecc_uncorrected, after.sram_ecc_uncorrected, "uncorrectable errors", "SRAM",
        Verdict::kFail, Action::kReplaceInstance);
}

}  // namespace

void tell(const Line& line) {
  const std::string text = to_line(line);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}
void tell_step(const Finding& where) { tell({Line::Kind::kStep, where, {}}); }
void tell_finding(const Finding& finding) { tell({Line::Kind::kFinding, finding, {}}); }

void run_job(const Job& job, const UseLine& use) {
  const Part& part = job.part;
  std::vector<std::string> command = {tools::own_program(),
                                      "--worker",
                                      job.kind,
                                      "--worker-level",
                                      std::to_string(part.level),
                                      "--worker-device",
                                      std::to_string(part.device),
                                      "--worker-core",
                                      std::to_string(std::max(part.core, 0)),
                                      "--worker-bytes",
                                      std::to_string(part.bytes),
                                      "--worker-budget",
                                      std::to_string(part.budget.count())};
  if (part.force) command.push_back("--worker-force");
  Environment environment = job.environment;
  // The runtime gives up before the process is ended, so that it can name the engine.
  const auto timeout = std::max<long>(1, static_cast<long>(job.limits.step.count() / 2000));
  environment.emplace_back("NEURON_RT_EXEC_TIMEOUT", std::to_string(timeout));
  environment.emplace_back("NEURON_RT_LOG_LEVEL", "QUIET");
  environment.emplace_back("NEURON_RT_ALLOW_LEGACY_NEFF", "1");
  Line last;
  last.kind = Line::Kind::kFinding;
  last.finding.device = part.device;
  last.finding.core = part.core;
  last.finding.check = job.kind == std::string_view("memory")     ? "memory.pattern"
                       : job.kind == std::string_view("programs") ? "engine.program"
                                                                  : "device.reset";
  last.finding.found = "starting";
  bool ended = false;
  const Ending ending =
      tools::run_command(command, environment, job.limits, [&](std::string_view text) {
        Line line;
        if (!from_line(text, line)) return;
        if (line.kind == Line::Kind::kStep) last.finding = line.finding;
        ended |= line.kind == Line::Kind::kEnd;
        use(line);
      });
  if (ended && ending.how == Ending::How::kExited) return;
  Finding& finding = last.finding;
  finding.verdict = Verdict::kFail;
  finding.expected = "an end";
  finding.action = Action::kResetDevice;
  switch (ending.how) {
    case Ending::How::kLate:
      finding.found =
          "has not got on for " + std::to_string(job.limits.step.count()) + " ms: " + finding.found;
      finding.expected = "a step in that time";
      break;
    case Ending::How::kOver:
      finding.found = "has not ended in its time: " + finding.found;
      break;
    case Ending::How::kSignalled:
      finding.found = "the process that checks ended by signal " + std::to_string(ending.code) +
                      ": " + finding.found;
      break;
    default:
      finding.found = "the process that checks ended with status " + std::to_string(ending.code) +
                      ": " + finding.found + " " + ending.errors;
  }
  use(last);
}

void run_job_and_count(const Job& job, const UseLine& use) {
  const HardwareCounters before = read_counters(job.part.device);
  run_job(job, use);
  tell_errors(job.part, before, read_counters(job.part.device), use);
}

std::vector<ProgramCore> program_cores(const telemetry::Device& device) {
  std::map<unsigned, ProgramCore> cores;
  for (const telemetry::Core& core : device.cores) {
    auto [entry, made] = cores.try_emplace(core.logical_core);
    if (made) entry->second = {static_cast<int>(core.physical_core), core.logical_core, true};
    entry->second.free &= core.holder == 0;
  }
  std::vector<ProgramCore> list;
  for (const auto& [logical, core] : cores) list.push_back(core);
  return list;
}

Environment environment_of(const ProgramCore& core) {
  return {{"NEURON_RT_VISIBLE_CORES", std::to_string(core.logical)}, {"NEURON_RT_NUM_CORES", ""}};
}

void add_worker_options(tools::Command& line, WorkerOptions& options) {
  const std::vector<std::string> kinds(std::begin(kPartKinds), std::end(kPartKinds));
  line.option("--worker", options.kind).one_of(kinds).hidden();
  line.option("--worker-device", options.part.device).hidden();
  line.option("--worker-core", options.part.core).hidden();
  line.option("--worker-level", options.part.level).hidden();
  line.option("--worker-bytes", options.part.bytes).hidden();
  line.option("--worker-budget", options.budget_ms).hidden();
  line.flag("--worker-force", options.part.force).hidden();
}

int work(const WorkerOptions& options) {
  Part part = options.part;
  part.budget = std::chrono::milliseconds(options.budget_ms);
  if (options.kind == "memory") {
    check_memory(part);
  } else if (options.kind == "programs") {
    check_programs(part);
  } else {
    reset_device(part);
  }
  tell(Line{});
  return tools::kDone;
}

}  // namespace neuron::checks
