// SPDX-License-Identifier: Apache-2.0
#include "tests/vm/guest/device.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "hw/address_map.h"
#include "hw/udma.h"

namespace neuron::guest {
namespace {

const Chip kGeneration2 = {2,
                           NEURON_V2_CORES,
                           NEURON_V2_HBM_COUNT,
                           NEURON_V2_HBM_SIZE,
                           NEURON_V2_HOST_BASE,
                           NEURON_V2_DMA_ENGINES,
                           32,
                           NEURON_V2_TOPSPS,
                           NEURON_V2_BAR0_SIZE,
                           NEURON_V2_CORE_WINDOW(0),
                           NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(0),
                           NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(0),
                           NEURON_V2_MISC_RAM};
constexpr Chip two_dies(uint32_t architecture, __u64 stack_bytes) {
  return {architecture,
          NEURON_V3_CORES,
          NEURON_V3_HBM_COUNT,
          stack_bytes,
          NEURON_V3_HOST_BASE,
          NEURON_V3_DMA_ENGINES,
          128,
          NEURON_V3_TOPSPS,
          NEURON_V3_BAR0_SIZE,
          NEURON_V3_CORE_WINDOW(0),
          NEURON_V3_CORE_DEVICE(0),
          NEURON_V3_CORE_COOKIE(0),
          NEURON_V3_MISC_RAM};
}
const Chip kGeneration3 = two_dies(3, NEURON_V3_HBM_SIZE);
const Chip kGeneration4 = two_dies(4, NEURON_V4_HBM_SIZE);

std::string sentence(const char* what, int error) {
  return std::string(what) + ": " + std::strerror(error < 0 ? -error : error);
}

}  // namespace

__u64 Chip::hbm_base(uint32_t channel) const {
  return architecture == 2 ? channel * NEURON_V2_HBM_STRIDE : NEURON_V3_HBM_BASE(channel);
}

__u64 Chip::copy_queue_register() const {
  const __u64 engine =
      architecture == 2 ? NEURON_V2_UDMA(copy_engine) : NEURON_V3_UDMA(copy_engine);
  return engine + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 0);
}

Device::Device(unsigned index, int flags) : fd_(try_open(index, flags)) {
  if (fd_ < 0) throw Failure{sentence("open", fd_) + " (/dev/neuron" + std::to_string(index) + ")"};
}

Device::~Device() {
  if (fd_ >= 0) close(fd_);
}

Device::Device(Device&& from) noexcept : fd_(std::exchange(from.fd_, -1)) {}

int Device::try_open(unsigned index, int flags) {
  char path[32];
  std::snprintf(path, sizeof(path), "/dev/neuron%u", index);
  const int fd = open(path, flags | O_CLOEXEC);
  return fd < 0 ? -errno : fd;
}

unsigned Device::count() {
  unsigned found = 0;
  for (unsigned i = 0; i < 64; ++i) {
    char path[32];
    std::snprintf(path, sizeof(path), "/dev/neuron%u", i);
    found += access(path, F_OK) == 0;
  }
  return found;
}

int Device::call(unsigned long number, void* argument) const {
  const int result = ioctl(fd_, number, argument);
  return result < 0 ? -errno : result;
}

const Chip& Device::chip() const {
  neuron_ioctl_device_basic_info info = {};
  if (const int error = call(NEURON_IOCTL_DEVICE_BASIC_INFO, &info)) {
    throw Failure{sentence("DEVICE_BASIC_INFO", error)};
  }
  if (info.architecture == 2) return kGeneration2;
  if (info.architecture == 3) return kGeneration3;
  if (info.architecture == 4) return kGeneration4;
  throw Failure{"DEVICE_BASIC_INFO says architecture " + std::to_string(info.architecture)};
}

__u64 Device::features() const {
  neuron_ioctl_device_driver_info info = {};
  info.size = sizeof(info);
  return call(NEURON_IOCTL_DRIVER_INFO_GET, &info) == 0 ? info.feature_flags1 : 0;
}

neuron_ioctl_mem_get_extended_info Device::info(__u64 handle) const {
  neuron_ioctl_mem_get_extended_info info = {};
  info.mem_handle = handle;
  if (const int error = call(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &info)) {
    throw Failure{sentence("MEM_GET_EXTENDED_INFO", error)};
  }
  return info;
}

int Device::copy_in(__u64 handle, const void* bytes, __u64 size, __u64 offset) const {
  neuron_ioctl_mem_buf_copy64 request = {handle, const_cast<void*>(bytes), size, offset, 1};
  return call(NEURON_IOCTL_MEM_BUF_COPY64, &request);
}

int Device::copy_out(__u64 handle, void* bytes, __u64 size, __u64 offset) const {
  neuron_ioctl_mem_buf_copy64 request = {handle, bytes, size, offset, 0};
  return call(NEURON_IOCTL_MEM_BUF_COPY64, &request);
}

int Device::copy(__u64 from, __u64 to, __u64 size, __u64 from_offset, __u64 to_offset) const {
  neuron_ioctl_mem_copy64 request = {from, to, size, from_offset, to_offset};
  return call(NEURON_IOCTL_MEM_COPY64, &request);
}

std::vector<neuron_ioctl_mem_chunk_info> Device::chunks(uint32_t hbm) const {
  std::vector<neuron_ioctl_mem_chunk_info> list(4096);
  neuron_ioctl_dump_mem_chunks request = {hbm, static_cast<uint32_t>(list.size()), 0, list.data()};
  if (const int error = call(NEURON_IOCTL_DUMP_MEM_CHUNKS, &request)) {
    throw Failure{sentence("DUMP_MEM_CHUNKS", error)};
  }
  list.resize(request.num_entries_out);
  return list;
}

bool Device::has_chunk(uint32_t hbm, __u64 pa) const {
  for (const auto& chunk : chunks(hbm)) {
    if (chunk.pa == pa) return true;
  }
  return false;
}

int allocate(const Device& device, __u64 size, const Where& where, __u64& handle) {
  neuron_ioctl_mem_alloc_v2_mem_type64 request = {};
  request.size = size;
  request.align = where.align;
  request.host_memory = where.host;
  request.dram_channel = where.channel;
  request.nc_id = where.core;
  request.mem_type = where.host && where.category == NEURON_MEMALLOC_TYPE_TENSORS_DEVICE
                         ? static_cast<uint32_t>(NEURON_MEMALLOC_TYPE_TENSORS_HOST)
                         : where.category;
  request.mem_handle = &handle;
  return device.call(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request);
}

Memory::Memory(const Device& device, __u64 size, const Where& where) : device_(device) {
  if (const int error = allocate(device, size, where, handle_)) {
    throw Failure{sentence("allocation", error) + ", " + std::to_string(size) + " bytes"};
  }
  info_ = device.info(handle_);
}

Memory::~Memory() {
  neuron_ioctl_mem_free request = {handle_};
  if (handle_) device_.call(NEURON_IOCTL_MEM_FREE, &request);
}

Mapping::Mapping(const Device& device, __u64 offset, __u64 size, int protection) : size_(size) {
  at_ = mmap(nullptr, size, protection, MAP_SHARED, device.fd(), static_cast<off_t>(offset));
  if (at_ == MAP_FAILED) throw Failure{sentence("mmap", errno)};
}

Mapping::~Mapping() { munmap(at_, size_); }

int Mapping::attempt(int fd, __u64 offset, __u64 size, int protection) {
  void* at = mmap(nullptr, size, protection, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return -errno;
  munmap(at, size);
  return 0;
}

int in_child(const std::function<int()>& run) {
  std::fflush(stdout);
  const int pid = fork();
  if (pid < 0) throw Failure{sentence("fork", errno)};
  if (pid == 0) {
    int status = 99;
    try {
      status = run();
    } catch (const Failure& failure) {
      std::printf("# in the child: %s\n", failure.why.c_str());
    }
    std::fflush(stdout);
    _exit(status);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

int exit_status_of_child(const std::function<int()>& run) {
  const int status = in_child(run);
  if (!WIFEXITED(status)) {
    throw Failure{"the child was ended by signal " + std::to_string(WTERMSIG(status))};
  }
  return WEXITSTATUS(status);
}

WaitingChild::WaitingChild(const std::function<__u64()>& prepare) {
  int channel[2];
  if (pipe(channel) != 0) throw Failure{sentence("pipe", errno)};
  std::fflush(stdout);
  pid_ = fork();
  if (pid_ < 0) throw Failure{sentence("fork", errno)};
  if (pid_ == 0) {
    close(channel[0]);
    try {
      const __u64 value = prepare();
      if (write(channel[1], &value, sizeof(value)) != sizeof(value)) _exit(98);
    } catch (const Failure& failure) {
      std::printf("# in the child: %s\n", failure.why.c_str());
      std::fflush(stdout);
      _exit(99);
    }
    close(channel[1]);
    while (true) pause();
  }
  close(channel[1]);
  const ssize_t got = read(channel[0], &value_, sizeof(value_));
  close(channel[0]);
  if (got != sizeof(value_)) throw Failure{"the child ended before it was ready"};
}

WaitingChild::WaitingChild(WaitingChild&& from) noexcept
    : pid_(std::exchange(from.pid_, 0)), value_(from.value_) {}

void WaitingChild::stop() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

std::vector<uint8_t> pattern(__u64 size, uint32_t seed) {
  std::vector<uint8_t> bytes(size);
  __u64 state = seed * 0x9E3779B97F4A7C15ull + 1;
  for (__u64 i = 0; i < size; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    bytes[i] = static_cast<uint8_t>(state >> 24);
  }
  return bytes;
}

bool becomes_true(const std::function<bool()>& condition, int milliseconds) {
  for (int i = 0; i <= milliseconds; ++i) {
    if (condition()) return true;
    usleep(1000);
  }
  return condition();
}

}  // namespace neuron::guest
