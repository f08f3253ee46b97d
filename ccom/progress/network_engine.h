// SPDX-License-Identifier: Apache-2.0
// Runs the collectives of a rank's streams over connections of the network and of the host.
//
// Concepts: the collectives of a stream run one after the other, those of several streams at the
// same time. A round advances everything by a step. When a collective has made no progress for a
// second, the rank asks all others for reports. A report of another call with the same number is a
// mismatch; at the deadline the sentence can name the missing ranks. A failure ends all tasks,
// takes buffers back from the network, and is permanent. The engine still answers with reports
// after it. Callers: NetworkExecutor and its proxy. Threads: one at a time; others may read the
// state of a task. Owns: port and shared connections. Fails: tasks, each with a sentence.
#ifndef CCOM_PROGRESS_NETWORK_ENGINE_H
#define CCOM_PROGRESS_NETWORK_ENGINE_H

#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ccom/progress/executor.h"
#include "ccom/progress/network_report.h"
#include "ccom/progress/step_runner.h"
#include "ccom/transport/network_port.h"

namespace neuron::ccom {

enum class TaskState : uint8_t { kWaiting, kRunning, kDone, kFailed };

// One collective of this rank. Its owner keeps it until it is done, or forgets it.
struct NetworkTask {
  std::shared_ptr<const Plan> plan;
  Operands operands;
  Signature signature;
  std::chrono::milliseconds timeout{0};
  // The thread that drives the engine stores it with release. The caller loads it with acquire and
  // then sees the results and `failure`.
  std::atomic<TaskState> state{TaskState::kWaiting};
  Error failure;

  // The engine's part.
  std::optional<StepRunner> runner;
  std::byte* scratch = nullptr;
  base::Moment moved{};  // last time that something happened
  base::Moment ask{};    // when to ask the others next
  bool moving = false;
  bool asked_finally = false;
  uint32_t known = 0;              // bits of its registered memories: input, output, scratch
  std::optional<Error> suspicion;  // about `suspect`, until it is certain or `decide` has come
  Rank suspect = 0;
  base::Moment decide{};
};

class NetworkEngine {
 public:
  // `shared`: connections within the host, by rank; null where the network is used. `context` is
  // that of the executor.
  NetworkEngine(const ExecutorContext& context, std::vector<Member> members,
                std::unique_ptr<NetworkPort> port, std::vector<std::unique_ptr<Connection>> shared);
  ~NetworkEngine();

  Result<void> begin(NetworkTask& task);
  // Returns whether something happened. Throws nothing: if memory runs out, all tasks fail.
  bool round();
  // The owner gives up on a task: unless the task has ended, everything fails.
  void forget(NetworkTask& task);
  bool idle() const;  // no task, and nothing left to send
  // Scratch memory that later tasks may use.
  void free_scratch() { scratches_.clear(); }
  uint64_t scratch_bytes() const;

 private:
  using Scratch = std::unique_ptr<std::byte, decltype(&std::free)>;

  bool turn();
  Result<void> admit(NetworkTask& task);
  void activate(NetworkTask& task);
  void finish(NetworkTask& task);
  void fail_all(Error error);
  void release(NetworkTask& task);
  void step(NetworkTask& task);
  void suspect(NetworkTask& task);
  void judge(NetworkTask& task, base::Moment now);
  void watch(NetworkTask& task, base::Moment now);
  void compare(NetworkTask& task);
  bool all_answered() const;
  bool deserted(NetworkTask& task);
  void ask(Rank rank, base::Moment now);
  void ask_all(NetworkTask& task, base::Moment now);
  void take_report(Rank rank, const ControlMessage& message);
  ControlMessage own_report() const;
  void note(NetworkTask& task, bool waiting);
  std::byte* take_scratch(uint64_t bytes);

  ExecutorContext context_;
  std::vector<Member> members_;
  std::unique_ptr<NetworkPort> port_;
  std::vector<std::unique_ptr<Connection>> shared_;
  std::vector<Connection*> connections_;  // by rank
  std::array<std::deque<NetworkTask*>, CCOM_MAX_STREAMS> queues_;
  std::array<StreamReport, CCOM_MAX_STREAMS> streams_;
  std::vector<RankReport> reports_;
  std::vector<std::pair<uint64_t, Scratch>> scratches_;  // free
  std::vector<std::pair<uint64_t, Scratch>> lent_;
  std::optional<Error> failure_;
  Error no_memory_;  // allocated in advance
  uint32_t idle_rounds_ = 0;
  bool somebody_left_ = false;
  bool moved_ = false;
};

}  // namespace neuron::ccom

#endif
