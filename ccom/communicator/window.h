// SPDX-License-Identifier: Apache-2.0
// Memory of every rank that the other ranks write to, one-sided: put, signal, wait.
//
// Concepts: each rank shows a part of its ccom_mem_alloc memory, or of a tensor on a device that it
// has mapped, or nothing. A put writes there without a call of its owner. A signal of a rank is
// counted behind the puts that the rank made before; who has waited for it sees their data. Who can
// store to the memory copies straight into the window and counts with one atomic addition: ranks
// that share host memory, and, where it is a device's, ranks of the owner's process. For the others
// there is a WindowPort. Signals have a counter for each source and number, in the owner's host
// memory. What a rank shows is checked against its arena, or against what this process has mapped,
// before anything is written there. Callers: the communicator's thread. Owns: the memory
// of the signals, through SharedMemory. Fails: open() on all ranks or on none, with CCOM_MISMATCH
// for ranks that are at other calls or show what they do not have; CCOM_INVALID for wrong arguments
// and CCOM_TIMEOUT of a wait, which end nothing; a put that cannot end is a failure of the
// communicator.
#ifndef CCOM_COMMUNICATOR_WINDOW_H
#define CCOM_COMMUNICATOR_WINDOW_H

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "ccom/bootstrap/bootstrap.h"
#include "ccom/communicator/device_memory.h"
#include "ccom/communicator/first_failure.h"
#include "ccom/communicator/shared_memory.h"
#include "ccom/communicator/window_port.h"

namespace neuron::ccom {

class Window {
 public:
  // `port`: to ranks whose host memory is not mapped here; null: all ranks' is. `open_port`: makes
  // one for memory of devices, if it is needed; all ranks together.
  struct Parts {
    Bootstrap* bootstrap = nullptr;
    SharedMemory* memory = nullptr;
    FirstFailure* failure = nullptr;
    std::unique_ptr<NetworkPort> port;
    std::function<Result<std::unique_ptr<NetworkPort>>()> open_port;
  };

  // All ranks together. `number`: what this rank would call the window.
  static Result<std::unique_ptr<Window>> open(Parts parts, std::byte* data, uint64_t bytes,
                                              uint32_t number, base::Deadline deadline);
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  // The same on all ranks: the highest that one of them would call it.
  uint32_t number() const { return number_; }
  // Whether the window shows memory of the block that begins here.
  bool shows(const void* block) const;
  // Nothing is written through the network any more. Ranks that share memory may still write.
  void disconnect() { remote_.reset(); }

  // Returns when `source` may change again. `signal`: CCOM_NO_SIGNAL: none.
  // `timeout`: the longest time without progress.
  Result<void> put(Rank target, uint64_t offset, const std::byte* source, uint64_t bytes,
                   uint32_t signal, std::chrono::milliseconds timeout);
  // Takes `count` signals.
  Result<void> wait(Rank source, uint32_t signal, uint64_t count, base::Deadline deadline);

 private:
  // What a rank shows, as offsets in its arena; memory of a device by the address that it has
  // there.
  struct Shown {
    uint64_t data = 0;
    uint64_t bytes = 0;
    uint64_t signals = 0;
    uint64_t process = 0;  // equal for ranks of one process
    bool on_device = false;
  };

  Window(Parts parts, std::byte* data, uint64_t bytes);
  Result<Shown> prepare();
  // Takes what all ranks have said; the result is the same on all of them.
  Result<void> accept(const std::string& mine, const std::vector<Bytes>& all);
  Result<void> reach();  // all ranks together
  Result<void> check_shown(Rank rank, const Shown& shown) const;
  Result<void> connect();
  // Whether `writer` stores straight to the memory of `owner`; one of them is this rank.
  bool direct(Rank owner, Rank writer) const;
  std::byte* data_of(Rank target) const;
  // The memory that this rank shows is gone: ends the communicator.
  Error lose(const Error& why);
  uint64_t counters() const { return uint64_t{size()} * CCOM_SIGNALS; }
  Result<void> check(Rank peer, uint32_t signal) const;
  Result<void> check_put(Rank target, uint64_t offset, const std::byte* source, uint64_t bytes,
                         uint32_t signal) const;
  const Member& member(Rank rank) const { return parts_.bootstrap->members()[rank]; }
  Rank me() const { return parts_.bootstrap->rank(); }
  uint32_t size() const { return static_cast<uint32_t>(parts_.bootstrap->members().size()); }

  Parts parts_;
  std::byte* data_;
  uint64_t bytes_;
  uint32_t number_ = 0;
  std::vector<std::byte*> arenas_;        // by rank; null: not mapped here
  std::vector<Shown> shown_;              // by rank
  uint64_t* signals_ = nullptr;           // of this rank: CCOM_SIGNALS for each source
  std::vector<uint64_t> taken_;           // of signals_
  std::unique_ptr<DeviceMemory> device_;  // null: this rank shows host memory
  std::unique_ptr<WindowPort> remote_;
};

}  // namespace neuron::ccom

#endif
