// SPDX-License-Identifier: Apache-2.0
// What clients of gRPC are answered: with the stub that protoc writes, and with bytes by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/system/serve/grpc/rpc_client.h"
#include "tests/system/serve/tls_client.h"

namespace neuron::serve_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kToken[] = "c2VjcmV0LXRva2VuLW9mLXRoaXMtdGVzdA";

RpcServed& shared() {
  static RpcServed served({"--max-body", "100000"});
  return served;
}

TEST(GrpcAnswers, RawAndTypedTensorsAreAnsweredInTheirFormWithTheBitsOfLibnrt) {
  ASSERT_NE(shared().rpc_port(), 0) << shared().log();
  EXPECT_THAT(shared().rpc_address(), HasSubstr("grpc://127.0.0.1:"));
  RpcClient client(shared());
  for (const size_t count : {size_t{1}, size_t{120}}) {
    EXPECT_EQ(client.verdict_of(random_rows(count, 3)), "");
  }
  const std::vector<Row> rows = random_rows(7, 9);
  auto request = RpcClient::request(rows, false);
  request.set_id("mine");
  request.add_outputs()->set_name("probabilities");
  inference::ModelInferResponse response;
  const grpc::Status status = client.infer(request, response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.id(), "mine");
  EXPECT_EQ(response.model_name(), "digits");
  EXPECT_EQ(response.model_version(), "1");
  EXPECT_EQ(response.raw_output_contents_size(), 0);
  ASSERT_EQ(response.outputs_size(), 1);
  EXPECT_EQ(response.outputs(0).datatype(), "FP32");
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(7, 10));
  const auto& values = response.outputs(0).contents().fp32_contents();
  Answer answer;
  answer.status = 200;
  answer.body.assign(reinterpret_cast<const char*>(values.data()),
                     static_cast<size_t>(values.size()) * sizeof(float));
  EXPECT_EQ(verdict(answer, Truth::get().of(rows)), "");
  EXPECT_GT(response.parameters().at("device_us").double_param(), 0);
  EXPECT_GE(response.parameters().at("batch_rows").int64_param(), 7);
}

TEST(GrpcAnswers, ServerAndModelsAreDescribed) {
  RpcClient client(shared());
  {
    RpcClient::Context context;
    RpcClient::be_patient(context);
    inference::ServerLiveResponse live;
    EXPECT_TRUE(client.stub().ServerLive(&context, {}, &live).ok());
    EXPECT_TRUE(live.live());
  }
  {
    RpcClient::Context context;
    RpcClient::be_patient(context);
    inference::ServerReadyResponse ready;
    EXPECT_TRUE(client.stub().ServerReady(&context, {}, &ready).ok());
    EXPECT_TRUE(ready.ready());
  }
  {
    RpcClient::Context context;
    RpcClient::be_patient(context);
    inference::ServerMetadataResponse server;
    EXPECT_TRUE(client.stub().ServerMetadata(&context, {}, &server).ok());
    EXPECT_EQ(server.name(), "neuron-serve");
    EXPECT_FALSE(server.version().empty());
  }
  {
    RpcClient::Context context;
    RpcClient::be_patient(context);
    inference::ModelReadyRequest request;
    request.set_name("digits");
    inference::ModelReadyResponse ready;
    EXPECT_TRUE(client.stub().ModelReady(&context, request, &ready).ok());
    EXPECT_TRUE(ready.ready());
  }
  RpcClient::Context context;
  RpcClient::be_patient(context);
  inference::ModelMetadataRequest request;
  request.set_name("digits");
  inference::ModelMetadataResponse model;
  EXPECT_TRUE(client.stub().ModelMetadata(&context, request, &model).ok());
  EXPECT_EQ(model.name(), "digits");
  EXPECT_THAT(model.versions(), ElementsAre("1"));
  ASSERT_EQ(model.inputs_size(), 1);
  EXPECT_EQ(model.inputs(0).name(), "x");
  EXPECT_EQ(model.inputs(0).datatype(), "FP32");
  EXPECT_THAT(model.inputs(0).shape(), ElementsAre(-1, 64));
  ASSERT_EQ(model.outputs_size(), 1);
  EXPECT_THAT(model.outputs(0).shape(), ElementsAre(-1, 10));
}

TEST(GrpcAnswers, AClientThatSharesNoCodeIsAnswered) {
  const std::vector<Row> rows = random_rows(2, 5);
  const std::vector<Probabilities> truth = Truth::get().of(rows);
  Client client(shared().rpc_port());
  ASSERT_TRUE(client.send(kPreface + frame(kSettings, 0, 0, "") + call_headers("ModelInfer") +
                          frame(kData, kEndStream, 1, message(digits_request(2, binary(rows))))));
  // raw_output_contents is field 6 of the answer.
  const std::string expected = field(6, binary(truth));
  EXPECT_THAT(receive_until(client, expected), HasSubstr(expected));
}

TEST(GrpcAnswers, WhatIsWrongIsSaidWithTheFieldAndTheStatus) {
  using Request = inference::ModelInferRequest;
  const struct {
    std::function<void(Request&)> change;
    grpc::StatusCode code;
    const char* sentence;
  } cases[] = {
      {[](Request& r) { r.set_model_name("nosuch"); }, grpc::NOT_FOUND, "no such model"},
      {[](Request& r) { r.set_model_version("7"); }, grpc::NOT_FOUND, "no such model or version"},
      {[](Request& r) { r.mutable_inputs(0)->set_name("y"); }, grpc::INVALID_ARGUMENT,
       "inputs.y: the model has no such input; it has x"},
      {[](Request& r) { r.mutable_inputs(0)->set_datatype("FP16"); }, grpc::INVALID_ARGUMENT,
       "inputs.x: found datatype \"FP16\", expected FP32"},
      {[](Request& r) { r.mutable_inputs(0)->set_shape(1, 63); }, grpc::INVALID_ARGUMENT,
       "found shape [2, 63], expected [1..120, 64]"},
      {[](Request& r) { r.mutable_inputs(0)->set_shape(0, 0); }, grpc::INVALID_ARGUMENT,
       "found shape [0, 64]"},
      {[](Request& r) { r.mutable_inputs(0)->set_shape(0, int64_t{1} << 62); },
       grpc::INVALID_ARGUMENT, "found shape"},
      {[](Request& r) { r.mutable_inputs(0)->set_shape(0, -2); }, grpc::INVALID_ARGUMENT,
       "found shape [-2, 64]"},
      {[](Request& r) { r.mutable_raw_input_contents(0)->pop_back(); }, grpc::INVALID_ARGUMENT,
       "511 bytes for it, a tensor of this shape has 512"},
      {[](Request& r) { r.add_raw_input_contents("x"); }, grpc::INVALID_ARGUMENT,
       "found 2 of them for 1 inputs"},
      {[](Request& r) { r.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1); },
       grpc::INVALID_ARGUMENT, "expected one of these for all"},
      {[](Request& r) {
         r.clear_raw_input_contents();
         r.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
       },
       grpc::INVALID_ARGUMENT, "has 1 elements, its shape has 128"},
      {[](Request& r) { *r.add_inputs() = r.inputs(0), r.add_raw_input_contents("x"); },
       grpc::INVALID_ARGUMENT, "given before"},
      {[](Request& r) { r.clear_inputs(), r.clear_raw_input_contents(); }, grpc::INVALID_ARGUMENT,
       "inputs.x: this input is missing"},
      {[](Request& r) { r.add_outputs()->set_name("z"); }, grpc::INVALID_ARGUMENT,
       "outputs.z: the model has no such output; it has probabilities"},
      {[](Request& r) {
         r.add_outputs()->set_name("probabilities");
         r.add_outputs()->set_name("probabilities");
       },
       grpc::INVALID_ARGUMENT, "asked for before"},
      {[](Request& r) { r.set_id(std::string(100'000, 'i')); }, grpc::RESOURCE_EXHAUSTED, ""},
  };
  RpcClient client(shared());
  const std::vector<Row> rows = random_rows(2, 1);
  for (const auto& test : cases) {
    auto request = RpcClient::request(rows);
    test.change(request);
    inference::ModelInferResponse response;
    const grpc::Status status = client.infer(request, response);
    EXPECT_EQ(status.error_code(), test.code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(test.sentence));
  }
  EXPECT_EQ(client.verdict_of(rows), "");
}

TEST(GrpcAnswers, OtherMethodsAndCompressedMessagesAreNotThere) {
  Client raw(shared().rpc_port());
  raw.send(kPreface + frame(kSettings, 0, 0, "") + call_headers("ModelStreamInfer"));
  EXPECT_THAT(receive_until(raw, "has no method"),
              HasSubstr("/inference.GRPCInferenceService/ModelStreamInfer"));
  RpcClient client(shared());
  RpcClient::Context context;
  RpcClient::be_patient(context);
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  inference::ModelInferResponse response;
  const grpc::Status status =
      client.stub().ModelInfer(&context, RpcClient::request(random_rows(20, 1)), &response);
  EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED) << status.error_message();
}

TEST(GrpcAnswers, NobodyAsksWithoutATokenOrByAForeignName) {
  const test::Folder folder;
  const std::string tokens = folder.write("tokens", std::string(kToken) + "\n");
  ASSERT_EQ(::chmod(tokens.c_str(), 0600), 0);
  const RpcServed served({"--token-file", tokens});
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  RpcClient client(served);
  inference::ModelInferResponse response;
  const auto request = RpcClient::request(random_rows(1, 1));
  EXPECT_EQ(client.infer(request, response).error_code(), grpc::UNAUTHENTICATED);
  EXPECT_EQ(client.infer(request, response, "Bearer wrong-token-of-yours").error_code(),
            grpc::UNAUTHENTICATED);
  EXPECT_EQ(client.verdict_of(random_rows(3, 2), std::string("Bearer ") + kToken), "");
  RpcClient::Context health;
  RpcClient::be_patient(health);
  inference::ServerReadyResponse ready;
  EXPECT_TRUE(client.stub().ServerReady(&health, {}, &ready).ok());
  EXPECT_TRUE(ready.ready());
  grpc::ChannelArguments foreign;
  foreign.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "rebound.example");
  RpcClient rebound(served.target(), grpc::InsecureChannelCredentials(), foreign);
  EXPECT_EQ(rebound.infer(request, response, std::string("Bearer ") + kToken).error_code(),
            grpc::PERMISSION_DENIED);
}

TEST(GrpcAnswers, OverTlsTheSameIsAnsweredAlsoWithARenewedCertificate) {
  const test::Folder folder;
  make_certificate(folder, "localhost");
  RpcServed served({"--tls-certificate", folder.path("localhost.pem"), "--tls-key",
                    folder.path("localhost.key")});
  ASSERT_THAT(served.rpc_address(), HasSubstr("grpcs://")) << served.log();
  const auto ask = [&] {
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("localhost");
    RpcClient client(
        served.target(),
        grpc::SslCredentials({.pem_root_certs = test::read_file(folder.path("localhost.pem"))}),
        arguments);
    return client.verdict_of(random_rows(5, 3));
  };
  EXPECT_EQ(ask(), "");
  EXPECT_EQ(TlsClient(served.rpc_port()).name(), "localhost");
  EXPECT_FALSE(TlsClient(served.rpc_port(), TLS1_1_VERSION).connected());
  RpcClient plain(served);
  inference::ModelInferResponse response;
  // Its connection fails, which a patient one would try again.
  RpcClient::Context context;
  EXPECT_EQ(plain.stub()
                .ModelInfer(&context, RpcClient::request(random_rows(1, 1)), &response)
                .error_code(),
            grpc::UNAVAILABLE);
  make_certificate(folder, "renewed");
  std::filesystem::rename(folder.path("renewed.pem"), folder.path("localhost.pem"));
  std::filesystem::rename(folder.path("renewed.key"), folder.path("localhost.key"));
  served.process().signal(SIGHUP);
  EXPECT_TRUE(test::eventually([&] { return TlsClient(served.rpc_port()).name() == "renewed"; }));
}

TEST(GrpcAnswers, APortThatIsTakenEndsTheStartWithASentence) {
  const Listening taken;
  Served served({"--grpc-listen", "127.0.0.1:" + std::to_string(taken.port())}, {}, false);
  EXPECT_EQ(served.ending(), 1);
  EXPECT_THAT(served.log(), HasSubstr("for gRPC: Address already in use; --grpc-listen names"));
}

}  // namespace
}  // namespace neuron::serve_test
