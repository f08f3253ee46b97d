// SPDX-License-Identifier: Apache-2.0
// How long a plan takes on a topology, in model time: it runs the very programs that executors run.
//
// Concepts: time is in integer picoseconds. A message goes through the resources of its route: core
// port, link direction, NIC; with `memory` also HBM and DMA of both chips. It occupies each for
// bytes / rate, in order, and each adds its latency. A send waits until fewer than `window`
// messages to its peer are on their way: a credit comes back when the receive is done, after the
// latency of the route. Sharing: kDivided gives each flow (rank, channel, peer) a fixed part of
// every resource that it uses; kQueued lets the messages of all flows queue for the whole of it. A
// symmetric schedule is folded: one period of ranks stands for all. Jitter is a hash of seed, flow
// and message, so that every run with a seed is the same.
//
// Callers: nccom-test, benches, planner's calibration. Thread-safe: functions of their arguments.
// Fails: CCOM_INVALID for places outside the topology, CCOM_UNSUPPORTED without a route,
// CCOM_TIMEOUT for a schedule that waits in a circle.
#ifndef CCOM_SIMULATOR_SIMULATOR_H
#define CCOM_SIMULATOR_SIMULATOR_H

#include <cstdint>
#include <string>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/plan/planner.h"
#include "ccom/topology/routes.h"

namespace neuron::ccom {

enum class Sharing : uint8_t { kDivided, kQueued };
// kDataflow: each rank runs until it waits; needs resources that no two flows share (kDivided).
// kEvents: one queue of events in the order of (time, sequence). Both give the same times.
enum class Engine : uint8_t { kAuto, kDataflow, kEvents };

// What steps cost on top of messages. Zero rates: no time.
struct StepCosts {
  uint64_t send_ps = 0;                // of the proxy or CC core, for each message
  uint64_t receive_ps = 0;             // likewise
  uint64_t local_ps = 0;               // of each reduce, copy and duplicate
  double reduce_bytes_per_second = 0;  // of operands read
  double copy_bytes_per_second = 0;
};

struct SimulationOptions {
  Sharing sharing = Sharing::kQueued;
  Engine engine = Engine::kAuto;
  StepCosts costs;
  bool memory = false;     // kQueued: HBM and DMA of the chips are resources, too
  bool fold = true;        // when the schedule says that it is symmetric and nothing here breaks it
  uint32_t threads = 1;    // kDataflow
  uint32_t window = 0;     // 0: the plan's
  uint64_t jitter_ps = 0;  // largest; uniform
  uint64_t seed = 1;
  std::vector<FailedLink> failed;
  bool loads = false;  // fill Simulation::loads
};

struct ResourceLoad {
  std::string name;
  uint64_t bytes = 0;
  double busy = 0;  // of the time, 0 to 1
};

struct Simulation {
  uint64_t time_ps = 0;   // when the last rank is done
  uint64_t messages = 0;  // simulated: of all ranks, or of those that stand for them
  uint64_t events = 0;    // arrivals, credits and ends of local steps that take time
  uint64_t steps = 0;
  uint32_t ranks = 0;  // simulated
  bool folded = false;
  Engine engine = Engine::kDataflow;
  std::vector<uint64_t> finished_ps;  // of each simulated rank
  std::vector<ResourceLoad> loads;    // that carried anything, by name of the node first
};

Result<Simulation> simulate(const Group& group, const Plan& plan,
                            const SimulationOptions& options = {});

}  // namespace neuron::ccom

#endif
