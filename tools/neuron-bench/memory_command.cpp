// SPDX-License-Identifier: Apache-2.0
// Bandwidth between host and device, and between the memories of cores and devices.
#include <chrono>
#include <functional>

#include "tools/neuron-bench/commands.h"

namespace neuron::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Path {
  const char* name;
  uint32_t from, to;  // cores
  std::function<NRT_STATUS()> copy;
};

Result<double> seconds_of(const Path& path, unsigned repetitions) {
  std::vector<double> samples;
  for (unsigned i = 0; i <= repetitions; ++i) {
    const auto start = Clock::now();
    if (const NRT_STATUS s = path.copy()) return failure(path.name, s);
    // The first one touches the pages.
    if (i > 0) samples.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return percentile(std::move(samples), 0.5);
}

}  // namespace

Result<tools::Records> run_memory(const Session& session, const MemoryOptions& options) {
  tools::Records records;
  records.schema = "neuron-bench-memory";
  records.list = "paths";
  records.columns = {
      {"path", "PATH"},
      {"from_core", "FROM CORE"},
      {"to_core", "TO CORE"},
      {"size_bytes", "SIZE", tools::Unit::kBytes},
      {"host_time_p50_us", "HOST TIME", tools::Unit::kMicroseconds},
      {"host_bandwidth_bytes_per_second", "HOST BANDWIDTH", tools::Unit::kBytesPerSecond}};
  records.about = {{"instance_type", session.instance_type()}};
  const uint32_t last = session.cores() - 1;
  for (const size_t size : options.sizes) {
    NEURON_TRY(near, Tensor::allocate(0, size));
    NEURON_TRY(beside, Tensor::allocate(0, size));
    NEURON_TRY(far, Tensor::allocate(last, size));
    std::vector<uint8_t> host(size, 0x5a);
    std::vector<Path> paths = {
        {"host to device", 0, 0,
         [&] { return nrt_tensor_write(near.get(), host.data(), 0, size); }},
        {"device to host", 0, 0, [&] { return nrt_tensor_read(near.get(), host.data(), 0, size); }},
        {"within a core's memory", 0, 0,
         [&] { return nrt_tensor_copy(near.get(), 0, beside.get(), 0, size); }}};
    if (last != 0) {
      // Copies of libnrt stay inside one HBM; only collectives use the links (nccom-test sendrecv).
      paths.push_back({"core to core, through the host", 0, last, [&] {
                         const NRT_STATUS s = nrt_tensor_read(near.get(), host.data(), 0, size);
                         return s != NRT_SUCCESS
                                    ? s
                                    : nrt_tensor_write(far.get(), host.data(), 0, size);
                       }});
    }
    for (const Path& path : paths) {
      NEURON_TRY(seconds, seconds_of(path, options.repetitions));
      records.rows.push_back({path.name, path.from, path.to, size, seconds * 1e6,
                              seconds > 0 ? static_cast<double>(size) / seconds : 0});
    }
  }
  return records;
}

}  // namespace neuron::bench
