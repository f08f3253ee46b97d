// SPDX-License-Identifier: Apache-2.0
// The benchmark of Mooncake's transfer engine.
#include "tests/conformance/clients/client.h"

namespace neuron::test {
namespace {

class Mooncake : public Client {};

TEST_F(Mooncake, FindsTheLibraryThatIsOpenAndInitialisesItAgain) {
  const Library opened;
  ASSERT_NE(opened.handle(), nullptr) << ::dlerror();
  const Library again(RTLD_NOW | RTLD_NOLOAD);
  EXPECT_EQ(again.handle(), opened.handle());

  const auto init = again.get<int(int, const char*, const char*)>("nrt_init");
  const auto allocate =
      again.get<int(int, int, size_t, const char*, void**)>("nrt_tensor_allocate");
  const auto write = again.get<int(void*, const void*, size_t, size_t)>("nrt_tensor_write");
  const auto read = again.get<int(const void*, void*, size_t, size_t)>("nrt_tensor_read");
  ASSERT_EQ(init(1, "", ""), kSuccess);
  void* tensor = nullptr;
  ASSERT_EQ(allocate(0, 0, 4096, "kept", &tensor), kSuccess);
  const auto bytes = pattern(4096);
  ASSERT_EQ(write(tensor, bytes.data(), 0, bytes.size()), kSuccess);
  ASSERT_EQ(init(1, "", ""), kSuccess);
  std::vector<uint8_t> found(4096);
  ASSERT_EQ(read(tensor, found.data(), 0, found.size()), kSuccess);
  EXPECT_EQ(found, bytes) << "a second nrt_init changes nothing";
  again.get<void(void**)>("nrt_tensor_free")(&tensor);
}

TEST_F(Mooncake, CountsCoresUntilOneIsRefused) {
  const Library library;
  ASSERT_EQ(library.get<int(int, const char*, const char*)>("nrt_init")(1, "", ""), kSuccess);
  const auto allocate =
      library.get<int(int, int, size_t, const char*, void**)>("nrt_tensor_allocate");
  const auto release = library.get<void(void**)>("nrt_tensor_free");
  int cores = 0, status = kSuccess;
  while (cores < 1000) {
    void* tensor = nullptr;
    status = allocate(0, cores, 64, "probe", &tensor);
    if (status != kSuccess) break;
    release(&tensor);
    ++cores;
  }
  EXPECT_EQ(cores, 2);
  EXPECT_EQ(status, kInvalid);
}

}  // namespace
}  // namespace neuron::test
