// SPDX-License-Identifier: Apache-2.0
// A thread of a library in a process that is somebody else's: no signal of the program is handled
// in it, debuggers and operators see its name, and no exception leaves it.
//
// Callers: libraries that have a thread of their own. Thread-safe: start() of different threads.
// Fails: start() throws std::system_error if the host gives no thread, as std::thread does.
#ifndef DRIVER_BASE_SERVICE_THREAD_H
#define DRIVER_BASE_SERVICE_THREAD_H

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

#include "driver/base/guarded.h"

namespace neuron::base {

// Blocks all signals while it lives, so that a thread created meanwhile inherits the mask; then
// restores the caller's mask.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

// `name` has at most 15 letters. `failed(what)` is told why the body was left, and must not throw.
template <class Body, class Failed>
std::thread service_thread(const char* name, Body&& body, Failed&& failed) {
  const BlockedSignals blocked;
  std::thread thread([body = std::forward<Body>(body), failed = std::forward<Failed>(failed)] {
    guarded(body, [&](const char* what, bool) { failed(what); });
  });
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace neuron::base

#endif
