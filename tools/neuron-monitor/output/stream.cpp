// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/output/stream.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace neuron::monitor {

using namespace std::chrono_literals;

namespace {

// This signal ends a write that a reader holds up. Its handler does nothing and has no SA_RESTART.
constexpr int kInterrupt = SIGUSR2;

void do_nothing(int) {}

}  // namespace

Stream::Stream(int descriptor) : descriptor_(descriptor) {
  struct sigaction action = {};
  action.sa_handler = do_nothing;
  ::sigaction(kInterrupt, &action, nullptr);
  thread_ = std::thread([this] { run(); });
}

Stream::~Stream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  // The signal may come just before the write begins, so it is sent until the thread has seen the
  // end.
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, 10ms, [this] { return ended_; })) {
    ::pthread_kill(thread_.native_handle(), kInterrupt);
  }
  lock.unlock();
  thread_.join();
}

bool Stream::push(std::string report) {
  const std::lock_guard lock(mutex_);
  if (failure_ != 0 || (bytes_ != 0 && bytes_ + report.size() > kMostBytes)) return false;
  bytes_ += report.size();
  queue_.push_back(std::move(report));
  changed_.notify_all();
  return true;
}

bool Stream::wait_for_room(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience,
                           [this] { return failure_ != 0 || bytes_ <= kMostBytes / 2; });
}

bool Stream::finish(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [this] { return failure_ != 0 || bytes_ == 0; }) &&
         failure_ == 0;
}

int Stream::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

int Stream::write_all(const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    const ssize_t put = ::write(descriptor_, text.data() + done, text.size() - done);
    if (put >= 0) {
      done += static_cast<size_t>(put);
      continue;
    }
    if (errno != EINTR) return errno;
    const std::lock_guard lock(mutex_);
    if (ending_) return ECANCELED;
  }
  return 0;
}

void Stream::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {  // bounded: by the destructor
    if (queue_.empty()) {
      changed_.wait_for(lock, 1h, [this] { return ending_ || !queue_.empty(); });
      continue;
    }
    const std::string text = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const int failure = write_all(text);
    lock.lock();
    bytes_ -= text.size();
    if (failure != 0) {
      failure_ = failure;
      queue_.clear();
      bytes_ = 0;
    }
    changed_.notify_all();
  }
  ended_ = true;
  changed_.notify_all();
}

}  // namespace neuron::monitor
