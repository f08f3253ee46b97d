// SPDX-License-Identifier: Apache-2.0
// libneuron-emulator.so.1 as the driver library uses it: loaded at run time, reached through the
// table of include/ndl/emulator.h and nothing else.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "hw/address_map.h"
#include "ndl/emulator.h"
#include "tests/support/child.h"
#include "tests/support/setting.h"
#include "uapi/neuron_ioctl.h"

namespace {

using Entry = decltype(&neuron_emulator_interface);

constexpr uint64_t kSemaphores = NEURON_V2_CORE_WINDOW(1) + NEURON_CORE_SEMAPHORES;
constexpr uint64_t kSecond = 1'000'000'000;

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kSecond + static_cast<uint64_t>(now.tv_nsec);
}

class EmulatorLibrary : public testing::Test {
 protected:
  void SetUp() override {
    library = dlopen(NEURON_BUILD_DIR "/lib/libneuron-emulator.so.1", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    entry = reinterpret_cast<Entry>(dlsym(library, "neuron_emulator_interface"));
    ASSERT_NE(entry, nullptr) << dlerror();
    emulator = entry(NEURON_EMULATOR_INTERFACE_VERSION);
    ASSERT_NE(emulator, nullptr);
  }
  void TearDown() override {
    if (instance) emulator->destroy(instance);
    if (library) dlclose(library);
  }
  void create() {
    ASSERT_EQ(emulator->create("trn1.2xlarge", &instance), 0) << emulator->last_error();
  }
  void open() {
    create();
    ASSERT_EQ(emulator->open(instance, 0, O_RDWR, &device), 0) << emulator->last_error();
  }
  bool says(const char* part) const {
    return std::string(emulator->last_error()).find(part) != std::string::npos;
  }
  // A chunk of HBM 0 and where it is mapped.
  uint64_t allocate(uint64_t size, uint64_t* offset) {
    __u64 handle = 0;
    neuron_ioctl_mem_alloc_v2_mem_type64 request = {};
    request.size = size;
    request.mem_type = NEURON_MEMALLOC_TYPE_TENSORS_DEVICE;
    request.mem_handle = &handle;
    EXPECT_EQ(emulator->ioctl(device, NEURON_IOCTL_MEM_ALLOC_V2MT64, &request), 0)
        << emulator->last_error();
    neuron_ioctl_mem_get_extended_info info = {};
    info.mem_handle = handle;
    EXPECT_EQ(emulator->ioctl(device, NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &info), 0)
        << emulator->last_error();
    EXPECT_EQ(info.size, size);
    *offset = info.mmap_offset;
    return handle;
  }

  void* library = nullptr;
  Entry entry = nullptr;
  const struct neuron_emulator_interface* emulator = nullptr;
  neuron_emulator_instance_t* instance = nullptr;
  neuron_emulator_device_t* device = nullptr;
};

TEST_F(EmulatorLibrary, SpeaksItsVersionOfTheInterfaceAndNoOther) {
  EXPECT_EQ(emulator->version, NEURON_EMULATOR_INTERFACE_VERSION);
  EXPECT_EQ(emulator->size, sizeof(*emulator));
  EXPECT_EQ(entry(NEURON_EMULATOR_INTERFACE_VERSION + 1), nullptr);
  EXPECT_EQ(entry(0), nullptr);
}

TEST_F(EmulatorLibrary, SaysWhichProfileOrLimitItCannotUse) {
  instance = reinterpret_cast<neuron_emulator_instance_t*>(1);
  EXPECT_EQ(emulator->create("trn9.huge", &instance), -ENOENT);
  EXPECT_EQ(instance, nullptr);
  EXPECT_TRUE(says("trn9.huge") && says("trn1.2xlarge")) << emulator->last_error();
  EXPECT_EQ(emulator->create(nullptr, &instance), -EINVAL);
  EXPECT_EQ(emulator->create("trn1.2xlarge", nullptr), -EINVAL);
  for (const char* limit : {" -1", "-1", "0", "16G", "99999999999999999999"}) {
    const neuron::test::Setting setting("NEURON_EMULATOR_MEMORY_LIMIT", limit);
    EXPECT_EQ(emulator->create("trn1.2xlarge", &instance), -EINVAL) << limit;
    EXPECT_TRUE(says("NEURON_EMULATOR_MEMORY_LIMIT")) << emulator->last_error();
  }
}

TEST_F(EmulatorLibrary, OpensTheDevicesThatItsProfileHas) {
  open();
  EXPECT_EQ(emulator->device_count(instance), 1u);
  neuron_ioctl_device_basic_info info = {};
  EXPECT_EQ(emulator->ioctl(device, NEURON_IOCTL_DEVICE_BASIC_INFO, &info), 0);
  EXPECT_EQ(info.architecture, 2u);
  auto* other = reinterpret_cast<neuron_emulator_device_t*>(1);
  EXPECT_EQ(emulator->open(instance, 1, O_RDWR, &other), -ENODEV);
  EXPECT_EQ(other, nullptr);
  EXPECT_TRUE(says("found 1")) << emulator->last_error();
  EXPECT_EQ(emulator->ioctl(device, 0x1234, nullptr), -EINVAL);
  EXPECT_TRUE(says("0x1234")) << emulator->last_error();
  EXPECT_EQ(emulator->close(device), 0);
}

TEST_F(EmulatorLibrary, MapsTheMemoryThatItsCopiesReach) {
  open();
  constexpr uint64_t kBytes = 2 << 20;
  uint64_t offset = 0;
  const uint64_t handle = allocate(kBytes, &offset);
  void* mapped = nullptr;
  ASSERT_EQ(emulator->map(device, kBytes, PROT_READ | PROT_WRITE, offset, &mapped), 0)
      << emulator->last_error();
  std::vector<unsigned char> bytes(kBytes);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 31 >> 3);
  neuron_ioctl_mem_buf_copy64 copy = {};
  copy.mem_handle = handle;
  copy.buffer = bytes.data();
  copy.size = kBytes;
  copy.copy_to_mem_handle = 1;
  ASSERT_EQ(emulator->ioctl(device, NEURON_IOCTL_MEM_BUF_COPY64, &copy), 0)
      << emulator->last_error();
  EXPECT_EQ(std::memcmp(mapped, bytes.data(), kBytes), 0);
  EXPECT_EQ(emulator->unmap(device, mapped, kBytes), 0);
  EXPECT_EQ(emulator->map(device, kBytes / 2, PROT_READ, offset, &mapped), -EINVAL);
  EXPECT_EQ(mapped, nullptr);
}

TEST_F(EmulatorLibrary, ReachesSemaphoresButNoOtherRegisters) {
  open();
  uint32_t value = 0;
  ASSERT_EQ(emulator->write_register(device, kSemaphores + NEURON_SEM_BLOCK_SET + 4 * 9, 41, 0), 0);
  ASSERT_EQ(emulator->write_register(device, kSemaphores + NEURON_SEM_BLOCK_INC + 4 * 9, 1, 0), 0);
  ASSERT_EQ(emulator->read_register(device, kSemaphores + NEURON_SEM_BLOCK_READ + 4 * 9, &value),
            0);
  EXPECT_EQ(value, 42u);
  EXPECT_EQ(emulator->read_register(device, NEURON_V2_MISC_RAM, &value), -EACCES);
  EXPECT_EQ(emulator->write_register(device, NEURON_V2_MISC_RAM, 0, 0), -EACCES);
  EXPECT_EQ(emulator->read_register(device, kSemaphores + 2, &value), -EACCES) << "unaligned";
}

TEST_F(EmulatorLibrary, WaitsForAWordAndTellsQuiescenceFromSuccess) {
  open();
  uint64_t offset = 0;
  allocate(4096, &offset);
  void* mapped = nullptr;
  ASSERT_EQ(emulator->map(device, 4096, PROT_READ | PROT_WRITE, offset, &mapped), 0);
  auto* word = static_cast<uint32_t*>(mapped);
  *word = 7;
  EXPECT_EQ(emulator->wait(device, 0, word, 6, now_ns() + kSecond), 0) << "it differs already";
  EXPECT_EQ(emulator->wait(device, 0, word, 7, now_ns() + 60 * kSecond), -EDEADLK)
      << "no program is loaded, so nothing will change it";
  EXPECT_EQ(emulator->wait(device, 9, word, 7, now_ns() + kSecond), -EINVAL);
}

TEST_F(EmulatorLibrary, DescribesACoreInAsMuchRoomAsThereIs) {
  open();
  const size_t length = emulator->describe(device, 0, nullptr, 0);
  ASSERT_GT(length, 10u);
  std::vector<char> whole(length + 1, 'x');
  EXPECT_EQ(emulator->describe(device, 0, whole.data(), whole.size()), length);
  EXPECT_EQ(std::strlen(whole.data()), length);
  char part[8];
  EXPECT_EQ(emulator->describe(device, 0, part, sizeof(part)), length);
  EXPECT_EQ(std::string(part), std::string(whole.data(), sizeof(part) - 1));
  EXPECT_EQ(emulator->describe(device, 99, part, sizeof(part)), 0u);
}

TEST_F(EmulatorLibrary, AnswersNullHandlesInsteadOfCrashing) {
  create();
  uint32_t value = 0;
  void* address = nullptr;
  EXPECT_EQ(emulator->open(nullptr, 0, O_RDWR, &device), -EINVAL);
  EXPECT_EQ(emulator->open(instance, 0, O_RDWR, nullptr), -EINVAL);
  EXPECT_EQ(emulator->close(nullptr), -EINVAL);
  EXPECT_EQ(emulator->ioctl(nullptr, NEURON_IOCTL_DEVICE_INFO, &value), -EINVAL);
  EXPECT_EQ(emulator->map(nullptr, 1, PROT_READ, 0, &address), -EINVAL);
  EXPECT_EQ(emulator->unmap(nullptr, &value, 1), -EINVAL);
  EXPECT_EQ(emulator->read_register(nullptr, 0, &value), -EINVAL);
  EXPECT_EQ(emulator->write_register(nullptr, 0, 0, 0), -EINVAL);
  EXPECT_EQ(emulator->wait(nullptr, 0, &value, 0, 0), -EINVAL);
  EXPECT_EQ(emulator->describe(nullptr, 0, nullptr, 0), 0u);
  EXPECT_EQ(emulator->device_count(nullptr), 0u);
  emulator->destroy(nullptr);
  EXPECT_TRUE(says("null")) << emulator->last_error();
}

TEST_F(EmulatorLibrary, GivesBackWhatAClosedDeviceHeld) {
  open();
  uint64_t offset = 0;
  allocate(64 << 20, &offset);
  ASSERT_EQ(emulator->close(device), 0);
  ASSERT_EQ(emulator->open(instance, 0, O_RDWR, &device), 0) << emulator->last_error();
  uint64_t again = ~0ull;
  allocate(64 << 20, &again);
  EXPECT_EQ(again, offset);
  // destroy() closes this one.
}

TEST_F(EmulatorLibrary, KeepsASentencePerThread) {
  ASSERT_EQ(emulator->create("trn9.huge", &instance), -ENOENT);
  std::string elsewhere = "unset";
  std::thread([&] { elsewhere = emulator->last_error(); }).join();
  EXPECT_EQ(elsewhere, "");
  EXPECT_TRUE(says("trn9.huge"));
}

TEST_F(EmulatorLibrary, RefusesTheChildOfAFork) {
  open();
  auto child = neuron::test::Child::forked([&] {
    neuron_ioctl_device_basic_info info = {};
    const int answer = emulator->ioctl(device, NEURON_IOCTL_DEVICE_BASIC_INFO, &info);
    return answer == -EBADF && says("parent") ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
