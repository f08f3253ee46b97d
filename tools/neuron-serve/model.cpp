// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/model.h"

#include <iterator>

#include "driver/base/format.h"
#include "tools/neuron-serve/log.h"

namespace neuron::serve {
namespace {

constexpr size_t kBatchesInQueue = 8;

int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

void set_outcome(Jobs& jobs, Outcome outcome, const std::string& detail) {
  for (const std::shared_ptr<Job>& job : jobs) {
    job->outcome = outcome;
    job->detail = detail;
  }
}

}  // namespace

Model::Model(ModelSpec model, FileIdentity files, std::vector<std::unique_ptr<Replica>> replicas,
             size_t queue_limit, std::chrono::microseconds budget)
    : spec(std::move(model)),
      identity(files),
      queue(spec.batch, queue_limit != 0 ? queue_limit : kBatchesInQueue * spec.batch, budget),
      replicas_(std::move(replicas)) {
  for (const std::unique_ptr<Replica>& replica : replicas_) {
    counters.push_back(std::make_unique<ReplicaCounters>());
    counters.back()->core = replica->core();
  }
}

Model::~Model() {
  queue.close();
  stop();
}

void Model::start(const Events& events) {
  for (size_t i = 0; i < replicas_.size(); ++i) {
    counters[i]->beat_ns.store(now_ns(), kRelaxed);
    threads_.emplace_back([this, i, events] { work(*replicas_[i], *counters[i], events); });
  }
}

void Model::stop() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  replicas_.clear();
  for (const auto& counter : counters) counter->beat_ns.store(0, kRelaxed);
}

void Model::resume(std::vector<std::unique_ptr<Replica>> replicas, const Events& events) {
  replicas_ = std::move(replicas);
  queue.open();
  start(events);
}

void Model::answered_after(std::chrono::nanoseconds time) {
  const double seconds = std::chrono::duration<double>(time).count();
  size_t bucket = 0;
  while (bucket < kLatencyBounds.size() && seconds > kLatencyBounds[bucket]) ++bucket;
  ++latencies[bucket];
  latency_sum += seconds;
}

void Model::work(Replica& replica, ReplicaCounters& counter, const Events& events) {
  // bounded: ends when the queue is closed and empty, or with the device
  while (true) {
    counter.beat_ns.store(now_ns(), kRelaxed);
    BatchQueue::Batch batch = queue.take();
    std::string error;
    bool lost = false;
    if (!batch.late.empty()) {
      set_outcome(batch.late, Outcome::kLate, "the request waited longer than its time");
      events.deliver(std::move(batch.late));
    } else if (batch.jobs.empty()) {
      if (queue.closed()) return;
      lost = !replica.probe(error);
    }
    if (!batch.jobs.empty()) {
      const auto start = Clock::now();
      const Replica::Result result = replica.run(batch.jobs, batch.rows, error);
      const auto time = Clock::now() - start;
      counter.busy_ns.fetch_add(static_cast<uint64_t>(time.count()), kRelaxed);
      if (result == Replica::Result::kDone) {
        queue.executed(time);
        counter.batches.fetch_add(1, kRelaxed);
        counter.rows.fetch_add(batch.rows, kRelaxed);
        counter.host_ns.fetch_add(replica.host_ns(), kRelaxed);
        counter.device_ps.fetch_add(replica.device_ps(), kRelaxed);
        set_outcome(batch.jobs, Outcome::kDone, "");
      } else {
        counter.failures.fetch_add(1, kRelaxed);
        lost = result == Replica::Result::kDeviceFailed;
        // Of a device that is lost, the host tells once.
        if (!lost) {
          log(base::format("model {}: an execution for {} request{} failed: {}", spec.name,
                           batch.jobs.size(), batch.jobs.size() == 1 ? "" : "s", error));
        }
        set_outcome(batch.jobs, lost ? Outcome::kUnavailable : Outcome::kFailed, error);
      }
      // Told before the answers leave.
      if (lost) events.device_lost(error);
      events.deliver(std::move(batch.jobs));
    } else if (lost) {
      events.device_lost(error);
    }
    if (lost) return;
  }
}

}  // namespace neuron::serve
