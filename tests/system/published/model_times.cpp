// SPDX-License-Identifier: Apache-2.0
#include "tests/system/published/model_times.h"

#include <nrt/nrt_profile.h>

#include <cstdlib>

#include "tests/bench/session.h"
#include "tests/support/files.h"
#include "tools/neuron-profile/analysis/summary.h"

namespace neuron::published {
namespace {

using Report = nrt_open_execution_report_t;

double microseconds(uint64_t ps) { return static_cast<double>(ps) / 1e6; }

// The next execution of the session with all that its engines do. Throws runtime::Error.
profile::Summary profiled_execution(bench::Session& session, const std::string& program) {
  const test::Folder folder;
  const std::string file = folder.path("execution.ntff");
  std::string error;
  if (nrt_profile_start(session.model(), file.c_str()) != NRT_SUCCESS ||
      session.execute() != NRT_SUCCESS || nrt_profile_stop(file.c_str()) != NRT_SUCCESS) {
    throw runtime::fail(NRT_FAILURE, "{}, profiled: {}", program, nrt_open_last_error());
  }
  auto recorded = profile::Profile::open(file);
  if (!recorded) throw recorded.error();
  auto summary = profile::summarize(*recorded, 0, 0);
  if (!summary) throw summary.error();
  if (summary->lost != 0) {
    throw runtime::fail(NRT_FAILURE, "{}: the profile lost {} events", program, summary->lost);
  }
  return std::move(*summary);
}

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

runtime::Result<ModelTimes::Ours> ModelTimes::measure(const std::string& row) {
  const auto found = rows_.find(row);
  if (found == rows_.end()) {
    return runtime::fail(NRT_INVALID, "no program is known for row {}; add it to model_times.cpp",
                         row);
  }
  try {
    subtracted_ = false;
    const double value = found->second();
    return Ours{value, subtracted_};
  } catch (const runtime::Error& error) {
    return error;
  }
}

const ModelTimes::Times& ModelTimes::times(const std::string& program,
                                           const std::function<Neff()>& build, Profiled profiled) {
  if (const auto known = known_.find(program); known != known_.end()) return known->second;
  const Neff neff = build();
  if (!neff) throw neff.error();
  bench::Session session({reinterpret_cast<const char*>(neff->data()), neff->size()}, program,
                         bench::Session::Inputs::kZeros);
  Times times;
  times.report.size = sizeof times.report;
  std::string error = session.error();
  if (error.empty() && profiled == Profiled::kWith) {
    const profile::Summary summary = profiled_execution(session, program);
    times.dma_active_us = microseconds(summary.dma_active);
    times.moved_bytes = static_cast<double>(summary.hbm_bytes());
  } else if (error.empty() && session.execute() != NRT_SUCCESS) {
    error = nrt_open_last_error();
  }
  if (error.empty() &&
      nrt_open_get_execution_report(session.model(), &times.report) != NRT_SUCCESS) {
    error = nrt_open_last_error();
  }
  if (!error.empty()) throw runtime::fail(NRT_FAILURE, "{}: {}", program, error);
  return known_.emplace(program, times).first->second;
}

double ModelTimes::total_us(const std::string& program, const std::function<Neff()>& build) {
  return microseconds(times(program, build).report.device_ps);
}

void ModelTimes::add_mamba(const std::string& row, unsigned version, uint64_t channels,
                           uint64_t positions) {
  rows_[row] = [=, this] {
    constexpr uint64_t kStates = 16;
    const auto build = [=] {
      return kernels::mamba("mamba", {channels, positions, kStates}, version);
    };
    return total_us(row, build);
  };
}

// The part of an execution in which the Vector engine is busy, in per cent.
void ModelTimes::add_mamba_share(const std::string& row) {
  rows_[row + "-dve-share"] = [=, this] {
    const double total = rows_[row]();
    return 100 * microseconds(known_.at(row).report.engines[NEURON_ENGINE_DVE].busy_ps) / total;
  };
}

void ModelTimes::add_attention(const std::string& row, uint8_t dtype, uint64_t size) {
  rows_[row] = [=, this] {
    constexpr uint64_t kPositions = 4096;
    const auto build = [=] {
      return kernels::attention("attention", dtype, {1, kPositions, size});
    };
    return total_us(row, build);
  };
}

// What one more round takes, if that is so many more.
double ModelTimes::nanoseconds_of_one(double few_us, double many_us, uint32_t rounds) {
  subtracted_ = true;
  return (many_us - few_us) * 1e3 / rounds;
}

double ModelTimes::of_round(Work work) {
  constexpr uint32_t kFew = 8, kMany = 24;
  const auto total = [&](uint32_t rounds) {
    const std::string name = "work " + std::to_string(static_cast<int>(work)) + ", " +
                             std::to_string(rounds) + " rounds";
    return total_us(name, [=] { return published::work(work, rounds); });
  };
  return nanoseconds_of_one(total(kFew), total(kMany), kMany - kFew);
}

void ModelTimes::add_ratio(const std::string& row, Work of, Work to) {
  rows_[row] = [=, this] { return of_round(of) / of_round(to); };
}

double ModelTimes::gigabytes_per_second(uint32_t bytes) {
  constexpr uint32_t kCount = 64;
  const Transfers loads{
      .count = kCount, .rows = NEURON_PARTITIONS, .bytes = bytes, .generation = generation_};
  const double total =
      total_us("loads of " + std::to_string(bytes), [=] { return transfers(loads); });
  return double{kCount} * NEURON_PARTITIONS * bytes / 1e3 / total;
}

void ModelTimes::add_rate(const std::string& row, uint32_t bytes) {
  rows_[row] = [=, this] {
    return 100 * gigabytes_per_second(bytes) / gigabytes_per_second(kLongTransfer);
  };
}

void ModelTimes::add_programs_of_trn1() {
  add_mamba("mamba-v1-256", 1, 256, 512);
  add_mamba("mamba-v1-4096", 1, 4096, 512);
  add_mamba("mamba-v2-4096", 2, 4096, 512);
  for (const uint64_t positions : {1024, 2048, 8192}) {
    add_mamba("mamba-v3-" + std::to_string(positions), 3, 4096, positions);
  }
  for (const char* row : {"mamba-v1-4096", "mamba-v2-4096", "mamba-v3-8192"}) add_mamba_share(row);
  add_attention("attention-f32-128", NEURON_DTYPE_F32, 128);
  add_attention("attention-bf16-128", NEURON_DTYPE_BF16, 128);
  add_attention("attention-bf16-64", NEURON_DTYPE_BF16, 64);
  rows_["scalar-dependent"] = [this] { return of_round(Work::kDependent); };
  add_ratio("fused-activation", Work::kUnfused, Work::kFused);
  add_ratio("half-partitions", Work::kFused, Work::kFusedHalf);
  add_ratio("vector-reciprocal", Work::kReciprocal, Work::kCopy);
  add_ratio("gpsimd-rsqrt", Work::kPoolRsqrt, Work::kScalarRsqrt);
  rows_["dma-rate-trn1"] = [this] { return gigabytes_per_second(kLongTransfer); };
  rows_["layernorm-ratio"] = [this] {
    const auto statistics = [] {
      return kernels::layer_norm("layernorm", NEURON_DTYPE_F32, 300, 1000);
    };
    return total_us("layer norm by sums", layer_norm_by_sums) /
           total_us("layer norm by statistics", statistics);
  };
}

}  // namespace neuron::published
