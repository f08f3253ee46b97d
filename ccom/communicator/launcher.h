// SPDX-License-Identifier: Apache-2.0
// The thread that carries launched operations to their ends, and calls the functions that were
// given at their launch.
//
// Concepts: it advances the streams of a communicator while operations are launched and not over,
// and sleeps otherwise. While there is a launcher, every call that touches the streams holds them:
// operations, their tests and waits, ccom_suspend. Windows hold them only to look for a failure;
// memory and ccom_resume do not. A function is called without any lock, in the order of the ends.
// The thread handles no signal, and reports what throws in it. Threads: hold() by the
// caller, launched() and ended() by who holds the streams. Owns: the thread; its end waits for the
// function that is running. Cannot fail, but std::thread can.
#ifndef CCOM_COMMUNICATOR_LAUNCHER_H
#define CCOM_COMMUNICATOR_LAUNCHER_H

#include <ccom/ccom.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace neuron::ccom {

class Launcher {
 public:
  // `advance`: called with the streams held; does not block. `failed`: told what it, or a function
  // of a completion, has thrown; must not throw.
  Launcher(std::function<void()> advance,
           std::function<void(const char* what, bool memory_ran_out)> failed);
  // Calls the functions of all operations that have ended.
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  std::unique_lock<std::recursive_mutex> hold() { return std::unique_lock(streams_); }
  void launched();
  void ended(const ccom_completion_t& completion, ccom_status_t status, std::string sentence);

 private:
  struct Ended {
    ccom_completion_t completion;
    ccom_status_t status;
    std::string sentence;
  };

  void serve();

  const std::function<void()> advance_;
  const std::function<void(const char* what, bool memory_ran_out)> failed_;
  std::recursive_mutex streams_;
  std::mutex mutex_;  // of what follows
  std::condition_variable wake_;
  std::deque<Ended> ended_;
  uint64_t under_way_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace neuron::ccom

#endif
