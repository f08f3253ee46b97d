// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/stray_pages.h"

#include <chrono>
#include <exception>

namespace neuron::service {
namespace {

// A processor fills about a gigabyte meanwhile.
constexpr std::chrono::milliseconds kBetweenLooks{200};

}  // namespace

void StrayPages::start(std::function<void()> give_back) {
  if (thread_.joinable()) return;
  give_back_ = std::move(give_back);
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (const std::exception&) {  // std::system_error or std::bad_alloc
    // The host has no thread left: tried again with the next device.
  }
}

void StrayPages::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StrayPages::watch() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kBetweenLooks, [this] { return stopping_; })) {
    lock.unlock();
    give_back_();
    lock.lock();
  }
}

}  // namespace neuron::service
