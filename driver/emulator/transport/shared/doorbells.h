// SPDX-License-Identifier: Apache-2.0
// Register accesses of clients through shared memory, and the thread that serves them.
//
// Concepts: each connection has a Doorbell: a page that both sides map (wire::RingPage) and an
// eventfd. A thread watches all pages and carries accesses out. After a write to a launch semaphore
// it runs the execution group of the core for a short while; the client's wait runs the rest. When
// nothing has come for kSpin, the thread sleeps until an eventfd is written. When several clients
// are busy, it wakes helpers. Callers: connections add and remove theirs. Owns: the
// threads. A hostile client may have written what a page contains. Fails: create returns null with
// the sentence in service/error.h.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_DOORBELLS_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_DOORBELLS_H

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "driver/base/packet_socket.h"
#include "driver/wire/wire.h"

namespace neuron::service {
class Session;
}

namespace neuron::transport {

class Doorbell {
 public:
  // `socket`: where wake-ups go. Borrows session and socket until it was removed from Doorbells.
  static std::unique_ptr<Doorbell> create(service::Session& session, int socket);
  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  int page_file() const { return page_file_.get(); }
  int event() const { return event_.get(); }

  // Called by the threads of Doorbells. True if there was anything to do that no other thread does.
  bool serve();
  void announce_sleep(bool asleep);
  void drain_event();

 private:
  Doorbell(service::Session& session, int socket) : session_(session), socket_(socket) {}
  void serve(unsigned index, uint32_t number);

  service::Session& session_;
  const int socket_;
  base::FileDescriptor page_file_;
  base::FileDescriptor event_;
  wire::RingPage* page_ = nullptr;
  // Acquire and release: what follows passes from thread to thread.
  std::atomic_flag busy_;
  std::atomic<uint32_t> posts_{0};  // relaxed: only whether there is something new
  std::array<uint32_t, wire::kSlots> served_{};
};

class Doorbells {
 public:
  static std::unique_ptr<Doorbells> create();
  ~Doorbells();
  Doorbells(const Doorbells&) = delete;
  Doorbells& operator=(const Doorbells&) = delete;

  // False with errno if it cannot be watched.
  bool add(Doorbell& doorbell);
  // When it returns, no thread looks at the doorbell any more.
  void remove(Doorbell& doorbell);

 private:
  Doorbells() = default;
  void watch();  // the thread that sleeps on the eventfds
  void help();   // the others
  unsigned pass();
  bool spin(unsigned& idle);
  void sleep();
  void ask_for_help();

  base::FileDescriptor epoll_;
  base::FileDescriptor stop_;
  std::shared_mutex mutex_;           // doorbells_; shared during a pass
  std::atomic<unsigned> waiting_{0};  // threads that want it alone: a pass lets them go first
  std::vector<Doorbell*> doorbells_;
  std::atomic<bool> stopping_{false};
  std::mutex help_mutex_;  // wanted_
  std::condition_variable help_wanted_;
  unsigned wanted_ = 0;
  std::atomic<unsigned> resting_{0};  // helpers that sleep
  std::vector<std::thread> threads_;
};

}  // namespace neuron::transport

#endif
