// SPDX-License-Identifier: Apache-2.0
// Threads that run the calls of clients: as many as there are calls in progress, so that a call
// that blocks delays no other one.
//
// Concepts: a client may hold as many threads as are left for others. So one client alone gets half
// of them, two get a third each, and the next client finds some. A client's calls beyond its share
// wait in order. Callers: any thread. Thread-safe: yes. Owns: its threads; idle ones but one end
// after a while. The destructor runs what was submitted and joins all. Fails: the constructor
// throws std::system_error when the host gives no thread at all; later jobs wait for one that is
// there. submit throws std::bad_alloc, and then nothing was submitted.
#ifndef DRIVER_EMULATOR_TRANSPORT_SHARED_WORKERS_H
#define DRIVER_EMULATOR_TRANSPORT_SHARED_WORKERS_H

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <thread>

namespace neuron::transport {

class Workers {
 public:
  explicit Workers(unsigned limit);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // `client`: whose share it takes, a process id.
  void submit(int32_t client, std::function<void()> job);

 private:
  struct Job {
    int32_t client;
    std::function<void()> run;
  };
  // There while one of its jobs is.
  struct Client {
    std::list<Job> waiting;
    unsigned admitted = 0;
  };

  // All with mutex_ held.
  void start_thread();
  bool has_share(const Client& client) const;
  void admit(int32_t number, Client& client);
  void finish(int32_t number);
  void work(std::list<std::thread>::iterator self);

  const unsigned limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int32_t, Client> clients_;
  std::list<Job> jobs_;    // admitted, not yet taken by a thread
  unsigned admitted_ = 0;  // those, and those that run
  unsigned waiting_ = 0;
  int32_t turn_ = 0;  // the client that was admitted last
  std::list<std::thread> threads_;
  std::list<std::thread> ended_;  // to be joined
  unsigned idle_ = 0;
  bool stopping_ = false;
};

}  // namespace neuron::transport

#endif
