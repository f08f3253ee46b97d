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
#include <vector>

#include "runtime/ntff/trace_file.h"
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
  // Writes the next file of the core's series in the folder, and removes the oldest ones if there
  // are more than the environment allows.
  Result<void> save(Session& session, uint32_t vnc, const std::string& output_dir);
  Result<void> stop();

 private:
  enum class State : uint8_t { kOff, kChanging, kOn };
  // Of each physical core of a virtual one.
  using Kept = std::vector<std::shared_ptr<LastExecution>>;
  static Result<void> write(const Kept& kept, ntff::TraceFileWriter& file);
  // Ends the recordings of these cores, taking their turns.
  static void end(const std::vector<Core*>& cores);

  std::mutex mutex_;  // everything below
  State state_ = State::kOff;
  std::map<uint32_t, Kept> kept_;  // by the cores' numbers
  std::vector<Core*> cores_;
};

}  // namespace neuron::runtime

#endif
