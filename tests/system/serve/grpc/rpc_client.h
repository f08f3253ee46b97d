// SPDX-License-Identifier: Apache-2.0
// Clients of gRPC: one with the stub that protoc writes, and one that sends bytes.
// One thread each. Nothing waits longer than Client::kPatience.
#ifndef TESTS_SYSTEM_SERVE_GRPC_RPC_CLIENT_H
#define TESTS_SYSTEM_SERVE_GRPC_RPC_CLIENT_H

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/system/serve/grpc/frames.h"
#include "tests/system/serve/served.h"
#include "tools/neuron-serve/grpc/inference.grpc.pb.h"

namespace neuron::serve_test {

// A server that listens for gRPC as well.
class RpcServed : public Served {
 public:
  explicit RpcServed(test::Words arguments = {}) : Served(with_port(std::move(arguments))) {
    rpc_address_ = process().line();
    rpc_port_ =
        static_cast<uint16_t>(std::stoi("0" + rpc_address_.substr(rpc_address_.rfind(':') + 1)));
  }
  uint16_t rpc_port() const { return rpc_port_; }
  const std::string& rpc_address() const { return rpc_address_; }
  std::string target() const { return "127.0.0.1:" + std::to_string(rpc_port_); }

 private:
  static test::Words with_port(test::Words arguments) {
    arguments.insert(arguments.end(), {"--grpc-listen", "127.0.0.1:0"});
    return arguments;
  }

  std::string rpc_address_;
  uint16_t rpc_port_ = 0;
};

class RpcClient {
 public:
  using Context = grpc::ClientContext;

  // Each client has a connection of its own.
  explicit RpcClient(const std::string& target,
                     const std::shared_ptr<grpc::ChannelCredentials>& credentials =
                         grpc::InsecureChannelCredentials(),
                     grpc::ChannelArguments arguments = {}) {
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
    stub_ = inference::GRPCInferenceService::NewStub(
        grpc::CreateCustomChannel(target, credentials, arguments));
  }
  explicit RpcClient(const RpcServed& served) : RpcClient(served.target()) {}

  inference::GRPCInferenceService::Stub& stub() { return *stub_; }

  // What a context has besides: a token, a deadline.
  static void be_patient(Context& context) {
    // gRPC 1.51 reads errno after connect() when it may have another call's value, and then takes a
    // connection in progress for one that failed ("No such file or directory").
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + Client::kPatience);
  }

  static inference::ModelInferRequest request(const std::vector<Row>& rows, bool raw = true) {
    inference::ModelInferRequest request;
    request.set_model_name("digits");
    auto& input = *request.add_inputs();
    input.set_name("x");
    input.set_datatype("FP32");
    input.add_shape(static_cast<int64_t>(rows.size()));
    input.add_shape(64);
    if (raw) {
      request.add_raw_input_contents(binary(rows));
    } else {
      for (const Row& row : rows) {
        for (const float pixel : row) input.mutable_contents()->add_fp32_contents(pixel);
      }
    }
    return request;
  }

  grpc::Status infer(const inference::ModelInferRequest& request,
                     inference::ModelInferResponse& response,
                     const std::string& authorization = "") {
    Context context;
    be_patient(context);
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    return stub_->ModelInfer(&context, request, &response);
  }

  // Rows as raw bytes, compared with libnrt's own answer; "" if it is the same to the bit.
  std::string verdict_of(const std::vector<Row>& rows, const std::string& authorization = "") {
    inference::ModelInferResponse response;
    const grpc::Status status = infer(request(rows), response, authorization);
    Answer answer;
    answer.status = status.ok() ? 200 : 0;
    answer.body = status.error_message();
    if (status.ok() && response.raw_output_contents_size() == 1) {
      answer.body = response.raw_output_contents(0);
    }
    return verdict(answer, Truth::get().of(rows));
  }

 private:
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

// Bytes from a raw client until they contain `wanted` or the connection ends.
inline std::string receive_until(Client& client, const std::string& wanted) {
  std::string read;
  const auto end = std::chrono::steady_clock::now() + Client::kPatience;
  while (read.find(wanted) == read.npos && std::chrono::steady_clock::now() < end) {
    pollfd one = {client.descriptor(), POLLIN, 0};
    if (::poll(&one, 1, 1000) <= 0) continue;
    char piece[16384];
    const ssize_t length = ::recv(client.descriptor(), piece, sizeof(piece), 0);
    if (length <= 0) break;
    read.append(piece, static_cast<size_t>(length));
  }
  return read;
}

}  // namespace neuron::serve_test

#endif
