// SPDX-License-Identifier: Apache-2.0
//
// A model that is served: what it is, its queue, and one executor thread for each core it is on.
// Callers: ModelHost starts and stops it; the network thread reads spec and counters and uses the
// queue. Thread-safe: as said for each member. Owns: replicas and threads; stop() ends them.
// Fails: an executor that finds the device gone answers its jobs, tells the host once and ends.
#ifndef TOOLS_NEURON_SERVE_MODEL_H
#define TOOLS_NEURON_SERVE_MODEL_H

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/neuron-serve/batch_queue.h"
#include "tools/neuron-serve/model_folder.h"
#include "tools/neuron-serve/replica.h"

namespace neuron::serve {

inline constexpr auto kRelaxed = std::memory_order_relaxed;

// Counters of one replica: written by its executor, read by anybody; none of them orders anything.
struct ReplicaCounters {
  uint32_t core = 0;
  std::atomic<uint64_t> batches{0}, rows{0}, failures{0};
  std::atomic<uint64_t> busy_ns{0};    // with writing and reading
  std::atomic<uint64_t> host_ns{0};    // nrt_execute
  std::atomic<uint64_t> device_ps{0};  // model time
  std::atomic<int64_t> beat_ns{0};     // steady clock: when the executor last came by
};

class Model {
 public:
  struct Events {
    std::function<void(Jobs)> deliver;
    std::function<void(const std::string&)> device_lost;
  };

  Model(ModelSpec model, FileIdentity files, std::vector<std::unique_ptr<Replica>> replicas,
        size_t queue_limit, std::chrono::microseconds budget);
  ~Model();

  void start(const Events& events);
  // Executors end when the queue is closed and empty; then replicas are freed.
  void stop();
  // After stop(): the same model, loaded anew.
  void resume(std::vector<std::unique_ptr<Replica>> replicas, const Events& events);
  // Between start() and stop(); of the thread that calls these.
  bool running() const { return !threads_.empty(); }

  const ModelSpec spec;
  const FileIdentity identity;
  BatchQueue queue;
  // One for each core, in the order of loading; the list itself never changes.
  std::vector<std::unique_ptr<ReplicaCounters>> counters;
  // Latency from the request to its answer; the network thread's.
  static constexpr std::array<double, 12> kLatencyBounds = {
      0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1};
  std::array<uint64_t, kLatencyBounds.size() + 1> latencies{};
  double latency_sum = 0;
  // Counts an answer in these.
  void answered_after(std::chrono::nanoseconds time);

 private:
  void work(Replica& replica, ReplicaCounters& counters, const Events& events);

  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<std::thread> threads_;
};

}  // namespace neuron::serve

#endif
