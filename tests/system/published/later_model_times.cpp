// SPDX-License-Identifier: Apache-2.0
// The rows of trn2 and trn3.
#include <cmath>

#include "tests/bench/session.h"
#include "tests/support/process.h"
#include "tests/system/published/model_times.h"
#include "tests/system/published/nki_programs.h"

namespace neuron::published {
namespace {

double microseconds(uint64_t ps) { return static_cast<double>(ps) / 1e6; }
double busy(const nrt_open_execution_report_t& report, unsigned engine) {
  return microseconds(report.engines[engine].busy_ps);
}

// Of the Tensor engine of trn2 with 16-bit types: 128 x 128 cells, 2.4 GHz.
constexpr double kPeak = 128 * 128 * 2.0 * 2.4e9;

constexpr double kCoresOfChip = 8;
constexpr double kEnginesOfCore = 16, kEnginesOfChip = kCoresOfChip * kEnginesOfCore;

}  // namespace

double ModelTimes::total_us(LaterWork work, uint32_t rounds) {
  const std::string name = "later work " + std::to_string(static_cast<int>(work)) + ", " +
                           std::to_string(rounds) + " rounds";
  const uint8_t generation = generation_;
  return total_us(name, [=] { return later_work(work, rounds, generation); });
}

double ModelTimes::of_rounds(LaterWork work, uint32_t few, uint32_t many) {
  return nanoseconds_of_one(total_us(work, few), total_us(work, many), many - few);
}

// Enough rounds for the limit of the PE's current to be gone.
double ModelTimes::of_round(LaterWork work) { return of_rounds(work, 64, 192); }

void ModelTimes::add_later_ratio(const std::string& row, LaterWork of, LaterWork to, double times) {
  rows_[row] = [=, this] { return times * of_round(of) / of_round(to); };
}

// Of one partition.
void ModelTimes::add_elements_of_a_cycle(const std::string& row, LaterWork work, double gigahertz) {
  rows_[row] = [=, this] { return kLaterColumns / (of_round(work) * gigahertz); };
}

// In TFLOPS. `cores` times what one core does: no others run.
void ModelTimes::add_peak(const std::string& row, LaterWork product, double cores) {
  rows_[row] = [=, this] { return cores * operations_of(product) / of_round(product) / 1e3; };
}

// At first a product takes longer. Where the line of the first products and that of the later ones
// meet, the limit ends.
void ModelTimes::add_current_limit() {
  constexpr auto kProduct = LaterWork::kProductBf16;
  constexpr uint32_t kFirst = 2, kFew = 6;
  rows_["current-limit-start"] = [this] {
    return 100 * of_round(kProduct) / of_rounds(kProduct, kFirst, kFew);
  };
  rows_["current-limit-length"] = [this] {
    constexpr uint32_t kMany = 192;
    const double limited = of_rounds(kProduct, kFirst, kFew), later = of_round(kProduct);
    const double saved =
        (kMany - kFirst) * limited - 1e3 * (total_us(kProduct, kMany) - total_us(kProduct, kFirst));
    const double limited_products = kMany - saved / (limited - later);
    return limited_products * limited / 1e3;
  };
}

// `times`: how often the program must run to do the published work.
void ModelTimes::add_matmul(const std::string& row, const std::function<Neff()>& build,
                            double times) {
  const auto of = [=, this]() -> const Times& { return this->times(row, build, Profiled::kWith); };
  rows_[row] = [=] { return times * microseconds(of().report.device_ps); };
  rows_[row + "-pe"] = [=] { return times * busy(of().report, NEURON_ENGINE_PE); };
  rows_[row + "-dve"] = [=] { return times * busy(of().report, NEURON_ENGINE_DVE); };
  rows_[row + "-dma"] = [=] { return times * of().dma_active_us; };
  rows_[row + "-rate"] = [=] { return of().moved_bytes / of().dma_active_us / 1e3; };
}

// Parts of the time in which engines are busy, in percent.
void ModelTimes::add_shares(const std::string& row, const std::function<Neff()>& build) {
  const auto of = [=, this]() -> const Times& { return times(row, build, Profiled::kWith); };
  const auto share = [=](unsigned engine) {
    return 100 * busy(of().report, engine) / microseconds(of().report.device_ps);
  };
  rows_[row + "-pe-share"] = [=] { return share(NEURON_ENGINE_PE); };
  rows_[row + "-dve-share"] = [=] { return share(NEURON_ENGINE_DVE); };
  rows_[row + "-dma-share"] = [=] {
    return 100 * of().dma_active_us / microseconds(of().report.device_ps);
  };
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

void ModelTimes::add_transfers_of_trn2() {
  // Each of the 16 DMA engines moves 4 rows of each transfer, and they do not slow each other down.
  rows_["dma-one-engine"] = [this] {
    constexpr Transfers kLoads{.count = 64, .rows = 64, .bytes = 8192};
    return total_us("4 rows an engine", [=] { return transfers(kLoads); }) * 1e3 / kLoads.count;
  };
  for (const uint32_t bytes : {1024, 4096}) {
    const Transfers mix{.count = 16, .rows = NEURON_PARTITIONS, .bytes = bytes, .stores = true};
    const std::string name = "dma-" + std::to_string(bytes);
    const auto of = [=, this]() -> const Times& {
      return times(
          name, [=] { return transfers(mix); }, Profiled::kWith);
    };
    rows_[name] = [=] { return microseconds(of().report.device_ps); };
    rows_[name + "-rate"] = [=] { return of().moved_bytes / of().dma_active_us / 1e3; };
  }
  for (const uint32_t bytes : {512, 1024, 2048, 4096}) {
    add_rate("dma-curve-" + std::to_string(bytes), bytes);
  }
  rows_["dma-rate-trn2"] = [this] { return gigabytes_per_second(kLongTransfer); };
  rows_["dma-peak-trn2"] = rows_["dma-rate-trn2"];
  rows_["dma-peak-chip-trn2"] = [this] {
    return gigabytes_per_second(kLongTransfer) * kEnginesOfChip / kEnginesOfCore / 1e3;
  };
  // In per cent of the rate of a copy.
  for (const auto& [row, work] : {std::pair("dma-transpose", LaterWork::kDmaTranspose),
                                  {"dma-transpose-on-chip", LaterWork::kDmaTransposeOnChip}}) {
    rows_[row] = [this, work = work] {
      constexpr uint32_t kFew = 8, kMany = 24;
      return 100 * of_rounds(LaterWork::kDmaCopy, kFew, kMany) / of_rounds(work, kFew, kMany);
    };
  }
  // A store waits for the load in front of it, and a load for the store.
  rows_["dma-start"] = [this] { return of_round(LaterWork::kDmaThereAndBack) / 2; };
  rows_["dma-generated"] = [this] { return of_round(LaterWork::kDmaGenerated); };
  add_later_ratio("sbuf-add-trn2", LaterWork::kGatherAdd, LaterWork::kGather);
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
      const Times& done =
          times(mixed ? "mixed tiles" : "full tiles", [=] { return matmuls(mixed); });
      return 100 * matmul_operations(mixed) / (busy(done.report, NEURON_ENGINE_PE) * 1e-6) / kPeak;
    };
  }
  rows_["double-row"] = [this] { return total_us("double row", double_row_matmul); };
  add_nki_programs();
  add_transfers_of_trn2();
  add_current_limit();
  constexpr double kVectorClock = 0.96;
  add_elements_of_a_cycle("vector-f32-trn2", LaterWork::kVectorF32, kVectorClock);
  add_elements_of_a_cycle("vector-bf16-width-trn2", LaterWork::kVectorBf16, kVectorClock);
  add_later_ratio("vector-bf16-trn2", LaterWork::kVectorF32, LaterWork::kVectorBf16);
  add_later_ratio("vector-bf16-strided-trn2", LaterWork::kVectorF32, LaterWork::kVectorBf16Strided);
  add_later_ratio("vector-bf16-psum-trn2", LaterWork::kVectorF32, LaterWork::kVectorBf16FromPsum,
                  0.5);
  add_later_ratio("vector-bf16-pair-trn2", LaterWork::kMaximumF32, LaterWork::kMaximumBf16);
  add_later_ratio("vector-far-trn2", LaterWork::kVectorF32Far, LaterWork::kVectorF32);
  add_peak("bf16-peak-trn2", LaterWork::kProductBf16);
  add_peak("f32-peak-trn2", LaterWork::kProductF32);
  add_peak("double-row-peak-trn2", LaterWork::kProductDoubleRow);
  add_peak("sparse-peak-trn2", LaterWork::kProductSparse);
  add_peak("bf16-chip-trn2", LaterWork::kProductBf16, kCoresOfChip);
  add_peak("f32-chip-trn2", LaterWork::kProductF32, kCoresOfChip);
  add_peak("double-row-chip-trn2", LaterWork::kProductDoubleRow, kCoresOfChip);
  add_peak("sparse-chip-trn2", LaterWork::kProductSparse, kCoresOfChip);
  add_later_ratio("f8e3-trn2", LaterWork::kProductBf16, LaterWork::kProductF8);
  add_later_ratio("f32-passes-trn2", LaterWork::kProductF32, LaterWork::kProductBf16);
  add_later_ratio("onezero-trn2", LaterWork::kProductF32, LaterWork::kProductOneZero);
  // A transpose, and a load, has a quarter of a product's columns.
  add_later_ratio("f32-transpose-trn2", LaterWork::kProductF32, LaterWork::kTransposeF32, 0.25);
  add_later_ratio("load-weights-trn2", LaterWork::kProductBf16, LaterWork::kLoadWeights, 0.25);
  rows_["exchange-trn2"] = [this] {
    subtracted_ = true;  // by the other process
    const test::Run run = test::run({"/proc/self/exe", "exchange"});
    return kExchangedBytes / std::atof(run.output.c_str());
  };
}

void ModelTimes::add_programs_of_trn3() {
  constexpr double kClock = 1.2;
  rows_["dma-rate-trn3"] = [this] { return gigabytes_per_second(kLongTransfer); };
  rows_["dma-peak-trn3"] = rows_["dma-rate-trn3"];
  rows_["dma-peak-chip-trn3"] = [this] {
    return gigabytes_per_second(kLongTransfer) * kEnginesOfChip / kEnginesOfCore / 1e3;
  };
  add_later_ratio("sbuf-add-trn3", LaterWork::kGatherAdd, LaterWork::kGather);
  add_elements_of_a_cycle("vector-f32-trn3", LaterWork::kVectorF32, kClock);
  add_elements_of_a_cycle("pool-trn3", LaterWork::kPoolF32, kClock);
  add_later_ratio("vector-bf16-trn3", LaterWork::kVectorF32, LaterWork::kVectorBf16);
  add_later_ratio("vector-f8-trn3", LaterWork::kVectorF32, LaterWork::kVectorF8);
  add_later_ratio("scalar-bf16-trn3", LaterWork::kScalarF32, LaterWork::kScalarBf16);
  add_later_ratio("exponential-trn3", LaterWork::kScalarExponential, LaterWork::kVectorExponential);
  add_elements_of_a_cycle("quantize-trn3", LaterWork::kQuantize, kClock);
  add_elements_of_a_cycle("random-trn3", LaterWork::kRandom, kClock);
  add_later_ratio("mx-product-trn3", LaterWork::kProductBf16, LaterWork::kProductMx,
                  operations_of(LaterWork::kProductMx) / operations_of(LaterWork::kProductBf16));
  add_peak("mx-peak-trn3", LaterWork::kProductMx);
  add_peak("sparse-peak-trn3", LaterWork::kProductSparse);
  add_peak("bf16-peak-trn3", LaterWork::kProductBf16);
  add_peak("f32-peak-trn3", LaterWork::kProductF32);
  add_peak("bf16-chip-trn3", LaterWork::kProductBf16, kCoresOfChip);
  add_peak("f32-chip-trn3", LaterWork::kProductF32, kCoresOfChip);
  add_peak("mx-chip-trn3", LaterWork::kProductMx, kCoresOfChip);
  add_peak("sparse-chip-trn3", LaterWork::kProductSparse, kCoresOfChip);
  // A transpose in the array takes as many cycles as it has columns; a product has four times as
  // many.
  add_later_ratio("transposes-trn3", LaterWork::kProductBf16, LaterWork::kTranspose, 0.25);
}

runtime::Result<double> nanoseconds_of_exchange() {
  constexpr uint32_t kFew = 8, kMany = 24;
  constexpr uint8_t kGeneration = 3;
  std::map<uint32_t, double> total;
  for (const uint32_t rounds : {kFew, kMany}) {
    const Neff neff = exchange(rounds, kGeneration);
    if (!neff) return neff.error();
    bench::Session session({reinterpret_cast<const char*>(neff->data()), neff->size()}, "exchange",
                           bench::Session::Inputs::kZeros);
    nrt_open_execution_report_t report{};
    report.size = sizeof report;
    if (!session.error().empty()) return runtime::fail(NRT_FAILURE, "{}", session.error());
    if (nrt_open_get_execution_report(session.model(), &report) != NRT_SUCCESS) {
      return runtime::fail(NRT_FAILURE, "exchange: {}", nrt_open_last_error());
    }
    total[rounds] = microseconds(report.device_ps);
  }
  return (total[kMany] - total[kFew]) * 1e3 / (kMany - kFew);
}

}  // namespace neuron::published
