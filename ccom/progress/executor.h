// SPDX-License-Identifier: Apache-2.0
// Runs the programs of one rank over its connections, inline in the caller's thread.
//
// Concepts: run() interprets the rank's channels round-robin until all are done or the timeout
// passes without progress. While it waits for what the connections offer it spins, then yields,
// then sleeps. With the rank order (default) and all ranks in one host's memory, a complete
// reduction reads every rank's input in rank order, and an incomplete one is only waited for.
// Threads: one runs an executor; others may set `interrupted`. Fails: the sentence names the ranks
// that are missing, what they did last, and the connection.
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

struct Operands {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

// One collective under way.
class Execution {
 public:
  virtual ~Execution() = default;
  // Advances as far as possible without blocking. kDone once, when the caller's buffers are free.
  virtual Outcome advance() = 0;
  virtual const Error& failure() const = 0;
};

class Executor {
 public:
  virtual ~Executor() = default;

  // `timeout`: without progress; zero: the context's.
  virtual Result<std::unique_ptr<Execution>> start(std::shared_ptr<const Plan> plan,
                                                   const Operands& operands,
                                                   const Signature& signature,
                                                   std::chrono::milliseconds timeout = {}) = 0;
  // start, then advance until done, with the quickest path there is. The plan outlives the call.
  virtual Result<void> run(const std::shared_ptr<const Plan>& plan, const Operands& operands,
                           const Signature& signature, std::chrono::milliseconds timeout) = 0;
};

// What an executor is made with. Everything pointed at outlives it.
struct ExecutorContext {
  Rank rank = 0;
  uint32_t size = 1;
  Bootstrap* bootstrap = nullptr;  // members; exchange of addresses while the executor is made
  std::vector<Arena*> arenas;      // by rank; null: on another host
  bool rank_order = true;
  std::string providers;                     // libfabric's, in order of preference
  std::string local_address;                 // of the interface between hosts; empty: chosen
  base::Deadline deadline{base::Moment{}};   // of making it
  std::chrono::milliseconds timeout{60000};  // of an operation without progress
  // Not zero: a rank died or one aborted, and interruption() has the error.
  const std::atomic<uint32_t>* interrupted = nullptr;
  std::function<Error()> interruption;
  // Where progress of the operation under way on a stream is noted; null: nowhere.
  std::array<std::atomic<FlightRecord*>, CCOM_MAX_STREAMS>* records = nullptr;
};

// All ranks in one host's memory.
Result<std::unique_ptr<Executor>> make_host_executor(const ExecutorContext& context);
// Ranks of several hosts: shared memory within one, libfabric between them.
Result<std::unique_ptr<Executor>> make_network_executor(const ExecutorContext& context);

}  // namespace neuron::ccom

#endif
