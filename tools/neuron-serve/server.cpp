// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/server.h"

#include <csignal>

#include "runtime/base/file.h"
#include "tools/neuron-serve/connection.h"
#include "tools/neuron-serve/log.h"
#include "tools/neuron-serve/private_file.h"
#include "tools/neuron-serve/rpc.h"
#include "tools/neuron-serve/service_manager.h"

namespace neuron::serve {
namespace {

constexpr std::chrono::milliseconds kSweep{100};
// Turns that connections get before what they asked for is pushed.
constexpr int kTurns = 128;
// Connections beyond the limit that are told so; those beyond these are closed without a word.
constexpr size_t kRefusals = 64;

}  // namespace

Server::Server(const Options& options, ServiceManager& manager,
               std::function<void(std::function<void(ReloadReport)>)> reload)
    : options_(options),
      manager_(manager),
      reload_(std::move(reload)),
      gate_(options.hosts),
      catalog_(std::make_shared<Catalog>()) {
  if (options_.grpc_address.empty()) return;
  rpc_server_ = std::make_unique<RpcServer>(
      [this](std::function<void()> work) { network_.post(std::move(work)); },
      [this](std::shared_ptr<RpcCall> call) { welcome_call(std::move(call)); });
}

Server::~Server() {
  if (rpc_server_ != nullptr) rpc_server_->end();
}

bool Server::take_files(std::string& error) {
  if (!options_.token_file.empty()) {
    const auto text = read_private_file(options_.token_file, error);
    if (text && !gate_.set_tokens(*text, error)) error = options_.token_file + ": " + error;
    if (!error.empty()) return false;
  }
  if (!options_.tls_certificate.empty()) {
    const auto certificate = tools::read_file(options_.tls_certificate);
    if (!certificate) error = certificate.error().sentence;
    const auto key =
        certificate ? read_private_file(options_.tls_key, error) : std::optional<std::string>();
    if (!key || !network_.use_tls({certificate->begin(), certificate->end()}, *key, error)) {
      return false;
    }
    if (rpc_server_ != nullptr) {
      rpc_server_->use_tls({certificate->begin(), certificate->end()}, *key);
    }
  }
  return options_.access_log.empty() || access_log_.open(options_.access_log, error);
}

bool Server::listen(int passed, std::string& error) {
  if (passed >= 0 ? !network_.adopt(passed, error)
                  : !network_.listen(options_.address, options_.port, error)) {
    return false;
  }
  return options_.control.empty() || network_.listen_control(options_.control, error);
}

bool Server::listen_rpc(std::string& error) {
  using std::chrono::duration_cast, std::chrono::milliseconds;
  if (rpc_server_ == nullptr) return true;
  // As with HTTP, some beyond the limit are told so.
  const size_t most = options_.max_connections + kRefusals;
  return network_.listen_for_sockets(options_.grpc_address, options_.grpc_port, error) &&
         rpc_server_->start({.connections = most,
                             .calls = most,
                             .message = options_.max_body,
                             .header = options_.max_header,
                             .memory = options_.max_held,
                             .handshake = duration_cast<milliseconds>(options_.client_timeout),
                             .idle = duration_cast<milliseconds>(options_.idle_timeout)},
                            error);
}

std::string Server::rpc_address() const {
  if (rpc_server_ == nullptr) return "";
  return (options_.tls_certificate.empty() ? "grpc://" : "grpcs://") + network_.sockets_address();
}

void Server::welcome_call(std::shared_ptr<RpcCall> call) {
  const bool full = draining_ || rpcs_.size() >= options_.max_connections;
  if (full && !draining_) ++counters_.refused;
  // What is refused is there, too, until its client has read that.
  if (rpcs_.size() >= options_.max_connections + kRefusals) return call->cancel();
  auto rpc = std::make_shared<Rpc>(*this, std::move(call));
  rpc->index = rpcs_.size();
  rpcs_.push_back(rpc);
  if (full) {
    rpc->refuse();
  } else {
    rpc->start();
  }
}

void Server::wait_for_room(const std::shared_ptr<Rpc>& rpc) {
  without_room_.push_back(rpc);
  give_room();
}

void Server::give_room() {
  // bounded: each turn takes one out
  while (!without_room_.empty()) {
    const auto rpc = without_room_.front().lock();
    if (rpc != nullptr && !rpc->take_room()) return;
    without_room_.pop_front();
  }
}

void Server::forget(Rpc& rpc) {
  const size_t index = rpc.index;
  if (index >= rpcs_.size() || rpcs_[index].get() != &rpc) return;
  // The caller still runs in it.
  network_.post([keep = std::move(rpcs_[index])] {});
  if (index + 1 != rpcs_.size()) {
    rpcs_[index] = std::move(rpcs_.back());
    rpcs_[index]->index = index;
  }
  rpcs_.pop_back();
  stop_if_drained();
}

void Server::welcome(std::shared_ptr<HttpStream> stream) {
  const bool full = connections_.size() >= options_.max_connections;
  ++counters_.connections;
  if (full) ++counters_.refused;
  if (connections_.size() >= options_.max_connections + kRefusals) return;
  auto connection = std::make_shared<Connection>(*this, std::move(stream));
  connection->index = connections_.size();
  connections_.push_back(connection);
  if (full) {
    connection->refuse();
  } else {
    connection->start();
  }
}

std::optional<NoRoom> Server::take_room(size_t& held, size_t bytes) {
  if (bytes > options_.max_held) {
    return NoRoom{413, "this request and its answer take " + std::to_string(bytes) +
                           " bytes of memory; --max-held allows " +
                           std::to_string(options_.max_held) + " for all of them"};
  }
  if (bytes > held && bytes - held > options_.max_held - std::min(options_.max_held, held_)) {
    return NoRoom{503, "the requests of others take all the memory that there is for them"};
  }
  this->held(std::exchange(held, bytes), bytes);
  return std::nullopt;
}

void Server::forget(Connection& connection) {
  const size_t index = connection.index;
  if (index >= connections_.size() || connections_[index].get() != &connection) return;
  // The caller still runs in it.
  network_.post([keep = std::move(connections_[index])] {});
  if (index + 1 != connections_.size()) {
    connections_[index] = std::move(connections_.back());
    connections_[index]->index = index;
  }
  connections_.pop_back();
  stop_if_drained();
}

void Server::in_background(std::function<void()> work, std::function<void()> done) {
  background_.run([this, work = std::move(work), done = std::move(done)] {
    work();
    network_.post(done);
  });
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

void Server::withdraw(const std::shared_ptr<Model>& model, const Job& job) {
  ++counters_.withdrawn;
  for (auto& [known, jobs] : pending_) {
    const auto found = std::find_if(jobs.begin(), jobs.end(),
                                    [&](const auto& waiting) { return waiting.get() == &job; });
    if (known != model || found == jobs.end()) continue;
    model->queue.withdraw(job.rows);
    jobs.erase(found);
    return;
  }
  if (!model->queue.cancel(job)) --counters_.withdrawn;
}

void Server::flush() {
  for (auto& [model, jobs] : pending_) {
    if (model->queue.push(jobs)) continue;
    for (const std::shared_ptr<Job>& job : jobs) {
      model->queue.withdraw(job->rows);
      job->outcome = Outcome::kUnavailable;
      job->detail = "the device was lost, or the model is not served any more";
      network_.post([job] { job->finished(); });
    }
    jobs.clear();
  }
  // A model that nobody asks for any more is not kept from being freed.
  if (pending_.size() > 1) pending_.clear();
}

void Server::post(std::function<void()> work) { network_.post(std::move(work)); }

void Server::deliver(Jobs jobs) {
  network_.post([jobs = std::move(jobs)] {
    for (const std::shared_ptr<Job>& job : jobs) job->finished();
  });
}

void Server::publish(std::shared_ptr<const Catalog> catalog) {
  network_.post([this, catalog = std::move(catalog)]() mutable {
    catalog_ = std::move(catalog);
    const std::string what =
        catalog_->state == State::kReady
            ? std::to_string(catalog_->models.size()) + " models at " + address()
            : catalog_->reason();
    manager_.status(what);
  });
}

void Server::unready(const std::string& why) {
  network_.post([this, why] {
    auto catalog = std::make_shared<Catalog>(*catalog_);
    catalog->state = State::kRecovering;
    catalog->detail = why;
    catalog_ = std::move(catalog);
  });
}

void Server::retire(std::vector<std::shared_ptr<Model>> models) {
  network_.post([this, models = std::move(models)] {
    flush();
    pending_.clear();
    for (const std::shared_ptr<Model>& model : models) model->queue.close();
  });
}

void Server::drain() {
  if (draining_) return;
  draining_ = true;
  drain_end_ = Clock::now() + options_.drain_timeout;
  manager_.stopping();
  manager_.status("finishing what was asked");
  if (const size_t open = open_connections() + open_calls(); open != 0) {
    log("finishing " + std::to_string(open) + (open == 1 ? " connection" : " connections"));
  }
  network_.stop_accepting();
  const auto connections = connections_;
  for (const auto& connection : connections) connection->drain();
  stop_if_drained();
}

void Server::stop_if_drained() {
  if (draining_ && connections_.empty() && rpcs_.empty()) stopped_ = true;
}

void Server::sweep() {
  const auto now = Clock::now();
  manager_.retry();
  const auto connections = connections_;
  for (const auto& connection : connections) {
    if (draining_) connection->drain();
    connection->check_deadline(now);
  }
  const auto rpcs = rpcs_;
  for (const auto& rpc : rpcs) rpc->check_deadline(now);
  if (rpc_server_ != nullptr) rpc_server_->count();
  if (draining_ && now >= drain_end_ && !stopped_) {
    log(std::to_string(open_connections() + open_calls()) + " connections did not finish in time");
    stopped_ = true;
  }
}

void Server::run(std::function<void()> hang_up, std::function<bool()> alive) {
  network_.on_signals({SIGTERM, SIGINT, SIGHUP}, [&](int signal) {
    if (signal == SIGHUP) {
      hang_up();
    } else {
      drain();
    }
  });
  network_.accept([this](auto stream) { welcome(std::move(stream)); });
  if (rpc_server_ != nullptr) {
    network_.accept_sockets([this](auto socket) { rpc_server_->take(std::move(socket)); });
  }
  network_.every(kSweep, [this] { sweep(); });
  if (const auto period = watchdog_period(); period.count() != 0) {
    network_.every(period / 2, [&] {
      if (alive()) manager_.alive();
    });
  }
  while (!stopped_) {
    network_.run(std::chrono::seconds(1), kTurns);
    give_room();
    flush();
    access_log_.flush();
  }
  const auto connections = connections_;
  for (const auto& connection : connections) connection->close();
  const auto rpcs = rpcs_;
  for (const auto& rpc : rpcs) rpc->close();
  if (rpc_server_ != nullptr) rpc_server_->end();
  network_.end();
  access_log_.flush();
}

}  // namespace neuron::serve
