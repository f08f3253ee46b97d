// SPDX-License-Identifier: Apache-2.0
// Threads that run the calls of clients: as many as there are calls that wait, so that a call that
// blocks delays nobody else's.
//
// Callers: any thread. Thread-safe: yes. Owns: its threads; idle ones but one end after a while,
// the destructor runs what was submitted and joins all. Fails: the constructor throws
// std::system_error when the host gives no thread at all; later jobs wait for one that is there.
// submit throws std::bad_alloc, and then nothing was submitted.
#ifndef DRIVER_EMULATOR_TRANSPORT_WORKERS_H
#define DRIVER_EMULATOR_TRANSPORT_WORKERS_H

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace neuron::transport {

class Workers {
 public:
  explicit Workers(unsigned limit);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void submit(std::function<void()> job);

 private:
  void start_thread();  // with mutex_ held
  void work(std::list<std::thread>::iterator self);

  const unsigned limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::list<std::thread> threads_;
  std::list<std::thread> ended_;  // to be joined
  unsigned idle_ = 0;
  bool stopping_ = false;
};

}  // namespace neuron::transport

#endif
