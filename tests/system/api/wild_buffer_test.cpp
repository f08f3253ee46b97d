// SPDX-License-Identifier: Apache-2.0
// Buffers that a program names and does not have: a status and a sentence, wherever the tensor is.
#include <sys/mman.h>
#include <unistd.h>

#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

constexpr size_t kBytes = 256 << 10;  // more than a daemon takes in one message

// Pages of this process, of which the test takes some away.
class Pages {
 public:
  explicit Pages(int file = -1)
      : at_(static_cast<uint8_t*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                         file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file,
                                         0))) {}
  ~Pages() { ::munmap(at_, kBytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  uint8_t* at() const { return at_; }
  uint8_t* second() const { return at_ + ::getpagesize(); }
  void unmap_second() const { ::munmap(second(), static_cast<size_t>(::getpagesize())); }
  void protect_second(int access) const {
    ::mprotect(second(), static_cast<size_t>(::getpagesize()), access);
  }

 private:
  uint8_t* at_;
};

std::string hex(const void* at) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%zx", reinterpret_cast<size_t>(at));
  return text;
}

class WildBuffer : public RuntimeTest {
 protected:
  static constexpr nrt_tensor_placement_t kPlacements[] = {
      NRT_TENSOR_PLACEMENT_DEVICE, NRT_TENSOR_PLACEMENT_HOST, NRT_TENSOR_PLACEMENT_VIRTUAL};
  // Both ways, alone and in a batch.
  static void expect_refused(nrt_tensor_t* tensor, void* buffer, size_t size, bool read,
                             bool written, const std::string& why) {
    nrt_tensor_batch_op_t operation{.offset = 0, .size = size, .buffer = buffer};
    const nrt_tensor_batch_t batch{.tensor = tensor, .ops = &operation, .num_ops = 1};
    const auto expect = [&](NRT_STATUS status, const char* call) {
      EXPECT_EQ(status, NRT_INVALID) << call;
      EXPECT_THAT(nrt_open_last_error(), HasSubstr("buffer of " + std::to_string(size) + " bytes"))
          << call;
      EXPECT_THAT(nrt_open_last_error(), HasSubstr(why)) << call;
    };
    if (read) expect(nrt_tensor_read(tensor, buffer, 0, size), "nrt_tensor_read");
    if (read) expect(nrt_tensor_read_batch(&batch, 1, true), "nrt_tensor_read_batch");
    if (written) expect(nrt_tensor_write(tensor, buffer, 0, size), "nrt_tensor_write");
    if (written) expect(nrt_tensor_write_batch(&batch, 1, true), "nrt_tensor_write_batch");
  }
};

TEST_F(WildBuffer, OfNoMemoryIsRefused) {
  for (const auto placement : kPlacements) {
    nrt_tensor_t* tensor = make_tensor(kBytes, 0, placement);
    for (const size_t size : {size_t{1}, size_t{100}, kBytes}) {
      auto* const nowhere = reinterpret_cast<void*>(0x10);
      expect_refused(tensor, nowhere, size, true, true, "this process has no memory at 0x10");
      auto* const far = reinterpret_cast<void*>(0xdead'0000'0000'0000);
      expect_refused(tensor, far, size, true, true, "no memory at 0xdead000000000000");
    }
    expect_refused(tensor, reinterpret_cast<void*>(UINTPTR_MAX), 2, true, true,
                   "behind the last address");
    nrt_tensor_free(&tensor);
  }
}

TEST_F(WildBuffer, WhoseSecondPageIsMissingIsRefusedAndNamesIt) {
  const Pages pages;
  pages.unmap_second();
  for (const auto placement : kPlacements) {
    nrt_tensor_t* tensor = make_tensor(kBytes, 0, placement);
    const auto page = static_cast<size_t>(::getpagesize());
    for (const size_t size : {page + 1, kBytes}) {
      expect_refused(tensor, pages.at(), size, true, true, "no memory at " + hex(pages.second()));
    }
    EXPECT_EQ(nrt_tensor_write(tensor, pages.at(), 0, page), NRT_SUCCESS);
    nrt_tensor_free(&tensor);
  }
}

TEST_F(WildBuffer, ThatMayOnlyBeReadIsNoTarget) {
  const Pages pages;
  for (const auto placement : kPlacements) {
    nrt_tensor_t* tensor = make_tensor(kBytes, 0, placement);
    pages.protect_second(PROT_READ);
    expect_refused(tensor, pages.at(), kBytes, true, false,
                   "the memory at " + hex(pages.second()) + " may not be written");
    EXPECT_EQ(nrt_tensor_write(tensor, pages.at(), 0, kBytes), NRT_SUCCESS);
    pages.protect_second(PROT_NONE);
    expect_refused(tensor, pages.at(), kBytes, true, false, "may not be written");
    expect_refused(tensor, pages.at(), kBytes, false, true, "may not be read");
    nrt_tensor_free(&tensor);
  }
}

TEST_F(WildBuffer, BehindTheEndOfItsFileIsRefused) {
  const int file = ::memfd_create("short", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(file, ::getpagesize()), 0);
  const Pages pages(file);
  nrt_tensor_t* tensor = make_tensor(kBytes);
  expect_refused(tensor, pages.at(), kBytes, true, true, "the file");
  ::close(file);
  nrt_tensor_free(&tensor);
}

TEST_F(WildBuffer, OfACopyToAnAddressOrAModelIsRefused) {
  nrt_tensor_t* tensor = make_tensor(kBytes);
  void* const address = nrt_tensor_get_va(tensor);
  ASSERT_NE(address, nullptr);
  EXPECT_EQ(nrt_memcpy_to_device(address, reinterpret_cast<void*>(0x10), 64), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("buffer of 64 bytes at 0x10 cannot be read"));
  nrt_model_t* model = nullptr;
  EXPECT_EQ(nrt_load(reinterpret_cast<void*>(0x10), 4096, 0, 1, &model), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("buffer of 4096 bytes at 0x10 cannot be read"));
  EXPECT_EQ(nrt_tensor_write_batch(reinterpret_cast<nrt_tensor_batch_t*>(0x10), 1, true),
            NRT_INVALID);
  nrt_tensor_batch_t batch{
      .tensor = tensor, .ops = reinterpret_cast<nrt_tensor_batch_op_t*>(0x10), .num_ops = 1};
  EXPECT_EQ(nrt_tensor_read_batch(&batch, 1, true), NRT_INVALID);
  nrt_tensor_free(&tensor);
}

// What was attached may be gone when it is used.
TEST_F(WildBuffer, ThatWasAttachedIsRefusedWhenItIsUsed) {
  const Pages pages;
  nrt_tensor_t* attached = nullptr;
  ASSERT_EQ(nrt_tensor_allocate_empty("attached", &attached), NRT_SUCCESS);
  ASSERT_EQ(nrt_tensor_attach_buffer(attached, pages.at(), kBytes), NRT_SUCCESS);
  nrt_tensor_t* tensor = make_tensor(kBytes);
  EXPECT_EQ(nrt_tensor_copy(tensor, 0, attached, 0, kBytes), NRT_SUCCESS);
  pages.unmap_second();
  Bytes bytes(kBytes);
  EXPECT_EQ(nrt_tensor_copy(tensor, 0, attached, 0, kBytes), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("attached"));
  EXPECT_EQ(nrt_tensor_copy(attached, 0, tensor, 0, kBytes), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_memset(attached, 0, 1, kBytes), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_read(attached, bytes.data(), 0, kBytes), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_write(attached, bytes.data(), 0, kBytes), NRT_INVALID);
  nrt_tensor_free(&attached);
  nrt_tensor_free(&tensor);
}

TEST_F(WildBuffer, ThatWasAttachedAsAnInputOrOutputFailsTheExecution) {
  std::vector<Bytes> kept;  // what is attached outlives the model
  Loaded add(small_add());
  const auto page = static_cast<size_t>(::getpagesize());
  for (const auto& [name, tensor] : add.tensors) {
    Pages pages;
    const size_t size = nrt_tensor_get_size(tensor);
    ASSERT_GT(size, page);
    ASSERT_EQ(nrt_tensor_attach_buffer(tensor, pages.at(), size), NRT_SUCCESS);
    EXPECT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
    pages.unmap_second();
    EXPECT_EQ(add.run(), NRT_INVALID) << name;
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("no memory at " + hex(pages.second())));
    Bytes again(size);
    ASSERT_EQ(nrt_tensor_attach_buffer(tensor, again.data(), size), NRT_SUCCESS);
    EXPECT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
    kept.push_back(std::move(again));
  }
}

}  // namespace
}  // namespace neuron::test
