// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/run/collector.h"
#include "tools/nccom-test/run/data.h"
#include "tools/nccom-test/run/launcher.h"

namespace neuron::nccom {
namespace {

using ::testing::HasSubstr;

Job job_of(uint32_t ranks) {
  Options options;
  options.ranks = ranks;
  options.operations = {CCOM_ALL_REDUCE};
  options.block.sweep = {8, 16, 8, {}};
  return *make_job(options);
}

TEST(Data, OneWrongBitIsFoundWhereItIs) {
  for (int operation = 0; operation < CCOM_OPERATION_COUNT; ++operation) {
    if (operation == CCOM_BARRIER) continue;
    BlockOptions options;
    options.operation = static_cast<ccom_operation_t>(operation);
    options.type = CCOM_INT32;
    const PairConfig pairs = {{0, 1}};
    const uint32_t place = options.operation == CCOM_PERMUTE || operation == CCOM_SEND_RECEIVE;
    const auto made = make_case(options, pairs, 480, 4, place);
    ASSERT_TRUE(made) << made.error().sentence;
    const Work& work = made->works.front();
    const Data data(9, false, work.type, work.reduction);
    const std::vector<uint32_t> ranks = {4, 5, 6, 7};
    auto output = golden(data, work, place, ranks);
    ASSERT_GT(output.size(), 8u) << operation_name(options.operation);
    EXPECT_FALSE(verify(data, work, place, ranks, output, true));
    output[output.size() - 1] ^= std::byte{1};
    const auto wrong = verify(data, work, place, ranks, output, true);
    ASSERT_TRUE(wrong) << operation_name(options.operation);
    EXPECT_EQ(wrong->element, output.size() / 4 - 1);
  }
}

TEST(Data, AnAverageOfFloatingPointMayDifferByRoundingOnly) {
  BlockOptions options;
  options.type = CCOM_BF16;
  options.reduction = CCOM_AVERAGE;
  const auto made = make_case(options, {}, 64, 4, 0);
  const Work& work = made->works.front();
  const Data data(1, false, work.type, work.reduction);
  const std::vector<uint32_t> ranks = {0, 1, 2, 3};
  auto output = golden(data, work, 0, ranks);
  output[0] ^= std::byte{1};  // the last bit of the mantissa
  EXPECT_FALSE(verify(data, work, 0, ranks, output, true));
  output[0] ^= std::byte{0x40};
  EXPECT_TRUE(verify(data, work, 0, ranks, output, true));
}

TEST(Data, EveryCodeOfASmallFormatComesBack) {
  for (const ccom_type_t type : {CCOM_FP8_E3, CCOM_FP8_E4, CCOM_FP8_E5, CCOM_FP16, CCOM_BF16}) {
    const uint32_t codes = type_size(type) == 1 ? 256 : 65536;
    for (uint32_t code = 0; code < codes; ++code) {
      std::byte bytes[4] = {static_cast<std::byte>(code & 255), static_cast<std::byte>(code >> 8)};
      const double value = decode(type, bytes);
      if (std::isnan(value)) continue;
      std::byte again[4] = {};
      encode(type, value, again);
      ASSERT_EQ(std::memcmp(bytes, again, type_size(type)), 0) << type_name(type) << " " << code;
    }
  }
}

TEST(Case, CountsThatDoNotFitTheGroupAreRefused) {
  BlockOptions options;
  options.operation = CCOM_ALL_TO_ALL_V;
  options.metadata = {{{1, 2}, {}, {}, {}}};
  const auto made = make_case(options, {}, 8, 3, 0);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().sentence, HasSubstr("send_counts has 2 entries, expected 3"));
}

TEST(Message, ComesBackFromItsLine) {
  Message message;
  message.kind = Message::Kind::kDone;
  message.rank = 3;
  message.size = 77;
  message.times_us = {1.5, 2.25};
  message.text = "two\nlines";
  const auto read = from_line(to_line(message));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->rank, 3u);
  EXPECT_EQ(read->size, 77u);
  EXPECT_EQ(read->times_us, message.times_us);
  EXPECT_EQ(read->text, "two lines");
  for (const char* line : {"", "#nccom", "#nccom 9 0 0 0 0 0 0 0 0 0 0 ", "#nccom 1 0 0",
                           "#nccom 1 0 0 0 0 0 0 0 0 0 99999999 1 ", "hello"}) {
    EXPECT_FALSE(from_line(line)) << line;
  }
}

TEST(Collector, NamesTheRankThatTheOthersWaitFor) {
  const Job job = job_of(2);
  Collector collector(job, 2);
  Message message;
  message.kind = Message::Kind::kDone;
  message.times_us = {10};
  message.size = message.count = 8;
  collector.put(message);
  message.kind = Message::Kind::kAt;
  message.step = 1;
  message.text = "measuring the second";
  collector.put(message);
  message.rank = 1;
  message.step = 0;
  message.text = "measuring the first";
  collector.put(message);
  EXPECT_EQ(collector.missing(), "rank 1: measuring the first");
  collector.lost(1, "its process was ended by signal 9");
  EXPECT_EQ(collector.state(), Collector::State::kBroken);
  const auto blocks = collector.blocks();
  ASSERT_EQ(blocks.size(), 1u);
  ASSERT_EQ(blocks[0].rows.size(), 1u);
  EXPECT_EQ(blocks[0].rows[0].failure,
            "rank 1: its process was ended by signal 9 while measuring the first");
}

TEST(Collector, HostileMessagesChangeNothing) {
  const Job job = job_of(2);
  Collector collector(job, 2);
  Message message;
  message.kind = Message::Kind::kDone;
  for (uint32_t* field : {&message.rank, &message.phase, &message.block, &message.step}) {
    *field = 99;
    collector.put(message);
    *field = 0;
  }
  EXPECT_EQ(collector.completed_steps(), 0u);
  EXPECT_TRUE(collector.blocks().empty());
}

TEST(Launcher, SplitsACommandAsAShellDoes) {
  EXPECT_EQ(split_command("ip netns exec {host}", "a b"),
            (std::vector<std::string>{"ip", "netns", "exec", "a b"}));
  EXPECT_EQ(split_command("sh -c '. x; exec \"$@\"' sh", "h"),
            (std::vector<std::string>{"sh", "-c", ". x; exec \"$@\"", "sh"}));
}

}  // namespace
}  // namespace neuron::nccom
