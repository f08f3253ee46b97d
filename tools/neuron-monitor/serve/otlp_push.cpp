// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/serve/otlp_push.h"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdio>
#include <optional>

namespace neuron::monitor {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using namespace std::chrono_literals;

constexpr auto kExchange = 10s;  // for a connection, for a request, for its answer: each
constexpr auto kFirstPause = 1s, kLongestPause = 60s;
constexpr size_t kMostAnswer = 64 << 10;

class Push : public OtlpPush {
 public:
  Push(asio::io_context& context, Url url, std::function<std::string()> body,
       std::function<void(bool)> told)
      : url_(std::move(url)),
        body_(std::move(body)),
        told_(std::move(told)),
        resolver_(context),
        stream_(context),
        timer_(context) {}

  void notify() override {
    pending_ = true;
    if (!busy_) begin();
  }

 private:
  using Status = beast::error_code;

  void begin() {
    busy_ = true;
    pending_ = false;
    if (connected_) return send();
    // Resolving has no time limit of its own; the system's resolver has one.
    resolver_.async_resolve(url_.endpoint.host, std::to_string(url_.endpoint.port),
                            [this](Status error, const tcp::resolver::results_type& found) {
                              if (error) return fail("cannot resolve the host", error);
                              stream_.expires_after(kExchange);
                              stream_.async_connect(found,
                                                    [this](Status problem, const tcp::endpoint&) {
                                                      if (problem) {
                                                        return fail("cannot connect", problem);
                                                      }
                                                      connected_ = true;
                                                      fresh_ = true;
                                                      send();
                                                    });
                            });
  }

  void send() {
    request_ = {};
    request_.version(11);
    request_.method(http::verb::post);
    request_.target(url_.target);
    request_.set(http::field::host, url_.authority);
    request_.set(http::field::user_agent, "neuron-monitor");
    request_.set(http::field::content_type, "application/json");
    request_.body() = body_();
    request_.prepare_payload();
    stream_.expires_after(kExchange);
    http::async_write(stream_, request_, [this](Status error, size_t) {
      if (error) return broken("cannot send", error);
      buffer_.clear();
      parser_.emplace();
      parser_->body_limit(kMostAnswer);
      stream_.expires_after(kExchange);
      http::async_read(stream_, buffer_, *parser_, [this](Status problem, size_t) {
        if (problem) return broken("no answer", problem);
        receive();
      });
    });
  }

  // The collector may have closed a kept connection meanwhile: that is not a failure.
  void broken(const char* what, Status error) {
    const bool kept = !fresh_;
    close();
    if (!kept) return fail(what, error);
    begin();
  }

  void receive() {
    fresh_ = false;
    if (!parser_->get().keep_alive()) close();
    const unsigned status = parser_->get().result_int();
    if (status / 100 == 2) return done();
    const bool later = status == 429 || status == 502 || status == 503 || status == 504;
    const std::string sentence = "the collector answers " + std::to_string(status) + " " +
                                 std::string(parser_->get().reason()) +
                                 (later ? "" : ": these values are dropped");
    if (later) return retry(sentence);
    complain(sentence);
    pause(kLongestPause);
  }

  void done() {
    if (failing_) std::fprintf(stderr, "neuron-monitor: --otlp: metrics arrive again\n");
    failing_ = false;
    told_(true);
    next_pause_ = kFirstPause;
    busy_ = false;
    if (pending_) begin();
  }

  void fail(const char* what, Status error) {
    close();
    retry(std::string(what) + ": " + error.message());
  }

  void retry(const std::string& sentence) {
    complain(sentence + "; trying again, values between are left out");
    pending_ = true;
    pause(next_pause_);
    next_pause_ = std::min<std::chrono::seconds>(next_pause_ * 2, kLongestPause);
  }

  void complain(const std::string& sentence) {
    if (!failing_) {
      std::fprintf(stderr, "neuron-monitor: --otlp http://%s%s: %s\n", url_.authority.c_str(),
                   url_.target.c_str(), sentence.c_str());
    }
    failing_ = true;
    told_(false);
  }

  void pause(std::chrono::seconds time) {
    timer_.expires_after(time);
    timer_.async_wait([this](Status error) {
      if (error) return;
      busy_ = false;
      if (pending_) begin();
    });
  }

  void close() {
    connected_ = false;
    Status ignored;
    stream_.socket().close(ignored);
  }

  const Url url_;
  const std::function<std::string()> body_;
  const std::function<void(bool)> told_;
  tcp::resolver resolver_;
  beast::tcp_stream stream_;
  asio::steady_timer timer_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  std::optional<http::response_parser<http::string_body>> parser_;
  bool busy_ = false, pending_ = false, connected_ = false, failing_ = false;
  bool fresh_ = false;  // the connection has not carried an answer yet
  std::chrono::seconds next_pause_ = kFirstPause;
};

}  // namespace

std::unique_ptr<OtlpPush> OtlpPush::create(asio::io_context& context, Url url,
                                           std::function<std::string()> body,
                                           std::function<void(bool arrived)> told) {
  return std::make_unique<Push>(context, std::move(url), std::move(body), std::move(told));
}

}  // namespace neuron::monitor
