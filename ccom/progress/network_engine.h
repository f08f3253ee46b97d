// SPDX-License-Identifier: Apache-2.0
// What a rank has under way on its streams, over connections of the network and of the host.
//
// Concepts: the collectives of a stream run one after the other, those of several streams at the
// same time. A round takes everything a step further. When a collective is silent for a second, the
// rank asks all others what they do. Another call with the same number is a mismatch then, and at
// the deadline the sentence can name the missing ranks. A failure ends everything that is under
// way, takes back what the network still holds, and stays. Reports are given after it, too.
// Callers: NetworkExecutor and its proxy. Threads: one at a time; others may read the state of a
// task. Owns: port and shared connections. Fails: tasks, each with a sentence.
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
  // The driver of the engine stores it with release, the caller loads it with acquire and then
  // sees the results and `failure`.
  std::atomic<TaskState> state{TaskState::kWaiting};
  Error failure;

  // Of the engine.
  std::optional<StepRunner> runner;
  std::byte* scratch = nullptr;
  base::Moment moved{};  // last time that something happened
  base::Moment ask{};    // when to ask the others
  bool moving = false;
  bool asked_finally = false;
  uint32_t known = 0;              // of its memories: input, output, scratch
  std::optional<Error> suspicion;  // of `suspect`, until it is known or `decide` has come
  Rank suspect = 0;
  base::Moment decide{};
};

class NetworkEngine {
 public:
  // `shared`: connections within the host, by rank; null where the network is used. `context` as
  // for the executor.
  NetworkEngine(const ExecutorContext& context, std::vector<Member> members,
                std::unique_ptr<NetworkPort> port, std::vector<std::unique_ptr<Connection>> shared);
  ~NetworkEngine();

  Result<void> begin(NetworkTask& task);
  // True: something happened. Throws nothing: without memory everything fails.
  bool round();
  // The owner gives up on a task: everything fails unless it has ended.
  void forget(NetworkTask& task);
  bool idle() const;  // no task, and nothing on its way out

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
  Error no_memory_;  // made while there is some
  uint32_t idle_rounds_ = 0;
  bool somebody_left_ = false;
  bool moved_ = false;
};

}  // namespace neuron::ccom

#endif
