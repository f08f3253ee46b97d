// SPDX-License-Identifier: Apache-2.0
// Planned faults, power and contention as a process meets them through calls, on the real chip.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/holder.h"
#include "tests/support/files.h"
#include "tests/support/setting.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::service {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class FaultBoardTest : public ServiceTest {
 protected:
  void SetUp() override { begin("trn1.2xlarge"); }
  void begin(const char* profile) {
    int error = 0;
    instance_ = Instance::create(profile, {}, core::create_chip, error);
    ASSERT_NE(instance_, nullptr) << last_error();
    session_ = open(0, O_RDWR, ::getpid());
  }
  void inject(const char* plan) { ASSERT_EQ(instance_->faults().inject(plan), 0) << last_error(); }
  uint32_t firmware_word(uint32_t offset) {
    return device().chip().read_register(NEURON_V2_MISC_RAM + offset);
  }
  int read_back(uint64_t handle, size_t size = 4096) {
    std::vector<uint8_t> bytes(size);
    return buffer_copy(handle, bytes.data(), size, 0, false);
  }
};

TEST_F(FaultBoardTest, ACopyThatMeetsADmaErrorNamesEngineRingAndDescriptorAndTheNextOneWorks) {
  const uint64_t handle = allocate(1 << 20);
  inject(R"({"at":"dma.descriptor","kind":"error","n":2})");
  auto bytes = random_bytes(200000, 1);
  EXPECT_EQ(buffer_copy(handle, bytes.data(), bytes.size(), 0, true), -EIO);
  EXPECT_THAT(last_error(), AllOf(HasSubstr("DMA engine 32 queue"), HasSubstr("ring index")));
  EXPECT_EQ(device().chip().faults().status().dma_errors, 1u);
  ASSERT_EQ(buffer_copy(handle, bytes.data(), bytes.size(), 0, true), 0) << last_error();
  std::vector<uint8_t> back(bytes.size());
  ASSERT_EQ(buffer_copy(handle, back.data(), back.size(), 0, false), 0);
  EXPECT_EQ(back, bytes);
}

TEST_F(FaultBoardTest, CorrectedErrorsAreCountedInTheFirmwareAndNobodyIsTold) {
  const uint64_t handle = allocate(4096, false, 9, 1);
  auto bytes = random_bytes(4096, 2);
  ASSERT_EQ(buffer_copy(handle, bytes.data(), bytes.size(), 0, true), 0);
  inject(R"({"at":"hbm","kind":"correctable","count":3})");
  for (int i = 0; i < 5; ++i) {
    std::vector<uint8_t> back(4096);
    ASSERT_EQ(buffer_copy(handle, back.data(), back.size(), 0, false), 0) << last_error();
    EXPECT_EQ(back, bytes);
  }
  EXPECT_EQ(firmware_word(NEURON_FW_ECC_HBM0), 0u);
  EXPECT_EQ(firmware_word(NEURON_FW_ECC_HBM0 + 4), 3u << 16);
}

TEST_F(FaultBoardTest, APageWithAnUncorrectableErrorIsNotGivenOutAgain) {
  const uint64_t handle = allocate(1 << 20);
  const uint64_t other = allocate(1 << 20);
  const uint64_t address = info(handle).mmap_offset;
  inject(R"({"at":"hbm","kind":"uncorrectable"})");
  EXPECT_EQ(read_back(handle), -EIO);
  EXPECT_EQ(read_back(handle), -EIO) << "it stays bad";
  EXPECT_EQ(read_back(other), 0) << last_error();
  // The queue meets it again when it is set up anew, before it is emptied.
  EXPECT_GE(firmware_word(NEURON_FW_ECC_HBM0), 2u);
  EXPECT_EQ(memory().retired_bytes(0), 0u) << "somebody still has it";
  const uint64_t free_before = memory().free_bytes(0);
  ASSERT_EQ(free_handle(handle), 0);
  EXPECT_EQ(memory().retired_bytes(0), 4096u);
  EXPECT_EQ(memory().free_bytes(0), free_before + (1 << 20) - 4096);
  const uint64_t again = allocate(1 << 20);
  const uint64_t found = info(again).mmap_offset;
  EXPECT_TRUE(found > address + 4095 || found + (1 << 20) <= address) << found << " " << address;
  EXPECT_EQ(read_back(again, 1 << 20), 0) << last_error();
}

TEST_F(FaultBoardTest, AChipThatIsGoneIsSaidToBeGoneByEveryCallUntilItIsOpenedAgain) {
  const uint64_t handle = allocate(4096);
  Session* control = open(0, O_WRONLY, ::getpid());
  ASSERT_EQ(instance_->faults().set_power(0, false), 0);
  EXPECT_EQ(firmware_word(NEURON_FW_ROUTING_ID), 0xFFFFFFFFu);
  EXPECT_EQ(read_back(handle), -ENODEV);
  EXPECT_THAT(last_error(), HasSubstr("device 0 does not answer: its registers read all ones"));
  uint32_t word = 0;
  EXPECT_EQ(session_->wait(0, &word, 0, UINT64_MAX), -ENODEV);
  void* mapped = nullptr;
  EXPECT_EQ(session_->map(4096, 3, 0, &mapped), -ENODEV);
  neuron_ioctl_crwl_nc_map_ext map = {1, 0, 0, 0, {}};
  EXPECT_EQ(control->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &map), 0)
      << "marks are the host's: " << last_error();
  Session* second = nullptr;
  EXPECT_EQ(instance_->open(0, O_RDWR, ::getpid(), &second), -ENODEV);
  ASSERT_EQ(instance_->faults().set_power(0, true), 0) << last_error();
  EXPECT_EQ(read_back(handle), -ENODEV);
  EXPECT_THAT(last_error(), HasSubstr("was gone since it was opened"));
  ASSERT_EQ(instance_->close(session_), 0);
  session_ = open(0, O_RDWR, ::getpid());
  const uint64_t fresh = allocate(4096);
  auto bytes = random_bytes(4096, 3);
  ASSERT_EQ(buffer_copy(fresh, bytes.data(), bytes.size(), 0, true), 0) << last_error();
  EXPECT_EQ(read_back(fresh), 0) << last_error();
}

TEST_F(FaultBoardTest, AFaultOfAChipThatNobodyHasOpenedWaitsForIt) {
  begin("trn1.32xlarge");
  inject(R"({"at":"dma.descriptor","kind":"error","chip":5})");
  EXPECT_THAT(instance_->faults().waiting(5), SizeIs(1));
  EXPECT_THAT(instance_->faults().waiting(0), IsEmpty());
  Session* fifth = open(5, O_RDWR, ::getpid());
  ASSERT_NE(fifth, nullptr) << "its probe is not counted";
  EXPECT_THAT(instance_->faults().waiting(5), IsEmpty());
  EXPECT_THAT(instance_->device_if_probed(5)->chip().faults().status().armed, SizeIs(1));
  instance_->faults().clear();
  EXPECT_THAT(instance_->device_if_probed(5)->chip().faults().status().armed, IsEmpty());
}

TEST_F(FaultBoardTest, WhatTheHostDoesNotHaveIsRefusedAsAWhole) {
  begin("trn1.32xlarge");
  EXPECT_EQ(instance_->faults().inject(R"({"at":"chip","kind":"off"}
{"at":"chip","kind":"off","chip":16})"),
            -ENODEV);
  EXPECT_THAT(last_error(), HasSubstr("no device 16; an emulated trn1.32xlarge has devices 0"));
  EXPECT_THAT(instance_->faults().waiting(1), IsEmpty());
  EXPECT_EQ(instance_->faults().inject(R"({"at":"sram","kind":"correctable","core":2})"), -EINVAL);
  EXPECT_EQ(instance_->faults().inject("# nothing\n"), -EINVAL);
  EXPECT_EQ(instance_->faults().set_link({{0}, {5}}, false), -EINVAL);
  EXPECT_THAT(last_error(), HasSubstr("devices 0 and 5 have no link; device 0 is linked with 12"));
  EXPECT_EQ(instance_->faults().set_power(9, false), -EAGAIN);
  EXPECT_EQ(instance_->faults().reset(0, 4), -EINVAL);
}

TEST_F(FaultBoardTest, LinksGoDownAndComeBack) {
  begin("trn1.32xlarge");
  ASSERT_EQ(instance_->faults().set_link({{4}, {0}}, false), 0) << last_error();
  inject(R"({"at":"link","kind":"down","a":0,"b":1})");
  EXPECT_THAT(instance_->faults().links_down(), ElementsAre(Link{{0}, {1}}, Link{{0}, {4}}));
  ASSERT_EQ(instance_->faults().set_link({{0}, {4}}, true), 0);
  EXPECT_THAT(instance_->faults().links_down(), ElementsAre(Link{{0}, {1}}));
}

TEST_F(FaultBoardTest, ALinkToANodeIsRefusedOnAHostOfItsOwn) {
  begin("trn1.32xlarge");
  EXPECT_EQ(instance_->faults().set_link({{0}, {0, 1}}, false), -ENODEV);
  EXPECT_THAT(last_error(), HasSubstr("there is no node 1: this daemon serves one host"));
  EXPECT_EQ(instance_->faults().set_link({{0, 0}, {1, 0}}, false), 0) << last_error();
  EXPECT_THAT(instance_->faults().links_down(), ElementsAre(Link{{0}, {1}}));
}

TEST_F(FaultBoardTest, ThePlanThatTheEnvironmentNamesIsReadWhenTheInstanceIsMade) {
  const test::Folder folder;
  const std::string path = folder.write("plan", R"({"at":"dma.descriptor","kind":"error"})");
  const test::Setting faults("NEURON_EMULATOR_FAULTS", path);
  begin("trn1.2xlarge");
  EXPECT_THAT(device().chip().faults().status().armed, SizeIs(1));
  ::unlink(path.c_str());
  int error = 0;
  EXPECT_EQ(Instance::create("trn1.2xlarge", {}, core::create_chip, error), nullptr);
  EXPECT_EQ(error, -EINVAL);
  EXPECT_THAT(last_error(), HasSubstr("NEURON_EMULATOR_FAULTS: the fault plan"));
}

TEST_F(FaultBoardTest, WhoHoldsACoreIsNamedWithItsCommandAndTheTime) {
  char comm[16] = "?";
  if (std::FILE* file = std::fopen("/proc/self/comm", "re")) {
    ASSERT_NE(std::fgets(comm, sizeof(comm), file), nullptr);
    std::fclose(file);
    comm[std::strcspn(comm, "\n")] = 0;
  }
  neuron_ioctl_crwl_nc_map_ext map = {1, 1, 1, 0, {}};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &map), 0);
  Session* other = open(0, O_RDWR, 1);
  map = {2, 0, 1, 0, {}};
  EXPECT_EQ(other->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &map), -EBUSY);
  const std::string holder =
      "core 1 is held by pid " + std::to_string(::getpid()) + " (" + comm + ") since ";
  EXPECT_THAT(last_error(), HasSubstr(holder));
  EXPECT_THAT(last_error(), ::testing::ContainsRegex("since [0-2][0-9]:[0-5][0-9]:[0-6][0-9]"));
  const auto sessions = instance_->sessions();
  ASSERT_THAT(sessions, SizeIs(2));
  EXPECT_STREQ(sessions[0].who.command, comm);
}

TEST(Holder, TimesOfAnotherDayHaveTheirDateAndCommandsNoControlCharacters) {
  nd_holder who;
  nd_holder_set(&who, "evil\n\x1b[31mname and more", 86400);
  EXPECT_STREQ(who.command, "evil??[31mname ");
  EXPECT_THAT(describe_holder(7, who), HasSubstr("pid 7 (evil??[31mname ) since 1970-01-0"));
  EXPECT_EQ(describe_holder(7, nd_holder{}), "pid 7");
  EXPECT_THAT(describe_time(now_in_seconds()), Not(HasSubstr("-")));
}

}  // namespace
}  // namespace neuron::service
