// SPDX-License-Identifier: Apache-2.0
// Gives pages of HBM back that nobody has allocated: descriptors and programs reach every device
// address, as on silicon, and each page that they touch would stay with the daemon.
//
// Concepts: a thread looks several times a second, where processes are served (allocations are
// files of their own there, so that what lies in the HBM's own file is the driver's or stray).
// Callers: the instance. Owns: the thread, which ends with the object. Cannot fail: without a
// thread stray pages stay, as they do between two looks.
#ifndef DRIVER_EMULATOR_SERVICE_STRAY_PAGES_H
#define DRIVER_EMULATOR_SERVICE_STRAY_PAGES_H

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace neuron::service {

class StrayPages {
 public:
  StrayPages() = default;
  ~StrayPages() { stop(); }
  StrayPages(const StrayPages&) = delete;
  StrayPages& operator=(const StrayPages&) = delete;

  // `give_back` is called by the thread, until stop(). Only the first call starts it.
  void start(std::function<void()> give_back);
  void stop();

 private:
  void watch();

  std::function<void()> give_back_;
  std::mutex mutex_;  // stopping_
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace neuron::service

#endif
