// SPDX-License-Identifier: Apache-2.0
// Numbers and messages as text: elements, infer_json, options.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <random>

#include "driver/base/json_text.h"
#include "tests/unit/tools/golden.h"
#include "tools/neuron-serve/message/elements.h"
#include "tools/neuron-serve/message/infer_json.h"
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

class AskedInText : public Job {
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
  AskedInText job;
  EXPECT_FALSE(parse_inputs(" { \"inputs\" : {\"b\":[7,8], \"a\" : [ [1,2],[3,4] ] } } ",
                            two_inputs(), job));
  EXPECT_EQ(job.rows, 2u);
  const float a[] = {1, 2, 3, 4};
  ASSERT_EQ(job.input.size(), 18u);
  EXPECT_EQ(std::memcmp(job.input.data(), a, 16), 0);
  EXPECT_EQ(job.input.substr(16), "\x07\x08");
}

TEST(InferJson, RefusesInputsThatDoNotBelongTogether) {
  AskedInText job;
  for (const char* text :
       {"{\"inputs\":{\"a\":[[1,2]],\"b\":[7,8]}}", "{\"inputs\":{\"a\":[[1,2]]}}",
        "{\"inputs\":{\"a\":[[1,2]],\"a\":[[1,2]],\"b\":[1]}}", "{\"inputs\":{\"a\":[],\"b\":[]}}",
        "{\"inputs\":{\"a\":[1,2,3],\"b\":[1]}}", "{\"inputs\":{\"a\":[1,2],\"b\":[1]},\"c\":1}",
        "{\"inputs\":{\"a\":[[[1,2]]],\"b\":[1]}}",
        "{\"inputs\":{\"a\":[1,2,3,4,5,6,7,8],\"b\":[1]}}", "{\"inputs\":{\"a\":[1,2],\"b\":[1],}}",
        "{\"inputs\":{\"\\u0061\":[1,2]}}"}) {
    EXPECT_TRUE(parse_inputs(text, two_inputs(), job)) << text;
  }
}

TEST(InferJson, NoTextThatIsCutOrChangedIsTakenForAnotherOrCrashes) {
  const std::string good = "{\"inputs\":{\"a\":[[1,2],[3,4]],\"b\":[7,8]}}";
  std::mt19937 random(7);
  for (size_t length = 0; length < good.size(); ++length) {
    AskedInText job;
    EXPECT_TRUE(parse_inputs(good.substr(0, length), two_inputs(), job));
  }
  for (int i = 0; i < 20000; ++i) {
    std::string text = good;
    for (int k = 0; k < 3; ++k) text[random() % text.size()] = "[]{}\",:0-e.\x80 "[random() % 13];
    AskedInText job;
    const auto error = parse_inputs(text, two_inputs(), job);
    if (error) {
      EXPECT_LE(error->offset, text.size());
    } else {
      EXPECT_EQ(job.input.size(), job.rows * 9u) << text;
    }
  }
}

TEST(InferJson, WritesOutputsInTheirShapeAndNullForWhatIsNoNumber) {
  AskedInText job;
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

TEST(InferJson, SaysWhatIsWrongWithWhichFieldAtWhichByte) {
  std::string said;
  for (const char* text : {"",
                           "[]",
                           "{}",
                           "{\"inputs\":3}",
                           "{\"inputs\":{}}",
                           "{\"input\":{}}",
                           "{\"inputs\":{\"a\":[[1,2]],\"b\":[7,8]}}",
                           "{\"inputs\":{\"a\":[[1,2]]}}",
                           "{\"inputs\":{\"a\":[[1,2]],\"a\":[[1,2]],\"b\":[1]}}",
                           "{\"inputs\":{\"a\":[],\"b\":[]}}",
                           "{\"inputs\":{\"a\":[1,2,3],\"b\":[1]}}",
                           "{\"inputs\":{\"a\":[1,2],\"b\":[1]},\"c\":1}",
                           "{\"inputs\":{\"c\":[1]}}",
                           "{\"inputs\":{\"a\":[[[1,2]]],\"b\":[1]}}",
                           "{\"inputs\":{\"a\":[1,\"2\"],\"b\":[1]}}",
                           "{\"inputs\":{\"a\":[1,2,3,4,5,6,7,8],\"b\":[1]}}",
                           "{\"inputs\":{\"b\":[256]}}",
                           "{\"inputs\":{\"a\":[1,2],\"b\":[1],}}",
                           "{\"inputs\":{\"a\":[1,2],\"b\":[1]}} x",
                           "{\"inputs\":{\"a\":[1e39,2]}}",
                           "{\"inputs\":{\"a\":[1 2]}}",
                           "{\"inputs\":{\"a\"[1]}}",
                           "{\"inputs\":{\"a\":[[[[[[[[[[1]]]]]]]]]]}}",
                           "{\"inputs\":{\"a\":null}}"}) {
    AskedInText job;
    const auto error = parse_inputs(text, two_inputs(), job);
    ASSERT_TRUE(error) << text;
    said += std::string(text) + "\n  " + error->message + " | " + error->field + " | " +
            std::to_string(error->offset) + "\n";
  }
  neuron::testing::expect_golden("serve_inputs.txt", said);
}

TEST(InferJson, TakesRowsUpToTheBatchAndOneFlatRow) {
  for (const uint32_t rows : {1u, 2u, 3u}) {
    std::string a, b;
    for (uint32_t row = 0; row < rows; ++row) {
      a += (row ? "," : "") + std::string("[1,2]");
      b += (row ? "," : "") + std::string("9");
    }
    AskedInText job;
    EXPECT_FALSE(
        parse_inputs("{\"inputs\":{\"a\":[" + a + "],\"b\":[" + b + "]}}", two_inputs(), job));
    EXPECT_EQ(job.rows, rows);
    EXPECT_EQ(job.input.size(), rows * 9);
  }
  AskedInText flat, many;
  EXPECT_FALSE(parse_inputs("{\"inputs\":{\"a\":[1,2],\"b\":[1]}}", two_inputs(), flat));
  EXPECT_EQ(flat.rows, 1u);
  EXPECT_TRUE(parse_inputs("{\"inputs\":{\"a\":[[1,2],[1,2],[1,2],[1,2]],\"b\":[1,1,1,1]}}",
                           two_inputs(), many));
}

TEST(InferJson, TellsTheTimesOfAnAnswer) {
  AskedInText job;
  job.rows = 1;
  job.output.assign(8, '\0');
  job.accepted = Clock::time_point(std::chrono::microseconds(1000));
  job.started = Clock::time_point(std::chrono::microseconds(1250));
  job.host_ns = 12'345;
  job.device_ps = 6'789'000;
  job.batch_rows = 2;
  std::string text;
  append_outputs(two_inputs(), job, text);
  EXPECT_EQ(text,
            "{\"model\":\"m\",\"outputs\":{\"y\":[[[0,0]]]},\"timing\":{\"queue_us\":250.000,"
            "\"host_us\":12.345,\"device_us\":6.789,\"batch_rows\":2}}\n");
}

// Tensors as the runtime tells them; the array ends in a flexible member.
class TensorInfo {
 public:
  explicit TensorInfo(size_t count)
      : memory_(sizeof(nrt_tensor_info_array_t) + count * sizeof(nrt_tensor_info_t)) {
    array().tensor_count = 0;
  }
  void add(const char* name, bool input, nrt_dtype_t dtype, std::vector<uint32_t> shape) {
    nrt_tensor_info_t& info = array().tensor_array[array().tensor_count++];
    std::strcpy(info.name, name);
    info.usage = input ? NRT_TENSOR_USAGE_INPUT : NRT_TENSOR_USAGE_OUTPUT;
    info.dtype = dtype;
    info.ndim = static_cast<uint32_t>(shape.size());
    info.size = dtype_bytes(dtype);
    for (const uint32_t size : shape) info.size *= size;
    info.shape = (shapes_.push_back(std::move(shape)), shapes_.back().data());
  }
  nrt_tensor_info_array_t& array() {
    return *reinterpret_cast<nrt_tensor_info_array_t*>(memory_.data());
  }

 private:
  std::vector<char> memory_;
  std::deque<std::vector<uint32_t>> shapes_;
};

TEST(ModelSpec, OfABatchedModelHasRowsOfItsFirstDimension) {
  TensorInfo info(3);
  info.add("x", true, NRT_DTYPE_BFLOAT16, {4, 8});
  info.add("y", false, NRT_DTYPE_FLOAT32, {4, 10});
  info.add("z", false, NRT_DTYPE_INT8, {4});
  ModelSpec spec;
  spec.batched = true;
  std::string error;
  ASSERT_TRUE(spec.set_tensors(info.array(), error)) << error;
  EXPECT_EQ(spec.batch, 4u);
  ASSERT_EQ(spec.inputs.size(), 1u);
  ASSERT_EQ(spec.outputs.size(), 2u);
  EXPECT_EQ(spec.inputs[0].row_bytes, 16u);
  EXPECT_EQ(spec.inputs[0].row_items, 8u);
  EXPECT_EQ(spec.input_row_bytes, 16u);
  EXPECT_EQ(spec.output_row_bytes, 41u);
  ModelSpec whole = spec;
  whole.batched = false;
  ASSERT_TRUE(whole.set_tensors(info.array(), error));
  EXPECT_EQ(whole.batch, 1u);
  EXPECT_EQ(whole.input_row_bytes, 64u);
  EXPECT_EQ(whole.inputs.size(), 1u);
  EXPECT_FALSE(whole.same_tensors(spec));
  EXPECT_TRUE(spec.same_tensors(spec));
}

TEST(ModelSpec, OfABatchedModelNeedsOneFirstDimension) {
  TensorInfo info(2);
  info.add("x", true, NRT_DTYPE_UINT8, {4, 8});
  info.add("y", false, NRT_DTYPE_UINT8, {3, 8});
  ModelSpec spec;
  spec.name = "m";
  spec.batched = true;
  std::string error;
  EXPECT_FALSE(spec.set_tensors(info.array(), error));
  EXPECT_EQ(
      error,
      "model 'm' is said to be batched, but tensor 'y' has 3 rows where 'x' has 4; all inputs "
      "and outputs need the same first dimension");
  TensorInfo scalar(1);
  scalar.add("x", true, NRT_DTYPE_UINT8, {});
  EXPECT_FALSE(spec.set_tensors(scalar.array(), error));
}

TEST(ModelSpec, KnowsEveryTypeByNameAndSize) {
  std::string text;
  for (const nrt_dtype_t dtype :
       {NRT_DTYPE_FLOAT32, NRT_DTYPE_FP32R, NRT_DTYPE_BFLOAT16, NRT_DTYPE_FLOAT16, NRT_DTYPE_FP8_E3,
        NRT_DTYPE_FP8_E4, NRT_DTYPE_FP8_E5, NRT_DTYPE_UINT8, NRT_DTYPE_UINT16, NRT_DTYPE_UINT32,
        NRT_DTYPE_UINT64, NRT_DTYPE_INT8, NRT_DTYPE_INT16, NRT_DTYPE_INT32, NRT_DTYPE_INT64,
        NRT_DTYPE_UNKNOWN}) {
    text += std::string(dtype_name(dtype)) + ":" + std::to_string(dtype_bytes(dtype)) +
            (has_numbers(dtype) ? " " : "! ");
  }
  EXPECT_EQ(text,
            "float32:4 float32r:4 bfloat16:2 float16:2 float8e3:1! float8e4:1! float8e5:1! uint8:1 "
            "uint16:2 uint32:4 uint64:8 int8:1 int16:2 int32:4 int64:8 bytes:1 ");
}

TEST(Elements, OfEveryTypeAreReadAndWritten) {
  const auto round_trip = [](const char* text, nrt_dtype_t dtype) {
    std::string bytes, out;
    EXPECT_EQ(append_element(text, dtype, bytes), std::strlen(text)) << text;
    append_text(bytes.data(), dtype, out);
    return out;
  };
  EXPECT_EQ(round_trip("18446744073709551615", NRT_DTYPE_UINT64), "18446744073709551615");
  EXPECT_EQ(round_trip("4294967295", NRT_DTYPE_UINT32), "4294967295");
  EXPECT_EQ(round_trip("65535", NRT_DTYPE_UINT16), "65535");
  EXPECT_EQ(round_trip("255", NRT_DTYPE_UINT8), "255");
  EXPECT_EQ(round_trip("-128", NRT_DTYPE_INT8), "-128");
  EXPECT_EQ(round_trip("-32768", NRT_DTYPE_INT16), "-32768");
  EXPECT_EQ(round_trip("-2147483648", NRT_DTYPE_INT32), "-2147483648");
  EXPECT_EQ(round_trip("-9223372036854775808", NRT_DTYPE_INT64), "-9223372036854775808");
  EXPECT_EQ(round_trip("-1.5", NRT_DTYPE_FP32R), "-1.5");
  EXPECT_EQ(round_trip("0.333251953125", NRT_DTYPE_FLOAT16), "0.33325195");
}

TEST(Options, TimesCoresAndAddressesAreRead) {
  std::chrono::microseconds time{};
  EXPECT_TRUE(parse_duration("5ms", time) && time.count() == 5000);
  EXPECT_TRUE(parse_duration("250us", time) && time.count() == 250);
  EXPECT_TRUE(parse_duration("1.5s", time) && time.count() == 1'500'000);
  EXPECT_TRUE(parse_duration("3", time) && time.count() == 3000);
  for (const char* text : {"", "ms", "-1s", "5m", "nan", "1e9s", "5 ms"}) {
    EXPECT_FALSE(parse_duration(text, time)) << text;
  }
  std::vector<uint32_t> cores;
  EXPECT_TRUE(parse_cores("5,0,2-3,3", cores));
  EXPECT_EQ(cores, (std::vector<uint32_t>{0, 2, 3, 5}));
  for (const char* text : {"", ",", "1,", "3-2", "a", "1-", "-1", "0-99999999"}) {
    EXPECT_FALSE(parse_cores(text, cores)) << text;
  }
  std::string address;
  uint16_t port = 0;
  EXPECT_TRUE(parse_listen("[::1]:80", address, port) && address == "::1" && port == 80);
  EXPECT_TRUE(parse_listen(":80", address, port) && address == "0.0.0.0");
  EXPECT_TRUE(parse_listen("8080", address, port) && address == "127.0.0.1" && port == 8080);
  EXPECT_TRUE(parse_listen("localhost:0", address, port) && address == "127.0.0.1");
  for (const char* text : {"", "a:b", "::1:80", "[::1:80", "1.2.3.4:", "1.2.3.4:65536"}) {
    EXPECT_FALSE(parse_listen(text, address, port)) << text;
  }
}

}  // namespace
}  // namespace neuron::serve
