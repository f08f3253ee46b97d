// SPDX-License-Identifier: Apache-2.0
// Datastores as a hostile process may leave them, and text of /proc.
#include "tools/telemetry/datastore_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nrt/nds/datastore_layout.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>

#include "tools/telemetry/proc.h"
#include "tools/telemetry/side_thread.h"

namespace neuron::telemetry {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DatastoreRecordTest : public ::testing::Test {
 protected:
  DatastoreRecordTest() : block_(NDS_BLOCK_BYTES) {
    const nds_header_t header = {{'n', 'd', 's', 0}, 1};
    std::memcpy(block_.data(), &header, sizeof(header));
    NDS_ND_COUNTERS(bytes())[NDS_ND_COUNTER_RUNTIME_VERSION] = 1;
  }
  char* bytes() { return reinterpret_cast<char*>(block_.data()); }
  void publish_model(unsigned slot, const nds_model_bytes_t& model, uint32_t sequence = 2) {
    char* at = bytes() + NDS_SLOT_MODELS + slot * NDS_SLOT_MODEL_STRIDE;
    const nds_slot_t header = {NDS_SLOT_PUBLISHED, sequence};
    std::memcpy(at, &header, sizeof(header));
    std::memcpy(at + sizeof(header), &model, sizeof(model));
  }
  DatastoreRecord read(unsigned cores = 2) { return read_datastore(block_, cores); }
  std::vector<std::byte> block_;
};

TEST_F(DatastoreRecordTest, ReadsCountersOfTheFirstAndOfLaterCores) {
  NDS_NEURONCORE_COUNTERS(bytes(), 1)[NDS_NC_COUNTER_INFER_COMPLETED] = 7;
  NDS_EXT_NEURONCORE_COUNTERS(bytes(), 1)
  [NDS_EXT_NC_COUNTER_HW_ERR_DMA_ABORT - (0 + NDS_NC_COUNTER_COUNT)] = 3;
  NDS_EXT_NEURONCORE_NC_DATA(bytes(), 2)[NDS_NC_COUNTER_MAC_COUNT] = 11;
  NDS_EXT_NEURONCORE_NC_DATA(bytes(), 2)[NDS_EXT_NC_COUNTER_HW_ERR_NC_UE] = 5;
  const DatastoreRecord record = read(8);
  ASSERT_EQ(record.counters.size(), 8u);
  EXPECT_EQ(record.counters[1].completed, 7u);
  EXPECT_EQ(record.counters[1].causes.at("hw_dma_abort_error"), 3u);
  EXPECT_EQ(record.counters[6].multiply_accumulates, 11u);
  EXPECT_EQ(record.counters[6].causes.at("hw_nc_ue_error"), 5u);
  EXPECT_THAT(record.error, IsEmpty());
}

TEST_F(DatastoreRecordTest, SaysThatABlockIsNotADatastore) {
  std::memcpy(bytes(), "junk", 4);
  EXPECT_THAT(read().error, HasSubstr("signature"));
  EXPECT_THAT(read().counters, IsEmpty());
}

TEST_F(DatastoreRecordTest, AnEmptyBlockIsNoRecordAndNoError) {
  const std::vector<std::byte> nothing;
  EXPECT_THAT(read_datastore(nothing, 2).error, IsEmpty());
  EXPECT_THAT(read_datastore(nothing, 2).runtime_version, IsEmpty());
}

TEST_F(DatastoreRecordTest, CutsNamesThatDoNotEndAndControlCharacters) {
  nds_model_bytes_t model{};
  std::memset(model.info.name, 'x', sizeof(model.info.name));
  model.info.name[0] = '\033';
  publish_model(0, model);
  const DatastoreRecord record = read();
  ASSERT_EQ(record.models.size(), 1u);
  EXPECT_EQ(record.models[0].name.size(), sizeof(model.info.name));
  EXPECT_EQ(record.models[0].name[0], ' ');
}

TEST_F(DatastoreRecordTest, LeavesOutAModelOnACoreThatDoesNotExist) {
  nds_model_bytes_t model{};
  model.info.nc_index = 9;
  publish_model(3, model);
  EXPECT_THAT(read().models, IsEmpty());
  EXPECT_THAT(read().error, HasSubstr("model on core 9 of a device with 2 cores"));
}

TEST_F(DatastoreRecordTest, LeavesOutAModelThatIsBeingWritten) {
  publish_model(0, {}, 3);
  EXPECT_THAT(read().models, IsEmpty());
}

TEST_F(DatastoreRecordTest, IgnoresMeasurementsOfALayoutThatItDoesNotKnow) {
  NDS_OPEN_CORE(bytes(), 0)->dma_bytes = 5;
  nds_open_header_t header = {NDS_OPEN_SIGNATURE, NDS_OPEN_VERSION, sizeof(nds_open_core_t), 4, 0};
  std::memcpy(NDS_OPEN_HEADER(bytes()), &header, sizeof(header));
  EXPECT_EQ(read().counters[0].dma_bytes, 5u);
  header.core_bytes = 0xFFFFFFFF;
  std::memcpy(NDS_OPEN_HEADER(bytes()), &header, sizeof(header));
  EXPECT_EQ(read().counters[0].dma_bytes, 0u);
}

TEST_F(DatastoreRecordTest, TakesAnyBytesWithoutLeavingTheBlock) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    for (std::byte& byte : block_) byte = static_cast<std::byte>(random());
    std::memcpy(bytes(), "nds", 4);
    // In memory of exactly this size, so that a sanitizer sees the first byte beyond.
    const std::vector<std::byte> part(block_.begin(), block_.begin() + random() % block_.size());
    read_datastore(part, random() % 300);
  }
}

TEST(Proc, FindsContainerAndPodOfEachKindOfControlGroup) {
  const std::string id(64, 'a');
  Process process;
  find_container(
      "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
      "12345678_1234_1234_1234_123456789abc.slice/cri-containerd-" +
          id + ".scope\n",
      process);
  EXPECT_EQ(process.container_id, id);
  EXPECT_EQ(process.pod_uid, "12345678-1234-1234-1234-123456789abc");
  process = {};
  find_container("12:memory:/docker/" + id + "\n0::/\n", process);
  EXPECT_EQ(process.container_id, id);
  EXPECT_THAT(process.pod_uid, IsEmpty());
  process = {};
  find_container("0::/user.slice/user-1000.slice/session-3.scope\n", process);
  EXPECT_THAT(process.container_id, IsEmpty());
  find_container("", process);
  find_container("/pod/:::", process);
  EXPECT_THAT(process.pod_uid, IsEmpty());
}

TEST(Proc, DescribesThisProcessAndNoneThatHasEnded) {
  Process process;
  process.pid = ::getpid();
  ASSERT_TRUE(describe(process));
  EXPECT_THAT(process.command, HasSubstr("unit_telemetry"));
  EXPECT_LT(*process.started, std::chrono::system_clock::now());
  process.pid = 0x7FFFFFF0;
  EXPECT_FALSE(describe(process));
}

TEST(Proc, KnowsProcessorsAndMemory) {
  const HostState host = read_host_state();
  EXPECT_FALSE(host.processors.empty());
  EXPECT_GT(host.all.idle + host.all.user, 0u);
  EXPECT_GT(host.memory_total, host.memory_used);
}

TEST(SideThread, LeavesAJobThatIsLateAndBeginsNoOtherMeanwhile) {
  struct Gate {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  const auto gate = std::make_shared<Gate>();
  SideThread worker;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto stuck = [gate] {
    std::unique_lock lock(gate->mutex);
    gate->changed.wait(lock, [&] { return gate->open; });
  };
  EXPECT_FALSE(worker.run(stuck, now() + std::chrono::milliseconds(1)));
  EXPECT_FALSE(worker.begin([] {}));
  {
    const std::lock_guard lock(gate->mutex);
    gate->open = true;
    gate->changed.notify_all();
  }
  EXPECT_TRUE(worker.ended_by(now() + std::chrono::seconds(10)));
  EXPECT_TRUE(worker.run([] {}, now() + std::chrono::seconds(10)));
}

}  // namespace
}  // namespace neuron::telemetry
