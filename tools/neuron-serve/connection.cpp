// SPDX-License-Identifier: Apache-2.0
//
// The life of a connection; what is answered to whom is in routes.cpp.
#include "tools/neuron-serve/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "tools/neuron-serve/server.h"

namespace neuron::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr std::chrono::seconds kLinger{1};
// Of the time that a client which does not wait after a refusal is left alone.
constexpr unsigned kDoublings = 2;
// Memory that a connection keeps between requests.
constexpr size_t kKept = 256 << 10;

}  // namespace

Connection::Connection(Server& server, Socket socket)
    : server_(server), socket_(std::move(socket)) {}

Connection::~Connection() = default;

void Connection::start() {
  Error ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  read_header();
}

void Connection::refuse() {
  keep_alive_ = false;
  unavailable("this server has as many connections as it takes; try again");
}

void Connection::read_header() {
  phase_ = Phase::kIdle;
  timed_out_ = false;
  head_ = false;
  deadline_ = Clock::now() + server_.options().idle_timeout;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(server_.options().max_header));
  parser_->body_limit(server_.options().max_body);
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](Error error, size_t) { self->on_header(error); });
}

void Connection::on_header(Error error) {
  if (error) return on_read_error(error);
  if (phase_ == Phase::kClosed) return;  // what had come was read, but the server has ended
  phase_ = Phase::kReading;
  deadline_ = Clock::now() + server_.options().client_timeout;
  if (parser_->is_done()) return on_body({});
  const auto expect = parser_->get().find(http::field::expect);
  if (expect == parser_->get().end()) return read_body();
  if (!boost::beast::iequals(expect->value(), "100-continue")) {
    keep_alive_ = false;
    return fail(417, "the only expectation that is met is 100-continue");
  }
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue),
                    [self = shared_from_this()](Error written, size_t) {
                      if (written) return self->on_read_error(written);
                      if (self->phase_ == Phase::kClosed) return;
                      self->read_body();
                    });
}

void Connection::read_body() {
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](Error error, size_t) { self->on_body(error); });
}

void Connection::on_body(Error error) {
  if (error) return on_read_error(error);
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kWaiting;
  keep_alive_ = parser_->get().keep_alive();
  head_ = parser_->get().method() == http::verb::head;
  handle();
}

void Connection::on_read_error(Error error) {
  keep_alive_ = false;
  if (phase_ == Phase::kClosed) return;
  if (timed_out_) {
    return fail(408,
                "the request did not arrive in time; it is read for as long as "
                "--client-timeout says");
  }
  if (error == http::error::body_limit) {
    return fail(413, "the body is larger than " + std::to_string(server_.options().max_body) +
                         " bytes; --max-body allows more");
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return fail(431, "the header is larger than " + std::to_string(server_.options().max_header) +
                         " bytes; --max-header allows more");
  }
  if (error == http::error::end_of_stream || error == http::error::partial_message ||
      error.category() != make_error_code(http::error::bad_method).category()) {
    return close();
  }
  fail(400, "this is no HTTP request: " + error.message());
}

void Connection::check_deadline(Clock::time_point now) {
  if (phase_ == Phase::kIdle && (buffer_.size() != 0 || parser_->got_some())) {
    phase_ = Phase::kReading;
    deadline_ = now + server_.options().client_timeout;
  }
  if (now < deadline_ || phase_ == Phase::kWaiting || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kReading) {
    timed_out_ = true;
    Error ignored;
    socket_.cancel(ignored);
  } else {
    close();
  }
}

void Connection::drain() {
  if (phase_ == Phase::kPausing) return close();
  if (phase_ == Phase::kIdle && buffer_.size() == 0 && !(parser_ && parser_->got_some())) close();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  if (pause_ != nullptr) pause_->cancel();
  Error ignored;
  socket_.close(ignored);
  server_.forget(*this);
}

void Connection::write() {
  phase_ = Phase::kWriting;
  deadline_ = Clock::now() + server_.options().client_timeout;
  asio::async_write(socket_, asio::buffer(out_),
                    [self = shared_from_this()](Error error, size_t) { self->on_written(error); });
}

void Connection::on_written(Error error) {
  if (phase_ == Phase::kClosed) return;
  if (error) return close();
  for (std::string* text : {&out_, &body_, &input, &output}) {
    if (text->capacity() > kKept) std::string().swap(*text);
  }
  if (!keep_alive_) return linger();
  if (std::exchange(refused_, false)) return pause();
  read_header();
}

// Whoever asks again at once although it was refused would take the time that the answers of
// others need: its next request is read later each time, from a budget on.
void Connection::pause() {
  phase_ = Phase::kPausing;
  if (pause_ == nullptr) {
    pause_ = std::make_unique<asio::steady_timer>(socket_.get_executor());
  }
  const auto time = server_.options().latency_budget * (1u << std::min(refusals_ - 1, kDoublings));
  deadline_ = Clock::now() + time + std::chrono::seconds(10);
  pause_->expires_after(time);
  pause_->async_wait([self = shared_from_this()](Error error) {
    if (!error && self->phase_ == Phase::kPausing) self->read_header();
  });
}

// Closing with unread bytes would reset the connection, and the client might not see its answer.
void Connection::linger() {
  phase_ = Phase::kLingering;
  deadline_ = Clock::now() + kLinger;
  Error error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error) return close();
  on_lingered({}, 0);
}

void Connection::on_lingered(Error error, size_t) {
  if (phase_ == Phase::kClosed) return;
  if (error) return close();
  buffer_.clear();
  socket_.async_read_some(
      buffer_.prepare(16 << 10),
      [self = shared_from_this()](Error read, size_t bytes) { self->on_lingered(read, bytes); });
}

}  // namespace neuron::serve
