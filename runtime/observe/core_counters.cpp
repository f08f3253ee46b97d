// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/core_counters.h"

#include <algorithm>
#include <cmath>

namespace neuron::runtime {
namespace {

constexpr uint64_t kPicosecondsPerUs = 1'000'000;

// The whole microseconds that `amount` completes when added to `before`, so that the sum of all is
// exact.
uint64_t whole_us(uint64_t before, uint64_t amount) {
  return (before % kPicosecondsPerUs + amount) / kPicosecondsPerUs;
}

uint64_t value_of(uint64_t& word) {
  return std::atomic_ref<uint64_t>(word).load(std::memory_order_relaxed);
}

}  // namespace

unsigned latency_bucket(uint64_t picoseconds) {
  int exponent = 0;
  // The time in microseconds is mantissa * 2^exponent, and the mantissa at least a half.
  const double mantissa = std::frexp(static_cast<double>(picoseconds) * 1e-6, &exponent);
  // 2^-0.75, 2^-0.5, 2^-0.25
  const int below = mantissa < 0.59460355750136054   ? 3
                    : mantissa < 0.70710678118654752 ? 2
                    : mantissa < 0.84089641525371454 ? 1
                                                     : 0;
  return static_cast<unsigned>(
      std::clamp(4 * exponent - below, 0, static_cast<int>(NDS_OPEN_LATENCY_BUCKETS) - 1));
}

void CoreCounters::attach(void* datastore, uint32_t core) {
  auto* base = static_cast<char*>(datastore);
  if (core < NDS_MAX_NEURONCORE_COUNT) {
    words_ = NDS_NEURONCORE_COUNTERS(base, core);
    extended_ = NDS_EXT_NEURONCORE_COUNTERS(base, core);
  } else {
    words_ = NDS_EXT_NEURONCORE_NC_DATA(base, core - NDS_MAX_NEURONCORE_COUNT);
    extended_ = words_ + NDS_NC_COUNTER_COUNT;
  }
  open_ = NDS_OPEN_CORE(base, core);
}

void CoreCounters::worked(const neuron_work_record& work) {
  if (words_ == nullptr) return;
  const uint64_t before = value_of(open_->in_use_ps);
  grow(words_[NDS_NC_COUNTER_TIME_IN_USE], whole_us(before, work.model_ps));
  grow(open_->in_use_ps, work.model_ps);
  if (work.multiply_accumulates != 0) {
    grow(words_[NDS_NC_COUNTER_MAC_COUNT], work.multiply_accumulates);
  }
  for (unsigned engine = 0; engine < NDS_OPEN_ENGINES; ++engine) {
    grow(open_->engine_busy_ps[engine], work.engine_busy_ps[engine]);
  }
  grow(open_->dma_bytes, work.dma_bytes);
  if (work.collectives_ps != 0) {
    grow(words_[NDS_NC_COUNTER_CC_TIME],
         whole_us(value_of(open_->collectives_ps), work.collectives_ps));
    grow(open_->collectives_ps, work.collectives_ps);
  }
  if (work.link_bytes != 0) grow(open_->link_bytes, work.link_bytes);
}

void CoreCounters::executed_well(uint64_t count, const neuron_work_record& work, uint64_t host_ns) {
  if (words_ == nullptr || count == 0) return;
  grow(words_[NDS_NC_COUNTER_INFERENCE_COUNT], count);
  grow(words_[NDS_NC_COUNTER_INFER_COMPLETED], count);
  grow(words_[NDS_NC_COUNTER_LATENCY_DEVICE], whole_us(value_of(open_->in_use_ps), work.model_ps));
  host_rest_ns_ += host_ns;
  grow(words_[NDS_NC_COUNTER_LATENCY_TOTAL], host_rest_ns_ / 1000);
  host_rest_ns_ %= 1000;
  grow(open_->device_latency[latency_bucket(work.model_ps / count)], count);
  grow(open_->total_latency[latency_bucket(host_ns / count * 1000)], count);
  worked(work);
}

void CoreCounters::executed(NRT_STATUS status, const neuron_work_record& work, uint64_t host_ns) {
  if (words_ == nullptr) return;
  if (status == NRT_SUCCESS) return executed_well(1, work, host_ns);
  grow(words_[NDS_NC_COUNTER_INFERENCE_COUNT], 1);
  host_rest_ns_ += host_ns;
  grow(words_[NDS_NC_COUNTER_LATENCY_TOTAL], host_rest_ns_ / 1000);
  host_rest_ns_ %= 1000;
  grow(words_[NDS_NC_COUNTER_LATENCY_DEVICE], whole_us(value_of(open_->in_use_ps), work.model_ps));
  worked(work);
  count_error(status);
}

void CoreCounters::refused(NRT_STATUS status) {
  switch (status) {
    case NRT_INVALID:
    case NRT_INVALID_HANDLE:
    case NRT_EXEC_BAD_INPUT:
      add(NDS_NC_COUNTER_INFER_INCORRECT_INPUT, 1);
      return;
    case NRT_TIMEOUT:  // others had the core
    case NRT_EXEC_NC_BUSY:
    case NRT_QUEUE_FULL:
      add(NDS_NC_COUNTER_ERR_TRANSIENT, 1);
      break;
    case NRT_RESOURCE:
      add(NDS_NC_COUNTER_ERR_RESOURCE, 1);
      add(NDS_NC_COUNTER_ERR_RT, 1);
      break;
    case NRT_HW_ERROR:
    case NRT_EXEC_HW_ERR_COLLECTIVES:
    case NRT_EXEC_HW_ERR_HBM_UE:
    case NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE:
    case NRT_EXEC_HW_ERR_NC_UE:
    case NRT_EXEC_HW_ERR_DMA_ABORT:
      add(NDS_NC_COUNTER_ERR_HW, 1);
      break;
    default:
      add(NDS_NC_COUNTER_ERR_GENERIC, 1);
      break;
  }
  add(NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE, 1);
}

void CoreCounters::count_error(NRT_STATUS status) {
  switch (status) {
    case NRT_TIMEOUT:
      add(NDS_NC_COUNTER_INFER_TIMED_OUT, 1);
      return;
    case NRT_EXEC_COMPLETED_WITH_NUM_ERR:
      add(NDS_NC_COUNTER_INFER_COMPLETED_WITH_NUM_ERR, 1);
      add(NDS_NC_COUNTER_ERR_NUMERICAL, 1);
      return;
    case NRT_EXEC_BAD_INPUT:
      add(NDS_NC_COUNTER_INFER_INCORRECT_INPUT, 1);
      return;
    case NRT_EXEC_NC_BUSY:
    case NRT_QUEUE_FULL:
      add(NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE, 1);
      add(NDS_NC_COUNTER_ERR_TRANSIENT, 1);
      return;
    case NRT_RESOURCE:
      add(NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE, 1);
      add(NDS_NC_COUNTER_ERR_RESOURCE, 1);
      add(NDS_NC_COUNTER_ERR_RT, 1);
      return;
    case NRT_EXEC_OOB:
      add(NDS_NC_COUNTER_OOB, 1);
      add(NDS_NC_COUNTER_ERR_MODEL, 1);
      break;
    case NRT_EXEC_HW_ERR_COLLECTIVES:
      add(NDS_EXT_NC_COUNTER_HW_ERR_COLLECTIVES, 1);
      add(NDS_NC_COUNTER_ERR_HW, 1);
      break;
    case NRT_EXEC_HW_ERR_HBM_UE:
      add(NDS_EXT_NC_COUNTER_HW_ERR_HBM_UE, 1);
      add(NDS_NC_COUNTER_ERR_HW, 1);
      break;
    case NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE:
      add(NDS_EXT_NC_COUNTER_HW_ERR_REPAIRABLE_HBM_UE, 1);
      add(NDS_NC_COUNTER_ERR_HW, 1);
      break;
    case NRT_EXEC_HW_ERR_NC_UE:
      add(NDS_EXT_NC_COUNTER_HW_ERR_NC_UE, 1);
      add(NDS_NC_COUNTER_ERR_HW, 1);
      break;
    case NRT_EXEC_HW_ERR_DMA_ABORT:
      add(NDS_EXT_NC_COUNTER_HW_ERR_DMA_ABORT, 1);
      add(NDS_NC_COUNTER_ERR_HW, 1);
      break;
    case NRT_HW_ERROR:
      add(NDS_NC_COUNTER_ERR_HW, 1);
      break;
    case NRT_EXEC_SW_NQ_OVERFLOW:
      add(NDS_EXT_NC_COUNTER_ERR_SW_NQ_OVERFLOW, 1);
      add(NDS_NC_COUNTER_ERR_RT, 1);
      break;
    case NRT_EXEC_COMPLETED_WITH_ERR:
      add(NDS_NC_COUNTER_ERR_MODEL, 1);
      break;
    default:
      add(NDS_NC_COUNTER_ERR_GENERIC, 1);
      break;
  }
  add(NDS_NC_COUNTER_INFER_COMPLETED_WITH_ERR, 1);
}

}  // namespace neuron::runtime
