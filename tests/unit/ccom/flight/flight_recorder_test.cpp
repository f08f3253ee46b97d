// SPDX-License-Identifier: Apache-2.0
#include "ccom/flight/flight_recorder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <ctime>
#include <thread>
#include <vector>

namespace neuron::ccom {
namespace {

Signature signature_of(uint64_t number) {
  Signature signature{};
  signature.operation = number;
  signature.kind = CCOM_BROADCAST;
  signature.type = CCOM_BF16;
  signature.count = 3 * number;
  return signature;
}

TEST(FlightRecorder, KeepsTheNewestOperationsInOrder) {
  std::vector<std::byte> memory(FlightRecorder::kFlightMemory);
  FlightRecorder recorder(memory.data());
  EXPECT_TRUE(recorder.records().empty());
  for (uint64_t i = 0; i < kFlightRecords + 100; ++i) {
    FlightRecord& record = recorder.begin(signature_of(i));
    if (i != kFlightRecords + 99) {
      recorder.end(record, i % 2 == 0 ? CCOM_SUCCESS : CCOM_TIMEOUT);
    }
  }
  const auto records = recorder.records();
  // The oldest slot is the next to be written: a reader cannot trust it.
  ASSERT_GE(records.size(), 1000u);
  uint64_t number = kFlightRecords + 100 - records.size();
  for (const FlightRecord& record : records) {
    EXPECT_EQ(record.signature.operation, number);
    EXPECT_EQ(record.signature.count, 3 * number);
    ++number;
  }
  EXPECT_EQ(records.back().end_ns, 0u);
  EXPECT_EQ(records[records.size() - 2].status,
            (number - 2) % 2 == 0 ? CCOM_SUCCESS : CCOM_TIMEOUT);
  EXPECT_EQ(recorder.records(3).front().signature.operation, number - 3);
}

TEST(FlightRecorder, ReadsAfterTheRecorderIsGone) {
  std::vector<std::byte> memory(FlightRecorder::kFlightMemory);
  {
    FlightRecorder recorder(memory.data());
    recorder.begin(signature_of(7));
  }
  FlightRecord last;
  ASSERT_TRUE(FlightRecorder(memory.data()).last(last));
  EXPECT_EQ(last.signature.operation, 7u);
  EXPECT_EQ(describe(last.signature), "broadcast 7 of stream 0");
}

TEST(FlightRecorder, TimesFollowTheSystemsClock) {
  FlightClock clock;
  uint64_t before = 0;
  const auto system = [] {
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u +
           static_cast<uint64_t>(time.tv_nsec);
  };
  const uint64_t end = system() + 60'000'000;
  while (before < end) {
    const uint64_t low = system();
    const uint64_t now = clock.now();
    const uint64_t high = system();
    // The rate is measured over 20 ms: a thousandth is more than enough for people.
    ASSERT_GE(now + 1'000'000, low);
    ASSERT_LE(now, high + 1'000'000);
    before = now;
  }
}

TEST(FlightRecorder, IsReadWhileItIsWritten) {
  std::vector<std::byte> memory(FlightRecorder::kFlightMemory);
  FlightRecorder recorder(memory.data());
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    const FlightRecorder peer(memory.data());
    while (!stop) {
      uint64_t number = 0;
      for (const FlightRecord& record : peer.records()) {
        EXPECT_GE(record.signature.operation, number);
        EXPECT_EQ(record.signature.count, 3 * record.signature.operation);
        number = record.signature.operation;
      }
    }
  });
  for (uint64_t i = 0; i < 200000; ++i) {
    recorder.end(recorder.begin(signature_of(i)), CCOM_SUCCESS);
  }
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace neuron::ccom
