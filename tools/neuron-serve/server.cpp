// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/server.h"

#include <systemd/sd-daemon.h>

#include <csignal>

#include "runtime/base/file.h"
#include "tools/neuron-serve/connection.h"
#include "tools/neuron-serve/log.h"
#include "tools/neuron-serve/private_file.h"
#include "tools/neuron-serve/service_manager.h"

namespace neuron::serve {
namespace {

constexpr std::chrono::milliseconds kSweep{100};
// Turns that connections get before what they asked for is pushed.
constexpr int kTurns = 128;
// Connections beyond the limit that are told so; those beyond these are closed without a word.
constexpr size_t kRefusals = 64;

}  // namespace

Server::Server(const Options& options,
               std::function<void(std::function<void(ReloadReport)>)> reload)
    : options_(options),
      reload_(std::move(reload)),
      gate_(options.hosts),
      catalog_(std::make_shared<Catalog>()) {}

Server::~Server() = default;

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
            : "the device was lost; waiting for it";
    sd_notify(0, ("STATUS=" + what).c_str());
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
  sd_notify(0, "STOPPING=1\nSTATUS=finishing what was asked");
  log("finishing " + std::to_string(open_connections()) + " connections");
  network_.stop_accepting();
  const auto connections = connections_;
  for (const auto& connection : connections) connection->drain();
  stop_if_drained();
}

void Server::stop_if_drained() {
  if (draining_ && connections_.empty()) stopped_ = true;
}

void Server::sweep() {
  const auto now = Clock::now();
  const auto connections = connections_;
  for (const auto& connection : connections) {
    if (draining_) connection->drain();
    connection->check_deadline(now);
  }
  if (draining_ && now >= drain_end_ && !stopped_) {
    log(std::to_string(open_connections()) + " connections did not finish in time");
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
  network_.every(kSweep, [this] { sweep(); });
  if (const auto period = watchdog_period(); period.count() != 0) {
    network_.every(period / 2, [&] {
      if (alive()) sd_notify(0, "WATCHDOG=1");
    });
  }
  while (!stopped_) {
    network_.run(std::chrono::seconds(1), kTurns);
    flush();
    access_log_.flush();
  }
  const auto connections = connections_;
  for (const auto& connection : connections) connection->close();
  network_.end();
  access_log_.flush();
}

}  // namespace neuron::serve
