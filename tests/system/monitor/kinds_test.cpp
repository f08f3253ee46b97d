// SPDX-License-Identifier: Apache-2.0
// What neuron-monitor counts of this process: each way in which an execution can end, and the bytes
// and times of collectives. Kinds of errors that no program and no planted fault can provoke are in
// tests/unit/runtime/observe/core_counters_test.cpp.
#include <gmock/gmock.h>
#include <nrt/nrt_async.h>
#include <unistd.h>

#include <cmath>
#include <thread>

#include "tests/system/api/async_support.h"
#include "tests/system/api/collectives_support.h"
#include "tests/system/monitor/monitored.h"

namespace neuron::monitor {
namespace {

using test::Loaded;
using test::Setting;
using test::small_add;
using Counts = std::map<std::string, int64_t>;

// This process is the one that is watched.
class Watched : public testing::Test {
 protected:
  explicit Watched(const char* profile = "trn1.2xlarge", const char* cores = "0")
      : daemon_(folder_, profile),
        emulator_("NEURON_EMULATOR", daemon_.emulator()),
        cores_("NEURON_RT_VISIBLE_CORES", cores),
        quiet_("NEURON_RT_LOG_LEVEL", "QUIET"),
        monitor_(folder_, daemon_.emulator()) {}
  ~Watched() override { nrt_close(); }

  void begin() {
    monitor_.report();
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  }
  // Reports until as many executions ended, and one more, in which nothing may be counted twice.
  Totals totals(int64_t executions) {
    Totals totals;
    const auto add = [&](const json::value& root) {
      const json::value* runtime = runtime_of(root, ::getpid());
      if (runtime == nullptr) return false;
      totals.add(runtime->at("report"));
      return totals.executions() >= executions;
    };
    monitor_.report_when(add);
    add(monitor_.report());
    return totals;
  }
  static void expect_kinds(const Totals& totals, const Counts& ends, const Counts& errors) {
    for (const auto& [kind, count] : totals.ends) {
      EXPECT_EQ(count, ends.count(kind) != 0 ? ends.at(kind) : 0) << kind;
    }
    for (const auto& [kind, count] : totals.errors) {
      EXPECT_EQ(count, errors.count(kind) != 0 ? errors.at(kind) : 0) << kind;
    }
    EXPECT_EQ(totals.ends.size(), 6u);
    EXPECT_EQ(totals.errors.size(), 6u);
  }
  void inject(const std::string& fault) { EXPECT_EQ(daemon_.control({"inject", fault}), 0); }

  const Folder folder_;
  Daemon daemon_;
  Setting emulator_, cores_, quiet_;
  Monitor monitor_;
};

// A program without inputs, executed so often; the status of the last.
NRT_STATUS run(const kernels::Neff& program, int times) {
  Loaded model(test::bytes_of(program));
  NRT_STATUS status = NRT_SUCCESS;
  for (int i = 0; i < times; ++i) status = model.run();
  return status;
}

TEST_F(Watched, CountsFailuresOfProgramsAndOfWhoAsksForThem) {
  ASSERT_NO_FATAL_FAILURE(begin());
  EXPECT_EQ(run(kernels::empty(), 3), NRT_SUCCESS);
  EXPECT_EQ(run(kernels::bad_address(), 2), NRT_EXEC_COMPLETED_WITH_ERR);
  EXPECT_EQ(run(kernels::deadlock(), 1), NRT_TIMEOUT);
  {
    Loaded add(small_add());
    EXPECT_NE(nrt_execute(add.model, add.outputs, add.inputs), NRT_SUCCESS)
        << "the wrong way round";
  }
  expect_kinds(
      totals(7),
      {{"completed", 3}, {"completed_with_err", 2}, {"timed_out", 1}, {"incorrect_input", 1}},
      {{"model", 2}});
}

TEST_F(Watched, CountsANumberThatIsNoneAsANumericalError) {
  const Setting watch("NEURON_FAIL_ON_NAN", "1");
  ASSERT_NO_FATAL_FAILURE(begin());
  Loaded add(small_add());
  add.fill("a", 1);
  add.fill("b", 2);
  EXPECT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
  add.fill("b", std::nanf(""));
  EXPECT_EQ(add.run(), NRT_EXEC_COMPLETED_WITH_NUM_ERR);
  EXPECT_EQ(add.run(), NRT_EXEC_COMPLETED_WITH_NUM_ERR);
  expect_kinds(totals(3), {{"completed", 1}, {"completed_with_num_err", 2}}, {{"numerical", 2}});
}

TEST_F(Watched, CountsAPlantedFaultOfTheDeviceAsAHardwareError) {
  ASSERT_NO_FATAL_FAILURE(begin());
  Loaded add(small_add());
  EXPECT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
  inject(R"({"at": "sram", "kind": "uncorrectable", "core": 0, "n": 1})");
  EXPECT_EQ(add.run(), NRT_EXEC_HW_ERR_NC_UE) << nrt_open_last_error();
  EXPECT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
  inject(R"({"at": "hbm", "kind": "uncorrectable"})");
  EXPECT_EQ(add.run(), NRT_EXEC_HW_ERR_HBM_UE) << nrt_open_last_error();
  expect_kinds(totals(4), {{"completed", 2}, {"completed_with_err", 2}}, {{"hardware", 2}});
}

TEST_F(Watched, CountsRequestsThatAFullQueueRefusedAsTransientErrors) {
  const Setting depth("NEURON_OPEN_ASYNC_QUEUE_DEPTH", "1");
  ASSERT_NO_FATAL_FAILURE(begin());
  Loaded add(small_add());
  int64_t taken = 0, refused = 0;
  nrta_seq_t last = 0;
  test::Status status;
  const auto deadline = base::Deadline::after(test::kPatience);
  while (refused < 3 && !deadline.expired()) {
    const NRT_STATUS scheduled =
        nrta_execute_schedule(add.model, add.inputs, add.outputs, 0, &status.word, &last);
    ASSERT_TRUE(scheduled == NRT_SUCCESS || scheduled == NRT_QUEUE_FULL) << nrt_open_last_error();
    ++(scheduled == NRT_SUCCESS ? taken : refused);
  }
  EXPECT_EQ(refused, 3);
  EXPECT_TRUE(test::finish(last));
  expect_kinds(totals(taken + refused), {{"completed", taken}, {"failed_to_queue", refused}},
               {{"transient", refused}});
}

// Ranks on neighbouring cores of two devices.
class WatchedRanks : public Watched {
 protected:
  static constexpr uint32_t kRanks = 2;
  static constexpr uint64_t kElements = 40'000;
  static constexpr int kTimes = 5;
  explicit WatchedRanks(const char* cores = "1-2") : Watched("trn1.32xlarge", cores) {}

  // Each rank gets what the other has, so often; in a thread each.
  void gather() {
    const test::Bytes neff = test::through("all_gather", CCOM_ALL_GATHER, kElements,
                                           kRanks * kElements, {.group_size = kRanks});
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&neff, rank] {
        test::RankModel model(neff, rank, kRanks);
        ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
        for (int i = 0; i < kTimes; ++i) {
          const std::vector<float> found = model.run();
          ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
          EXPECT_EQ(found[kElements + 7], test::value_of(1, 7));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};
class WatchedNeighbours : public WatchedRanks {
 protected:
  WatchedNeighbours() : WatchedRanks("0-1") {}
};

TEST_F(WatchedRanks, CountsBytesOfLinksExactlyAndTheTimeOfCollectives) {
  ASSERT_NO_FATAL_FAILURE(begin());
  gather();
  const Totals found = totals(kRanks * kTimes);
  ASSERT_EQ(found.link_bytes.size(), 2u);
  EXPECT_EQ(found.ends.at("completed"), kRanks * kTimes);
  uint64_t bytes = 0;
  for (const char* core : {"1", "2"}) {
    // The same each time.
    EXPECT_EQ(found.link_bytes.at(core) % kTimes, 0u) << found.link_bytes.at(core);
    EXPECT_GT(found.dma_bytes.at(core), found.link_bytes.at(core));
    EXPECT_GT(found.collectives_us.at(core), 0) << core;
    bytes += found.link_bytes.at(core);
  }
  // The elements of each rank pass the link once, with signals of some bytes.
  EXPECT_GE(bytes, kTimes * kRanks * kElements * sizeof(float));
  EXPECT_LT(bytes, kTimes * kRanks * (kElements * sizeof(float) + 1024));
}

TEST_F(WatchedNeighbours, CountsNoBytesOfLinksBetweenCoresOfOneDevice) {
  ASSERT_NO_FATAL_FAILURE(begin());
  gather();
  const Totals found = totals(kRanks * kTimes);
  ASSERT_EQ(found.link_bytes.size(), 2u);
  for (const char* core : {"0", "1"}) {
    EXPECT_EQ(found.link_bytes.at(core), 0u);
    EXPECT_GT(found.dma_bytes.at(core), kTimes * kElements * sizeof(float));
    EXPECT_GT(found.collectives_us.at(core), 0) << core;
  }
}

}  // namespace
}  // namespace neuron::monitor
