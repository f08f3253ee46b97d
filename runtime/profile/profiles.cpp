// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/profiles.h"

#include <filesystem>

#include "runtime/base/log.h"
#include "runtime/device/core_turn.h"

namespace neuron::runtime {
namespace {

// Nobody is there to be told but the log.
void stop_and_tell(ModelProfile& profile) {
  const Result<void> stopped = profile.stop();
  if (!stopped && profile.failure_is_news()) {
    log_error(LogComponent::kNrt, "{}", stopped.error().sentence);
  }
}

// Of a file that there may not be yet.
std::string canonical(const std::string& path) {
  std::error_code error;
  const auto full = std::filesystem::weakly_canonical(std::filesystem::absolute(path), error);
  return error ? path : full.string();
}

}  // namespace

Profiles::~Profiles() {
  for (auto& [path, profile] : profiles_) {
    if (profile != nullptr) stop_and_tell(*profile);
  }
}

Result<void> Profiles::start(LoadedModel& model, const std::string& path) {
  const std::string name = canonical(path);
  {
    // Null while it begins: a model on another core may ask for the same file meanwhile.
    const std::lock_guard lock(mutex_);
    if (!profiles_.try_emplace(name).second) {
      return fail(NRT_INVALID, "a profile is being written to '{}' already; stop it first", path);
    }
  }
  auto profile = ModelProfile::start(model, path);
  const std::lock_guard lock(mutex_);
  if (profile) {
    profiles_[name] = std::move(*profile);
    return {};
  }
  profiles_.erase(name);
  return profile.error();
}

std::unique_ptr<ModelProfile> Profiles::remove(const std::string& path) {
  const std::string name = canonical(path);
  const std::lock_guard lock(mutex_);
  const auto found = profiles_.find(name);
  if (found == profiles_.end() || found->second == nullptr) return nullptr;
  std::unique_ptr<ModelProfile> profile = std::move(found->second);
  profiles_.erase(found);
  return profile;
}

Result<void> Profiles::stop(const std::string& path, bool& told) {
  const std::string name = canonical(path);
  Core* core = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = profiles_.find(name);
    if (found != profiles_.end() && found->second != nullptr) core = &found->second->model().core();
  }
  // Its core outlives the session's models, so the turn can be taken without the lock.
  if (core != nullptr) {
    NEURON_TRY(turn, CoreTurn::take(*core));
    if (const auto profile = remove(path)) {
      auto stopped = profile->stop();
      told = !stopped && !profile->failure_is_news();
      return stopped;
    }
  }
  return fail(NRT_INVALID,
              "no profile is being written to '{}': start one with this name, and keep its model "
              "loaded until it is stopped",
              path);
}

void Profiles::end(const LoadedModel& model) {
  std::vector<std::string> paths;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [path, profile] : profiles_) {
      if (profile != nullptr && &profile->model() == &model) paths.push_back(path);
    }
  }
  for (const std::string& path : paths) end(path);
}

void Profiles::end(const std::string& path) {
  if (const auto profile = remove(path)) stop_and_tell(*profile);
}

}  // namespace neuron::runtime
