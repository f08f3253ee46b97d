// SPDX-License-Identifier: Apache-2.0
#include "runtime/async/async_events.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "driver/base/file_descriptor.h"

namespace neuron::runtime {
namespace {

// Never blocks: a counter that is too full for the addition is readable anyway.
void signal(int descriptor, uint64_t amount) {
  pollfd state{descriptor, POLLOUT, 0};
  if (poll(&state, 1, 0) != 1 || (state.revents & POLLOUT) == 0) return;
  (void)!write(descriptor, &amount, sizeof(amount));
}

// A write to anything else might block, or end up in somebody's file.
Result<int> duplicate_eventfd(int event) {
  const std::string link = format("/proc/self/fd/{}", event);
  char target[64];
  const ssize_t length = readlink(link.c_str(), target, sizeof(target));
  if (length < 0 && fcntl(event, F_GETFD) < 0) {
    return fail(NRT_INVALID, "descriptor {} is not open; give an eventfd, or -1", event);
  }
  // The link reads "anon_inode:[eventfd]". A path of a file begins with a slash, never with this
  // prefix.
  if (length >= 0 &&
      !std::string_view(target, static_cast<size_t>(length)).starts_with("anon_inode:[eventfd")) {
    return fail(NRT_INVALID, "descriptor {} is no eventfd; make one with eventfd(2)", event);
  }
  const int copy = fcntl(event, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) {
    return fail_with_errno(NRT_RESOURCE, errno, "duplicating descriptor {} to signal it", event);
  }
  return copy;
}

}  // namespace

AsyncEvents::~AsyncEvents() {
  for (const Single& single : singles_) close(single.descriptor);
  if (followed_ >= 0) close(followed_);
}

bool AsyncEvents::wait(const Progress& progress, uint64_t number, base::Deadline deadline) {
  if (progress.load() >= number) return true;
  std::unique_lock lock(mutex_);
  interested_.fetch_add(1);
  bool reached = progress.load() >= number;
  while (!reached && !deadline.expired()) {
    changed_.wait_until(lock, deadline.when());
    reached = progress.load() >= number;
  }
  interested_.fetch_sub(1);
  return reached;
}

Result<void> AsyncEvents::add(const Progress& progress, uint64_t number, int event) {
  NEURON_TRY(descriptor, duplicate_eventfd(event));
  std::lock_guard lock(mutex_);
  interested_.fetch_add(1);
  if (progress.load() >= number) {
    interested_.fetch_sub(1);
    signal(descriptor, 1);
    close(descriptor);
    return {};
  }
  try {
    singles_.push_back({number, descriptor});
  } catch (...) {
    interested_.fetch_sub(1);
    close(descriptor);
    throw;
  }
  return {};
}

void AsyncEvents::remove(uint64_t number) {
  std::lock_guard lock(mutex_);
  const auto gone = [&](const Single& single) {
    if (single.number != number) return false;
    close(single.descriptor);
    interested_.fetch_sub(1);
    return true;
  };
  singles_.erase(std::remove_if(singles_.begin(), singles_.end(), gone), singles_.end());
}

Result<void> AsyncEvents::follow(const Progress& progress, int event) {
  int descriptor = -1;
  if (event >= 0) {
    NEURON_TRY(copy, duplicate_eventfd(event));
    descriptor = copy;
  }
  std::lock_guard lock(mutex_);
  if (followed_ >= 0) {
    close(followed_);
    interested_.fetch_sub(1);
  }
  followed_ = descriptor;
  if (descriptor >= 0) interested_.fetch_add(1);
  told_ = progress.load();
  return {};
}

void AsyncEvents::fire_slowly(const Progress& progress) {
  std::lock_guard lock(mutex_);
  const uint64_t now = progress.load();
  const auto done = [&](const Single& single) {
    if (single.number > now) return false;
    signal(single.descriptor, 1);
    close(single.descriptor);
    interested_.fetch_sub(1);
    return true;
  };
  singles_.erase(std::remove_if(singles_.begin(), singles_.end(), done), singles_.end());
  if (followed_ >= 0 && now > told_) {
    signal(followed_, now - told_);
    told_ = now;
  }
  changed_.notify_all();
}

}  // namespace neuron::runtime
