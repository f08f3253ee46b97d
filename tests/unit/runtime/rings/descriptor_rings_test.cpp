// SPDX-License-Identifier: Apache-2.0
#include "runtime/rings/descriptor_rings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hw/udma.h"
#include "tests/unit/runtime/fake_device.h"
#include "tests/unit/runtime/rings/ring_sample.h"

namespace neuron::runtime {
namespace {

using test::FakeMachine;
using ::testing::HasSubstr;

struct Descriptor {
  uint32_t control, meta;
  uint64_t address;
};
struct Entry {
  uint64_t address;
  uint32_t value, zero;
};

// Variables 0 and 1, one queue on `engines` DMA engines, one transfer of `bytes`.
RingPlan plan_of(uint64_t bytes, uint32_t engines,
                 neff::DmaOperation operation = neff::DmaOperation::kCopy, uint8_t priority = 0) {
  neff::DmaAccess from;
  from.sizes = {bytes, 1, 1, 1};
  from.offset = 16;
  if (operation == neff::DmaOperation::kCast) from.dtype = NEURON_DTYPE_F32;
  neff::DmaAccess to = from;
  to.offset = 32;
  neff::Subgraph graph = test::one_transfer(from, to, engines, operation);
  for (neff::EngineProgram& program : graph.engines) {
    for (neff::DmaTransfer& transfer : program.dma) transfer.priority = priority;
  }
  auto plan = RingPlan::build(graph);
  if (!plan) throw std::runtime_error(plan.error().sentence);
  return std::move(*plan);
}

// Of the variables, the constant 1, the semaphores, the events.
const std::vector<uint64_t> kAddresses = {0x10000, 0x20000, 0x30000, 0x40000, 0x50000};

TEST(DescriptorRings, OfAModelWithoutTransfersHasNoMemoryAndNoQueues) {
  FakeMachine machine;
  const auto set = DescriptorRings::create(*machine.device, 0, RingPlan(), {});
  ASSERT_TRUE(set);
  EXPECT_EQ((*set)->table_address(), 0u);
  EXPECT_EQ((*set)->table_entries(), 0u);
  EXPECT_TRUE((*set)->initialize_queues(RingPlan()));
  EXPECT_TRUE(machine.state.memory.empty());
}

TEST(DescriptorRings, FillsDescriptorsWithAddresses) {
  FakeMachine machine;
  const RingPlan plan = plan_of(512, 1);
  const auto set = DescriptorRings::create(*machine.device, 0, plan, kAddresses);
  ASSERT_TRUE(set) << set.error().sentence;
  const RingPair& ring = plan.queues()[0].rings[0];
  const uint64_t half = (uint64_t{ring.m2s_length} * 16 + NEURON_UDMA_RING_ALIGN - 1) /
                        NEURON_UDMA_RING_ALIGN * NEURON_UDMA_RING_ALIGN;
  const auto* bytes = machine.state.memory.at(0x10).bytes.get();
  const auto* sources = reinterpret_cast<const Descriptor*>(bytes);
  const auto* targets = reinterpret_cast<const Descriptor*>(bytes + half);
  const uint32_t ring_id = 1u << NEURON_DESC_RING_ID_SHIFT;
  EXPECT_EQ(sources[0].control, 512 | ring_id | NEURON_DESC_FIRST | NEURON_DESC_LAST);
  EXPECT_EQ(sources[0].meta, NEURON_META_DEFAULT | NEURON_META_WRITE_BARRIER);
  EXPECT_EQ(sources[0].address, 0x10010u);
  EXPECT_EQ(targets[0].control, 512 | ring_id);
  EXPECT_EQ(targets[0].meta, 0u);
  EXPECT_EQ(targets[0].address, 0x20020u);
  // Then 1 is added to the semaphore, behind all writes.
  EXPECT_EQ(sources[1].control, 4 | ring_id | NEURON_DESC_FIRST | NEURON_DESC_LAST);
  EXPECT_EQ(sources[1].meta, NEURON_META_DEFAULT);
  EXPECT_EQ(sources[1].address, 0x30000u);
  EXPECT_EQ(targets[1].address, 0x40000u + 33 * 4);
  EXPECT_EQ(sources[2].control, 0u) << "free slots are zero";
}

TEST(DescriptorRings, WritesALengthOf64KiBAsZero) {
  FakeMachine machine;
  const auto set = DescriptorRings::create(*machine.device, 0, plan_of(65536, 1), kAddresses);
  ASSERT_TRUE(set);
  const auto* sources =
      reinterpret_cast<const Descriptor*>(machine.state.memory.at(0x10).bytes.get());
  EXPECT_EQ(sources[0].control & NEURON_DESC_LENGTH_MASK, 0u);
}

TEST(DescriptorRings, MarksMetadataAndTheOperationOfAComputePacket) {
  FakeMachine machine;
  const auto set = DescriptorRings::create(*machine.device, 0,
                                           plan_of(512, 1, neff::DmaOperation::kCast), kAddresses);
  ASSERT_TRUE(set) << set.error().sentence;
  const auto* sources =
      reinterpret_cast<const Descriptor*>(machine.state.memory.at(0x10).bytes.get());
  EXPECT_NE(sources[0].control & NEURON_DESC_META, 0u);
  EXPECT_NE(sources[0].control & NEURON_DESC_FIRST, 0u);
  EXPECT_EQ(sources[0].control & NEURON_DESC_LAST, 0u);
  EXPECT_EQ(sources[1].meta >> NEURON_META_OP_SHIFT & 7,
            static_cast<uint32_t>(NEURON_META_OP_COMPUTE));
  EXPECT_EQ(sources[1].meta >> NEURON_META_TYPE_SHIFT & 7, static_cast<uint32_t>(NEURON_DMA_CAST));
  EXPECT_NE(sources[1].control & NEURON_DESC_LAST, 0u);
}

TEST(DescriptorRings, WritesTheClassOfServiceIntoTheDescriptorThatOpensAPacket) {
  for (const auto operation : {neff::DmaOperation::kCopy, neff::DmaOperation::kCast}) {
    FakeMachine machine;
    const auto set =
        DescriptorRings::create(*machine.device, 0, plan_of(512, 1, operation, 2), kAddresses);
    ASSERT_TRUE(set) << set.error().sentence;
    const auto* sources =
        reinterpret_cast<const Descriptor*>(machine.state.memory.at(0x10).bytes.get());
    const auto class_of = [&](unsigned slot) {
      return sources[slot].meta >> NEURON_META_CLASS_SHIFT & (NEURON_DMA_CLASSES - 1);
    };
    EXPECT_EQ(class_of(0), 2U);
    EXPECT_EQ(class_of(1), operation == neff::DmaOperation::kCopy ? 2U : 0U);
    EXPECT_EQ(class_of(2), operation == neff::DmaOperation::kCopy ? 0U : 2U);
  }
}

TEST(DescriptorRings, MarksThePacketThatDecompresses) {
  FakeMachine machine;
  const auto set = DescriptorRings::create(
      *machine.device, 0, plan_of(512, 1, neff::DmaOperation::kDecompress), kAddresses);
  ASSERT_TRUE(set) << set.error().sentence;
  const auto* sources =
      reinterpret_cast<const Descriptor*>(machine.state.memory.at(0x10).bytes.get());
  EXPECT_EQ(sources[0].meta, static_cast<uint32_t>(NEURON_DMA_DECOMPRESS));
  EXPECT_EQ(sources[0].address, 512u) << "bytes of the result";
  EXPECT_EQ(sources[1].meta >> NEURON_META_OP_SHIFT & 7,
            static_cast<uint32_t>(NEURON_META_OP_RECODE));
  EXPECT_EQ(sources[1].meta >> NEURON_META_TYPE_SHIFT & 7, 1u);
}

TEST(DescriptorRings, HasATableThatPointsBothSidesOfEachQueueToTheirRings) {
  FakeMachine machine;
  const RingPlan plan = plan_of(4096, 2);
  const auto set = DescriptorRings::create(*machine.device, 1, plan, kAddresses);
  ASSERT_TRUE(set);
  EXPECT_EQ((*set)->table_entries(), 8u) << "two engines, two sides, two halves of an address";
  const auto& table = machine.state.at_address((*set)->table_address());
  EXPECT_EQ(table.request.align, 16384u);
  EXPECT_EQ((*set)->table_address() % 16384, 0u);
  const auto* entries = reinterpret_cast<const Entry*>(table.bytes.get());
  const uint64_t rings = machine.state.memory.at(0x10).address;
  const CorePlace place = machine.device->place(1);
  const uint8_t number = plan.queues()[0].number;
  EXPECT_EQ(entries[0].address,
            place.queue_register(0, NEURON_UDMA_M2S, number, NEURON_UDMAQ_BASE_LO));
  EXPECT_EQ(entries[0].value, static_cast<uint32_t>(rings));
  EXPECT_EQ(entries[1].address,
            place.queue_register(0, NEURON_UDMA_M2S, number, NEURON_UDMAQ_BASE_HI));
  EXPECT_EQ(entries[1].value, static_cast<uint32_t>(rings >> 32));
  EXPECT_EQ(entries[2].address,
            place.queue_register(0, NEURON_UDMA_S2M, number, NEURON_UDMAQ_BASE_LO));
  EXPECT_EQ(entries[4].address,
            place.queue_register(1, NEURON_UDMA_M2S, number, NEURON_UDMAQ_BASE_LO));
  const uint64_t one = entries[4].value - entries[0].value;
  EXPECT_EQ(one % NEURON_UDMA_RING_ALIGN, 0u);
  EXPECT_GE(one, uint64_t{plan.queues()[0].rings[0].m2s_length} * 16);
  EXPECT_EQ(entries[2].value - entries[0].value, 2 * one) << "S2M rings lie behind all M2S rings";
}

TEST(DescriptorRings, GivesEveryQueueItsLengthsAndItsMemory) {
  FakeMachine machine;
  const RingPlan plan = plan_of(4096, 3);
  const auto set = DescriptorRings::create(*machine.device, 1, plan, kAddresses);
  ASSERT_TRUE(set);
  ASSERT_TRUE((*set)->initialize_queues(plan));
  ASSERT_EQ(machine.state.queues.size(), 3u);
  for (uint32_t engine = 0; engine < 3; ++engine) {
    const auto& queue = machine.state.queues[engine];
    EXPECT_EQ(queue.eng_id, 16 + engine);
    EXPECT_EQ(queue.qid, plan.queues()[0].number);
    EXPECT_EQ(queue.tx_desc_count, plan.queues()[0].rings[engine].m2s_length);
    EXPECT_EQ(queue.rx_desc_count, plan.queues()[0].rings[engine].s2m_length);
    EXPECT_EQ(queue.tx_handle, 0x10u);
    EXPECT_EQ(queue.rx_handle, 0x10u);
  }
}

TEST(DescriptorRings, SaysWhatTheDriverRefused) {
  FakeMachine machine;
  const RingPlan plan = plan_of(64, 1);
  machine.state.failing[NEURON_IOCTL_DMA_COPY_DESCRIPTORS64] = -EINVAL;
  const auto refused = DescriptorRings::create(*machine.device, 0, plan, kAddresses);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, NRT_INVALID);
  EXPECT_THAT(refused.error().sentence, HasSubstr("writing 4 DMA descriptors of device 0 core 0"));
  machine.state.failing.clear();
  const auto set = DescriptorRings::create(*machine.device, 0, plan, kAddresses);
  machine.state.failing[NEURON_IOCTL_DMA_QUEUE_INIT_BATCH] = -EIO;
  const auto queues = (*set)->initialize_queues(plan);
  ASSERT_FALSE(queues);
  EXPECT_EQ(queues.error().status, NRT_FAILURE);
  EXPECT_THAT(queues.error().sentence, HasSubstr("setting up 1 DMA queues of device 0 core 0"));
}

}  // namespace
}  // namespace neuron::runtime
