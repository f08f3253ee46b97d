// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/ndl/error.h"
#include "runtime/session/memory_usage.h"
#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeMachine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

Result<std::unique_ptr<Session>> open(const Configuration& configuration) {
  return Session::open(configuration, {});
}

TEST(HostCores, AreDevicesTimesCoresOrVirtualOnes) {
  {
    FakeMachine machine;
    machine.state.devices = 3;
    const auto host = host_cores();
    ASSERT_TRUE(host);
    EXPECT_EQ(host->devices, 3u);
    EXPECT_EQ(host->per_device, 2u);
    EXPECT_EQ(host->architecture, 2u);
    EXPECT_EQ(host->logical, 1u);
    EXPECT_EQ(host->total(), 6u);
  }
  FakeMachine third(3);
  EXPECT_EQ(host_cores()->total(), 4u) << "two physical cores each";
  setenv("NEURON_LOGICAL_NC_CONFIG", "1", 1);
  EXPECT_EQ(host_cores()->total(), 8u);
  unsetenv("NEURON_LOGICAL_NC_CONFIG");
  third.state.devices = 0;
  EXPECT_THAT(host_cores().error().sentence, HasSubstr("no Neuron device: load the driver"));
  third.state.devices = 1;
  third.state.generation = 9;
  EXPECT_EQ(host_cores().error().sentence,
            "the devices of this host have architecture 9, which is not known");
}

TEST(HostCores, TheSelectionMustFit) {
  const HostCores host{.devices = 1, .per_device = 4, .architecture = 2};
  EXPECT_EQ(*visible_core_count(host, {}), 4u);
  EXPECT_EQ(*visible_core_count(host, {.visible = {}, .count = 3}), 3u);
  EXPECT_EQ(*visible_core_count(host, {.visible = {}, .count = 4}), 4u);
  EXPECT_EQ(visible_core_count(host, {.visible = {}, .count = 5}).error().sentence,
            "NEURON_RT_NUM_CORES=5: this host has 4 cores");
  EXPECT_EQ(*visible_core_count(host, {.visible = {2, 3}, .count = 9}), 2u);
  EXPECT_EQ(visible_core_count(host, {.visible = {3, 4}}).error().sentence,
            "NEURON_RT_VISIBLE_CORES asks for core 4; this host has cores 0-3");
}

TEST(Session, ClaimsAllCoresUnlessSomeAreNamed) {
  FakeMachine machine;
  {
    const auto session = open({});
    ASSERT_TRUE(session) << session.error().sentence;
    EXPECT_THAT(machine.state.marks, ElementsAre(Pair(0, 1)));
    EXPECT_EQ((*session)->core_count(), 2u);
    EXPECT_EQ((*(*session)->core(1))->number(), 1u);
    EXPECT_EQ((*(*session)->core(1))->index(), 1u);
    EXPECT_EQ((*(*session)->core(0))->turn_limit(), std::chrono::seconds(1200));
    EXPECT_THAT(machine.state.resets, ElementsAre(3u)) << "both cores of the device";
    EXPECT_EQ((*session)->devices().size(), 1u);
    EXPECT_NE((*session)->device(0), nullptr);
    EXPECT_EQ((*session)->device(1), nullptr);
  }
  machine.state.marks.clear();
  Configuration second;
  second.cores.visible = {1};
  second.reset_cores = false;
  machine.state.resets.clear();
  const auto session = open(second);
  ASSERT_TRUE(session);
  EXPECT_THAT(machine.state.marks, ElementsAre(Pair(1, 1)));
  EXPECT_EQ((*session)->core_count(), 1u);
  EXPECT_EQ((*(*session)->core(0))->number(), 1u);
  EXPECT_TRUE(machine.state.resets.empty());
}

TEST(Session, ACoreThatItHasNotIsRefused) {
  FakeMachine machine;
  const auto session = open({});
  for (const int64_t vnc : {-1, 2}) {
    const auto core = (*session)->core(vnc);
    ASSERT_FALSE(core);
    EXPECT_EQ(core.error().sentence,
              base::format("core {} was asked for; this process has cores 0-1", vnc));
  }
}

TEST(Session, LoadsGoToTheCoreWithTheFewestModels) {
  FakeMachine machine;
  const auto session = open({});
  EXPECT_EQ((*session)->least_loaded_core().index(), 0u);
  (*(*session)->core(0))->models = 2;
  (*(*session)->core(1))->models = 1;
  EXPECT_EQ((*session)->least_loaded_core().index(), 1u);
}

TEST(Session, VirtualCoresOfTwoBeginAtEvenCores) {
  FakeMachine machine(3);
  Configuration configuration;
  configuration.cores.count = 2;
  const auto session = open(configuration);
  ASSERT_TRUE(session) << session.error().sentence;
  EXPECT_EQ((*session)->logical_cores(), 2u);
  EXPECT_EQ((*session)->core_count(), 2u);
  EXPECT_THAT(machine.state.marks, ElementsAre(Pair(0, 3)));
  Core& second = **(*session)->core(1);
  EXPECT_EQ(second.number(), 2u);
  ASSERT_NE(second.peer, nullptr);
  EXPECT_EQ(second.peer->number(), 3u);
  EXPECT_EQ(second.peer->index(), second.index() + 0u);
}

TEST(Session, AVirtualCoreOfTwoNeedsAChipThatHasSome) {
  FakeMachine machine;
  Configuration configuration;
  configuration.logical_cores = {2, "NEURON_LOGICAL_NC_CONFIG"};
  const auto session = open(configuration);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().sentence,
            "NEURON_LOGICAL_NC_CONFIG=2: chips of generation 2 (trn1, inf2) have virtual cores of "
            "one physical core only; unset it");
}

TEST(Session, CoresThatAreHeldAreToldWithTheLongestFreeRun) {
  FakeMachine machine;
  machine.state.longest_free_run = 1;
  const auto session = open({});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().status, NRT_FAILURE);
  EXPECT_THAT(session.error().sentence,
              HasSubstr("2 cores between core 0 and core 1 are wanted, but at most 1 in a row are "
                        "free of this host's 2; "));
}

TEST(Session, TwoThatAreNotResetAreNoSession) {
  FakeMachine machine;
  machine.state.reset_result = 1;
  const auto session = open({});
  ASSERT_FALSE(session);
  EXPECT_THAT(session.error().sentence, HasSubstr("resetting cores 0x3 of device 0"));
}

TEST(Session, WorksWithoutADatastore) {
  FakeMachine machine;
  machine.state.failing[NEURON_IOCTL_ACQUIRE_NEURON_DS] = -ENOTTY;
  EXPECT_TRUE(open({}));
  machine.state.failing.clear();
  machine.state.datastore_bytes = NDS_BLOCK_BYTES - 1;
  EXPECT_TRUE(open({}));
}

TEST(PartSlot, MakesItsPartOnceAndDestroysIt) {
  struct Part : SessionPart {
    explicit Part(int& gone) : gone_(gone) {}
    ~Part() override { ++gone_; }
    int& gone_;
  };
  int gone = 0, made = 0;
  PartSlot slot;
  EXPECT_EQ(slot.existing(), nullptr);
  const auto make = [&]() -> Result<std::unique_ptr<Part>> {
    ++made;
    return std::make_unique<Part>(gone);
  };
  const auto refuse = []() -> Result<std::unique_ptr<Part>> { return fail(NRT_RESOURCE, "no"); };
  EXPECT_FALSE(slot.of<Part>(refuse));
  EXPECT_EQ(slot.existing(), nullptr);
  Part* part = *slot.of<Part>(make);
  EXPECT_EQ(*slot.of<Part>(make), part);
  EXPECT_EQ(slot.existing(), part);
  EXPECT_EQ(made, 1);
  slot.clear();
  EXPECT_EQ(gone, 1);
  EXPECT_EQ(slot.existing(), nullptr);
}

TEST(MemoryUsage, AddsUpByCategory) {
  FakeMachine machine;
  machine.state.chunks.resize(70);
  for (auto& chunk : machine.state.chunks) {
    chunk.size = 10;
    chunk.mem_type = NEURON_MEMALLOC_TYPE_TENSORS_DEVICE;
  }
  machine.state.chunks[0].mem_type = NEURON_MEMALLOC_TYPE_CODE_DEVICE;
  machine.state.chunks[1].mem_type = static_cast<mem_alloc_category_t>(NEURON_MEMALLOC_TYPE_MAX);
  const auto usage = read_memory_usage(*machine.device, 0);
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->total, 700u);
  EXPECT_EQ(usage->categories[NEURON_MEMALLOC_TYPE_TENSORS_DEVICE].bytes, 680u);
  EXPECT_EQ(usage->categories[NEURON_MEMALLOC_TYPE_TENSORS_DEVICE].allocations, 68u);
  EXPECT_EQ(usage->categories[NEURON_MEMALLOC_TYPE_CODE_DEVICE].allocations, 1u);
  machine.state.failing[NEURON_IOCTL_DUMP_MEM_CHUNKS] = -EIO;
  EXPECT_THAT(read_memory_usage(*machine.device, 1).error().sentence,
              HasSubstr("listing the allocations in HBM 1 of device 0"));
}

TEST(MemoryUsage, CategoriesAreCalledAsTheDriverCallsThem) {
  EXPECT_STREQ(memory_category_name(NEURON_MEMALLOC_TYPE_CODE_DEVICE), "model_code");
  EXPECT_STREQ(memory_category_name(NEURON_MEMALLOC_TYPE_TENSORS_DEVICE), "tensors");
  EXPECT_STREQ(memory_category_name(NEURON_MEMALLOC_TYPE_CONSTANTS_DEVICE), "constants");
  EXPECT_STREQ(memory_category_name(NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE),
               "model_shared_scratchpad");
  EXPECT_STREQ(memory_category_name(NEURON_MEMALLOC_TYPE_SCRATCHPAD_NONSHARED_DEVICE),
               "nonshared_scratchpad");
  EXPECT_STREQ(memory_category_name(NEURON_MEMALLOC_TYPE_MISC_DEVICE), "runtime_memory");
  EXPECT_STREQ(memory_category_name(NEURON_MEMALLOC_TYPE_NCDEV_DEVICE), "driver_memory");
  EXPECT_STREQ(memory_category_name(NEURON_MEMALLOC_TYPE_COLLECTIVES_DEVICE), "collectives");
  EXPECT_STREQ(memory_category_name(NEURON_MEMALLOC_TYPE_NOTIFICATION_DEVICE), "notifications");
  EXPECT_STREQ(memory_category_name(NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE), "dma_rings");
  EXPECT_STREQ(memory_category_name(NEURON_MEMALLOC_TYPE_MAX), "uncategorized");
}

}  // namespace
}  // namespace neuron::runtime
