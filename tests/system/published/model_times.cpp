// SPDX-License-Identifier: Apache-2.0
#include "tests/system/published/model_times.h"

#include "tests/bench/session.h"
#include "tests/system/published/nki_programs.h"

namespace neuron::published {
namespace {

using Report = nrt_open_execution_report_t;

double microseconds(uint64_t ps) { return static_cast<double>(ps) / 1e6; }
double busy(const Report& report, unsigned engine) {
  return microseconds(report.engines[engine].busy_ps);
}

// Of the Tensor engine of trn2 with 16-bit types: 128 x 128 cells, 2.4 GHz.
constexpr double kPeak = 128 * 128 * 2.0 * 2.4e9;

}  // namespace

ModelTimes::ModelTimes(const std::string& chip)
    : generation_(chip == "trn1"   ? 2
                  : chip == "trn2" ? 3
                                   : 4) {
  generation_ == 2   ? add_programs_of_trn1()
  : generation_ == 3 ? add_programs_of_trn2()
                     : add_programs_of_trn3();
}

std::vector<std::string> ModelTimes::rows() const {
  std::vector<std::string> names;
  for (const auto& [name, measure] : rows_) names.push_back(name);
  return names;
}

runtime::Result<double> ModelTimes::measure(const std::string& row) {
  const auto found = rows_.find(row);
  if (found == rows_.end()) {
    return runtime::fail(NRT_INVALID, "no program is known for row {}; add it to model_times.cpp",
                         row);
  }
  try {
    return found->second();
  } catch (const runtime::Error& error) {
    return error;
  }
}

const Report& ModelTimes::report(const std::string& program, const std::function<Neff()>& build) {
  if (const auto known = reports_.find(program); known != reports_.end()) return known->second;
  const Neff neff = build();
  if (!neff) throw neff.error();
  bench::Session session({reinterpret_cast<const char*>(neff->data()), neff->size()}, program,
                         bench::Session::Inputs::kZeros);
  Report report{};
  report.size = sizeof report;
  std::string error = session.error();
  if (error.empty() && session.execute() != NRT_SUCCESS) error = nrt_open_last_error();
  if (error.empty() && nrt_open_get_execution_report(session.model(), &report) != NRT_SUCCESS) {
    error = nrt_open_last_error();
  }
  if (!error.empty()) throw runtime::fail(NRT_FAILURE, "{}: {}", program, error);
  return reports_.emplace(program, report).first->second;
}

void ModelTimes::add_mamba(const std::string& row, unsigned version, uint64_t channels,
                           uint64_t positions) {
  rows_[row] = [=, this] {
    constexpr uint64_t kStates = 16;
    const auto build = [=] {
      return kernels::mamba("mamba", {channels, positions, kStates}, version);
    };
    return microseconds(report(row, build).device_ps);
  };
}

void ModelTimes::add_attention(const std::string& row, uint8_t dtype, uint64_t size) {
  rows_[row] = [=, this] {
    constexpr uint64_t kPositions = 4096;
    const auto build = [=] {
      return kernels::attention("attention", dtype, {1, kPositions, size});
    };
    return microseconds(report(row, build).device_ps);
  };
}

// What one more round takes, in nanoseconds.
double ModelTimes::of_round(Work work) {
  constexpr uint32_t kFew = 8, kMany = 24;
  const auto total = [&](uint32_t rounds) {
    const std::string name = "work " + std::to_string(static_cast<int>(work)) + ", " +
                             std::to_string(rounds) + " rounds";
    return microseconds(report(name, [=] { return published::work(work, rounds); }).device_ps);
  };
  return (total(kMany) - total(kFew)) * 1e3 / (kMany - kFew);
}

// Enough rounds for the limit of the PE's current to be gone.
double ModelTimes::of_round(LaterWork work, uint8_t generation) {
  constexpr uint32_t kFew = 64, kMany = 192;
  const auto total = [&](uint32_t rounds) {
    const std::string name = "later work " + std::to_string(static_cast<int>(work)) + ", " +
                             std::to_string(rounds) + " rounds";
    return microseconds(
        report(name, [=] { return later_work(work, rounds, generation); }).device_ps);
  };
  return (total(kMany) - total(kFew)) * 1e3 / (kMany - kFew);
}

void ModelTimes::add_later_ratio(const std::string& row, LaterWork of, LaterWork to, double times) {
  rows_[row] = [=, this] { return times * of_round(of) / of_round(to); };
}

// Of one partition, in cycles of 1.2 GHz.
void ModelTimes::add_elements_of_a_cycle(const std::string& row, LaterWork work) {
  rows_[row] = [=, this] { return kLaterColumns / (of_round(work) * 1.2); };
}

// In TFLOPS.
void ModelTimes::add_peak(const std::string& row, LaterWork product) {
  rows_[row] = [=, this] { return operations_of(product) / of_round(product) / 1e3; };
}

void ModelTimes::add_ratio(const std::string& row, Work of, Work to) {
  rows_[row] = [=, this] { return of_round(of) / of_round(to); };
}

double ModelTimes::gigabytes_per_second(uint32_t bytes) {
  constexpr uint32_t kCount = 64;
  const Transfers loads{
      .count = kCount, .rows = NEURON_PARTITIONS, .bytes = bytes, .generation = generation_};
  const Report& done =
      report("loads of " + std::to_string(bytes), [=] { return transfers(loads); });
  return double{kCount} * NEURON_PARTITIONS * bytes / 1e3 / microseconds(done.device_ps);
}

constexpr uint32_t kLongRow = 32768;

void ModelTimes::add_rate(const std::string& row, uint32_t bytes) {
  rows_[row] = [=, this] {
    return 100 * gigabytes_per_second(bytes) / gigabytes_per_second(kLongRow);
  };
}

// `times`: how often the program must run to do the published work.
void ModelTimes::add_matmul(const std::string& row, const std::function<Neff()>& build,
                            double times) {
  rows_[row] = [=, this] { return times * microseconds(report(row, build).device_ps); };
  rows_[row + "-pe"] = [=, this] { return times * busy(report(row, build), NEURON_ENGINE_PE); };
  rows_[row + "-dve"] = [=, this] { return times * busy(report(row, build), NEURON_ENGINE_DVE); };
}

// Parts of the time in which engines are busy, in percent.
void ModelTimes::add_shares(const std::string& row, const std::function<Neff()>& build) {
  const auto share = [=, this](unsigned engine) {
    const Report& done = report(row, build);
    return 100 * busy(done, engine) / microseconds(done.device_ps);
  };
  rows_[row + "-pe-share"] = [=] { return share(NEURON_ENGINE_PE); };
  rows_[row + "-dve-share"] = [=] { return share(NEURON_ENGINE_DVE); };
}

// The tutorial's products, written in NKI.
void ModelTimes::add_nki_programs() {
  const test::Words square = {"4096x4096:bfloat16", "4096x4096:bfloat16"};
  const auto of = [](const char* kernel, const test::Words& arguments) {
    return [=] { return nki_matmul(kernel, arguments); };
  };
  add_matmul("nki-matmul-4096-v0", of("tiled", {square[0], square[1], "VALUE=3"}));
  add_matmul("nki-matmul-4096-v1", of("blocked", square));
  add_matmul("nki-matmul-4096-v2", of("by_rows", square));
  // Rows and columns of tiles are the same work, and all of it would take minutes to emulate.
  const test::Words part = {"8192x512", "8192x8192"};
  add_shares("nki-matmul-f32-tiled", of("tiled", part));
  add_shares("nki-matmul-f32-hoisted", of("hoisted", part));
  add_shares("nki-matmul-f32-deep", of("deep", {"8192x2048", "8192x2048"}));
}

void ModelTimes::add_programs_of_trn1() {
  add_mamba("mamba-v1-256", 1, 256, 512);
  add_mamba("mamba-v1-4096", 1, 4096, 512);
  add_mamba("mamba-v2-4096", 2, 4096, 512);
  for (const uint64_t positions : {1024, 2048, 8192}) {
    add_mamba("mamba-v3-" + std::to_string(positions), 3, 4096, positions);
  }
  add_attention("attention-f32-128", NEURON_DTYPE_F32, 128);
  add_attention("attention-bf16-128", NEURON_DTYPE_BF16, 128);
  add_attention("attention-bf16-64", NEURON_DTYPE_BF16, 64);
  rows_["scalar-dependent"] = [this] { return of_round(Work::kDependent); };
  add_ratio("fused-activation", Work::kUnfused, Work::kFused);
  add_ratio("half-partitions", Work::kFused, Work::kFusedHalf);
  add_ratio("vector-reciprocal", Work::kReciprocal, Work::kCopy);
  add_ratio("gpsimd-rsqrt", Work::kPoolRsqrt, Work::kScalarRsqrt);
  rows_["dma-rate-trn1"] = [this] { return gigabytes_per_second(kLongRow); };
  rows_["layernorm-ratio"] = [this] {
    const auto statistics = [] {
      return kernels::layer_norm("layernorm", NEURON_DTYPE_F32, 300, 1000);
    };
    return microseconds(report("layer norm by sums", layer_norm_by_sums).device_ps) /
           microseconds(report("layer norm by statistics", statistics).device_ps);
  };
}

void ModelTimes::add_programs_of_trn2() {
  add_matmul("matmul-4096-v0", [] { return matmul_4096(Loads::kTiles); });
  add_matmul("matmul-4096-v1", [] { return matmul_4096(Loads::kBlocks); });
  add_matmul("matmul-4096-v2", [] { return matmul_4096(Loads::kRows); });
  constexpr double kF32Times = 4096.0 / kMatmulF32Rows;
  add_matmul(
      "matmul-f32-tiled", [] { return matmul_f32(false); }, kF32Times);
  add_matmul(
      "matmul-f32-hoisted", [] { return matmul_f32(true); }, kF32Times);
  for (const bool mixed : {false, true}) {
    rows_[mixed ? "matmuls-mixed" : "matmuls-full"] = [=, this] {
      const Report& done =
          report(mixed ? "mixed tiles" : "full tiles", [=] { return matmuls(mixed); });
      return 100 * matmul_operations(mixed) / (busy(done, NEURON_ENGINE_PE) * 1e-6) / kPeak;
    };
  }
  // Each of the 16 DMA engines moves 4 rows of each transfer, and they do not slow each other down.
  rows_["dma-one-engine"] = [this] {
    constexpr Transfers kLoads{.count = 64, .rows = 64, .bytes = 8192};
    return microseconds(report("4 rows an engine", [=] { return transfers(kLoads); }).device_ps) *
           1e3 / kLoads.count;
  };
  for (const uint32_t bytes : {1024, 4096}) {
    rows_["dma-" + std::to_string(bytes)] = [=, this] {
      const Transfers mix{.count = 16, .rows = NEURON_PARTITIONS, .bytes = bytes, .stores = true};
      return microseconds(
          report("mix of " + std::to_string(bytes), [=] { return transfers(mix); }).device_ps);
    };
  }
  for (const uint32_t bytes : {512, 1024, 2048, 4096}) {
    add_rate("dma-curve-" + std::to_string(bytes), bytes);
  }
  add_nki_programs();
  rows_["dma-rate-trn2"] = [this] { return gigabytes_per_second(kLongRow); };
  add_later_ratio("sbuf-add-trn2", LaterWork::kGatherAdd, LaterWork::kGather);
}

void ModelTimes::add_programs_of_trn3() {
  rows_["dma-rate-trn3"] = [this] { return gigabytes_per_second(kLongRow); };
  add_later_ratio("sbuf-add-trn3", LaterWork::kGatherAdd, LaterWork::kGather);
  add_later_ratio("vector-bf16-trn3", LaterWork::kVectorF32, LaterWork::kVectorBf16);
  add_later_ratio("vector-f8-trn3", LaterWork::kVectorF32, LaterWork::kVectorF8);
  add_later_ratio("scalar-bf16-trn3", LaterWork::kScalarF32, LaterWork::kScalarBf16);
  add_later_ratio("exponential-trn3", LaterWork::kScalarExponential, LaterWork::kVectorExponential);
  add_elements_of_a_cycle("quantize-trn3", LaterWork::kQuantize);
  add_elements_of_a_cycle("random-trn3", LaterWork::kRandom);
  add_later_ratio("mx-product-trn3", LaterWork::kProductBf16, LaterWork::kProductMx,
                  operations_of(LaterWork::kProductMx) / operations_of(LaterWork::kProductBf16));
  add_peak("mx-peak-trn3", LaterWork::kProductMx);
  add_peak("bf16-peak-trn3", LaterWork::kProductBf16);
  add_peak("f32-peak-trn3", LaterWork::kProductF32);
  // A transpose in the array takes as many cycles as it has columns; a product has four times as
  // many.
  add_later_ratio("transposes-trn3", LaterWork::kProductBf16, LaterWork::kTranspose, 0.25);
}

}  // namespace neuron::published
