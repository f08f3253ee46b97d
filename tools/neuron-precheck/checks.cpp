// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-precheck/checks.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "tools/device_checks/part.h"
#include "tools/neuron-precheck/collectives.h"
#include "tools/telemetry/generation.h"
#include "tools/telemetry/settled.h"

namespace neuron::precheck {
namespace {

using Clock = std::chrono::steady_clock;
using checks::Line;
using telemetry::Device;
using telemetry::DeviceState;

constexpr uint32_t kObserveMs = 2000;
// The driver resets cores of a process that has ended, also of a check; a longer reset is a
// finding.
constexpr std::chrono::milliseconds kResetEnds{10000};
// The first two levels have no limit: their time grows with the host.
constexpr int kSecondsOfLevel[] = {0, 0, 900, 3600};
constexpr uint64_t kMemoryOfLevel[] = {0, 128u << 20, 2048ull << 20};

class Run {
 public:
  Run(const Options& options, const telemetry::Snapshot& snapshot, Findings& findings)
      : options_(options), snapshot_(snapshot), findings_(findings) {
    const int seconds = options.level == 1 ? 10 : options.level == 2 ? 30 : 120;
    step_ = options.step.count() != 0 ? options.step : std::chrono::seconds(seconds);
  }

  // Runs until `end` at most, plus the step that is then under way.
  void all(int level, Clock::time_point end) {
    level_ = level;
    if (level_ >= 2 && model_.empty()) measure_model();
    std::vector<const Device*> devices;
    for (const Device& device : snapshot_.devices) {
      if (wanted(device) && device.state != DeviceState::kOff) devices.push_back(&device);
    }
    const size_t side_by_side = std::max<size_t>(
        1, std::min<size_t>({devices.size(), 8, std::thread::hardware_concurrency()}));
    // A third of the time is for the collectives of all devices.
    const auto now = Clock::now();
    const auto parts_end = end == Clock::time_point::max()
                               ? end
                               : now + (end - now) * (options_.collectives ? 2 : 3) / 3;
    std::atomic<size_t> next{0};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < side_by_side; ++i) {
      threads.emplace_back([&] {
        // Relaxed: the threads share nothing else that it orders; join() follows.
        for (size_t at = next.fetch_add(1, std::memory_order_relaxed); at < devices.size();
             at = next.fetch_add(1, std::memory_order_relaxed)) {
          const auto rounds = (devices.size() - at + side_by_side - 1) / side_by_side;
          const auto begin = Clock::now();
          const bool limited = end != Clock::time_point::max();
          check_device(*devices[at],
                       limited ? begin + std::max(parts_end - begin, Clock::duration::zero()) /
                                             static_cast<long>(rounds)
                               : end);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    compare_times();
    if (!options_.collectives) return;
    for (Finding& finding : check_collectives(snapshot_, {options_.devices, level_, step_, end})) {
      add(std::move(finding));
    }
  }

 private:
  bool wanted(const Device& device) const { return is_wanted(device, options_.devices); }
  void add(Finding finding) {
    const std::lock_guard guard(mutex_);
    findings_.push_back(std::move(finding));
  }

  // Half of the free memory, so that a process that starts meanwhile finds some. At most what the
  // level takes, and for an emulated device at most what the host can spare.
  uint64_t memory_of(const Device& device) const {
    const uint64_t free =
        device.memory_bytes > device.memory_used ? device.memory_bytes - device.memory_used : 0;
    if (options_.memory_bytes != 0) return std::min(options_.memory_bytes, free);
    if (level_ < 3) return std::min(kMemoryOfLevel[level_], free / 2);
    if (snapshot_.versions.backend == "kernel") return free - free / 64;
    const telemetry::HostState& host = snapshot_.host;
    const uint64_t spare =
        host.memory_total > host.memory_used ? (host.memory_total - host.memory_used) / 16 : 0;
    return std::min(free, std::max<uint64_t>(spare, kMemoryOfLevel[1]));
  }

  // `end`: the end of the device's share of the time.
  void check_device(const Device& device, Clock::time_point end) {
    std::vector<checks::ProgramCore> cores;
    for (const checks::ProgramCore& core : checks::program_cores(device)) {
      if (core.free) cores.push_back(core);
    }
    // Half of it is for the memory.
    run_job("memory", device, -1, {}, share(end, 2));
    for (size_t i = 0; i < cores.size(); ++i) {
      run_job("programs", device, cores[i].core, checks::environment_of(cores[i]),
              share(end, static_cast<long>(cores.size() - i)));
    }
  }

  // A part of the time that is left until `end`; 0: no limit.
  static std::chrono::milliseconds share(Clock::time_point end, long of) {
    if (end == Clock::time_point::max()) return {};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    return std::max(left / of, std::chrono::milliseconds(1));
  }

  checks::Job job_of(const char* kind, int device, int core, checks::Environment environment,
                     std::chrono::milliseconds budget) const {
    checks::Job job;
    job.kind = kind;
    job.part.device = device;
    job.part.core = core;
    job.part.level = std::min(level_, 3);
    job.part.budget = budget;
    job.limits.step = step_;
    job.environment = std::move(environment);
    return job;
  }

  void run_job(const char* kind, const Device& device, int core, checks::Environment environment,
               std::chrono::milliseconds budget) {
    const int index = static_cast<int>(device.index);
    checks::Job job = job_of(kind, index, core, std::move(environment), budget);
    job.part.bytes = memory_of(device);
    checks::run_job_and_count(job, [&](const Line& line) {
      if (line.kind == Line::Kind::kFinding) add(line.finding);
      if (line.kind != Line::Kind::kTiming) return;
      const std::lock_guard guard(mutex_);
      times_[line.timing.program].push_back({index, core, line.timing.device_ps});
    });
  }

  // The emulated chip is the model for the time that a program takes.
  void measure_model() {
    if (snapshot_.devices.empty()) return;
    const auto& generation = telemetry::generation_of_cores(snapshot_.devices[0].core_architecture);
    // Once each is enough: the model always takes the same time.
    checks::run_job(job_of("programs", 0, 0,
                           {{"NEURON_EMULATOR", generation.smallest_instance},
                            {"NEURON_EMULATOR_FAULTS", ""},
                            {"NEURON_RT_VISIBLE_CORES", "0"},
                            {"NEURON_RT_NUM_CORES", ""}},
                           std::chrono::milliseconds(1)),
                    [&](const Line& line) {
                      if (line.kind == Line::Kind::kTiming) {
                        model_[line.timing.program] = line.timing.device_ps;
                      }
                    });
  }

  void compare_times() {
    bool good = true;
    size_t compared = 0;
    for (auto& [program, samples] : times_) {
      std::vector<uint64_t> sorted;
      for (const Sample& sample : samples) sorted.push_back(sample.device_ps);
      std::sort(sorted.begin(), sorted.end());
      const auto model = model_.find(program);
      const uint64_t expected = model != model_.end() ? model->second : sorted[sorted.size() / 2];
      for (const Sample& sample : samples) {
        ++compared;
        const double ratio = static_cast<double>(sample.device_ps) /
                             static_cast<double>(std::max<uint64_t>(expected, 1));
        if (ratio < 1.1) continue;
        good = false;
        Finding finding;
        finding.check = "engine.time";
        finding.verdict = ratio > 2 ? Verdict::kFail : Verdict::kWarn;
        finding.device = sample.device;
        finding.core = sample.core;
        finding.found =
            "program " + program + " takes " + std::to_string(sample.device_ps / 1000000) + " us";
        finding.expected =
            std::to_string(expected / 1000000) + " us" +
            (model != model_.end() ? ", as the model says" : ", as other cores take");
        finding.action = ratio > 2 ? Action::kResetDevice : Action::kNone;
        add(finding);
      }
    }
    times_.clear();
    if (!good || compared == 0) return;
    Finding finding;
    finding.check = "engine.time";
    finding.found = std::to_string(compared) + " programs take what " +
                    (model_.empty() ? "those of other cores take" : "the model says");
    add(finding);
  }

  struct Sample {
    int device, core;
    uint64_t device_ps;
  };
  const Options& options_;
  const telemetry::Snapshot& snapshot_;
  Findings& findings_;
  std::chrono::milliseconds step_;
  int level_ = 1;
  std::mutex mutex_;
  std::map<std::string, std::vector<Sample>> times_;
  std::map<std::string, uint64_t> model_;
};

// True for a finding of a round that the end has cut short.
bool cut_short(const Finding& finding) {
  return finding.verdict == Verdict::kSkip &&
         (finding.found.find("there was no time") != std::string::npos ||
          finding.found.find("when its time was over") != std::string::npos);
}

// Keeps all failures, and one line for each kind of passed check.
void soak(const Options& options, Run& run, Findings& findings) {
  const auto end = Clock::now() + options.duration;
  // A round without enough time is cut short; a new one would be cut short at once.
  size_t rounds = 0, passed = 0;
  const size_t first = findings.size();
  do {
    run.all(2, end);
    ++rounds;
    const auto begin = findings.begin() + static_cast<ptrdiff_t>(first);
    passed += static_cast<size_t>(std::count_if(
        begin, findings.end(), [](const Finding& f) { return f.verdict == Verdict::kPass; }));
    findings.erase(std::remove_if(begin, findings.end(),
                                  [&](const Finding& finding) {
                                    return finding.verdict == Verdict::kPass ||
                                           (rounds > 1 && cut_short(finding));
                                  }),
                   findings.end());
  } while (Clock::now() < end && findings.size() < first + 1000);
  Finding finding;
  finding.check = "soak.rounds";
  finding.found = std::to_string(rounds) + " rounds, " + std::to_string(passed) + " checks passed";
  findings.push_back(finding);
}

}  // namespace

Result check_host(Options options) {
  if (options.duration.count() == 0) {
    options.duration = std::chrono::seconds(kSecondsOfLevel[options.level - 1]);
  }
  Result result;
  result.begun = std::chrono::system_clock::now();
  const auto start = Clock::now();
  telemetry::Wanted wanted;
  wanted.all_processes = true;
  const auto source = telemetry::open_host_source();
  const auto look = [&] {
    return take_settled(*source, wanted, std::chrono::milliseconds(kObserveMs), options.devices,
                        Clock::now() + kResetEnds);
  };
  result.snapshot = look();
  for (const int wanted_device : options.devices) {
    if (std::none_of(result.snapshot.devices.begin(), result.snapshot.devices.end(),
                     [&](const Device& device) {
                       return static_cast<int>(device.index) == wanted_device;
                     })) {
      result.missing.push_back(wanted_device);
    }
  }
  if (!result.missing.empty()) return result;
  check_state(result.snapshot, options.devices, result.findings);
  if (!result.snapshot.devices.empty()) {
    Run run(options, result.snapshot, result.findings);
    if (options.level == 4) {
      soak(options, run, result.findings);
    } else {
      run.all(options.level,
              options.duration.count() == 0 ? Clock::time_point::max() : start + options.duration);
    }
    // Findings about the devices since the last round.
    Findings after;
    check_state(look(), options.devices, after);
    for (Finding& finding : after) {
      const bool state = finding.check == "device.state" || finding.check == "engine.state";
      if (state && finding.verdict == Verdict::kFail) {
        finding.found += " (after the checks)";
        result.findings.push_back(std::move(finding));
      }
    }
  }
  // Lower levels test only samples of the memory.
  if (options.level == 3) judge_past_errors(result.findings);
  agree_on_repair(result.findings);
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace neuron::precheck
