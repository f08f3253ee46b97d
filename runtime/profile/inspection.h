// SPDX-License-Identifier: Apache-2.0
//
// An inspect session: a system trace, device profiles of models, samples of the host, all below
// <output_dir>/<instance>_pid_<pid>/.
//
// Files: ntrace.pb (system trace), trace_info.pb, cpu_util.pb, host_mem.pb, neff_<hash>.neff for
// each model that is loaded meanwhile, and device profiles: <hash>_instid_0_vnc_<n>.ntff of the
// first execution of a model, or profile_nc_<n>_session_<k>.ntff of all, where k counts the changes
// of models on the core. They have the original's names; all but the NEFF are files of
// runtime/ntff. Nothing is overwritten: a later session with the same folder gets one of its own in
// it, which is named after the time. Callers: nrt_inspect_*, nrt_init, loading, nrt_execute.
// Thread-safe: all functions; those on executions need the turn of the core. Owns what it writes;
// the destructor ends the session. Fails: begin() when a session runs, or the folder cannot be
// made; stop() with the first file that cannot be written, after all others are.
#ifndef RUNTIME_PROFILE_INSPECTION_H
#define RUNTIME_PROFILE_INSPECTION_H

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "runtime/model/file_image.h"
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

  // A device profile that was begun.
  struct Begun {
    std::string path;
    bool wanted = false;  // false: it is kept only if the execution fails
  };
  // The caller has the turn of the model's core.
  std::optional<Begun> before_execution(Session& session, LoadedModel& model);
  void after_execution(Session& session, LoadedModel& model, const Begun& begun, bool failed);
  // Keeps the file of a model that was loaded. `image`: where its holes are filled from, or null.
  void loaded(const LoadedModel& model, neff::Bytes file, const FileImage* image);

 private:
  // While it ends, what it has belongs to the thread that ends it.
  enum class State : uint8_t { kOff, kOn, kEnding };
  // The profile of all executions on a core.
  struct Whole {
    const LoadedModel* model = nullptr;  // whose executions the last file holds; may be gone
    std::string path;
    uint32_t files = 0;
  };
  std::optional<Begun> profile_for(Session& session, LoadedModel& model);
  std::string next_whole(Session& session, LoadedModel& model, Whole& whole);
  Result<void> make_folder();
  Result<void> write_files();
  void finish();
  Result<void> write_trace() const;
  Result<void> write_about() const;
  Result<void> write_samples(const char* name,
                             std::string (HostSampler::*text)(size_t, size_t) const) const;

  mutable std::mutex mutex_;  // everything below
  State state_ = State::kOff;
  Session* session_ = nullptr;  // while it runs
  InspectSettings settings_;
  std::string folder_;
  bool traces_ = false;
  uint64_t begin_ns_ = 0;
  uint64_t failures_ = 0;
  std::set<std::string> profiled_;    // paths
  std::map<uint32_t, Whole> wholes_;  // by the cores' numbers
  std::unique_ptr<HostSampler> sampler_;
};

// An execution that an inspect session may want to profile.
class InspectedExecution {
 public:
  // In the turn of the model's core.
  InspectedExecution(Session& session, LoadedModel& model) : session_(session), model_(model) {
    if (Inspection* inspection = Inspection::existing(session)) {
      begun_ = inspection->before_execution(session, model);
    }
  }
  Result<void> end(Result<void> result) const {
    if (begun_) {
      Inspection::of(session_).after_execution(session_, model_, *begun_, !result);
    }
    return result;
  }

 private:
  Session& session_;
  LoadedModel& model_;
  std::optional<Inspection::Begun> begun_;
};

}  // namespace neuron::runtime

#endif
