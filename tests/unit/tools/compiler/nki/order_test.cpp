// SPDX-License-Identifier: Apache-2.0
//
// What records of a trace touch, and which of them wait for others.
#include "tools/compiler/nki/order.h"

#include <gtest/gtest.h>

#include <string>

namespace neuron::nki {
namespace {

std::string tile(int id, int start, int parts, int offset, int columns) {
  return R"({"tile":)" + std::to_string(id) + R"(,"dtype":"float32","start":)" +
         std::to_string(start) + R"(,"parts":)" + std::to_string(parts) + R"(,"offset":)" +
         std::to_string(offset) + R"(,"pattern":[[1,)" + std::to_string(columns) + "]]}";
}

std::string copy(const std::string& to, const std::string& from) {
  return R"({"op":"tensor_copy","dst":)" + to + R"(,"src":)" + from + "}";
}

WaitingRecord waiting_line(const std::string& line, uint64_t number = 1) {
  Record record(line, number);
  auto found = waiting_record(line, number, record);
  EXPECT_TRUE(record.result()) << record.result().error().sentence;
  return found;
}

// Whether the second line waits while the first does.
bool waits(const std::string& first, const std::string& second) {
  WaitingRecords waiting;
  waiting.add(waiting_line(first));
  return waiting.must_wait(waiting_line(second));
}

TEST(WaitingRecords, KeepWaitingWhatReadsTheirResultOrWritesTheirOperand) {
  const std::string first = copy(tile(1, 0, 32, 0, 8), tile(2, 0, 32, 0, 8));
  EXPECT_TRUE(waits(first, copy(tile(3, 0, 32, 0, 8), tile(1, 0, 32, 0, 8))));
  EXPECT_TRUE(waits(first, copy(tile(2, 0, 32, 0, 8), tile(3, 0, 32, 0, 8))));
  EXPECT_TRUE(waits(first, copy(tile(1, 0, 32, 0, 8), tile(3, 0, 32, 0, 8))));
  EXPECT_FALSE(waits(first, copy(tile(3, 0, 32, 0, 8), tile(2, 0, 32, 0, 8))));
  EXPECT_TRUE(waits(first, R"({"op":"free","id":2})"));
  EXPECT_FALSE(waits(first, R"({"op":"free","id":3})"));
  EXPECT_TRUE(waits(R"({"op":"tile","id":1,"space":"sbuf"})", first));
}

TEST(WaitingRecords, LetGoWhatTouchesOtherPartsOfTheSameTile) {
  const std::string first = copy(tile(1, 0, 32, 64, 16), tile(2, 0, 32, 0, 16));
  const auto reads = [](int start, int parts, int offset, int columns) {
    return copy(tile(3, 0, parts, 0, columns), tile(1, start, parts, offset, columns));
  };
  EXPECT_FALSE(waits(first, reads(0, 32, 0, 16)));
  EXPECT_FALSE(waits(first, reads(0, 32, 128, 16)));
  EXPECT_FALSE(waits(first, reads(32, 32, 64, 16)));
  EXPECT_TRUE(waits(first, reads(31, 1, 124, 1)));
  EXPECT_TRUE(waits(first, reads(0, 64, 0, 17)));
}

TEST(WaitingRecords, KnowHowFarAPatternReachesInBothDirections) {
  const auto tensor = [](int offset, const std::string& pattern) {
    return R"({"hbm":7,"dtype":"bfloat16","offset":)" + std::to_string(offset) + R"(,"pattern":)" +
           pattern + "}";
  };
  // Elements 40, 30, 20, 10 and the one behind each, of two bytes.
  const std::string first = R"({"op":"dma_copy","dst":)" + tensor(80, "[[-10,4],[1,2]]") +
                            R"(,"src":)" + tile(1, 0, 1, 0, 4) + "}";
  const auto read = [&](int element) {
    return R"({"op":"dma_copy","dst":)" + tile(2, 0, 1, 0, 1) + R"(,"src":)" +
           tensor(2 * element, "[[1,1]]") + "}";
  };
  EXPECT_FALSE(waits(first, read(9)));
  EXPECT_TRUE(waits(first, read(10)));
  EXPECT_TRUE(waits(first, read(41)));
  EXPECT_FALSE(waits(first, read(42)));
}

TEST(WaitingRecords, CountATensorThatIsReachedByIndexAsAWhole) {
  const std::string scatter =
      R"({"op":"dma_scatter","dst":{"hbm":7,"dtype":"float32","pattern":[[1,8]]},"src":)" +
      tile(1, 0, 4, 0, 8) + R"(,"index":)" + tile(2, 0, 4, 0, 1) + R"(,"row_elements":8})";
  const std::string far = R"({"op":"dma_copy","dst":)" + tile(3, 0, 1, 0, 1) +
                          R"(,"src":{"hbm":7,"dtype":"float32","offset":4096,"pattern":[[1,1]]}})";
  EXPECT_TRUE(waits(scatter, far));
}

TEST(WaitingRecords, KeepTheOrderOfWhatEnginesRemember) {
  const std::string reduction = R"({"op":"activation","reduce_cmd":"reduce","dst":)" +
                                tile(1, 0, 1, 0, 1) + R"(,"data":)" + tile(2, 0, 1, 0, 1) + "}";
  const std::string other = R"({"op":"activation","reduce_cmd":"reduce","dst":)" +
                            tile(3, 0, 1, 0, 1) + R"(,"data":)" + tile(4, 0, 1, 0, 1) + "}";
  EXPECT_TRUE(waits(reduction, other));
  EXPECT_TRUE(waits(R"({"op":"set_rng_seed","src":)" + tile(1, 0, 1, 0, 1) + "}",
                    R"({"op":"rng","dst":)" + tile(2, 0, 1, 0, 1) + "}"));
}

TEST(WaitingRecords, KeepTheOrderInWhichTwoProgramsMeetAndWhatABarrierOrders) {
  const std::string exchange =
      R"({"op":"sendrecv","dst":)" + tile(1, 0, 1, 0, 1) + R"(,"src":)" + tile(2, 0, 1, 0, 1) + "}";
  const std::string other =
      R"({"op":"sendrecv","dst":)" + tile(3, 0, 1, 0, 1) + R"(,"src":)" + tile(4, 0, 1, 0, 1) + "}";
  const std::string barrier =
      R"({"op":"core_barrier","data":[{"hbm":7,"dtype":"float32","pattern":[[1,64]]}]})";
  const auto load = [](int tensor) {
    return R"({"op":"dma_copy","dst":)" + tile(5, 0, 1, 0, 1) + R"(,"src":{"hbm":)" +
           std::to_string(tensor) + R"(,"dtype":"float32","offset":8,"pattern":[[1,1]]}})";
  };
  EXPECT_TRUE(waits(exchange, other));
  EXPECT_TRUE(waits(exchange, barrier));
  EXPECT_TRUE(waits(barrier, exchange));
  EXPECT_TRUE(waits(barrier, load(7)));
  EXPECT_TRUE(waits(load(7), barrier)) << "what only reads is done, too";
  EXPECT_FALSE(waits(barrier, load(8)));
}

TEST(WaitingRecords, AreNotOvertakenByTilesOfTheSameMemory) {
  const auto made = [](int id, const std::string& space) {
    return R"({"op":"tile","id":)" + std::to_string(id) + R"(,"space":")" + space + R"("})";
  };
  EXPECT_TRUE(waits(made(1, "psum"), made(2, "psum")));
  EXPECT_FALSE(waits(made(1, "psum"), made(2, "sbuf")));
  EXPECT_FALSE(waits(copy(tile(1, 0, 1, 0, 1), tile(2, 0, 1, 0, 1)), made(3, "psum")));
}

TEST(WaitingRecords, AreTakenInTheirOrderAndKeepNothingWaitingThen) {
  WaitingRecords waiting;
  const std::string first = copy(tile(1, 0, 1, 0, 1), tile(2, 0, 1, 0, 1));
  waiting.add(waiting_line(first, 4));
  waiting.add(waiting_line(first, 9));
  const auto taken = waiting.take();
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_EQ(taken[0].number, 4U);
  EXPECT_EQ(taken[1].number, 9U);
  EXPECT_TRUE(waiting.empty());
  EXPECT_FALSE(waiting.must_wait(waiting_line(first)));
}

TEST(WaitingRecords, KnowWhenATileIsNotUsedAgain) {
  WaitingRecords waiting;
  waiting.used_until(1, 5);
  waiting.used_until(1, 3);
  EXPECT_FALSE(waiting.unused(2)) << "nothing is known of it";
  waiting.reached(4);
  EXPECT_FALSE(waiting.unused(1));
  waiting.reached(6);
  EXPECT_TRUE(waiting.unused(1));
  const std::string line = copy(tile(3, 0, 1, 0, 1), tile(1, 0, 1, 0, 1));
  waiting.add(waiting_line(line, 5));
  EXPECT_FALSE(waiting.unused(1));
  const auto taken = waiting.take();
  EXPECT_FALSE(waiting.unused(1));
  waiting.done(taken[0]);
  EXPECT_TRUE(waiting.unused(1));
}

}  // namespace
}  // namespace neuron::nki
