// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/core_trace.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/log.h"

namespace neuron::runtime {
namespace {

// A quarter of a million entries: what the emulated core writes in some tens of milliseconds, and
// this process reads every two.
constexpr uint32_t kTraceRingBytes = 8u << 20;
// A CC core executes one instruction for each message or so.
constexpr uint32_t kCollectiveRingBytes = 1u << 20;
constexpr size_t kEntriesAtOnce = 4096;
// Behind so many entries, an idle core begins its ring anew: a ring that goes on through fresh
// pages costs a short execution more than the execution itself. What one ring then fills stays in a
// cache of the second level beside the others.
constexpr uint32_t kEntriesBeforeRestart = 4096;
// Host memory comes as zeros: the kernel's coherent memory does, and that of emulated devices. What
// is no larger than this may come from a reserve that the public driver does not clear.
constexpr uint32_t kLargestOfReserve = 2u << 20;

unsigned kind_of(const neuron_notification& entry) {
  return (entry.word >> NEURON_NW_KIND_SHIFT) & 0xF;
}

}  // namespace

Result<std::unique_ptr<CoreTrace>> CoreTrace::create(Core& core, std::shared_ptr<TraceSink> sink) {
  std::unique_ptr<CoreTrace> trace(new CoreTrace(core, std::move(sink)));
  for (uint32_t slot = 0; slot <= NEURON_NQ_SLOT_TRANSFER; ++slot) {
    const bool wanted = slot < NEURON_CORE_ENGINES || slot == NEURON_NQ_SLOT_SEMAPHORE ||
                        slot == NEURON_NQ_SLOT_TRANSFER;
    if (!wanted) continue;
    const uint64_t registers = core.place().notification() + NEURON_NQ_BASE(slot);
    NEURON_CHECK(trace->add_ring(slot, registers, kTraceRingBytes));
  }
  for (uint32_t k = 0; k < std::min(core.place().chip->cc_cores, kMostCollectiveCores); ++k) {
    const uint64_t registers =
        core.place().cc_notification(k) + NEURON_NQ_BASE(NEURON_NQ_SLOT_TRACE(0));
    NEURON_CHECK(trace->add_ring(kCollectiveRing + k, registers, kCollectiveRingBytes));
  }
  NEURON_CHECK(trace->start());
  return trace;
}

Result<void> CoreTrace::add_ring(uint32_t slot, uint64_t registers, uint32_t bytes) {
  const MemoryRequest request{.size = bytes,
                              .host = true,
                              .core = core_.number(),
                              .category = NEURON_MEMALLOC_TYPE_MISC_HOST,
                              .purpose = "a ring of profiling"};
  NEURON_TRY(memory, DeviceMemory::allocate(core_.device(), request));
  NEURON_CHECK(memory->map());
  rings_.push_back({.slot = slot,
                    .registers = registers,
                    .bytes = bytes,
                    .memory = std::move(memory),
                    .zeros = bytes > kLargestOfReserve});
  return {};
}

CoreTrace::~CoreTrace() {
  if (core_.unusable()) return;
  Result<void> stopped = set_modes(0);
  for (const Ring& ring : rings_) {
    if (stopped) {
      stopped = core_.device().write_register(ring.registers + NEURON_NQ_SIZE, 0);
    }
  }
  if (stopped) stopped = core_.restore_notifications();
  if (!stopped) {
    log_error(LogComponent::kTdrv, "the profile of device {} core {} could not be ended: {}",
              core_.device().index(), core_.number(), stopped.error().sentence);
  }
}

Result<void> CoreTrace::start() {
  for (Ring& ring : rings_) {
    NEURON_TRY(bytes, ring.memory->map());
    // To touch every page of a new ring took longer than many a profile.
    if (!ring.zeros) std::memset(bytes, 0, ring.bytes);
    ring.zeros = false;
    ring.reader.attach(bytes, ring.bytes);
    ring.unacknowledged = 0;
    ring.may_lack = false;
    const uint64_t address = ring.memory->address();
    const Device& device = core_.device();
    NEURON_CHECK(device.write_register(ring.registers + NEURON_NQ_MODE, 0));
    NEURON_CHECK(device.write_register(ring.registers + NEURON_NQ_ADDRESS_HI,
                                       static_cast<uint32_t>(address >> 32)));
    NEURON_CHECK(device.write_register(ring.registers + NEURON_NQ_ADDRESS_LO,
                                       static_cast<uint32_t>(address)));
    NEURON_CHECK(device.write_register(ring.registers + NEURON_NQ_SIZE, ring.bytes));
  }
  lost_before_ = lost_;
  return set_modes(kMode);
}

Result<void> CoreTrace::set_modes(uint32_t mode) {
  const CorePlace& place = core_.place();
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    NEURON_CHECK(set_mode(place.window_bar0() + NEURON_CORE_ENGINE(engine), mode));
  }
  for (uint32_t k = 0; k < std::min(place.chip->cc_cores, kMostCollectiveCores); ++k) {
    NEURON_CHECK(set_mode(place.cc_bar0(k) + NEURON_CC_ENGINE, mode));
  }
  return {};
}

Result<void> CoreTrace::set_mode(uint64_t engine, uint32_t mode) const {
  const uint64_t at = engine + NEURON_ENG_MODE;
  NEURON_TRY(now, core_.device().read_register(at));
  return core_.device().write_register(at, (now & ~3u) | mode);
}

void CoreTrace::read(Ring& ring) {
  // What the device counts as in use lies between the acknowledged place and the last entry.
  uint64_t in_use = ring.unacknowledged;
  uint64_t taken = 0;
  // bounded: by one lap. A device that writes as fast as this reads would keep a wait from its
  // deadline.
  while (taken < ring.reader.capacity()) {
    const auto entries = ring.reader.next(kEntriesAtOnce);
    if (entries.empty()) break;
    taken += entries.size();
    in_use += entries.size();
    if (ring.slot < NEURON_CORE_ENGINES) {
      // The last one counts, and is near the end.
      const auto last = std::find_if(entries.rbegin(), entries.rend(), [](const auto& entry) {
        return kind_of(entry) == NEURON_NK_COMPLETE;
      });
      if (last != entries.rend()) {
        busy_ps_[ring.slot] = uint64_t{last->info[1]} << 32 | last->info[0];
        retired_[ring.slot] = last->info[2];
      }
    }
    sink_->take(ring.slot, entries);
    ring.unacknowledged += static_cast<uint32_t>(entries.size());
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
  (void)core_.device().write_register(ring.registers + NEURON_NQ_HEAD, ring.reader.position());
}

void CoreTrace::read() {
  for (Ring& ring : rings_) read(ring);
}

// Only in a lap of the first phase, behind whose last entry lie zeros or entries of the other
// phase. The device then begins at the first place with the first phase again, so what lies there
// must not look like an entry of it.
void CoreTrace::restart(Ring& ring) {
  if (ring.reader.position() < kEntriesBeforeRestart || !ring.reader.in_first_phase() ||
      ring.may_lack) {
    return;
  }
  const auto bytes = ring.memory->map();
  const uint64_t size = ring.registers + NEURON_NQ_SIZE;
  // Without a size it writes nothing, so that no entry comes behind the last one that is read.
  if (!bytes || !core_.device().write_register(size, 0)) return;
  read(ring);
  std::memset(*bytes, 0, size_t{ring.reader.position()} * NEURON_NOTIFICATION_BYTES);
  ring.reader.attach(*bytes, ring.bytes);
  ring.unacknowledged = 0;
  // A device that refuses is gone, and the next execution says so.
  (void)core_.device().write_register(size, ring.bytes);
}

void CoreTrace::count_lost(const Ring& ring) {
  if (!ring.may_lack) return;
  const auto dropped = core_.device().read_register(ring.registers + NEURON_NQ_DROPPED);
  if (dropped) lost_ += *dropped;
}

void CoreTrace::end(TracedExecution execution) {
  read();
  lost_ = lost_before_;
  for (const Ring& ring : rings_) count_lost(ring);
  execution.lost = lost_;
  for (Ring& ring : rings_) restart(ring);
  sink_->ended(execution);
}

}  // namespace neuron::runtime
