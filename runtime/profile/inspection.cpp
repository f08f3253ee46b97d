// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/inspection.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "driver/base/json_text.h"
#include "runtime/base/log.h"
#include "runtime/observe/trace_clock.h"
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

// A core's share of the device's memory; 0 without a device.
uint64_t hbm_of_core(const Session& session) {
  const std::vector<Device*> devices = session.devices();
  if (devices.empty()) return 0;
  const ChipTable& chip = devices.front()->chip();
  return chip.hbm_bytes / chip.cores_per_hbm;
}

}  // namespace

Inspection::~Inspection() {
  if (state_ == State::kOn) tell(stop());
}

// What an earlier session has written stays.
Result<void> Inspection::make_folder() {
  folder_ = format("{}/{}_pid_{}", settings_.output_dir, instance_type(), getpid());
  std::error_code error;
  if (std::filesystem::exists(folder_, error) && !std::filesystem::is_empty(folder_, error)) {
    folder_ += format("/{}", begin_ns_);
  }
  std::filesystem::create_directories(folder_, error);
  if (!error) return {};
  return fail(NRT_INVALID, "the folder '{}' for an inspect session cannot be made: {}", folder_,
              error.message());
}

Result<void> Inspection::begin(Session& session, const InspectSettings& settings) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kEnding) {
    return fail(NRT_INVALID, "an inspect session is being ended by another thread");
  }
  if (state_ == State::kOn) {
    return fail(NRT_INVALID, "an inspect session runs already, into '{}'; stop it first", folder_);
  }
  settings_ = settings;
  session_ = &session;
  profiled_.clear();
  wholes_.clear();
  traces_ = false;
  begin_ns_ = TraceClock::now_ns();
  if (settings.enabled || settings.on_fail) NEURON_CHECK(make_folder());
  if (settings.enabled) {
    if (settings.has(Activity::kCpuUtilisation) || settings.has(Activity::kHostMemory)) {
      sampler_ = std::make_unique<HostSampler>();
    }
    if (settings.has(Activity::kSystemProfile)) {
      traces_ = session.system_trace.start(settings.trace);
      if (!traces_) {
        log_notice(LogComponent::kNrt,
                   "the inspect session into '{}' has no system profile: another trace runs",
                   folder_);
      }
    }
  }
  state_ = State::kOn;
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
  if (const uint64_t dropped = session_->system_trace.dropped(); dropped != 0) {
    log_notice(
        LogComponent::kNrt,
        "the system profile below '{}' lacks {} events, the oldest, because a core keeps "
        "{}; set NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC to more, or record fewer types",
        folder_, dropped, settings_.trace.events_per_core);
  }
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
      format(R"({{"session_id":{},"instance_type":{},"pid":{},"begin_ns":{},"end_ns":{},)"
             R"("hbm_bytes":{}}})",
             settings_.session_id, base::json_string(instance_type()), getpid(), begin_ns_,
             TraceClock::now_ns(), hbm_of_core(*session_))));
  return end(file);
}

// All files are written, whatever becomes of one of them.
Result<void> Inspection::write_files() {
  if (sampler_ != nullptr) sampler_->stop();
  Result<void> all;
  const auto write = [&](bool wanted, auto&& file) {
    if (!wanted) return;
    auto written = file();
    if (!written && all) all = written;
  };
  write(traces_, [&] {
    session_->system_trace.stop();
    return write_trace();
  });
  write(true, [&] { return write_about(); });
  write(sampler_ != nullptr && settings_.has(Activity::kCpuUtilisation),
        [&] { return write_samples("cpu_util.pb", &HostSampler::processors_json); });
  write(sampler_ != nullptr && settings_.has(Activity::kHostMemory),
        [&] { return write_samples("host_mem.pb", &HostSampler::memory_json); });
  return all;
}

Result<void> Inspection::stop() {
  std::set<std::string> profiled;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOn) return fail(NRT_FAILURE, "no inspect session runs");
    state_ = State::kEnding;
    profiled = profiled_;
  }
  // Those of a whole session are still written; a profile takes the turn of its core for its end.
  if (settings_.whole_session) {
    for (const std::string& path : profiled) {
      bool told = false;
      const auto stopped = Profiles::of(*session_).stop(path, told);
      // Most are ended already, with the turn of another model.
      if (!stopped && !told && stopped.error().status == NRT_RESOURCE) tell(stopped);
    }
  }
  Result<void> written;
  try {
    if (settings_.enabled) written = write_files();
  } catch (...) {
    finish();
    throw;
  }
  finish();
  return written;
}

void Inspection::finish() {
  std::unique_ptr<HostSampler> sampler;  // ended without the lock
  const std::lock_guard lock(mutex_);
  sampler.swap(sampler_);
  state_ = State::kOff;
}

bool Inspection::profiles_devices() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kOn && settings_.enabled && settings_.has(Activity::kDeviceProfile);
}

// The file of a whole session in which this execution is to be; empty if it is written already, or
// somebody else profiles the core. A profile is of one model, so another model begins another file.
std::string Inspection::next_whole(Session& session, LoadedModel& model, Whole& whole) {
  constexpr uint32_t kMostFiles = 1000;  // of a core
  if (model.core().trace != nullptr) {
    if (whole.model == &model || whole.files >= kMostFiles) return {};
    Profiles::of(session).end(whole.path);
    if (model.core().trace != nullptr) return {};
  }
  if (whole.files >= kMostFiles) return {};
  if (whole.files + 1 == kMostFiles) {
    log_notice(LogComponent::kNrt,
               "virtual core {} has changed models {} times; what it executes after the next "
               "change is not in the profiles below '{}'",
               model.core().index(), whole.files, folder_);
  }
  whole.model = &model;
  whole.path =
      format("{}/profile_nc_{}_session_{}.ntff", folder_, model.core().index(), whole.files++);
  return whole.path;
}

// Under mutex_: what is to be begun.
std::optional<Inspection::Begun> Inspection::profile_for(Session& session, LoadedModel& model) {
  const Core& core = model.core();
  const bool devices = settings_.enabled && settings_.has(Activity::kDeviceProfile) &&
                       settings_.trace.cores.test(core.index() % SystemTraceSettings::kMostCores);
  if (devices && settings_.whole_session) {
    std::string path = next_whole(session, model, wholes_[core.index()]);
    if (!path.empty()) return Begun{std::move(path), true};
  }
  if (core.trace != nullptr) return std::nullopt;
  if (devices && !settings_.whole_session) {
    std::string path =
        format("{}/{}_instid_0_vnc_{}.ntff", folder_, model_hash(model), core.index());
    if (!profiled_.contains(path)) return Begun{std::move(path), true};
  }
  if (!settings_.on_fail) return std::nullopt;
  // A number that no kept file has: what one failure left is not overwritten by the next.
  return Begun{
      format("{}/failed_{}_vnc_{}_{}.ntff", folder_, model_hash(model), core.index(), failures_++),
      false};
}

std::optional<Inspection::Begun> Inspection::before_execution(Session& session,
                                                              LoadedModel& model) {
  std::optional<Begun> begun;
  // Requests of a queue may outlive their model, and then fail.
  if (model.retired()) return std::nullopt;
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kOn) return std::nullopt;
    begun = profile_for(session, model);
    if (!begun) return std::nullopt;
    if (begun->wanted) profiled_.insert(begun->path);
  }
  if (auto started = Profiles::of(session).start(model, begun->path); !started) {
    tell(started);
    return std::nullopt;
  }
  return begun;
}

void Inspection::after_execution(Session& session, LoadedModel& model, const Begun& begun,
                                 bool failed) {
  {
    const std::lock_guard lock(mutex_);
    // Without a session any more, nobody else would end it.
    if (begun.wanted && settings_.whole_session && state_ == State::kOn) return;
  }
  Profiles::of(session).end(model);
  if (!begun.wanted && !failed) ::unlink(begun.path.c_str());
}

namespace {

// The file of a model, whose holes are filled from where they came.
Result<void> copy_file(neff::Bytes file, const FileImage* image, const std::string& path) {
  std::ofstream copy(path, std::ios::binary);
  const auto put = [&](const void* bytes, uint64_t size) {
    copy.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  };
  uint64_t at = 0;
  if (image != nullptr) {
    for (const auto& [hole, length] : image->holes()) {
      put(file.data() + at, hole - at);
      NEURON_CHECK(image->stream(file.subspan(hole, length),
                                 [&](const std::byte* piece, uint64_t, uint64_t size) {
                                   put(piece, size);
                                   return Result<void>();
                                 }));
      at = hole + length;
    }
  }
  put(file.data() + at, file.size() - at);
  copy.close();
  if (copy) return {};
  return fail(NRT_RESOURCE, "'{}' could not be written: is there room for {} bytes?", path,
              file.size());
}

}  // namespace

void Inspection::loaded(const LoadedModel& model, neff::Bytes file, const FileImage* image) {
  std::string path;
  {
    const std::lock_guard lock(mutex_);
    const bool wanted =
        state_ == State::kOn && settings_.enabled && settings_.has(Activity::kDeviceProfile);
    if (!wanted) return;
    path = format("{}/neff_{}.neff", folder_, model_hash(model));
  }
  if (const auto copied = copy_file(file, image, path); !copied) {
    ::unlink(path.c_str());  // a part of a file pairs with nothing
    log_notice(LogComponent::kNrt, "the inspect session lacks a model: {}",
               copied.error().sentence);
  }
}

}  // namespace neuron::runtime
