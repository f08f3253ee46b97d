// SPDX-License-Identifier: Apache-2.0
#include "runtime/rings/descriptor_rings.h"

#include <bit>
#include <cerrno>

#include "hw/isa.h"
#include "hw/udma.h"
#include "runtime/device/driver_error.h"

namespace neuron::runtime {
namespace {

struct Descriptor {
  uint32_t control;
  uint32_t meta;
  uint64_t address;
};
static_assert(sizeof(Descriptor) == NEURON_DESC_BYTES);

constexpr uint32_t kFirstRingId = 1;
constexpr uint32_t kMetaOperationBits = 7u << NEURON_META_OP_SHIFT | 7u << NEURON_META_TYPE_SHIFT;
// The SP program adds to the low word of an address only: a table must not cross 4 GiB.
constexpr uint64_t kEntryBytes = 16;
constexpr uint64_t kTableBytes = 16384;  // of registers
static_assert((kMaxQueues * kDmaEngines * 2 * 2 + 1) * kEntryBytes <= kTableBytes);
constexpr uint64_t kLongTableBytes = 65536;  // with pointers as well
static_assert(kTableBytes + kMaxPortPointers * 2 * kEntryBytes <= kLongTableBytes);

Descriptor source(const RingDescriptor& d, std::span<const uint64_t> addresses) {
  if (d.base == RingDescriptor::kEmpty) return {};
  uint32_t control = kFirstRingId << NEURON_DESC_RING_ID_SHIFT;
  if (d.first) control |= NEURON_DESC_FIRST;
  const uint32_t service_class = uint32_t{d.priority} << NEURON_META_CLASS_SHIFT;
  if (d.base == RingDescriptor::kMetadata) {
    return {control | NEURON_DESC_META, d.length | service_class, d.offset};
  }
  if (d.last) control |= NEURON_DESC_LAST;
  uint32_t meta = NEURON_META_DEFAULT | service_class;
  if (d.operation != NEURON_DMA_COPY) {
    const uint32_t kind =
        d.operation >= NEURON_DMA_COMPRESS ? NEURON_META_OP_RECODE : NEURON_META_OP_COMPUTE;
    meta = (meta & ~kMetaOperationBits) | kind << NEURON_META_OP_SHIFT |
           (d.operation & 7u) << NEURON_META_TYPE_SHIFT;
  }
  if (d.barrier) meta |= NEURON_META_WRITE_BARRIER;
  // Length 64 KiB is written as 0.
  return {control | (d.length & NEURON_DESC_LENGTH_MASK), meta, addresses[d.base] + d.offset};
}

Descriptor target(const RingDescriptor& d, std::span<const uint64_t> addresses) {
  if (d.base == RingDescriptor::kEmpty) return {};
  return {(d.length & NEURON_DESC_LENGTH_MASK) | kFirstRingId << NEURON_DESC_RING_ID_SHIFT, 0,
          addresses[d.base] + d.offset};
}

}  // namespace

Result<std::unique_ptr<DescriptorRings>> DescriptorRings::create(
    Device& device, uint32_t core, const RingPlan& plan, std::span<const uint64_t> addresses,
    std::span<const PortPointer> pointers) {
  std::unique_ptr<DescriptorRings> set(new DescriptorRings);
  if (plan.queues().empty() && pointers.empty()) return set;
  static_assert(sizeof(TableEntry) == kEntryBytes);
  std::vector<TableEntry> entries;
  for (const PortPointer& pointer : pointers) {
    const uint64_t address = addresses[pointer.variable];
    entries.push_back({pointer.place, static_cast<uint32_t>(address), 0});
    entries.push_back({pointer.place + 4, static_cast<uint32_t>(address >> 32), 0});
  }
  if (!plan.queues().empty()) {
    NEURON_CHECK(set->write_rings(device, core, plan, addresses, entries));
  }
  const uint64_t table_bytes = pointers.empty() ? kTableBytes : kLongTableBytes;
  NEURON_TRY(table,
             DeviceMemory::allocate(device, {.size = table_bytes,
                                             .alignment = table_bytes,
                                             .core = core,
                                             .category = NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE,
                                             .purpose = "the table of DMA rings"}));
  set->table_ = std::move(table);
  NEURON_CHECK(set->table_->write(entries.data(), 0, entries.size() * sizeof(TableEntry)));
  set->entries_ = static_cast<uint32_t>(entries.size());
  return set;
}

Result<void> DescriptorRings::write_rings(Device& device, uint32_t core, const RingPlan& plan,
                                          std::span<const uint64_t> addresses,
                                          std::vector<TableEntry>& entries) {
  const CorePlace place = device.place(core);

  const uint64_t half[2] = {plan.m2s_bytes(), plan.s2m_bytes()};
  // Calls of functions that share queues add to the low word of the address only.
  const uint64_t alignment = plan.shares() ? std::bit_ceil(half[0] + half[1]) : 0;
  NEURON_TRY(rings,
             DeviceMemory::allocate(device, {.size = half[0] + half[1],
                                             .alignment = alignment,
                                             .core = core,
                                             .category = NEURON_MEMALLOC_TYPE_DMA_RINGS_DEVICE,
                                             .purpose = "DMA rings"}));
  rings_ = std::move(rings);
  const uint64_t base = rings_->address();
  if (plan.shares()) entries.push_back({plan.base_place(), static_cast<uint32_t>(base), 0});

  std::vector<Descriptor> sources(half[0] / NEURON_DESC_BYTES, Descriptor{});
  std::vector<Descriptor> targets(half[1] / NEURON_DESC_BYTES, Descriptor{});
  for (const QueuePlan& queue : plan.queues()) {
    for (uint32_t engine = 0; engine < queue.engines; ++engine) {
      const RingPair& ring = queue.rings[engine];
      uint64_t slot = ring.m2s_offset / NEURON_DESC_BYTES;
      for (uint32_t copy = 0; copy < ring.m2s_copies; ++copy) {
        for (const RingDescriptor& d : ring.m2s) sources[slot++] = source(d, addresses);
      }
      slot = (ring.s2m_offset - half[0]) / NEURON_DESC_BYTES;
      for (uint32_t copy = 0; copy < ring.s2m_copies; ++copy) {
        for (const RingDescriptor& d : ring.s2m) targets[slot++] = target(d, addresses);
      }
      for (const auto& [side, address] : {std::pair{NEURON_UDMA_M2S, base + ring.m2s_offset},
                                          std::pair{NEURON_UDMA_S2M, base + ring.s2m_offset}}) {
        entries.push_back({place.queue_register(engine, side, queue.number, NEURON_UDMAQ_BASE_LO),
                           static_cast<uint32_t>(address), 0});
        entries.push_back({place.queue_register(engine, side, queue.number, NEURON_UDMAQ_BASE_HI),
                           static_cast<uint32_t>(address >> 32), 0});
      }
    }
  }
  const uint64_t handle = rings_->handle();
  int result = ndl_dma_copy_descriptors(
      handle, sources.data(), 0, static_cast<uint32_t>(sources.size()), NEURON_DMA_QUEUE_TYPE_TX);
  if (result == 0) {
    result =
        ndl_dma_copy_descriptors(handle, targets.data(), half[0],
                                 static_cast<uint32_t>(targets.size()), NEURON_DMA_QUEUE_TYPE_RX);
  }
  if (result != 0) {
    // Descriptors that a driver refuses are the program's fault; a device that is gone is not.
    const NRT_STATUS status = result == -ENODEV ? NRT_HW_ERROR : NRT_INVALID;
    return driver_error(status, result, "writing {} DMA descriptors of device {} core {}",
                        plan.descriptor_count(), device.index(), core);
  }
  return {};
}

Result<void> DescriptorRings::initialize_queues(const RingPlan& plan) const {
  if (rings_ == nullptr) return {};
  auto batch = std::make_unique<ndl_queue_init_batch>();
  const uint32_t core = rings_->core();
  const CorePlace place = rings_->device().place(core);
  auto submit = [&]() -> Result<void> {
    const int result = ndl_dma_queue_init_batch(rings_->device().index(), batch.get());
    if (result != 0) {
      return driver_error(NRT_FAILURE, result, "setting up {} DMA queues of device {} core {}",
                          batch->count, rings_->device().index(), core);
    }
    batch->count = 0;
    return {};
  };
  batch->count = 0;
  for (const QueuePlan& queue : plan.queues()) {
    for (uint32_t engine = 0; engine < queue.engines; ++engine) {
      ndl_queue_init& entry = batch->entries[batch->count++];
      entry = {};
      entry.eng_id = place.dma_engine(engine);
      entry.qid = queue.number;
      entry.tx_desc_count = queue.rings[engine].m2s_length;
      entry.rx_desc_count = queue.rings[engine].s2m_length;
      entry.tx_handle = rings_->handle();
      entry.rx_handle = rings_->handle();
      if (batch->count == MAX_NDL_QUEUE_INIT_BATCH - 1) NEURON_CHECK(submit());
    }
  }
  if (batch->count != 0) NEURON_CHECK(submit());
  return {};
}

}  // namespace neuron::runtime
