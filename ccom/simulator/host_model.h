// SPDX-License-Identifier: Apache-2.0
// Predicts the time of a plan in host memory, for ranks that share the memory and processors of one
// host.
//
// Concepts: it runs the programs of the plan by the rules of the executor for host memory with the
// order of ranks. Data stays where it is, so a send costs nothing, and a receive copies unless a
// reduction replaces it. An incomplete reduction costs nothing; a complete one reads the vectors of
// all ranks. In a mesh the rank that reduced writes the result to all. A rank is one thread for all
// its channels, and needs a processor while it works. Prices are measured: curves of picoseconds
// per byte over the size of the larger buffer of a rank. Callers: benches, planner's calibration.
// Thread-safe: functions of their arguments. Fails: CCOM_TIMEOUT for a schedule that waits in a
// circle.
#ifndef CCOM_SIMULATOR_HOST_MODEL_H
#define CCOM_SIMULATOR_HOST_MODEL_H

#include <cstdint>
#include <utility>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/plan/planner.h"

namespace neuron::ccom {

// Picoseconds per byte at some sizes; between two sizes it interpolates by the logarithm of the
// size.
class HostCurve {
 public:
  void set(uint64_t bytes, double ps_per_byte);
  double at(uint64_t bytes) const;  // 0 without any point

 private:
  std::vector<std::pair<uint64_t, double>> points_;  // by size
};

struct HostModel {
  uint32_t processors = 1;
  uint64_t start_ps = 0;    // of an operation: call, publication, and the last check of the others
  uint64_t message_ps = 0;  // from a step of one rank to a step of another that waits for it
  HostCurve copy;           // read and written
  HostCurve read;           // an operand of a reduction
  HostCurve write;          // its result
};

struct HostSimulation {
  uint64_t time_ps = 0;
  uint64_t work_ps = 0;   // of all ranks
  uint32_t messages = 0;  // in the longest chain of messages that ranks waited for
};

Result<HostSimulation> simulate_host(const Plan& plan, const HostModel& model);

}  // namespace neuron::ccom

#endif
