// SPDX-License-Identifier: Apache-2.0
//
// The serving side of gRPC: connections, TLS, and calls as bytes.
//
// Concepts: rpc_server.cpp is the only unit that knows grpc++, which takes long to compile. Threads
// of gRPC move bytes; everything else happens on the network thread, to which `post` brings it.
// Messages that clients compressed are refused, so that a small one cannot become a large one.
// Connections are accepted by the caller: gRPC itself takes as many as come, and its port is deaf
// for ever once it has had no descriptor left for one.
// Callers: the network thread; start() and use_tls() also before it runs. Owns: the connections and
// one thread. Fails: start() with a sentence.
#ifndef TOOLS_NEURON_SERVE_GRPC_RPC_SERVER_H
#define TOOLS_NEURON_SERVE_GRPC_RPC_SERVER_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "driver/base/file_descriptor.h"
#include "tools/neuron-serve/grpc/rpc_call.h"

namespace neuron::serve {

class RpcServer {
 public:
  struct Limits {
    size_t connections = 0;
    size_t calls = 0;    // of one connection
    size_t message = 0;  // bytes
    size_t header = 0;
    size_t memory = 0;  // bytes that gRPC itself may hold
    std::chrono::milliseconds handshake{0};
    std::chrono::milliseconds idle{0};  // how long a connection may stay without a call
  };
  using Post = std::function<void(std::function<void()>)>;
  using Accepted = std::function<void(std::shared_ptr<RpcCall>)>;

  RpcServer(Post post, Accepted accepted);
  ~RpcServer();
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  // For connections from now on; both in PEM, and known to fit. The first time before start().
  void use_tls(const std::string& certificates, const std::string& key);
  // Calls are given to `accepted` from then on.
  bool start(const Limits& limits, std::string& error);
  // A connection that was accepted. It is closed at once if there are too many.
  void take(base::FileDescriptor socket);
  // Finds out which connections have ended; called ten times a second.
  void count();
  size_t connections() const;
  // Cancels the calls that there are. Nothing may be asked of a call afterwards but leave().
  void end();

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace neuron::serve

#endif
