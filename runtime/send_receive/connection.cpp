// SPDX-License-Identifier: Apache-2.0
#include "runtime/send_receive/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace neuron::runtime {
namespace {

constexpr std::chrono::milliseconds kBetweenAttempts{50};
// What one connection moves before the others have their turn, and callers the lock.
constexpr size_t kAtOnce = 1u << 20;

}  // namespace

Connection::Connection(Role role, const Peer& peer, int core, Clock::time_point deadline)
    : role_(role), peer_(peer), core_(core), deadline_(deadline) {
  if (role_ == Role::kSends) connect();
}

std::string Connection::peer_text() const {
  std::string text = format("core {} of {}", peer_.core, peer_.address.text());
  if (heard_ == sizeof(peer_says_)) {
    text += format(" (process {} of host {})", peer_says_.process, peer_says_.host_name());
  }
  return text;
}

void Connection::connect() {
  int error = 0;
  socket_ = begin_connecting(peer_.address, peer_.port, error);
  connecting_ = static_cast<bool>(socket_);
  if (!socket_) last_refusal_ = error;
  next_attempt_ = Clock::now() + kBetweenAttempts;
}

void Connection::introduce() {
  Introduction me;
  me.from_core = core_;
  me.to_core = peer_.core;
  me.process = static_cast<uint32_t>(::getpid());
  (void)::gethostname(me.host.data(), me.host.size() - 1);
  out_.append(reinterpret_cast<const char*>(&me), sizeof(me));
}

void Connection::adopt(base::FileDescriptor socket, const Introduction& peer) {
  socket_ = std::move(socket);
  peer_says_ = peer;
  heard_ = sizeof(peer_says_);
  state_ = State::kConnected;
  introduce();
  progress(POLLOUT);
}

void Connection::add(std::shared_ptr<Transfer> transfer) {
  transfer->number = next_number_++;
  queue_.push_back(std::move(transfer));
}

void Connection::end(const Error& why) {
  for (auto* list : {&queue_, &unanswered_}) {
    for (auto& transfer : *list) {
      transfer->error = why;
      transfer->done = true;
    }
    list->clear();
  }
  state_ = State::kEnded;
  if (!error_) error_ = why;
  socket_.reset();
  busy_ = false;
}

void Connection::lost(int error) {
  const std::string reason = error == 0
                                 ? "it closed the connection: its process ended or closed the core"
                                 : std::string(std::strerror(error));
  end(fail(NRT_FAILURE, "{} is gone, with {} requests of core {} under way: {}", peer_text(),
           in_flight(), core_, reason));
}

short Connection::interest() const {
  if (connecting_) return POLLOUT;
  short events = peer_is_silent_ ? 0 : POLLRDHUP;
  if (!out_.empty() || (role_ == Role::kSends && !queue_.empty())) events |= POLLOUT;
  // A receiver without a request leaves messages where they are.
  const bool reads = state_ == State::kMeeting || role_ == Role::kSends || !queue_.empty();
  if (reads) events |= POLLIN;
  return events;
}

size_t Connection::put(const std::byte* from, size_t bytes) {
  // bounded: each turn ends the call but for an interruption.
  while (bytes != 0 && socket_) {
    const ssize_t done = ::send(socket_.get(), from, bytes, MSG_NOSIGNAL);
    if (done >= 0) return static_cast<size_t>(done);
    if (errno == EINTR) continue;
    if (errno != EAGAIN) lost(errno);
    return 0;
  }
  return 0;
}

size_t Connection::get(std::byte* to, size_t bytes) {
  // bounded: as above.
  while (bytes != 0 && socket_) {
    const ssize_t done = ::recv(socket_.get(), to, bytes, 0);
    if (done > 0) return static_cast<size_t>(done);
    if (done < 0 && errno == EINTR) continue;
    if (done == 0) {
      lost(0);
    } else if (errno != EAGAIN) {
      lost(errno);
    }
    return 0;
  }
  return 0;
}

void Connection::progress(short events) {
  busy_ = false;
  if (state_ == State::kMeeting) return meet(events);
  if (state_ != State::kConnected) return;
  send_answers();
  if (role_ == Role::kSends) {
    send_messages();
    read_answers();
  } else {
    receive_messages();
    send_answers();
  }
  if ((events & (POLLHUP | POLLERR | POLLRDHUP)) != 0 && state_ == State::kConnected && !busy_) {
    look_for_end();
  }
}

// The peer says no more. What it said before may still be received; without that, it is gone.
void Connection::look_for_end() {
  std::byte one;
  const ssize_t left = ::recv(socket_.get(), &one, 1, MSG_PEEK);
  if (left > 0 && role_ == Role::kReceives) {
    peer_is_silent_ = true;
  } else {
    lost(left < 0 && errno != EAGAIN ? errno : outcome_of_connecting(socket_.get()));
  }
}

int Connection::socket() const {
  // Nothing new can be told about it until there is a request.
  return peer_is_silent_ && queue_.empty() ? -1 : socket_.get();
}

void Connection::meet(short events) {
  const auto now = Clock::now();
  if (role_ == Role::kSends) {
    if (!socket_ && now >= next_attempt_) connect();
    if (connecting_ && (events & (POLLOUT | POLLERR | POLLHUP)) != 0) {
      connecting_ = false;
      last_refusal_ = outcome_of_connecting(socket_.get());
      if (last_refusal_ != 0) {
        socket_.reset();
      } else {
        heard_ = 0;
        out_.clear();
        introduce();
      }
    }
    if (socket_ && !connecting_) {
      send_answers();
      auto* to = reinterpret_cast<std::byte*>(&peer_says_);
      heard_ += get(to + heard_, sizeof(peer_says_) - heard_);
      if (state_ == State::kEnded) {
        // The listener is there and has closed: the peer began again meanwhile.
        state_ = State::kMeeting;
        error_.reset();
        heard_ = 0;
        next_attempt_ = now + kBetweenAttempts;
      }
      if (heard_ == sizeof(peer_says_)) {
        if (!peer_says_.good() || peer_says_.from_core != peer_.core) {
          return end(fail(NRT_FAILURE,
                          "what answers at {} port {} is not core {} of this version of the "
                          "runtime",
                          peer_.address.text(), peer_.port, peer_.core));
        }
        state_ = State::kConnected;
        return;
      }
    }
  }
  if (now < deadline_) return;
  const std::string why =
      role_ == Role::kReceives ? format("it has not connected to core {}", core_)
      : last_refusal_ != 0     ? format("port {}: {}", peer_.port, std::strerror(last_refusal_))
      : connecting_            ? format("port {} does not answer", peer_.port)
                               : format("it does not accept core {} of this host's address", core_);
  end(fail(NRT_TIMEOUT, "core {} of {} did not come in time: {}", peer_.core, peer_.address.text(),
           why));
}

void Connection::send_answers() {
  const size_t done = put(reinterpret_cast<const std::byte*>(out_.data()), out_.size());
  out_.erase(0, done);
}

void Connection::send_messages() {
  size_t left = kAtOnce;
  // bounded: each turn sends something, or is the last.
  while (state_ == State::kConnected && out_.empty() && !queue_.empty() && left != 0) {
    Transfer& transfer = *queue_.front();
    if (!framed_) {
      const Frame frame{.number = transfer.number, .bytes = transfer.bytes};
      out_.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
      framed_ = true;
      passed_ = 0;
      send_answers();
      continue;
    }
    const size_t want = static_cast<size_t>(std::min<uint64_t>(transfer.bytes - passed_, left));
    const size_t done = put(transfer.at + passed_, want);
    if (state_ != State::kConnected) return;
    passed_ += done;
    left -= done;
    if (passed_ == transfer.bytes) {
      unanswered_.push_back(std::move(queue_.front()));
      queue_.pop_front();
      framed_ = false;
    } else if (done < want) {
      return;
    }
  }
  busy_ = left == 0;
}

bool Connection::take_frame() {
  auto* to = reinterpret_cast<std::byte*>(&frame_);
  frame_bytes_ += get(to + frame_bytes_, sizeof(frame_) - frame_bytes_);
  if (state_ != State::kConnected || frame_bytes_ < sizeof(frame_)) return false;
  frame_bytes_ = 0;
  return true;
}

void Connection::read_answers() {
  // bounded: each turn takes an answer.
  while (state_ == State::kConnected && take_frame()) {
    if (unanswered_.empty() || frame_.number != unanswered_.front()->number) {
      return lost(EPROTO);
    }
    Transfer& transfer = *unanswered_.front();
    const bool too_long = frame_.kind == FrameKind::kTooLong && frame_.bytes < transfer.bytes;
    const bool received = frame_.kind == FrameKind::kReceived && frame_.bytes == transfer.bytes;
    if (!too_long && !received) return lost(EPROTO);
    if (too_long) {
      transfer.error =
          fail(NRT_INVALID, "a message of {} bytes to {} is too long: the receiver has room for {}",
               transfer.bytes, peer_text(), frame_.bytes);
    } else {
      transfer.moved = frame_.bytes;
    }
    transfer.done = true;
    unanswered_.pop_front();
  }
}

void Connection::answer(FrameKind kind, uint64_t bytes) {
  const Frame frame{.kind = kind, .number = frame_.number, .bytes = bytes};
  out_.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
}

void Connection::receive_messages() {
  size_t left = kAtOnce;
  // bounded: each turn receives something, or is the last.
  while (state_ == State::kConnected && !queue_.empty() && left != 0) {
    if (!framed_) {
      if (!take_frame()) return;
      if (frame_.kind != FrameKind::kMessage) return lost(EPROTO);
      framed_ = true;
      passed_ = 0;
      too_long_ = frame_.bytes > queue_.front()->bytes;
    }
    // Bytes that there is no room for are read and dropped, so that the next message is found.
    std::array<std::byte, 16384> dropped;
    uint64_t want = std::min<uint64_t>(frame_.bytes - passed_, left);
    if (too_long_) want = std::min<uint64_t>(want, dropped.size());
    const size_t done = get(too_long_ ? dropped.data() : queue_.front()->at + passed_, want);
    if (state_ != State::kConnected) return;
    passed_ += done;
    left -= done;
    if (passed_ == frame_.bytes) {
      finish_message();
    } else if (done == 0) {
      return;
    }
  }
  busy_ = left == 0;
}

void Connection::finish_message() {
  Transfer& transfer = *queue_.front();
  if (too_long_) {
    transfer.error = fail(NRT_INVALID,
                          "{} sent a message of {} bytes, and the request has room for {}; nothing "
                          "was received",
                          peer_text(), frame_.bytes, transfer.bytes);
    answer(FrameKind::kTooLong, transfer.bytes);
  } else {
    transfer.moved = frame_.bytes;
    answer(FrameKind::kReceived, frame_.bytes);
  }
  transfer.done = true;
  queue_.pop_front();
  framed_ = false;
}

}  // namespace neuron::runtime
