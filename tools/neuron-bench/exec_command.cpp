// SPDX-License-Identifier: Apache-2.0
// Latency and rate of executions of a NEFF, on one core and on all of them.
#include <sys/stat.h>

#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <mutex>
#include <optional>
#include <thread>

#include "driver/base/backoff.h"
#include "runtime/base/file.h"
#include "runtime/neff/header.h"
#include "tools/neuron-bench/commands.h"

namespace neuron::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Samples {
  std::vector<double> host_us, device_us;
  double seconds = 0;  // of all executions
  unsigned instances = 0;
};

// One thread for each instance; all begin at once.
class Runner {
 public:
  Runner(const std::vector<std::unique_ptr<Model>>& models, const ExecOptions& options)
      : models_(models), options_(options) {}

  Result<Samples> run() {
    std::vector<std::thread> threads;
    for (const auto& model : models_) {
      threads.emplace_back([this, &model] { work(*model); });
    }
    for (std::thread& thread : threads) thread.join();
    if (failure_) return *failure_;
    samples_.instances = static_cast<unsigned>(models_.size());
    samples_.seconds = std::chrono::duration<double>(last_ - first_).count();
    return std::move(samples_);
  }

 private:
  void work(Model& model) {
    std::vector<double> host, device;
    for (unsigned i = 0; i < options_.warmup; ++i) {
      if (!once(model, nullptr, nullptr)) break;
    }
    // No instance measures while others still warm up; a failed one is waited for as well.
    waiting_.fetch_add(1);
    while (waiting_.load() < models_.size()) base::yield_processor();  // bounded: by the warm-ups
    const auto start = Clock::now();
    for (unsigned i = 0; i < options_.executions; ++i) {
      if (!once(model, &host, &device)) break;
    }
    const auto end = Clock::now();
    const std::lock_guard lock(mutex_);
    samples_.host_us.insert(samples_.host_us.end(), host.begin(), host.end());
    samples_.device_us.insert(samples_.device_us.end(), device.begin(), device.end());
    first_ = std::min(first_, start);
    last_ = std::max(last_, end);
  }

  bool once(Model& model, std::vector<double>* host, std::vector<double>* device) {
    if (failed_.load()) return false;
    const auto start = Clock::now();
    const auto report = model.execute();
    const auto end = Clock::now();
    if (!report) {
      failed_.store(true);
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = report.error();
      return false;
    }
    if (host != nullptr) {
      host->push_back(std::chrono::duration<double, std::micro>(end - start).count());
      device->push_back(static_cast<double>(report->device_ps) * 1e-6);
    }
    return true;
  }

  const std::vector<std::unique_ptr<Model>>& models_;
  const ExecOptions& options_;
  std::atomic<size_t> waiting_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Samples samples_;
  std::optional<runtime::Error> failure_;
  Clock::time_point first_ = Clock::time_point::max(), last_ = Clock::time_point::min();
};

Result<std::unique_ptr<Model>> load_filled(const std::vector<uint8_t>& neff, unsigned core,
                                           unsigned ranks, Fill fill) {
  NEURON_TRY(model, Model::load(neff, core, ranks));
  NEURON_CHECK(model->fill(fill));
  return std::move(model);
}

Result<Samples> measure(const std::vector<uint8_t>& neff, unsigned cores,
                        const ExecOptions& options) {
  std::vector<std::unique_ptr<Model>> models;
  const unsigned instances = std::max(1u, options.fixed_instances);
  std::mutex mutex;
  std::optional<runtime::Error> failure;
  // Ranks meet while they load: each loads in a thread of its own.
  std::vector<std::thread> threads;
  for (unsigned core = 0; core < cores; ++core) {
    threads.emplace_back([&, core] {
      for (unsigned i = 0; i < instances; ++i) {
        auto model = load_filled(neff, core, options.collectives ? cores : 0,
                                 options.random ? Fill::kRandom : Fill::kZero);
        const std::lock_guard lock(mutex);
        if (model) {
          models.push_back(std::move(*model));
        } else if (!failure) {
          failure = model.error();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) return failure->with("{} on {} core{}", options.file, cores, cores == 1 ? "" : "s");
  return Runner(models, options).run();
}

Result<void> write_numbers(const std::string& path, const boost::json::value& value) {
  const std::string text = boost::json::serialize(value) + "\n";
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  return tools::write_file(path, neff::Bytes(bytes, text.size()));
}

double rate(const Samples& samples) {
  const double executions = static_cast<double>(samples.host_us.size());
  return samples.seconds > 0 ? executions / samples.seconds : 0;
}

Result<void> write_directory(const ExecOptions& options, const Samples& samples) {
  if (options.directory.empty()) return {};
  if (::mkdir(options.directory.c_str(), 0777) != 0 && errno != EEXIST) {
    return runtime::fail_with_errno(NRT_FAILURE, errno, "the output directory {}",
                                    options.directory);
  }
  boost::json::array host, device;
  for (const double value : samples.host_us) host.push_back(value);
  for (const double value : samples.device_us) device.push_back(value);
  const auto summary = [](const std::vector<double>& values) {
    return boost::json::object{{"50", percentile(values, 0.50)}, {"99", percentile(values, 0.99)}};
  };
  NEURON_CHECK(write_numbers(options.directory + "/latency_data.json", host));
  NEURON_CHECK(write_numbers(options.directory + "/nc_latency_data.json", device));
  return write_numbers(options.directory + "/info.json",
                       boost::json::object{{"latency", summary(samples.host_us)},
                                           {"nc_latency", summary(samples.device_us)},
                                           {"throughput", rate(samples)}});
}

}  // namespace

Result<tools::Records> run_exec(const Session& session, const ExecOptions& options) {
  NEURON_TRY(neff, tools::read_file(options.file));
  std::vector<unsigned> counts;
  if (options.fixed_cores != 0) {
    counts = {options.fixed_cores};
  } else if (options.only_latency || session.cores() == 1) {
    counts = {1};
  } else if (options.collectives) {
    counts = {session.cores()};
  } else {
    counts = {1, session.cores()};
  }
  if (counts.back() > session.cores()) {
    return runtime::fail(NRT_INVALID, "--fixed-nc-count {}: there are {} cores", counts.back(),
                         session.cores());
  }
  tools::Records records;
  records.schema = "neuron-bench-exec";
  records.list = "runs";
  records.columns = {{"cores_used", "NC USED"},
                     {"instances", "INSTANCES"},
                     {"executions", "EXECUTIONS"},
                     {"host_latency_p50_us", "L(50)", tools::Unit::kMicroseconds},
                     {"host_latency_p99_us", "L(99)", tools::Unit::kMicroseconds},
                     {"device_latency_p50_us", "NCL(50)", tools::Unit::kMicroseconds},
                     {"device_latency_p99_us", "NCL(99)", tools::Unit::kMicroseconds},
                     {"executions_per_second", "EXEC/s"}};
  for (const unsigned cores : counts) {
    NEURON_TRY(samples, measure(neff, cores, options));
    NEURON_CHECK(write_directory(options, samples));
    records.rows.push_back(
        {cores, samples.instances, samples.host_us.size(), percentile(samples.host_us, 0.50),
         percentile(samples.host_us, 0.99), percentile(samples.device_us, 0.50),
         percentile(samples.device_us, 0.99), std::round(10 * rate(samples)) / 10});
  }
  records.about = {{"file", options.file}, {"instance_type", session.instance_type()}};
  return records;
}

}  // namespace neuron::bench
