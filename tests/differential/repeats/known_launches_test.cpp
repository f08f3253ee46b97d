// SPDX-License-Identifier: Apache-2.0
// Kernels whose launches a core may repeat as one step, and the same kernels with every launch
// executed event by event: alone, and two models that take turns on a core. Outputs, model time,
// and time and instructions of each engine are the same in each execution.
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/differential/device_model.h"
#include "tests/differential/kernels/chip.h"
#include "tools/compiler/kernels/kernels.h"

namespace neuron::differential {
namespace {

constexpr unsigned kLaunches = 6;

struct Launched {
  std::string model;
  std::vector<Bytes> outputs;
  uint64_t device_ps = 0;
  std::array<std::pair<uint64_t, uint64_t>, NRT_OPEN_ENGINES> engines{};  // busy, instructions
  bool operator==(const Launched&) const = default;
};

kernels::Neff neff_named(const std::string& name) {
  return kernels::build(name, std::string(NEURON_SOURCE_DIR) + "/tools/compiler/kernels/digits");
}

Launched launch(DeviceModel& model, const std::string& name) {
  Launched one;
  one.model = name;
  if (!model.execute()) return one;
  const nrt_open_execution_report_t report = model.report();
  one.outputs = model.outputs();
  one.device_ps = report.device_ps;
  for (size_t e = 0; e < one.engines.size(); ++e) {
    one.engines[e] = {report.engines[e].busy_ps, report.engines[e].instructions};
  }
  return one;
}

// The models take turns, each several times in a row.
std::vector<Launched> launches_of(const std::vector<std::string>& names, bool known, bool strict) {
  const test::Setting setting("NEURON_EMULATOR_KNOWN_LAUNCHES", known ? "1" : "0");
  std::vector<Launched> all;
  const Chip chip(kernels::generation_of(names[0]), strict);
  std::vector<std::unique_ptr<DeviceModel>> models;
  for (const std::string& name : names) {
    models.push_back(std::make_unique<DeviceModel>(neff_named(name), chip.ready()));
    if (!models.back()->usable()) return all;
  }
  for (unsigned round = 0; round < (names.size() == 1 ? 1 : 3); ++round) {
    for (size_t m = 0; m < models.size(); ++m) {
      for (unsigned run = 0; run < kLaunches; ++run) {
        all.push_back(launch(*models[m], names[m]));
      }
    }
  }
  return all;
}

// On both cores of a chip, each in a thread of its own.
std::array<std::vector<Launched>, 2> launches_of_two_cores(const std::string& name, bool known) {
  const test::Setting setting("NEURON_EMULATOR_KNOWN_LAUNCHES", known ? "1" : "0");
  std::array<std::vector<Launched>, 2> all;
  const Chip chip(2, true);
  std::array<std::unique_ptr<DeviceModel>, 2> models;
  for (int core = 0; core < 2; ++core) {
    models[core] = std::make_unique<DeviceModel>(neff_named(name), chip.ready(), core);
    if (!models[core]->usable()) return all;
  }
  std::vector<std::thread> threads;
  for (size_t core = 0; core < 2; ++core) {
    threads.emplace_back([&, core] {
      for (unsigned run = 0; run < 50; ++run) all[core].push_back(launch(*models[core], name));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

void expect_same(const std::vector<std::string>& names) {
  for (const bool strict : {true, false}) {
    const auto slow = launches_of(names, false, strict);
    const auto quick = launches_of(names, true, strict);
    ASSERT_EQ(slow.size(), quick.size());
    EXPECT_GE(slow.size(), kLaunches * names.size());
    for (size_t n = 0; n < slow.size(); ++n) {
      EXPECT_EQ(slow[n].device_ps, quick[n].device_ps) << slow[n].model << ", execution " << n;
      EXPECT_TRUE(slow[n] == quick[n]) << slow[n].model << ", execution " << n;
    }
  }
}

TEST(KnownLaunches, OfEachKernelGiveWhatEventsGive) {
  for (const char* name : {"empty", "tensor_add", "digits", "softmax_f32"}) {
    SCOPED_TRACE(name);
    expect_same({name});
  }
}

TEST(KnownLaunches, OfModelsThatTakeTurnsGiveWhatEventsGive) {
  expect_same({"empty", "tensor_add", "digits"});
}

TEST(KnownLaunches, OfTwoCoresInThreadsOfTheirOwnGiveWhatEventsGive) {
  for (const char* name : {"empty", "tensor_add"}) {
    SCOPED_TRACE(name);
    const auto slow = launches_of_two_cores(name, false);
    const auto quick = launches_of_two_cores(name, true);
    for (size_t core = 0; core < 2; ++core) {
      EXPECT_EQ(slow[core].size(), 50U);
      EXPECT_TRUE(slow[core] == quick[core]) << "core " << core;
    }
  }
}

}  // namespace
}  // namespace neuron::differential
