// SPDX-License-Identifier: Apache-2.0
// Runs the programs of one rank over its connections, inline in the caller's thread.
//
// Concepts: run() interprets the rank's channels round-robin until all are done or the timeout
// passes without progress. While it waits for its connections, it spins, then yields, then sleeps.
// With the rank order (default) and all ranks in one host's memory, a complete reduction reads
// every rank's input in rank order, and an incomplete one does no arithmetic, only its waits
// remain. Threads: one runs an executor; others may set `interrupted`. Fails: the sentence names
// the missing ranks, their last operations, and the connection.
#ifndef CCOM_PROGRESS_EXECUTOR_H
#define CCOM_PROGRESS_EXECUTOR_H

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/bootstrap/bootstrap.h"
#include "ccom/flight/flight_recorder.h"
#include "ccom/plan/planner.h"
#include "ccom/transport/arena.h"
#include "ccom/transport/connection.h"
#include "driver/base/deadline.h"

namespace neuron::ccom {

class NetworkPort;

struct Operands {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

// One collective in flight.
class Execution {
 public:
  virtual ~Execution() = default;
  // Advances as far as possible without blocking. Returns kDone once, when the caller's buffers are
  // free.
  virtual Outcome advance() = 0;
  virtual const Error& failure() const = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;

  // `timeout`: the longest time without progress; zero: that of the context.
  virtual Result<std::unique_ptr<Execution>> start(std::shared_ptr<const Plan> plan,
                                                   const Operands& operands,
                                                   const Signature& signature,
                                                   std::chrono::milliseconds timeout = {}) = 0;
  // Starts and advances until done, by the quickest path. The plan must outlive the call.
  virtual Result<void> run(const std::shared_ptr<const Plan>& plan, const Operands& operands,
                           const Signature& signature, std::chrono::milliseconds timeout) = 0;

  // The provider between hosts, "" on one host.
  virtual std::string network() const { return {}; }

  // Memory that is kept for later collectives, beside the arenas. It is freed while none is under
  // way.
  virtual void free_memory() {}
  virtual uint64_t working_memory() const { return 0; }
};

// The arguments of an executor. All pointers must outlive it.
struct ExecutorContext {
  Rank rank = 0;
  uint32_t size = 1;
  Bootstrap* bootstrap = nullptr;  // members; exchange of addresses while the executor is made
  std::vector<Arena*> arenas;      // by rank; null: on another host
  bool rank_order = true;
  std::string providers;      // libfabric's, in order of preference
  std::string local_address;  // of the interface between hosts; empty: chosen
  // The call that needs the network, for sentences of ranks that are at different calls.
  std::string call = "a new communicator";
  base::Deadline deadline{base::Moment{}};   // for making the executor
  std::chrono::milliseconds timeout{60000};  // of an operation without progress
  // Not zero: a rank died or aborted, and interruption() has the error.
  const std::atomic<uint32_t>* interrupted = nullptr;
  std::function<Error()> interruption;
  // The record of the operation in flight on each stream, for its progress; null: none is kept.
  std::array<std::atomic<FlightRecord*>, CCOM_MAX_STREAMS>* records = nullptr;
};

// For ranks that are all in one host's memory.
Result<std::unique_ptr<Executor>> make_host_executor(const ExecutorContext& context);
// A port to all ranks of the bootstrap, which open theirs at the same time: they agree on the first
// provider of rank 0 that all have. Either all ranks get a port or none does.
Result<std::unique_ptr<NetworkPort>> open_network_port(const ExecutorContext& context);
// For ranks of several hosts: shared memory within a host, libfabric between hosts.
Result<std::unique_ptr<Executor>> make_network_executor(const ExecutorContext& context);

}  // namespace neuron::ccom

#endif
