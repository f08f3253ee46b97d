// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/inspection.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "driver/base/json_text.h"
#include "runtime/base/log.h"
#include "runtime/profile/profiles.h"
#include "runtime/profile/program_chunks.h"
#include "runtime/session/instance.h"

namespace neuron::runtime {
namespace {

using ntff::ChunkKind;

void tell(const Result<void>& result) {
  if (!result) log_error(LogComponent::kNrt, "{}", result.error().sentence);
}

Result<void> end(ntff::TraceFileWriter& file) {
  NEURON_CHECK(file.write(ChunkKind::kEnd, {}, "{}"));
  return file.finish();
}

}  // namespace

Inspection::~Inspection() {
  if (running_) tell(stop());
}

Result<void> Inspection::begin(Session& session, const InspectSettings& settings) {
  const std::lock_guard lock(mutex_);
  if (running_) {
    return fail(NRT_INVALID, "an inspect session runs already, into '{}'; stop it first", folder_);
  }
  settings_ = settings;
  running_ = true;
  session_ = &session;
  profiled_.clear();
  traces_ = false;
  begin_ns_ = SystemTrace::now_ns();
  if (!settings.enabled && !settings.on_fail) return {};
  folder_ = format("{}/{}_pid_{}", settings.output_dir, instance_type(), getpid());
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) {
    running_ = false;
    return fail(NRT_INVALID, "the folder '{}' for an inspect session cannot be made: {}", folder_,
                error.message());
  }
  if (!settings.enabled) return {};
  if (settings.has(Activity::kSystemProfile)) {
    traces_ = session.system_trace.start(settings.trace);
    if (!traces_) {
      log_warning(LogComponent::kNrt,
                  "the inspect session into '{}' has no system profile: another trace runs",
                  folder_);
    }
  }
  if (settings.has(Activity::kCpuUtilisation) || settings.has(Activity::kHostMemory)) {
    sampler_ = std::make_unique<HostSampler>();
  }
  return {};
}

// Piece by piece: a day's samples are more than one chunk may have.
Result<void> Inspection::write_samples(const char* name,
                                       std::string (HostSampler::*text)(size_t, size_t)
                                           const) const {
  constexpr size_t kSamplesOfPiece = 600;
  NEURON_TRY(file, ntff::TraceFileWriter::create(folder_ + "/" + name));
  for (size_t at = 0; at < sampler_->samples(); at += kSamplesOfPiece) {
    NEURON_CHECK(file.write(ChunkKind::kSystem, {}, ((*sampler_).*text)(at, kSamplesOfPiece)));
  }
  return end(file);
}

// Piece by piece: all events of many cores are more than one chunk may have.
Result<void> Inspection::write_trace() const {
  constexpr uint64_t kEventsOfPiece = 10'000;  // of each core
  NEURON_TRY(file, ntff::TraceFileWriter::create(folder_ + "/ntrace.pb"));
  // bounded: each turn takes events away, and none are added to a trace that is stopped.
  do {
    NEURON_CHECK(file.write(ChunkKind::kSystem, {},
                            session_->system_trace.take(std::nullopt, kEventsOfPiece)));
  } while (session_->system_trace.waiting() != 0);
  return end(file);
}

Result<void> Inspection::write_about() const {
  NEURON_TRY(file, ntff::TraceFileWriter::create(folder_ + "/trace_info.pb"));
  NEURON_CHECK(file.write(
      ChunkKind::kSystem, {},
      format(R"({{"session_id":{},"instance_type":{},"pid":{},"begin_ns":{},"end_ns":{}}})",
             settings_.session_id, base::json_string(instance_type()), getpid(), begin_ns_,
             SystemTrace::now_ns())));
  return end(file);
}

Result<void> Inspection::stop() {
  std::set<std::string> profiled;
  {
    const std::lock_guard lock(mutex_);
    if (!running_) return fail(NRT_FAILURE, "no inspect session runs");
    running_ = false;
    profiled.swap(profiled_);
  }
  // Those of a whole session are still written; a profile takes the turn of its core for its end.
  if (settings_.whole_session) {
    for (const std::string& path : profiled) (void)Profiles::of(*session_).stop(path);
  }
  if (!settings_.enabled) return {};
  if (traces_) {
    session_->system_trace.stop();
    NEURON_CHECK(write_trace());
  }
  NEURON_CHECK(write_about());
  if (sampler_ != nullptr) {
    sampler_->stop();
    if (settings_.has(Activity::kCpuUtilisation)) {
      NEURON_CHECK(write_samples("cpu_util.pb", &HostSampler::processors_json));
    }
    if (settings_.has(Activity::kHostMemory)) {
      NEURON_CHECK(write_samples("host_mem.pb", &HostSampler::memory_json));
    }
    sampler_.reset();
  }
  return {};
}

bool Inspection::profiles_devices() const {
  const std::lock_guard lock(mutex_);
  return running_ && settings_.enabled && settings_.has(Activity::kDeviceProfile);
}

std::string Inspection::profile_path(const LoadedModel& model) const {
  return format("{}/{}_instid_0_vnc_{}.ntff", folder_, model_hash(model), model.core().index());
}

std::optional<std::string> Inspection::before_execution(Session& session, LoadedModel& model) {
  std::string path;
  {
    const std::lock_guard lock(mutex_);
    if (!running_ || model.core().trace != nullptr) return std::nullopt;
    path = profile_path(model);
    const bool wanted =
        settings_.enabled && settings_.has(Activity::kDeviceProfile) &&
        settings_.trace.cores.test(model.core().index() % SystemTraceSettings::kMostCores) &&
        !profiled_.contains(path);
    if (!wanted && !settings_.on_fail) return std::nullopt;
    if (wanted) {
      profiled_.insert(path);
    } else {
      // A number that no kept file has: what one failure left is not overwritten by the next.
      path = format("{}/failed_{}_vnc_{}_{}.ntff", folder_, model_hash(model), model.core().index(),
                    failures_++);
    }
  }
  if (auto started = Profiles::of(session).start(model, path); !started) {
    tell(started);
    return std::nullopt;
  }
  return path;
}

void Inspection::after_execution(Session& session, LoadedModel& model, const std::string& path,
                                 bool failed) {
  bool keep = true, goes_on = false;
  {
    const std::lock_guard lock(mutex_);
    const bool wanted = profiled_.contains(path);
    keep = wanted || failed;
    goes_on = wanted && settings_.whole_session && running_ && !failed;
  }
  if (goes_on) return;
  Profiles::of(session).end(model);
  if (!keep) ::unlink(path.c_str());
}

void Inspection::loaded(const LoadedModel& model, neff::Bytes file) {
  const std::lock_guard lock(mutex_);
  if (!running_ || !settings_.enabled || !settings_.has(Activity::kDeviceProfile)) return;
  const std::string path = format("{}/neff_{}.neff", folder_, model_hash(model));
  std::ofstream copy(path, std::ios::binary);
  copy.write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  if (!copy) log_warning(LogComponent::kNrt, "'{}' could not be written", path);
}

}  // namespace neuron::runtime
