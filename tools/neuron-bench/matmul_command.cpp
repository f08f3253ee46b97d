// SPDX-License-Identifier: Apache-2.0
// Square matrix products by element type: time and rate on the device, and on this host.
#include <chrono>
#include <cmath>

#include "driver/isa/instruction.h"
#include "driver/isa/published_matrix.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/neuron-bench/commands.h"

namespace neuron::bench {
namespace {

struct Type {
  const char* name;
  uint8_t dtype;
};
constexpr Type kTypes[] = {{"fp32", NEURON_DTYPE_F32},
                           {"bf16", NEURON_DTYPE_BF16},
                           {"fp16", NEURON_DTYPE_F16},
                           {"fp8_e4", NEURON_DTYPE_F8E4},
                           {"fp8_e5", NEURON_DTYPE_F8E5}};

Result<uint8_t> dtype_of(const std::string& name) {
  std::string known;
  for (const Type& type : kTypes) {
    if (name == type.name) return type.dtype;
    known += std::string(known.empty() ? "" : ", ") + type.name;
  }
  return runtime::fail(NRT_INVALID, "type '{}': expected {}", name, known);
}

double teraflops(unsigned size, double seconds) {
  const double operations = 2.0 * size * size * size;
  return seconds > 0 ? std::round(operations / seconds * 1e-8) / 1e4 : 0.0;
}

bool is_inferentia1() {
  nrt_instance_info_t info{};
  return nrt_get_instance_info(&info, sizeof info) == NRT_SUCCESS &&
         info.family == NRT_INSTANCE_INF1;
}

// Of a chip that runs no programs: what its published rate gives, and nothing measured.
std::vector<boost::json::value> published_row(const std::string& name, uint8_t dtype,
                                              unsigned size) {
  const auto time = isa::published_matrix_time(1, dtype, {size, size, size});
  if (!time) return {boost::json::string(name), size, nullptr, nullptr, nullptr, nullptr, nullptr};
  const double seconds = static_cast<double>(*time) * 1e-12;
  return {boost::json::string(name),
          size,
          seconds * 1e6,
          teraflops(size, seconds),
          nullptr,
          nullptr,
          nullptr};
}

}  // namespace

Result<tools::Records> run_matmul(const Session& session, const MatmulOptions& options) {
  tools::Records records;
  records.schema = "neuron-bench-matmul";
  records.list = "products";
  records.columns = {{"dtype", "TYPE"},
                     {"size", "SIZE"},
                     {"device_time_us", "DEVICE TIME", tools::Unit::kMicroseconds},
                     {"device_teraflops", "DEVICE TFLOPS"},
                     {"pe_busy_percent", "PE BUSY", tools::Unit::kPercent},
                     {"host_time_us", "HOST TIME", tools::Unit::kMicroseconds},
                     {"host_teraflops", "HOST TFLOPS"}};
  records.about = {{"instance_type", session.instance_type()}};
  const bool published = is_inferentia1();
  for (const std::string& name : options.types) {
    NEURON_TRY(dtype, dtype_of(name));
    for (const unsigned size : options.sizes) {
      if (published) {
        records.rows.push_back(published_row(name, dtype, size));
        continue;
      }
      NEURON_TRY(neff, kernels::matmul("matmul_" + name, dtype, {size, size, size}));
      NEURON_TRY(model, Model::load(neff, 0));
      NEURON_CHECK(model->fill(Fill::kRandom));
      std::vector<double> host;
      nrt_open_execution_report_t report = {};
      for (unsigned i = 0; i < std::max(1u, options.repetitions); ++i) {
        const auto start = std::chrono::steady_clock::now();
        NEURON_TRY(executed, model->execute());
        host.push_back(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        report = executed;
      }
      const double device = static_cast<double>(report.device_ps) * 1e-12;
      const double host_seconds = percentile(std::move(host), 0.5);
      const double busy = report.device_ps > 0
                              ? 100.0 * static_cast<double>(report.engines[0].busy_ps) /
                                    static_cast<double>(report.device_ps)
                              : 0.0;
      records.rows.push_back({boost::json::value(name), size, device * 1e6, teraflops(size, device),
                              busy, host_seconds * 1e6, teraflops(size, host_seconds)});
    }
  }
  return records;
}

}  // namespace neuron::bench
