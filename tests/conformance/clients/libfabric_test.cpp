// SPDX-License-Identifier: Apache-2.0
// libfabric's memory of Neuron devices, and the programs that test it.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/conformance/clients/client.h"

namespace neuron::test {
namespace {

// The functions in the order in which libfabric looks for them.
struct Hmem {
  Library library;
  int (*allocate)(int placement, int core, size_t size, const char* name, void** tensor) =
      library.get<int(int, int, size_t, const char*, void**)>("nrt_tensor_allocate");
  void (*free)(void** tensor) = library.get<void(void**)>("nrt_tensor_free");
  void* (*get_va)(const void* tensor) = library.get<void*(const void*)>("nrt_tensor_get_va");
  int (*copy)(void* to, const void* from,
              size_t size) = library.get<int(void*, const void*, size_t)>("nrt_memcpy_to_device");
  int (*count)(uint32_t* cores) = library.get<int(uint32_t*)>("nrt_get_total_nc_count");
  int (*dmabuf_v2)(uint64_t va, uint64_t size, int* fd, uint64_t* offset) =
      library.get<int(uint64_t, uint64_t, int*, uint64_t*)>("nrt_get_dmabuf_fd_v2");
  int (*dmabuf)(uint64_t va, uint64_t size,
                int* fd) = library.get<int(uint64_t, uint64_t, int*)>("nrt_get_dmabuf_fd");
};

class Libfabric : public Client {};

TEST_F(Libfabric, AsksForCoresBeforeAnyInit) {
  uint32_t cores = 0;
  EXPECT_EQ(Hmem().count(&cores), kSuccess);
  EXPECT_EQ(cores, 2u);
  // The library was closed in between, as a program that looks twice does.
  EXPECT_EQ(Hmem().count(&cores), kSuccess);
}

TEST_F(Libfabric, TakesAHostWithoutADeviceForOneWithoutNeuron) {
  if (::access("/dev/neuron0", F_OK) == 0) GTEST_SKIP() << "this host has a device";
  // In a process of its own, for this one has had a device.
  emulator_.set(nullptr);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        emulator_.set(nullptr);
        uint32_t cores = 0;
        std::exit(Hmem().count(&cores) != kSuccess || cores == 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), testing::IsEmpty());
}

TEST_F(Libfabric, CopiesToDeviceMemoryAndRegistersIt) {
  const Hmem hmem;
  ASSERT_EQ(hmem.library.get<int(int, const char*, const char*)>("nrt_init")(1, "2.0", ""), 0);
  void* tensor = nullptr;
  ASSERT_EQ(hmem.allocate(0, 0, 1 << 20, "fi", &tensor), kSuccess);
  auto* va = static_cast<uint8_t*>(hmem.get_va(tensor));
  ASSERT_NE(va, nullptr);
  // Copies begin anywhere. The other direction has no call: it is a load from the mapping.
  const auto bytes = pattern(70001);
  ASSERT_EQ(hmem.copy(va + 4099, bytes.data(), bytes.size()), kSuccess);
  EXPECT_EQ(std::memcmp(va + 4099, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(hmem.copy(va + (1 << 20) - 100, bytes.data(), 101), kInvalid) << "beyond the tensor";
  uint8_t host[16];
  EXPECT_EQ(hmem.copy(host, bytes.data(), sizeof(host)), kInvalid) << "memory of the host";

  // 4 would fail the registration; any other error means one without a dma-buf.
  const auto address = reinterpret_cast<uint64_t>(va);
  for (const uint64_t at : {uint64_t{0}, uint64_t{65536}}) {
    int fd = -1;
    uint64_t offset = 7;
    const int status = hmem.dmabuf_v2(address + at, 4096, &fd, &offset);
    EXPECT_NE(status, kResource);
    if (status != kSuccess) continue;
    EXPECT_EQ(offset % 4096, 0u);
    uint8_t found[256] = {};
    void* mapped = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
    if (mapped != MAP_FAILED) {
      std::memcpy(found, mapped, sizeof(found));
      EXPECT_EQ(std::memcmp(found, va + at, sizeof(found)), 0);
      ::munmap(mapped, 4096);
    }
    ::close(fd);
  }
  int fd = -1;
  uint64_t offset = 0;
  for (const int status : {hmem.dmabuf_v2(reinterpret_cast<uint64_t>(host), 16, &fd, &offset),
                           hmem.dmabuf(reinterpret_cast<uint64_t>(host), 16, &fd)}) {
    EXPECT_NE(status, kSuccess);
    EXPECT_NE(status, kResource) << "memory of the host is registered in another way";
  }
  hmem.free(&tensor);
  EXPECT_EQ(tensor, nullptr);
}

// What fabtests do: writes and reads at any offset, and no nrt_close. 0: all was well.
int fabtests() {
  const Library library;
  const auto init = library.get<int(int, const char*, const char*)>("nrt_init");
  const auto write = library.get<int(void*, const void*, size_t, size_t)>("nrt_tensor_write");
  const auto read = library.get<int(const void*, void*, size_t, size_t)>("nrt_tensor_read");
  const auto allocate =
      library.get<int(int, int, size_t, const char*, void**)>("nrt_tensor_allocate");
  const auto get_va = library.get<void*(const void*)>("nrt_tensor_get_va");
  const auto release = library.get<void(void**)>("nrt_tensor_free");
  if (init(1, "2.0", "") != kSuccess) return 1;
  void *one = nullptr, *other = nullptr;
  if (allocate(0, 0, 100000, "one", &one) != kSuccess || get_va(one) == nullptr) return 2;
  if (allocate(0, 0, 50, "other", &other) != kSuccess) return 3;
  const auto bytes = pattern(33333);
  std::vector<uint8_t> found(bytes.size());
  if (write(one, bytes.data(), 12345, bytes.size()) != kSuccess) return 4;
  if (read(one, found.data(), 12345, found.size()) != kSuccess || found != bytes) return 5;
  if (write(other, bytes.data(), 1, 50) == kSuccess) return 6;
  release(&other);
  return other == nullptr ? 0 : 7;
}

TEST_F(Libfabric, FabtestsEndWithTheLibraryClosedAndTheRuntimeOpen) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(fabtests()), testing::ExitedWithCode(0), testing::IsEmpty());
}

}  // namespace
}  // namespace neuron::test
