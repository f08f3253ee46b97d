// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/server.h"

#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>

#include "tools/neuron-serve/connection.h"
#include "tools/neuron-serve/log.h"
#include "tools/neuron-serve/service_manager.h"

namespace neuron::serve {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr std::chrono::milliseconds kSweep{100};
constexpr std::chrono::milliseconds kAcceptPause{50};
// Turns that connections get before what they asked for is pushed.
constexpr int kTurns = 128;
constexpr int kBacklog = 1024;
// Connections beyond the limit that are told so; those beyond these are closed without a word.
constexpr size_t kRefusals = 64;

}  // namespace

struct Server::Network {
  asio::io_context loop{1};
  tcp::acceptor acceptor{loop};
  asio::signal_set signals{loop};
  asio::steady_timer sweeper{loop}, watchdog{loop}, accept_again{loop};
  std::chrono::microseconds watchdog_period{};
  std::vector<std::shared_ptr<Connection>> connections;
  bool stopped = false;
};

Server::Server(const Options& options,
               std::function<void(std::function<void(ReloadReport)>)> reload)
    : options_(options),
      reload_(std::move(reload)),
      network_(std::make_unique<Network>()),
      catalog_(std::make_shared<Catalog>()) {}

Server::~Server() = default;

bool Server::listen(int passed, std::string& error) {
  Error code;
  tcp::acceptor& acceptor = network_->acceptor;
  if (passed >= 0) {
    sockaddr_storage name = {};
    socklen_t size = sizeof(name);
    ::getsockname(passed, reinterpret_cast<sockaddr*>(&name), &size);
    if (name.ss_family != AF_INET && name.ss_family != AF_INET6) {
      error = "the socket that the service manager passed is none of TCP; use ListenStream=PORT";
      return false;
    }
    acceptor.assign(name.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), passed, code);
    if (code) error = "the socket that the service manager passed: " + code.message();
    return !code;
  }
  const std::string where = options_.address + ":" + std::to_string(options_.port);
  const auto address = asio::ip::make_address(options_.address, code);
  if (code) {
    error = "'" + options_.address + "' is no IP address; give one in --listen";
    return false;
  }
  const tcp::endpoint endpoint(address, options_.port);
  acceptor.open(endpoint.protocol(), code);
  if (!code) acceptor.set_option(tcp::acceptor::reuse_address(true), code);
  if (!code) acceptor.bind(endpoint, code);
  if (!code) acceptor.listen(kBacklog, code);
  if (code) error = "cannot listen at " + where + ": " + code.message();
  return !code;
}

std::string Server::address() const {
  Error code;
  const tcp::endpoint endpoint = network_->acceptor.local_endpoint(code);
  const std::string host = endpoint.address().to_string();
  return "http://" + (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(endpoint.port()) + "/";
}

size_t Server::open_connections() const { return network_->connections.size(); }

void Server::accept() {
  network_->acceptor.async_accept([this](Error error, tcp::socket socket) {
    if (draining_) return;
    if (error) {
      // Out of descriptors or the like: the next try comes when some may be free again.
      network_->accept_again.expires_after(kAcceptPause);
      network_->accept_again.async_wait([this](Error stopped) {
        if (!stopped && !draining_) accept();
      });
      return;
    }
    auto& connections = network_->connections;
    const bool full = connections.size() >= options_.max_connections;
    ++counters_.connections;
    if (full) ++counters_.refused;
    if (connections.size() < options_.max_connections + kRefusals) {
      auto connection = std::make_shared<Connection>(*this, std::move(socket));
      connection->index = connections.size();
      connections.push_back(connection);
      if (full) {
        connection->refuse();
      } else {
        connection->start();
      }
    }
    accept();
  });
}

void Server::forget(Connection& connection) {
  auto& connections = network_->connections;
  const size_t index = connection.index;
  if (index >= connections.size() || connections[index].get() != &connection) return;
  // The caller still runs in it.
  asio::post(network_->loop, [keep = std::move(connections[index])] {});
  if (index + 1 != connections.size()) {
    connections[index] = std::move(connections.back());
    connections[index]->index = index;
  }
  connections.pop_back();
  stop_if_drained();
}

void Server::submit(const std::shared_ptr<Model>& model, std::shared_ptr<Job> job) {
  for (auto& [known, jobs] : pending_) {
    if (known == model) {
      jobs.push_back(std::move(job));
      return;
    }
  }
  pending_.emplace_back(model, Jobs{}).second.push_back(std::move(job));
}

void Server::flush() {
  for (auto& [model, jobs] : pending_) {
    if (model->queue.push(jobs)) continue;
    for (const std::shared_ptr<Job>& job : jobs) {
      model->queue.withdraw(job->rows);
      job->outcome = Outcome::kUnavailable;
      job->detail = "the device was lost, or the model is not served any more";
      asio::post(network_->loop, [job] { job->finished(); });
    }
    jobs.clear();
  }
  // A model that nobody asks for any more is not kept from being freed.
  if (pending_.size() > 1) pending_.clear();
}

void Server::post(std::function<void()> work) { asio::post(network_->loop, std::move(work)); }

void Server::deliver(Jobs jobs) {
  asio::post(network_->loop, [jobs = std::move(jobs)] {
    for (const std::shared_ptr<Job>& job : jobs) job->finished();
  });
}

void Server::publish(std::shared_ptr<const Catalog> catalog) {
  asio::post(network_->loop, [this, catalog = std::move(catalog)]() mutable {
    catalog_ = std::move(catalog);
    const std::string what =
        catalog_->state == State::kReady
            ? std::to_string(catalog_->models.size()) + " models at " + address()
            : "the device was lost; waiting for it";
    sd_notify(0, ("STATUS=" + what).c_str());
  });
}

void Server::unready(const std::string& why) {
  asio::post(network_->loop, [this, why] {
    auto catalog = std::make_shared<Catalog>(*catalog_);
    catalog->state = State::kRecovering;
    catalog->detail = why;
    catalog_ = std::move(catalog);
  });
}

void Server::retire(std::vector<std::shared_ptr<Model>> models) {
  asio::post(network_->loop, [this, models = std::move(models)] {
    flush();
    pending_.clear();
    for (const std::shared_ptr<Model>& model : models) model->queue.close();
  });
}

void Server::drain() {
  if (draining_) return;
  draining_ = true;
  drain_end_ = Clock::now() + options_.drain_timeout;
  sd_notify(0, "STOPPING=1\nSTATUS=finishing what was asked");
  log("finishing " + std::to_string(open_connections()) + " connections");
  Error ignored;
  network_->acceptor.close(ignored);
  const auto connections = network_->connections;
  for (const auto& connection : connections) connection->drain();
  stop_if_drained();
}

void Server::stop_if_drained() {
  if (draining_ && network_->connections.empty()) network_->stopped = true;
}

void Server::sweep() {
  network_->sweeper.expires_after(kSweep);
  network_->sweeper.async_wait([this](Error error) {
    if (error) return;
    const auto now = Clock::now();
    const auto connections = network_->connections;
    for (const auto& connection : connections) {
      if (draining_) connection->drain();
      connection->check_deadline(now);
    }
    if (draining_ && now >= drain_end_ && !network_->stopped) {
      log(std::to_string(open_connections()) + " connections did not finish in time");
      network_->stopped = true;
    }
    sweep();
  });
}

void Server::tick_watchdog() {
  if (network_->watchdog_period.count() == 0) return;
  network_->watchdog.expires_after(network_->watchdog_period / 2);
  network_->watchdog.async_wait([this](Error error) {
    if (error) return;
    if (alive_()) sd_notify(0, "WATCHDOG=1");
    tick_watchdog();
  });
}

void Server::run(std::function<void()> hang_up, std::function<bool()> alive) {
  alive_ = std::move(alive);
  network_->watchdog_period = watchdog_period();
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) network_->signals.add(signal);
  std::function<void(Error, int)> on_signal = [&](Error error, int signal) {
    if (error) return;
    if (signal == SIGHUP) {
      hang_up();
    } else {
      drain();
    }
    network_->signals.async_wait(on_signal);
  };
  network_->signals.async_wait(on_signal);
  accept();
  sweep();
  tick_watchdog();
  while (!network_->stopped) {
    network_->loop.run_one_for(std::chrono::seconds(1));
    for (int turn = 0; turn < kTurns && network_->loop.poll_one() != 0; ++turn) continue;
    flush();
  }
  const auto connections = network_->connections;
  for (const auto& connection : connections) connection->close();
  network_->signals.cancel();
  network_->sweeper.cancel();
  network_->watchdog.cancel();
  network_->loop.poll();
}

}  // namespace neuron::serve
