// SPDX-License-Identifier: Apache-2.0
// Tables of the driver core: handles, marks, locks, processes, datastores, queues, calls.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "driver/core/accounting.h"
#include "driver/core/claims.h"
#include "driver/core/core_lock.h"
#include "driver/core/handle_table.h"
#include "driver/core/ioctl_table.h"
#include "driver/core/notification.h"
#include "driver/core/process_table.h"
#include "hw/address_map.h"
#include "uapi/neuron_ioctl.h"

namespace {

TEST(HandleTable, AFreedHandleIsNotLiveAndComesBackFirst) {
  auto table = std::make_unique<nd_handle_table>();
  std::vector<nd_handle_entry> level(ND_HANDLES_PER_LEVEL);
  nd_handles_init(table.get());
  EXPECT_TRUE(nd_handles_full(table.get()));
  uint32_t handle = 0;
  int object = 0;
  EXPECT_EQ(nd_handles_insert(table.get(), &object, &handle), -ND_ENOENT);
  ASSERT_EQ(nd_handles_add_level(table.get(), level.data()), 0);
  for (uint32_t i = 1; i < ND_HANDLES_PER_LEVEL; ++i) {
    ASSERT_EQ(nd_handles_insert(table.get(), &object, &handle), 0);
    ASSERT_EQ(handle, i);
  }
  EXPECT_TRUE(nd_handles_full(table.get()));
  EXPECT_EQ(nd_handles_remove(table.get(), 17), &object);
  EXPECT_EQ(nd_handles_remove(table.get(), 17), nullptr);
  EXPECT_EQ(nd_handles_lookup(table.get(), 17), nullptr);
  EXPECT_EQ(nd_handles_remove(table.get(), 4000), &object);
  ASSERT_EQ(nd_handles_insert(table.get(), &object, &handle), 0);
  EXPECT_EQ(handle, 4000u);
  EXPECT_EQ(nd_handles_lookup(table.get(), 0), nullptr);
  EXPECT_EQ(nd_handles_lookup(table.get(), uint64_t{1} << 40), nullptr);
}

int mark(nd_claims* claims, uint32_t count, uint32_t start, uint32_t end, int32_t owner,
         uint64_t* first = nullptr, uint32_t* available = nullptr) {
  const nd_claim_request request = {0, count, start, end, owner, 1};
  uint64_t bitmap[ND_CLAIM_WORDS];
  uint32_t seen = 0;
  const int error = nd_claims_mark(claims, &request, bitmap, &seen);
  if (first) *first = bitmap[0];
  if (available) *available = seen;
  return error;
}

TEST(Claims, TakesTheFirstRunThatIsLongEnough) {
  nd_claims claims = {};
  uint64_t bits = 0;
  ASSERT_EQ(mark(&claims, 1, 2, 2, 7), 0);
  EXPECT_EQ(mark(&claims, 2, 0, 511, 8, &bits), 0);
  EXPECT_EQ(bits, 3u);
  uint32_t available = 0;
  EXPECT_EQ(mark(&claims, 4, 0, 5, 9, &bits, &available), -ND_EBUSY);
  EXPECT_EQ(available, 3u);
  EXPECT_EQ(mark(&claims, 1, 0, 512, 9), -ND_EINVAL);
  EXPECT_EQ(mark(&claims, 0, 0, 5, 9), -ND_EINVAL);
}

TEST(Claims, ARunRightBehindABusyCoreCanBeMissedAfterAShortRun) {
  nd_claims claims = {};
  ASSERT_EQ(mark(&claims, 1, 1, 1, 7), 0);
  uint64_t bits = 0;
  // Core 0 is a run too short; the search then goes on at core 3, not 2.
  EXPECT_EQ(mark(&claims, 2, 0, 3, 8, &bits), -ND_EBUSY);
  EXPECT_EQ(mark(&claims, 2, 0, 4, 8, &bits), 0);
  EXPECT_EQ(bits, 0x18u);
}

TEST(Claims, OnlyTheOwnerTakesMarksOff) {
  nd_claims claims = {};
  ASSERT_EQ(mark(&claims, 2, 0, 1, 7), 0);
  uint64_t all[ND_CLAIM_WORDS];
  std::memset(all, 0xFF, sizeof(all));
  nd_claims_unmark(&claims, 0, all, 8);
  EXPECT_EQ(nd_claims_owner(&claims, 1), 7);
  nd_claims_release(&claims, 7, 99);
  EXPECT_EQ(nd_claims_owner(&claims, 1), 7);
  nd_claims_release(&claims, 7, 1);
  EXPECT_EQ(nd_claims_owner(&claims, 1), 0);
  EXPECT_EQ(nd_claims_owner(&claims, 5000), 0);
}

TEST(CoreLock, AWriterWaitsForReadersAndReadersForTheWriter) {
  nd_core_lock lock = {};
  const uint8_t a[32] = {1};
  const uint8_t b[32] = {2};
  EXPECT_EQ(nd_core_lock_write(&lock, 5, a), 0);
  EXPECT_EQ(nd_core_lock_write(&lock, 5, a), -ND_EAGAIN);
  EXPECT_EQ(nd_core_lock_read(&lock, 5, a), -ND_EAGAIN);
  EXPECT_EQ(nd_core_lock_downgrade(&lock, 6, a), -ND_ENOENT);
  EXPECT_EQ(nd_core_lock_downgrade(&lock, 5, a), 0);
  EXPECT_EQ(nd_core_lock_write(&lock, 6, b), -ND_EAGAIN);
  EXPECT_EQ(nd_core_lock_read_exit(&lock, 5, a), 0);
  EXPECT_EQ(nd_core_lock_write(&lock, 6, b), 0);
  nd_core_lock_drop(&lock, 5);
  EXPECT_TRUE(lock.writer);
  nd_core_lock_drop(&lock, 6);
  EXPECT_FALSE(lock.writer);
}

TEST(CoreInit, OneInitialisesAndOthersWait) {
  uint32_t state = NEURON_CINIT_STATE_INVALID;
  EXPECT_EQ(nd_core_init_set(&state, NEURON_CINIT_STATE_COMPLETED), 0);
  EXPECT_EQ(state, static_cast<uint32_t>(NEURON_CINIT_STATE_INVALID));
  EXPECT_EQ(nd_core_init_set(&state, NEURON_CINIT_STATE_STARTED), 0);
  EXPECT_EQ(nd_core_init_set(&state, NEURON_CINIT_STATE_STARTED), -ND_EAGAIN);
  EXPECT_EQ(nd_core_init_set(&state, NEURON_CINIT_STATE_COMPLETED), 0);
  EXPECT_EQ(nd_core_init_set(&state, NEURON_CINIT_STATE_STARTED), 0);
  EXPECT_EQ(state, static_cast<uint32_t>(NEURON_CINIT_STATE_COMPLETED));
  EXPECT_EQ(nd_core_init_set(&state, 9), -ND_EINVAL);
}

TEST(ProcessTable, HoldsSixteenProcessesAndCountsTheirOpens) {
  nd_process_table table = {};
  for (int32_t pid = 1; pid <= 16; ++pid) EXPECT_EQ(nd_process_attach(&table, pid), 0);
  EXPECT_EQ(nd_process_attach(&table, 17), -ND_EBUSY);
  EXPECT_EQ(nd_process_attach(&table, 3), 0);
  EXPECT_FALSE(nd_process_detach(&table, 3));
  EXPECT_TRUE(nd_process_detach(&table, 3));
  EXPECT_FALSE(nd_process_detach(&table, 3));
  EXPECT_EQ(nd_process_count(&table), 15u);
  EXPECT_EQ(nd_process_attach(&table, 17), 0);
}

TEST(DatastoreTable, TakesTheSlotThatIsFreeForLongest) {
  nd_datastore_table table = {};
  uint32_t slot = 0;
  EXPECT_EQ(nd_datastore_acquire(&table, 50, false, &slot), -ND_ENOENT);
  for (int32_t pid = 1; pid <= 16; ++pid) {
    ASSERT_EQ(nd_datastore_acquire(&table, pid, true, &slot), 0);
  }
  EXPECT_EQ(nd_datastore_acquire(&table, 17, true, &slot), -ND_ENOMEM);
  uint32_t first = 0;
  ASSERT_EQ(nd_datastore_release(&table, 9, &first), 0);
  ASSERT_EQ(nd_datastore_release(&table, 2, &slot), 0);
  EXPECT_EQ(nd_datastore_release(&table, 2, &slot), -ND_ENOENT);
  ASSERT_EQ(nd_datastore_acquire(&table, 17, true, &slot), 0);
  EXPECT_EQ(slot, first);
}

TEST(Notification, RegistersFollowTheIndexAndNotTheType) {
  const nd_nq_key notify = {0, false, 1, 2};
  EXPECT_EQ(nd_nq_register_base(&nd_chip_v2, &notify), 0x30535000u + 0x100 + 2 * 0x28);
  EXPECT_EQ(nd_nq_slot(&notify), 18u);
  const nd_nq_key topsp = {3, true, 3, 0};
  EXPECT_EQ(nd_nq_register_base(&nd_chip_v2, &topsp), 0x30E04000u + 3 * 0x40000 + 0x100);
  const nd_nq_key dma = {1, false, 4, 5};
  EXPECT_EQ(nd_nq_register_base(&nd_chip_v2, &dma), 0x30B00000u + 5 * 0x7000 + 0x1000 + 0x100);
  EXPECT_EQ(nd_nq_check(&nd_chip_v2, &notify, 4096), 0);
  EXPECT_EQ(nd_nq_check(&nd_chip_v2, &notify, 4097), -ND_EINVAL);
  EXPECT_EQ(nd_nq_check(&nd_chip_v2, &notify, 0), -ND_EINVAL);
  const nd_nq_key bad = {2, false, 0, 0};
  EXPECT_EQ(nd_nq_check(&nd_chip_v2, &bad, 4096), -ND_EINVAL);
}

TEST(Accounting, KeepsTotalsAndPeaksByCategory) {
  nd_accounting accounting = {};
  nd_account_allocate(&accounting, 9, false, 100);
  nd_account_allocate(&accounting, 99, false, 10);
  nd_account_allocate(&accounting, 99, true, 1);
  nd_account_free(&accounting, 9, false, 100);
  EXPECT_EQ(accounting.category[9].total, 0u);
  EXPECT_EQ(accounting.category[9].peak, 100u);
  EXPECT_EQ(accounting.category[NEURON_MEMALLOC_TYPE_UNKNOWN_DEVICE].total, 10u);
  EXPECT_EQ(accounting.category[NEURON_MEMALLOC_TYPE_UNKNOWN_HOST].total, 1u);
  EXPECT_EQ(accounting.device.total, 10u);
}

TEST(IoctlTable, FormsOfOneCallAreToldApartBySize) {
  const nd_ioctl* row = nullptr;
  ASSERT_EQ(nd_ioctl_find(NEURON_IOCTL_MEM_ALLOC_V2, &row), 0);
  EXPECT_STREQ(row->name, "MEM_ALLOC_V2");
  ASSERT_EQ(nd_ioctl_find(NEURON_IOCTL_MEM_ALLOC_V2MT64, &row), 0);
  EXPECT_EQ(row->argument_size, 56u);
  ASSERT_EQ(nd_ioctl_find(_IOW('N', 102, char[48]), &row), 0);  // direction does not count here
  EXPECT_STREQ(row->name, "MEM_ALLOC_V2MT");
  EXPECT_EQ(nd_ioctl_find(_IOR('N', 102, char[52]), &row), -ND_EINVAL);
  EXPECT_NE(row, nullptr);
  EXPECT_EQ(nd_ioctl_find(_IOW('N', 22, char[8]), &row), -ND_EINVAL);  // but here it does
  EXPECT_EQ(nd_ioctl_find(_IO('N', 99), &row), -ND_EINVAL);
  EXPECT_EQ(row, nullptr);
}

TEST(IoctlTable, AccessFollowsTheThreeClasses) {
  const nd_ioctl* row = nullptr;
  ASSERT_EQ(nd_ioctl_find(NEURON_IOCTL_COMPATIBLE_VERSION, &row), 0);
  EXPECT_EQ(row->access, ND_ACCESS_ANY);
  ASSERT_EQ(nd_ioctl_find(NEURON_IOCTL_DEVICE_INFO, &row), 0);
  EXPECT_EQ(row->access, ND_ACCESS_FULL);
  ASSERT_EQ(nd_ioctl_find(NEURON_IOCTL_MEM_COPY, &row), 0);
  EXPECT_EQ(row->access, ND_ACCESS_ATTACHED);
}

TEST(IoctlTable, EveryFormOfACallAsksTheSameOfItsCaller) {
  const unsigned long forms[][4] = {
      {NEURON_IOCTL_MEM_ALLOC, NEURON_IOCTL_MEM_ALLOC_V2, NEURON_IOCTL_MEM_ALLOC_V2MT,
       NEURON_IOCTL_MEM_ALLOC_V2MT64},
      {NEURON_IOCTL_MEM_COPY, NEURON_IOCTL_MEM_COPY64},
      {NEURON_IOCTL_MEM_COPY_ASYNC, NEURON_IOCTL_MEM_COPY_ASYNC64,
       NEURON_IOCTL_MEM_COPY_ASYNC_WAIT},
      {NEURON_IOCTL_MEM_COPY, NEURON_IOCTL_MEM_BUF_COPY, NEURON_IOCTL_MEM_BUF_COPY64},
      {NEURON_IOCTL_MEM_COPY, NEURON_IOCTL_MEM_BUF_ZEROCOPY64_2_24, NEURON_IOCTL_MEM_BUF_ZEROCOPY64,
       NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES},
      {NEURON_IOCTL_MEM_COPY, NEURON_IOCTL_MEMSET, NEURON_IOCTL_MEMSET64},
      {NEURON_IOCTL_MEM_GET_PA, NEURON_IOCTL_MEM_GET_INFO, NEURON_IOCTL_MEM_GET_EXTENDED_INFO},
      {NEURON_IOCTL_BAR_WRITE, NEURON_IOCTL_PROGRAM_ENGINE, NEURON_IOCTL_PROGRAM_ENGINE_NC,
       NEURON_IOCTL_PROGRAM_ENGINE_NC64},
      {NEURON_IOCTL_DMA_QUEUE_INIT, NEURON_IOCTL_DMA_QUEUE_INIT_BATCH,
       NEURON_IOCTL_DMA_QUEUE_COPY_START},
      {NEURON_IOCTL_DMA_COPY_DESCRIPTORS, NEURON_IOCTL_DMA_COPY_DESCRIPTORS64},
  };
  for (const auto& form : forms) {
    for (const unsigned long request : form) {
      const nd_ioctl* row = nullptr;
      if (request == 0) continue;
      ASSERT_EQ(nd_ioctl_find(request, &row), 0);
      EXPECT_EQ(row->access, ND_ACCESS_ATTACHED) << row->name;
    }
  }
}

}  // namespace
