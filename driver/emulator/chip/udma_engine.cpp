// SPDX-License-Identifier: Apache-2.0
// Registers and doorbells. Packets are executed in udma_run.cpp.
#include "driver/emulator/chip/udma_engine.h"

#include "driver/emulator/chip/udma_queue.h"

namespace neuron::chip {
namespace {

constexpr uint32_t kQueuesFirst = 0x1000;
constexpr uint32_t kQueueStride = 0x1000;

}  // namespace

UdmaEngine::UdmaEngine(unsigned index, const Bus& bus, NotificationBlock& errors,
                       NotificationBlock& wrapper)
    : index_(index),
      bus_(bus),
      errors_(errors),
      wrapper_(wrapper),
      queues_(new Queue[NEURON_DMA_QUEUES]),
      stored_(NEURON_UDMA_SIZE) {
  state_[0] = NEURON_UDMA_STATE_NORMAL;
  state_[1] = NEURON_UDMA_STATE_NORMAL;
}

UdmaEngine::~UdmaEngine() = default;

bool UdmaEngine::accepts(uint64_t offset, uint64_t bytes, bool write, const Access& access) {
  if (offset >= NEURON_UDMA_SIZE || bytes > NEURON_UDMA_SIZE - offset) return false;
  // What a program writes there would be done with the host's rights.
  return !write || access.origin == Origin::kHost || !touches_kept(offset, bytes);
}

bool UdmaEngine::touches_kept(uint64_t offset, uint64_t bytes) const {
  const uint32_t kept = kept_.load(std::memory_order_relaxed);
  if (kept == 0) return false;
  for (const uint64_t end = offset + bytes; offset < end; offset += 4) {
    bool s2m = false;
    unsigned queue = 0;
    unsigned reg = 0;
    // Registers outside queues act on all of them.
    if (!queue_register(offset, s2m, queue, reg) || (kept >> queue & 1) != 0) return true;
  }
  return false;
}

bool UdmaEngine::queue_register(uint64_t offset, bool& s2m, unsigned& queue, unsigned& reg) const {
  s2m = offset >= NEURON_UDMA_S2M;
  const uint64_t inside = offset % NEURON_UDMA_S2M;
  if (inside < kQueuesFirst || inside >= kQueuesFirst + NEURON_DMA_QUEUES * kQueueStride) {
    return false;
  }
  queue = static_cast<unsigned>((inside - kQueuesFirst) / kQueueStride);
  reg = static_cast<unsigned>(inside % kQueueStride);
  return true;
}

uint32_t UdmaEngine::read_word(uint64_t offset, const Access&) {
  bool s2m = false;
  unsigned queue = 0;
  unsigned reg = 0;
  if (!queue_register(offset, s2m, queue, reg)) {
    if (offset % NEURON_UDMA_S2M == NEURON_UDMA_STATE) return half_state(s2m);
    return stored_.load(offset);
  }
  const Queue& q = queues_[queue];
  const std::lock_guard guard(q.registers);
  const Ring& ring = q.rings[s2m];
  switch (reg) {
    case NEURON_UDMAQ_CFG:
      return ring.cfg;
    case NEURON_UDMAQ_BASE_LO:
      return ring.base_lo;
    case NEURON_UDMAQ_BASE_HI:
      return ring.base_hi;
    case NEURON_UDMAQ_LENGTH:
      return ring.length;
    case NEURON_UDMAQ_TAIL:
      return ring.tail | ring.tail_id << NEURON_UDMA_RING_ID_SHIFT;
    case NEURON_UDMAQ_HEAD:
    case NEURON_UDMAQ_CURRENT:
    case NEURON_UDMAQ_CMPL_HEAD:
      return ring.head | ring.head_id << NEURON_UDMA_RING_ID_SHIFT;
    case NEURON_UDMAQ_TAIL_INC:
    case NEURON_UDMAQ_STATUS:
      return 0;
    default:
      return stored_.load(offset);
  }
}

void UdmaEngine::write_word(uint64_t offset, uint32_t value, const Access& access) {
  bool s2m = false;
  unsigned queue = 0;
  unsigned reg = 0;
  if (queue_register(offset, s2m, queue, reg)) {
    const unsigned control = s2m ? NEURON_UDMAQ_S2M_SW_CONTROL : NEURON_UDMAQ_M2S_SW_CONTROL;
    if (reg == NEURON_UDMAQ_TAIL_INC) return ring_doorbell(queue, s2m, value, access);
    if (reg == control && (value & NEURON_UDMAQ_SW_RESET) != 0) return rewind(queue, s2m, access);
    if (reg <= NEURON_UDMAQ_CURRENT) return write_ring(queue, s2m, reg, value, access);
    if (reg != NEURON_UDMAQ_CMPL_HEAD) stored_.store(offset, value);
    return;
  }
  const uint64_t inside = offset % NEURON_UDMA_S2M;
  if (inside == NEURON_UDMA_CHANGE_STATE) return change_state(s2m, value, access);
  if (inside != NEURON_UDMA_STATE) stored_.store(offset, value);
}

void UdmaEngine::write_ring(unsigned queue, bool s2m, unsigned reg, uint32_t value,
                            const Access& access) {
  Queue& q = queues_[queue];
  bool resumed = false;
  bool stopped = false;
  {
    const std::lock_guard guard(q.registers);
    Ring& ring = q.rings[s2m];
    switch (reg) {
      case NEURON_UDMAQ_CFG: {
        const bool before = ring.enabled();
        ring.cfg = value;
        resumed = !before && ring.enabled();
        stopped = before && !ring.enabled();
        if (resumed) q.note_doorbell(bus_);
        publish_work(queue);
        break;
      }
      case NEURON_UDMAQ_BASE_LO:
      case NEURON_UDMAQ_BASE_HI: {
        uint32_t& half = reg == NEURON_UDMAQ_BASE_LO ? ring.base_lo : ring.base_hi;
        stopped = half != value;
        half = value;
        if (stopped) q.generation.fetch_add(1, std::memory_order_relaxed);
        break;
      }
      case NEURON_UDMAQ_LENGTH:
        stopped = ring.length != (value & NEURON_UDMA_INDEX_MASK);
        ring.length = value & NEURON_UDMA_INDEX_MASK;
        // Indexes outside the new ring have no meaning: it starts afresh.
        if (ring.head >= ring.length || ring.tail >= ring.length || ring.pending > ring.length) {
          ring.rewind();
          stopped = true;
        }
        if (stopped) q.generation.fetch_add(1, std::memory_order_relaxed);
        publish_work(queue);
        break;
      default:  // head, tail and status are the engine's own
        stored_.store(NEURON_UDMA_QUEUE(s2m ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, queue) + reg,
                      value);
        break;
    }
  }
  if (stopped) await_run(queue, access);
  if (resumed) serve(queue, access);
}

void UdmaEngine::await_run(unsigned queue, const Access& access) const {
  // A packet that writes here would wait for itself.
  if (access.origin != Origin::kHost) return;
  const std::lock_guard ended(queues_[queue].running);
}

RingState UdmaEngine::ring_state(unsigned queue, bool s2m) const {
  const Queue& q = queues_[queue];
  const std::lock_guard guard(q.registers);
  const Ring& ring = q.rings[s2m];
  if (!ring.set_up() || ring.aborted) return {};
  return {ring.base(), ring.length, ring.tail, ring.tail_id, ring.length - ring.pending};
}

void UdmaEngine::ring_doorbell(unsigned queue, bool s2m, uint32_t count, const Access& access) {
  Queue& q = queues_[queue];
  DmaFault fault;
  {
    const std::lock_guard guard(q.registers);
    Ring& ring = q.rings[s2m];
    if (!ring.set_up()) {
      fault.rule = "a doorbell was rung but the ring has no base or length";
    } else if (access.origin != Origin::kHost && index_ >= bus_.layout().first_host_engine) {
      fault.rule = "this engine belongs to the host; engines of a core cannot ring it";
    } else if (access.origin != Origin::kHost &&
               ring.refused_epoch == start_epoch_.load(std::memory_order_relaxed)) {
      fault.rule = "the host has reset this queue since the core's engines were started";
    } else if (count > ring.length - ring.pending) {
      fault.rule = "the doorbell pushes more descriptors than the ring has room for";
    } else {
      if (access.origin != Origin::kHost) {
        ring.rung_epoch = start_epoch_.load(std::memory_order_relaxed);
      }
      ring.push(count);
      q.note_doorbell(bus_);
      publish_work(queue);
    }
    if (fault.rule[0] != '\0') {
      fault.code = NEURON_FAULT_DMA_RING;
      fault.s2m = s2m;
      fault.index = ring.tail;
      fault.address = ring.base();
    }
  }
  if (fault) return report(fault, queue, access);
  serve(queue, access);
}

void UdmaEngine::rewind(unsigned queue, bool s2m, const Access& access) {
  Queue& q = queues_[queue];
  bool in_use = false;
  {
    const std::lock_guard guard(q.registers);
    Ring& ring = q.rings[s2m];
    in_use = ring.rung_epoch == start_epoch_.load(std::memory_order_relaxed);
    ring.rewind();
    if (access.origin != Origin::kEngine) {
      ring.refused_epoch = start_epoch_.load(std::memory_order_relaxed);
      q.random_position.store(0, std::memory_order_relaxed);
    }
    q.generation.fetch_add(1, std::memory_order_relaxed);
    publish_work(queue);
  }
  await_run(queue, access);
  if (access.origin != Origin::kHost || listener_ == nullptr) return;
  if (in_use) {
    listener_->dma_stopped(index_, queue, access);
  } else {
    // An engine that waits for room finds it, and that it is refused.
    listener_->dma_freed(index_, queue, access);
  }
}

void UdmaEngine::change_state(bool s2m, uint32_t value, const Access& access) {
  const uint32_t state = (value & 4) != 0   ? NEURON_UDMA_STATE_ABORT
                         : (value & 2) != 0 ? 0
                         : (value & 1) != 0 ? NEURON_UDMA_STATE_NORMAL
                                            : state_[s2m].load(std::memory_order_relaxed);
  state_[s2m].store(state, std::memory_order_relaxed);
  for (unsigned queue = 0; queue < NEURON_DMA_QUEUES; ++queue) {
    {
      const std::lock_guard guard(queues_[queue].registers);
      if (state == NEURON_UDMA_STATE_NORMAL) {
        queues_[queue].rings[s2m].aborted = false;
        queues_[queue].note_doorbell(bus_);
      }
      publish_work(queue);
    }
    if (state != NEURON_UDMA_STATE_NORMAL) await_run(queue, access);
    serve(queue, access);
  }
}

uint32_t UdmaEngine::half_state(bool s2m) const {
  for (unsigned queue = 0; queue < NEURON_DMA_QUEUES; ++queue) {
    const std::lock_guard guard(queues_[queue].registers);
    if (queues_[queue].rings[s2m].aborted) return NEURON_UDMA_STATE_ABORT;
  }
  return state_[s2m].load(std::memory_order_relaxed);
}

void UdmaEngine::publish_work(unsigned queue) {
  const Queue& q = queues_[queue];
  bool work = true;
  for (const bool s2m : {false, true}) {
    const Ring& ring = q.rings[s2m];
    work = work && ring.pending != 0 && ring.enabled() && !ring.aborted && ring.set_up() &&
           state_[s2m].load(std::memory_order_relaxed) == NEURON_UDMA_STATE_NORMAL;
  }
  const uint32_t bit = 1u << queue;
  // Most register writes change nothing here; a plain load is cheaper than a locked instruction.
  if (((work_.load(std::memory_order_relaxed) & bit) != 0) == work) return;
  // Release: pairs with the acquire in has_work() and work_mask().
  if (work) {
    work_.fetch_or(bit, std::memory_order_release);
  } else {
    work_.fetch_and(~bit, std::memory_order_release);
  }
}

void UdmaEngine::serve(unsigned queue, const Access& access) {
  if (!has_work(queue)) {
    if (access.origin != Origin::kHost && listener_ != nullptr) {
      listener_->dma_armed(index_, queue, access);
    }
    return;
  }
  if (access.origin == Origin::kHost) {
    (void)execute_run(queue, UINT32_MAX, access);
    if (listener_ != nullptr) listener_->dma_freed(index_, queue, access);
  } else if (listener_ != nullptr) {
    listener_->dma_rung(index_, queue, access);
  }
}

void UdmaEngine::report(DmaFault& fault, unsigned queue, const Access& access) {
  fault.engine = static_cast<uint8_t>(index_);
  fault.queue = static_cast<uint8_t>(queue);
  std::array<uint32_t, 3> info = {index_ << 8 | queue, fault.index,
                                  static_cast<uint32_t>(fault.address)};
  if (fault.code == NEURON_FAULT_DMA_STREAM) info[2] = fault.offset;
  if (fault.code == NEURON_FAULT_LINK) {  // told as engines tell it
    info = {static_cast<uint32_t>(fault.address), static_cast<uint32_t>(fault.address >> 32),
            fault.link};
  }
  if (!fault.late) errors_.post_error(fault.code, mover(queue, access), info);
  if (listener_ != nullptr) listener_->dma_faulted(fault, access);
}

Access UdmaEngine::mover(unsigned queue, const Access& access) const {
  Access mover{Origin::kDma, static_cast<uint8_t>(bus_.layout().core_of(index_, queue)),
               NEURON_ENGINE_DMA, access.time};
  mover.reach = reach(queue);
  return mover;
}

void UdmaEngine::reset() {
  state_[0].store(NEURON_UDMA_STATE_NORMAL, std::memory_order_relaxed);
  state_[1].store(NEURON_UDMA_STATE_NORMAL, std::memory_order_relaxed);
  for (unsigned queue = 0; queue < NEURON_DMA_QUEUES; ++queue) {
    Queue& q = queues_[queue];
    const std::lock_guard guard(q.registers);
    q.rings[0] = Ring{};
    q.rings[1] = Ring{};
    q.random_position.store(0, std::memory_order_relaxed);
    q.generation.fetch_add(1, std::memory_order_relaxed);
    publish_work(queue);
  }
  for (unsigned queue = 0; queue < NEURON_DMA_QUEUES; ++queue) await_run(queue, Access{});
  stored_.clear();
  set_seed(0);
  mismatches_.store(0, std::memory_order_relaxed);
}

void UdmaEngine::clear_aborts(uint32_t queues) {
  state_[0].store(NEURON_UDMA_STATE_NORMAL, std::memory_order_relaxed);
  state_[1].store(NEURON_UDMA_STATE_NORMAL, std::memory_order_relaxed);
  for (unsigned queue = 0; queue < NEURON_DMA_QUEUES; ++queue) {
    if ((queues >> queue & 1) == 0) continue;
    Queue& q = queues_[queue];
    const std::lock_guard guard(q.registers);
    q.rings[0].aborted = q.rings[1].aborted = false;
    publish_work(queue);
  }
}

}  // namespace neuron::chip
