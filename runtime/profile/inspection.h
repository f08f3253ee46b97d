// SPDX-License-Identifier: Apache-2.0
//
// An inspect session: a system trace, device profiles of models, samples of the host, all below
// <output_dir>/<instance>_pid_<pid>/.
//
// Files: ntrace.pb (system trace), trace_info.pb, cpu_util.pb, host_mem.pb, neff_<hash>.neff and
// <hash>_instid_0_vnc_<n>.ntff. They have the original's names; all but the NEFF are files of
// runtime/ntff. Callers: nrt_inspect_*, nrt_init, nrt_execute. Thread-safe: all functions; those on
// executions need the turn of the core. Owns what it writes; the destructor ends the session.
// Fails: begin() when a session runs, or the folder cannot be made.
#ifndef RUNTIME_PROFILE_INSPECTION_H
#define RUNTIME_PROFILE_INSPECTION_H

#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "runtime/model/loaded_model.h"
#include "runtime/profile/host_sampler.h"
#include "runtime/profile/inspect_settings.h"
#include "runtime/session/session.h"

namespace neuron::runtime {

class Inspection final : public SessionPart {
 public:
  static Inspection& of(Session& session) { return session.inspection.of<Inspection>(); }
  static Inspection* existing(const Session& session) {
    return static_cast<Inspection*>(session.inspection.existing());
  }
  ~Inspection() override;

  Result<void> begin(Session& session, const InspectSettings& settings);
  // Writes the files.
  Result<void> stop();
  bool profiles_devices() const;

  // The caller has the turn of the model's core. Returns the path of the profile that was begun.
  std::optional<std::string> before_execution(Session& session, LoadedModel& model);
  void after_execution(Session& session, LoadedModel& model, const std::string& path, bool failed);
  // Keeps the file of a model that was loaded.
  void loaded(const LoadedModel& model, neff::Bytes file);

 private:
  std::string profile_path(const LoadedModel& model) const;
  Result<void> write_trace() const;
  Result<void> write_about() const;
  Result<void> write_samples(const char* name,
                             std::string (HostSampler::*text)(size_t, size_t) const) const;

  mutable std::mutex mutex_;  // everything below
  bool running_ = false;
  Session* session_ = nullptr;  // while it runs
  InspectSettings settings_;
  std::string folder_;
  bool traces_ = false;
  uint64_t begin_ns_ = 0;
  uint64_t failures_ = 0;
  std::set<std::string> profiled_;  // paths
  std::unique_ptr<HostSampler> sampler_;
};

// An execution that an inspect session may want to profile.
class InspectedExecution {
 public:
  // In the turn of the model's core.
  InspectedExecution(Session& session, LoadedModel& model) : session_(session), model_(model) {
    if (Inspection* inspection = Inspection::existing(session)) {
      path_ = inspection->before_execution(session, model);
    }
  }
  Result<void> end(Result<void> result) const {
    if (path_) {
      Inspection::of(session_).after_execution(session_, model_, *path_, !result);
    }
    return result;
  }

 private:
  Session& session_;
  LoadedModel& model_;
  std::optional<std::string> path_;
};

}  // namespace neuron::runtime

#endif
