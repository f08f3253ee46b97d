// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeMachine;
using ::testing::HasSubstr;
using Eight = std::array<uint8_t, 8>;

std::unique_ptr<Tensor> plain(uint64_t size, const char* name = "t") {
  return std::make_unique<Tensor>(name, TensorView{*Storage::plain(size, name), 0, size});
}

TEST(Tensor, MovesBytesInItsRangeAndNowhereElse) {
  const auto tensor = plain(8);
  ASSERT_TRUE(tensor->fill(0, 8, 0x1AA)) << "the low byte counts";
  const uint16_t two = 0x0201;
  ASSERT_TRUE(tensor->write(&two, 6, 2));
  Eight bytes{};
  ASSERT_TRUE(tensor->read(bytes.data(), 0, 8));
  EXPECT_EQ(bytes, (Eight{0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 1, 2}));
  EXPECT_TRUE(tensor->write(nullptr, 8, 0)) << "nothing at its end";
}

TEST(Tensor, RefusesARangeBeyondItsEnd) {
  const auto tensor = plain(8);
  uint8_t byte = 0;
  for (const auto& [offset, size] :
       {std::pair<uint64_t, uint64_t>{8, 1}, {0, 9}, {9, 0}, {1, UINT64_MAX}, {UINT64_MAX, 1}}) {
    const auto result = tensor->read(&byte, offset, size);
    ASSERT_FALSE(result) << offset << "+" << size;
    EXPECT_EQ(result.error().status, NRT_INVALID);
  }
  EXPECT_EQ(tensor->write(&byte, 7, 2).error().sentence,
            "a write of 2 bytes at offset 7 does not fit tensor 't', which has 8 bytes");
  EXPECT_THAT(tensor->fill(8, 1, 0).error().sentence, HasSubstr("a fill of 1 bytes at offset 8"));
}

TEST(Tensor, ThatIsEmptyHasNoBytesUntilABufferIsAttached) {
  Tensor tensor("e", TensorView{});
  EXPECT_EQ(tensor.size(), 0u);
  EXPECT_EQ(tensor.read(nullptr, 0, 0).error().sentence,
            "a read of tensor 'e': it is empty; attach a buffer first");
  Eight buffer{1, 2, 3};
  tensor.attach(buffer.data(), buffer.size());
  EXPECT_EQ(tensor.size(), 8u);
  EXPECT_EQ(tensor.view().storage->kind(), StorageKind::kAttached);
  ASSERT_TRUE(tensor.fill(1, 1, 9));
  EXPECT_EQ(buffer[1], 9);
}

TEST(Tensor, ASliceSharesBytesAndKeepsThemWhenItsSourceGetsABuffer) {
  const auto tensor = plain(8);
  ASSERT_TRUE(tensor->fill(0, 8, 1));
  auto slice = tensor->slice(2, 4, "s");
  ASSERT_TRUE(slice);
  EXPECT_EQ((*slice)->size(), 4u);
  EXPECT_EQ((*slice)->name(), "s");
  ASSERT_TRUE((*slice)->fill(0, 4, 7));
  Eight bytes{};
  ASSERT_TRUE(tensor->read(bytes.data(), 0, 8));
  EXPECT_EQ(bytes, (Eight{1, 1, 7, 7, 7, 7, 1, 1}));
  auto inner = (*slice)->slice(1, 1, "i");
  ASSERT_TRUE((*inner)->fill(0, 1, 9));
  ASSERT_TRUE(tensor->read(bytes.data(), 0, 8));
  EXPECT_EQ(bytes[3], 9);
  tensor->attach(bytes.data(), 1);
  uint8_t kept = 0;
  ASSERT_TRUE((*slice)->read(&kept, 3, 1));
  EXPECT_EQ(kept, 7);
  EXPECT_THAT(tensor->slice(0, 0, "n").error().sentence, HasSubstr("a slice has at least 1 byte"));
  EXPECT_FALSE((*slice)->slice(3, 2, "n"));
  EXPECT_TRUE((*slice)->slice(3, 1, "n"));
}

TEST(Tensor, CopiesInsideOneBufferUnlessTheRangesOverlap) {
  const auto tensor = plain(8);
  for (uint8_t i = 0; i < 8; ++i) ASSERT_TRUE(tensor->write(&i, i, 1));
  ASSERT_TRUE(Tensor::copy(*tensor, 0, *tensor, 4, 4)) << "they touch and do not overlap";
  ASSERT_TRUE(Tensor::copy(*tensor, 4, *tensor, 0, 4));
  Eight bytes{};
  ASSERT_TRUE(tensor->read(bytes.data(), 0, 8));
  EXPECT_EQ(bytes, (Eight{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_TRUE(Tensor::copy(*tensor, 2, *tensor, 2, 4)) << "onto itself nothing changes";
  const auto up = Tensor::copy(*tensor, 0, *tensor, 3, 4);
  ASSERT_FALSE(up);
  EXPECT_THAT(up.error().sentence,
              HasSubstr("the ranges overlap by 1 bytes; copy at most 3 bytes"));
  const auto down = Tensor::copy(*tensor, 1, *tensor, 0, 4);
  ASSERT_FALSE(down);
  EXPECT_THAT(down.error().sentence,
              HasSubstr("the ranges overlap by 3 bytes; copy at most 1 bytes"));
  EXPECT_TRUE(Tensor::copy(*tensor, 8, *tensor, 0, 0));
}

TEST(Tensor, CopiesBetweenKindsOfMemory) {
  FakeMachine machine;
  MappingTable mappings;
  const auto make = [&](int kind) {
    auto storage = kind == 0   ? Storage::device(*machine.device, 0, 8, mappings, "d")
                   : kind == 1 ? Storage::pinned(*machine.device, 0, 8, mappings, "p")
                               : Storage::plain(8, "h");
    return std::make_unique<Tensor>("t", TensorView{*storage, 0, 8});
  };
  for (int from = 0; from < 3; ++from) {
    for (int to = 0; to < 3; ++to) {
      const auto source = make(from), target = make(to);
      ASSERT_TRUE(source->fill(0, 8, 5));
      ASSERT_TRUE(target->fill(0, 8, 6));
      ASSERT_TRUE(Tensor::copy(*source, 1, *target, 2, 3));
      Eight bytes{};
      ASSERT_TRUE(target->read(bytes.data(), 0, 8));
      EXPECT_EQ(bytes, (Eight{6, 6, 5, 5, 5, 6, 6, 6})) << from << " to " << to;
    }
  }
}

TEST(Tensor, RefusesACopyFromOneHbmToAnother) {
  FakeMachine machine;
  MappingTable mappings;
  Tensor first("a", {*Storage::device(*machine.device, 0, 8, mappings, "a"), 0, 8});
  Tensor second("b", {*Storage::device(*machine.device, 1, 8, mappings, "b"), 0, 8});
  const auto copied = Tensor::copy(first, 0, second, 0, 8);
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().status, NRT_INVALID);
  EXPECT_THAT(copied.error().sentence,
              HasSubstr("tensor 'a' is in HBM 0 of device 0 and tensor 'b' in HBM 1 of device 0"));
  EXPECT_TRUE(Tensor::copy(first, 0, second, 0, 0)) << "nothing goes anywhere";
}

TEST(Tensor, PlansACopyFromWhereItsSlicesBegin) {
  const auto tensor = plain(8);
  const auto other = plain(8);
  const auto slice = tensor->slice(2, 4, "s");
  const auto plan = Tensor::plan_copy(**slice, 1, *other, 5, 3);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->first.offset, 3u);
  EXPECT_EQ(plan->second.offset, 5u);
  EXPECT_THAT(Tensor::plan_copy(**slice, 2, *other, 0, 3).error().sentence,
              HasSubstr("a copy of 3 bytes at offset 2 does not fit tensor 's'"));
}

}  // namespace
}  // namespace neuron::runtime
