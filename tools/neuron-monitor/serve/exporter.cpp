// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/serve/exporter.h"

#include <signal.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "tools/neuron-monitor/serve/otlp_push.h"
#include "tools/neuron-monitor/serve/scrape_server.h"

namespace neuron::monitor {
namespace {

namespace asio = boost::asio;

class NetworkExporter : public Exporter {
 public:
  NetworkExporter(const ExporterOptions& options, const MetricFamilies& board)
      : board_(board), longest_silence_(options.longest_silence) {}

  ~NetworkExporter() override {
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

  bool open(const ExporterOptions& options, std::string& error) {
    if (!options.prometheus.empty()) {
      const auto endpoint = parse_endpoint(options.prometheus, error);
      if (!endpoint) return error.insert(0, "--prometheus: "), false;
      Pages pages{[this](bool openmetrics) { return page(openmetrics); },
                  [this] { return trouble(); }};
      server_ = ScrapeServer::listen(context_, *endpoint, std::move(pages), error);
      if (!server_) return error.insert(0, "--prometheus: "), false;
      port_ = server_->port();
    }
    if (!options.otlp.empty()) {
      auto url = parse_url(options.otlp, error);
      if (!url) return error.insert(0, "--otlp: "), false;
      push_ = OtlpPush::create(
          context_, std::move(*url), [this] { return format_otlp(board_.exposition()); },
          [this](bool arrived) {
            const std::lock_guard guard(mutex_);
            arrived_ = arrived;
            attempt_ended_.notify_all();
          });
    }
    changed_ = std::chrono::steady_clock::now();
    // Signals are for the thread that measures.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { context_.run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return true;
  }

  void notify() override {
    {
      const std::lock_guard guard(mutex_);
      arrived_.reset();
    }
    asio::post(context_, [this] {
      changed_ = std::chrono::steady_clock::now();
      if (push_) push_->notify();
    });
  }

  bool pushed(std::chrono::milliseconds patience) override {
    if (!push_) return true;
    std::unique_lock guard(mutex_);
    return attempt_ended_.wait_for(guard, patience, [this] { return arrived_.has_value(); }) &&
           *arrived_;
  }

  unsigned short port() const override { return port_; }

 private:
  // Many scrapes between two reports get the same text.
  std::shared_ptr<const std::string> page(bool openmetrics) {
    Page& kept = pages_[openmetrics];
    const uint64_t version = board_.version();
    if (version == 0) return nullptr;
    if (!kept.text || kept.version != version) {
      kept.version = version;
      kept.text =
          std::make_shared<const std::string>(format_prometheus(board_.exposition(), openmetrics));
    }
    return kept.text;
  }

  std::string trouble() const {
    const auto silence = std::chrono::steady_clock::now() - changed_;
    if (silence <= longest_silence_) return "";
    return "nothing was measured for " +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(silence).count()) +
           " s: a device does not answer, or the host is overloaded";
  }

  struct Page {
    uint64_t version = 0;
    std::shared_ptr<const std::string> text;
  };

  const MetricFamilies& board_;
  const std::chrono::milliseconds longest_silence_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  std::unique_ptr<ScrapeServer> server_;
  std::unique_ptr<OtlpPush> push_;
  unsigned short port_ = 0;
  std::mutex mutex_;
  std::condition_variable attempt_ended_;
  std::optional<bool> arrived_;  // of the first push since the last notify()
  // Only on the thread, once it runs.
  Page pages_[2];
  std::chrono::steady_clock::time_point changed_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Exporter> Exporter::start(const ExporterOptions& options,
                                          const MetricFamilies& board, std::string& error) {
  auto exporter = std::make_unique<NetworkExporter>(options, board);
  if (!exporter->open(options, error)) return nullptr;
  return exporter;
}

}  // namespace neuron::monitor
