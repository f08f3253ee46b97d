// SPDX-License-Identifier: Apache-2.0
//
// Keeps what the last execution on each core did, in memory, to be saved when somebody asks.
// Callers: nrt_profile_continuous_*. Thread-safe: all functions; they take the turns of the cores.
// Owns the recordings; the destructor ends them. Fails: start() when it runs, or a core is
// profiled; save() when nothing was executed. An execution with more than kMostEntries keeps its
// first ones.
#ifndef RUNTIME_PROFILE_CONTINUOUS_PROFILE_H
#define RUNTIME_PROFILE_CONTINUOUS_PROFILE_H

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/session/session.h"

namespace neuron::runtime {

class LastExecution;

class ContinuousProfile final : public SessionPart {
 public:
  static ContinuousProfile& of(Session& session) {
    return session.continuous.of<ContinuousProfile>();
  }
  ~ContinuousProfile() override;

  Result<void> start(Session& session);
  // Writes <dir>/profile_nc_<vnc>_session_<n>.ntff, n counting up over all files that the folder
  // has: nothing is overwritten.
  Result<void> save(Session& session, uint32_t vnc, const std::string& output_dir);
  Result<void> stop();

 private:
  enum class State : uint8_t { kOff, kChanging, kOn };
  // Of each physical core of a virtual one.
  using Kept = std::vector<std::shared_ptr<LastExecution>>;
  // Ends the recordings of these cores, taking their turns.
  static void end(const std::vector<Core*>& cores);

  std::mutex mutex_;  // everything below
  State state_ = State::kOff;
  std::map<uint32_t, Kept> kept_;  // by the cores' numbers
  std::vector<Core*> cores_;
  std::map<std::pair<std::string, uint32_t>, uint32_t> saved_;  // next number, by folder and core
};

}  // namespace neuron::runtime

#endif
