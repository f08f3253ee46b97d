// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/model/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/unit/tools/neuron-monitor/snapshots.h"
#include "tools/neuron-monitor/model/tally.h"

namespace neuron::monitor {
namespace {

std::vector<size_t> everything(const Observer& observer) {
  std::vector<size_t> all(observer.periods().size());
  std::iota(all.begin(), all.end(), 0u);
  return all;
}

// An observer that saw the first snapshot.
struct Watch {
  explicit Watch(Snapshot first, const Configuration& configuration = default_configuration())
      : observer(configuration) {
    observer.start(shared(std::move(first)));
  }
  Observation see(Snapshot snapshot) {
    return observer.observe(shared(std::move(snapshot)), everything(observer));
  }
  Observer observer;
};

Snapshot with(Snapshot host, std::vector<telemetry::Process> processes) {
  host.processes = std::move(processes);
  return host;
}

TEST(Observer, CountsWorkOnceOfAProcessThatCouldNotBeReadForAWhile) {
  telemetry::Process app = process(10, {1});
  Watch watch(with(host_at(100), {app}));
  execute(app, 10);
  EXPECT_EQ(watch.see(with(host_at(101), {app})).runtimes[0].execution->in_period.ends[0], 10u);
  telemetry::Process unread = process(10, {1});
  unread.error = "its datastore did not answer";
  EXPECT_EQ(watch.see(with(host_at(102), {unread})).runtimes[0].execution->in_period.ends[0], 0u);
  execute(app, 4);
  const Observation seen = watch.see(with(host_at(103), {app}));
  EXPECT_EQ(seen.runtimes[0].execution->in_period.ends[0], 4u);
  EXPECT_DOUBLE_EQ(seen.runtimes[0].cores->cores.at(1).flops, 2 * 4 * 1000 / 2.0);
}

TEST(Observer, CountsWhatHappenedInThePeriodAndFallsToZeroWhenIdle) {
  telemetry::Process app = process(10, {1});
  execute(app, 1000);
  Watch watch(with(host_at(100), {app}));
  execute(app, 7, 2);
  Observation seen = watch.see(with(host_at(102), {app}));
  ASSERT_EQ(seen.runtimes.size(), 1u);
  const ExecutionGroup& ran = *seen.runtimes[0].execution;
  EXPECT_DOUBLE_EQ(ran.period, 2);
  EXPECT_THAT(ran.in_period.ends, ::testing::ElementsAre(5, 2, 0, 0, 0, 0));
  EXPECT_THAT(ran.in_period.errors, ::testing::ElementsAre(0, 0, 0, 0, 0, 2));
  EXPECT_EQ(ran.total.ends[0], 1005u);
  const CoreUse& core = seen.runtimes[0].cores->cores.at(1);
  EXPECT_DOUBLE_EQ(core.flops, 2 * 7 * 1000 / 2.0);
  EXPECT_EQ(core.dma_bytes, 7u * 640);
  EXPECT_EQ(core.link_bytes, 7u * 64);
  EXPECT_DOUBLE_EQ(core.utilization, 100 * 700e-6 / 2);
  seen = watch.see(with(host_at(104), {app}));
  EXPECT_EQ(seen.runtimes[0].execution->in_period.ends[0], 0u);
  EXPECT_FALSE(seen.runtimes[0].execution->device_latency);
  EXPECT_EQ(seen.runtimes[0].cores->cores.at(1).flops, 0);
}

TEST(Observer, CountsANewProcessFromZeroAndDropsOneThatEnded) {
  Watch watch(host_at(0));
  telemetry::Process app = process(10, {0});
  execute(app, 3);
  EXPECT_EQ(watch.see(with(host_at(1), {app})).runtimes[0].execution->in_period.ends[0], 3u);
  const Observation after = watch.see(host_at(2));
  EXPECT_TRUE(after.runtimes.empty());
  EXPECT_TRUE(after.alive->empty());
  // Its number comes again with another process.
  telemetry::Process other = process(10, {0});
  other.started = *other.started + std::chrono::seconds(9);
  execute(other, 2);
  EXPECT_EQ(watch.see(with(host_at(3), {other})).runtimes[0].execution->in_period.ends[0], 2u);
}

TEST(Observer, NeitherLosesNorRepeatsWorkOfAProcessWhoseDeviceDidNotAnswerForAWhile) {
  telemetry::Process app = process(10, {0});
  execute(app, 100);
  Watch watch(with(host_at(0), {app}));
  Snapshot silent = host_at(1);
  silent.devices[0].error = "it has not answered";
  EXPECT_TRUE(watch.see(silent).runtimes.empty());
  execute(app, 5);
  const Observation seen = watch.see(with(host_at(2), {app}));
  EXPECT_EQ(seen.runtimes[0].execution->in_period.ends[0], 5u);
  EXPECT_DOUBLE_EQ(seen.runtimes[0].execution->period, 2);
}

TEST(Observer, DoesNotTakeTheWholePastOfAProcessForThePeriodInWhichItIsFirstSeen) {
  Snapshot silent = host_at(0);
  silent.devices[0].error = "it has not answered";
  Watch watch(silent);
  telemetry::Process app = process(10, {0});
  app.since = silent.at - std::chrono::hours(1);
  execute(app, 1000);
  const Observation seen = watch.see(with(host_at(1), {app}));
  EXPECT_EQ(seen.runtimes[0].execution->in_period.ends[0], 0u);
  EXPECT_EQ(seen.runtimes[0].execution->total.ends[0], 1000u);
}

TEST(Observer, CountsFromZeroWhenCountersGoBack) {
  telemetry::Process app = process(10, {0});
  execute(app, 100);
  Watch watch(with(host_at(0), {app}));
  app.cores.front().counters = {};
  execute(app, 4);
  EXPECT_EQ(watch.see(with(host_at(1), {app})).runtimes[0].execution->in_period.ends[0], 4u);
}

TEST(Observer, GivesEachGroupItsOwnPeriod) {
  std::string error;
  const auto configuration = parse_configuration(
      R"({"neuron_runtimes": [{"metrics": [{"type": "execution_stats"}, {"type": "memory_used"}]}]})",
      "c", error);
  Watch watch(host_at(0), *configuration);
  telemetry::Process app = process(10, {0});
  execute(app, 1);
  EXPECT_FALSE(watch.observer.observe(shared(with(host_at(1), {app})), {0}).runtimes[0].memory);
  execute(app, 1);
  const Observation both = watch.observer.observe(shared(with(host_at(3), {app})), {0, 1});
  EXPECT_DOUBLE_EQ(both.runtimes[0].execution->period, 2);
  EXPECT_EQ(both.runtimes[0].execution->in_period.ends[0], 1u);
}

TEST(Observer, GivesAGroupOfAProcessToTheFirstFilterThatLikesItsTag) {
  std::string error;
  const auto configuration = parse_configuration(R"({"neuron_runtimes": [
      {"tag_filter": "^serve-[0-9]+$", "metrics": [{"type": "execution_stats"}]},
      {"tag_filter": "(a*)*b", "metrics": [{"type": "memory_used"}]},
      {"metrics": [{"type": "execution_stats"}, {"type": "neuron_runtime_vcpu_usage"}]}]})",
                                                 "c", error);
  ASSERT_TRUE(configuration) << error;
  Watch watch(host_at(0), *configuration);
  const Observation seen = watch.observer.observe(
      shared(
          with(host_at(1), {process(1, {0}, "serve-1"), process(2, {1}, std::string(255, 'a'))})),
      {0, 1});
  ASSERT_EQ(seen.runtimes.size(), 1u);
  EXPECT_EQ(seen.runtimes[0].tag, "serve-1");
  EXPECT_TRUE(seen.runtimes[0].execution);
  EXPECT_EQ(seen.alive->size(), 2u);
}

TEST(Observer, AveragesThePhysicalCoresOfALogicalOne) {
  Snapshot first = host_at(0);
  for (telemetry::Device& device : first.devices) {
    device.logical_size = 2;
    device.core_architecture = "NCv3";
  }
  telemetry::Process app = process(10, {2, 3});
  for (telemetry::ProcessOnCore& core : app.cores) core.logical_core = 1;
  Snapshot second = first;
  second.monotonic += std::chrono::seconds(1);
  first.processes = {app};
  app.cores[0].counters.busy_us = 210'000;
  app.cores[1].counters.busy_us = 630'000;
  second.processes = {app};
  Watch watch(first);
  const Observation seen = watch.see(second);
  const CoreUse& core = seen.runtimes[0].cores->cores.at(1);
  EXPECT_DOUBLE_EQ(core.utilization, 42);
  EXPECT_THAT(core.physical,
              ::testing::ElementsAre(::testing::Pair(2, 21), ::testing::Pair(3, 63)));
  EXPECT_EQ(seen.info.core_version, "v3d");
  EXPECT_EQ(seen.info.cores_per_device, 1u);
}

TEST(Observer, ReportsErrorsOfMemoryOfThePeriodAndSinceTheStart) {
  Snapshot first = host_at(0), second = host_at(1);
  first.devices[1].hardware.mem_ecc_corrected = 5;
  second.devices[1].hardware.mem_ecc_corrected = 7;
  second.devices[0].error = "device 0 does not answer";
  Watch watch(first);
  const Observation seen = watch.see(second);
  EXPECT_EQ(seen.hardware->devices[1].in_period.mem_ecc_corrected, 2u);
  EXPECT_EQ(seen.hardware->devices[1].total.mem_ecc_corrected, 7u);
  EXPECT_EQ(seen.hardware->error, "device 0 does not answer");
  EXPECT_EQ(seen.hardware->devices[1].error, "");
}

TEST(Observer, ListsTheNeighboursWhoseLinkIsDownOfDevicesThatAnswer) {
  Snapshot now = host_at(1);
  now.devices[0].links = {{.device = 1, .up = false}, {.device = 4}, {.device = 3, .up = false}};
  Watch watch(host_at(0));
  Observation seen = watch.see(now);
  EXPECT_EQ(seen.hardware->devices[0].links_down, (std::vector<unsigned>{1, 3}));
  EXPECT_EQ(seen.hardware->devices[1].links_down, std::vector<unsigned>());
  // A device that does not answer: a snapshot has its index and the reason, and no more.
  now.devices[0] = {.index = 0, .error = "device 0 does not answer"};
  seen = watch.see(now);
  EXPECT_EQ(seen.hardware->devices[0].links_down, std::nullopt);
}

TEST(Observer, CallsADeviceHealthyUnlessSomethingKeepsItFromWorking) {
  Snapshot now = host_at(1);
  for (telemetry::Device& device : now.devices) device.state = telemetry::DeviceState::kReady;
  Watch watch(host_at(0));
  EXPECT_TRUE(watch.see(now).hardware->devices[0].healthy);
  now.devices[0].links = {{.device = 1, .up = false}};
  EXPECT_FALSE(watch.see(now).hardware->devices[0].healthy);
  EXPECT_TRUE(watch.see(now).hardware->devices[1].healthy);
  now.devices[0].links = {};
  now.devices[0].cores.at(0).hung_engines = {"pe"};
  EXPECT_FALSE(watch.see(now).hardware->devices[0].healthy);
  now.devices[0].cores.at(0).hung_engines = {};
  now.devices[0] = {.index = 0, .error = "device 0 does not answer"};
  EXPECT_FALSE(watch.see(now).hardware->devices[0].healthy);
}

TEST(Observer, SaysWhatTheHardwareIsAndWhyThereIsNone) {
  Watch watch(host_at(0));
  const Observation seen = watch.see(host_at(1));
  EXPECT_EQ(seen.info.device_type, "trainium1");
  EXPECT_EQ(seen.info.device_version, "v2");
  EXPECT_EQ(seen.info.core_version, "v2");
  EXPECT_EQ(seen.info.device_count, 2u);
  Snapshot none = host_at(2);
  none.devices.clear();
  none.error = "the daemon is not running";
  EXPECT_EQ(watch.see(none).info.error, "the daemon is not running");
}

TEST(Observer, CallsTheDevicesOfEachChipAsTheOriginalDoes) {
  const struct {
    const char *name, *architecture, *cores, *version;
  } chips[] = {{"Trainium1", "NDv2", "NCv2", "v2"},
               {"Inferentia2", "NDv3", "NCv2", "v3"},
               {"Trainium2", "NDv3", "NCv3", "v4"}};
  for (const auto& chip : chips) {
    Snapshot host = host_at(0);
    for (telemetry::Device& device : host.devices) {
      device.name = chip.name;
      device.architecture = chip.architecture;
      device.core_architecture = chip.cores;
    }
    Watch watch(host);
    EXPECT_EQ(watch.see(host).info.device_version, chip.version) << chip.name;
  }
}

TEST(Observer, AsksASourceForNoMoreThanIsDue) {
  const Observer observer(default_configuration());
  const telemetry::Wanted cores = observer.wanted({0}), host = observer.wanted({4});
  EXPECT_TRUE(cores.processes);
  EXPECT_FALSE(cores.host || cores.hardware);
  EXPECT_TRUE(host.host);
  EXPECT_FALSE(host.processes || host.hardware);
}

TEST(Percentiles, LieInTheBucketsThatHoldThem) {
  telemetry::LatencyHistogram histogram{};
  EXPECT_FALSE(percentiles(histogram));
  histogram[40] = 99;  // below 2^10 us
  histogram[80] = 1;   // below 2^20 us
  const Latencies of = *percentiles(histogram);
  EXPECT_NEAR(of[0], std::exp2(9.75) * 1e-6, 1e-9);
  EXPECT_GT(of[3], std::exp2(9.75) * 1e-6);
  EXPECT_LT(of[3], std::exp2(10) * 1e-6);
  EXPECT_NEAR(of[5], std::exp2(10) * 1e-6, 1e-9);
  EXPECT_NEAR(of[6], std::exp2(20) * 1e-6, 1e-6);
  for (size_t i = 1; i < of.size(); ++i) EXPECT_LE(of[i - 1], of[i]);
}

}  // namespace
}  // namespace neuron::monitor
