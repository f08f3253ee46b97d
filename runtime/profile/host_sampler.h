// SPDX-License-Identifier: Apache-2.0
//
// How busy the processors of this host are and how much of its memory is used, once a second.
// Callers: Inspection. Owns a thread, which the destructor ends at once. Cannot fail: what /proc
// does not say is left out. Keeps the last day.
#ifndef RUNTIME_PROFILE_HOST_SAMPLER_H
#define RUNTIME_PROFILE_HOST_SAMPLER_H

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace neuron::runtime {

class HostSampler {
 public:
  HostSampler();
  ~HostSampler();
  HostSampler(const HostSampler&) = delete;
  HostSampler& operator=(const HostSampler&) = delete;

  // Ends sampling, with one more sample.
  void stop();
  // After stop(): samples from `first` on, so many of them.
  size_t samples() const { return samples_.size(); }
  // {"cpu_util": [{"timestamp", "duration", "cpu_id", "util"} ...]}: fractions of 1.
  std::string processors_json(size_t first, size_t count) const;
  // {"mem_usage": [{"timestamp", "usage", "percent_usage"} ...]}.
  std::string memory_json(size_t first, size_t count) const;

 private:
  struct Processor {
    uint32_t number = 0;
    uint64_t busy = 0, all = 0;  // ticks
  };
  struct Use {
    uint16_t number = 0;
    uint16_t share = 0;  // of kWhole
  };
  static constexpr uint16_t kWhole = 10'000;
  // A day of a host with 192 processors is 66 MB.
  struct Sample {
    uint64_t time_ns = 0, duration_ns = 0;
    std::vector<Use> processors;                      // since the sample before
    uint64_t memory_total = 0, memory_available = 0;  // bytes
  };
  Sample take();
  static std::vector<Processor> read_processors();
  void work();

  std::mutex mutex_;  // stopping_, samples_
  std::condition_variable changed_;
  bool stopping_ = false;
  std::deque<Sample> samples_;
  std::vector<Processor> before_;  // of the last sample; of the thread
  uint64_t before_ns_ = 0;
  std::thread thread_;
};

}  // namespace neuron::runtime

#endif
