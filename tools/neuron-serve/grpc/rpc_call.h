// SPDX-License-Identifier: Apache-2.0
//
// One call of a client over gRPC: a message that comes, and the answer that goes back.
//
// Concepts: the owner sees a call when its header has come, and then asks for the message, or ends
// the call without it. Callers: the network thread only, which the owner's functions run on. Owns:
// the message. Borrows: the owner, until leave(). Fails: the owner is told.
#ifndef TOOLS_NEURON_SERVE_GRPC_RPC_CALL_H
#define TOOLS_NEURON_SERVE_GRPC_RPC_CALL_H

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace neuron::serve {

// Bytes of the largest message that can come over gRPC, whatever --max-body allows.
inline constexpr size_t kMostRpcMessage = size_t{1} << 30;

class RpcCall {
 public:
  class Owner {
   public:
    // `good`: else it is larger than messages may be, or the client ended without one.
    virtual void message_came(bool good) = 0;
    // The client cancelled the call, or its connection is gone, before an answer was sent.
    virtual void peer_gone() = 0;
    // The answer is on its way; `good`: else the client is gone.
    virtual void answered(bool good) = 0;

   protected:
    ~Owner() = default;
  };

  virtual ~RpcCall() = default;

  virtual void attach(Owner& owner) = 0;
  // Asks for the message; once.
  virtual void read() = 0;
  // Ends the call, with a message or a status of gRPC that is not 0; once, one of them.
  virtual void answer(const std::string& message) = 0;
  virtual void fail(int code, const std::string& sentence) = 0;
  // The client gets no more than that the call is over.
  virtual void cancel() = 0;
  // The owner is told nothing any more.
  virtual void leave() = 0;

  virtual const std::string& method() const = 0;  // "/inference.GRPCInferenceService/ModelInfer"
  virtual const std::string& host() const = 0;    // as a client calls this server
  virtual std::string_view header(std::string_view name) const = 0;  // "": there is none
  virtual std::string& message() = 0;
  // When the client will not wait any more.
  virtual std::optional<std::chrono::steady_clock::time_point> deadline() const = 0;
  virtual const std::string& peer() const = 0;  // "127.0.0.1:41234"
};

// The status of gRPC for one of HTTP, so that both protocols refuse in the same words.
int rpc_code(int http_status);

}  // namespace neuron::serve

#endif
