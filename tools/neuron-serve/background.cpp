// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/background.h"

#include <utility>

namespace neuron::serve {

Background::Background() : thread_([this] { serve(); }) {}

Background::~Background() {
  {
    std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Background::run(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void Background::serve() {
  std::unique_lock lock(mutex_);
  // bounded: until the object ends
  while (true) {
    changed_.wait(lock, [this] { return end_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace neuron::serve
