// SPDX-License-Identifier: Apache-2.0
// Snapshots of a host on which known work is done: exact counters, embedded and shared, processes
// that come and die, devices that do not answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nrt/nrt_open.h>

#include <filesystem>
#include <iterator>
#include <numeric>

#include "tests/bench/session.h"
#include "tests/support/daemon.h"
#include "tests/support/setting.h"
#include "tools/telemetry/source.h"

namespace neuron::telemetry {
namespace {

using test::Clock;
using test::Daemon;
using test::Folder;
using test::Worker;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::chrono::milliseconds kDeadline{10'000};
// Of matmul_f32_256: 256 x 256 by 256 x 512.
constexpr uint64_t kProducts = 256ull * 256 * 512;

const Process* find(const Snapshot& snapshot, int pid) {
  for (const Process& process : snapshot.processes) {
    if (process.pid == pid) return &process;
  }
  return nullptr;
}

uint64_t sum(const LatencyHistogram& histogram) {
  return std::accumulate(histogram.begin(), histogram.end(), uint64_t{0});
}

// Executes a model whose work is known and compares what is counted with what is reported.
void expect_exact_counters() {
  ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  const auto source = open_host_source();
  {
    bench::Session session("matmul_f32_256.neff");
    ASSERT_THAT(session.error(), IsEmpty());
    constexpr unsigned kExecutions = 4;  // the first one by the session itself
    uint64_t model_ps = 0;
    std::array<uint64_t, 5> busy_ps{};
    for (unsigned i = 0; i < kExecutions; ++i) {
      if (i != 0) {
        ASSERT_EQ(session.execute(), NRT_SUCCESS) << nrt_open_last_error();
      }
      nrt_open_execution_report_t report = {};
      report.size = sizeof(report);
      ASSERT_EQ(nrt_open_get_execution_report(session.model(), &report), NRT_SUCCESS);
      model_ps += report.device_ps;
      for (unsigned e = 0; e < 5; ++e) busy_ps[e] += report.engines[e].busy_ps;
    }
    const Snapshot snapshot = source->take({}, kDeadline);
    EXPECT_THAT(snapshot.error, IsEmpty());
    ASSERT_EQ(snapshot.devices.size(), 1u);
    EXPECT_EQ(snapshot.devices[0].cores[0].holder, ::getpid());
    const Process* process = find(snapshot, ::getpid());
    ASSERT_NE(process, nullptr);
    EXPECT_EQ(process->tag, "exact");
    EXPECT_EQ(process->runtime_version, snapshot.versions.runtime);
    ASSERT_FALSE(process->cores.empty());
    const CoreCounters& counters = process->cores[0].counters;
    EXPECT_EQ(counters.executions, kExecutions);
    EXPECT_EQ(counters.completed, kExecutions);
    EXPECT_EQ(counters.model_loads, 1u);
    EXPECT_EQ(counters.multiply_accumulates, kExecutions * kProducts);
    EXPECT_EQ(counters.busy_us, model_ps / 1'000'000);
    EXPECT_EQ(counters.device_latency_us, model_ps / 1'000'000);
    for (unsigned e = 0; e < 5; ++e) EXPECT_EQ(counters.engine_busy_us[e], busy_ps[e] / 1'000'000);
    EXPECT_GT(counters.engine_busy_us[0], 0u);
    // Both factors in, the product out, each once; and 4 bytes for each of the signals.
    EXPECT_GE(counters.dma_bytes, kExecutions * (256 * 256 + 2 * 256 * 512) * 4u);
    EXPECT_LT(counters.dma_bytes, kExecutions * ((256 * 256 + 2 * 256 * 512) * 4u + 16 * 1024));
    EXPECT_EQ(counters.link_bytes, 0u);
    EXPECT_EQ(sum(counters.device_latency), kExecutions);
    EXPECT_EQ(sum(counters.total_latency), kExecutions);
    EXPECT_TRUE(counters.causes.empty());

    EXPECT_EQ(process->cores[0].memory.tensors, (256 * 256 + 2 * 256 * 512) * 4u);
    EXPECT_GT(process->cores[0].memory.model_code, 0u);
    ASSERT_EQ(process->models.size(), 1u);
    EXPECT_EQ(process->models[0].name, "matmul_f32_256");
    EXPECT_EQ(process->models[0].uuid.size(), 32u);
    EXPECT_TRUE(process->models[0].running);
    // Nothing ran since.
    const Snapshot later = source->take({}, kDeadline);
    EXPECT_EQ(find(later, ::getpid())->cores[0].counters.executions, kExecutions);
    EXPECT_FALSE(find(later, ::getpid())->models[0].running);
  }
  const Snapshot unloaded = source->take({}, kDeadline);
  ASSERT_NE(find(unloaded, ::getpid()), nullptr);
  EXPECT_THAT(find(unloaded, ::getpid())->models, IsEmpty());
  EXPECT_EQ(find(unloaded, ::getpid())->cores[0].memory.tensors, 0u);
  nrt_close();
}

class HostSource : public ::testing::Test {
 protected:
  void use(const std::string& emulator) { emulator_.set(emulator.c_str()); }
  // The driver library keeps the devices that it found until the runtime is closed.
  void TearDown() override {
    if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") == NRT_SUCCESS) nrt_close();
  }
  Daemon& start(const std::string& profile) {
    daemon_ = std::make_unique<Daemon>(folder_, profile);
    use(daemon_->emulator());
    return *daemon_;
  }
  const Folder folder_;
  std::unique_ptr<Daemon> daemon_;
  test::Setting emulator_{"NEURON_EMULATOR", "trn1.2xlarge"};
  const test::Setting cores_{"NEURON_RT_VISIBLE_CORES", "0"};
  const test::Setting tag_{"NEURON_PROCESS_TAG", "exact"};
};

TEST_F(HostSource, CountsKnownWorkExactlyOnAnEmbeddedDevice) {
  use("trn1.2xlarge");
  expect_exact_counters();
}

TEST_F(HostSource, CountsKnownWorkExactlyOnASharedDevice) {
  start("trn1.2xlarge");
  expect_exact_counters();
}

TEST_F(HostSource, ForgetsAProcessThatDiedAndKeepsWhatItCountedInItsTree) {
  const Daemon& daemon = start("trn1.32xlarge");
  const auto source = open_host_source();
  Worker worker(folder_, daemon.emulator(), 31, "empty.neff");
  ASSERT_EQ(worker.line(), "ready") << worker.log();
  Snapshot snapshot = source->take({}, kDeadline);
  ASSERT_EQ(snapshot.devices.size(), 16u);
  ASSERT_EQ(snapshot.processes.size(), 1u);
  const Process& process = snapshot.processes[0];
  EXPECT_THAT(process.command, HasSubstr("multi-worker"));
  EXPECT_TRUE(process.started && process.since && *process.started <= *process.since);
  EXPECT_EQ(process.devices, std::vector<unsigned>{15});
  ASSERT_EQ(process.cores.size(), 1u);
  EXPECT_EQ(process.cores[0].logical_core, 31u);
  EXPECT_EQ(process.cores[0].physical_core, 1u);
  EXPECT_EQ(snapshot.devices[15].cores[1].holder, process.pid);
  worker.process().signal(SIGKILL);
  // The daemon sees the end of each of its connections on its own.
  test::eventually([&] {
    snapshot = source->take({}, kDeadline);
    return snapshot.processes.empty() && snapshot.devices[15].cores[1].holder == 0;
  });
  EXPECT_THAT(snapshot.processes, IsEmpty());
  EXPECT_EQ(snapshot.devices[15].cores[1].holder, 0);
}

size_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

TEST_F(HostSource, AsksForAllDevicesOfADaemonInOneThread) {
  const Daemon& daemon = start("trn1.32xlarge");
  Worker worker(folder_, daemon.emulator(), 30, "empty.neff");
  ASSERT_EQ(worker.line(), "ready") << worker.log();
  const auto source = open_host_source();
  const size_t before = threads();
  for (int i = 0; i < 2; ++i) {
    const Snapshot snapshot = source->take({}, kDeadline);
    ASSERT_EQ(snapshot.devices.size(), 16u);
    for (const Device& device : snapshot.devices) {
      EXPECT_THAT(device.error, IsEmpty());
      EXPECT_EQ(device.name, "Trainium1");  // also when it is known from before
      EXPECT_EQ(device.serial_number.size(), 16u);
    }
    ASSERT_EQ(snapshot.processes.size(), 1u);
    EXPECT_EQ(snapshot.processes[0].models.size(), 1u);
  }
  EXPECT_EQ(threads() - before, 1u);
}

TEST_F(HostSource, ADaemonThatIsStoppedCostsTheDeadlineAndIsNamed) {
  Daemon& daemon = start("trn1.2xlarge");
  const auto source = open_host_source();
  ASSERT_THAT(source->take({}, kDeadline).devices[0].error, IsEmpty());
  daemon.process().signal(SIGSTOP);
  const auto begin = Clock::now();
  const Snapshot snapshot = source->take({}, std::chrono::milliseconds(50));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2));
  ASSERT_EQ(snapshot.devices.size(), 1u);
  EXPECT_THAT(snapshot.devices[0].error, Not(IsEmpty()));
  EXPECT_EQ(snapshot.devices[0].state, DeviceState::kUnknown);
  daemon.process().signal(SIGCONT);
  EXPECT_TRUE(
      test::eventually([&] { return source->take({}, kDeadline).devices[0].error.empty(); }));
}

// In a process of its own: the driver library keeps the devices that it found first.
TEST_F(HostSource, WithoutADaemonItSaysHowToGetOne) {
  use("unix:" + folder_.path() + "/nobody");
  EXPECT_EXIT(
      {
        const Snapshot snapshot = open_host_source()->take({}, kDeadline);
        std::fprintf(stderr, "%zu devices: %s\n", snapshot.devices.size(), snapshot.error.c_str());
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(0), "0 devices: .*start one with neuron-emulatord --socket");
}

}  // namespace
}  // namespace neuron::telemetry
