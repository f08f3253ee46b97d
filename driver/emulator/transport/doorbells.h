// SPDX-License-Identifier: Apache-2.0
// Register accesses of clients through shared memory, and the thread that serves them.
//
// Concepts: each connection has a Doorbell: a page that both sides map (wire::RingPage) and an
// eventfd. One thread watches all pages, carries accesses out and runs the execution group of a
// core whose launch semaphore was written, for a short while: what lasts longer is continued by the
// client's wait. When nothing has come for kSpin it sleeps until an eventfd is written. Callers:
// connections add and remove theirs. Owns: the thread. A page's contents are a hostile client's.
// Fails: create returns null with the sentence in service/error.h.
#ifndef DRIVER_EMULATOR_TRANSPORT_DOORBELLS_H
#define DRIVER_EMULATOR_TRANSPORT_DOORBELLS_H

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "driver/emulator/transport/wire.h"
#include "driver/emulator/transport/wire_socket.h"

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

  // By the thread of Doorbells: true if there was anything to do.
  bool serve();
  void announce_sleep(bool asleep);
  void drain_event();

 private:
  Doorbell(service::Session& session, int socket) : session_(session), socket_(socket) {}
  void serve(unsigned index, uint32_t number);

  service::Session& session_;
  const int socket_;
  wire::FileDescriptor page_file_;
  wire::FileDescriptor event_;
  wire::RingPage* page_ = nullptr;
  uint32_t posts_ = 0;
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
  // When it returns the thread does not look at it any more.
  void remove(Doorbell& doorbell);

 private:
  Doorbells() = default;
  void run();
  bool pass();
  void sleep();

  wire::FileDescriptor epoll_;
  wire::FileDescriptor stop_;
  std::mutex mutex_;                  // doorbells_; held during a pass
  std::atomic<unsigned> waiting_{0};  // who wants the mutex: the thread lets them have it
  std::vector<Doorbell*> doorbells_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace neuron::transport

#endif
