// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <cstring>
#include <thread>

#include "fixture.h"
#include "nrt/nds/neuron_ds.h"

namespace neuron::ndl::testing {
namespace {

class Datastore : public Library {
 protected:
  void SetUp() override {
    Library::SetUp();
    open();
    ASSERT_EQ(nds_open(device, 0, &mine), 0) << last_error();
  }
  void TearDown() override {
    if (mine != nullptr) {
      EXPECT_EQ(nds_close(mine), 0);
    }
    Library::TearDown();
  }
  uint64_t word_at(size_t offset) const {
    uint64_t word = 0;
    std::memcpy(&word, driver.datastore_bytes.data() + offset, sizeof(word));
    return word;
  }
  nds_instance_t* mine = nullptr;
};

TEST_F(Datastore, BeginsWithItsSignature) {
  EXPECT_EQ(std::memcmp(driver.datastore_bytes.data(), "nds\0", 4), 0);
}

TEST_F(Datastore, PutsEachCounterAtItsPublishedPlace) {
  uint64_t value = 5;
  ASSERT_EQ(nds_set_nd_counter(mine, NDS_ND_COUNTER_FEATURE_BITMAP, &value), 0);
  EXPECT_EQ(word_at(8 + 3 * 8), 5u);
  ASSERT_EQ(nds_or_nd_counter(mine, NDS_ND_COUNTER_FEATURE_BITMAP, BIT_INDEX_MULTICORE_FEATURE), 0);
  EXPECT_EQ(word_at(8 + 3 * 8), 7u);
  ASSERT_EQ(nds_increment_nc_counter(mine, 3, NDS_NC_COUNTER_OOB, 11), 0);
  EXPECT_EQ(word_at(256 + (3 * 31 + 30) * 8), 11u);
  ASSERT_EQ(nds_increment_nc_counter(mine, 1, NDS_EXT_NC_COUNTER_HW_ERR_COLLECTIVES, 12), 0);
  EXPECT_EQ(word_at(55936 + 64 * 8), 12u);
  ASSERT_EQ(nds_increment_nc_counter(mine, 5, NDS_NC_COUNTER_INFER_COMPLETED, 13), 0);
  EXPECT_EQ(word_at(57984 + (96 + 1) * 8), 13u);
  ASSERT_EQ(nds_increment_nc_counter(mine, 15, 94, 14), 0);
  EXPECT_EQ(word_at(67200 - 2 * 8), 14u);
}

TEST_F(Datastore, StopsDecrementsAtZeroAndRefusesWhatIsNoCounter) {
  uint64_t value = 0;
  ASSERT_EQ(nds_increment_nc_counter(mine, 0, 1, 3), 0);
  ASSERT_EQ(nds_decrement_nc_counter(mine, 0, 1, 2), 0);
  ASSERT_EQ(nds_get_nc_counter(mine, 0, 1, &value), 0);
  EXPECT_EQ(value, 1u);
  ASSERT_EQ(nds_decrement_nc_counter(mine, 0, 1, 9), 0);
  ASSERT_EQ(nds_get_nc_counter(mine, 0, 1, &value), 0);
  EXPECT_EQ(value, 0u);
  EXPECT_EQ(nds_get_nc_counter(mine, 16, 0, &value), -EINVAL);
  EXPECT_EQ(nds_get_nc_counter(mine, -1, 0, &value), -EINVAL);
  EXPECT_EQ(nds_get_nc_counter(mine, 0, 95, &value), -EINVAL);
  EXPECT_EQ(nds_get_nd_counter(mine, 31, &value), -EINVAL);
  EXPECT_EQ(nds_or_nd_counter(mine, 0, 64), -EINVAL);
  EXPECT_EQ(nds_get_nd_counter(nullptr, 0, &value), -EINVAL);
}

TEST_F(Datastore, ShowsPublishedObjectsToReadersAndKeepsTheOthersBack) {
  nds_obj_handle_t process = nds_obj_new(mine, OBJECT_TYPE_PROCESS_INFO);
  ASSERT_NE(process, nullptr);
  std::strcpy(nds_obj_handle_to_process_info(process)->tag, "trainer");
  EXPECT_EQ(nds_obj_handle_to_model_node_info(process), nullptr) << "another kind";
  nds_obj_handle_t model = nds_obj_new(mine, OBJECT_TYPE_MODEL_NODE_INFO);
  nds_obj_handle_t draft = nds_obj_new(mine, OBJECT_TYPE_MODEL_NODE_INFO);
  ASSERT_NE(draft, nullptr);
  std::strcpy(nds_obj_handle_to_model_node_info(model)->name, "digits");
  nds_obj_handle_to_model_node_mem_usage(model)->model_mem_usage[1][11].total_size = 99;
  ASSERT_EQ(nds_obj_commit(model), 0);

  nds_instance_t* reader = nullptr;
  ASSERT_EQ(nds_open(device, 4242, &reader), 0);
  EXPECT_EQ(nds_read_process_info(reader), nullptr) << "not committed yet";
  ASSERT_EQ(nds_obj_commit(process), 0);
  nds_obj_handle_t seen = nds_read_process_info(reader);
  ASSERT_NE(seen, nullptr);
  EXPECT_STREQ(nds_obj_handle_to_process_info(seen)->tag, "trainer");
  EXPECT_EQ(nds_read_process_info_ext(reader), nullptr);
  nds_obj_handle_t* models = nullptr;
  size_t count = 0;
  ASSERT_EQ(nds_read_all_model_nodes(reader, &models, &count), 0);
  ASSERT_EQ(count, 1u);
  EXPECT_STREQ(nds_obj_handle_to_model_node_info(models[0])->name, "digits");
  EXPECT_EQ(nds_obj_handle_to_model_node_mem_usage(models[0])->model_mem_usage[1][11].total_size,
            99u);
  EXPECT_EQ(nds_obj_commit(models[0]), -EPERM) << "a reader writes nothing";
  EXPECT_EQ(nds_increment_nc_counter(reader, 0, 0, 1), -EPERM);
  std::free(models);
  ASSERT_EQ(nds_obj_delete(model), 0);
  ASSERT_EQ(nds_read_all_model_nodes(reader, &models, &count), 0);
  EXPECT_EQ(count, 0u);
  std::free(models);
  EXPECT_EQ(nds_close(reader), 0);
  EXPECT_EQ(nds_obj_delete(model), -EINVAL) << "deleted before";
}

TEST_F(Datastore, RunsOutOfModelSlotsWithoutTouchingTheCounters) {
  int made = 0;
  while (nds_obj_handle_t model = nds_obj_new(mine, OBJECT_TYPE_MODEL_NODE_INFO)) {
    std::memset(nds_obj_handle_to_model_node_info(model), 0xFF, sizeof(nds_model_node_info_t));
    std::memset(nds_obj_handle_to_model_node_mem_usage(model), 0xFF,
                sizeof(nds_model_node_mem_usage_info_t));
    ASSERT_EQ(nds_obj_commit(model), 0);
    ++made;
  }
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_GT(made, 32);
  EXPECT_EQ(word_at(256 + 4 * 31 * 8 - 8), 0u) << "the last counter before the objects";
  EXPECT_EQ(word_at(55936), 0u) << "the first counter after them";
}

TEST_F(Datastore, LetsThreadsWorkWithDatastoresOfTheirOwn) {
  nds_obj_handle_t process = nds_obj_new(mine, OBJECT_TYPE_PROCESS_INFO);
  ASSERT_NE(process, nullptr);
  ASSERT_EQ(nds_obj_commit(process), 0);
  nds_instance_t* other = nullptr;
  ASSERT_EQ(nds_open(device, 4711, &other), 0) << last_error();
  constexpr int kRounds = 500;
  std::thread reader([&] {
    for (int i = 0; i < kRounds; ++i) {
      nds_obj_handle_t seen = nds_read_process_info(other);
      ASSERT_NE(seen, nullptr);
      ASSERT_EQ(nds_obj_delete(seen), 0);
    }
  });
  for (int i = 0; i < kRounds; ++i) {
    nds_obj_handle_t model = nds_obj_new(mine, OBJECT_TYPE_MODEL_NODE_INFO);
    EXPECT_NE(model, nullptr);
    EXPECT_EQ(nds_obj_delete(model), 0);
  }
  reader.join();
  EXPECT_EQ(nds_obj_delete(process), 0);
  EXPECT_EQ(nds_close(other), 0);
}

TEST_F(Datastore, IsDeadOnceItsDeviceIsClosed) {
  ASSERT_EQ(ndl_close_device(device), 0);
  device = nullptr;
  uint64_t value = 0;
  EXPECT_EQ(nds_get_nd_counter(mine, 0, &value), -ENODEV);
  EXPECT_EQ(nds_close(mine), 0);
  EXPECT_EQ(nds_close(mine), -EINVAL);
  mine = nullptr;
  driver.mappings = 0;  // the fake's mapping went with its device
}

}  // namespace
}  // namespace neuron::ndl::testing
