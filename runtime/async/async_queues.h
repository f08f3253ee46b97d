// SPDX-License-Identifier: Apache-2.0
//
// The asynchronous side of a session: units of all its cores, their workers, sequence ids.
// Callers: nrta_* functions, nrt_execute (take_turn). Thread-safe: all
// functions. Made by the first asynchronous call of a session, so no thread exists before that.
// Owns units and workers. The destructor lets running requests end (by their own deadlines) and
// completes all others with NRT_CLOSED. Borrows the session, which destroys this first.
// Fails: as the C interface says; requests fail by their status, with a sentence in the log.
#ifndef RUNTIME_ASYNC_ASYNC_QUEUES_H
#define RUNTIME_ASYNC_ASYNC_QUEUES_H

#include <memory>
#include <vector>

#include "runtime/async/async_unit.h"
#include "runtime/async/async_workers.h"
#include "runtime/device/core_turn.h"
#include "runtime/model/loaded_model.h"
#include "runtime/session/session.h"

namespace neuron::runtime {

class AsyncQueues final : public SessionPart {
 public:
  // The queues of the session; the first call makes them.
  static Result<AsyncQueues*> of(Session& session);
  // The queues of the session, or null if it has none.
  static AsyncQueues* existing(const Session& session) {
    return static_cast<AsyncQueues*>(session.async.existing());
  }
  ~AsyncQueues() override;
  AsyncQueues(const AsyncQueues&) = delete;
  AsyncQueues& operator=(const AsyncQueues&) = delete;

  // NRT_INVALID: there is no such queue.
  Result<AsyncUnit*> unit(uint32_t core, nrta_xu_t type, int queue);
  // The unit that gave out the sequence id, NRT_INVALID if it did not.
  Result<AsyncUnit*> unit_of(nrta_seq_t sequence);
  // The number of the core in whose memory the storage is; 0 for host memory.
  uint32_t core_of(const Storage& storage) const;

  Result<nrta_seq_t> submit(AsyncUnit& unit, AsyncRequest&& request);
  // Notes that the caller was told of the request's completion: requests that it schedules on the
  // core from now on begin later in model time.
  void observed(AsyncUnit& unit, uint64_t number);

  // The turn of the model's core for an execution that the calling thread runs itself, behind those
  // that were scheduled on the core before. NRT_TIMEOUT: none of them has completed for twice
  // NEURON_RT_EXEC_TIMEOUT, or others have the core for its turn limit.
  static Result<CoreTurn> take_turn(const Session& session, LoadedModel& model);
  // Waits for the executions that were scheduled on the core before, as long as at least one of
  // them completes within each `limit`.
  Result<void> wait_for_executions(const Core& core, std::chrono::seconds limit);

 private:
  AsyncQueues(Session& session, uint64_t first);
  bool work(AsyncUnit& unit);
  void perform(AsyncUnit& unit, uint32_t available);
  void execute_some(AsyncUnit& unit, uint32_t available);
  Result<void> transfer(const AsyncRequest& request);
  void end_with(AsyncUnit& unit, const Error& error);
  void end_unloaded(AsyncUnit& unit, const LoadedModel& model, NRT_STATUS status);

  Session& session_;
  std::vector<std::unique_ptr<AsyncUnit>> units_;
  // By core: the model time up to which the caller has seen completions. Relaxed: a clock.
  std::unique_ptr<std::atomic<uint64_t>[]> observed_ps_;
  std::atomic<bool> stopping_{false};
  AsyncWorkers workers_;  // last: its threads use everything above
};

}  // namespace neuron::runtime

#endif
