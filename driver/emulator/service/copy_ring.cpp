// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/copy_ring.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstring>

#include "driver/base/abandonment.h"
#include "driver/base/backoff.h"
#include "driver/core/queue.h"
#include "driver/emulator/service/error.h"
#include "hw/address_map.h"
#include "hw/udma.h"

namespace neuron::service {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kPatternBytes = 64 << 10;
// What the public driver grants a descriptor of this chip, and slack for a loaded host.
constexpr auto kPerPacket = std::chrono::milliseconds(40);
constexpr auto kSlack = std::chrono::seconds(2);
constexpr base::Backoff::Steps kLooks = {0, 64, std::chrono::microseconds(50),
                                         std::chrono::microseconds(50)};
constexpr uint32_t kStateAbort = 3;

}  // namespace

CopyRing::CopyRing(unsigned device, unsigned core, chip::Chip& chip, IoSpace& io)
    : device_(device),
      core_(core),
      chip_(chip),
      layout_(*nd_chip_for_device(chip.config().pci_device)),
      io_(io) {
  nd_queue_host_copy(&layout_, core, &engine_, &queue_);
  chip_.keep_queue(engine_, queue_);
}

int CopyRing::create(DeviceMemory& memory) {
  AllocateRequest request;
  request.host = true;
  request.core = core_;
  request.category = NEURON_MEMALLOC_TYPE_DMA_RINGS_HOST;
  request.with_handle = false;
  request.own = true;
  request.size = kDescriptors * NEURON_DESC_BYTES;
  if (int error = memory.allocate(request, &source_ring_)) return error;
  if (int error = memory.allocate(request, &destination_ring_)) return error;
  request.category = NEURON_MEMALLOC_TYPE_NCDEV_HOST;
  request.size = ND_PAGE_SIZE;
  if (int error = memory.allocate(request, &marker_)) return error;
  request.size = kPatternBytes;
  if (int error = memory.allocate(request, &pattern_)) return error;
  return nd_ring_init(&ring_, reinterpret_cast<nd_descriptor*>(source_ring_->data),
                      reinterpret_cast<nd_descriptor*>(destination_ring_->data), kDescriptors);
}

void CopyRing::restart() {
  const std::lock_guard lock(mutex_);
  restart_locked();
}

void CopyRing::restart_locked() {
  const nd_queue_ring tx = {source_ring_->address, kDescriptors};
  const nd_queue_ring rx = {destination_ring_->address, kDescriptors};
  nd_register_write writes[ND_QUEUE_INIT_WRITES];
  const size_t count = nd_queue_init_sequence(&layout_, engine_, queue_, &tx, &rx, writes);
  // Out of the abort state that an error leaves: bit 0 asks for normal operation.
  chip_.write_register(nd_chip_udma(&layout_, engine_) + NEURON_UDMA_M2S + NEURON_UDMA_CHANGE_STATE,
                       1);
  chip_.write_register(nd_chip_udma(&layout_, engine_) + NEURON_UDMA_S2M + NEURON_UDMA_CHANGE_STATE,
                       1);
  for (size_t i = 0; i < count; ++i) chip_.write_register(writes[i].offset, writes[i].value);
  nd_ring_reset(&ring_);
}

int CopyRing::give_up() {
  restart_locked();
  return fail(-ECANCELED, "device %u core %u: nobody waits any more for a copy, it was given up",
              device_, core_);
}

int CopyRing::report(uint64_t destination, uint64_t source, bool timed_out) {
  const uint64_t unit = nd_chip_udma(&layout_, engine_);
  const uint32_t m2s = chip_.read_register(unit + NEURON_UDMA_M2S + NEURON_UDMA_STATE);
  const uint32_t s2m = chip_.read_register(unit + NEURON_UDMA_S2M + NEURON_UDMA_STATE);
  const uint32_t head =
      chip_.read_register(nd_queue_register(&layout_, engine_, queue_, true, NEURON_UDMAQ_HEAD)) &
      NEURON_UDMA_INDEX_MASK;
  nd_descriptor from{};
  nd_descriptor to{};
  if (head < kDescriptors) {
    std::memcpy(&from, &ring_.source[head], sizeof(from));
    std::memcpy(&to, &ring_.destination[head], sizeof(to));
  }
  const int error = timed_out ? -ETIMEDOUT : -EIO;
  fail(error,
       "device %u core %u: copy from 0x%" PRIx64 " to 0x%" PRIx64
       " %s on DMA engine %u queue %u, ring index %u (descriptor 0x%" PRIx64 " to 0x%" PRIx64
       ", states 0x%x and 0x%x); the queue was set up anew",
       device_, core_, source, destination,
       timed_out
           ? "did not finish in time"
           : "was given up by the engine (an unmapped address, or an error of memory or engine)",
       engine_, queue_, head, from.address, to.address, m2s, s2m);
  restart_locked();
  return error;
}

bool CopyRing::is_aborted() {
  const uint64_t unit = nd_chip_udma(&layout_, engine_) + NEURON_UDMA_STATE;
  return nd_engine_state(chip_.read_register(unit + NEURON_UDMA_M2S)) == kStateAbort ||
         nd_engine_state(chip_.read_register(unit + NEURON_UDMA_S2M)) == kStateAbort;
}

int CopyRing::await(uint32_t packets, uint64_t destination, uint64_t source) {
  const auto* arrived = reinterpret_cast<const uint32_t*>(marker_->data) + 1;
  Clock::time_point deadline{};
  base::Backoff backoff(kLooks);
  for (bool first = true;; first = false) {  // bounded: by `deadline`
    // Pairs with the DMA engine's write of the marker, which follows the data in queue order.
    if (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) == NEURON_DMA_COMPLETION_MARKER) return 0;
    // At once, and again before each sleep: an engine that has given up will not write the marker.
    if (base::Abandonment::seen()) return give_up();
    if ((first || backoff.sleeps()) && is_aborted()) return report(destination, source, false);
    if (first) {
      deadline = Clock::now() + kSlack + kPerPacket * packets;
    } else if (Clock::now() >= deadline) {
      return report(destination, source, true);
    }
    backoff.wait();
  }
}

int CopyRing::copy_locked(uint64_t destination, uint64_t source, uint64_t size, uint32_t pattern) {
  nd_copy copy = {source, destination, size, pattern};
  auto* marker = reinterpret_cast<uint32_t*>(marker_->data);
  while (copy.remaining) {
    const uint64_t from = copy.source;
    const uint64_t to = copy.destination;
    marker[0] = NEURON_DMA_COMPLETION_MARKER;
    marker[1] = 0;
    uint32_t packets = nd_ring_push_copy(&ring_, &copy, 1, ND_BARRIER_WRITE);
    nd_ring_push(&ring_, marker_->address, marker_->address + 4, 4, ND_BARRIER_NONE);
    ++packets;
    // The descriptors above must be in memory before the engine is told; pairs with the acquire of
    // its descriptor fetch.
    std::atomic_thread_fence(std::memory_order_release);
    chip_.write_register(nd_queue_register(&layout_, engine_, queue_, false, NEURON_UDMAQ_TAIL_INC),
                         packets);
    chip_.write_register(nd_queue_register(&layout_, engine_, queue_, true, NEURON_UDMAQ_TAIL_INC),
                         packets);
    if (int error = await(packets, to, from)) return error;
    nd_ring_release(&ring_, packets);
  }
  return 0;
}

int CopyRing::copy(uint64_t destination, uint64_t source, uint64_t size, uint32_t pattern) {
  const std::lock_guard lock(mutex_);
  return copy_locked(destination, source, size, pattern);
}

int CopyRing::move(std::byte* memory, uint64_t address, uint64_t size, bool to_device) {
  if (size == 0) return 0;
  const std::lock_guard lock(mutex_);
  const uint64_t io = io_.map_own(memory, size);
  if (!io) {
    return fail(-ENOMEM,
                "device %u core %u: no I/O addresses left for a buffer of %" PRIu64 " bytes",
                device_, core_, size);
  }
  const uint64_t host = layout_.host_base | io;
  const int error =
      to_device ? copy_locked(address, host, size, 0) : copy_locked(host, address, size, 0);
  io_.unmap(io, size);
  return error;
}

int CopyRing::write(uint64_t destination, const void* source, uint64_t size) {
  // The engine only reads through this mapping.
  return move(const_cast<std::byte*>(static_cast<const std::byte*>(source)), destination, size,
              true);
}

int CopyRing::read(void* destination, uint64_t source, uint64_t size) {
  return move(static_cast<std::byte*>(destination), source, size, false);
}

int CopyRing::fill_locked(uint64_t destination, uint64_t size) {
  return copy_locked(destination, pattern_->address, size, kPatternBytes);
}

int CopyRing::fill(uint64_t destination, uint8_t value, uint64_t size) {
  const std::lock_guard lock(mutex_);
  std::memset(pattern_->data, value, std::min(size, kPatternBytes));
  return fill_locked(destination, size);
}

int CopyRing::fill32(uint64_t destination, uint32_t value, uint64_t size) {
  const std::lock_guard lock(mutex_);
  auto* words = reinterpret_cast<uint32_t*>(pattern_->data);
  std::fill(words, words + kPatternBytes / sizeof(uint32_t), value);
  return fill_locked(destination, size);
}

}  // namespace neuron::service
