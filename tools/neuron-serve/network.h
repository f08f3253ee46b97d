// SPDX-License-Identifier: Apache-2.0
//
// The loop of the network thread: listening sockets, TLS, timers and signals.
//
// Concepts: network.cpp is the only unit that knows Asio, Beast and OpenSSL, which take long to
// compile. Callers: the network thread; post() any. Owns: listening sockets and the TLS context,
// which connections that were accepted with it share. Fails: with a sentence for whoever starts the
// server.
#ifndef TOOLS_NEURON_SERVE_NETWORK_H
#define TOOLS_NEURON_SERVE_NETWORK_H

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "tools/neuron-serve/http_stream.h"

namespace neuron::serve {

class Network {
 public:
  Network();
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  bool listen(const std::string& host, uint16_t port, std::string& error);
  // A port whose connections somebody else reads and writes; see accept_sockets().
  bool listen_for_sockets(const std::string& host, uint16_t port, std::string& error);
  // A listening socket of the service manager.
  bool adopt(int socket, std::string& error);
  // A Unix socket that only this user may connect to. One that nobody listens on is replaced.
  bool listen_control(const std::string& path, std::string& error);
  // For connections that are accepted from now on; both in PEM.
  bool use_tls(const std::string& certificates, const std::string& key, std::string& error);
  std::string address() const;          // "http://127.0.0.1:8000/"
  std::string sockets_address() const;  // "127.0.0.1:8001" of listen_for_sockets()

  using Accepted = std::function<void(std::shared_ptr<HttpStream>)>;
  void accept(Accepted accepted);
  using Taken = std::function<void(base::FileDescriptor)>;
  void accept_sockets(Taken taken);
  void stop_accepting();

  void post(std::function<void()> work);
  void after(std::chrono::microseconds time, std::function<void()> work);
  // Until end().
  void every(std::chrono::microseconds period, std::function<void()> work);
  void on_signals(const std::vector<int>& signals, std::function<void(int)> told);
  // Waits for something to do, at most that long, and gives what there is up to `turns` turns.
  void run(std::chrono::milliseconds limit, int turns);
  void end();

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace neuron::serve

#endif
