// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-reset/machine/device_subject.h"

#include <unistd.h>

#include <algorithm>

#include "driver/base/backoff.h"

namespace neuron::reset {
namespace {

constexpr std::chrono::milliseconds kLook{2000}, kPause{100}, kLeast{1};
// Longest time between two signs of life of a part that verifies.
constexpr std::chrono::milliseconds kStep{30000};
constexpr uint64_t kBytes = 128u << 20;

std::chrono::milliseconds until(Subject::Clock::time_point end) {
  return std::max(
      std::chrono::duration_cast<std::chrono::milliseconds>(end - Subject::Clock::now()), kLeast);
}

std::string text_of(const telemetry::Process& process) {
  std::string command = process.command.substr(0, 60);
  return "pid " + std::to_string(process.pid) + (command.empty() ? "" : " (" + command + ")");
}

}  // namespace

void DeviceSubject::pause() { base::sleep_for(kPause); }

Sight DeviceSubject::look(Clock::time_point end) {
  telemetry::Wanted wanted;
  wanted.all_processes = true;
  wanted.host = wanted.instance = false;
  const telemetry::Snapshot snapshot = source_->take(wanted, std::min(until(end), kLook));
  Sight sight;
  sight.error = snapshot.error;
  for (const telemetry::Device& device : snapshot.devices) {
    if (static_cast<int>(device.index) != device_) continue;
    sight.found = true;
    sight.state = device.state;
    sight.error = device.error;
    sight.cores = checks::program_cores(device);
    for (const telemetry::Link& link : device.links) {
      if (!link.up) sight.links_down.push_back("device " + std::to_string(link.device));
    }
    for (const telemetry::Core& core : device.cores) {
      sight.failed_resets += core.failed_resets;
      for (const std::string& engine : core.hung_engines) {
        sight.hung_engines.push_back("core " + std::to_string(core.physical_core) + " " + engine);
      }
    }
  }
  for (const telemetry::Process& process : snapshot.processes) {
    const bool holds = std::find(process.devices.begin(), process.devices.end(),
                                 static_cast<unsigned>(device_)) != process.devices.end();
    if (holds && process.pid != ::getpid()) sight.holders.push_back(text_of(process));
  }
  return sight;
}

checks::Job DeviceSubject::job(const char* kind, int core, Clock::time_point end) const {
  checks::Job job;
  job.kind = kind;
  job.part.device = device_;
  job.part.core = core;
  job.part.bytes = kBytes;
  job.limits.step = std::min(until(end), kStep);
  job.limits.end = end;
  return job;
}

checks::Findings DeviceSubject::findings_of(const checks::Job& job) {
  checks::Findings findings;
  run_job_and_count(job, [&](const checks::Line& line) {
    if (line.kind == checks::Line::Kind::kFinding) findings.push_back(line.finding);
  });
  return findings;
}

Attempt DeviceSubject::reset(bool force, Clock::time_point end) {
  checks::Job work = job("reset", -1, end);
  work.part.force = force;
  work.limits.step = until(end);
  Attempt attempt;
  attempt.sentence = "the reset was not carried out";
  run_job(work, [&](const checks::Line& line) {
    if (line.kind != checks::Line::Kind::kFinding) return;
    attempt.sentence = line.finding.found;
    attempt.how = line.finding.verdict == checks::Verdict::kPass   ? Attempt::How::kDone
                  : line.finding.verdict == checks::Verdict::kSkip ? Attempt::How::kBusy
                                                                   : Attempt::How::kFailed;
  });
  return attempt;
}

checks::Findings DeviceSubject::verify_memory(Clock::time_point end) {
  return findings_of(job("memory", -1, end));
}

checks::Findings DeviceSubject::verify_core(const checks::ProgramCore& core,
                                            Clock::time_point end) {
  checks::Job work = job("programs", core.core, end);
  work.environment = environment_of(core);
  return findings_of(work);
}

}  // namespace neuron::reset
