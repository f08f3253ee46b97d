// SPDX-License-Identifier: Apache-2.0
// Messages of KServe's protocol: what is taken, what is refused, what is answered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <cstring>
#include <random>

#include "tools/neuron-serve/message/infer_form.h"

namespace neuron::serve {
namespace {

using ::testing::HasSubstr;

class Asked : public Job {
 public:
  void finished() override {}
};

// x: [up to 3 rows, 2] of f32, flags: [rows] of u8; y: [rows, 2] of f32, n: [rows] of i32
ModelSpec model() {
  ModelSpec model;
  model.name = "m/7";
  model.batched = true;
  model.batch = 3;
  const auto tensor = [](const char* name, nrt_dtype_t type, std::vector<uint32_t> shape,
                         size_t item, size_t items) {
    return TensorSpec{.name = name,
                      .dtype = type,
                      .shape = std::move(shape),
                      .bytes = 3 * item * items,
                      .item_bytes = item,
                      .row_bytes = item * items,
                      .row_items = items};
  };
  model.inputs = {tensor("x", NRT_DTYPE_FLOAT32, {3, 2}, 4, 2),
                  tensor("flags", NRT_DTYPE_UINT8, {3}, 1, 1)};
  model.outputs = {tensor("y", NRT_DTYPE_FLOAT32, {3, 2}, 4, 2),
                   tensor("n", NRT_DTYPE_INT32, {3}, 4, 1)};
  return model;
}

const std::string kGood =
    R"({"id":"a\"b","inputs":[{"name":"flags","shape":[2],"datatype":"BOOL","data":[true,false]},)"
    R"({"data":[[1,2],[3,4.5]],"name":"x","datatype":"FP32","shape":[2,2]}]})";

std::string bytes_of(std::vector<float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * 4};
}

TEST(KserveForm, TakesInputsAndFieldsInAnyOrder) {
  Asked job;
  const auto form = kserve_form(std::nullopt);
  const auto error = form->read(kGood, model(), job);
  ASSERT_FALSE(error) << error->message;
  EXPECT_EQ(job.rows, 2u);
  EXPECT_EQ(job.input, bytes_of({1, 2, 3, 4.5}) + std::string("\1\0", 2));
}

TEST(KserveForm, AnswersWithIdNamesTypesAndShapes) {
  Asked job;
  const auto form = kserve_form(std::nullopt);
  ASSERT_FALSE(form->read(kGood, model(), job));
  const int32_t counts[] = {-5, 6};
  job.output = bytes_of({0.5, NAN, -3, 4}) + std::string(reinterpret_cast<const char*>(counts), 8);
  std::string body;
  form->write(model(), job, body);
  const auto answer = boost::json::parse(body);
  EXPECT_EQ(answer.at("id"), "a\"b");
  EXPECT_EQ(answer.at("model_name"), "m");
  EXPECT_EQ(answer.at("model_version"), "7");
  EXPECT_EQ(boost::json::serialize(answer.at("outputs")),
            R"([{"name":"y","datatype":"FP32","shape":[2,2],"data":[5E-1,null,-3,4]},)"
            R"({"name":"n","datatype":"INT32","shape":[2],"data":[-5,6]}])");
  EXPECT_EQ(form->type(), "application/json");
}

TEST(KserveForm, TakesAndGivesBinaryTensorsBesideOthers) {
  const std::string json =
      R"({"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}},)"
      R"({"name":"flags","shape":[1],"datatype":"UINT8","data":[9]}],)"
      R"("outputs":[{"name":"n"},{"name":"y","parameters":{"binary_data":true}}]})";
  Asked job;
  const auto form = kserve_form(json.size());
  const auto error = form->read(json + bytes_of({7, 8}), model(), job);
  ASSERT_FALSE(error) << error->message;
  EXPECT_EQ(job.input, bytes_of({7, 8}) + "\x09");
  job.output = bytes_of({1, 2}) + std::string("\3\0\0\0", 4);
  std::string body;
  form->write(model(), job, body);
  EXPECT_EQ(form->type(), "application/octet-stream");
  const std::string header(form->headers());
  ASSERT_THAT(header, HasSubstr("Inference-Header-Content-Length: "));
  const size_t length = std::stoul(header.substr(header.find(' ')));
  ASSERT_EQ(body.size(), length + 8);
  EXPECT_EQ(body.substr(length), bytes_of({1, 2}));
  const auto answer = boost::json::parse(body.substr(0, length));
  EXPECT_EQ(boost::json::serialize(answer.at("outputs")),
            R"([{"name":"n","datatype":"INT32","shape":[1],"data":[3]},)"
            R"({"name":"y","datatype":"FP32","shape":[1,2],"parameters":{"binary_data_size":8}}])");
}

TEST(KserveForm, SaysWhatIsWrongWithARequest) {
  const std::string flags = R"({"name":"flags","shape":[1],"datatype":"UINT8","data":[1]})";
  const auto inputs = [&](const std::string& x) {
    return "{\"inputs\":[" + x + "," + flags + "]}";
  };
  const std::pair<std::string, const char*> cases[] = {
      {"", "expected '{' before the request"},
      {"{}", "no \"inputs\""},
      {R"({"inputs":[]})", "this input is missing"},
      {R"({"what":1})", "unknown field"},
      {inputs(R"({"name":"z","shape":[1,2],"datatype":"FP32","data":[1,2]})"), "it has x, flags"},
      {inputs(R"({"name":"x","shape":[1,2],"datatype":"FP64","data":[1,2]})"), "expected FP32"},
      {inputs(R"({"name":"x","shape":[1,2],"datatype":"BOOL","data":[1,2]})"), "expected FP32"},
      {inputs(R"({"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]})"), "[1..3, 2]"},
      {inputs(R"({"name":"x","shape":[4,2],"datatype":"FP32","data":[1,2]})"), "[1..3, 2]"},
      {inputs(R"({"name":"x","shape":[0,2],"datatype":"FP32","data":[]})"), "[1..3, 2]"},
      {inputs(R"({"name":"x","datatype":"FP32","data":[1,2]})"), "found shape []"},
      {inputs(R"({"name":"x","shape":[2,2],"datatype":"FP32","data":[1,2,3,4]})"), "1 rows and x"},
      {inputs(R"({"name":"x","shape":[1,2],"datatype":"FP32","data":[1]})"), "shape says [1, 2]"},
      {inputs(R"({"name":"x","shape":[1,2],"datatype":"FP32","data":[[1],[2]]})"), "[2, 1]"},
      {inputs(R"({"name":"x","shape":[1,2],"datatype":"FP32"})"), "either data or"},
      {inputs(R"({"name":"x","shape":[1,2],"datatype":"FP32","data":[1,"2"]})"),
       "expected a number"},
      {inputs(
           R"({"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}})"),
       "of which 0 bytes came"},
      {inputs(
           R"({"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"shared_memory_region":"a"}})"),
       "binary_data_size only"},
      {inputs(flags), "was given before"},
      {R"({"outputs":[{"name":"z"}],"inputs":[]})", "it has y, n"},
      {R"({"outputs":[{"name":"y"},{"name":"n"},{"name":"y"}],"inputs":[]})",
       "the output \"y\" was asked for before"},
      {R"({"outputs":[{"name":"y","parameters":{"classification":2}}],"inputs":[]})",
       "binary_data only"},
  };
  for (const auto& [text, said] : cases) {
    Asked job;
    const auto error = kserve_form(std::nullopt)->read(text, model(), job);
    ASSERT_TRUE(error) << text;
    EXPECT_THAT(error->message, HasSubstr(said)) << text;
  }
  Asked job;
  EXPECT_TRUE(kserve_form(1000)->read(kGood, model(), job));
  EXPECT_TRUE(kserve_form(kGood.size())->read(kGood + "x", model(), job));
}

TEST(KserveForm, NoTextThatIsCutOrChangedIsTakenForAnotherOrCrashes) {
  std::mt19937 random(7);
  for (size_t length = 0; length < kGood.size(); ++length) {
    Asked job;
    EXPECT_TRUE(kserve_form(std::nullopt)->read(kGood.substr(0, length), model(), job));
  }
  for (int i = 0; i < 20000; ++i) {
    std::string text = kGood;
    for (int k = 0; k < 3; ++k) text[random() % text.size()] = "[]{}\",:0-e.\x80\\ "[random() % 14];
    Asked job;
    const auto error = kserve_form(random() % 300)->read(text, model(), job);
    if (error) {
      EXPECT_LE(error->offset, text.size());
    } else {
      EXPECT_EQ(job.input.size(), job.rows * 9u) << text;
    }
  }
}

TEST(KserveForm, NamesTypesAsTheProtocolDoes) {
  EXPECT_EQ(kserve_type(NRT_DTYPE_FLOAT32), "FP32");
  EXPECT_EQ(kserve_type(NRT_DTYPE_BFLOAT16), "BF16");
  EXPECT_EQ(kserve_type(NRT_DTYPE_INT64), "INT64");
  EXPECT_EQ(kserve_type(NRT_DTYPE_UINT8), "UINT8");
}

}  // namespace
}  // namespace neuron::serve
