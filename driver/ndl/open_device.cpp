// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "driver/ndl/architecture.h"
#include "driver/ndl/device_table.h"
#include "driver/ndl/error.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::ndl {
namespace {

// Whether the recorded sentence already names its device.
bool names_device() { return std::strncmp(last_error(), "device ", 7) == 0; }

}  // namespace

void OpenDevice::FreeDevice::operator()(ndl_device_t* device) const {
  for (ndl_copy_buf_t& buffer : device->cpy_bufs) pthread_mutex_destroy(&buffer.lock);
  std::free(device);
}

OpenDevice::OpenDevice(int index, std::unique_ptr<DevicePort> port)
    : port_(std::move(port)), index_(index), fork_generation_(fork_generation()) {}

bool OpenDevice::is_inherited() const { return fork_generation_ != fork_generation(); }

OpenDevice::~OpenDevice() {
  for (const Resource& resource : resources_) port_->unmap(resource.address, resource.size);
}

int OpenDevice::call(unsigned long request, void* argument, const char* what) const {
  clear_error();
  const int result = port_->ioctl(request, argument);
  if (result == 0) return 0;
  if (result > 0) return fail(-EIO, "device %d: %s: the driver answered %d", index_, what, result);
  return names_device() ? explain(result, "%s", what)
                        : explain(result, "device %d: %s", index_, what);
}

int OpenDevice::map(size_t length, int protection, uint64_t offset, void** address) const {
  clear_error();
  const int result = port_->map(length, protection, offset, address);
  if (result == 0) return 0;
  const auto at = static_cast<unsigned long long>(offset);
  return names_device()
             ? explain(result, "mapping %zu bytes at %#llx", length, at)
             : explain(result, "device %d: mapping %zu bytes at %#llx", index_, length, at);
}

int OpenDevice::unmap(void* address, size_t length) const {
  clear_error();
  const int result = port_->unmap(address, length);
  return result == 0 ? 0 : explain(result, "device %d: unmapping %zu bytes", index_, length);
}

int OpenDevice::initialize(const ndl_device_init_param_t* params) {
  neuron_ioctl_device_driver_info driver = {};
  driver.size = sizeof(driver);
  if (const int result = call(NEURON_IOCTL_DRIVER_INFO_GET, &driver, "asking for driver features");
      result != 0) {
    return result;
  }
  features_ = driver.feature_flags1;
  if ((features_ & kNeededFeatures) != kNeededFeatures) {
    return fail(
        -ENOTSUP,
        "device %d: the driver has features %#llx and lacks %#llx; install driver 2.24 or later",
        index_, static_cast<unsigned long long>(features_),
        static_cast<unsigned long long>(kNeededFeatures & ~features_));
  }
  neuron_ioctl_device_info info = {};
  if (const int result = call(NEURON_IOCTL_DEVICE_INFO, &info, "asking what it is"); result != 0) {
    return result;
  }
  auto* device = static_cast<ndl_device_t*>(
      std::calloc(1, sizeof(ndl_device_t) + sizeof(ndl_device_context_t)));
  if (device == nullptr) throw std::bad_alloc();
  for (ndl_copy_buf_t& buffer : device->cpy_bufs) pthread_mutex_init(&buffer.lock, nullptr);
  device_.reset(device);
  device->device_index = static_cast<uint8_t>(index_);
  device->device_type = static_cast<uint8_t>(info.architecture);
  device->device_revision = static_cast<uint16_t>(info.revision);
  // The count comes from outside: it must not index past either array.
  const auto neighbours =
      std::min<size_t>(info.connected_device_count, std::size(info.connected_devices));
  device->connected_device_count = static_cast<uint8_t>(neighbours);
  for (size_t i = 0; i < neighbours; ++i) {
    device->connected_devices[i] = static_cast<uint8_t>(info.connected_devices[i]);
  }
  for (int bar = 0; bar < 2; ++bar) {
    device->csr_base[bar] = info.bar_address[bar];
    device->csr_size[bar] = info.bar_size[bar];
  }
  device->hbm_size = architecture_of(info.architecture).hbm_bytes;
  // An emulated device has no descriptor; its own negative number still tells devices apart.
  auto* context = reinterpret_cast<ndl_device_context_t*>(device->context);
  context->nd_fd = port_->descriptor() >= 0 ? port_->descriptor() : -2 - index_;
  return take_parameters(params);
}

int OpenDevice::take_parameters(const ndl_device_init_param_t* params) {
  const bool wanted = params != nullptr && params->map_hbm;
  return wanted && device_->hbm_va_cnt == 0 ? map_all_hbm() : 0;
}

int OpenDevice::map_all_hbm() {
  uint32_t count = 0;
  uint64_t size = 0;
  void* addresses[MAX_HBM_PER_DEVICE] = {};
  for (uint32_t i = 0; i < MAX_HBM_PER_DEVICE; ++i) {
    void* address = nullptr;
    const int result =
        map_resource(NEURON_DM_BLOCK_HBM, i, NEURON_DM_RESOURCE_DMEM, &address, &size);
    // A driver without this resource maps allocations one by one.
    if (result == -EINVAL || result == -ENOTSUP) break;
    if (result != 0) return result;
    addresses[i] = address;
    count = i + 1;
  }
  clear_error();
  if (count == 0) return 0;
  std::copy(std::begin(addresses), std::end(addresses), std::begin(device_->hbm_va));
  device_->hbm_size = size;
  // Release: other threads may use the device already, and look at the rest if this is not 0.
  __atomic_store_n(&device_->hbm_va_cnt, count, __ATOMIC_RELEASE);
  return 0;
}

int OpenDevice::map_resource(uint32_t block, uint32_t id, uint32_t resource, void** address,
                             uint64_t* size) {
  const std::lock_guard lock(resource_mutex_);
  for (const Resource& known : resources_) {
    if (known.block == block && known.id == id && known.kind == resource) {
      *address = known.address;
      *size = known.size;
      return 0;
    }
  }
  neuron_ioctl_resource_mmap_info info = {};
  info.block = block;
  info.block_id = id;
  info.resource = resource;
  if (const int result =
          call(NEURON_IOCTL_RESOURCE_MMAP_INFO, &info, "asking where a part of the chip is mapped");
      result != 0) {
    return result;
  }
  resources_.reserve(resources_.size() + 1);
  // A collectives core as a whole is mapped read-only.
  const int protection = resource == NEURON_DM_RESOURCE_ALL ? PROT_READ : PROT_READ | PROT_WRITE;
  void* mapped = nullptr;
  if (const int result = map(info.size, protection, info.offset, &mapped); result != 0) {
    return result;
  }
  resources_.push_back({block, id, resource, mapped, info.size});
  *address = mapped;
  *size = info.size;
  return 0;
}

}  // namespace neuron::ndl
