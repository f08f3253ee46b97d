// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/batch_queue.h"

#include <algorithm>

namespace neuron::serve {
namespace {

constexpr std::chrono::seconds kIdle{1};

}  // namespace

BatchQueue::BatchQueue(uint32_t batch, size_t limit, std::chrono::microseconds budget)
    : batch_(batch), limit_(std::max<size_t>(limit, batch)), budget_(budget) {}

bool BatchQueue::admit(uint32_t rows) {
  const size_t before = admitted_.fetch_add(rows, std::memory_order_relaxed);
  if (before + rows <= limit_) return true;
  admitted_.fetch_sub(rows, std::memory_order_relaxed);
  return false;
}

bool BatchQueue::push(Jobs& jobs) {
  if (jobs.empty()) return true;
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  const bool sleeping = jobs_.empty();
  for (std::shared_ptr<Job>& job : jobs) {
    rows_ += job->rows;
    jobs_.push_back(std::move(job));
  }
  jobs.clear();
  last_push_ = Clock::now();
  // Whoever gathers wakes by itself for what is between the first and the last of a batch.
  if (sleeping || rows_ >= std::min<size_t>(batch_, crowd_)) changed_.notify_one();
  return true;
}

// Half of the budget is left for the way to the client and back and for what runs on the core.
Clock::time_point BatchQueue::start_by() const {
  const auto quiet = last_push_ + budget_ / 10;
  const auto due = jobs_.front()->accepted +
                   std::max(budget_ / 2 - execution_, std::chrono::nanoseconds::zero());
  return std::min(quiet, due);
}

// Of a job that leaves.
void BatchQueue::forget(const Job& job) {
  rows_ -= job.rows;
  admitted_.fetch_sub(job.rows, std::memory_order_relaxed);
}

bool BatchQueue::cancel(const Job& job) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(jobs_.begin(), jobs_.end(),
                                  [&](const auto& waiting) { return waiting.get() == &job; });
  if (found == jobs_.end()) return false;
  forget(job);
  jobs_.erase(found);
  return true;
}

BatchQueue::Batch BatchQueue::take() {
  Batch batch;
  std::unique_lock lock(mutex_);
  const auto idle = Clock::now() + kIdle;
  const size_t wanted = std::min<size_t>(batch_, crowd_);
  while (!closed_ && (jobs_.empty() || rows_ < wanted)) {
    const auto now = Clock::now();
    const auto until = jobs_.empty() ? idle : start_by();
    if (now >= until) break;
    changed_.wait_until(lock, until);
  }
  const auto now = Clock::now();
  while (!jobs_.empty()) {
    const std::shared_ptr<Job>& job = jobs_.front();
    const bool late = now > job->deadline;
    if (!late && batch.rows + job->rows > batch_) break;
    if (!late) batch.rows += job->rows;
    forget(*job);
    (late ? batch.late : batch.jobs).push_back(std::move(jobs_.front()));
    jobs_.pop_front();
  }
  if (batch.rows != 0) crowd_ = std::max<size_t>(1, batch.rows + rows_);
  // Another executor of this model takes the rest.
  if (!jobs_.empty()) changed_.notify_one();
  return batch;
}

void BatchQueue::executed(std::chrono::nanoseconds time) {
  std::lock_guard lock(mutex_);
  execution_ += (time - execution_) / 8;
}

void BatchQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

void BatchQueue::open() {
  std::lock_guard lock(mutex_);
  closed_ = false;
  crowd_ = 1;
}

bool BatchQueue::closed() const {
  std::lock_guard lock(mutex_);
  return closed_ && jobs_.empty();
}

Jobs BatchQueue::clear() {
  std::lock_guard lock(mutex_);
  Jobs jobs;
  while (!jobs_.empty()) {
    forget(*jobs_.front());
    jobs.push_back(std::move(jobs_.front()));
    jobs_.pop_front();
  }
  return jobs;
}

}  // namespace neuron::serve
