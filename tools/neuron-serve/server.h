// SPDX-License-Identifier: Apache-2.0
//
// The network side: accepts connections, hands jobs to the models' queues and answers to their
// connections, ends by draining.
// One thread runs all of it (run()); other threads only post(). Requests that arrive together are
// pushed together: run() gives its connections a turn each before it touches a queue.
// Owns: the listening socket and the list of connections. Borrows: the host, which outlives it.
// Fails: listen() with a sentence; later failures end single connections.
#ifndef TOOLS_NEURON_SERVE_SERVER_H
#define TOOLS_NEURON_SERVE_SERVER_H

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/neuron-serve/model_host.h"
#include "tools/neuron-serve/options.h"

namespace neuron::serve {

class Connection;

// Requests by what became of them, for /metrics; of the network thread.
struct ServerCounters {
  std::map<int, uint64_t> answers;  // by HTTP status
  uint64_t connections = 0;         // accepted, ever
  uint64_t refused = 0;             // beyond --max-connections
  uint64_t inferences = 0;          // answered with 200
};

class Server {
 public:
  Server(const Options& options, std::function<void(std::function<void(ReloadReport)>)> reload);
  ~Server();

  // `passed`: a listening socket of the service manager, or -1. False: `error` has a sentence.
  bool listen(int passed, std::string& error);
  std::string address() const;

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
  size_t open_connections() const;
  void submit(const std::shared_ptr<Model>& model, std::shared_ptr<Job> job);
  // The connection's own strand of thought ends; it is forgotten.
  void forget(Connection& connection);
  void reload(std::function<void(ReloadReport)> done) { reload_(std::move(done)); }
  std::string metrics_text() const;
  std::string status_json() const;

 private:
  struct Network;  // asio's objects, kept out of this header

  void accept();
  void sweep();
  void tick_watchdog();
  void flush();
  void stop_if_drained();

  const Options options_;
  const std::function<void(std::function<void(ReloadReport)>)> reload_;
  std::function<bool()> alive_;
  ServerCounters counters_;
  bool draining_ = false;
  Clock::time_point drain_end_;
  std::unique_ptr<Network> network_;
  // Behind the network: jobs are connections, whose sockets must go before the loop does.
  std::shared_ptr<const Catalog> catalog_;
  // Jobs of this turn of the loop, by model.
  std::vector<std::pair<std::shared_ptr<Model>, Jobs>> pending_;
};

}  // namespace neuron::serve

#endif
