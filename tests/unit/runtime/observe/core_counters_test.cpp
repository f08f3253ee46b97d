// SPDX-License-Identifier: Apache-2.0
#include "runtime/observe/core_counters.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace neuron::runtime {
namespace {

using Growth = std::map<uint32_t, uint64_t>;  // counter, by how much

class CoreCountersTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  CoreCountersTest() : block_(NDS_BLOCK_BYTES / sizeof(uint64_t)) {
    counters_.attach(block_.data(), GetParam());
  }
  // Of this core's counters alone; a word of another core that changed is reported as counter 1000.
  Growth growth(const std::vector<uint64_t>& before) const {
    auto* base = reinterpret_cast<char*>(const_cast<uint64_t*>(block_.data()));
    const uint32_t core = GetParam();
    Growth out;
    for (size_t word = 0; word < NDS_OPEN_OFFSET / sizeof(uint64_t); ++word) {
      if (block_[word] == before[word]) continue;
      const auto* at = block_.data() + word;
      uint32_t counter = 1000;
      for (uint32_t i = 0; i < NDS_EXT_NC_COUNTER_LAST; ++i) {
        if (at == place(base, core, i)) counter = i;
      }
      out[counter] += block_[word] - before[word];
    }
    return out;
  }
  static const uint64_t* place(char* base, uint32_t core, uint32_t counter) {
    if (core >= NDS_MAX_NEURONCORE_COUNT) {
      return NDS_EXT_NEURONCORE_NC_DATA(base, core - NDS_MAX_NEURONCORE_COUNT) + counter;
    }
    return counter < NDS_NC_COUNTER_COUNT
               ? NDS_NEURONCORE_COUNTERS(base, core) + counter
               : NDS_EXT_NEURONCORE_COUNTERS(base, core) + (counter - NDS_NC_COUNTER_COUNT);
  }

  std::vector<uint64_t> block_;
  CoreCounters counters_;
};

TEST_P(CoreCountersTest, EachStatusIsOneEndAndOneKindOfError) {
  constexpr uint32_t kWithError = NDS_NC_COUNTER_INFER_COMPLETED_WITH_ERR;
  const struct {
    NRT_STATUS status;
    std::vector<uint32_t> counters;
  } cases[] = {
      {NRT_SUCCESS, {NDS_NC_COUNTER_INFER_COMPLETED}},
      {NRT_TIMEOUT, {NDS_NC_COUNTER_INFER_TIMED_OUT}},
      {NRT_EXEC_BAD_INPUT, {NDS_NC_COUNTER_INFER_INCORRECT_INPUT}},
      {NRT_EXEC_COMPLETED_WITH_NUM_ERR,
       {NDS_NC_COUNTER_INFER_COMPLETED_WITH_NUM_ERR, NDS_NC_COUNTER_ERR_NUMERICAL}},
      {NRT_EXEC_NC_BUSY, {NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE, NDS_NC_COUNTER_ERR_TRANSIENT}},
      {NRT_QUEUE_FULL, {NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE, NDS_NC_COUNTER_ERR_TRANSIENT}},
      {NRT_RESOURCE,
       {NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE, NDS_NC_COUNTER_ERR_RESOURCE, NDS_NC_COUNTER_ERR_RT}},
      {NRT_EXEC_COMPLETED_WITH_ERR, {kWithError, NDS_NC_COUNTER_ERR_MODEL}},
      {NRT_EXEC_OOB, {kWithError, NDS_NC_COUNTER_OOB, NDS_NC_COUNTER_ERR_MODEL}},
      {NRT_EXEC_SW_NQ_OVERFLOW,
       {kWithError, NDS_EXT_NC_COUNTER_ERR_SW_NQ_OVERFLOW, NDS_NC_COUNTER_ERR_RT}},
      {NRT_HW_ERROR, {kWithError, NDS_NC_COUNTER_ERR_HW}},
      {NRT_EXEC_HW_ERR_COLLECTIVES,
       {kWithError, NDS_EXT_NC_COUNTER_HW_ERR_COLLECTIVES, NDS_NC_COUNTER_ERR_HW}},
      {NRT_EXEC_HW_ERR_HBM_UE,
       {kWithError, NDS_EXT_NC_COUNTER_HW_ERR_HBM_UE, NDS_NC_COUNTER_ERR_HW}},
      {NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE,
       {kWithError, NDS_EXT_NC_COUNTER_HW_ERR_REPAIRABLE_HBM_UE, NDS_NC_COUNTER_ERR_HW}},
      {NRT_EXEC_HW_ERR_NC_UE, {kWithError, NDS_EXT_NC_COUNTER_HW_ERR_NC_UE, NDS_NC_COUNTER_ERR_HW}},
      {NRT_EXEC_HW_ERR_DMA_ABORT,
       {kWithError, NDS_EXT_NC_COUNTER_HW_ERR_DMA_ABORT, NDS_NC_COUNTER_ERR_HW}},
      {NRT_EXEC_UNIT_UNRECOVERABLE, {kWithError, NDS_NC_COUNTER_ERR_GENERIC}},
      {NRT_FAILURE, {kWithError, NDS_NC_COUNTER_ERR_GENERIC}},
      {NRT_NETWORK_PROXY_FAILURE, {kWithError, NDS_NC_COUNTER_ERR_GENERIC}},
      {static_cast<NRT_STATUS>(4711), {kWithError, NDS_NC_COUNTER_ERR_GENERIC}},
  };
  for (const auto& test : cases) {
    const std::vector<uint64_t> before = block_;
    counters_.executed(test.status, {}, 0);
    Growth expected = {{NDS_NC_COUNTER_INFERENCE_COUNT, 1}};
    for (const uint32_t counter : test.counters) expected[counter] = 1;
    EXPECT_EQ(growth(before), expected) << test.status;
  }
}

TEST_P(CoreCountersTest, AnExecutionThatNeverReachedTheCoreHasItsKindOfErrorToo) {
  constexpr uint32_t kNotQueued = NDS_NC_COUNTER_INFER_FAILED_TO_QUEUE;
  const struct {
    NRT_STATUS status;
    std::vector<uint32_t> counters;
  } cases[] = {
      {NRT_INVALID, {NDS_NC_COUNTER_INFER_INCORRECT_INPUT}},
      {NRT_INVALID_HANDLE, {NDS_NC_COUNTER_INFER_INCORRECT_INPUT}},
      {NRT_EXEC_BAD_INPUT, {NDS_NC_COUNTER_INFER_INCORRECT_INPUT}},
      {NRT_TIMEOUT, {kNotQueued, NDS_NC_COUNTER_ERR_TRANSIENT}},
      {NRT_EXEC_NC_BUSY, {kNotQueued, NDS_NC_COUNTER_ERR_TRANSIENT}},
      {NRT_QUEUE_FULL, {kNotQueued, NDS_NC_COUNTER_ERR_TRANSIENT}},
      {NRT_RESOURCE, {kNotQueued, NDS_NC_COUNTER_ERR_RESOURCE, NDS_NC_COUNTER_ERR_RT}},
      {NRT_HW_ERROR, {kNotQueued, NDS_NC_COUNTER_ERR_HW}},
      {NRT_EXEC_HW_ERR_COLLECTIVES, {kNotQueued, NDS_NC_COUNTER_ERR_HW}},
      {NRT_EXEC_HW_ERR_HBM_UE, {kNotQueued, NDS_NC_COUNTER_ERR_HW}},
      {NRT_EXEC_UNIT_UNRECOVERABLE, {kNotQueued, NDS_NC_COUNTER_ERR_GENERIC}},
      {NRT_FAILURE, {kNotQueued, NDS_NC_COUNTER_ERR_GENERIC}},
  };
  for (const auto& test : cases) {
    const std::vector<uint64_t> before = block_;
    counters_.refused(test.status);
    Growth expected;  // not among the inferences
    for (const uint32_t counter : test.counters) expected[counter] = 1;
    EXPECT_EQ(growth(before), expected) << test.status;
  }
}

TEST_P(CoreCountersTest, TimesOfManyExecutionsAddUpWithoutLosingParts) {
  const std::vector<uint64_t> before = block_;
  neuron_work_record work = {};
  work.model_ps = 1'400'000;
  work.collectives_ps = 300'000;
  work.multiply_accumulates = 7;
  work.dma_bytes = 100;
  work.link_bytes = 60;
  for (int i = 0; i < 10; ++i) counters_.executed_well(1, work, 1'700);
  EXPECT_EQ(growth(before), (Growth{{NDS_NC_COUNTER_INFERENCE_COUNT, 10},
                                    {NDS_NC_COUNTER_INFER_COMPLETED, 10},
                                    {NDS_NC_COUNTER_TIME_IN_USE, 14},
                                    {NDS_NC_COUNTER_LATENCY_DEVICE, 14},
                                    {NDS_NC_COUNTER_LATENCY_TOTAL, 17},
                                    {NDS_NC_COUNTER_CC_TIME, 3},
                                    {NDS_NC_COUNTER_MAC_COUNT, 70}}));
  auto* base = reinterpret_cast<char*>(block_.data());
  const nds_open_core_t& open = *NDS_OPEN_CORE(base, GetParam());
  EXPECT_EQ(open.collectives_ps, 3'000'000u);
  EXPECT_EQ(open.dma_bytes, 1'000u);
  EXPECT_EQ(open.link_bytes, 600u);
}

// One whose counters are in the first section, and one whose counters are all in the extension.
INSTANTIATE_TEST_SUITE_P(OfCores, CoreCountersTest,
                         ::testing::Values(1u, NDS_MAX_NEURONCORE_COUNT + 2u));

TEST(CoreCounters, WithoutADatastoreNothingIsCounted) {
  CoreCounters counters;
  counters.executed(NRT_FAILURE, {}, 0);
  counters.executed_well(3, {}, 0);
  counters.refused(NRT_QUEUE_FULL);
  counters.worked({});
}

}  // namespace
}  // namespace neuron::runtime
