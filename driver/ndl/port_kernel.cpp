// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "driver/base/backoff.h"
#include "driver/base/deadline.h"
#include "driver/base/file_descriptor.h"
#include "driver/ndl/architecture.h"
#include "driver/ndl/async_copies.h"
#include "driver/ndl/error.h"
#include "driver/ndl/observe_kernel.h"
#include "driver/ndl/port_backends.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::ndl {
namespace {

constexpr char kNode[] = "neuron";

constexpr uint64_t kPageBytes = 0x2000;

class KernelDevice : public DevicePort {
 public:
  KernelDevice(int fd, std::string node) : fd_(fd), node_(std::move(node)) {}
  ~KernelDevice() override {
    for (const Page& page : pages_) munmap(page.address, kPageBytes);
    if (fd_ >= 0) close(fd_);
  }

  int ioctl(unsigned long request, void* argument) override {
    if (request == NEURON_IOCTL_MEM_COPY_ASYNC64) {
      auto& copy = *static_cast<neuron_ioctl_mem_copy_async64*>(argument);
      if (AsyncCopies* copies = async_copies(); copies != nullptr) return copies->start(copy);
    } else if (request == NEURON_IOCTL_MEM_COPY_ASYNC_WAIT) {
      const auto& wait = *static_cast<const neuron_ioctl_mem_copy_async_wait*>(argument);
      if (AsyncCopies* copies = async_copies(); copies != nullptr) return copies->wait(wait);
    }
    const int result = ::ioctl(fd_, request, argument);
    if (result == 0) return 0;
    if (result > 0) {
      return fail(-EIO,
                  "%s answered call number %lu with %d: it could not read the argument, or refused",
                  node_.c_str(), request & 0xFF, result);
    }
    const int error = errno;
    // With EPERM the public driver means that its engine did not finish the transfer in time.
    if (error == EPERM && transfers(request)) {
      return fail(-ETIMEDOUT,
                  "%s: the engine has not finished the transfer in time; see the kernel log, and "
                  "reset the core",
                  node_.c_str());
    }
    char buffer[128];
    return fail(-error, "%s: %s", node_.c_str(), strerror_r(error, buffer, sizeof(buffer)));
  }

  int map(size_t length, int protection, uint64_t offset, void** address) override {
    void* mapped = mmap(nullptr, length, protection, MAP_SHARED, fd_, static_cast<off_t>(offset));
    if (mapped == MAP_FAILED) {
      const int error = errno;
      char buffer[128];
      return fail(-error, "%s cannot map %zu bytes at offset %#llx: %s", node_.c_str(), length,
                  static_cast<unsigned long long>(offset),
                  strerror_r(error, buffer, sizeof(buffer)));
    }
    *address = mapped;
    return 0;
  }

  int unmap(void* address, size_t length) override {
    if (munmap(address, length) != 0) {
      return fail(-errno, "%zu bytes at %p are not a mapping of %s", length, address,
                  node_.c_str());
    }
    return 0;
  }

  int read_register(uint64_t bar0_offset, uint32_t* value) override {
    volatile uint32_t* word = nullptr;
    if (const int result = find(bar0_offset, &word); result != 0) return result;
    if (word != nullptr) {
      *value = *word;
      return 0;
    }
    return bar_access(NEURON_IOCTL_BAR_READ, bar0_offset, value);
  }

  int write_register(uint64_t bar0_offset, uint32_t value, bool) override {
    volatile uint32_t* word = nullptr;
    if (const int result = find(bar0_offset, &word); result != 0) return result;
    if (word != nullptr) {
      // Earlier stores to memory (ring contents, inputs) must be visible when the device sees this
      // one. Pairs with the device's reads that the register triggers.
      std::atomic_thread_fence(std::memory_order_seq_cst);
      *word = value;
      return 0;
    }
    return bar_access(NEURON_IOCTL_BAR_WRITE, bar0_offset, &value);
  }

  // The driver delivers no interrupts to user space, so this polls, at first without yielding the
  // CPU.
  int wait(unsigned core, const uint32_t* word, uint32_t old, uint64_t deadline_ns) override {
    base::Backoff backoff({2000, 0, std::chrono::microseconds(2), std::chrono::microseconds(100)});
    for (;;) {  // bounded: by the deadline
      // Acquire: results that the device wrote before the word are visible after this load. Pairs
      // with the order in which the device writes memory.
      if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != old) return 0;
      if (!backoff.sleeps()) {
        backoff.wait();
        continue;
      }
      const uint64_t now = base::monotonic_ns();
      if (now >= deadline_ns) {
        return fail(-ETIMEDOUT,
                    "%s core %u did not change the word at %p from %#x before the deadline",
                    node_.c_str(), core, static_cast<const void*>(word), old);
      }
      backoff.wait(std::chrono::nanoseconds(std::min<uint64_t>(deadline_ns - now, 1'000'000)));
    }
  }

  std::string describe(unsigned) override { return ""; }
  int descriptor() const override { return fd_; }
  void abandon() override {
    // A child does not inherit these mappings, so there is nothing to unmap at these addresses.
    pages_.clear();
    if (copies_ != nullptr) copies_->abandon();
    close(fd_);
    fd_ = -1;
  }

 private:
  struct Page {
    uint64_t bar0_start;
    void* address;
  };

  // True for calls that wait for an engine to move bytes.
  static bool transfers(unsigned long request) {
    switch (_IOC_NR(request)) {
      case _IOC_NR(NEURON_IOCTL_MEM_COPY64):
      case _IOC_NR(NEURON_IOCTL_MEM_BUF_COPY64):
      case _IOC_NR(NEURON_IOCTL_MEM_BUF_ZEROCOPY64):
      case _IOC_NR(NEURON_IOCTL_MEM_BUF_ZEROCOPY64_BATCHES):
      case _IOC_NR(NEURON_IOCTL_MEM_COPY_ASYNC64):
      case _IOC_NR(NEURON_IOCTL_MEM_COPY_ASYNC_WAIT):
      case _IOC_NR(NEURON_IOCTL_MEMSET64):
      case _IOC_NR(NEURON_IOCTL_PROGRAM_ENGINE_NC64):
      case _IOC_NR(NEURON_IOCTL_DMA_COPY_DESCRIPTORS64):
      case _IOC_NR(NEURON_IOCTL_DMA_DESCRIPTOR_COPYOUT):
        return true;
      default:
        return false;
    }
  }

  // Null where the driver or the system has no io_uring for copies; tried once, at the first such
  // copy.
  AsyncCopies* async_copies() {
    std::call_once(copies_asked_, [this] {
      std::unique_ptr<CompletionRing> ring = make_completion_ring(fd_);
      if (ring != nullptr) copies_ = std::make_unique<AsyncCopies>(std::move(ring), node_);
    });
    return copies_.get();
  }

  // Finds the mapped register at an offset; null for a register that only the driver accesses.
  int find(uint64_t bar0_offset, volatile uint32_t** word) {
    if (bar0_offset % 4 != 0) {
      return fail(-EINVAL, "%s: register offset %#llx is not a multiple of 4", node_.c_str(),
                  static_cast<unsigned long long>(bar0_offset));
    }
    const std::lock_guard lock(mutex_);
    if (const int result = identify(); result != 0) return result;
    for (const Page& page : pages_) {
      if (bar0_offset - page.bar0_start < kPageBytes) {
        *word = reinterpret_cast<volatile uint32_t*>(static_cast<char*>(page.address) +
                                                     (bar0_offset - page.bar0_start));
        return 0;
      }
    }
    for (const RegisterPages& row : architecture_of(architecture_).pages) {
      const uint64_t distance = bar0_offset - row.bar0_start;
      if (distance / row.stride >= row.count || distance % row.stride >= kPageBytes) continue;
      neuron_ioctl_resource_mmap_info info = {};
      info.block = row.block;
      info.block_id = row.first_id + static_cast<uint32_t>(distance / row.stride);
      info.resource = NEURON_DM_RESOURCE_SEMAPHORE;
      if (const int result = ioctl(NEURON_IOCTL_RESOURCE_MMAP_INFO, &info); result != 0) {
        return explain(result, "where the semaphores of block %u/%u are", info.block,
                       info.block_id);
      }
      void* address = nullptr;
      if (const int result = map(kPageBytes, PROT_READ | PROT_WRITE, info.offset, &address);
          result != 0) {
        return result;
      }
      pages_.push_back({row.bar0_start + distance / row.stride * row.stride, address});
      *word =
          reinterpret_cast<volatile uint32_t*>(static_cast<char*>(address) + distance % row.stride);
      return 0;
    }
    return 0;
  }

  // Asks once which generation this is and where its registers start.
  int identify() {
    if (architecture_ != 0) return 0;
    neuron_ioctl_device_info info = {};
    if (const int result = ioctl(NEURON_IOCTL_DEVICE_INFO, &info); result != 0) return result;
    bar0_address_ = info.bar_address[0];
    architecture_ = info.architecture;
    return 0;
  }

  int bar_access(unsigned long request, uint64_t bar0_offset, uint32_t* value) {
    __u64 address = bar0_address_ + bar0_offset;
    neuron_ioctl_bar_rw access = {};
    access.address = &address;
    access.data = value;
    access.count = 1;
    const int result = ioctl(request, &access);
    return result == 0
               ? 0
               : explain(result, "register %#llx", static_cast<unsigned long long>(bar0_offset));
  }

  int fd_;
  const std::string node_;
  std::mutex mutex_;  // the three below
  std::vector<Page> pages_;
  unsigned architecture_ = 0;
  uint64_t bar0_address_ = 0;
  std::once_flag copies_asked_;
  std::unique_ptr<AsyncCopies> copies_;  // written under copies_asked_ only
};

class KernelPort : public Port {
 public:
  explicit KernelPort(std::string folder) : folder_(std::move(folder)) {}

  int devices(int* indexes, int capacity) override {
    std::vector<int> found = scan();
    for (int i = 0; i < capacity && i < static_cast<int>(found.size()); ++i) indexes[i] = found[i];
    return static_cast<int>(found.size());
  }

  int open(int index, int flags, std::unique_ptr<DevicePort>& device) override {
    const std::string node = folder_ + "/" + kNode + std::to_string(index);
    const int fd =
        base::above_standard_streams(::open(node.c_str(), (flags & O_ACCMODE) | O_CLOEXEC));
    if (fd < 0) {
      const int error = errno;
      char buffer[128];
      const char* cure = error == EBUSY    ? "; 16 processes use it already"
                         : error == EACCES ? "; check the permissions of the node"
                         : error == EINVAL ? "; its last reset failed, see the kernel log"
                                           : "";
      return fail(error == ENOENT ? -ENODEV : -error, "%s cannot be opened: %s%s", node.c_str(),
                  strerror_r(error, buffer, sizeof(buffer)), cure);
    }
    device = std::make_unique<KernelDevice>(fd, node);
    return 0;
  }

  int observe(const neuron_emulator_question& question, uint32_t, std::string& answer,
              uint64_t&) override {
    return observe_kernel(*this, folder_, question, answer);
  }

  std::string name() const override { return "kernel"; }

  std::string driver_version() const override {
    char text[64];
    const int fd =
        base::above_standard_streams(::open("/sys/module/neuron/version", O_RDONLY | O_CLOEXEC));
    if (fd < 0) return "";
    const ssize_t length = read(fd, text, sizeof(text));
    close(fd);
    if (length <= 0) return "";
    const std::string version(text, static_cast<size_t>(length));
    return version.substr(0, version.find('\n'));
  }

  std::vector<int> scan() const {
    std::vector<int> found;
    DIR* folder = opendir(folder_.c_str());
    if (folder == nullptr) return found;
    while (const dirent* entry = readdir(folder)) {
      if (std::strncmp(entry->d_name, kNode, sizeof(kNode) - 1) != 0) continue;
      const char* digits = entry->d_name + sizeof(kNode) - 1;
      const size_t length = std::strspn(digits, "0123456789");
      if (length == 0 || length > 3 || digits[length] != '\0') continue;
      found.push_back(std::atoi(digits));
    }
    closedir(folder);
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  const std::string folder_;
};

}  // namespace

std::unique_ptr<Port> kernel_port(const std::string& folder) {
  auto port = std::make_unique<KernelPort>(folder);
  if (port->scan().empty()) {
    fail(
        -ENODEV,
        "no Neuron device: %s/neuron0 does not exist; load the neuron kernel module on a host with "
        "the chip, or set NEURON_EMULATOR, for example to trn1.2xlarge, for an emulated device",
        folder.c_str());
    return nullptr;
  }
  return port;
}

}  // namespace neuron::ndl
