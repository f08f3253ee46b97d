// SPDX-License-Identifier: Apache-2.0
// One rank of a communicator: it makes the parts, and hands each call to its part.
//
// Threads: one at a time, except abort(), revoke(), dump(), status(), tell() and told(). Owns:
// everything but buffers outside the arena. Fails: status and sentence; after the first failure
// from which ranks cannot continue, every later call returns it.
#ifndef CCOM_COMMUNICATOR_COMMUNICATOR_H
#define CCOM_COMMUNICATOR_COMMUNICATOR_H

#include <ccom/ccom.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ccom/bootstrap/bootstrap.h"
#include "ccom/communicator/environment.h"
#include "ccom/communicator/streams.h"
#include "ccom/communicator/window.h"
#include "ccom/plan/planner.h"

namespace neuron::ccom {

class Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> make(std::unique_ptr<Bootstrap> bootstrap,
                                                    const Settings& settings);
  // Joins the job of settings.root.
  static Result<std::unique_ptr<Communicator>> join(Rank rank, uint32_t size,
                                                    const Settings& settings);
  ~Communicator();

  Rank rank() const { return bootstrap_->rank(); }
  uint32_t size() const { return static_cast<uint32_t>(bootstrap_->members().size()); }
  ccom_status_t status() const { return failure_.status(); }

  Result<void> run(const ccom_collective_t& call) { return streams_->run(call); }
  Result<std::unique_ptr<Started>> start(const ccom_collective_t& call) {
    return streams_->start(call);
  }
  Result<void> launch(const ccom_collective_t& call, const ccom_completion_t& completion) {
    return streams_->launch(call, completion);
  }
  Result<std::string> explain(const ccom_collective_t& call);

  Result<void*> allocate(size_t bytes) { return memory_->allocate(bytes); }
  // Refuses memory that an open window shows.
  Result<void> release(void* memory);
  // Gives the working memory back, all ranks together, and refuses operations until resume().
  Result<void> suspend();
  Result<void> resume();
  MemoryUse memory() const;

  // Windows have numbers, the same on all ranks, which open and close them together. A window whose
  // close fails stays open, unless the communicator has failed.
  Result<uint32_t> open_window(void* memory, uint64_t bytes);
  Result<void> close_window(uint32_t window);
  Result<void> put(uint32_t window, Rank target, uint64_t offset, const void* source,
                   uint64_t bytes, uint32_t signal);
  Result<void> wait_signal(uint32_t window, Rank source, uint32_t signal, uint64_t count,
                           std::chrono::milliseconds timeout);

  // A port of its own to all ranks, which call this together, in `call`.
  Result<std::unique_ptr<NetworkPort>> open_port(const char* call);

  Result<std::unique_ptr<Communicator>> split(int32_t color, int32_t key);  // null: no color
  Result<std::unique_ptr<Communicator>> shrink();
  // `root`: where rank 0 collects the new ranks; empty: at that of this communicator.
  Result<std::unique_ptr<Communicator>> grow(uint32_t ranks, const std::string& root);
  void abort(const std::string& why);
  void revoke();
  void tell(uint64_t number, const std::string& sentence) {
    bootstrap_->tell(NoticeAbout::kProgram, number, sentence);
  }
  std::optional<Notice> told(uint64_t since) const {
    return bootstrap_->told(NoticeAbout::kProgram, since);
  }
  Result<void> dump(const std::string& path) const { return dump_->write(path); }
  // The process has forked: touches nothing of the parent.
  void forget();

 private:
  Communicator(std::unique_ptr<Bootstrap> bootstrap, const Settings& settings)
      : settings_(settings), bootstrap_(std::move(bootstrap)) {}

  Result<void> set_up(base::Deadline deadline);
  ExecutorContext context(base::Deadline deadline);
  static Result<JoinOptions> join_options(Rank rank, uint32_t size, const Settings& settings);
  // Returns when all ranks have said the same at `function`; fails with two that have not, or with
  // the trouble of one. `mine`: what this rank says beside it; the result is what rank 0 says.
  struct Beside {
    std::string word;
    std::string trouble;
  };
  Result<std::string> meet(const char* function, const std::string& says, const Beside& mine = {});
  // The growth with this number ends, on this rank or another one.
  void end_growth(uint64_t number, const Error& why);
  std::optional<Error> end_of_growth(uint64_t number) const;
  Result<Window*> find_window(uint32_t window);
  void abandon(uint32_t window);
  // Whether every rank can read and write the shared memory of every other.
  bool all_mapped() const;
  const Member& me() const { return bootstrap_->members()[bootstrap_->rank()]; }

  // Each member uses those above it.
  Settings settings_;
  FirstFailure failure_;
  std::optional<SharedMemory> memory_;
  std::optional<FlightRecorder> recorder_;
  std::optional<Planner> planner_;
  std::string network_;                   // the provider between hosts, "" on one host
  std::unique_ptr<Bootstrap> bootstrap_;  // its thread notes failures
  std::optional<FlightDump> dump_;
  std::optional<Streams> streams_;
  std::map<uint32_t, std::unique_ptr<Window>> windows_;
  // Closed after a failure, of which others may not know: they may still write to what these show.
  std::vector<std::unique_ptr<Window>> abandoned_;
  uint32_t next_window_ = 0;
  uint64_t growths_ = 0;  // that this rank, as rank 0, has begun
};

}  // namespace neuron::ccom

#endif
