// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/workers.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

namespace neuron::transport {
namespace {

constexpr std::chrono::seconds kIdle{5};

}  // namespace

Workers::Workers(unsigned limit) : limit_(limit) {
  const std::lock_guard lock(mutex_);
  start_thread();
}

Workers::~Workers() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  std::list<std::thread> all;
  all.splice(all.end(), ended_);
  // Threads that end from now on leave themselves where they are.
  all.splice(all.end(), threads_);
  lock.unlock();
  for (std::thread& thread : all) thread.join();
}

bool Workers::has_share(const Queue& queue) const {
  unsigned of_user = 0;
  for (const auto& entry : clients_) {
    if (entry.second.client.user == queue.client.user) of_user += entry.second.admitted;
  }
  return service::within_share(queue.admitted, of_user, admitted_, std::max(limit_, 1u));
}

void Workers::admit(Queue& queue) {
  jobs_.splice(jobs_.end(), queue.waiting, queue.waiting.begin());
  ++queue.admitted;
  ++admitted_;
  --waiting_;
  turn_ = queue.client.process;
}

void Workers::finish(const service::Client& client) {
  const auto finished = clients_.find(client.process);
  --admitted_;
  --finished->second.admitted;
  // One thread is free, and one job at most becomes admissible: of the client whose turn it is.
  auto at = clients_.upper_bound(turn_);
  for (size_t i = 0; waiting_ != 0 && i < clients_.size(); ++i, ++at) {
    if (at == clients_.end()) at = clients_.begin();
    if (at->second.waiting.empty() || !has_share(at->second)) continue;
    admit(at->second);
    break;
  }
  if (finished->second.admitted == 0 && finished->second.waiting.empty()) clients_.erase(finished);
}

void Workers::submit(const service::Client& client, std::function<void()> job) {
  std::list<Job> made;
  made.push_back({client, std::move(job)});
  std::list<std::thread> over;
  {
    const std::lock_guard lock(mutex_);
    Queue& owner = clients_[client.process];
    owner.client = client;
    owner.waiting.splice(owner.waiting.end(), made);
    ++waiting_;
    over.splice(over.end(), ended_);
    if (has_share(owner)) admit(owner);
    // One that submits while all stop does the job itself.
    if (jobs_.size() > idle_ && threads_.size() < limit_ && !stopping_) {
      try {
        start_thread();
      } catch (const std::system_error&) {
        // Another thread takes the job when it is free: one there always is.
      } catch (const std::bad_alloc&) {
      }
    }
  }
  changed_.notify_one();
  for (std::thread& thread : over) thread.join();
}

void Workers::start_thread() {
  threads_.emplace_back();
  const auto self = std::prev(threads_.end());
  try {
    *self = std::thread([this, self] { work(self); });
  } catch (...) {
    threads_.erase(self);
    throw;
  }
}

void Workers::work(std::list<std::thread>::iterator self) {
  std::unique_lock lock(mutex_);
  for (;;) {  // bounded: idle threads end, and all do when stopping
    if (jobs_.empty()) {
      if (stopping_) return;
      ++idle_;
      const bool found =
          changed_.wait_for(lock, kIdle, [this] { return !jobs_.empty() || stopping_; });
      --idle_;
      if (found || threads_.size() == 1) continue;
      ended_.splice(ended_.end(), threads_, self);
      return;
    }
    std::list<Job> job;
    job.splice(job.end(), jobs_, jobs_.begin());
    const service::Client client = job.front().client;
    lock.unlock();
    try {
      job.front().run();
    } catch (const std::exception& failure) {
      // Jobs answer what fails themselves; one that did not has cost its client, and nobody else.
      std::fprintf(stderr, "neuron-emulatord: a call of pid %d was given up: %s\n", client.pid,
                   failure.what());
    }
    job.clear();  // destroys what the job holds before the lock is taken
    lock.lock();
    finish(client);
  }
}

}  // namespace neuron::transport
