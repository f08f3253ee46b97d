// SPDX-License-Identifier: Apache-2.0
// What an operator sees from outside: the tree of attributes, holders, datastores.
#include "driver/emulator/service/attributes.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

#include "driver/emulator/service/error.h"
#include "driver/emulator/service/observer.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"
#include "uapi/neuron_datastore.h"
#include "uapi/neuron_observe.h"

namespace neuron::service {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class AttributeTree : public ServiceTest {
 protected:
  std::string read(const std::string& path, unsigned device = 0) {
    std::string text;
    EXPECT_EQ(Attributes(*instance_, device).read(path, text), 0) << last_error();
    return text;
  }
  int write(const std::string& path) { return Attributes(*instance_, 0).write(path, "1"); }

  // The datastore of the test's process.
  std::byte* datastore() {
    neuron_ioctl_neuron_ds_info info = {};
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &info), 0) << last_error();
    void* data = nullptr;
    EXPECT_EQ(session_->map(info.size, 3, info.mmap_offset, &data), 0) << last_error();
    return static_cast<std::byte*>(data);
  }
  static uint64_t& counter(std::byte* block, unsigned core, unsigned index) {
    return NDS_NEURONCORE_COUNTERS(reinterpret_cast<uint8_t*>(block), core)[index];
  }
  void release_datastore() {
    neuron_ioctl_neuron_ds_info info = {};
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_RELEASE_NEURON_DS, &info), 0) << last_error();
  }

  int ask(uint32_t kind, std::string& answer, uint64_t& next, size_t limit = 1 << 20,
          uint64_t offset = 0, int32_t pid = 0) {
    neuron_emulator_question question = {};
    question.kind = kind;
    question.offset = offset;
    question.pid = pid;
    return observe(*instance_, question, limit, answer, next);
  }
  ndl_observation_t look() {
    std::string answer;
    uint64_t next = 0;
    EXPECT_EQ(ask(NEURON_EMULATOR_ASK_DEVICE, answer, next), 0) << last_error();
    ndl_observation_t seen = {};
    EXPECT_EQ(answer.size(), sizeof(seen));
    std::memcpy(&seen, answer.data(), std::min(answer.size(), sizeof(seen)));
    return seen;
  }
};

constexpr char kStatus[] = "neuron_core1/stats/status/success/";

TEST_F(AttributeTree, NamesTheChip) {
  EXPECT_EQ(read("info/architecture/arch_type"), "NDv2\n");
  EXPECT_EQ(read("info/architecture/instance_type"), "Trn1\n");
  EXPECT_EQ(read("info/architecture/device_name"), "Trainium1\n");
  EXPECT_EQ(read("neuron_core1/info/architecture/arch_type"), "NCv2\n");
  EXPECT_EQ(read("core_count"), "2");
  EXPECT_EQ(read("info/serial_number").size(), 17u);
  EXPECT_THAT(read("stats/power/utilization"), StartsWith("POWER_STATUS_NO_DATA,"));
}

TEST_F(AttributeTree, HasTheCountersOfTheModulesTree) {
  const Attributes tree(*instance_, 0);
  for (const char* path : {
           "reset",
           "stats/memory_usage/host_mem/application_memory/peak",
           "stats/hardware/mem_ecc_repairable_uncorrected",
           "neuron_core0/stats/status/hw_repairable_hbm_ue_error/present",
           "neuron_core1/stats/memory_usage/device_mem/peak",
           "neuron_core1/stats/memory_usage/device_mem/nonshared_scratchpad/total",
           "neuron_core0/stats/other_info/flop_count/total",
           "neuron_core0/stats/other_info/reset_fail_count/present",
           "neuron_core0/stats/tensor_engine/pe_cntrs",
       }) {
    EXPECT_NE(tree.find(path), nullptr) << path;
  }
  EXPECT_EQ(tree.find("neuron_core2/stats/tensor_engine/pe_cntrs"), nullptr);
  EXPECT_EQ(tree.find("neuron_core0/stats/status/success/peak"), nullptr);
}

TEST_F(AttributeTree, ListsFoldersAndFilesOfOneLevel) {
  std::string names;
  ASSERT_EQ(Attributes(*instance_, 0).list("stats/", names), 0);
  EXPECT_EQ(names, "memory_usage/\nhardware/\npower/\n");
  EXPECT_EQ(Attributes(*instance_, 0).list("stats/nothing", names), -ENOENT);
}

TEST_F(AttributeTree, TellsAFolderFromWhatDoesNotExist) {
  std::string text;
  const Attributes tree(*instance_, 0);
  EXPECT_EQ(tree.read("stats/hardware", text), -EISDIR);
  EXPECT_EQ(tree.read("stats/hardware/colour", text), -ENOENT);
  EXPECT_THAT(last_error(), HasSubstr("stats/hardware/colour"));
  EXPECT_EQ(tree.read("../../etc/passwd", text), -ENOENT);
}

TEST_F(AttributeTree, CountsWhatADatastoreHeldWhenItIsReleased) {
  std::byte* block = datastore();
  counter(block, 1, NDS_NC_COUNTER_INFER_COMPLETED) = 12;
  counter(block, 1, NDS_NC_COUNTER_MAC_COUNT) = 1000;
  EXPECT_EQ(read(std::string(kStatus) + "total"), "0\n");
  release_datastore();
  EXPECT_EQ(read(std::string(kStatus) + "total"), "12\n");
  EXPECT_EQ(read("neuron_core1/stats/other_info/flop_count/total"), "2000\n");
  EXPECT_EQ(read("neuron_core0/stats/status/success/total"), "0\n");
  block = datastore();
  EXPECT_EQ(counter(block, 1, NDS_NC_COUNTER_INFER_COMPLETED), 0u);
  counter(block, 1, NDS_NC_COUNTER_INFER_COMPLETED) = 5;
  // The end of the process releases it, too.
  ASSERT_EQ(instance_->close(session_), 0);
  session_ = open(0, O_RDWR, kPid);
  EXPECT_EQ(read(std::string(kStatus) + "total"), "17\n");
  EXPECT_EQ(read(std::string(kStatus) + "present"), "5\n");
}

TEST_F(AttributeTree, AWriteSetsOneFileOfACounterToZero) {
  counter(datastore(), 1, NDS_NC_COUNTER_INFER_COMPLETED) = 12;
  release_datastore();
  ASSERT_EQ(write(std::string(kStatus) + "total"), 0);
  EXPECT_EQ(read(std::string(kStatus) + "total"), "0\n");
  EXPECT_EQ(read(std::string(kStatus) + "present"), "12\n");
  EXPECT_EQ(write("info/serial_number"), 0);
  EXPECT_EQ(write("core_count"), -EACCES);
}

TEST_F(AttributeTree, MemoryIsCountedByCoreAndCategory) {
  const std::string tensors = "neuron_core1/stats/memory_usage/device_mem/tensors/";
  const uint64_t handle = allocate(1 << 20, false, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, 1);
  EXPECT_EQ(read(tensors + "total"), "1048576\n");
  EXPECT_EQ(read("neuron_core0/stats/memory_usage/device_mem/tensors/total"), "0\n");
  ASSERT_EQ(free_handle(handle), 0);
  EXPECT_EQ(read(tensors + "total"), "0\n");
  EXPECT_EQ(read(tensors + "present"), "1048576\n");
  EXPECT_EQ(read(tensors + "peak"), "1048576\n");
  ASSERT_EQ(write(tensors + "peak"), 0);
  EXPECT_EQ(read(tensors + "peak"), "0\n");
}

TEST_F(AttributeTree, ResetsAreCountedOnTheCoresThatWereAskedFor) {
  neuron_ioctl_device_reset request = {2, 0};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_NC_RESET, &request), 0) << last_error();
  EXPECT_EQ(read("neuron_core1/stats/other_info/reset_req_count/total"), "1\n");
  EXPECT_EQ(read("neuron_core0/stats/other_info/reset_req_count/total"), "0\n");
  EXPECT_EQ(look().resets[1], 1u);
}

TEST_F(AttributeTree, ADeviceThatNobodyOpenedHasZerosAndIsNotBuilt) {
  start("trn1.32xlarge", 0);
  EXPECT_EQ(read("info/architecture/device_name", 7), "Trainium1\n");
  EXPECT_EQ(read("connected_devices", 7), "3, 6, 11, 4\n");
  EXPECT_EQ(read("neuron_core0/stats/status/success/total", 7), "0\n");
  EXPECT_EQ(instance_->device_if_probed(7), nullptr);
}

TEST_F(AttributeTree, ATreeThatDoesNotFitGoesOnWhereItWasCut) {
  const Attributes tree(*instance_, 0);
  std::string all, part, joined;
  uint64_t next = 0;
  ASSERT_EQ(tree.tree("", 0, 1 << 20, all, next), 0);
  EXPECT_EQ(next, 0u);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), static_cast<ptrdiff_t>(tree.files().size()));
  do {
    part.clear();
    const uint64_t from = next;
    next = 0;
    ASSERT_EQ(tree.tree("", from, 300, part, next), 0);
    ASSERT_FALSE(part.empty());
    joined += part;
  } while (next != 0);
  // The seconds in the line of the power may have gone on.
  EXPECT_EQ(joined.size(), all.size());
}

TEST_F(AttributeTree, HoldersHaveTheirPlacesMemoryAndSince) {
  Session* other = open(0, O_RDWR, 4711);
  neuron_ioctl_crwl_nc_map_ext map = {1, 1, 1, 0, {}};
  ASSERT_EQ(other->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &map), 0) << last_error();
  allocate(1 << 20, false, NEURON_MEMALLOC_TYPE_TENSORS_DEVICE, 0, other);
  datastore();
  const ndl_observation_t seen = look();
  ASSERT_EQ(seen.holder_count, 2u);
  EXPECT_EQ(seen.holders[0].pid, kPid);
  EXPECT_EQ(seen.holders[0].flags, NDL_HOLDER_ATTACHED | NDL_HOLDER_RECORD);
  EXPECT_EQ(seen.holders[0].cores, 0u);
  EXPECT_EQ(seen.holders[1].pid, 4711);
  EXPECT_EQ(seen.holders[1].flags, NDL_HOLDER_ATTACHED);
  EXPECT_EQ(seen.holders[1].cores, 2u);
  EXPECT_EQ(seen.holders[1].device_bytes, 1u << 20);
  EXPECT_NE(seen.holders[1].since, 0u);
  EXPECT_EQ(seen.memory_used, device().memory().accounting().device.total);
  // Looking takes no slot.
  EXPECT_EQ(nd_process_count(&device().processes), 2u);
}

TEST_F(AttributeTree, ADeviceWhoseTablesAreHeldIsBeingReset) {
  std::unique_lock lock(device().mutex);
  std::thread([&] {
    EXPECT_EQ(look().state, uint32_t{NDL_DEVICE_RESETTING});
    EXPECT_EQ(read("reset"), "0\n");
    std::string text;
    EXPECT_EQ(Attributes(*instance_, 0).read(std::string(kStatus) + "total", text), -EAGAIN);
  }).join();
  lock.unlock();
  EXPECT_EQ(look().state, uint32_t{NDL_DEVICE_READY});
}

TEST_F(AttributeTree, ADatastoreTravelsAsWhatIsNotZero) {
  std::byte* block = datastore();
  block[0] = std::byte{1};
  block[100'000] = std::byte{2};
  std::string answer;
  uint64_t next = 0;
  ASSERT_EQ(ask(NEURON_EMULATOR_ASK_DATASTORE, answer, next, 1 << 20, 0, kPid), 0);
  EXPECT_EQ(next, 0u);
  EXPECT_EQ(answer.size(), 2 * (sizeof(neuron_emulator_piece) + 64));
  // In two parts where there is room for one.
  ASSERT_EQ(ask(NEURON_EMULATOR_ASK_DATASTORE, answer, next, 100, 0, kPid), 0);
  EXPECT_EQ(next, 100'000u / 64 * 64);
  ASSERT_EQ(ask(NEURON_EMULATOR_ASK_DATASTORE, answer, next, 100, next, kPid), 0);
  EXPECT_EQ(next, 0u);
  EXPECT_EQ(ask(NEURON_EMULATOR_ASK_DATASTORE, answer, next, 1 << 20, 0, 4711), -ENOENT);
  EXPECT_THAT(last_error(), HasSubstr("pid 4711 has no datastore"));
}

// Reads an answer about several devices: observations and texts by device.
std::map<unsigned, std::pair<ndl_observation_t, std::string>> devices_in(std::string_view answer) {
  std::map<unsigned, std::pair<ndl_observation_t, std::string>> found;
  while (!answer.empty()) {
    neuron_emulator_told head = {};
    std::memcpy(&head, answer.data(), sizeof(head));
    auto& [seen, text] = found[head.device];
    std::memcpy(&seen, answer.data() + sizeof(head), head.observation_bytes);
    text = answer.substr(sizeof(head) + head.observation_bytes, head.text_bytes);
    answer.remove_prefix(sizeof(head) + head.observation_bytes + head.text_bytes);
  }
  return found;
}

TEST_F(AttributeTree, OneQuestionTellsOfAllDevicesInAsManyAnswersAsItTakes) {
  start("trn1.32xlarge", 0);
  open(3, O_RDWR, 4711);
  for (const size_t limit : {size_t{1} << 20, size_t{2000}}) {
    std::map<unsigned, std::pair<ndl_observation_t, std::string>> found;
    unsigned answers = 0;
    for (uint64_t next = 0; answers == 0 || next != 0; ++answers) {
      neuron_emulator_question question = {};
      question.kind = NEURON_EMULATOR_ASK_ALL;
      question.offset = next;
      std::strcpy(question.path, "info/ stats/power/");
      std::string answer;
      ASSERT_EQ(observe(*instance_, question, limit, answer, next), 0) << last_error();
      ASSERT_LE(answer.size(), limit);
      found.merge(devices_in(answer));
    }
    EXPECT_EQ(answers > 1, limit == 2000);
    ASSERT_EQ(found.size(), 16u);
    EXPECT_EQ(found[3].first.holder_count, 1u);
    EXPECT_EQ(found[3].first.holders[0].pid, 4711);
    EXPECT_EQ(found[4].first.holder_count, 0u);
    EXPECT_EQ(found[4].first.pci_slot, instance_->profile().places[4].slot);
    EXPECT_THAT(found[15].second, HasSubstr("info/architecture/device_name Trainium1\n"));
    EXPECT_THAT(found[15].second, HasSubstr("\nstats/power/utilization POWER_STATUS_NO_DATA,"));
  }
}

TEST_F(AttributeTree, DevicesThatAreBeingResetAreWaitedForOnceTogether) {
  start("trn1.32xlarge", 0);
  for (unsigned i = 0; i < 15; ++i) open(i, O_RDWR, 4711);
  // Opening takes the instance's lock before a device's: no device may be held then.
  std::vector<std::unique_lock<std::mutex>> locks;
  for (unsigned i = 0; i < 15; ++i) locks.emplace_back(instance_->device_if_probed(i)->mutex);
  std::thread([&] {
    std::string answer;
    auto fastest = std::chrono::steady_clock::duration::max();
    for (int i = 0; i < 5 && fastest > std::chrono::milliseconds(200); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      uint64_t next = 0;
      ASSERT_EQ(ask(NEURON_EMULATOR_ASK_ALL, answer, next), 0) << last_error();
      fastest = std::min(fastest, std::chrono::steady_clock::now() - begin);
    }
    // 20 ms each would be 300.
    EXPECT_LT(fastest, std::chrono::milliseconds(200));
    auto found = devices_in(answer);
    ASSERT_EQ(found.size(), 16u);
    EXPECT_EQ(found[14].first.state, uint32_t{NDL_DEVICE_RESETTING});
    EXPECT_EQ(found[15].first.state, uint32_t{NDL_DEVICE_READY});
  }).join();
}

TEST_F(AttributeTree, TheNearestAdapterIsThatOfTheProfileAndNeverOneOfThisHost) {
  std::string answer;
  uint64_t next = 0;
  EXPECT_EQ(ask(NEURON_EMULATOR_ASK_ADAPTER, answer, next), -ENOENT);
  EXPECT_THAT(last_error(), HasSubstr("has no network adapter"));
  start("trn1.32xlarge", 0);
  neuron_emulator_question question = {};
  question.kind = NEURON_EMULATOR_ASK_ADAPTER;
  for (const auto& [device, address] :
       {std::pair{0u, "0000:10:1a.0"}, {1u, "0000:10:1a.0"}, {2u, "0000:a0:1a.0"}}) {
    question.device = device;
    ASSERT_EQ(observe(*instance_, question, 100, answer, next), 0) << last_error();
    EXPECT_EQ(answer, address);
    EXPECT_EQ(next, 0u);
  }
  EXPECT_EQ(instance_->device_if_probed(2), nullptr) << "no chip is built for an answer";
  question.device = 16;
  EXPECT_EQ(observe(*instance_, question, 100, answer, next), -ENODEV);
}

TEST_F(AttributeTree, QuestionsFromOutsideAreChecked) {
  std::string answer;
  uint64_t next = 0;
  EXPECT_EQ(ask(99, answer, next), -EOPNOTSUPP);
  neuron_emulator_question question = {};
  question.kind = NEURON_EMULATOR_ASK_READ;
  question.device = 77;
  EXPECT_EQ(observe(*instance_, question, 100, answer, next), -ENODEV);
  question.device = 0;
  std::memset(question.path, 'x', sizeof(question.path));  // without an end
  EXPECT_EQ(observe(*instance_, question, 100, answer, next), -ENOENT);
  question.kind = NEURON_EMULATOR_ASK_ALL;
  EXPECT_EQ(observe(*instance_, question, 1 << 20, answer, next), -ENOENT);
  question.path[0] = '\0';
  EXPECT_EQ(observe(*instance_, question, 100, answer, next), -EMSGSIZE);
  question.offset = UINT64_MAX;
  EXPECT_EQ(observe(*instance_, question, 100, answer, next), 0);
  EXPECT_EQ(answer, "");
}

}  // namespace
}  // namespace neuron::service
