// SPDX-License-Identifier: Apache-2.0
//
// The network side: accepts connections, hands jobs to the models' queues and answers to their
// connections, ends by draining.
// One thread runs all of it (run()); other threads only post(). Requests that arrive together are
// pushed together: run() gives its connections a turn each before it touches a queue.
// Bytes that are held for requests and answers are counted, and a body that would be too much is
// refused before any of it is read.
// Owns: the network and the list of connections. Borrows: the host, which outlives it.
// Fails: listen() with a sentence; later failures end single connections.
#ifndef TOOLS_NEURON_SERVE_SERVER_H
#define TOOLS_NEURON_SERVE_SERVER_H

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/neuron-serve/access_log.h"
#include "tools/neuron-serve/background.h"
#include "tools/neuron-serve/gate.h"
#include "tools/neuron-serve/grpc/rpc_server.h"
#include "tools/neuron-serve/model_host.h"
#include "tools/neuron-serve/network.h"
#include "tools/neuron-serve/options.h"
#include "tools/neuron-serve/service_manager.h"

namespace neuron::serve {

class Connection;
class Rpc;

// Requests by what became of them, for /metrics; of the network thread.
struct ServerCounters {
  std::map<int, uint64_t> answers;  // by HTTP status
  std::map<int, uint64_t> calls;    // over gRPC, by its status
  uint64_t connections = 0;         // accepted, ever
  uint64_t refused = 0;             // beyond --max-connections
  uint64_t inferences = 0;          // answered with 200
  uint64_t withdrawn = 0;           // from a queue, because the client had gone
};

// Why a request cannot be held: others are, or it is larger than all that may be.
struct NoRoom {
  int status = 503;
  std::string sentence;
  std::string_view headers() const { return status == 503 ? "Retry-After: 1\r\n" : ""; }
};

class Server {
 public:
  // The manager outlives the server, and is told on the network thread.
  Server(const Options& options, ServiceManager& manager,
         std::function<void(std::function<void(ReloadReport)>)> reload);
  ~Server();

  // `passed`: a listening socket of the service manager, or -1. False: `error` has a sentence.
  bool listen(int passed, std::string& error);
  std::string address() const { return network_.address(); }
  // The port of gRPC, if the options want one. Starts threads. False: `error` has a sentence.
  bool listen_rpc(std::string& error);
  std::string rpc_address() const;  // "": there is none
  // Reads tokens, key and certificate, and opens the access log: at the start, and as often as one
  // of them may have changed. False: `error` has a sentence, and what was there before stays.
  bool take_files(std::string& error);

  // Until drained: SIGTERM and SIGINT drain, SIGHUP calls hang_up. `alive` is asked for the
  // service manager's watchdog.
  void run(std::function<void()> hang_up, std::function<bool()> alive);

  // From any thread.
  void post(std::function<void()> work);
  void deliver(Jobs jobs);
  void publish(std::shared_ptr<const Catalog> catalog);
  void unready(const std::string& why);
  void retire(std::vector<std::shared_ptr<Model>> models);
  void drain();

  // For connections, on the network thread.
  const Options& options() const { return options_; }
  const Catalog& catalog() const { return *catalog_; }
  bool draining() const { return draining_; }
  ServerCounters& counters() { return counters_; }
  size_t open_connections() const { return connections_.size(); }
  const Gate& gate() const { return gate_; }
  AccessLog& access_log() { return access_log_; }
  // Takes room for `bytes` in all for a request and its answer, which has `held` of it; why not.
  std::optional<NoRoom> take_room(size_t& held, size_t bytes);
  void held(size_t before, size_t now) { held_ += now - before; }
  void after(std::chrono::microseconds time, std::function<void()> work) {
    network_.after(time, std::move(work));
  }
  // Does `work` on another thread, then `done` on this one.
  void in_background(std::function<void()> work, std::function<void()> done);
  void submit(const std::shared_ptr<Model>& model, std::shared_ptr<Job> job);
  // Takes back what was submitted, unless it is being computed.
  void withdraw(const std::shared_ptr<Model>& model, const Job& job);
  // The connection's own strand of thought ends; it is forgotten.
  void forget(Connection& connection);
  void forget(Rpc& rpc);
  // Has the call read its message as soon as there is room for it, in the order of calls.
  void wait_for_room(const std::shared_ptr<Rpc>& rpc);
  size_t open_calls() const { return rpcs_.size(); }
  void reload(std::function<void(ReloadReport)> done) { reload_(std::move(done)); }
  std::string metrics_text() const;
  std::string status_json() const;

 private:
  void welcome(std::shared_ptr<HttpStream> stream);
  void welcome_call(std::shared_ptr<RpcCall> call);
  void give_room();
  void sweep();
  void flush();
  void stop_if_drained();

  const Options options_;
  ServiceManager& manager_;
  const std::function<void(std::function<void(ReloadReport)>)> reload_;
  ServerCounters counters_;
  Gate gate_;
  AccessLog access_log_;
  size_t held_ = 0;  // bytes of bodies, inputs and answers, of all connections
  bool draining_ = false, stopped_ = false;
  Clock::time_point drain_end_;
  std::unique_ptr<RpcServer> rpc_server_;
  Network network_;
  // Behind the network: jobs are connections, whose sockets must go before the loop does.
  std::vector<std::shared_ptr<Connection>> connections_;
  std::vector<std::shared_ptr<Rpc>> rpcs_;
  std::deque<std::weak_ptr<Rpc>> without_room_;  // of these, that wait for it
  std::shared_ptr<const Catalog> catalog_;
  // Jobs of this turn of the loop, by model.
  std::vector<std::pair<std::shared_ptr<Model>, Jobs>> pending_;
  Background background_;
};

}  // namespace neuron::serve

#endif
