// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/rates.h"

#include <algorithm>

namespace neuron::telemetry {
namespace {

template <class Array>
Array growth_of_each(const Array& before, const Array& now) {
  Array out;
  for (size_t i = 0; i < out.size(); ++i) out[i] = growth(before[i], now[i]);
  return out;
}

}  // namespace

CoreCounters growth(const CoreCounters& before, const CoreCounters& now) {
  CoreCounters out;
  const auto grow = [&](uint64_t CoreCounters::*counter) {
    out.*counter = growth(before.*counter, now.*counter);
  };
  for (const auto counter : {&CoreCounters::completed,
                             &CoreCounters::completed_with_err,
                             &CoreCounters::completed_with_num_err,
                             &CoreCounters::timed_out,
                             &CoreCounters::incorrect_input,
                             &CoreCounters::failed_to_queue,
                             &CoreCounters::generic,
                             &CoreCounters::numerical,
                             &CoreCounters::transient,
                             &CoreCounters::model,
                             &CoreCounters::runtime,
                             &CoreCounters::hardware,
                             &CoreCounters::busy_us,
                             &CoreCounters::collectives_us,
                             &CoreCounters::multiply_accumulates,
                             &CoreCounters::executions,
                             &CoreCounters::model_loads,
                             &CoreCounters::dma_bytes,
                             &CoreCounters::link_bytes,
                             &CoreCounters::device_latency_us,
                             &CoreCounters::total_latency_us}) {
    grow(counter);
  }
  for (const auto& [cause, count] : now.causes) {
    const auto old = before.causes.find(cause);
    const uint64_t more = growth(old == before.causes.end() ? 0 : old->second, count);
    if (more != 0) out.causes[cause] = more;
  }
  out.engine_busy_us = growth_of_each(before.engine_busy_us, now.engine_busy_us);
  out.device_latency = growth_of_each(before.device_latency, now.device_latency);
  out.total_latency = growth_of_each(before.total_latency, now.total_latency);
  return out;
}

HardwareCounters growth(const HardwareCounters& before, const HardwareCounters& now) {
  return {growth(before.mem_ecc_corrected, now.mem_ecc_corrected),
          growth(before.mem_ecc_uncorrected, now.mem_ecc_uncorrected),
          growth(before.mem_ecc_repairable_uncorrected, now.mem_ecc_repairable_uncorrected),
          growth(before.sram_ecc_corrected, now.sram_ecc_corrected),
          growth(before.sram_ecc_uncorrected, now.sram_ecc_uncorrected)};
}

uint64_t failures(const CoreCounters& counters) {
  return counters.completed_with_err + counters.completed_with_num_err + counters.timed_out +
         counters.incorrect_input + counters.failed_to_queue;
}

double seconds_between(const Snapshot& before, const Snapshot& now) {
  // Converted one by one, because a recording may hold times whose difference overflows the clock's
  // type.
  const auto seconds = [](const Snapshot& snapshot) {
    return std::chrono::duration<double>(snapshot.monotonic.time_since_epoch()).count();
  };
  return std::max(0.0, seconds(now) - seconds(before));
}

double share(double part, double whole) {
  return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
}

CoreRates rates(const CoreCounters& grown, double seconds) {
  CoreRates out;
  if (!(seconds > 0)) return out;
  const double microseconds = seconds * 1e6;
  out.busy = share(static_cast<double>(grown.busy_us), microseconds);
  out.collectives = share(static_cast<double>(grown.collectives_us), microseconds);
  for (size_t i = 0; i < out.engines.size(); ++i) {
    out.engines[i] = share(static_cast<double>(grown.engine_busy_us[i]), microseconds);
  }
  // A multiplication and an addition.
  out.flops = 2 * static_cast<double>(grown.multiply_accumulates) / seconds;
  out.executions = static_cast<double>(grown.executions) / seconds;
  out.dma_bytes = static_cast<double>(grown.dma_bytes) / seconds;
  out.link_bytes = static_cast<double>(grown.link_bytes) / seconds;
  return out;
}

ProcessorShares processor_shares(const ProcessorTimes& before, const ProcessorTimes& now) {
  const auto values = [](const ProcessorTimes& of) {
    return std::array{of.user, of.nice, of.system, of.idle, of.io_wait, of.irq, of.soft_irq};
  };
  const auto then = values(before), later = values(now);
  ProcessorShares out{};
  double whole = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    // Idle and waiting time of Linux can step back a little; that counts as no time.
    out[i] = later[i] >= then[i] ? static_cast<double>(later[i] - then[i]) : 0;
    whole += out[i];
  }
  for (double& value : out) value = share(value, whole);
  return out;
}

}  // namespace neuron::telemetry
