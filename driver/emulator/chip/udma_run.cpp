// SPDX-License-Identifier: Apache-2.0
// Execution of packets.
//
// Neighbouring one-descriptor packets whose source and destination both continue are collected and
// copied as one piece: a 64 MiB copy in 1024 descriptors is then one memcpy. Nothing of a collected
// piece has happened before it is copied, so where its memory turns out not to lie in one piece,
// its packets are executed again one by one.
//
// Runs can be long: rings of millions of descriptors, pieces of 64 MiB. So that neither an owner of
// memory who unmaps it nor somebody who resets the queue or gives up has to wait for the end, a run
// goes in strides of less than a millisecond. Between two strides it looks whether it is still
// wanted, and what it has looked up before is looked up again.
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <vector>

#include "driver/base/abandonment.h"
#include "driver/base/thread_sanitizer.h"
#include "driver/emulator/chip/bulk_copy.h"
#include "driver/emulator/chip/udma_engine.h"
#include "driver/emulator/chip/udma_queue.h"

namespace neuron::chip {
namespace {

// A piece of a packet and the descriptors that it came from.
struct Piece {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t bytes = 0;
  uint32_t packets = 0;  // 0 = empty

  bool continued_by(uint64_t next_from, uint64_t next_to, uint32_t next_bytes) const {
    constexpr uint64_t kLargest = uint64_t{64} << 20;
    if (next_from != from + bytes || next_to != to + bytes) return false;
    const uint64_t total = bytes + next_bytes;
    // Descriptor after descriptor and all at once differ where source and destination overlap.
    return total <= kLargest && (from + total <= to || to + total <= from);
  }
};

// How far a run has come, in descriptors behind the rings' heads.
struct Position {
  uint32_t m2s = 0;
  uint32_t s2m = 0;
  uint32_t packets = 0;
  void pass(const Packet& packet) {
    m2s += packet.m2s_count;
    s2m += packet.s2m_count;
    ++packets;
  }
};

enum class Moved : uint8_t { kYes, kSourceRefused, kDestinationRefused };

// A write of a queue, which is recorded where it reaches the host's memory.
struct Recorded {
  const Bus& bus;
  HostWrite write;  // all but address and bytes
  uint64_t doorbell_ns = 0;

  void operator()(uint64_t to, uint64_t bytes, HostWriteKind kind, uint32_t descriptor) {
    write.address = to;
    write.bytes = bytes;
    write.kind = kind;
    write.descriptor = descriptor;
    bus.wrote(write, doorbell_ns);
  }
};

// Refuses a packet that the driver has given up after `limit_ns`. The indexes are those of its
// first descriptors.
DmaFault refuse_late(Recorded wrote, const Packet& packet, uint32_t m2s, uint32_t s2m,
                     uint64_t limit_ns) {
  const Bus& bus = wrote.bus;
  const uint64_t to = packet.s2m[0].address;
  const uint32_t bytes = packet.result_bytes();
  DmaFault fault;
  fault.code = NEURON_FAULT_DMA_ENGINE;
  fault.late = true;
  fault.index = m2s;
  fault.address = packet.m2s[0].address;
  fault.rule = "the descriptor is older than its driver waits for it";
  if (bus.host_writes() == nullptr) return fault;
  wrote(to, bytes, HostWriteKind::kRefused, s2m);
  const bool host = bus.layout().is_host(to);
  char text[512];
  std::snprintf(text, sizeof text,
                "DMA engine %u queue %u, S2M descriptor %" PRIu32 ": %" PRIu32
                " bytes were to be written to 0x%" PRIx64 " of %s %" PRIu64
                " ms behind their doorbell, and the driver waits for at most %" PRIu64
                " ms; nothing was written, because the memory may be somebody else's by now, and "
                "the queue was stopped. This process was kept from running: see whether it was "
                "stopped, or its host has too few processors or too little memory",
                wrote.write.engine, wrote.write.queue, s2m, bytes,
                host ? to - bus.layout().host_base : to, host ? "the host's memory" : "the device",
                (HostWrites::now_ns() - wrote.doorbell_ns) / 1'000'000, limit_ns / 1'000'000);
  bus.host_writes()->complain(text);
  return fault;
}

Moved move_piece(const Bus& bus, uint64_t from, uint64_t to, uint32_t bytes, const Access& access,
                 Recorded& wrote, uint32_t descriptor) {
  const std::byte* source = bus.memory(from, bytes, access.reach);
  std::byte* destination =
      bus.layout().is_register(to) ? nullptr : bus.memory(to, bytes, access.reach);
  if (source != nullptr && destination != nullptr) {
    const bool word = bytes == 4 && reinterpret_cast<uintptr_t>(destination) % 4 == 0;
    if (!word) {
      bulk_copy(destination, source, bytes);
      wrote(to, bytes, HostWriteKind::kCopy, descriptor);
      return Moved::kYes;
    }
    wrote(to, bytes, HostWriteKind::kWord, descriptor);
    // Completion markers and counters: one whole word, after everything copied before. Release:
    // pairs with the acquire load by which the host polls the word.
    uint32_t value;
    std::memcpy(&value, source, 4);
    base::hand_to_other_processes();
    std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(destination))
        .store(value, std::memory_order_release);
    return Moved::kYes;
  }
  std::vector<std::byte> bounce;
  uint32_t small[16];
  if (source == nullptr) {
    std::byte* buffer = reinterpret_cast<std::byte*>(small);
    if (bytes > sizeof small) {
      bounce.resize(bytes);
      buffer = bounce.data();
    }
    if (!bus.read(from, {buffer, bytes}, access)) return Moved::kSourceRefused;
    source = buffer;
  }
  if (destination != nullptr) {
    bulk_copy(destination, source, bytes);
    wrote(to, bytes, HostWriteKind::kCopy, descriptor);
    return Moved::kYes;
  }
  return bus.write(to, {source, bytes}, access) ? Moved::kYes : Moved::kDestinationRefused;
}

// Moves a packet's bytes from its source to its destination descriptors.
DmaFault move_packet(const Bus& bus, const Packet& packet, const RingView& m2s, const RingView& s2m,
                     const Position& at, const Access& access, Recorded& wrote) {
  uint32_t s = 0;
  uint32_t in_source = 0;
  uint32_t d = 0;
  uint32_t in_destination = 0;
  for (uint32_t left = packet.bytes; left != 0;) {
    const Descriptor& source = packet.m2s[s];
    const Descriptor& destination = packet.s2m[d];
    const uint32_t bytes =
        std::min(source.bytes() - in_source, destination.bytes() - in_destination);
    const uint64_t from = source.address + in_source;
    const uint64_t to = destination.address + in_destination;
    const Moved moved = move_piece(bus, from, to, bytes, access, wrote, s2m.at(at.s2m + d));
    if (moved != Moved::kYes) {
      const bool refused_source = moved == Moved::kSourceRefused;
      DmaFault fault;
      fault.code = NEURON_FAULT_DMA_BUS;
      fault.s2m = !refused_source;
      fault.index = refused_source ? m2s.at(at.m2s + s) : s2m.at(at.s2m + d);
      fault.address = refused_source ? from : to;
      fault.rule = refused_source ? "the source is not mapped or refuses the access"
                                  : "the destination is not mapped or refuses the access";
      name_broken_link(bus, fault);
      return fault;
    }
    left -= bytes;
    if ((in_source += bytes) == source.bytes()) ++s, in_source = 0;
    if ((in_destination += bytes) == destination.bytes()) ++d, in_destination = 0;
  }
  return {};
}

// Adds the bytes between this chip and the one that the address names.
void add_leg(DmaRun& run, const ChipLayout& layout, uint64_t address, uint32_t bytes, bool write) {
  const uint64_t chip = address - layout.local(address);
  for (unsigned i = 0; i < run.legs; ++i) {
    DmaLeg& leg = run.leg[i];
    if (leg.write != write || leg.address - layout.local(leg.address) != chip) continue;
    leg.bytes += bytes;
    return;
  }
  if (run.legs == DmaRun::kMaxLegs) {
    run.leg[run.legs - 1].bytes += bytes;
  } else {
    run.leg[run.legs++] = {address, bytes, write};
  }
}

void add_legs(DmaRun& run, const ChipLayout& layout, const Packet& packet) {
  for (uint32_t n = 0; n < packet.m2s_count; ++n) {
    const Descriptor& d = packet.m2s[n];
    if (!layout.is_routed(d.address) || (d.control & NEURON_DESC_META) != 0) continue;
    add_leg(run, layout, d.address, d.bytes(), false);
  }
  uint32_t left = packet.result_bytes();
  for (uint32_t n = 0; n < packet.s2m_count; ++n) {
    const Descriptor& d = packet.s2m[n];
    const uint32_t bytes = std::min(d.bytes(), left);
    left -= bytes;
    if (!layout.is_routed(d.address)) continue;
    if (packet.computes && packet.compute.accumulate) add_leg(run, layout, d.address, bytes, false);
    add_leg(run, layout, d.address, bytes, true);
  }
}

// Words (markers, counters) are not collected: they are stored whole and after all before them.
bool moves_memory(const Packet& packet, const ChipLayout& layout) {
  return packet.single() && packet.bytes > 4 && !layout.is_register(packet.s2m[0].address) &&
         !layout.is_register(packet.m2s[0].address);
}

// Bytes of a stride, and its effort: a packet costs 1, 1 for each 4 KiB of it, and 1 for each two
// descriptors behind the first of both rings. Computing takes several times as long as copying.
constexpr uint64_t kStrideBytes = uint64_t{1} << 20;
constexpr uint64_t kStrideEffort = 512;
uint64_t effort_of(const Packet& packet) {
  const uint64_t pieces = std::max(packet.bytes, packet.result_bytes()) >> 12;
  const uint64_t descriptors = (packet.m2s_count + packet.s2m_count) / 2;
  return std::max<uint64_t>(descriptors, 1) + (packet.computes ? 4 * pieces : pieces);
}

// Descriptors that are looked at between two looks at whether anybody still wants to know.
constexpr uint32_t kLookedAt = 4096;

enum class Copied : uint8_t { kAll, kNotInOnePiece, kGivenUp };

}  // namespace

bool UdmaEngine::snapshot(unsigned queue, RingView& m2s, RingView& s2m,
                          uint32_t& generation) const {
  const Queue& q = queues_[queue];
  if (faults_->armed() && faults_->off()) [[unlikely]] {
    return false;
  }
  {
    const std::lock_guard guard(q.registers);
    if (!has_work(queue)) return false;
    generation = q.generation.load(std::memory_order_relaxed);
    RingView* const views[] = {&m2s, &s2m};
    for (const bool half : {false, true}) {
      const Ring& ring = q.rings[half];
      *views[half] = {ring.base(),  ring.length, ring.head,   ring.pending,
                      ring.head_id, nullptr,     reach(queue)};
    }
  }
  return true;
}

unsigned UdmaEngine::service_class(unsigned queue) const {
  RingView m2s;
  RingView s2m;
  uint32_t generation = 0;
  if (!snapshot(queue, m2s, s2m, generation)) return 0;
  const Transfer transfer(bus_.host_memory(m2s.reach));
  Descriptor first;
  return m2s.fetch(bus_, 0, first) ? first.service_class() : 0;
}

DmaRun UdmaEngine::next_run(unsigned queue, uint32_t max_packets, uint64_t least_transfer,
                            const DmaAhead& ahead) const {
  DmaRun run;
  RingView m2s;
  RingView s2m;
  if (!snapshot(queue, m2s, s2m, run.generation)) return run;
  const Transfer transfer(bus_.host_memory(m2s.reach));
  m2s.look_up(bus_);
  s2m.look_up(bus_);
  Packet packet;
  Position at{.m2s = ahead.m2s, .s2m = ahead.s2m};
  while (run.packets < max_packets) {
    DmaFault fault;
    const Parse parsed = parse_packet(bus_, m2s, at.m2s, s2m, at.s2m, packet, fault);
    if (parsed == Parse::kIncomplete) break;
    if (parsed == Parse::kFault) {
      // Met at its own time: after the run before it.
      if (run.packets == 0) {
        run.packets = 1;
        run.time_bytes = least_transfer;
      }
      break;
    }
    if (run.packets == 0) run.service_class = static_cast<uint8_t>(packet.service_class());
    if (run.service_class != packet.service_class()) break;
    at.pass(packet);
    run.packets = at.packets;
    run.bytes += packet.bytes;
    run.time_bytes += packet.time_bytes(bus_.layout(), least_transfer);
    run.notify = packet.notify();
    add_legs(run, bus_.layout(), packet);
    for (uint32_t d = 0; d < packet.s2m_count; ++d) {
      run.registers = run.registers || bus_.layout().is_register(packet.s2m[d].address);
    }
    if (run.registers || run.notify) break;
  }
  run.m2s = at.m2s - ahead.m2s;
  run.s2m = at.s2m - ahead.s2m;
  run.more = at.m2s < m2s.available;
  return run;
}

std::optional<uint32_t> UdmaEngine::pending_write(unsigned queue, uint64_t address) const {
  RingView m2s;
  RingView s2m;
  uint32_t generation = 0;
  if (!snapshot(queue, m2s, s2m, generation)) return std::nullopt;
  Transfer transfer(bus_.host_memory(m2s.reach));
  m2s.look_up(bus_);
  s2m.look_up(bus_);
  Packet packet;
  DmaFault fault;
  uint32_t looked_at = 0;  // descriptors of this stride
  // bounded: each pass takes a packet of those that the snapshot has.
  for (Position at;; at.pass(packet)) {
    if (looked_at >= kLookedAt) {
      looked_at = 0;
      if (base::Abandonment::seen()) return std::nullopt;
      transfer.renew();
      m2s.look_up(bus_);
      s2m.look_up(bus_);
    }
    if (parse_packet(bus_, m2s, at.m2s, s2m, at.s2m, packet, fault) != Parse::kComplete) break;
    looked_at += packet.m2s_count + packet.s2m_count;
    uint64_t left = packet.result_bytes();
    for (uint32_t d = 0; d < packet.s2m_count; ++d) {
      const uint64_t bytes = std::min<uint64_t>(packet.s2m[d].bytes(), left);
      // An address below the first byte wraps around to a large difference.
      if (address - packet.s2m[d].address < bytes) return at.m2s;
      left -= bytes;
    }
  }
  return std::nullopt;
}

DmaFault UdmaEngine::injected_fault(unsigned queue, const Packet& packet, const RingView& m2s,
                                    uint32_t m2s_ahead) {
  DmaFault fault;
  for (uint32_t i = 0; i < packet.m2s_count && !fault; ++i) {
    const Descriptor& source = packet.m2s[i];
    fault.code = faults_->descriptor(index_, queue, source.address, source.bytes());
    fault.index = m2s.at(m2s_ahead + i);
    fault.address = source.address;
    fault.rule = fault.code == NEURON_FAULT_DMA_ENGINE
                     ? "the engine failed on this descriptor"
                     : "the source holds an uncorrectable memory error";
  }
  return fault;
}

DmaFault UdmaEngine::execute_run(unsigned queue, uint32_t packets, const Access& access,
                                 ModelTime duration) {
  DmaFault fault;
  {
    const std::lock_guard running(queues_[queue].running);
    fault = run_packets(queue, packets, access, duration);
  }
  if (fault) report(fault, queue, access);
  return fault;
}

bool UdmaEngine::try_execute_run(unsigned queue, uint32_t packets, const Access& access,
                                 ModelTime duration) {
  DmaFault fault;
  {
    const std::unique_lock running(queues_[queue].running, std::try_to_lock);
    if (!running.owns_lock()) return false;
    fault = run_packets(queue, packets, access, duration);
  }
  if (fault) report(fault, queue, access);
  return true;
}

DmaFault UdmaEngine::compute_packet(unsigned queue, const Packet& packet, const RingView& m2s,
                                    uint32_t m2s_ahead, const RingView& s2m, uint32_t s2m_ahead,
                                    const Access& mover) {
  // Lanes of the core's engines are below 0x600.
  constexpr uint32_t kDmaLane = 0x10000;
  std::atomic<uint64_t>& position = queues_[queue].random_position;
  numerics::RandomStream random(seed_.load(std::memory_order_relaxed),
                                kDmaLane | index_ << 8 | queue,
                                position.load(std::memory_order_relaxed));
  const DmaFault fault = run_compute(bus_, packet, m2s, m2s_ahead, s2m, s2m_ahead, mover, random);
  if (packet.compute.stochastic) {
    position.fetch_add(packet.compute.elements(), std::memory_order_relaxed);
  }
  return fault;
}

DmaFault UdmaEngine::run_packets(unsigned queue, uint32_t packets, const Access& access,
                                 ModelTime duration) {
  Queue& q = queues_[queue];
  RingView m2s;
  RingView s2m;
  uint32_t generation = 0;
  if (!snapshot(queue, m2s, s2m, generation)) return {};
  const Access mover = this->mover(queue, access);

  DmaFault fault;
  Packet packet;
  Piece piece;           // collected, not yet copied
  Position read;         // parsed up to here; piece lies between done and read
  Position done;         // copied up to here
  uint32_t singly = 0;   // packets before this number are not collected
  uint32_t counted = 0;  // packets whose ring ids have been looked at
  uint64_t stale_ids = 0;
  DmaFault injected;  // for packet number `doomed`
  uint32_t doomed = UINT32_MAX;

  Recorded wrote{bus_,
                 {.core = mover.core,
                  .engine = static_cast<uint8_t>(index_),
                  .queue = static_cast<uint8_t>(queue)},
                 q.doorbell_ns.load(std::memory_order_relaxed)};
  Transfer transfer(bus_.host_memory(m2s.reach));
  uint64_t effort = 0;  // of this stride
  bool given_up = false;
  const auto look_up_rings = [&] {
    m2s.look_up(bus_);
    s2m.look_up(bus_);
  };
  look_up_rings();
  // Not reset, not moved elsewhere, not stopped.
  const auto wanted = [&] {
    return q.generation.load(std::memory_order_relaxed) == generation && has_work(queue);
  };
  const bool hosts = index_ >= bus_.layout().first_host_engine;
  const uint64_t limit_ns =
      hosts && wrote.doorbell_ns != 0 ? bus_.patience().limit_ns(m2s.available) : 0;
  // Looked at in front of each packet and of each stride of a piece: a process that is stopped in
  // the middle of one writes no more than the rest of it.
  const auto late = [&] {
    return limit_ns != 0 && HostWrites::now_ns() - wrote.doorbell_ns > limit_ns;
  };
  // Ends a stride. False: the run is not wanted any more.
  const auto next_stride = [&] {
    effort = 0;
    transfer.renew();
    look_up_rings();
    given_up = base::Abandonment::seen() || !wanted();
    return !given_up;
  };
  const auto copy_piece = [&] {
    for (uint64_t at = 0;;) {  // bounded: by the bytes of the piece
      if (late()) return Copied::kGivenUp;
      // All of it first: it is copied only where it lies in one piece.
      const uint64_t bytes = at == 0 ? piece.bytes : std::min(piece.bytes - at, kStrideBytes);
      std::byte* to = bus_.memory(piece.to + at, bytes, mover.reach);
      const std::byte* from = bus_.memory(piece.from + at, bytes, mover.reach);
      if (to == nullptr || from == nullptr) return Copied::kNotInOnePiece;
      const uint64_t stride = std::min(bytes, kStrideBytes);
      bulk_copy(to, from, stride, piece.bytes);
      wrote(piece.to + at, stride, HostWriteKind::kCopy, s2m.at(done.s2m));
      at += stride;
      if (at == piece.bytes) return Copied::kAll;
      if (!next_stride()) return Copied::kGivenUp;
    }
  };
  // Copies the collected piece. False: its packets have to be executed one by one, or the run is
  // given up.
  const auto flush = [&]() {
    if (piece.packets == 0) return true;
    const Copied copied = copy_piece();
    effort += std::min(piece.bytes, kStrideBytes) >> 12;
    piece.packets = 0;
    if (copied == Copied::kAll) {
      done = read;
    } else {
      singly = read.packets;
      read = done;
    }
    return copied == Copied::kAll;
  };

  for (;;) {  // bounded: `packets`, and what the ring holds
    if (late() && wanted()) [[unlikely]] {
      // The first packet that has not been moved, whether it has been collected or not.
      if (parse_packet(bus_, m2s, done.m2s, s2m, done.s2m, packet, fault) == Parse::kComplete) {
        fault = refuse_late(wrote, packet, m2s.at(done.m2s), s2m.at(done.s2m), limit_ns);
      }
      break;
    }
    if (given_up || !wanted()) break;
    if (effort >= kStrideEffort && !next_stride()) break;
    Parse parsed = read.packets == packets
                       ? Parse::kIncomplete
                       : parse_packet(bus_, m2s, read.m2s, s2m, read.s2m, packet, fault);
    if (faults_->armed() && parsed == Parse::kComplete) [[unlikely]] {
      // Asked once for each packet: a collected one may come here again.
      if (read.packets == counted && (injected = injected_fault(queue, packet, m2s, read.m2s))) {
        doomed = read.packets;
      }
      if (faults_->off()) break;
      if (read.packets == doomed) {
        parsed = Parse::kFault;
        fault = injected;
      }
    }
    if (parsed != Parse::kComplete) {
      if (!flush()) {
        fault = {};
        continue;
      }
      break;
    }
    if (listener_ != nullptr) listener_->dma_packet(index_, queue, read.m2s, packet);
    ++effort;
    const bool memory = moves_memory(packet, bus_.layout());
    if (memory && piece.packets != 0 &&
        piece.continued_by(packet.m2s[0].address, packet.s2m[0].address, packet.bytes)) {
      piece.bytes += packet.bytes;
      ++piece.packets;
    } else {
      if (!flush()) continue;
      if (memory && read.packets >= singly) {
        piece = {packet.m2s[0].address, packet.s2m[0].address, packet.bytes, 1};
      } else {
        fault = packet.computes ? compute_packet(queue, packet, m2s, read.m2s, s2m, read.s2m, mover)
                                : move_packet(bus_, packet, m2s, s2m, read, mover, wrote);
        if (packet.computes && !fault) {
          uint32_t left = packet.result_bytes();
          for (uint32_t d = 0; d < packet.s2m_count; ++d) {
            const uint32_t bytes = std::min(packet.s2m[d].bytes(), left);
            wrote(packet.s2m[d].address, bytes, HostWriteKind::kCompute, s2m.at(read.s2m + d));
            left -= bytes;
          }
        }
        effort += effort_of(packet);
        if (fault) break;
      }
    }
    if (read.packets == counted) {
      stale_ids += packet.stale_ids;
      ++counted;
    }
    read.pass(packet);
    if (piece.packets == 0) done = read;
    if (packet.notify()) {
      if (!flush()) continue;
      Notification entry;
      entry.kind = NEURON_NK_DMA;
      entry.engine = NEURON_ENGINE_DMA;
      entry.time = access.time;
      entry.info = {index_ << 8 | queue, packet.bytes,
                    static_cast<uint32_t>(std::min<ModelTime>(duration, UINT32_MAX))};
      wrapper_.post(0, entry);
    }
  }
  if (stale_ids != 0) mismatches_.fetch_add(stale_ids, std::memory_order_relaxed);

  const std::lock_guard guard(q.registers);
  if (q.generation.load(std::memory_order_relaxed) != generation) return {};
  q.rings[0].consume(done.m2s);
  q.rings[1].consume(done.s2m);
  if (fault) q.rings[0].aborted = q.rings[1].aborted = true;
  publish_work(queue);
  return fault;
}

}  // namespace neuron::chip
