// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/grpc/rpc_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tools/neuron-serve/grpc/inference.pb.h"
#include "tools/neuron-serve/grpc/rpc_call.h"

namespace neuron::serve {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RpcForm, NamesTheLimitThatAMessageMetAndNotALargerOne) {
  EXPECT_THAT(rpc_no_message(4096), HasSubstr("4096 bytes, which --max-body may change"));
  const std::string most = rpc_no_message(size_t{4} << 30);
  EXPECT_THAT(most, HasSubstr("1073741824 bytes, the most that gRPC takes here"));
  EXPECT_THAT(most, Not(HasSubstr("--max-body")));
  EXPECT_EQ(rpc_no_message(kMostRpcMessage), most);
}

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using ::testing::ElementsAre;

struct JobOfTest : Job {
  void finished() override {}
};

TensorSpec tensor(const std::string& name, nrt_dtype_t dtype, std::vector<uint32_t> shape,
                  size_t item_bytes, size_t row_items) {
  TensorSpec spec;
  spec.name = name;
  spec.dtype = dtype;
  spec.shape = std::move(shape);
  spec.item_bytes = item_bytes;
  spec.row_items = row_items;
  spec.row_bytes = row_items * item_bytes;
  return spec;
}

// Up to four rows: x of three f32 and y of one i8 each; z of two f32, w of one bf16.
ModelSpec batched_model() {
  ModelSpec model;
  model.name = "digits/2";
  model.batched = true;
  model.batch = 4;
  model.inputs = {tensor("x", NRT_DTYPE_FLOAT32, {4, 3}, 4, 3),
                  tensor("y", NRT_DTYPE_INT8, {4}, 1, 1)};
  model.outputs = {tensor("z", NRT_DTYPE_FLOAT32, {4, 2}, 4, 2),
                   tensor("w", NRT_DTYPE_BFLOAT16, {4, 1}, 2, 1)};
  return model;
}

void add_input(ModelInferRequest& request, const std::string& name, const std::string& type,
               const std::vector<int64_t>& shape) {
  auto& input = *request.add_inputs();
  input.set_name(name);
  input.set_datatype(type);
  for (const int64_t size : shape) input.add_shape(size);
}

ModelInferRequest raw_request(int64_t rows = 2) {
  ModelInferRequest request;
  request.set_model_name("digits");
  request.set_model_version("2");
  request.set_id("seven");
  add_input(request, "x", "FP32", {rows, 3});
  add_input(request, "y", "INT8", {rows});
  request.add_raw_input_contents(std::string(static_cast<size_t>(rows) * 12, 'x'));
  request.add_raw_input_contents(std::string(static_cast<size_t>(rows), 'y'));
  return request;
}

std::string refusal(const ModelInferRequest& request, const ModelSpec& model = batched_model()) {
  RpcForm form;
  JobOfTest job;
  EXPECT_TRUE(form.parse(request.SerializeAsString()));
  return form.read(model, job);
}

TEST(RpcForm, TakesRawBytesInTheOrderOfTheModelsInputs) {
  ModelInferRequest request;
  add_input(request, "y", "INT8", {2});
  add_input(request, "x", "FP32", {2, 3});
  request.add_raw_input_contents("ab");
  request.add_raw_input_contents(std::string(24, 'x'));
  request.set_model_name("digits");
  request.set_model_version("2");
  RpcForm form;
  JobOfTest job;
  ASSERT_TRUE(form.parse(request.SerializeAsString()));
  EXPECT_EQ(form.model(), "digits");
  EXPECT_EQ(form.version(), "2");
  EXPECT_EQ(form.read(batched_model(), job), "");
  EXPECT_EQ(job.rows, 2u);
  EXPECT_EQ(job.input, std::string(24, 'x') + "ab");
  EXPECT_FALSE(RpcForm().parse("\xff\xff"));
}

TEST(RpcForm, TakesOneToAsManyRowsAsABatchHas) {
  for (const int64_t rows : {1, 4}) EXPECT_EQ(refusal(raw_request(rows)), "") << rows;
  EXPECT_EQ(refusal(raw_request(5)), "inputs.x: found shape [5, 3], expected [1..4, 3]");
  EXPECT_EQ(refusal(raw_request(0)), "inputs.x: found shape [0, 3], expected [1..4, 3]");
  ModelInferRequest request = raw_request();
  request.mutable_inputs(0)->set_shape(1, 4);
  EXPECT_EQ(refusal(request), "inputs.x: found shape [2, 4], expected [1..4, 3]");
  request.mutable_inputs(0)->clear_shape();
  EXPECT_EQ(refusal(request), "inputs.x: found shape [], expected [1..4, 3]");
  ModelInferRequest one = raw_request();
  one.mutable_inputs(1)->set_shape(0, 3);
  one.set_raw_input_contents(1, "abc");
  EXPECT_EQ(refusal(one), "inputs.y: it has 3 rows and x has 2");
  ModelSpec whole = batched_model();
  whole.batched = false;
  EXPECT_EQ(refusal(raw_request(2), whole), "inputs.x: found shape [2, 3], expected [4, 3]");
  ModelSpec vector = batched_model();
  vector.inputs[0].shape = {4};
  EXPECT_EQ(refusal(raw_request(2), vector), "inputs.x: found shape [2, 3], expected [1..4]");
}

TEST(RpcForm, NamesTheInputThatIsWrong) {
  ModelInferRequest request = raw_request();
  request.mutable_inputs(0)->set_datatype("FP16");
  EXPECT_EQ(refusal(request), "inputs.x: found datatype \"FP16\", expected FP32");
  request = raw_request();
  request.mutable_inputs(1)->set_name("q");
  EXPECT_EQ(refusal(request), "inputs.q: the model has no such input; it has x, y");
  request.mutable_inputs(1)->CopyFrom(request.inputs(0));
  EXPECT_EQ(refusal(request), "inputs.x: this input was given before");
  request = raw_request();
  request.mutable_inputs()->RemoveLast();
  EXPECT_EQ(refusal(request), "raw_input_contents: found 2 of them for 1 inputs");
  request.mutable_raw_input_contents()->RemoveLast();
  EXPECT_EQ(refusal(request), "inputs.y: this input is missing");
  request = raw_request();
  request.set_raw_input_contents(0, "short");
  EXPECT_EQ(refusal(request),
            "inputs.x: raw_input_contents has 5 bytes for it, a tensor of this shape has 24");
  request = raw_request();
  request.mutable_inputs(1)->mutable_contents()->add_int_contents(1);
  EXPECT_THAT(refusal(request), HasSubstr("inputs.y: it has contents, and raw_input_contents are"));
}

TEST(RpcForm, TakesTypedNumbersAndRefusesThoseThatTheTypeHasNot) {
  ModelInferRequest request;
  add_input(request, "x", "FP32", {1, 3});
  add_input(request, "y", "INT8", {1});
  for (const float value : {1.5F, -2.0F, 0.0F}) {
    request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(value);
  }
  request.mutable_inputs(1)->mutable_contents()->add_int_contents(-128);
  RpcForm form;
  JobOfTest job;
  ASSERT_TRUE(form.parse(request.SerializeAsString()));
  ASSERT_EQ(form.read(batched_model(), job), "");
  ASSERT_EQ(job.input.size(), 13u);
  float values[3];
  std::memcpy(values, job.input.data(), sizeof values);
  EXPECT_THAT(values, ElementsAre(1.5F, -2.0F, 0.0F));
  EXPECT_EQ(static_cast<int8_t>(job.input[12]), -128);

  request.mutable_inputs(1)->mutable_contents()->set_int_contents(0, 128);
  EXPECT_EQ(refusal(request), "inputs.y: 128 is no INT8");
  request.mutable_inputs(1)->mutable_contents()->add_int_contents(1);
  EXPECT_EQ(refusal(request),
            "inputs.y: the field of contents for INT8 has 2 elements, its shape has 1");
  ModelSpec model = batched_model();
  model.inputs = {tensor("t", NRT_DTYPE_UINT8, {4, 2}, 1, 2)};
  ModelInferRequest truths;
  add_input(truths, "t", "BOOL", {1, 2});
  truths.mutable_inputs(0)->mutable_contents()->add_bool_contents(true);
  EXPECT_EQ(refusal(truths, model), "inputs.t: bool_contents has 1 elements, its shape has 2");
  truths.mutable_inputs(0)->mutable_contents()->add_bool_contents(false);
  RpcForm of_truths;
  ASSERT_TRUE(of_truths.parse(truths.SerializeAsString()));
  EXPECT_EQ(of_truths.read(model, job), "");
  EXPECT_EQ(job.input, std::string("\1\0", 2));
  model.inputs[0].dtype = NRT_DTYPE_BFLOAT16;
  ModelInferRequest narrow;
  add_input(narrow, "t", "BF16", {1, 2});
  EXPECT_EQ(refusal(narrow, model),
            "inputs.t: BF16 has no field in contents; send raw_input_contents");
}

ModelInferResponse answer(const ModelInferRequest& request, const ModelSpec& model,
                          std::string output) {
  RpcForm form;
  JobOfTest job;
  ModelInferResponse response;
  EXPECT_TRUE(form.parse(request.SerializeAsString()));
  EXPECT_EQ(form.read(model, job), "");
  job.output = std::move(output);
  job.batch_rows = 3;
  job.host_ns = 2500;
  job.device_ps = 7'000'000;
  job.started = job.accepted + std::chrono::microseconds(11);
  EXPECT_TRUE(response.ParseFromString(form.write(model, job)));
  return response;
}

TEST(RpcForm, AnswersWithTheOutputsThatWereAskedForAndTheTimes) {
  const std::string z(16, 'z'), w = "1122";
  const ModelInferResponse all = answer(raw_request(), batched_model(), z + w);
  EXPECT_EQ(all.model_name(), "digits");
  EXPECT_EQ(all.model_version(), "2");
  EXPECT_EQ(all.id(), "seven");
  ASSERT_EQ(all.outputs_size(), 2);
  EXPECT_EQ(all.outputs(0).name(), "z");
  EXPECT_EQ(all.outputs(0).datatype(), "FP32");
  EXPECT_THAT(all.outputs(0).shape(), ElementsAre(2, 2));
  EXPECT_EQ(all.outputs(1).datatype(), "BF16");
  EXPECT_THAT(all.raw_output_contents(), ElementsAre(z, w));
  EXPECT_EQ(all.parameters().at("batch_rows").int64_param(), 3);
  EXPECT_EQ(all.parameters().at("queue_us").double_param(), 11);
  EXPECT_EQ(all.parameters().at("host_us").double_param(), 2.5);
  EXPECT_EQ(all.parameters().at("device_us").double_param(), 7);

  ModelInferRequest request = raw_request();
  request.add_outputs()->set_name("w");
  const ModelInferResponse second = answer(request, batched_model(), z + w);
  ASSERT_EQ(second.outputs_size(), 1);
  EXPECT_THAT(second.raw_output_contents(), ElementsAre(w));
  request.add_outputs()->set_name("w");
  EXPECT_EQ(refusal(request), "outputs.w: this output was asked for before");
  request.mutable_outputs(1)->set_name("v");
  EXPECT_EQ(refusal(request), "outputs.v: the model has no such output; it has z, w");
}

TEST(RpcForm, AnswersTypedNumbersWithTypedNumbersUnlessATypeHasNone) {
  ModelInferRequest request;
  add_input(request, "x", "FP32", {1, 3});
  for (int i = 0; i < 3; ++i) request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(0);
  ModelSpec model = batched_model();
  model.inputs.resize(1);
  const float numbers[] = {0.5F, -3};
  std::string output(reinterpret_cast<const char*>(numbers), sizeof numbers);
  request.add_outputs()->set_name("z");
  const ModelInferResponse typed = answer(request, model, output + "11");
  EXPECT_EQ(typed.raw_output_contents_size(), 0);
  EXPECT_THAT(typed.outputs(0).contents().fp32_contents(), ElementsAre(0.5F, -3));
  request.add_outputs()->set_name("w");
  EXPECT_EQ(answer(request, model, output + "11").raw_output_contents_size(), 2);
}

TEST(RpcForm, DescribesAModelWithAFreeNumberOfRows) {
  inference::ModelMetadataResponse response;
  ASSERT_TRUE(response.ParseFromString(rpc_model_metadata(batched_model(), {"1", "2"})));
  EXPECT_EQ(response.name(), "digits");
  EXPECT_THAT(response.versions(), ElementsAre("1", "2"));
  ASSERT_EQ(response.inputs_size(), 2);
  EXPECT_THAT(response.inputs(0).shape(), ElementsAre(-1, 3));
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(-1, 2));
  ModelSpec whole = batched_model();
  whole.batched = false;
  ASSERT_TRUE(response.ParseFromString(rpc_model_metadata(whole, {})));
  EXPECT_THAT(response.inputs(0).shape(), ElementsAre(4, 3));
  RpcName name;
  inference::ModelReadyRequest asked;
  asked.set_name("digits");
  asked.set_version("9");
  ASSERT_TRUE(name.parse(asked.SerializeAsString()));
  EXPECT_EQ(name.name, "digits");
  EXPECT_EQ(name.version, "9");
  inference::ModelReadyResponse ready;
  ASSERT_TRUE(ready.ParseFromString(rpc_truth(true)));
  EXPECT_TRUE(ready.ready());
  ASSERT_TRUE(ready.ParseFromString(rpc_truth(false)));
  EXPECT_FALSE(ready.ready());
}

}  // namespace
}  // namespace neuron::serve
