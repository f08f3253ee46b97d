// SPDX-License-Identifier: Apache-2.0
// Predicts the time of a plan on a topology, in model time, by running the same programs as the
// executors.
//
// Concepts: time is in integer picoseconds. A message goes through the resources of its route: core
// port, link direction, NIC; with `memory` also HBM and DMA of both chips. It occupies each in
// order for bytes / rate, and each adds its latency. A send waits until fewer than `window`
// messages to its peer are in flight: a credit comes back one route latency after the receive.
// Sharing: kDivided gives each flow (rank, channel, peer) a fixed part of every resource that it
// uses; with kQueued, the messages of all flows queue for the whole resource. A symmetric schedule
// is folded: one period of ranks stands for all. Jitter is a hash of seed, flow and message, so
// every run with the same seed is the same.
//
// Callers: nccom-test, benches, planner's calibration. Thread-safe: functions of their arguments.
// Fails: CCOM_INVALID for places outside the topology, CCOM_UNSUPPORTED without a route,
// CCOM_TIMEOUT for a schedule that waits in a circle.
#ifndef CCOM_SIMULATOR_SIMULATOR_H
#define CCOM_SIMULATOR_SIMULATOR_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/plan/planner.h"
#include "ccom/topology/routes.h"

namespace neuron::ccom {

enum class Sharing : uint8_t { kDivided, kQueued };
// kDataflow: each rank runs until it waits; it needs kDivided, where no two flows share a resource.
// kEvents: one queue of events in the order of (time, sequence). Both give the same times.
enum class Engine : uint8_t { kAuto, kDataflow, kEvents };

// The costs of steps besides their messages. Zero rates: no time.
struct StepCosts {
  uint64_t send_ps = 0;                // of the proxy or CC core, for each message
  uint64_t receive_ps = 0;             // likewise
  uint64_t local_ps = 0;               // of each reduce, copy and duplicate
  double reduce_bytes_per_second = 0;  // of operands read
  double copy_bytes_per_second = 0;
  uint64_t message_ps = 0;    // of each message, besides its route: the start of a transfer
  uint64_t header_bytes = 0;  // that each message occupies its resources for, besides its own
};

// Processors that execute the steps of all ranks of a node, as between hosts with TCP, where the
// kernel copies: sends, receives and local steps occupy one of them.
struct ProcessorCosts {
  uint32_t of_node = 0;              // 0: every rank has one, and none of these costs count
  uint64_t switch_ps = 0;            // of a processor that changes from one rank to another
  uint64_t wait_ps = 0;              // of a receive that did not find its message there
  double send_bytes_per_second = 0;  // of the copy into the kernel; 0: no time
  double receive_bytes_per_second = 0;
  // Longer messages are offered and leave when the receiver has answered. 0: none are.
  uint64_t eager_bytes = 0;
  uint64_t offer_ps = 0;  // of the offer and its answer, of each side
  // Of a longer message the receiver can copy out what has come, in pieces of this size. 0: it
  // waits for all of it.
  uint64_t piece_bytes = 0;
};

// How far a simulation has come.
struct SimulationProgress {
  uint64_t steps = 0;    // of all simulated ranks
  uint64_t time_ps = 0;  // model time; 0 where the engine has none
};

struct SimulationOptions {
  Sharing sharing = Sharing::kQueued;
  Engine engine = Engine::kAuto;
  StepCosts costs;
  ProcessorCosts processors;  // kQueued
  bool memory = false;        // kQueued: HBM and DMA of the chips are resources, too
  bool fold = true;           // if the schedule claims symmetry and nothing here breaks it
  uint32_t threads = 1;       // kDataflow
  uint32_t window = 0;        // 0: the plan's
  uint64_t jitter_ps = 0;     // largest; uniform
  uint64_t seed = 1;
  std::vector<FailedLink> failed;
  bool loads = false;  // fill Simulation::loads
  // Engine of events: ends the simulation when model time passes this, with `complete` false. It
  // answers whether one plan is slower than another without simulating all of it. 0: never.
  uint64_t until_ps = 0;
  // Called by the thread of the call, several times a second.
  std::function<void(const SimulationProgress&)> progress;
};

struct ResourceLoad {
  std::string name;
  uint64_t bytes = 0;
  double busy = 0;  // share of the time, 0 to 1
};

struct Simulation {
  uint64_t time_ps = 0;   // when the last rank is done
  uint64_t messages = 0;  // of all ranks, or of the simulated ones when folded
  uint64_t events = 0;    // arrivals, credits and ends of local steps that take time
  uint64_t steps = 0;
  // Engine of events: the bytes of flows, messages and events at most; with `loads` also how many
  // messages there were whose credits were not back, by samples the most.
  uint64_t message_bytes = 0;
  uint64_t most_messages = 0;
  uint32_t ranks = 0;    // simulated
  bool complete = true;  // false: stopped at until_ps, which is time_ps
  bool folded = false;
  Engine engine = Engine::kDataflow;
  std::vector<uint64_t> finished_ps;  // of each simulated rank
  std::vector<ResourceLoad> loads;    // those that carried bytes; within a node, by name
};

Result<Simulation> simulate(const Group& group, const Plan& plan,
                            const SimulationOptions& options = {});

}  // namespace neuron::ccom

#endif
