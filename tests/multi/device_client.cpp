// SPDX-License-Identifier: Apache-2.0
#include "tests/multi/device_client.h"

#include <fcntl.h>

#include "driver/ndl/port_backends.h"
#include "hw/udma.h"

namespace neuron::multi {
namespace {

constexpr uint32_t kHbmCategory = 9, kHostCategory = 2;

struct OwnDescriptor {
  uint32_t control;
  uint32_t meta;
  uint64_t address;
};
static_assert(sizeof(OwnDescriptor) == NEURON_DESC_BYTES);

constexpr uint32_t kOwnControl =
    NEURON_DESC_FIRST | NEURON_DESC_LAST | 1u << NEURON_DESC_RING_ID_SHIFT;

}  // namespace

std::unique_ptr<DeviceClient> DeviceClient::open(const std::string& socket) {
  std::unique_ptr<DeviceClient> client(new DeviceClient);
  client->port_ = ndl::shared_port(socket, "");
  if (client->port_ == nullptr || client->port_->open(0, O_RDWR, client->device_) != 0) {
    return nullptr;
  }
  return client;
}

uint64_t DeviceClient::allocate(uint64_t bytes, bool host, uint32_t core) {
  __u64 handle = 0;
  neuron_ioctl_mem_alloc_v2_mem_type64 request = {};
  request.size = bytes;
  request.host_memory = host;
  request.dram_channel = core;
  request.nc_id = core;
  request.mem_type = host ? kHostCategory : kHbmCategory;
  request.mem_handle = &handle;
  return device_->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request) == 0 ? handle : 0;
}

bool DeviceClient::free(uint64_t handle) {
  neuron_ioctl_mem_free request = {handle};
  return device_->ioctl(NEURON_IOCTL_MEM_FREE, &request) == 0;
}

uint64_t DeviceClient::address(uint64_t handle) {
  neuron_ioctl_mem_get_extended_info found = {};
  found.mem_handle = handle;
  return device_->ioctl(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &found) == 0 ? found.pa : 0;
}

void* DeviceClient::map(uint64_t handle, uint64_t bytes) {
  void* memory = nullptr;
  return device_->map(bytes, 3, address(handle), &memory) == 0 ? memory : nullptr;
}

int DeviceClient::fill(uint64_t handle, uint64_t bytes) {
  neuron_ioctl_memset64 request = {handle, 0, 0x5A, bytes};
  return device_->ioctl(NEURON_IOCTL_MEMSET64, &request);
}

int DeviceClient::copy(uint64_t from, uint64_t to, uint64_t bytes) {
  neuron_ioctl_mem_copy64 request = {from, to, bytes, 0, 0};
  return device_->ioctl(NEURON_IOCTL_MEM_COPY64, &request);
}

int DeviceClient::buffer(uint64_t handle, void* memory, uint64_t bytes, bool to_device) {
  neuron_ioctl_mem_buf_copy64 request = {handle, memory, bytes, 0, to_device};
  return device_->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &request);
}

bool DeviceClient::mark(uint32_t core) {
  neuron_ioctl_crwl_nc_map map = {1, core, core, 0, 0};
  return device_->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK, &map) == 0;
}

bool DeviceClient::make_ring(uint32_t engine, uint32_t queue, uint32_t descriptors) {
  const uint64_t bytes = uint64_t{descriptors} * NEURON_DESC_BYTES;
  engine_ = engine;
  queue_ = queue;
  length_ = descriptors;
  tx_ = allocate(bytes, true);
  rx_ = allocate(bytes, true);
  const uint64_t whole = (bytes + 4095) / 4096 * 4096;
  source_ = tx_ == 0 ? nullptr : map(tx_, whole);
  destination_ = rx_ == 0 ? nullptr : map(rx_, whole);
  return source_ != nullptr && destination_ != nullptr;
}

void DeviceClient::fill_ring(uint64_t from, uint64_t to, uint32_t bytes) {
  const uint32_t length = bytes & NEURON_DESC_LENGTH_MASK;
  for (uint32_t i = 0; i < length_; ++i) {
    static_cast<OwnDescriptor*>(source_)[i] = {kOwnControl | length, NEURON_META_DEFAULT, from};
    static_cast<OwnDescriptor*>(destination_)[i] = {kOwnControl | length, 0, to};
  }
}

int DeviceClient::start_ring(uint32_t descriptors) {
  neuron_ioctl_dma_eng_set_state normal = {engine_, 2};
  if (int error = device_->ioctl(NEURON_IOCTL_DMA_ENG_SET_STATE, &normal)) return error;
  neuron_ioctl_dma_queue_init init = {engine_, queue_, length_, length_, tx_, rx_, 0, 0};
  if (int error = device_->ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &init)) return error;
  neuron_ioctl_dma_queue_copy_start start = {engine_, queue_, descriptors, descriptors};
  return device_->ioctl(NEURON_IOCTL_DMA_QUEUE_COPY_START, &start);
}

}  // namespace neuron::multi
