// SPDX-License-Identifier: Apache-2.0
// The oracle of wire_fuzz is alive: a client whom the service takes for the process that owns
// everything, so that nothing is kept from it, does each of the things that no process may do to
// another, and each time the neighbour notices.
#include "tests/fuzz/neighbour.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::fuzz {
namespace {

using service::Session;
using ::testing::HasSubstr;

// In the order of Neighbour::names().
enum Name : size_t { kHbm, kHost, kRingHandle, kHbmAddress, kHostAddress, kRingAddress, kStore };

class NeighbourOracle : public ::testing::Test {
 protected:
  void SetUp() override {
    int error = 0;
    instance_ =
        service::Instance::create("trn1.2xlarge", {.all = 256 << 20}, core::create_chip, error);
    ASSERT_NE(instance_, nullptr) << service::last_error();
    instance_->files().allow(64);
    neighbour_ = Neighbour::create(*instance_);
    ASSERT_NE(neighbour_, nullptr) << service::last_error();
    // A client of process 0: the checks that keep processes apart let it through.
    ASSERT_EQ(instance_->open(0, O_RDWR, service::Client{5'000'001, 1000, 0}, &session_), 0);
    names_ = neighbour_->names();
    ASSERT_EQ(neighbour_->harm(false), "");
  }
  template <typename Argument>
  void call(uint32_t request, Argument argument) {
    ASSERT_EQ(session_->ioctl(request, &argument), 0) << service::last_error();
  }
  void expect_harm(const char* sentence) {
    EXPECT_THAT(neighbour_->harm(false), HasSubstr(sentence));
  }

  std::unique_ptr<service::Instance> instance_;
  std::unique_ptr<Neighbour> neighbour_;
  Session* session_ = nullptr;
  std::vector<uint64_t> names_;
};

TEST_F(NeighbourOracle, FindsNothingWhereNobodyHasDoneAnything) {
  EXPECT_EQ(neighbour_->harm(false), "");
  ASSERT_EQ(instance_->close(session_), 0);
  EXPECT_EQ(neighbour_->leftovers(), "");
}

TEST_F(NeighbourOracle, NoticesAFillOfItsMemory) {
  call(NEURON_IOCTL_MEMSET64, neuron_ioctl_memset64{names_[kHbm], 128, 0, 1});
  expect_harm("other bytes in its HBM");
}

TEST_F(NeighbourOracle, NoticesACopyIntoItsHostMemory) {
  uint64_t word = 1;
  call(NEURON_IOCTL_MEM_BUF_COPY64,
       neuron_ioctl_mem_buf_copy64{names_[kHost], &word, sizeof(word), 64, 1});
  expect_harm("other bytes in its host memory");
}

TEST_F(NeighbourOracle, NoticesThatItsMemoryIsFreed) {
  call(NEURON_IOCTL_MEM_FREE, neuron_ioctl_mem_free{names_[kHbm]});
  expect_harm("its handle of HBM is no longer");
}

TEST_F(NeighbourOracle, NoticesWritesThroughAMappingOfItsDatastore) {
  const Mapping mapping = Mapping::of(*session_, names_[kStore], ND_DATASTORE_BYTES);
  ASSERT_TRUE(mapping) << service::last_error();
  mapping.words()[7] = 0;
  expect_harm("others have written its datastore");
}

TEST_F(NeighbourOracle, NoticesItsBytesInAnAnswerAndItsFilesAmongThoseThatArePassed) {
  std::vector<std::byte> answer(100);
  EXPECT_FALSE(neighbour_->is_secret(answer));
  // An odd offset: answers begin anywhere.
  call(NEURON_IOCTL_MEM_BUF_COPY64,
       neuron_ioctl_mem_buf_copy64{names_[kHbm], answer.data() + 13, 20, 3, 0});
  EXPECT_TRUE(neighbour_->is_secret(answer));
  service::Place memory, store;
  ASSERT_EQ(session_->locate(Neighbour::kBytes, PROT_READ, names_[kHostAddress], &memory), 0);
  EXPECT_TRUE(neighbour_->is_own_file(memory.memory->file.get()));
  ASSERT_EQ(session_->locate(ND_DATASTORE_BYTES, PROT_READ, names_[kStore], &store), 0);
  EXPECT_TRUE(neighbour_->is_own_file(store.memory->file.get()));
  const std::string path = "/proc/self/fd/" + std::to_string(store.memory->file.get());
  const base::FileDescriptor readable(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(neighbour_->is_own_file(readable.get()));
}

TEST_F(NeighbourOracle, NoticesThatItsQueueIsSetUpStartedOrAcknowledged) {
  constexpr uint32_t kEngine = Neighbour::kEngine, kQueue = Neighbour::kQueue;
  call(NEURON_IOCTL_DMA_ACK_COMPLETED, neuron_ioctl_dma_ack_completed{kEngine, kQueue, 1});
  expect_harm("acknowledged by another");
  call(NEURON_IOCTL_DMA_QUEUE_INIT,
       neuron_ioctl_dma_queue_init{kEngine, kQueue, 32, 32, names_[kRingHandle],
                                   names_[kRingHandle], 0, 0});
  expect_harm("set up by another");
}

TEST_F(NeighbourOracle, NoticesThatItsQueueIsStarted) {
  call(NEURON_IOCTL_DMA_QUEUE_COPY_START,
       neuron_ioctl_dma_queue_copy_start{Neighbour::kEngine, Neighbour::kQueue, 1, 0});
  expect_harm("started by another");
}

TEST_F(NeighbourOracle, NoticesThatItsNotificationQueueIsReplaced) {
  neuron_ioctl_notifications_init_with_realloc_v2 anew = {};
  anew.nq_dev_id = Neighbour::kCore;
  anew.nq_type = NQ_TYPE_NOTIFY;
  anew.size = Neighbour::kBytes;
  anew.on_host_memory = 1;
  anew.force_alloc_mem = 1;
  call(NEURON_IOCTL_NOTIFICATIONS_INIT_WITH_REALLOC_V2, anew);
  expect_harm("its notification queue is another one's");
}

TEST_F(NeighbourOracle, NoticesThatTheResultOfItsResetIsFetched) {
  call(NEURON_IOCTL_NC_RESET_READY,
       neuron_ioctl_device_ready{static_cast<__u32>(Neighbour::kClient.pid), 0});
  expect_harm("fetched the result of its reset");
}

// One that has its number, which the service never lets in beside it, has its marks, its lock, its
// scrub and its datastore.
TEST_F(NeighbourOracle, NoticesOneWhoIsTakenForItself) {
  Session* twin = nullptr;
  ASSERT_EQ(instance_->open(0, O_RDWR, Neighbour::kClient, &twin), 0);
  neuron_ioctl_crwl lock = {};
  lock.nc_id = Neighbour::kCore;
  ASSERT_EQ(twin->ioctl(NEURON_IOCTL_CRWL_WRITER_DOWNGRADE, &lock), 0);
  expect_harm("its lock of its core is not held");
  neuron_ioctl_crwl_nc_map mark = {0, 0, 0, 0, 1u << Neighbour::kCore};
  ASSERT_EQ(twin->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK, &mark), 0);
  expect_harm("its core is not marked");
  neuron_ioctl_neuron_ds_info store = {Neighbour::kClient.pid, 0, 0};
  ASSERT_EQ(twin->ioctl(NEURON_IOCTL_RELEASE_NEURON_DS, &store), 0);
  expect_harm("");
}

TEST_F(NeighbourOracle, FindsWhatIsLeftBehind) {
  EXPECT_THAT(neighbour_->leftovers(), HasSubstr("places on the device"));
  __u64 handle = 0;
  neuron_ioctl_mem_alloc memory = {1 << 20, 0, 0, 0, 0, &handle};
  call(NEURON_IOCTL_MEM_ALLOC, memory);
  EXPECT_THAT(neighbour_->leftovers(), HasSubstr("allocations of HBM"));
  call(NEURON_IOCTL_MEM_FREE, neuron_ioctl_mem_free{handle});
  call(NEURON_IOCTL_CRWL_NC_RANGE_MARK, neuron_ioctl_crwl_nc_map{1, 0, 0, 0, 0});
  EXPECT_THAT(neighbour_->leftovers(), HasSubstr("core 0 is still marked"));
}

// What a process may leave is taken for no leftover, and a reset of its core for no harm.
TEST_F(NeighbourOracle, KnowsWhatIsNotPromised) {
  neuron_ioctl_notifications_init_v2 queue = {};
  queue.nq_type = NQ_TYPE_NOTIFY;
  queue.size = 4096;
  queue.on_host_memory = 1;
  call(NEURON_IOCTL_NOTIFICATIONS_INIT_V2, queue);
  call(NEURON_IOCTL_NC_RESET, neuron_ioctl_device_reset{1u << Neighbour::kCore, 0});
  EXPECT_EQ(neighbour_->harm(false), "");
  ASSERT_EQ(instance_->close(session_), 0);
  EXPECT_EQ(neighbour_->leftovers(), "");
  EXPECT_EQ(neighbour_->harm(false), "");
}

}  // namespace
}  // namespace neuron::fuzz
