// SPDX-License-Identifier: Apache-2.0
// The calls on tensors, sets and their addresses, on a device made of host memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "nrt/nrt.h"
#include "nrt/nrt_experimental.h"
#include "nrt/nrt_open.h"
#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakePort;
using test::FakeState;
using ::testing::HasSubstr;

class TensorCalls : public ::testing::Test {
 protected:
  TensorCalls() {
    ndl::set_port(std::make_unique<FakePort>(state_));
    EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
  }
  ~TensorCalls() override {
    nrt_close();
    ndl::release_port();
  }
  nrt_tensor_t* tensor(size_t size, nrt_tensor_placement_t placement = NRT_TENSOR_PLACEMENT_DEVICE,
                       int vnc = 0) {
    nrt_tensor_t* made = nullptr;
    EXPECT_EQ(nrt_tensor_allocate(placement, vnc, size, "t", &made), NRT_SUCCESS)
        << nrt_open_last_error();
    return made;
  }
  static std::string text(nrt_tensor_t* tensor, size_t offset, size_t size) {
    std::string bytes(size, '?');
    EXPECT_EQ(nrt_tensor_read(tensor, bytes.data(), offset, size), NRT_SUCCESS);
    return bytes;
  }
  FakeState state_;
};

TEST_F(TensorCalls, WriteReadFillAndCopyWithinTheTensor) {
  nrt_tensor_t* first = tensor(16);
  nrt_tensor_t* second = tensor(16, NRT_TENSOR_PLACEMENT_VIRTUAL);
  EXPECT_EQ(nrt_tensor_get_size(first), 16u);
  EXPECT_EQ(nrt_tensor_memset(first, 0, '.', 16), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_write(first, "abcd", 12, 4), NRT_SUCCESS);
  EXPECT_EQ(text(first, 10, 6), "..abcd");
  EXPECT_EQ(nrt_tensor_write(first, "abcd", 13, 4), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_memset(first, 1, 0, 16), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_copy(first, 10, second, 2, 6), NRT_SUCCESS);
  EXPECT_EQ(text(second, 2, 6), "..abcd");
  EXPECT_EQ(nrt_tensor_copy(first, 11, second, 2, 6), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_write(first, nullptr, 0, 0), NRT_SUCCESS) << "nothing needs no buffer";
  EXPECT_EQ(nrt_tensor_write(first, nullptr, 0, 1), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_read(first, nullptr, 0, 1), NRT_INVALID);
}

TEST_F(TensorCalls, ABatchIsCheckedBeforeAnythingMoves) {
  nrt_tensor_t* first = tensor(8);
  nrt_tensor_t* second = tensor(8);
  nrt_tensor_memset(first, 0, '.', 8);
  nrt_tensor_memset(second, 0, '.', 8);
  char a[] = "ab", b[] = "cde", c[] = "f";
  nrt_tensor_batch_op_t of_first[] = {{.offset = 0, .size = 2, .buffer = a},
                                      {.offset = 5, .size = 3, .buffer = b}};
  nrt_tensor_batch_op_t of_second[] = {{.offset = 7, .size = 1, .buffer = c}};
  nrt_tensor_batch_t batches[] = {{.tensor = first, .ops = of_first, .num_ops = 2},
                                  {.tensor = second, .ops = of_second, .num_ops = 1}};
  of_second[0].size = 2;
  EXPECT_EQ(nrt_tensor_write_batch(batches, 2, false), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("batch 1 operation 0"));
  EXPECT_EQ(text(first, 0, 8), "........");
  of_second[0].size = 1;
  EXPECT_EQ(nrt_tensor_write_batch(batches, 2, false), NRT_SUCCESS);
  EXPECT_EQ(text(first, 0, 8), "ab...cde");
  EXPECT_EQ(text(second, 0, 8), ".......f");
  std::memset(a, 0, 2);
  std::memset(b, 0, 3);
  EXPECT_EQ(nrt_tensor_read_batch(batches, 2, false), NRT_SUCCESS);
  EXPECT_STREQ(a, "ab");
  EXPECT_STREQ(b, "cde");
  of_first[1].buffer = nullptr;
  EXPECT_EQ(nrt_tensor_read_batch(batches, 2, false), NRT_INVALID);
  of_first[1].size = 0;
  EXPECT_EQ(nrt_tensor_read_batch(batches, 2, false), NRT_SUCCESS);
  batches[1].ops = nullptr;
  EXPECT_EQ(nrt_tensor_read_batch(batches, 2, false), NRT_INVALID);
  batches[1].num_ops = 0;
  EXPECT_EQ(nrt_tensor_read_batch(batches, 2, false), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_read_batch(nullptr, 0, false), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_read_batch(nullptr, 1, false), NRT_INVALID);
  state_.failing[NEURON_IOCTL_MEM_BUF_ZEROCOPY64] = -EIO;
  EXPECT_EQ(nrt_tensor_write_batch(batches, 1, false), NRT_HW_ERROR);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("batch 0 operation 0"));
}

TEST_F(TensorCalls, APlacementSaysWhereATensorLies) {
  nrt_tensor_t* of_device = tensor(100, NRT_TENSOR_PLACEMENT_DEVICE, 1);
  nrt_tensor_t* slice = nullptr;
  ASSERT_EQ(nrt_tensor_allocate_slice(of_device, 40, 20, nullptr, &slice), NRT_SUCCESS);
  nrt_tensor_device_allocation_info_t whole{}, part{};
  ASSERT_EQ(nrt_tensor_get_device_allocation_info(of_device, &whole), NRT_SUCCESS);
  ASSERT_EQ(nrt_tensor_get_device_allocation_info(slice, &part), NRT_SUCCESS);
  EXPECT_EQ(whole.size, 100u);
  EXPECT_EQ(whole.hbm_index, 1);
  EXPECT_EQ(part.physical_address, whole.physical_address + 40);
  EXPECT_EQ(part.size, 60u);
  EXPECT_EQ(state_.at_address(whole.physical_address).request.size, 100u);
  EXPECT_EQ(nrt_tensor_get_size(slice), 20u);
  EXPECT_EQ(static_cast<char*>(nrt_tensor_get_va(slice)),
            static_cast<char*>(nrt_tensor_get_va(of_device)) + 40);
  EXPECT_EQ(nrt_tensor_get_device_allocation_info(of_device, nullptr), NRT_INVALID);
  for (const auto placement : {NRT_TENSOR_PLACEMENT_HOST, NRT_TENSOR_PLACEMENT_VIRTUAL}) {
    EXPECT_EQ(nrt_tensor_get_device_allocation_info(tensor(8, placement), &whole), NRT_INVALID);
    EXPECT_STREQ(nrt_open_last_error(),
                 "nrt_tensor_get_device_allocation_info: tensor 't' is in host memory, not in HBM");
  }
  EXPECT_NE(tensor(8, NRT_TENSOR_PLACEMENT_HOST, -1), nullptr) << "of any core";
}

TEST_F(TensorCalls, WhatCannotBeATensorIsRefusedAndNamed) {
  nrt_tensor_t* made = nullptr;
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 0, "", &made), NRT_INVALID);
  EXPECT_STREQ(nrt_open_last_error(),
               "nrt_tensor_allocate: tensor 'tensor' was asked for with 0 bytes; a tensor has at "
               "least 1 byte");
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 2, 8, "x", &made), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, -1, 8, "x", &made), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_allocate(static_cast<nrt_tensor_placement_t>(3), 0, 8, "x", &made),
            NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("placement 3 is none of"));
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 8, "x", nullptr), NRT_INVALID);
  state_.failing[NEURON_IOCTL_MEM_ALLOC_V2MT64] = -ENOMEM;
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 8, "x", &made), NRT_RESOURCE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("tensor 'x'"));
  EXPECT_EQ(made, nullptr);
}

TEST_F(TensorCalls, AnEmptyTensorGetsABufferOfTheCaller) {
  nrt_tensor_t* empty = nullptr;
  ASSERT_EQ(nrt_tensor_allocate_empty("e", &empty), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_get_size(empty), 0u);
  EXPECT_EQ(nrt_tensor_get_va(empty), nullptr);
  char buffer[8] = "hello";
  EXPECT_EQ(nrt_tensor_attach_buffer(empty, buffer, 0), NRT_INVALID);
  EXPECT_EQ(nrt_tensor_attach_buffer(empty, nullptr, 8), NRT_INVALID);
  ASSERT_EQ(nrt_tensor_attach_buffer(empty, buffer, 8), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_get_va(empty), buffer);
  EXPECT_EQ(text(empty, 0, 5), "hello");
  EXPECT_EQ(nrt_tensor_allocate_empty("e", nullptr), NRT_INVALID);
}

TEST_F(TensorCalls, AHandleIsGoodUntilItIsFreed) {
  nrt_tensor_t* made = tensor(8);
  nrt_tensor_t* copy = made;
  nrt_tensor_free(&made);
  EXPECT_EQ(made, nullptr);
  char byte = 0;
  EXPECT_EQ(nrt_tensor_read(copy, &byte, 0, 1), NRT_INVALID_HANDLE);
  EXPECT_EQ(nrt_tensor_get_size(copy), 0u);
  nrt_tensor_free(&made);
  nrt_tensor_free(nullptr);
}

TEST_F(TensorCalls, ASetHasTensorsByName) {
  nrt_tensor_set_t* set = nullptr;
  ASSERT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
  nrt_tensor_t* made = tensor(8);
  EXPECT_EQ(nrt_add_tensor_to_tensor_set(set, "x", made), NRT_SUCCESS);
  nrt_tensor_t* found = nullptr;
  EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, "x", &found), NRT_SUCCESS);
  EXPECT_EQ(found, made);
  EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, "y", &found), NRT_FAILURE);
  EXPECT_STREQ(nrt_open_last_error(), "nrt_get_tensor_from_tensor_set: the set has no tensor 'y'");
  EXPECT_EQ(nrt_add_tensor_to_tensor_set(set, nullptr, made), NRT_INVALID);
  EXPECT_EQ(nrt_add_tensor_to_tensor_set(set, "x", nullptr), NRT_INVALID);
  EXPECT_EQ(nrt_add_tensor_to_tensor_set(nullptr, "x", made), NRT_INVALID);
  EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, nullptr, &found), NRT_INVALID);
  EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, "x", nullptr), NRT_INVALID);
  EXPECT_EQ(nrt_allocate_tensor_set(nullptr), NRT_INVALID);
  nrt_tensor_set_t* copy = set;
  nrt_destroy_tensor_set(&set);
  EXPECT_EQ(set, nullptr);
  EXPECT_EQ(nrt_get_tensor_from_tensor_set(copy, "x", &found), NRT_INVALID_HANDLE);
  nrt_destroy_tensor_set(&copy);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("was destroyed before, or is something else"));
}

TEST_F(TensorCalls, AnAddressIsOneInsideATensor) {
  nrt_tensor_t* made = tensor(16);
  nrt_tensor_memset(made, 0, '.', 16);
  auto* address = static_cast<char*>(nrt_tensor_get_va(made));
  ASSERT_NE(address, nullptr);
  EXPECT_EQ(nrt_memcpy_to_device(address + 12, "abcd", 4), NRT_SUCCESS);
  EXPECT_EQ(text(made, 11, 5), ".abcd");
  EXPECT_EQ(nrt_memcpy_to_device(address + 13, "abcd", 4), NRT_INVALID);
  EXPECT_EQ(nrt_memcpy_to_device(nullptr, nullptr, 0), NRT_SUCCESS);
  EXPECT_EQ(nrt_memcpy_to_device(nullptr, "a", 1), NRT_INVALID);
  EXPECT_EQ(nrt_memcpy_to_device(address, nullptr, 1), NRT_INVALID);
  int fd = -1;
  uint64_t offset = 0;
  const auto at = reinterpret_cast<uint64_t>(address);
  EXPECT_EQ(nrt_get_dmabuf_fd(at + 16, 1, &fd), NRT_INVALID) << "behind it";
  EXPECT_EQ(nrt_get_dmabuf_fd(at, 16, nullptr), NRT_INVALID);
  EXPECT_EQ(nrt_get_dmabuf_fd_v2(at, 16, &fd, nullptr), NRT_INVALID);
  EXPECT_EQ(nrt_get_dmabuf_fd(at, 16, &fd), NRT_FAILURE) << "this device gives none";
  EXPECT_EQ(nrt_get_dmabuf_fd_v2(at, 16, &fd, &offset), NRT_FAILURE);
}

TEST_F(TensorCalls, WhatWasWrittenIsCountedAndWaitedFor) {
  nrt_tensor_t* made = tensor(8);
  EXPECT_EQ(nrt_tensor_check_output_completion(made, 0, 0), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_check_output_completion(made, 10, 1), NRT_TIMEOUT);
  EXPECT_THAT(nrt_open_last_error(),
              HasSubstr("tensor 't' was written by 0 executions after 10 us, 1 are expected"));
  EXPECT_EQ(nrt_tensor_reset_output_completion(made), NRT_SUCCESS);
  EXPECT_EQ(nrt_tensor_reset_output_completion(nullptr), NRT_INVALID);
}

TEST_F(TensorCalls, MemoryOfACoreIsToldByCategory) {
  size_t count = 0;
  EXPECT_EQ(nrt_open_get_memory_usage(0, nullptr, &count), NRT_SUCCESS);
  EXPECT_EQ(count, 0u);
  state_.chunks.resize(2);
  for (auto& chunk : state_.chunks) {
    chunk.size = 100;
    chunk.mem_type = NEURON_MEMALLOC_TYPE_TENSORS_DEVICE;
  }
  EXPECT_EQ(nrt_open_get_memory_usage(0, nullptr, &count), NRT_RESOURCE);
  EXPECT_EQ(count, 1u);
  EXPECT_STREQ(nrt_open_last_error(),
               "nrt_open_get_memory_usage: room for 0 categories; 1 are needed");
  nrt_open_memory_usage_t usage[2] = {};
  count = 2;
  EXPECT_EQ(nrt_open_get_memory_usage(0, usage, &count), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("usage[0].size is 0"));
  usage[0].size = sizeof(usage[0]);
  EXPECT_EQ(nrt_open_get_memory_usage(0, usage, &count), NRT_SUCCESS);
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(usage[0].size, sizeof(usage[0])) << "each entry says how long it is";
  EXPECT_EQ(usage[0].bytes, 200u);
  EXPECT_EQ(usage[0].allocations, 2u);
  EXPECT_STREQ(usage[0].category, "tensors");
  EXPECT_EQ(nrt_open_get_memory_usage(0, nullptr, &count), NRT_INVALID);
  EXPECT_EQ(nrt_open_get_memory_usage(2, usage, &count), NRT_INVALID);
  nrt_vnc_memory_stats_t stats{};
  size_t size = 0;
  EXPECT_EQ(nrt_get_vnc_memory_stats(0, &stats, sizeof(stats), &size), NRT_SUCCESS);
  EXPECT_EQ(stats.bytes_used, 200u);
  EXPECT_EQ(stats.bytes_limit, 16ull << 30);
  EXPECT_EQ(size, sizeof(stats));
  EXPECT_EQ(nrt_get_vnc_memory_stats(0, &stats, 8, nullptr), NRT_SUCCESS);
  EXPECT_EQ(nrt_get_vnc_memory_stats(0, &stats, 0, &size), NRT_INVALID);
  EXPECT_EQ(nrt_get_vnc_memory_stats(0, nullptr, 8, &size), NRT_INVALID);
}

}  // namespace
}  // namespace neuron::runtime
