// SPDX-License-Identifier: Apache-2.0
//
// The messages of KServe's protocol over gRPC: what is asked, and the bytes that answer it.
//
// Concepts: tensors come as typed numbers or as raw bytes, and the answer has the form of the
// request, but types that the protocol has no numbers for are always raw. Callers: any thread, one
// at a time for each form. Owns: what it remembers of the request for the answer. Fails: with a
// sentence that begins with the field.
#ifndef TOOLS_NEURON_SERVE_GRPC_RPC_FORM_H
#define TOOLS_NEURON_SERVE_GRPC_RPC_FORM_H

#include <memory>
#include <string>
#include <vector>

#include "tools/neuron-serve/message/job.h"
#include "tools/neuron-serve/message/model_spec.h"

namespace neuron::serve {

// A request for an inference.
class RpcForm {
 public:
  RpcForm();
  ~RpcForm();
  RpcForm(const RpcForm&) = delete;
  RpcForm& operator=(const RpcForm&) = delete;

  // Reads the message; then it is known which model is asked. False: these bytes are none.
  bool parse(const std::string& message);
  const std::string& model() const;
  const std::string& version() const;  // "": any
  // Behind parse(): fills rows and input of `job`. "": good.
  std::string read(const ModelSpec& model, Job& job);
  // Behind read(): the message that answers.
  std::string write(const ModelSpec& model, const Job& job) const;

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

// Name and version of a request that has no more.
struct RpcName {
  std::string name, version;
  bool parse(const std::string& message);
};

// Why a message did not come, where bodies may have so many bytes.
std::string rpc_no_message(size_t max_body);

// ServerLiveResponse, ServerReadyResponse and ModelReadyResponse, which look alike.
std::string rpc_truth(bool value);
std::string rpc_server_metadata(const std::string& name, const std::string& version);
std::string rpc_model_metadata(const ModelSpec& model, const std::vector<std::string>& versions);

}  // namespace neuron::serve

#endif
