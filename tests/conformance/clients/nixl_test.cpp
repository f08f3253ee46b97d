// SPDX-License-Identifier: Apache-2.0
// NVIDIA's NIXL: its benchmark, which has no header of the runtime, and its plug-in for libfabric.
#include <map>

#include "tests/conformance/clients/client.h"

namespace neuron::test {
namespace {

constexpr size_t kChunk = 2 << 20;

// nixlbench moves by addresses: it finds the tensor that an address lies in, and its offset there.
class Bench {
 public:
  bool init() const { return init_(1, "nixl_bench", "nixl_bench") == kSuccess; }
  uint32_t cores() const {
    uint32_t count = 0;
    return visible_(&count) == kSuccess ? count : 0;
  }
  uint8_t* allocate(size_t size, int core) {
    void* tensor = nullptr;
    if (allocate_(0, core, size, "nixl", &tensor) != kSuccess) return nullptr;
    auto* va = static_cast<uint8_t*>(get_va_(tensor));
    if (va != nullptr) tensors_[va] = {tensor, size};
    return va;
  }
  void free(uint8_t* va) {
    free_(&tensors_.at(va).handle);
    EXPECT_EQ(tensors_.at(va).handle, nullptr);
    tensors_.erase(va);
  }
  bool write(uint8_t* va, const uint8_t* from, size_t size) const {
    return in_chunks(va, size, [&](void* tensor, size_t at, size_t done, size_t bytes) {
      return write_(tensor, from + done, at, bytes);
    });
  }
  bool read(uint8_t* va, uint8_t* to, size_t size) const {
    return in_chunks(va, size, [&](void* tensor, size_t at, size_t done, size_t bytes) {
      return read_(tensor, to + done, at, bytes);
    });
  }

 private:
  struct Tensor {
    void* handle;
    size_t size;
  };
  template <class Move>
  bool in_chunks(uint8_t* va, size_t size, const Move& move) const {
    auto found = tensors_.upper_bound(va);
    if (found == tensors_.begin()) return false;
    --found;
    const auto at = static_cast<size_t>(va - found->first);
    for (size_t done = 0; done < size; done += kChunk) {
      const size_t bytes = std::min(kChunk, size - done);
      if (move(found->second.handle, at + done, done, bytes) != kSuccess) return false;
    }
    return true;
  }

  Library library_;
  int (*init_)(int, const char*,
               const char*) = library_.get<int(int, const char*, const char*)>("nrt_init");
  int (*visible_)(uint32_t*) = library_.get<int(uint32_t*)>("nrt_get_visible_vnc_count");
  int (*allocate_)(int, int, size_t, const char*, void**) =
      library_.get<int(int, int, size_t, const char*, void**)>("nrt_tensor_allocate");
  void (*free_)(void**) = library_.get<void(void**)>("nrt_tensor_free");
  void* (*get_va_)(const void*) = library_.get<void*(const void*)>("nrt_tensor_get_va");
  int (*read_)(const void*, void*, size_t,
               size_t) = library_.get<int(const void*, void*, size_t, size_t)>("nrt_tensor_read");
  int (*write_)(void*, const void*, size_t,
                size_t) = library_.get<int(void*, const void*, size_t, size_t)>("nrt_tensor_write");
  std::map<uint8_t*, Tensor> tensors_;
};

class Nixl : public Client {
 protected:
  Nixl() : Client("trn1.32xlarge") {}
};

TEST_F(Nixl, MovesByAddressesInsideOfTensorsOnEveryCore) {
  emulator_.set("trn1.2xlarge");
  Bench bench;
  ASSERT_TRUE(bench.init());
  ASSERT_EQ(bench.cores(), 2u);
  const auto bytes = pattern(5 << 20);
  std::vector<uint8_t*> places;
  for (int core = 0; core < 2; ++core) places.push_back(bench.allocate(8 << 20, core));
  for (uint8_t* va : places) {
    ASSERT_NE(va, nullptr);
    ASSERT_TRUE(bench.write(va + 77777, bytes.data(), bytes.size()));
    std::vector<uint8_t> found(bytes.size());
    ASSERT_TRUE(bench.read(va + 77777, found.data(), found.size()));
    EXPECT_EQ(found, bytes);
    EXPECT_FALSE(bench.write(va + (4 << 20), bytes.data(), bytes.size())) << "beyond its end";
  }
  for (uint8_t* va : places) bench.free(va);
  EXPECT_EQ(bench.allocate(64, 2), nullptr) << "there is no third core";
}

TEST_F(Nixl, OneProcessOfManyTakesACoreOfItsOwn) {
  const Setting one("NEURON_RT_NUM_CORES", "1");
  Bench bench;
  ASSERT_TRUE(bench.init());
  EXPECT_EQ(bench.cores(), 1u);
  EXPECT_NE(bench.allocate(4096, 0), nullptr);
  EXPECT_EQ(bench.allocate(4096, 1), nullptr);
}

// The plug-in asks for the network card of each buffer that it registers.
TEST_F(Nixl, ThePlugInIsToldTheCardBesideABuffer) {
  const Library library;
  const auto attached = library.get<int(const void*, char*, size_t*)>("nrt_get_attached_efa_bdf");
  Bench bench;
  ASSERT_TRUE(bench.init());
  for (const auto& [core, expected] : {std::pair{0, "0000:10:1a.0"}, {31, "0000:a0:19.0"}}) {
    uint8_t* va = bench.allocate(1 << 16, core);
    ASSERT_NE(va, nullptr);
    char place[] = "0000:00:00.0";  // as much room as the plug-in has
    size_t length = sizeof(place);
    ASSERT_EQ(attached(va + 100, place, &length), kSuccess);
    EXPECT_EQ(std::string(place, length), expected);
    size_t small = 4;
    EXPECT_EQ(attached(va, place, &small), kResource);
    bench.free(va);
  }
  char place[64] = "";
  size_t room = sizeof(place);
  EXPECT_EQ(attached(&room, place, &room), kInvalid) << "memory of the host";
}

// It takes any card then.
TEST_F(Nixl, ThePlugInIsToldThatAHostHasNoCard) {
  emulator_.set("trn1.2xlarge");
  const Library library;
  const auto attached = library.get<int(const void*, char*, size_t*)>("nrt_get_attached_efa_bdf");
  Bench bench;
  ASSERT_TRUE(bench.init());
  uint8_t* va = bench.allocate(1 << 16, 0);
  ASSERT_NE(va, nullptr);
  char place[64] = "";
  size_t length = sizeof(place);
  EXPECT_EQ(attached(va, place, &length), kFailure);
}

}  // namespace
}  // namespace neuron::test
