// SPDX-License-Identifier: Apache-2.0
//
// One request for an inference: rows for a model, and later its answer.
// Owner: the connection that received it, which is a Job. It fills the upper part, hands the job to
// a BatchQueue and leaves it alone; an executor fills the lower part and gives it back through
// finished(), which runs on the network thread. The queue's mutex and the network loop's queue
// order these accesses. Fails: `outcome` says so, `detail` why.
#ifndef TOOLS_NEURON_SERVE_MESSAGE_JOB_H
#define TOOLS_NEURON_SERVE_MESSAGE_JOB_H

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace neuron::serve {

using Clock = std::chrono::steady_clock;

enum class Outcome : uint8_t {
  kDone,
  kFailed,       // the model's execution failed
  kUnavailable,  // the device is gone, or the program ends
  kLate,         // the request's deadline passed while it waited
};

class Job {
 public:
  virtual ~Job() = default;
  virtual void finished() = 0;

  uint32_t rows = 0;
  std::string input;  // all rows of the first input, all of the second ...
  Clock::time_point accepted, deadline;

  Outcome outcome = Outcome::kDone;
  std::string detail;
  std::string output;  // as input
  Clock::time_point started;
  uint32_t batch_rows = 0;  // of all requests that were executed together
  uint64_t host_ns = 0;     // nrt_execute
  uint64_t device_ps = 0;   // model time
};

using Jobs = std::vector<std::shared_ptr<Job>>;

}  // namespace neuron::serve

#endif
