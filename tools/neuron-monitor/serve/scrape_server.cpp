// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/serve/scrape_server.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdlib>
#include <list>
#include <optional>

namespace neuron::monitor {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using namespace std::chrono_literals;

constexpr unsigned kMostConnections = 128;
constexpr auto kIdle = 60s;    // between requests of a connection
constexpr auto kAnswer = 10s;  // for sending the answer
constexpr size_t kMostHeader = 8192;

constexpr char kText[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kOpenMetrics[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";

// The quality that the client gives a type, in thousandths; 1000 if none is given. OpenMetrics is
// sent if its quality is above 0 and at least that of the text format.
int quality(std::string_view accept, std::string_view type) {
  size_t at = 0;
  while (at < accept.size()) {
    const size_t end = std::min(accept.find(',', at), accept.size());
    std::string_view entry = accept.substr(at, end - at);
    at = end + 1;
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    if (!beast::iequals(entry.substr(0, std::min(entry.find_first_of("; "), entry.size())), type)) {
      continue;
    }
    const size_t q = entry.find("q=");
    if (q == std::string_view::npos) return 1000;
    return static_cast<int>(1000 * std::atof(std::string(entry.substr(q + 2)).c_str()));
  }
  return -1;
}

bool wants_openmetrics(std::string_view accept) {
  const int openmetrics = quality(accept, "application/openmetrics-text");
  return openmetrics > 0 && openmetrics >= quality(accept, "text/plain");
}

class Connection;

struct Shared {
  Pages pages;
  unsigned connections = 0;
  std::list<Connection*> waiting;  // for a request; the one that waits longest is in front
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, std::shared_ptr<Shared> shared)
      : stream_(std::move(socket)), shared_(std::move(shared)) {
    ++shared_->connections;
  }
  ~Connection() {
    stop_waiting();
    --shared_->connections;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(kMostHeader);
    parser_->body_limit(0);
    place_ = shared_->waiting.insert(shared_->waiting.end(), this);
    // The whole header must arrive in time: a byte now and then does not extend it.
    stream_.expires_after(kIdle);
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->answer(error); });
  }

  // Closes the connection that has waited longest without a request.
  void evict() {
    stop_waiting();
    stream_.close();
  }

 private:
  using Response = http::response<http::string_body>;

  void stop_waiting() {
    if (place_) shared_->waiting.erase(*place_);
    place_.reset();
  }

  void answer(beast::error_code error) {
    stop_waiting();
    if (error == http::error::end_of_stream || error == beast::error::timeout) return close();
    response_ = Response();
    response_.version(11);
    response_.set(http::field::server, "neuron-monitor");
    response_.set(http::field::content_type, "text/plain; charset=utf-8");
    bool head = false;
    if (error == http::error::header_limit || error == http::error::buffer_overflow) {
      say(http::status::request_header_fields_too_large, "the request is longer than 8192 bytes\n");
    } else if (error == http::error::body_limit) {
      say(http::status::payload_too_large, "a request needs no body here\n");
    } else if (error &&
               error.category() == http::make_error_code(http::error::bad_method).category()) {
      say(http::status::bad_request, "this is no HTTP request: " + error.message() + "\n");
    } else if (error) {
      return close();
    } else {
      const auto& request = parser_->get();
      head = request.method() == http::verb::head;
      response_.version(request.version());
      if (head || request.method() == http::verb::get) {
        route(request);
      } else {
        response_.set(http::field::allow, "GET, HEAD");
        say(http::status::method_not_allowed, "expected GET or HEAD\n");
      }
    }
    response_.keep_alive(!error && parser_->get().keep_alive());
    response_.content_length(response_.body().size());
    if (head) response_.body().clear();
    send();
  }

  void say(http::status status, std::string sentence) {
    response_.result(status);
    response_.body() = std::move(sentence);
  }

  void route(const http::request<http::string_body>& request) {
    const std::string_view target(request.target().data(), request.target().size());
    const std::string_view path = target.substr(0, target.find('?'));
    if (path == "/metrics") {
      const auto accept = request[http::field::accept];
      const bool openmetrics = wants_openmetrics({accept.data(), accept.size()});
      const auto metrics = shared_->pages.metrics(openmetrics);
      if (metrics == nullptr) {
        // An error is better than metrics that show a host without devices.
        response_.set(http::field::retry_after, "1");
        return say(http::status::service_unavailable, "nothing has been measured yet\n");
      }
      response_.set(http::field::content_type, openmetrics ? kOpenMetrics : kText);
      response_.set(http::field::vary, "Accept");
      say(http::status::ok, *metrics);
    } else if (path == "/healthz") {
      const std::string trouble = shared_->pages.trouble();
      if (trouble.empty()) {
        say(http::status::ok, "ok\n");
      } else {
        say(http::status::service_unavailable, trouble + "\n");
      }
    } else if (path == "/") {
      say(http::status::ok, "neuron-monitor: /metrics, /healthz\n");
    } else {
      say(http::status::not_found, "there are /metrics and /healthz\n");
    }
  }

  void send() {
    stream_.expires_after(kAnswer);
    http::async_write(stream_, response_,
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        if (error || !self->response_.keep_alive()) return self->close();
                        self->read();
                      });
  }

  void close() {
    beast::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  beast::tcp_stream stream_;
  std::shared_ptr<Shared> shared_;
  beast::flat_buffer buffer_{kMostHeader + 1024};
  std::optional<http::request_parser<http::string_body>> parser_;
  Response response_;
  std::optional<std::list<Connection*>::iterator> place_;
};

class Server : public ScrapeServer {
 public:
  Server(asio::io_context& context, Pages pages)
      : acceptor_(context), pause_(context), shared_(std::make_shared<Shared>()) {
    shared_->pages = std::move(pages);
  }

  bool open(asio::io_context& context, const Endpoint& endpoint, std::string& error) {
    const std::string name =
        (endpoint.host.empty() ? "*" : endpoint.host) + ":" + std::to_string(endpoint.port);
    beast::error_code problem;
    // All addresses: of both families where the host has both.
    tcp::endpoint address(tcp::v6(), endpoint.port);
    if (!endpoint.host.empty()) {
      tcp::resolver resolver(context);
      const auto found = resolver.resolve(endpoint.host, std::to_string(endpoint.port),
                                          tcp::resolver::passive, problem);
      if (problem || found.empty()) {
        error = "cannot listen on " + name + ": " + problem.message();
        return false;
      }
      address = found.begin()->endpoint();
    }
    acceptor_.open(address.protocol(), problem);
    if (problem && endpoint.host.empty()) {
      address = tcp::endpoint(tcp::v4(), endpoint.port);
      acceptor_.open(address.protocol(), problem);
    }
    if (!problem && address.protocol() == tcp::v6() && endpoint.host.empty()) {
      acceptor_.set_option(asio::ip::v6_only(false), problem);
    }
    if (!problem) acceptor_.set_option(tcp::acceptor::reuse_address(true), problem);
    if (!problem) acceptor_.bind(address, problem);
    if (!problem) acceptor_.listen(asio::socket_base::max_listen_connections, problem);
    if (problem) {
      error = "cannot listen on " + name + ": " + problem.message() +
              (problem == asio::error::address_in_use
                   ? "; another program has the port: give another one"
                   : "");
      return false;
    }
    accept();
    return true;
  }

  unsigned short port() const override {
    beast::error_code ignored;
    return acceptor_.local_endpoint(ignored).port();
  }

 private:
  // A new client is refused only if all connections are busy; a silent one makes room.
  void welcome(tcp::socket socket) {
    if (shared_->connections >= kMostConnections && shared_->waiting.empty()) return;
    if (shared_->connections >= kMostConnections) shared_->waiting.front()->evict();
    std::make_shared<Connection>(std::move(socket), shared_)->read();
  }

  void accept() {
    acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (!error) welcome(std::move(socket));
      if (!error) return accept();
      // Out of descriptors or memory: some connection will end.
      pause_.expires_after(100ms);
      pause_.async_wait([this](beast::error_code ended) {
        if (!ended) accept();
      });
    });
  }

  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace

std::unique_ptr<ScrapeServer> ScrapeServer::listen(asio::io_context& context,
                                                   const Endpoint& endpoint, Pages pages,
                                                   std::string& error) {
  auto server = std::make_unique<Server>(context, std::move(pages));
  if (!server->open(context, endpoint, error)) return nullptr;
  return server;
}

}  // namespace neuron::monitor
