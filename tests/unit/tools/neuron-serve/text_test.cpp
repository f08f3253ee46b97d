// SPDX-License-Identifier: Apache-2.0
// Numbers and messages as text: elements, infer_json, options.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "driver/base/json_text.h"
#include "tools/neuron-serve/elements.h"
#include "tools/neuron-serve/infer_json.h"
#include "tools/neuron-serve/options.h"

namespace neuron::serve {
namespace {

template <class T>
T element(const std::string& text, nrt_dtype_t dtype) {
  std::string bytes;
  EXPECT_EQ(append_element(text, dtype, bytes), text.size()) << text;
  EXPECT_EQ(bytes.size(), sizeof(T));
  T value{};
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(T)));
  return value;
}

TEST(Elements, ReadBackAsTheyWereWritten) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t bits = random();
    for (const nrt_dtype_t dtype : {NRT_DTYPE_FLOAT32, NRT_DTYPE_BFLOAT16, NRT_DTYPE_FLOAT16,
                                    NRT_DTYPE_INT32, NRT_DTYPE_UINT16, NRT_DTYPE_INT8}) {
      std::string text, bytes;
      append_text(reinterpret_cast<const char*>(&bits), dtype, text);
      if (text == "null") continue;
      ASSERT_EQ(append_element(text, dtype, bytes), text.size()) << text;
      ASSERT_EQ(std::memcmp(bytes.data(), &bits, bytes.size()), 0) << text;
    }
  }
}

TEST(Elements, AreRoundedToTheNearestWithTiesToEven) {
  EXPECT_EQ(element<uint16_t>("1", NRT_DTYPE_BFLOAT16), 0x3F80);
  EXPECT_EQ(element<uint16_t>("1.00390625", NRT_DTYPE_BFLOAT16), 0x3F80);
  EXPECT_EQ(element<uint16_t>("1.01171875", NRT_DTYPE_BFLOAT16), 0x3F82);
  EXPECT_EQ(element<uint16_t>("1.00390625000001", NRT_DTYPE_BFLOAT16), 0x3F81);
  EXPECT_EQ(element<uint16_t>("65504", NRT_DTYPE_FLOAT16), 0x7BFF);
  EXPECT_EQ(element<uint16_t>("5.960464477539063e-8", NRT_DTYPE_FLOAT16), 1);
  EXPECT_EQ(element<uint16_t>("6.097555160522461e-5", NRT_DTYPE_FLOAT16), 0x3FF);
  EXPECT_EQ(element<uint16_t>("-0", NRT_DTYPE_FLOAT16), 0x8000);
  EXPECT_EQ(element<float>("1e-60", NRT_DTYPE_FLOAT32), 0);
  EXPECT_EQ(element<float>("0.1", NRT_DTYPE_FLOAT32), 0.1F);
  EXPECT_EQ(element<int64_t>("-9223372036854775808", NRT_DTYPE_INT64), INT64_MIN);
}

TEST(Elements, ThatATypeCannotHoldAreRefused) {
  const std::pair<const char*, nrt_dtype_t> cases[] = {
      {"1e39", NRT_DTYPE_FLOAT32},  {"-1e400", NRT_DTYPE_FLOAT32},
      {"65520", NRT_DTYPE_FLOAT16}, {"3.4e38", NRT_DTYPE_FLOAT16},
      {"3.4e38x", NRT_DTYPE_INT8},  {"128", NRT_DTYPE_INT8},
      {"-1", NRT_DTYPE_UINT32},     {"1.5", NRT_DTYPE_INT32},
      {"1e2", NRT_DTYPE_INT32},     {"4294967296", NRT_DTYPE_UINT32},
      {"nan", NRT_DTYPE_FLOAT32},   {"Infinity", NRT_DTYPE_FLOAT32},
      {"+1", NRT_DTYPE_FLOAT32},    {"01", NRT_DTYPE_FLOAT32},
      {".5", NRT_DTYPE_FLOAT32},    {"1.", NRT_DTYPE_FLOAT32},
      {"1e", NRT_DTYPE_FLOAT32},    {"0x10", NRT_DTYPE_UINT8},
      {"", NRT_DTYPE_FLOAT32},      {"-", NRT_DTYPE_FLOAT32}};
  for (const auto& [text, dtype] : cases) {
    std::string bytes;
    const size_t length = append_element(text, dtype, bytes);
    // "0x10" begins with a number; whoever reads it stumbles over the rest.
    EXPECT_TRUE(length == 0 || length < std::strlen(text)) << text;
    EXPECT_EQ(bytes.empty(), length == 0) << text;
  }
}

class Asked : public Job {
 public:
  void finished() override {}
};

ModelSpec two_inputs() {
  ModelSpec model;
  model.name = "m";
  model.batched = true;
  model.batch = 3;
  model.inputs = {{.name = "a",
                   .dtype = NRT_DTYPE_FLOAT32,
                   .shape = {3, 2},
                   .bytes = 24,
                   .item_bytes = 4,
                   .row_bytes = 8,
                   .row_items = 2},
                  {.name = "b",
                   .dtype = NRT_DTYPE_UINT8,
                   .shape = {3},
                   .bytes = 3,
                   .item_bytes = 1,
                   .row_bytes = 1,
                   .row_items = 1}};
  model.outputs = {{.name = "y",
                    .dtype = NRT_DTYPE_FLOAT32,
                    .shape = {3, 1, 2},
                    .bytes = 24,
                    .item_bytes = 4,
                    .row_bytes = 8,
                    .row_items = 2}};
  return model;
}

TEST(InferJson, TakesInputsInAnyOrderAndPutsThemInTheModels) {
  Asked job;
  EXPECT_FALSE(parse_inputs(" { \"inputs\" : {\"b\":[7,8], \"a\" : [ [1,2],[3,4] ] } } ",
                            two_inputs(), job));
  EXPECT_EQ(job.rows, 2u);
  const float a[] = {1, 2, 3, 4};
  ASSERT_EQ(job.input.size(), 18u);
  EXPECT_EQ(std::memcmp(job.input.data(), a, 16), 0);
  EXPECT_EQ(job.input.substr(16), "\x07\x08");
}

TEST(InferJson, RefusesInputsThatDoNotBelongTogether) {
  Asked job;
  for (const char* text :
       {"{\"inputs\":{\"a\":[[1,2]],\"b\":[7,8]}}", "{\"inputs\":{\"a\":[[1,2]]}}",
        "{\"inputs\":{\"a\":[[1,2]],\"a\":[[1,2]],\"b\":[1]}}", "{\"inputs\":{\"a\":[],\"b\":[]}}",
        "{\"inputs\":{\"a\":[1,2,3],\"b\":[1]}}", "{\"inputs\":{\"a\":[1,2],\"b\":[1]},\"c\":1}",
        "{\"inputs\":{\"a\":[[[1,2]]],\"b\":[1]}}",
        "{\"inputs\":{\"a\":[1,2,3,4,5,6,7,8],\"b\":[1]}}", "{\"inputs\":{\"a\":[1,2],\"b\":[1],}}",
        "{\"inputs\":{\"\\u0061\":[1,2]}}"})
    EXPECT_TRUE(parse_inputs(text, two_inputs(), job)) << text;
}

TEST(InferJson, NoTextThatIsCutOrChangedIsTakenForAnotherOrCrashes) {
  const std::string good = "{\"inputs\":{\"a\":[[1,2],[3,4]],\"b\":[7,8]}}";
  std::mt19937 random(7);
  for (size_t length = 0; length < good.size(); ++length) {
    Asked job;
    EXPECT_TRUE(parse_inputs(good.substr(0, length), two_inputs(), job));
  }
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int k = 0; k < 3; ++k) text[random() % text.size()] = "[]{}\",:0-e.\x80 "[random() % 13];
    Asked job;
    const auto error = parse_inputs(text, two_inputs(), job);
    if (error) {
      EXPECT_LE(error->offset, text.size());
    } else {
      EXPECT_EQ(job.input.size(), job.rows * 9u) << text;
    }
  }
}

TEST(InferJson, WritesOutputsInTheirShapeAndNullForWhatIsNoNumber) {
  Asked job;
  job.rows = 2;
  const float y[] = {0.5F, NAN, -3, INFINITY};
  job.output.assign(reinterpret_cast<const char*>(y), sizeof(y));
  job.batch_rows = 5;
  std::string text;
  append_outputs(two_inputs(), job, text);
  EXPECT_EQ(text.substr(0, text.find(",\"timing\"")),
            "{\"model\":\"m\",\"outputs\":{\"y\":[[[0.5,null]],[[-3,null]]]}");
  EXPECT_NE(text.find("\"batch_rows\":5}"), std::string::npos);
}

TEST(InferJson, EscapesStringsAndReplacesWhatIsNoUtf8) {
  std::string text;
  base::append_json_string(text, "a\"\\\n\x7f\xC3\xA9\xC3(\xFF");
  EXPECT_EQ(text, "\"a\\\"\\\\\\u000a\\u007f\xC3\xA9\xEF\xBF\xBD(\xEF\xBF\xBD\"");
}

TEST(Options, TimesCoresAndAddressesAreRead) {
  std::chrono::microseconds time{};
  EXPECT_TRUE(parse_duration("5ms", time) && time.count() == 5000);
  EXPECT_TRUE(parse_duration("250us", time) && time.count() == 250);
  EXPECT_TRUE(parse_duration("1.5s", time) && time.count() == 1'500'000);
  EXPECT_TRUE(parse_duration("3", time) && time.count() == 3000);
  for (const char* text : {"", "ms", "-1s", "5m", "nan", "1e9s", "5 ms"})
    EXPECT_FALSE(parse_duration(text, time)) << text;
  std::vector<uint32_t> cores;
  EXPECT_TRUE(parse_cores("5,0,2-3,3", cores));
  EXPECT_EQ(cores, (std::vector<uint32_t>{0, 2, 3, 5}));
  for (const char* text : {"", ",", "1,", "3-2", "a", "1-", "-1", "0-99999999"})
    EXPECT_FALSE(parse_cores(text, cores)) << text;
  std::string address;
  uint16_t port = 0;
  EXPECT_TRUE(parse_listen("[::1]:80", address, port) && address == "::1" && port == 80);
  EXPECT_TRUE(parse_listen(":80", address, port) && address == "0.0.0.0");
  EXPECT_TRUE(parse_listen("8080", address, port) && address == "127.0.0.1" && port == 8080);
  EXPECT_TRUE(parse_listen("localhost:0", address, port) && address == "127.0.0.1");
  for (const char* text : {"", "a:b", "::1:80", "[::1:80", "1.2.3.4:", "1.2.3.4:65536"})
    EXPECT_FALSE(parse_listen(text, address, port)) << text;
}

}  // namespace
}  // namespace neuron::serve
