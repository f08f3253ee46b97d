// SPDX-License-Identifier: Apache-2.0
// A connection to the daemon of a shared device.
//
// Concepts: any number of threads call at once. A waiting thread that finds no other one reading
// the socket reads it for all. When the daemon goes away, every call, in progress or later, fails
// at once with -ENODEV and a sentence. Callers: port_shared, any thread. Owns: the socket and what
// came with the daemon's welcome. Fails: negative errno with the sentence in error.h.
#ifndef DRIVER_NDL_SHARED_CHANNEL_H
#define DRIVER_NDL_SHARED_CHANNEL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "driver/base/packet_socket.h"
#include "driver/wire/wire.h"

namespace neuron::ndl {

// What a call brought back.
struct SharedAnswer {
  wire::Reply reply{};
  std::vector<std::byte> packet;
  std::span<const std::byte> sentence, argument, data;
  base::PacketFiles files;
  bool files_lost = false;  // one came, and this process may not open any more
};

class SharedChannel {
 public:
  // Null with the sentence recorded. `hello`: purpose, device, access mode.
  // `limit_ms`: 0 for the time that a daemon may take for such a purpose. A stopped
  // daemon is given up after a second.
  static std::unique_ptr<SharedChannel> open(const std::string& path, uint32_t purpose, int device,
                                             int flags, uint32_t limit_ms = 0);

  // Sends a message that begins with a header of kind and id 0, which is replaced, and waits for
  // its answer. Returns the answer's result, whose sentence becomes this thread's.
  int call(std::span<const iovec> parts, std::span<const int> files, SharedAnswer& answer,
           uint64_t limit_ms = kLimitMs);
  // Waits until `done` says so; it is asked again after every message of the daemon.
  int await(const std::function<bool()>& done);
  // Tells the daemon that the end is on purpose, and waits until it has freed everything.
  void close();
  // For a child after fork().
  void abandon() {
    socket_.reset();
    for (base::FileDescriptor& file : files_) file.reset();
  }

  // Relaxed: a thread that sees it late learns it from the socket.
  bool gone() const { return gone_.load(std::memory_order_relaxed); }
  // Whether the daemon has closed its end. Reads nothing: for who waits for the shared page alone,
  // while perhaps no thread reads.
  bool hung_up() const;
  int fail_gone() const;
  // Fails with a sentence: which process has been silent for so long, and what to do about it.
  int fail_silent(uint64_t waited_ms) const;
  const wire::Welcome& welcome() const { return welcome_; }
  base::PacketFiles& files() { return files_; }
  const std::string& path() const { return path_; }

  // Longer than any call takes: the driver waits up to two minutes for a reset.
  static constexpr uint64_t kLimitMs = 150'000;

 private:
  explicit SharedChannel(std::string path) : path_(std::move(path)) {}
  int greet(uint32_t purpose, int device, int flags, uint32_t limit_ms);
  int await_welcome(uint32_t limit_ms);
  // Reads messages until `done` or the deadline; `mutex_` is held by `lock`.
  int pump(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done,
           uint64_t limit_ms);
  void deliver(std::span<const std::byte> packet, base::PacketFiles files, bool files_lost);
  static bool take_answer(SharedAnswer& answer);

  const std::string path_;
  base::FileDescriptor socket_;
  wire::Welcome welcome_{};
  base::PacketFiles files_;
  std::atomic<bool> gone_{false};
  std::mutex mutex_;  // all below
  std::condition_variable changed_;
  bool reading_ = false;
  std::vector<std::byte> buffer_;    // of the thread that reads
  uint32_t next_id_ = wire::kSlots;  // smaller ones are slots
  unsigned calls_ = 0;
  std::unordered_map<uint32_t, SharedAnswer> waiting_;  // without a packet until it is answered
};

}  // namespace neuron::ndl

#endif
