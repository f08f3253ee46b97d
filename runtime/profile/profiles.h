// SPDX-License-Identifier: Apache-2.0
//
// The profiles that a session writes now, by their file, however its name is spelled.
// Callers: nrt_profile_*, nrt_unload. Thread-safe: all functions; those that stop a profile need
// the turn of its core, and take it unless they say that the caller has it. Owns the profiles;
// closing the session ends them, so that their files are whole.
#ifndef RUNTIME_PROFILE_PROFILES_H
#define RUNTIME_PROFILE_PROFILES_H

#include <map>
#include <mutex>

#include "runtime/profile/model_profile.h"
#include "runtime/session/session.h"

namespace neuron::runtime {

class Profiles final : public SessionPart {
 public:
  static Profiles& of(Session& session) { return session.profiles.of<Profiles>(); }
  static Profiles* existing(const Session& session) {
    return static_cast<Profiles*>(session.profiles.existing());
  }
  ~Profiles() override;

  // The caller has the turn of the model's core.
  Result<void> start(LoadedModel& model, const std::string& path);
  // `told`: the log has the sentence of the failure already.
  Result<void> stop(const std::string& path, bool& told);
  // Ends the profile of the model, if it has one. The caller has the turn of the model's core.
  void end(const LoadedModel& model);
  // Ends the profile into this file, if there is one. The caller has the turn of its core.
  void end(const std::string& path);

 private:
  // Null if there is none.
  std::unique_ptr<ModelProfile> remove(const std::string& path);

  std::mutex mutex_;                                               // profiles_
  std::map<std::string, std::unique_ptr<ModelProfile>> profiles_;  // by canonical path
};

}  // namespace neuron::runtime

#endif
