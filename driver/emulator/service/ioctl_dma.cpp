// SPDX-License-Identifier: Apache-2.0
// Calls about DMA engines and queues: set-up, descriptors, doorbells, state.
#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "driver/base/racing_copy.h"
#include "driver/core/descriptor.h"
#include "driver/core/queue.h"
#include "driver/emulator/service/calls.h"
#include "driver/emulator/service/error.h"
#include "hw/udma.h"

namespace neuron::service {
namespace {

constexpr uint32_t kBatchLimit = 256;
constexpr uint32_t kEngineRevision = 4;

int check_queue(Session& session, uint32_t engine, uint32_t queue) {
  Device& device = session.device();
  if (nd_queue_check_id(&device.layout(), engine, queue) != 0) {
    return fail(-EINVAL, "device %u has DMA engines 0 to %u with %u queues, found %u queue %u",
                session.device_index(), device.layout().dma_engines - 1, NEURON_DMA_QUEUES, engine,
                queue);
  }
  return 0;
}

constexpr auto names_an_engine = [](Session& session, const auto& argument) {
  return check_queue(session, argument.eng_id, 0);
};

constexpr auto names_a_queue = [](Session& session, const auto& argument) {
  return check_queue(session, argument.eng_id, argument.qid);
};

bool is_reserved_queue(Session& session, uint32_t engine, uint32_t queue) {
  Device& device = session.device();
  for (uint32_t core = 0; core < device.cores(); ++core) {
    if (device.ring(core).engine() == engine && device.ring(core).queue() == queue) return true;
  }
  return false;
}

// A queue in use by another process is neither taken over, nor rung, acknowledged or stopped with
// its engine. With the lock of the device's tables.
int check_queue_owner(Session& session, uint32_t engine, uint32_t queue) {
  Device& device = session.device();
  const QueueState& state = device.queues[engine][queue];
  if (state.owner == 0 || !device.is_anothers(state.client, session.client())) return 0;
  return fail(-EBUSY,
              "device %u engine %u queue %u is set up by pid %d, which has the device open; use "
              "another queue, end that process, or reset its core",
              session.device_index(), engine, queue, state.client.pid);
}

int engine_set_state(Session& session, neuron_ioctl_dma_eng_set_state& request) {
  Device& device = session.device();
  // 0 disable, 2 normal, 3 abort; other values are ignored, as the public driver does.
  const uint32_t bit = request.state == 0 ? 1u << 1 : request.state == 2 ? 1u : 1u << 2;
  if (request.state == 1 || request.state > 3) return 0;
  for (uint32_t core = 0; core < device.cores(); ++core) {
    if (device.ring(core).engine() != request.eng_id) continue;
    return fail(-EALREADY,
                "device %u engine %u carries the host's copies: no process changes its state",
                session.device_index(), request.eng_id);
  }
  const std::lock_guard lock(device.mutex);
  const bool stops = request.state != 2;
  for (uint32_t queue = 0; stops && queue < NEURON_DMA_QUEUES; ++queue) {
    if (int error = check_queue_owner(session, request.eng_id, queue)) return error;
  }
  const uint64_t base = nd_chip_udma(&device.layout(), request.eng_id) + NEURON_UDMA_CHANGE_STATE;
  device.chip().write_register(base + NEURON_UDMA_M2S, bit);
  device.chip().write_register(base + NEURON_UDMA_S2M, bit);
  return 0;
}

int engine_get_state(Session& session, neuron_ioctl_dma_eng_get_state& request) {
  Device& device = session.device();
  if (int error = session.check_buffer(request.state, sizeof(*request.state))) return error;
  const uint64_t base = nd_chip_udma(&device.layout(), request.eng_id) + NEURON_UDMA_STATE;
  neuron_dma_eng_state state = {};
  state.revision_id = kEngineRevision;
  state.max_queues = NEURON_DMA_QUEUES;
  state.num_queues = NEURON_DMA_QUEUES;
  state.tx_state = nd_engine_state(device.chip().read_register(base + NEURON_UDMA_M2S));
  state.rx_state = nd_engine_state(device.chip().read_register(base + NEURON_UDMA_S2M));
  *request.state = state;
  return 0;
}

int queue_ring(Session& session, uint64_t handle, uint32_t count, const char* name,
               const neuron_ioctl_dma_queue_init& request, nd_queue_ring* ring) {
  *ring = {};
  if (handle == 0) return 0;
  int error = 0;
  const Pin chunk = session.pin(handle, error);
  if (error) return error;
  *ring = {chunk->address, count};
  if (nd_queue_check_ring(ring, chunk->size) != 0) {
    return fail(-EINVAL,
                "device %u engine %u queue %u: %s ring of %u descriptors at 0x%" PRIx64
                " in %" PRIu64
                " bytes; it must be a multiple of 16, at least 32, inside its memory and 256-byte "
                "aligned",
                session.device_index(), request.eng_id, request.qid, name, count, ring->address,
                chunk->size);
  }
  return 0;
}

int queue_init(Session& session, neuron_ioctl_dma_queue_init& request) {
  Device& device = session.device();
  if (request.rxc_handle) {
    return fail(-EINVAL, "device %u engine %u queue %u: completion rings are not supported",
                session.device_index(), request.eng_id, request.qid);
  }
  if (is_reserved_queue(session, request.eng_id, request.qid)) {
    return fail(-EALREADY, "device %u engine %u queue %u carries the host's copies",
                session.device_index(), request.eng_id, request.qid);
  }
  nd_queue_ring tx;
  nd_queue_ring rx;
  if (int error =
          queue_ring(session, request.tx_handle, request.tx_desc_count, "tx", request, &tx)) {
    return error;
  }
  if (int error =
          queue_ring(session, request.rx_handle, request.rx_desc_count, "rx", request, &rx)) {
    return error;
  }
  nd_register_write writes[ND_QUEUE_INIT_WRITES];
  const size_t count =
      nd_queue_init_sequence(&device.layout(), request.eng_id, request.qid, &tx, &rx, writes);
  const std::lock_guard lock(device.mutex);
  if (int error = check_queue_owner(session, request.eng_id, request.qid)) return error;
  device.write_sequence(writes, count);
  device.queues[request.eng_id][request.qid] = {session.id(), session.client(), tx, rx, 0, 0};
  return 0;
}

int queue_init_batch(Session& session, neuron_ioctl_dma_queue_init_batch& batch) {
  if (batch.count >= kBatchLimit) {
    return fail(-E2BIG, "device %u: a batch sets up at most %u queues, found %u",
                session.device_index(), kBatchLimit - 1, batch.count);
  }
  for (uint32_t i = 0; i < batch.count; ++i) {
    neuron_ioctl_dma_queue_init& entry = batch.entries[i];
    if (int error = names_a_queue(session, entry)) return error;
    if (int error = queue_init(session, entry)) return error;
  }
  return 0;
}

int queue_start(Session& session, neuron_ioctl_dma_queue_copy_start& request) {
  Device& device = session.device();
  {
    const std::lock_guard lock(device.mutex);
    const QueueState& state = device.queues[request.eng_id][request.qid];
    if (state.owner == 0 || state.rx.count == 0 || state.tx.count == 0) {
      return fail(-EINVAL, "device %u engine %u queue %u has no rings; call DMA_QUEUE_INIT first",
                  session.device_index(), request.eng_id, request.qid);
    }
    if (int error = check_queue_owner(session, request.eng_id, request.qid)) return error;
    if (request.tx_desc_count > state.tx.count || request.rx_desc_count > state.rx.count) {
      return fail(-EPERM,
                  "device %u engine %u queue %u: %u and %u descriptors exceed its rings of %u and "
                  "%u",
                  session.device_index(), request.eng_id, request.qid, request.tx_desc_count,
                  request.rx_desc_count, state.tx.count, state.rx.count);
    }
  }
  // Destination side first; the doorbell of the source side starts the transfer.
  chip::Chip& chip = device.chip();
  if (request.rx_desc_count) {
    chip.write_register(nd_queue_register(&device.layout(), request.eng_id, request.qid, false,
                                          NEURON_UDMAQ_TAIL_INC),
                        request.rx_desc_count);
  }
  if (request.tx_desc_count) {
    chip.write_register(nd_queue_register(&device.layout(), request.eng_id, request.qid, true,
                                          NEURON_UDMAQ_TAIL_INC),
                        request.tx_desc_count);
  }
  return 0;
}

int queue_acknowledge(Session& session, neuron_ioctl_dma_ack_completed& request) {
  Device& device = session.device();
  const std::lock_guard lock(device.mutex);
  if (int error = check_queue_owner(session, request.eng_id, request.qid)) return error;
  QueueState& state = device.queues[request.eng_id][request.qid];
  if (state.tx.count) {
    state.tx_completed =
        static_cast<uint32_t>((uint64_t{state.tx_completed} + request.count) % state.tx.count);
  }
  if (state.rx.count) {
    state.rx_completed =
        static_cast<uint32_t>((uint64_t{state.rx_completed} + request.count) % state.rx.count);
  }
  return 0;
}

int queue_get_state(Session& session, neuron_ioctl_dma_queue_get_state& request) {
  Device& device = session.device();
  if (int error = session.check_buffer(request.tx, sizeof(*request.tx))) return error;
  if (int error = session.check_buffer(request.rx, sizeof(*request.rx))) return error;
  const auto state_of = [&](bool tx) {
    const auto read = [&](uint32_t reg) {
      return device.chip().read_register(
          nd_queue_register(&device.layout(), request.eng_id, request.qid, tx, reg));
    };
    neuron_dma_queue_state state = {};
    state.hw_status = read(NEURON_UDMAQ_STATUS);
    state.length = read(NEURON_UDMAQ_LENGTH);
    state.base_addr = uint64_t{read(NEURON_UDMAQ_BASE_HI)} << 32 | read(NEURON_UDMAQ_BASE_LO);
    state.completion_base_addr =
        uint64_t{read(NEURON_UDMAQ_CMPL_BASE_HI)} << 32 | read(NEURON_UDMAQ_CMPL_BASE_LO);
    state.head_pointer = read(NEURON_UDMAQ_HEAD);
    state.tail_pointer = read(NEURON_UDMAQ_TAIL);
    state.completion_head = read(NEURON_UDMAQ_CMPL_HEAD);
    return state;
  };
  *request.tx = state_of(true);
  *request.rx = state_of(false);
  return 0;
}

// Descriptors that are checked at once: each may look through the memory of every device.
constexpr uint32_t kBetweenLooks = 128;

int copy_descriptors(Session& session, uint64_t handle, const void* buffer, uint32_t count,
                     uint64_t offset, uint32_t type) {
  Device& device = session.device();
  const unsigned index = session.device_index();
  if (type != NEURON_DMA_QUEUE_TYPE_TX && type != NEURON_DMA_QUEUE_TYPE_RX) {
    return fail(-EPERM, "device %u: descriptors go to a tx (0) or rx (1) ring, found %u", index,
                type);
  }
  int error = 0;
  const Pin ring = session.pin(handle, error);
  if (error) return error;
  const uint64_t bytes = uint64_t{count} * NEURON_DESC_BYTES;
  if ((error = session.check_range(*ring, offset, bytes))) return error;
  if (count == 0) return 0;
  if ((error = session.check_buffer(buffer, bytes))) return error;
  // Checked in a copy, so that the process cannot change them between check and use.
  std::vector<nd_descriptor> descriptors(count);
  std::memcpy(descriptors.data(), buffer, bytes);
  uint64_t known_begin = 0;
  uint64_t known_end = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (i % kBetweenLooks == 0 && session.abandoned()) {
      return session.give_up("a copy of descriptors");
    }
    const uint64_t address = descriptors[i].address;
    const uint64_t length = nd_descriptor_length(&descriptors[i]);
    // The words of a metadata descriptor are no address.
    if ((descriptors[i].control & NEURON_DESC_META) != 0) continue;
    if (!nd_chip_is_host(&device.layout(), address) &&
        !nd_chip_is_host(&device.layout(), address + length - 1)) {
      continue;
    }
    if (address >= known_begin && address < known_end && length <= known_end - address) continue;
    bool found = false;
    for (unsigned d = 0; d < session.instance().device_count() && !found; ++d) {
      // The opened device first, then the others that this process has open.
      Device* owner = d == 0 ? &device : session.instance().device_if_probed(d == index ? 0 : d);
      if (!owner) continue;
      if (owner != &device) {
        const std::lock_guard lock(owner->mutex);
        if (!nd_process_find(&owner->processes, session.pid())) continue;
      }
      if (const Pin chunk = owner->memory().pin_address(address);
          chunk && session.may_use(*chunk) && length <= chunk->address + chunk->size - address) {
        known_begin = chunk->address;
        known_end = chunk->address + chunk->size;
        found = true;
      }
    }
    if (!found) {
      return fail(-EINVAL,
                  "device %u: descriptor %u points to %" PRIu64
                  " bytes of host memory at 0x%" PRIx64
                  ", which are no memory of a device that pid %d has open",
                  index, i, length, address, session.pid());
    }
  }
  if (ring->host) {
    base::racing_copy(ring->data + offset, descriptors.data(), bytes);
    return 0;
  }
  return session.ring_of(*ring).write(ring->address + offset, descriptors.data(), bytes);
}

// Of both widths.
template <typename Request>
int dma_copy_descriptors(Session& session, Request& c) {
  return copy_descriptors(session, c.mem_handle, c.buffer, c.num_descs, c.offset, c.queue_type);
}

int copy_out(Session& session, neuron_ioctl_dma_descriptor_copyout& request) {
  Device& device = session.device();
  const unsigned index = session.device_index();
  nd_queue_ring ring{};
  {
    const std::lock_guard lock(device.mutex);
    const QueueState& state = device.queues[request.eng_id][request.qid];
    if (request.type == NEURON_DMA_QUEUE_TYPE_TX) ring = state.tx;
    if (request.type == NEURON_DMA_QUEUE_TYPE_RX) ring = state.rx;
  }
  if (request.count == 0 || ring.count == 0) {
    return fail(-EINVAL, "device %u engine %u queue %u: no descriptors asked for, or no ring",
                index, request.eng_id, request.qid);
  }
  if (request.start_index >= ring.count || request.count > ring.count - request.start_index) {
    return fail(-EFBIG,
                "device %u engine %u queue %u: descriptors %u to %" PRIu64 " leave a ring of %u",
                index, request.eng_id, request.qid, request.start_index,
                uint64_t{request.start_index} + request.count - 1, ring.count);
  }
  const uint64_t bytes = uint64_t{request.count} * NEURON_DESC_BYTES;
  const uint64_t address = ring.address + uint64_t{request.start_index} * NEURON_DESC_BYTES;
  if (int error = session.check_buffer(request.buffer, bytes)) return error;
  const Pin chunk = device.memory().pin_address(address, bytes);
  if (!chunk || !session.may_use(*chunk)) {
    return fail(-EINVAL, "device %u engine %u queue %u: the memory of its ring was freed", index,
                request.eng_id, request.qid);
  }
  if (!chunk->host) return session.ring_of(*chunk).read(request.buffer, address, bytes);
  base::racing_copy(request.buffer, chunk->data + (address - chunk->address), bytes);
  return 0;
}

// These have no effect in current drivers.
template <typename Request>
int ignored(Session&, Request&) {
  return 0;
}

int quiesce_queues(Session& session, neuron_ioctl_dma_quiesce_queues&) {
  return fail(-ENOTTY, "device %u: DMA_QUIESCE_QUEUES no longer exists", session.device_index());
}

constexpr Call kDmaRows[] = {
    call<ignored<neuron_ioctl_dma_eng_init>>(NEURON_IOCTL_DMA_ENG_INIT),
    call<ignored<neuron_ioctl_dma_queue_release>>(NEURON_IOCTL_DMA_QUEUE_RELEASE),
    call<engine_set_state, names_an_engine>(NEURON_IOCTL_DMA_ENG_SET_STATE),
    call<engine_get_state, names_an_engine>(NEURON_IOCTL_DMA_ENG_GET_STATE),
    call<queue_init, names_a_queue>(NEURON_IOCTL_DMA_QUEUE_INIT),
    call<queue_init_batch>(NEURON_IOCTL_DMA_QUEUE_INIT_BATCH),
    call<queue_start, names_a_queue>(NEURON_IOCTL_DMA_QUEUE_COPY_START),
    call<queue_acknowledge, names_a_queue>(NEURON_IOCTL_DMA_ACK_COMPLETED),
    call<queue_get_state, names_a_queue>(NEURON_IOCTL_DMA_QUEUE_GET_STATE),
    call<dma_copy_descriptors<neuron_ioctl_dma_copy_descriptors>>(
        NEURON_IOCTL_DMA_COPY_DESCRIPTORS),
    call<dma_copy_descriptors<neuron_ioctl_dma_copy_descriptors64>>(
        NEURON_IOCTL_DMA_COPY_DESCRIPTORS64),
    call<copy_out, names_a_queue>(NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT),
    call<quiesce_queues>(NEURON_IOCTL_DMA_QUIESCE_QUEUES),
};

}  // namespace

constinit const std::span<const Call> kDmaCalls = kDmaRows;

}  // namespace neuron::service
