// SPDX-License-Identifier: Apache-2.0
// What one process may do to memory of the devices, and cannot do to that of another process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

#include "driver/ndl/error.h"
#include "driver/ndl/port.h"
#include "driver/ndl/port_backends.h"
#include "tests/multi/raw_client.h"
#include "tests/support/child.h"
#include "tests/support/eventually.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::multi {
namespace {

using test::Child;
using test::Daemon;
using test::Folder;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kMiB = 1u << 20;
constexpr uint64_t kLimit = 256 * kMiB;

// One open device of this process.
class Device {
 public:
  explicit Device(const Daemon& daemon) : port_(ndl::shared_port(daemon.socket(), "")) {
    if (port_ != nullptr) port_->open(0, O_RDWR, device_);
  }
  bool valid() const { return device_ != nullptr; }
  ndl::DevicePort& operator*() { return *device_; }
  ndl::DevicePort* operator->() { return device_.get(); }

  int allocate(uint64_t size, bool host, uint64_t& handle) {
    __u64 made = 0;
    neuron_ioctl_mem_alloc_v2_mem_type64 request = {};
    request.size = size;
    request.host_memory = host;
    request.mem_handle = &made;
    const int result = device_->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request);
    handle = made;
    return result;
  }
  int free(uint64_t handle) {
    neuron_ioctl_mem_free request = {handle};
    return device_->ioctl(NEURON_IOCTL_MEM_FREE, &request);
  }
  int copy(uint64_t handle, void* buffer, uint64_t size, bool to_device) {
    neuron_ioctl_mem_buf_copy64 request = {};
    request.mem_handle = handle;
    request.buffer = buffer;
    request.size = size;
    request.copy_to_mem_handle = to_device;
    return device_->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &request);
  }
  uint64_t address(uint64_t handle) {
    neuron_ioctl_mem_get_extended_info info = {};
    info.mem_handle = handle;
    return device_->ioctl(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &info) == 0 ? info.mmap_offset : 0;
  }

 private:
  std::unique_ptr<ndl::Port> port_;
  std::unique_ptr<ndl::DevicePort> device_;
};

uint64_t resident(int file) {
  struct stat status = {};
  return ::fstat(file, &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * 512 : 0;
}

// Writes to every page of a file that a mapping reaches, up to twice the limit.
void touch(int file) {
  struct stat status = {};
  if (::fstat(file, &status) != 0 || status.st_size <= 0) return;
  const auto bytes = std::min<uint64_t>(static_cast<uint64_t>(status.st_size), 2 * kLimit);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return;
  for (uint64_t at = 0; at < bytes; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
  ::munmap(memory, bytes);
}

TEST(MemoryLimit, HoldsForAClientThatTouchesEveryPageOfEveryFileItIsGiven) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.2xlarge", {.arguments = {"--memory-limit", "256MiB"}});
  Raw raw(daemon);
  ASSERT_EQ(raw.greet(), 0) << raw.behind << daemon.log();
  uint64_t bytes = 0;
  for (const base::FileDescriptor& file : raw.files) {
    if (!file) continue;
    touch(file.get());
    bytes += resident(file.get());
  }
  EXPECT_LE(bytes, kLimit);
}

// Asks for the file of what lies at an address, as a client that maps it does.
base::FileDescriptor file_of(Raw& raw, uint64_t address, uint64_t length) {
  auto request = wire::message<wire::MapRequest>(wire::Kind::kMap, 7);
  request.length = length;
  request.offset = address;
  request.protection = PROT_READ | PROT_WRITE;
  wire::Reply reply{};
  if (!raw.send(request) || raw.receive(reply) <= 0 || reply.result != 0) {
    return base::FileDescriptor();
  }
  return std::move(raw.files[0]);
}

TEST(MemoryLimit, HoldsForAClientThatTriesToGrowWhatItHasAllocated) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.2xlarge", {.arguments = {"--memory-limit", "256MiB"}});
  Device device(daemon);
  ASSERT_TRUE(device.valid()) << daemon.log();
  Raw raw(daemon);
  ASSERT_EQ(raw.greet(), 0);
  for (const bool host : {false, true}) {
    uint64_t handle = 0;
    ASSERT_EQ(device.allocate(64 * kMiB, host, handle), 0) << ndl::last_error();
    const base::FileDescriptor file = file_of(raw, device.address(handle), 64 * kMiB);
    ASSERT_TRUE(file) << host << raw.behind;
    EXPECT_NE(::ftruncate(file.get(), static_cast<off_t>(2 * kLimit)), 0);
    EXPECT_NE(::ftruncate(file.get(), 0), 0);
    EXPECT_NE(::fallocate(file.get(), 0, 0, static_cast<off_t>(2 * kLimit)), 0);
    EXPECT_LE(::pwrite(file.get(), "more", 4, static_cast<off_t>(64 * kMiB)), 0);
    touch(file.get());
    EXPECT_EQ(resident(file.get()), 64 * kMiB);
    ASSERT_EQ(device.free(handle), 0);
    // The pages are back although the file is still open here.
    EXPECT_EQ(resident(file.get()), 0u);
  }
  uint64_t handle = 0;
  EXPECT_EQ(device.allocate(kLimit, false, handle), -ENOMEM);
  EXPECT_THAT(ndl::last_error(), HasSubstr("NEURON_EMULATOR_MEMORY_LIMIT=268435456"));
}

TEST(MemoryLimit, OfAUserHoldsForAllOfItsProcessesTogetherAndEndsWithThem) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.2xlarge",
                      {.arguments = {"--memory-limit", "1GiB", "--user-memory-limit", "256MiB"}});
  Device device(daemon);
  ASSERT_TRUE(device.valid()) << daemon.log();
  for (int time = 0; time < 2; ++time) {
    Child fork = Child::forked([&] {
      Device own(daemon);
      if (!own.valid()) return 1;
      uint64_t handle = 0;
      // What the first turn's processes had is freed soon after their end.
      if (!test::eventually([&] { return own.allocate(192 * kMiB, time == 0, handle) == 0; })) {
        return 2;
      }
      Child sibling = Child::forked([&] {
        Device another(daemon);
        if (!another.valid()) return 1;
        uint64_t more = 0;
        if (another.allocate(65 * kMiB, false, more) != -ENOMEM) return 2;
        if (std::string(ndl::last_error()).find("--user-memory-limit") == std::string::npos) {
          return 3;
        }
        return another.allocate(32 * kMiB, true, more) == 0 ? 0 : 4;
      });
      return sibling.wait() == 0 ? 0 : 3;
    });
    ASSERT_EQ(fork.wait(), 0) << time << daemon.log();
  }
}

TEST(Isolation, NoProcessReadsWritesMapsOrFreesWhatAnotherHasAllocated) {
  const Folder folder;
  const Daemon daemon(folder);
  for (const bool host : {false, true}) {
    Device device(daemon);
    ASSERT_TRUE(device.valid()) << daemon.log();
    std::vector<char> secret(256 << 10, 's'), found(256 << 10, 0);
    uint64_t handle = 0;
    ASSERT_EQ(device.allocate(secret.size(), host, handle), 0);
    ASSERT_EQ(device.copy(handle, secret.data(), secret.size(), true), 0) << ndl::last_error();
    const uint64_t address = device.address(handle);
    Child other = Child::forked([&] {
      Device own(daemon);
      if (!own.valid()) return 1;
      void* mapped = nullptr;
      if (own->map(found.size(), PROT_READ, address, &mapped) != -EPERM) return 2;
      if (own.copy(handle, found.data(), found.size(), false) != -EINVAL) return 3;
      if (own.copy(handle, found.data(), 64, true) != -EINVAL) return 4;
      if (own.copy(handle, found.data(), found.size(), true) != -EINVAL) return 5;
      if (own.address(handle) != 0) return 6;
      neuron_ioctl_mem_get_mc_mmap_info_v2 info = {};
      info.pa = address;
      if (own->ioctl(NEURON_IOCTL_MEM_MC_GET_INFO_V2, &info) != -ENOMEM) return 7;
      neuron_ioctl_memset64 fill = {};
      fill.mem_handle = handle;
      fill.size = 64;
      if (own->ioctl(NEURON_IOCTL_MEMSET64, &fill) != -EINVAL) return 8;
      return own.free(handle) == -EINVAL ? 0 : 9;
    });
    EXPECT_EQ(other.wait(), 0) << "host memory: " << host;
    ASSERT_EQ(device.copy(handle, found.data(), found.size(), false), 0);
    EXPECT_EQ(found, secret);
  }
}

TEST(Isolation, AProcessUsesWhatItHasAllocatedThroughEachOfItsDescriptors) {
  const Folder folder;
  const Daemon daemon(folder);
  Device first(daemon), second(daemon);
  ASSERT_TRUE(first.valid() && second.valid()) << daemon.log();
  for (const uint64_t size : {uint64_t{4096}, 8 * kMiB}) {
    uint64_t handle = 0;
    ASSERT_EQ(first.allocate(size, false, handle), 0);
    std::vector<char> bytes(size, 'b'), found(size, 0);
    ASSERT_EQ(second.copy(handle, bytes.data(), size, true), 0) << ndl::last_error();
    ASSERT_EQ(first.copy(handle, found.data(), size, false), 0);
    EXPECT_EQ(found, bytes);
    void* mapped = nullptr;
    ASSERT_EQ(second->map(size, PROT_READ | PROT_WRITE, first.address(handle), &mapped), 0)
        << ndl::last_error();
    EXPECT_EQ(static_cast<char*>(mapped)[size - 1], 'b');
    static_cast<char*>(mapped)[0] = 'm';
    ASSERT_EQ(first.copy(handle, found.data(), 1, false), 0);
    EXPECT_EQ(found[0], 'm');
    ASSERT_EQ(second->unmap(mapped, size), 0);
    ASSERT_EQ(first.free(handle), 0);
  }
}

TEST(Isolation, MemoryThatIsAllocatedAgainHoldsNothingOfItsLastOwnerWhoMayStillMapIt) {
  const Folder folder;
  const Daemon daemon(folder);
  Device device(daemon);
  ASSERT_TRUE(device.valid()) << daemon.log();
  uint64_t handle = 0;
  ASSERT_EQ(device.allocate(kMiB, false, handle), 0);
  const uint64_t address = device.address(handle);
  void* mapped = nullptr;
  ASSERT_EQ(device->map(kMiB, PROT_READ | PROT_WRITE, address, &mapped), 0) << ndl::last_error();
  std::memset(mapped, 'o', kMiB);
  ASSERT_EQ(device.free(handle), 0);
  std::memset(mapped, 'l', kMiB);  // late: it is this process's own by now
  Child other = Child::forked([&] {
    Device next(daemon);
    uint64_t again = 0;
    if (!next.valid() || next.allocate(kMiB, false, again) != 0) return 1;
    if (next.address(again) != address) return 2;
    std::vector<char> found(kMiB, 1);
    if (next.copy(again, found.data(), kMiB, false) != 0) return 3;
    if (found != std::vector<char>(kMiB, 0)) return 4;
    std::vector<char> secret(kMiB, 's');
    return next.copy(again, secret.data(), kMiB, true) == 0 ? 0 : 5;
  });
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(static_cast<char*>(mapped)[0], 'l');
  ASSERT_EQ(device->unmap(mapped, kMiB), 0);
}

TEST(Isolation, ADatastoreIsReadByOthersAndWrittenByItsProcessAlone) {
  const Folder folder;
  const Daemon daemon(folder);
  Device device(daemon);
  ASSERT_TRUE(device.valid()) << daemon.log();
  neuron_ioctl_neuron_ds_info own = {};
  ASSERT_EQ(device->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &own), 0);
  void* mapped = nullptr;
  ASSERT_EQ(device->map(own.size, PROT_READ | PROT_WRITE, own.mmap_offset, &mapped), 0)
      << ndl::last_error();
  static_cast<char*>(mapped)[4096] = 'c';
  const pid_t owner = ::getpid();
  Child other = Child::forked([&] {
    Device reader(daemon);
    neuron_ioctl_neuron_ds_info info = {owner, 0, 0};
    if (!reader.valid() || reader->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &info) != 0) return 1;
    void* seen = nullptr;
    if (reader->map(info.size, PROT_READ | PROT_WRITE, info.mmap_offset, &seen) != -EACCES) {
      return 2;
    }
    if (reader->map(info.size, PROT_READ, info.mmap_offset, &seen) != 0) return 3;
    if (static_cast<char*>(seen)[4096] != 'c') return 4;
    return ::mprotect(seen, 4096, PROT_READ | PROT_WRITE) != 0 && errno == EACCES ? 0 : 5;
  });
  EXPECT_EQ(other.wait(), 0);
  // Given up, it is another process's one day; this mapping does not follow.
  ASSERT_EQ(device->ioctl(NEURON_IOCTL_RELEASE_NEURON_DS, &own), 0);
  static_cast<char*>(mapped)[4096] = 'x';
  Child next = Child::forked([&] {
    Device taker(daemon);
    if (!taker.valid()) return 1;
    for (int i = 0; i < 16; ++i) {
      neuron_ioctl_neuron_ds_info info = {};
      if (taker->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &info) != 0) return 2;
      void* seen = nullptr;
      if (taker->map(info.size, PROT_READ, info.mmap_offset, &seen) != 0) return 3;
      if (static_cast<char*>(seen)[4096] != 0) return 4;
      if (taker->ioctl(NEURON_IOCTL_RELEASE_NEURON_DS, &info) != 0) return 5;
    }
    return 0;
  });
  EXPECT_EQ(next.wait(), 0);
  ASSERT_EQ(device->unmap(mapped, own.size), 0);
}

// A connection whose process ends while it waits to be served; a child of it holds the socket.
TEST(Isolation, AConnectionIsNotServedForAProcessThatHasEndedMeanwhile) {
  const Folder folder;
  Daemon daemon(folder);
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  daemon.process().signal(SIGSTOP);
  Child client = Child::forked([&] {
    Raw raw(daemon);
    auto hello = wire::message<wire::Hello>(wire::Kind::kHello, 1);
    hello.oldest_version = hello.newest_version = 1;
    hello.features = wire::kFeatures;
    hello.purpose = wire::kPurposeOpen;
    hello.open_flags = O_RDWR;
    if (!raw.send(hello)) return 1;
    if (::fork() != 0) return 0;
    ::prctl(PR_SET_PDEATHSIG, 0);
    wire::Welcome welcome;
    const char answer = raw.receive(welcome) > 0 ? 'w' : 'c';  // welcome, or closed
    (void)!::write(told[1], &answer, 1);
    ::_exit(0);
  });
  EXPECT_EQ(client.wait(), 0);
  ::close(told[1]);
  daemon.process().signal(SIGCONT);
  char answer = 0;
  EXPECT_EQ(::read(told[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'c');
  ::close(told[0]);
}

TEST(Isolation, WhatClientsSayIsALineInTheLogAndNotTooManyOfThem) {
  const Folder folder;
  const Daemon daemon(folder);
  Device device(daemon);
  ASSERT_TRUE(device.valid()) << daemon.log();
  char text[] = "first\nneuron-emulatord: a forged line\x1b]0;title\x07\x1b[31m";
  neuron_ioctl_printk print = {text, sizeof(text), 0};
  ASSERT_EQ(device->ioctl(NEURON_IOCTL_PRINTK, &print), 0) << ndl::last_error();
  EXPECT_THAT(daemon.log(), HasSubstr("neuron0: first\\x0a"));
  EXPECT_THAT(daemon.log(), Not(HasSubstr("\nneuron-emulatord: a forged line")));
  EXPECT_THAT(daemon.log(), Not(HasSubstr("\x1b")));
  for (int i = 0; i < 500; ++i) ASSERT_EQ(device->ioctl(NEURON_IOCTL_PRINTK, &print), 0);
  // Connections that break the protocol, each of which the log hears of.
  for (int i = 0; i < 200; ++i) {
    Raw raw(daemon);
    wire::Header answer;
    ASSERT_TRUE(raw.send(uint64_t{0x4141414141414141}));
    ASSERT_EQ(raw.receive(answer), 0);
  }
  const std::string log = daemon.log();
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 40) << log;
}

}  // namespace
}  // namespace neuron::multi
