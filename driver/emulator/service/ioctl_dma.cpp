// SPDX-License-Identifier: Apache-2.0
// Calls about DMA engines and queues: set-up, descriptors, doorbells, state.
#include <cerrno>
#include <cinttypes>
#include <cstring>

#include "driver/core/descriptor.h"
#include "driver/core/queue.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/session.h"
#include "hw/udma.h"

namespace neuron::service {
namespace {

constexpr uint32_t kBatchLimit = 256;
constexpr uint32_t kEngineRevision = 4;

}  // namespace

int Session::dispatch_dma(unsigned long request, void* argument) {
  switch (request) {
    case NEURON_IOCTL_DMA_ENG_INIT:
    case NEURON_IOCTL_DMA_QUEUE_RELEASE:
      return 0;  // no effect in current drivers
    case NEURON_IOCTL_DMA_ENG_SET_STATE:
      return engine_set_state(as<neuron_ioctl_dma_eng_set_state>(argument));
    case NEURON_IOCTL_DMA_ENG_GET_STATE:
      return engine_get_state(as<neuron_ioctl_dma_eng_get_state>(argument));
    case NEURON_IOCTL_DMA_QUEUE_INIT:
      return queue_init(as<neuron_ioctl_dma_queue_init>(argument));
    case NEURON_IOCTL_DMA_QUEUE_INIT_BATCH:
      return queue_init_batch(as<neuron_ioctl_dma_queue_init_batch>(argument));
    case NEURON_IOCTL_DMA_QUEUE_COPY_START:
      return queue_start(as<neuron_ioctl_dma_queue_copy_start>(argument));
    case NEURON_IOCTL_DMA_ACK_COMPLETED:
      return queue_acknowledge(as<neuron_ioctl_dma_ack_completed>(argument));
    case NEURON_IOCTL_DMA_QUEUE_GET_STATE:
      return queue_get_state(as<neuron_ioctl_dma_queue_get_state>(argument));
    case NEURON_IOCTL_DMA_COPY_DESCRIPTORS: {
      const auto& c = as<neuron_ioctl_dma_copy_descriptors>(argument);
      return copy_descriptors(c.mem_handle, c.buffer, c.num_descs, c.offset, c.queue_type);
    }
    case NEURON_IOCTL_DMA_COPY_DESCRIPTORS64: {
      const auto& c = as<neuron_ioctl_dma_copy_descriptors64>(argument);
      return copy_descriptors(c.mem_handle, c.buffer, c.num_descs, c.offset, c.queue_type);
    }
    case NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT:
      return copy_out(as<neuron_ioctl_dma_descriptor_copyout>(argument));
    case NEURON_IOCTL_DMA_QUIESCE_QUEUES:
      return fail(-ENOTTY, "device %u: DMA_QUIESCE_QUEUES no longer exists", device_.index());
    default:
      return kNotMine;
  }
}

int Session::check_queue(uint32_t engine, uint32_t queue) const {
  if (nd_queue_check_id(&device_.layout(), engine, queue) != 0)
    return fail(-EINVAL, "device %u has DMA engines 0 to %u with %u queues, found %u queue %u",
                device_.index(), device_.layout().dma_engines - 1, NEURON_DMA_QUEUES, engine,
                queue);
  return 0;
}

bool Session::is_reserved_queue(uint32_t engine, uint32_t queue) {
  for (uint32_t core = 0; core < device_.cores(); core++)
    if (device_.ring(core).engine() == engine && device_.ring(core).queue() == queue) return true;
  return false;
}

int Session::engine_set_state(const neuron_ioctl_dma_eng_set_state& request) {
  if (int error = check_queue(request.eng_id, 0)) return error;
  // 0 disable, 2 normal, 3 abort; other values are ignored, as the public driver does.
  const uint32_t bit = request.state == 0 ? 1u << 1 : request.state == 2 ? 1u : 1u << 2;
  if (request.state == 1 || request.state > 3) return 0;
  const uint64_t base = nd_chip_udma(&device_.layout(), request.eng_id) + NEURON_UDMA_CHANGE_STATE;
  device_.chip().write_register(base + NEURON_UDMA_M2S, bit);
  device_.chip().write_register(base + NEURON_UDMA_S2M, bit);
  return 0;
}

int Session::engine_get_state(const neuron_ioctl_dma_eng_get_state& request) {
  if (int error = check_queue(request.eng_id, 0)) return error;
  if (int error = check_buffer(request.state, sizeof(*request.state))) return error;
  const uint64_t base = nd_chip_udma(&device_.layout(), request.eng_id) + NEURON_UDMA_STATE;
  neuron_dma_eng_state state = {};
  state.revision_id = kEngineRevision;
  state.max_queues = NEURON_DMA_QUEUES;
  state.num_queues = NEURON_DMA_QUEUES;
  state.tx_state = nd_engine_state(device_.chip().read_register(base + NEURON_UDMA_M2S));
  state.rx_state = nd_engine_state(device_.chip().read_register(base + NEURON_UDMA_S2M));
  *request.state = state;
  return 0;
}

int Session::queue_ring(uint64_t handle, uint32_t count, const char* name,
                        const neuron_ioctl_dma_queue_init& request, nd_queue_ring* ring) {
  *ring = {};
  if (handle == 0) return 0;
  int error = 0;
  const Pin chunk = pin(handle, error);
  if (error) return error;
  *ring = {chunk->address, count};
  if (nd_queue_check_ring(ring, chunk->size) != 0)
    return fail(
        -EINVAL,
        "device %u engine %u queue %u: %s ring of %u descriptors at 0x%" PRIx64 " in %" PRIu64
        " bytes; it must be a multiple of 16, at least 32, inside its memory and 256-byte "
        "aligned",
        device_.index(), request.eng_id, request.qid, name, count, ring->address, chunk->size);
  return 0;
}

int Session::queue_init(const neuron_ioctl_dma_queue_init& request) {
  if (int error = check_queue(request.eng_id, request.qid)) return error;
  if (request.rxc_handle)
    return fail(-EINVAL, "device %u engine %u queue %u: completion rings are not supported",
                device_.index(), request.eng_id, request.qid);
  if (is_reserved_queue(request.eng_id, request.qid))
    return fail(-EALREADY, "device %u engine %u queue %u carries the host's copies",
                device_.index(), request.eng_id, request.qid);
  nd_queue_ring tx;
  nd_queue_ring rx;
  if (int error = queue_ring(request.tx_handle, request.tx_desc_count, "tx", request, &tx))
    return error;
  if (int error = queue_ring(request.rx_handle, request.rx_desc_count, "rx", request, &rx))
    return error;
  nd_register_write writes[ND_QUEUE_INIT_WRITES];
  const size_t count =
      nd_queue_init_sequence(&device_.layout(), request.eng_id, request.qid, &tx, &rx, writes);
  const std::lock_guard lock(device_.mutex);
  device_.write_sequence(writes, count);
  device_.queues[request.eng_id][request.qid] = {id_, tx, rx, 0, 0};
  return 0;
}

int Session::queue_init_batch(const neuron_ioctl_dma_queue_init_batch& batch) {
  if (batch.count >= kBatchLimit)
    return fail(-E2BIG, "device %u: a batch sets up at most %u queues, found %u", device_.index(),
                kBatchLimit - 1, batch.count);
  for (uint32_t i = 0; i < batch.count; i++)
    if (int error = queue_init(batch.entries[i])) return error;
  return 0;
}

int Session::queue_start(const neuron_ioctl_dma_queue_copy_start& request) {
  if (int error = check_queue(request.eng_id, request.qid)) return error;
  {
    const std::lock_guard lock(device_.mutex);
    const QueueState& state = device_.queues[request.eng_id][request.qid];
    if (state.owner == 0 || state.rx.count == 0 || state.tx.count == 0)
      return fail(-EINVAL, "device %u engine %u queue %u has no rings; call DMA_QUEUE_INIT first",
                  device_.index(), request.eng_id, request.qid);
    if (request.tx_desc_count > state.tx.count || request.rx_desc_count > state.rx.count)
      return fail(-EPERM,
                  "device %u engine %u queue %u: %u and %u descriptors exceed its rings of %u and "
                  "%u",
                  device_.index(), request.eng_id, request.qid, request.tx_desc_count,
                  request.rx_desc_count, state.tx.count, state.rx.count);
  }
  // Destination side first; the doorbell of the source side starts the transfer.
  chip::Chip& chip = device_.chip();
  if (request.rx_desc_count)
    chip.write_register(nd_queue_register(&device_.layout(), request.eng_id, request.qid, false,
                                          NEURON_UDMAQ_TAIL_INC),
                        request.rx_desc_count);
  if (request.tx_desc_count)
    chip.write_register(nd_queue_register(&device_.layout(), request.eng_id, request.qid, true,
                                          NEURON_UDMAQ_TAIL_INC),
                        request.tx_desc_count);
  return 0;
}

int Session::queue_acknowledge(const neuron_ioctl_dma_ack_completed& request) {
  if (int error = check_queue(request.eng_id, request.qid)) return error;
  const std::lock_guard lock(device_.mutex);
  QueueState& state = device_.queues[request.eng_id][request.qid];
  if (state.tx.count)
    state.tx_completed =
        static_cast<uint32_t>((uint64_t{state.tx_completed} + request.count) % state.tx.count);
  if (state.rx.count)
    state.rx_completed =
        static_cast<uint32_t>((uint64_t{state.rx_completed} + request.count) % state.rx.count);
  return 0;
}

int Session::queue_get_state(const neuron_ioctl_dma_queue_get_state& request) {
  if (int error = check_queue(request.eng_id, request.qid)) return error;
  if (int error = check_buffer(request.tx, sizeof(*request.tx))) return error;
  if (int error = check_buffer(request.rx, sizeof(*request.rx))) return error;
  const auto state_of = [&](bool tx) {
    const auto read = [&](uint32_t reg) {
      return device_.chip().read_register(
          nd_queue_register(&device_.layout(), request.eng_id, request.qid, tx, reg));
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

int Session::copy_descriptors(uint64_t handle, const void* buffer, uint32_t count, uint64_t offset,
                              uint32_t type) {
  const unsigned index = device_.index();
  if (type != NEURON_DMA_QUEUE_TYPE_TX && type != NEURON_DMA_QUEUE_TYPE_RX)
    return fail(-EPERM, "device %u: descriptors go to a tx (0) or rx (1) ring, found %u", index,
                type);
  int error = 0;
  const Pin ring = pin(handle, error);
  if (error) return error;
  const uint64_t bytes = uint64_t{count} * NEURON_DESC_BYTES;
  if ((error = check_range(*ring, offset, bytes))) return error;
  if (count == 0) return 0;
  if ((error = check_buffer(buffer, bytes))) return error;
  // Checked in a copy, so that the process cannot change them between check and use.
  std::vector<nd_descriptor> descriptors(count);
  std::memcpy(descriptors.data(), buffer, bytes);
  uint64_t known_begin = 0;
  uint64_t known_end = 0;
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t address = descriptors[i].address;
    if (!nd_chip_is_host(&device_.layout(), address) ||
        (address >= known_begin && address < known_end))
      continue;
    bool found = false;
    for (unsigned d = 0; d < instance_.device_count() && !found; d++) {
      // The opened device first, then the others that this process has open.
      Device* device = d == 0 ? &device_ : instance_.device_if_probed(d == index ? 0 : d);
      if (!device) continue;
      if (device != &device_) {
        const std::lock_guard lock(device->mutex);
        if (!nd_process_find(&device->processes, pid_)) continue;
      }
      if (const Pin chunk = device->memory().pin_address(address)) {
        known_begin = chunk->address;
        known_end = chunk->address + chunk->size;
        found = true;
      }
    }
    if (!found)
      return fail(-EINVAL,
                  "device %u: descriptor %u points to host address 0x%" PRIx64
                  ", which is no memory of a device that pid %d has open",
                  index, i, address, pid_);
  }
  if (ring->host) {
    std::memcpy(ring->data + offset, descriptors.data(), bytes);
    return 0;
  }
  return ring_of(*ring).write(ring->address + offset, descriptors.data(), bytes);
}

int Session::copy_out(const neuron_ioctl_dma_descriptor_copyout& request) {
  if (int error = check_queue(request.eng_id, request.qid)) return error;
  const unsigned index = device_.index();
  nd_queue_ring ring{};
  {
    const std::lock_guard lock(device_.mutex);
    const QueueState& state = device_.queues[request.eng_id][request.qid];
    if (request.type == NEURON_DMA_QUEUE_TYPE_TX) ring = state.tx;
    if (request.type == NEURON_DMA_QUEUE_TYPE_RX) ring = state.rx;
  }
  if (request.count == 0 || ring.count == 0)
    return fail(-EINVAL, "device %u engine %u queue %u: no descriptors asked for, or no ring",
                index, request.eng_id, request.qid);
  if (request.start_index >= ring.count || request.count > ring.count - request.start_index)
    return fail(-EFBIG,
                "device %u engine %u queue %u: descriptors %u to %" PRIu64 " leave a ring of %u",
                index, request.eng_id, request.qid, request.start_index,
                uint64_t{request.start_index} + request.count - 1, ring.count);
  const uint64_t bytes = uint64_t{request.count} * NEURON_DESC_BYTES;
  const uint64_t address = ring.address + uint64_t{request.start_index} * NEURON_DESC_BYTES;
  if (int error = check_buffer(request.buffer, bytes)) return error;
  const Pin chunk = device_.memory().pin_address(address, bytes);
  if (!chunk)
    return fail(-EINVAL, "device %u engine %u queue %u: the memory of its ring was freed", index,
                request.eng_id, request.qid);
  if (!chunk->host) return ring_of(*chunk).read(request.buffer, address, bytes);
  std::memcpy(request.buffer, chunk->data + (address - chunk->address), bytes);
  return 0;
}

}  // namespace neuron::service
