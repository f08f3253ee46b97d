// SPDX-License-Identifier: Apache-2.0
// Holds threads of this process up, wherever they are, while it lives.
//
// A signal goes to one thread after the other, whose handler sleeps for up to a third of a
// millisecond. Callers: one at a time in a process. Calls of threads that the kernel interrupts go
// on (SA_RESTART), or return EINTR where they cannot.
#ifndef TESTS_SUPPORT_DISTURBANCE_H
#define TESTS_SUPPORT_DISTURBANCE_H

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <random>
#include <thread>
#include <vector>

#include "driver/base/backoff.h"

namespace neuron::test {

class Disturbance {
 public:
  Disturbance() {
    struct sigaction action {};
    action.sa_handler = [](int) {
      // A generator of its own: the one of the thread that is interrupted may be in use.
      static std::atomic<uint32_t> state{1};
      const uint32_t random = state.fetch_add(0x9E3779B9u, std::memory_order_relaxed) * 0x85EBCA6Bu;
      const timespec nap{0, static_cast<long>(random >> 8) % 300'000};
      const int saved = errno;
      nanosleep(&nap, nullptr);
      errno = saved;
    };
    action.sa_flags = SA_RESTART;
    sigaction(number(), &action, nullptr);
    thread_ = std::thread([this] { disturb(); });
  }
  ~Disturbance() {
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
    // One that a thread has not taken yet is dropped; the default action would end the process.
    std::signal(number(), SIG_IGN);
  }
  // Does `work` once, and again while no thread has been held up during it: on a busy host the work
  // may be over before the thread that holds the others up has had its turn.
  template <typename Work>
  void during(Work work) const {
    const uint64_t before = count_.load(std::memory_order_relaxed);
    do {
      work();
    } while (count_.load(std::memory_order_relaxed) == before);
  }

 private:
  static int number() { return SIGRTMIN + 4; }
  static std::vector<pid_t> threads() {
    std::vector<pid_t> found;
    DIR* folder = opendir("/proc/self/task");
    if (folder == nullptr) return found;
    while (const dirent* entry = readdir(folder)) {
      const pid_t thread = std::atoi(entry->d_name);
      if (thread > 0 && thread != static_cast<pid_t>(::syscall(SYS_gettid))) {
        found.push_back(thread);
      }
    }
    closedir(folder);
    return found;
  }
  void disturb() {
    std::minstd_rand random(7);
    while (!stop_.load(std::memory_order_relaxed)) {
      const std::vector<pid_t> all = threads();
      for (int i = 0; i < 20 && !all.empty(); ++i) {
        const pid_t thread = all[random() % all.size()];
        // One that has ended meanwhile is no loss.
        if (::syscall(SYS_tgkill, getpid(), thread, number()) == 0) {
          count_.fetch_add(1, std::memory_order_relaxed);
        }
        base::sleep_for(std::chrono::microseconds(random() % 100));
      }
    }
  }

  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> count_{0};
  std::thread thread_;
};

}  // namespace neuron::test

#endif
