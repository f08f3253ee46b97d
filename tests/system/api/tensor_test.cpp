// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "tests/support/files.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

class Tensor : public RuntimeTest {};

TEST_F(Tensor, KeepsWhatWasWrittenAtAnyOffset) {
  for (const auto placement :
       {NRT_TENSOR_PLACEMENT_DEVICE, NRT_TENSOR_PLACEMENT_HOST, NRT_TENSOR_PLACEMENT_VIRTUAL}) {
    nrt_tensor_t* tensor = make_tensor(200'000, 0, placement);
    ASSERT_EQ(nrt_tensor_get_size(tensor), 200'000u);
    Bytes expected = pattern(200'000);
    ASSERT_EQ(nrt_tensor_write(tensor, expected.data(), 0, expected.size()), NRT_SUCCESS)
        << nrt_open_last_error();
    const Bytes patch = pattern(70'001, 99);
    ASSERT_EQ(nrt_tensor_write(tensor, patch.data(), 12'345, patch.size()), NRT_SUCCESS);
    std::copy(patch.begin(), patch.end(), expected.begin() + 12'345);
    EXPECT_EQ(contents(tensor), expected) << placement;
    Bytes part(3);
    ASSERT_EQ(nrt_tensor_read(tensor, part.data(), 199'997, 3), NRT_SUCCESS);
    EXPECT_EQ(part, Bytes(expected.end() - 3, expected.end()));
    nrt_tensor_free(&tensor);
    EXPECT_EQ(tensor, nullptr);
  }
}

TEST_F(Tensor, RefusesRangesOutsideWithASentence) {
  nrt_tensor_t* tensor = make_tensor(100, 0, NRT_TENSOR_PLACEMENT_DEVICE, "weights");
  uint8_t byte[200];
  EXPECT_EQ(nrt_tensor_write(tensor, byte, 1, 100), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("'weights', which has 100 bytes"));
  EXPECT_EQ(nrt_tensor_read(tensor, byte, 101, 0), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_read(tensor, byte, SIZE_MAX, 2), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_read(tensor, byte, 100, 0), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_read(tensor, nullptr, 0, 1), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_memset(tensor, 90, 0, 11), NRT_INVALID);
}

TEST_F(Tensor, RefusesImpossibleAllocations) {
  nrt_tensor_t* tensor = nullptr;
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 0, "t", &tensor), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 2, 64, "t", &tensor), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, -1, 64, "t", &tensor), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate(static_cast<nrt_tensor_placement_t>(9), 0, 64, "t", &tensor),
            NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, -1, 5 << 20, "t", &tensor), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 1ull << 40, "big", &tensor),
            NRT_RESOURCE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("big"));
  EXPECT_EQ(tensor, nullptr);
}

TEST_F(Tensor, MemsetFillsBytes) {
  nrt_tensor_t* tensor = make_tensor(100'000);
  ASSERT_EQ(nrt_tensor_memset(tensor, 0, 0x11, 100'000), NRT_SUCCESS);
  ASSERT_EQ(nrt_tensor_memset(tensor, 10, 0x122, 99'000), NRT_SUCCESS);
  Bytes expected(100'000, 0x11);
  std::fill_n(expected.begin() + 10, 99'000, 0x22);
  EXPECT_EQ(contents(tensor), expected);
}

TEST_F(Tensor, CopiesInsideOneHbmAndWithHostMemory) {
  nrt_tensor_t* a = make_tensor(4096);
  nrt_tensor_t* b = make_tensor(4096);
  nrt_tensor_t* host = make_tensor(4096, 0, NRT_TENSOR_PLACEMENT_VIRTUAL);
  nrt_tensor_t* other = make_tensor(4096, 1);
  const Bytes bytes = pattern(4096);
  ASSERT_EQ(nrt_tensor_write(a, bytes.data(), 0, 4096), NRT_SUCCESS);
  ASSERT_EQ(nrt_tensor_memset(b, 0, 0, 4096), NRT_SUCCESS);
  ASSERT_EQ(nrt_tensor_copy(a, 1, b, 2, 4000), NRT_SUCCESS) << nrt_open_last_error();
  Bytes expected(4096, 0);
  std::copy_n(bytes.begin() + 1, 4000, expected.begin() + 2);
  EXPECT_EQ(contents(b), expected);
  ASSERT_EQ(nrt_tensor_copy(b, 0, host, 0, 4096), NRT_SUCCESS);
  EXPECT_EQ(contents(host), expected);
  EXPECT_EQ(nrt_tensor_copy(a, 0, other, 0, 4096), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("HBM 1"));
}

TEST_F(Tensor, BatchesMoveAllOrNothing) {
  nrt_tensor_t* a = make_tensor(1000);
  nrt_tensor_t* b = make_tensor(1000);
  for (auto* t : {a, b}) ASSERT_EQ(nrt_tensor_memset(t, 0, 0, 1000), NRT_SUCCESS);
  Bytes first = pattern(100, 1), second = pattern(200, 2), third = pattern(300, 3);
  nrt_tensor_batch_op_t ops_a[2] = {{0, 100, first.data()}, {500, 200, second.data()}};
  nrt_tensor_batch_op_t ops_b[1] = {{700, 300, third.data()}};
  nrt_tensor_batch_t batches[2] = {{a, ops_a, 2}, {b, ops_b, 1}};
  ASSERT_EQ(nrt_tensor_write_batch(batches, 2, false), NRT_SUCCESS) << nrt_open_last_error();
  Bytes expected(1000, 0);
  std::copy(first.begin(), first.end(), expected.begin());
  std::copy(second.begin(), second.end(), expected.begin() + 500);
  EXPECT_EQ(contents(a), expected);
  Bytes x(100), y(200), z(300);
  ops_a[0].buffer = x.data();
  ops_a[1].buffer = y.data();
  ops_b[0].buffer = z.data();
  ASSERT_EQ(nrt_tensor_read_batch(batches, 2, true), NRT_SUCCESS);
  EXPECT_EQ(x, first);
  EXPECT_EQ(y, second);
  EXPECT_EQ(z, third);
  Bytes ones(100, 1);
  ops_a[0].buffer = ones.data();
  ops_b[0].offset = 701;
  EXPECT_EQ(nrt_tensor_write_batch(batches, 2, false), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("batch 1 operation 0"));
  EXPECT_EQ(contents(a), expected) << "nothing moves when one range is wrong";
}

TEST_F(Tensor, SlicesShareStorageThatOutlivesTheSource) {
  const uint64_t before = used_bytes();
  nrt_tensor_t* source = make_tensor(8192);
  nrt_tensor_t* slice = nullptr;
  nrt_tensor_t* inner = nullptr;
  ASSERT_EQ(nrt_tensor_allocate_slice(source, 1000, 5000, "s", &slice), NRT_SUCCESS);
  ASSERT_EQ(nrt_tensor_allocate_slice(slice, 100, 50, nullptr, &inner), NRT_SUCCESS);
  const Bytes bytes = pattern(50);
  ASSERT_EQ(nrt_tensor_write(inner, bytes.data(), 0, 50), NRT_SUCCESS);
  Bytes found(50);
  ASSERT_EQ(nrt_tensor_read(source, found.data(), 1100, 50), NRT_SUCCESS);
  EXPECT_EQ(found, bytes);
  EXPECT_EQ(nrt_tensor_allocate_slice(slice, 1, 5000, "s", &inner), NRT_INVALID);
  nrt_tensor_free(&source);
  nrt_tensor_free(&slice);
  EXPECT_EQ(contents(inner), bytes);
  EXPECT_GT(used_bytes(), before);
  nrt_tensor_free(&inner);
  EXPECT_EQ(used_bytes(), before);
}

TEST_F(Tensor, TakesABufferOfTheCaller) {
  nrt_tensor_t* tensor = nullptr;
  ASSERT_EQ(nrt_tensor_allocate_empty("late", &tensor), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_get_size(tensor), 0u);
  uint8_t byte = 0;
  EXPECT_EQ(nrt_tensor_read(tensor, &byte, 0, 1), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("attach a buffer"));
  Bytes buffer = pattern(300);
  ASSERT_EQ(nrt_tensor_attach_buffer(tensor, buffer.data(), buffer.size()), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_get_size(tensor), 300u);
  EXPECT_EQ(nrt_tensor_get_va(tensor), buffer.data());
  ASSERT_EQ(nrt_tensor_memset(tensor, 0, 5, 300), NRT_SUCCESS);
  EXPECT_EQ(buffer, Bytes(300, 5));
  EXPECT_EQ(nrt_tensor_attach_buffer(tensor, nullptr, 1), NRT_INVALID);
  nrt_tensor_free(&tensor);
  EXPECT_EQ(buffer[299], 5) << "the buffer stays the caller's";

  const uint64_t before = used_bytes();
  nrt_tensor_t* device = make_tensor(1 << 20);
  ASSERT_EQ(nrt_tensor_attach_buffer(device, buffer.data(), buffer.size()), NRT_SUCCESS);
  EXPECT_EQ(used_bytes(), before) << "owned storage is freed";
  nrt_tensor_free(&device);
}

TEST_F(Tensor, HasAnAddressThatShowsDeviceMemory) {
  nrt_tensor_t* tensor = make_tensor(10'000);
  auto* address = static_cast<uint8_t*>(nrt_tensor_get_va(tensor));
  ASSERT_NE(address, nullptr);
  EXPECT_EQ(nrt_tensor_get_va(tensor), address);
  const Bytes bytes = pattern(10'000);
  ASSERT_EQ(nrt_tensor_write(tensor, bytes.data(), 0, bytes.size()), NRT_SUCCESS);
  EXPECT_EQ(Bytes(address, address + 10'000), bytes);
  const Bytes patch = pattern(100, 77);
  ASSERT_EQ(nrt_memcpy_to_device(address + 5, patch.data(), patch.size()), NRT_SUCCESS);
  Bytes found(100);
  ASSERT_EQ(nrt_tensor_read(tensor, found.data(), 5, 100), NRT_SUCCESS);
  EXPECT_EQ(found, patch);
  EXPECT_EQ(nrt_memcpy_to_device(address + 9'999, patch.data(), 2), NRT_INVALID);
  EXPECT_EQ(nrt_memcpy_to_device(found.data(), patch.data(), 2), NRT_INVALID);
}

TEST_F(Tensor, TellsItsDeviceAddress) {
  nrt_tensor_t* tensor = make_tensor(5000, 1);
  nrt_tensor_device_allocation_info_t info{};
  ASSERT_EQ(nrt_tensor_get_device_allocation_info(tensor, &info), NRT_SUCCESS);
  EXPECT_GE(info.physical_address, 0x1000000000u) << "HBM 1";
  EXPECT_GE(info.size, 5000u);
  EXPECT_EQ(info.hbm_index, 1);
  nrt_tensor_t* host = make_tensor(64, 0, NRT_TENSOR_PLACEMENT_VIRTUAL);
  EXPECT_EQ(nrt_tensor_get_device_allocation_info(host, &info), NRT_INVALID);
}

TEST_F(Tensor, ExportsADmaBufOrSaysFallBack) {
  nrt_tensor_t* tensor = make_tensor(1 << 16);
  const auto address = reinterpret_cast<uint64_t>(nrt_tensor_get_va(tensor));
  int fd = -1;
  uint64_t offset = 1;
  const NRT_STATUS first = nrt_get_dmabuf_fd(address, 1 << 16, &fd);
  if (first == NRT_SUCCESS) {
    EXPECT_GE(fd, 0);
  } else {
    EXPECT_EQ(first, NRT_FAILURE) << "NRT_RESOURCE would be taken as a hard error";
    EXPECT_STRNE(nrt_open_last_error(), "");
  }
  const NRT_STATUS second = nrt_get_dmabuf_fd_v2(address + 4096, 4096, &fd, &offset);
  EXPECT_EQ(second, first);
  if (second == NRT_SUCCESS) {
    EXPECT_EQ(offset, 4096u);
  }
  EXPECT_EQ(nrt_get_dmabuf_fd(16, 16, &fd), NRT_INVALID);
  EXPECT_EQ(nrt_get_dmabuf_fd_v2(16, 16, &fd, &offset), NRT_INVALID);
}

TEST_F(Tensor, StaleAndForeignHandlesAreRecognised) {
  nrt_tensor_t* tensor = make_tensor(64);
  nrt_tensor_t* stale = tensor;
  nrt_tensor_free(&tensor);
  uint8_t byte = 0;
  EXPECT_EQ(nrt_tensor_read(stale, &byte, 0, 1), NRT_INVALID_HANDLE);
  make_tensor(64);  // takes the slot
  EXPECT_EQ(nrt_tensor_read(stale, &byte, 0, 1), NRT_INVALID_HANDLE);
  nrt_tensor_t* again = stale;
  nrt_tensor_free(&again);
  EXPECT_EQ(again, nullptr);
  int local = 0;
  auto* foreign = reinterpret_cast<nrt_tensor_t*>(&local);
  EXPECT_EQ(nrt_tensor_write(foreign, &byte, 0, 1), NRT_INVALID_HANDLE);
  EXPECT_EQ(nrt_tensor_get_size(foreign), 0u);
  EXPECT_EQ(nrt_tensor_get_va(foreign), nullptr);
  EXPECT_EQ(nrt_tensor_read(nullptr, &byte, 0, 1), NRT_INVALID);
  nrt_tensor_set_t* set = nullptr;
  ASSERT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_read(static_cast<nrt_tensor_t*>(set), &byte, 0, 1), NRT_INVALID_HANDLE)
      << "a set is no tensor";
  nrt_tensor_free(nullptr);
  nrt_destroy_tensor_set(nullptr);
}

TEST_F(Tensor, CopyBetweenOverlappingRangesIsRefused) {
  for (const auto placement : {NRT_TENSOR_PLACEMENT_DEVICE, NRT_TENSOR_PLACEMENT_VIRTUAL}) {
    nrt_tensor_t* whole = make_tensor(1000, 0, placement);
    const Bytes bytes = pattern(1000);
    ASSERT_EQ(nrt_tensor_write(whole, bytes.data(), 0, 1000), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_copy(whole, 0, whole, 10, 500), NRT_INVALID);
    EXPECT_THAT(nrt_open_last_error(), HasSubstr("overlap by 490 bytes"));
    nrt_tensor_t* slice = nullptr;
    ASSERT_EQ(nrt_tensor_allocate_slice(whole, 400, 200, "slice", &slice), NRT_SUCCESS);
    EXPECT_EQ(nrt_tensor_copy(slice, 0, whole, 399, 2), NRT_INVALID);
    EXPECT_EQ(nrt_tensor_copy(whole, 500, slice, 0, 200), NRT_INVALID);
    EXPECT_EQ(contents(whole), bytes) << "nothing was moved";
    EXPECT_EQ(nrt_tensor_copy(slice, 0, whole, 400, 200), NRT_SUCCESS) << "the same range";
    EXPECT_EQ(contents(whole), bytes);
    EXPECT_EQ(nrt_tensor_copy(whole, 0, slice, 0, 200), NRT_SUCCESS) << "they only touch";
    EXPECT_EQ(contents(slice), Bytes(bytes.begin(), bytes.begin() + 200));
  }
}

TEST_F(Tensor, SetsFindReplaceAndForget) {
  nrt_tensor_set_t* set = nullptr;
  ASSERT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
  nrt_tensor_t* a = make_tensor(64);
  nrt_tensor_t* b = make_tensor(64);
  nrt_tensor_t* found = a;
  EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, "x", &found), NRT_FAILURE);
  EXPECT_EQ(found, a) << "untouched";
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(set, "x", a), NRT_SUCCESS);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(set, "x", b), NRT_SUCCESS);
  ASSERT_EQ(nrt_get_tensor_from_tensor_set(set, "x", &found), NRT_SUCCESS);
  EXPECT_EQ(found, b);
  EXPECT_EQ(nrt_add_tensor_to_tensor_set(set, nullptr, b), NRT_INVALID);
  void* stale = set;
  nrt_destroy_tensor_set(&set);
  EXPECT_EQ(set, nullptr);
  EXPECT_EQ(nrt_add_tensor_to_tensor_set(stale, "x", a), NRT_INVALID_HANDLE);
}

TEST_F(Tensor, ThreadsWriteTensorsOfTheirOwn) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 20; ++i) {
        nrt_tensor_t* tensor = make_tensor(10'000, t % 2);
        const Bytes bytes = pattern(10'000, static_cast<uint8_t>(t * 20 + i));
        EXPECT_EQ(nrt_tensor_write(tensor, bytes.data(), 0, bytes.size()), NRT_SUCCESS);
        EXPECT_EQ(contents(tensor), bytes);
        nrt_tensor_free(&tensor);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(Tensor, IsReadFromAFileAtAnyOffset) {
  const Folder folder;
  const Bytes bytes = pattern(3'000'000, 9);
  write_file(folder.path("weights"), bytes);
  const std::string path = folder.path("weights");
  nrt_tensor_t* tensor = make_tensor(2'500'001);
  Bytes expected = pattern(2'500'001, 1);
  ASSERT_EQ(nrt_tensor_write(tensor, expected.data(), 0, expected.size()), NRT_SUCCESS);
  ASSERT_EQ(nrt_open_tensor_read_file(tensor, 7, path.c_str(), 500'003, 2'400'000), NRT_SUCCESS)
      << nrt_open_last_error();
  std::copy_n(bytes.begin() + 500'003, 2'400'000, expected.begin() + 7);
  EXPECT_EQ(contents(tensor), expected);
  EXPECT_EQ(nrt_open_tensor_read_file(tensor, 0, path.c_str(), 3'000'000, 0), NRT_SUCCESS);
  // A slice has a place of its own.
  nrt_tensor_t* slice = nullptr;
  ASSERT_EQ(nrt_tensor_allocate_slice(tensor, 100, 50, "slice", &slice), NRT_SUCCESS);
  ASSERT_EQ(nrt_open_tensor_read_file(slice, 10, path.c_str(), 1, 5), NRT_SUCCESS);
  std::copy_n(bytes.begin() + 1, 5, expected.begin() + 110);
  EXPECT_EQ(contents(tensor), expected);
  nrt_tensor_free(&slice);

  EXPECT_EQ(nrt_open_tensor_read_file(tensor, 2'500'000, path.c_str(), 0, 2), NRT_INVALID);
  EXPECT_EQ(nrt_open_tensor_read_file(tensor, 0, path.c_str(), 2'999'999, 2), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("has 3000000 bytes, and no 2 from byte 2999999"));
  EXPECT_EQ(nrt_open_tensor_read_file(tensor, 0, folder.path("none").c_str(), 0, 2), NRT_FAILURE);
  EXPECT_EQ(nrt_open_tensor_read_file(tensor, 0, folder.path().c_str(), 0, 2), NRT_INVALID);
  EXPECT_EQ(nrt_open_tensor_read_file(tensor, 0, nullptr, 0, 2), NRT_INVALID);
  EXPECT_EQ(contents(tensor), expected) << "what is refused changes nothing";
  nrt_tensor_free(&tensor);
}

}  // namespace
}  // namespace neuron::test
