// SPDX-License-Identifier: Apache-2.0
//
// The life of a connection; what is answered to whom is in routes.cpp.
#include "tools/neuron-serve/connection.h"

#include <algorithm>
#include <utility>

#include "tools/neuron-serve/server.h"
#include "tools/neuron-serve/word.h"

namespace neuron::serve {
namespace {

constexpr std::chrono::seconds kLinger{1};
// Of the time that a client which does not wait after a refusal is left alone.
constexpr unsigned kDoublings = 2;
// Memory that a connection keeps between requests, of each kind.
constexpr size_t kKept = 16 << 10;

}  // namespace

Connection::Connection(Server& server, std::shared_ptr<HttpStream> stream)
    : server_(server), stream_(std::move(stream)) {}

Connection::~Connection() { stream_->close(); }

void Connection::start() {
  // A handshake may take as long as a request.
  phase_ = stream_->ready() ? Phase::kIdle : Phase::kReading;
  deadline_ = Clock::now() + (phase_ == Phase::kIdle ? server_.options().idle_timeout
                                                     : server_.options().client_timeout);
  stream_->start(*this, server_.options().max_header, server_.options().max_body);
}

void Connection::refuse() {
  asked_ = Clock::now();
  keep_alive_ = false;
  // Nobody shakes hands to be refused.
  if (!stream_->ready()) return close();
  stream_->hold_back(*this);
  unavailable("this server has as many connections as it takes; try again");
}

void Connection::read_header() {
  phase_ = Phase::kIdle;
  head_ = false;
  has_request_ = false;
  deadline_ = Clock::now() + server_.options().idle_timeout;
  stream_->next_header();
}

void Connection::header_came() {
  phase_ = Phase::kReading;
  has_request_ = true;
  asked_ = Clock::now();
  deadline_ = asked_ + server_.options().client_timeout;
  keep_alive_ = stream_->keep_alive();
  head_ = stream_->method() == "HEAD";
  // Until the body has been read, what follows the header is none of the next request.
  const bool kept = std::exchange(keep_alive_, keep_alive_ && !stream_->has_body());
  if (!may_enter()) return;
  const std::string_view expect = stream_->header("Expect");
  const bool expected = same_word(expect, "100-continue");
  if (!expect.empty() && !expected) {
    return fail(417, "the only expectation that is met is 100-continue");
  }
  if (!hold(stream_->length().value_or(0))) {
    return unavailable("the bodies of other requests take all the memory that there is for them");
  }
  keep_alive_ = kept;
  stream_->read_body(expected);
}

bool Connection::body_grows(size_t bytes) {
  // In steps, so that not every piece is counted.
  constexpr size_t kStep = 64 << 10;
  return hold((bytes + kStep - 1) / kStep * kStep);
}

void Connection::body_came() {
  phase_ = Phase::kWaiting;
  handle();
}

void Connection::unreadable(HttpStream::Trouble trouble, const std::string& why) {
  asked_ = has_request_ ? asked_ : Clock::now();
  keep_alive_ = false;
  switch (trouble) {
    case HttpStream::Trouble::kBodyTooLarge:
      return fail(413, "the body is larger than " + std::to_string(server_.options().max_body) +
                           " bytes; --max-body allows more");
    case HttpStream::Trouble::kHeaderTooLarge:
      return fail(431, "the header is larger than " + std::to_string(server_.options().max_header) +
                           " bytes; --max-header allows more");
    case HttpStream::Trouble::kNoRoom:
      return unavailable("the bodies of other requests take all the memory that there is for them");
    case HttpStream::Trouble::kMalformed:
      return fail(400, "this is no HTTP request: " + why);
  }
}

void Connection::peer_gone(bool broken) {
  if (phase_ == Phase::kWriting && !broken) {
    // It may have ended its side only, and still read.
    keep_alive_ = false;
    return;
  }
  if (phase_ == Phase::kWaiting) log_access(AccessLog::kClientGone, 0);
  close();
}

void Connection::check_deadline(Clock::time_point now) {
  if (phase_ == Phase::kIdle && stream_->begun()) {
    phase_ = Phase::kReading;
    deadline_ = now + server_.options().client_timeout;
  } else if (phase_ == Phase::kReading && stream_->ready() && !stream_->begun()) {
    // Hands were shaken, and nothing has been asked yet.
    phase_ = Phase::kIdle;
    deadline_ = now + server_.options().idle_timeout;
  }
  if (now < deadline_ || phase_ == Phase::kWaiting || phase_ == Phase::kClosed) return;
  if (phase_ != Phase::kReading || !stream_->ready()) return close();
  asked_ = has_request_ ? asked_ : now;
  keep_alive_ = false;
  fail(408, "the request did not arrive in time; it is read for as long as --client-timeout says");
}

void Connection::drain() {
  if (phase_ == Phase::kPausing || (phase_ == Phase::kIdle && !stream_->begun())) close();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  stream_->close();
  // Nobody waits for the answer any more: its place is free at once, unless it is being computed.
  if (in_queue_) server_.withdraw(model_, *this);
  hold_anyway(0);
  server_.forget(*this);
}

bool Connection::hold(size_t bytes) { return !server_.take_room(held_, bytes); }

void Connection::hold_anyway(size_t bytes) { server_.held(std::exchange(held_, bytes), bytes); }

void Connection::written() {
  for (std::string* text : {&out_, &body_, &input, &output}) {
    if (text->capacity() > kKept) std::string().swap(*text);
  }
  // Of a request that was not read to its end, too.
  if (has_request_) std::string().swap(stream_->body());
  hold_anyway(0);
  model_.reset();
  form_.reset();
  if (!keep_alive_) return linger();
  if (std::exchange(refused_, false)) return pause();
  read_header();
}

// Whoever asks again at once although it was refused would take the time that the answers of
// others need: its next request is read later each time, from a budget on.
void Connection::pause() {
  phase_ = Phase::kPausing;
  const auto time = server_.options().latency_budget * (1u << std::min(refusals_ - 1, kDoublings));
  deadline_ = Clock::now() + time + std::chrono::seconds(10);
  server_.after(time, [self = shared_from_this()] {
    if (self->phase_ == Phase::kPausing) self->read_header();
  });
}

// Closing with unread bytes would reset the connection, and the client might not see its answer.
void Connection::linger() {
  phase_ = Phase::kLingering;
  deadline_ = Clock::now() + kLinger;
  stream_->finish();
}

}  // namespace neuron::serve
