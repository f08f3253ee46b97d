// SPDX-License-Identifier: Apache-2.0
// Register accesses of clients through shared memory, and the threads that serve them.
//
// Concepts: each connection has a Doorbell: a page that both sides map (wire::RingPage) and an
// eventfd. One thread has the *watch*: it looks at all pages and carries accesses out. After a
// write to a launch semaphore it runs the execution group of the core for a short while; the
// client's wait runs the rest. Writes that a client has posted (wire::PostedWrites) are carried out
// behind its accesses, in their order, and have no answer. When nothing has come for kSpin, the
// watcher sleeps until an eventfd is written. When several clients are busy, it wakes helpers. No
// lock is held while a doorbell is served: its thread has *taken* it, and whoever removes it waits
// for that one alone. A slice may be long nevertheless, because one instruction is not cut. So one
// of the threads that rest, the *deputy*, looks every kLook which doorbells have been served since
// its last look: their threads are *overdue*. It takes the watch over from one that has it, and
// there is always a next deputy. A client has as many overdue threads as its share lets it
// (service/shares.h); its other doorbells wait. Callers: connections add and remove theirs. Owns:
// the threads. A hostile client may have written what a page contains. Fails: create returns null
// with the sentence in service/error.h; where the host gives no more threads, others wait for an
// overdue one.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_DOORBELLS_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_DOORBELLS_H

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "driver/base/packet_socket.h"
#include "driver/emulator/service/shares.h"
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

  // Called by the threads of Doorbells.
  const service::Client& client() const;
  // Something was posted that nobody has taken.
  bool rings() const;
  // False if another thread has it.
  bool take();
  // By the thread that has taken it, which then lets it go.
  void serve();
  void let_go() { taken_.clear(std::memory_order_release); }
  bool is_taken() const { return taken_.test(std::memory_order_acquire); }
  void announce_sleep(bool asleep);
  void drain_event();

 private:
  Doorbell(service::Session& session, int socket) : session_(session), socket_(socket) {}
  void serve(unsigned index, uint32_t number);
  void carry_posts();

  service::Session& session_;
  const int socket_;
  base::FileDescriptor page_file_;
  base::FileDescriptor event_;
  wire::RingPage* page_ = nullptr;
  // Acquire and release: what follows passes from thread to thread.
  std::atomic_flag taken_;
  std::atomic<uint32_t> posts_{0};  // relaxed: only whether there is something new
  std::array<uint32_t, wire::kSlots> served_{};
  uint32_t carried_ = 0;  // posted writes
  uint32_t refused_ = 0;  // of them
};

class Doorbells {
 public:
  static std::unique_ptr<Doorbells> create();
  ~Doorbells();
  Doorbells(const Doorbells&) = delete;
  Doorbells& operator=(const Doorbells&) = delete;

  // False with errno if it cannot be watched.
  bool add(Doorbell& doorbell);
  // From now on no thread takes the doorbell. Does not wait.
  void retire(Doorbell& doorbell);
  // True when no thread looks at a doorbell that was retired any more, false if one still serves it
  // after `patience`.
  static bool await(const Doorbell& doorbell, std::chrono::milliseconds patience);
  void remove(Doorbell& doorbell);

 private:
  // What a thread serves, as it tells the deputy.
  struct Thread {
    // The number of what it serves, or has served last, and the bits below.
    std::atomic<uint64_t> state{0};
    std::atomic<Doorbell*> doorbell{nullptr};
    uint64_t served = 0;   // its own
    uint64_t seen = 0;     // by the deputy
    bool counted = false;  // among overdue_shares_; rest_mutex_
    std::thread thread;
  };
  // Overdue threads in all. A process that is alone gets a quarter: one for each of the 16 devices
  // of the largest host.
  static constexpr size_t kMostOverdue = 64;
  static constexpr uint64_t kOverdue = 1;
  static constexpr uint64_t kServing = 2;
  static constexpr unsigned kNumber = 2;  // where it begins

  Doorbells() = default;
  void start_thread(bool watches);
  void work(Thread& self);
  unsigned pass(Thread& self);
  void serve(Thread& self, Doorbell& doorbell);
  bool may_be_served(const Doorbell& doorbell);
  bool spin(Thread& self);
  bool announce_sleep(const Thread& self);
  void sleep(Thread& self);
  void ask_for_help();
  void rest(Thread& self);
  void stand_by(std::unique_lock<std::mutex>& lock, Thread& self);
  bool look(Thread& self);
  void wake_deputy();
  void catch_up(Thread& self, const Doorbell& doorbell);
  std::shared_lock<std::shared_mutex> share();
  std::unique_lock<std::shared_mutex> own();

  base::FileDescriptor epoll_;
  base::FileDescriptor stop_;
  // Locks in this order: rest_mutex_, mutex_, shares_mutex_. None while a doorbell is served.
  std::shared_mutex mutex_;           // doorbells_, changes of watcher_; shared to look at pages
  std::atomic<unsigned> waiting_{0};  // threads that want it alone: others let them go first
  std::vector<Doorbell*> doorbells_;
  std::atomic<Thread*> watcher_{nullptr};
  std::atomic<bool> stopping_{false};

  std::mutex rest_mutex_;  // what follows
  std::condition_variable wanted_or_calm_;
  unsigned wanted_ = 0;  // helpers
  Thread* deputy_ = nullptr;
  unsigned calm_looks_ = 0;  // of the deputy, since it has seen anything
  std::list<Thread> threads_;
  std::atomic<unsigned> resting_{0};
  std::atomic<unsigned> helping_{0};  // awake, without the watch, and not overdue
  std::atomic<bool> calm_{false};     // the deputy looks at nothing until it is woken

  std::mutex shares_mutex_;
  service::Shares overdue_shares_{kMostOverdue};
  std::atomic<size_t> overdue_{0};  // relaxed: spares the look at the shares while there are none
};

}  // namespace neuron::transport

#endif
