// SPDX-License-Identifier: Apache-2.0
//
// The states that a reset goes through; each is reported when it is reached.
//
// Concepts: looking -> resetting -> returning -> verifying, then one end: ready, refused, failed,
// faulty or unverified. One deadline covers everything. The machine decides; it sees and acts
// through a Subject, which is the device or a test's script.
// Callers: main(), a thread for each device. Owns nothing. Fails: never, a failure is an end.
#ifndef TOOLS_NEURON_RESET_MACHINE_MACHINE_H
#define TOOLS_NEURON_RESET_MACHINE_MACHINE_H

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tools/device_checks/finding.h"
#include "tools/device_checks/part.h"
#include "tools/telemetry/snapshot.h"

namespace neuron::reset {

enum class State {
  kLooking,     // is it there, who holds it
  kResetting,   // the driver was told
  kReturning,   // until the driver says that it is ready
  kVerifying,   // memory, then a program on each core
  kReady,       // end: it was reset, and works
  kRefused,     // end: somebody holds it; nothing was done
  kFailed,      // end: it could not be reset, or is not back in time
  kFaulty,      // end: it was reset, but does not work
  kUnverified,  // end: it was reset, but others hold cores, which could not be tried
};
const char* name(State state);
bool is_end(State state);
// The exit status of a program whose devices have come to these ends: the gravest decides.
int exit_status(const std::vector<State>& ends);

struct Event {
  int device = 0;
  State state = State::kLooking;
  std::string detail;  // a sentence without its full stop; may be empty
  std::chrono::system_clock::time_point at;
  double elapsed_seconds = 0;
};

// The visible state of the device.
struct Sight {
  bool found = false;
  telemetry::DeviceState state = telemetry::DeviceState::kUnknown;
  std::string error;                 // why it, or all of them, cannot be seen
  std::vector<std::string> holders;  // "pid 4711 (python3)"
  std::vector<checks::ProgramCore> cores;
  std::vector<std::string> hung_engines;  // "core 1 DVE"
  std::vector<std::string> links_down;    // "device 1"
  uint64_t failed_resets = 0;
};

struct Attempt {
  enum class How { kDone, kBusy, kFailed } how = How::kFailed;
  std::string sentence;
};

// Each call is over by `end`, or little later.
class Subject {
 public:
  using Clock = std::chrono::steady_clock;
  virtual ~Subject() = default;
  virtual Clock::time_point now() = 0;
  virtual void pause() = 0;  // between two looks
  virtual Sight look(Clock::time_point end) = 0;
  // `force`: resets even if somebody holds cores; otherwise no other process gets a core meanwhile.
  virtual Attempt reset(bool force, Clock::time_point end) = 0;
  virtual checks::Findings verify_memory(Clock::time_point end) = 0;
  virtual checks::Findings verify_core(const checks::ProgramCore& core, Clock::time_point end) = 0;
};

struct Plan {
  int device = 0;
  bool force = false;
  std::chrono::milliseconds timeout{180000};  // of all of it
};

// Goes through the states. Returns the end, which is reported like the other states.
State run(Subject& subject, const Plan& plan, const std::function<void(const Event&)>& tell);

}  // namespace neuron::reset

#endif
