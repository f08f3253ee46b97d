// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/host_sampler.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>

#include "driver/base/service_thread.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/observe/system_trace.h"
#include "runtime/observe/trace_clock.h"

namespace neuron::runtime {
namespace {

constexpr auto kInterval = std::chrono::seconds(1);
constexpr size_t kMostSamples = 86'400;

}  // namespace

HostSampler::HostSampler()
    : thread_(base::service_thread(
          "nrt-sampler", [this] { work(); },
          [](const char* what) {
            log_error(LogComponent::kNrt,
                      "the processors and the memory of the host are not sampled any more: {}",
                      what);
          })) {}

HostSampler::~HostSampler() { stop(); }

void HostSampler::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void HostSampler::work() {
  std::unique_lock lock(mutex_);
  // bounded: until stop().
  for (bool last = false;; last = stopping_) {
    lock.unlock();
    Sample sample = take();
    lock.lock();
    samples_.push_back(std::move(sample));
    if (samples_.size() > kMostSamples) samples_.pop_front();
    if (last) return;
    changed_.wait_until(lock, std::chrono::steady_clock::now() + kInterval,
                        [&] { return stopping_; });
  }
}

std::vector<HostSampler::Processor> HostSampler::read_processors() {
  std::vector<Processor> list;
  std::ifstream processors("/proc/stat");
  for (std::string line; std::getline(processors, line) && line.rfind("cpu", 0) == 0;) {
    std::istringstream words(line.substr(3));
    Processor one;
    if (line[3] == ' ' || !(words >> one.number)) continue;  // all together
    uint64_t ticks = 0;
    // Time of guests is in that of users already.
    constexpr int kIdle = 3, kWaiting = 4, kGuest = 8;
    for (int n = 0; n < kGuest && words >> ticks; ++n) {
      one.all += ticks;
      if (n != kIdle && n != kWaiting) one.busy += ticks;
    }
    list.push_back(one);
  }
  return list;
}

HostSampler::Sample HostSampler::take() {
  Sample sample;
  sample.time_ns = TraceClock::now_ns();
  sample.duration_ns = before_ns_ == 0 ? 0 : sample.time_ns - before_ns_;
  before_ns_ = sample.time_ns;
  std::vector<Processor> processors = read_processors();
  // Processors come and go while a host runs; both lists ascend.
  auto before = before_.begin();
  for (const Processor& now : processors) {
    while (before != before_.end() && before->number < now.number) ++before;
    if (before == before_.end() || before->number != now.number) continue;
    // The kernel may take back some of the time in which a processor waited.
    const uint64_t all = now.all - std::min(before->all, now.all);
    const uint64_t busy = std::min(now.busy - std::min(before->busy, now.busy), all);
    sample.processors.push_back(
        {.number = static_cast<uint16_t>(now.number),
         .share = static_cast<uint16_t>(all == 0 ? 0 : busy * kWhole / all)});
  }
  before_ = std::move(processors);
  std::ifstream memory("/proc/meminfo");
  for (std::string line; std::getline(memory, line);) {
    std::istringstream words(line);
    std::string key;
    uint64_t kib = 0;
    words >> key >> kib;
    if (key == "MemTotal:") sample.memory_total = kib << 10;
    if (key == "MemAvailable:") sample.memory_available = kib << 10;
  }
  return sample;
}

std::string HostSampler::processors_json(size_t first, size_t count) const {
  std::string out = "{\"cpu_util\":[";
  const size_t empty = out.size();
  for (size_t n = first; n < std::min(samples_.size(), first + count); ++n) {
    const Sample& sample = samples_[n];
    for (const Use& use : sample.processors) {
      out += format(R"({}{{"timestamp":{},"duration":{},"cpu_id":"{}","util":{:.4f}}})",
                    out.size() == empty ? "" : ",", sample.time_ns, sample.duration_ns, use.number,
                    static_cast<double>(use.share) / kWhole);
    }
  }
  return out + "]}";
}

std::string HostSampler::memory_json(size_t first, size_t count) const {
  std::string out = "{\"mem_usage\":[";
  const size_t empty = out.size();
  for (size_t n = first; n < std::min(samples_.size(), first + count); ++n) {
    const Sample& sample = samples_[n];
    const uint64_t used =
        sample.memory_total - std::min(sample.memory_total, sample.memory_available);
    out += format(R"({}{{"timestamp":{},"usage":{},"percent_usage":{:.4f}}})",
                  out.size() == empty ? "" : ",", sample.time_ns, used,
                  sample.memory_total == 0
                      ? 0.0
                      : static_cast<double>(used) / static_cast<double>(sample.memory_total));
  }
  return out + "]}";
}

}  // namespace neuron::runtime
