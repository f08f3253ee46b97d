// SPDX-License-Identifier: Apache-2.0
// Threads that run the calls of clients: as many as there are calls in progress, so that a call
// that blocks delays no other one.
//
// Concepts: a client holds as many threads as its share lets it (service/shares.h), so that the
// next client finds some. A client's calls beyond its share wait in order. Callers: any thread.
// Thread-safe: yes. Owns: its threads; idle ones but one end after a while. The destructor runs
// what was submitted and joins all. Fails: the constructor throws std::system_error when the host
// gives no thread at all; later jobs wait for one that is there. submit throws std::bad_alloc, and
// then nothing was submitted.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_WORKERS_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_WORKERS_H

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "driver/emulator/service/shares.h"

namespace neuron::transport {

class Workers {
 public:
  explicit Workers(unsigned limit);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // `client`: whose share it takes. A job that throws is given up, with a line on standard error.
  void submit(const service::Client& client, std::function<void()> job);

 private:
  struct Job {
    service::Client client;
    std::function<void()> run;
  };
  // There while one of its jobs is.
  struct Queue {
    std::list<Job> waiting;
    unsigned admitted = 0;
    service::Client client;
  };

  // All with mutex_ held.
  void start_thread();
  bool has_share(const Queue& queue) const;
  void admit(Queue& queue);
  void finish(const service::Client& client);
  void work(std::list<std::thread>::iterator self);

  const unsigned limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Queue> clients_;  // by process
  std::list<Job> jobs_;                // admitted, not yet taken by a thread
  unsigned admitted_ = 0;              // those, and those that run
  unsigned waiting_ = 0;
  uint64_t turn_ = 0;  // the client that was admitted last
  std::list<std::thread> threads_;
  std::list<std::thread> ended_;  // to be joined
  unsigned idle_ = 0;
  bool stopping_ = false;
};

}  // namespace neuron::transport

#endif
