// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core_trace.h"

#include <cstring>

#include "runtime/base/log.h"

namespace neuron::runtime {
namespace {

// A quarter of a million entries: what the emulated core writes in some tens of milliseconds, and
// this process reads every two.
constexpr uint32_t kRingBytes = 8u << 20;
constexpr size_t kEntriesAtOnce = 4096;

unsigned kind_of(const neuron_notification& entry) {
  return (entry.word >> NEURON_NW_KIND_SHIFT) & 0xF;
}

}  // namespace

Result<std::unique_ptr<CoreTrace>> CoreTrace::create(Core& core, std::shared_ptr<TraceSink> sink) {
  std::unique_ptr<CoreTrace> trace(new CoreTrace(core, std::move(sink)));
  trace->entries_.resize(kEntriesAtOnce);
  for (uint32_t slot = 0; slot <= NEURON_NQ_SLOT_TRANSFER; ++slot) {
    const bool wanted = slot < NEURON_CORE_ENGINES || slot == NEURON_NQ_SLOT_SEMAPHORE ||
                        slot == NEURON_NQ_SLOT_TRANSFER;
    if (!wanted) continue;
    const MemoryRequest request{.size = kRingBytes,
                                .host = true,
                                .core = core.number(),
                                .category = NEURON_MEMALLOC_TYPE_MISC_HOST,
                                .purpose = "a ring of profiling"};
    NEURON_TRY(memory, DeviceMemory::allocate(core.device(), request));
    NEURON_CHECK(memory->map());
    trace->rings_.push_back({.slot = slot, .memory = std::move(memory)});
  }
  NEURON_CHECK(trace->start());
  return trace;
}

CoreTrace::~CoreTrace() {
  if (core_.unusable()) return;
  Result<void> stopped = set_modes(0);
  for (const Ring& ring : rings_) {
    if (stopped) {
      stopped = core_.device().write_register(queue_register(ring, NEURON_NQ_SIZE), 0);
    }
  }
  if (stopped) stopped = core_.restore_notifications();
  if (!stopped) {
    log_error(LogComponent::kTdrv, "the profile of device {} core {} could not be ended: {}",
              core_.device().index(), core_.number(), stopped.error().sentence);
  }
}

uint64_t CoreTrace::queue_register(const Ring& ring, uint32_t offset) const {
  return core_.place().notification() + NEURON_NQ_BASE(ring.slot) + offset;
}

Result<void> CoreTrace::start() {
  for (Ring& ring : rings_) {
    NEURON_TRY(bytes, ring.memory->map());
    std::memset(bytes, 0, kRingBytes);
    ring.reader.attach(bytes, kRingBytes);
    ring.unacknowledged = 0;
    ring.may_lack = false;
    const uint64_t address = ring.memory->address();
    const Device& device = core_.device();
    NEURON_CHECK(device.write_register(queue_register(ring, NEURON_NQ_MODE), 0));
    NEURON_CHECK(device.write_register(queue_register(ring, NEURON_NQ_ADDRESS_HI),
                                       static_cast<uint32_t>(address >> 32)));
    NEURON_CHECK(device.write_register(queue_register(ring, NEURON_NQ_ADDRESS_LO),
                                       static_cast<uint32_t>(address)));
    NEURON_CHECK(device.write_register(queue_register(ring, NEURON_NQ_SIZE), kRingBytes));
  }
  lost_before_ = lost_;
  return set_modes(kMode);
}

Result<void> CoreTrace::set_modes(uint32_t mode) {
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const uint64_t at = core_.place().window_bar0() + NEURON_CORE_ENGINE(engine) + NEURON_ENG_MODE;
    NEURON_TRY(now, core_.device().read_register(at));
    NEURON_CHECK(core_.device().write_register(at, (now & ~3u) | mode));
  }
  return {};
}

void CoreTrace::read(Ring& ring) {
  // What the device counts as in use lies between the acknowledged place and the last entry.
  uint64_t in_use = ring.unacknowledged;
  uint64_t taken = 0;
  // bounded: by one lap. A device that writes as fast as this reads would keep a wait from its
  // deadline.
  for (bool more = true; more;) {
    const size_t count = ring.reader.next(entries_.data(), entries_.size());
    taken += count;
    more = count == entries_.size() && taken < ring.reader.capacity();
    in_use += count;
    if (count == 0) break;
    if (ring.slot < NEURON_CORE_ENGINES) {
      for (const neuron_notification& entry : std::span(entries_).first(count)) {
        if (kind_of(entry) != NEURON_NK_COMPLETE) continue;
        busy_ps_[ring.slot] = uint64_t{entry.info[1]} << 32 | entry.info[0];
        retired_[ring.slot] = entry.info[2];
      }
    }
    sink_->take(ring.slot, std::span(entries_).first(count));
    ring.unacknowledged += static_cast<uint32_t>(count);
    // Not at every reading: a register costs as much as a hundred entries.
    if (ring.unacknowledged >= ring.reader.capacity() / 4) acknowledge(ring);
  }
  // The device drops an entry when one place is left. It keeps one more while it has to tell about
  // dropped ones.
  if (in_use + 2 >= ring.reader.capacity()) ring.may_lack = true;
}

void CoreTrace::acknowledge(Ring& ring) {
  ring.unacknowledged = 0;
  // A device that keeps its old reading position drops more; the count says so.
  (void)core_.device().write_register(queue_register(ring, NEURON_NQ_HEAD), ring.reader.position());
}

void CoreTrace::read() {
  for (Ring& ring : rings_) read(ring);
}

void CoreTrace::count_lost(const Ring& ring) {
  if (!ring.may_lack) return;
  const auto dropped = core_.device().read_register(queue_register(ring, NEURON_NQ_DROPPED));
  if (dropped) lost_ += *dropped;
}

void CoreTrace::end(TracedExecution execution) {
  read();
  lost_ = lost_before_;
  for (const Ring& ring : rings_) count_lost(ring);
  execution.lost = lost_;
  sink_->ended(execution);
}

}  // namespace neuron::runtime
