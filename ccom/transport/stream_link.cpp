// SPDX-License-Identifier: Apache-2.0
#include "ccom/transport/stream_link.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace neuron::ccom {
namespace {

constexpr size_t kBufferBytes = 64 << 10;
constexpr int kReadsAtOnce = 16;       // before other connections have their turn
constexpr size_t kMessagesAtOnce = 8;  // with one call

// The two pieces of a message without its first `done` bytes.
size_t pieces(const StreamHeader& header, std::span<const std::byte> payload, uint64_t done,
              iovec* to) {
  size_t count = 0;
  const auto* head = reinterpret_cast<const std::byte*>(&header);
  if (done < sizeof header) {
    to[count++] = {const_cast<std::byte*>(head + done), sizeof header - done};
    done = sizeof header;
  }
  const uint64_t skipped = done - sizeof header;
  if (skipped < payload.size()) {
    to[count++] = {const_cast<std::byte*>(payload.data() + skipped), payload.size() - skipped};
  }
  return count;
}

ssize_t give(int socket, iovec* pieces, size_t count) {
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool later(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

void StreamLink::send(const StreamHeader& header, std::span<const std::byte> payload,
                      FabricOperation* operation, bool waits) {
  uint64_t done = 0;
  const uint64_t all = sizeof header + payload.size();
  if (!waits && !wants_to_write()) {
    std::array<iovec, 2> parts;
    const ssize_t count =
        give(socket_.get(), parts.data(), pieces(header, payload, 0, parts.data()));
    // An error shows when the queue is written.
    if (count > 0) done = static_cast<uint64_t>(count);
    if (done == all) {
      if (operation != nullptr) owner_.sent(*operation, 0);
      return;
    }
  }
  try {
    queue_.push_back(Waiting{header, payload, {}, operation, done});
    if (operation == nullptr && !payload.empty()) {
      Waiting& waiting = queue_.back();
      waiting.copy.assign(payload.begin(), payload.end());
      copied_ += waiting.copy.size();
      waiting.payload = waiting.copy;
    }
  } catch (const std::bad_alloc&) {
    // Half a message may have left: nothing can come behind it.
    ::shutdown(socket_.get(), SHUT_RDWR);
    throw;
  }
}

int StreamLink::write() {
  if (connecting_) {
    int error = 0;
    socklen_t length = sizeof error;
    if (::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
    if (error != 0) return error;
    connecting_ = false;
  }
  while (!queue_.empty()) {
    std::array<iovec, 2 * kMessagesAtOnce> parts;
    size_t count = 0;
    for (size_t i = 0; i < std::min(queue_.size(), kMessagesAtOnce); ++i) {
      count += pieces(queue_[i].header, queue_[i].payload, queue_[i].done, parts.data() + count);
    }
    const ssize_t given = give(socket_.get(), parts.data(), count);
    if (given < 0) return later(errno) ? 0 : errno;
    auto left = static_cast<uint64_t>(given);
    while (!queue_.empty()) {
      Waiting& first = queue_.front();
      const uint64_t rest = sizeof first.header + first.payload.size() - first.done;
      first.done += std::min(rest, left);
      if (left < rest) break;
      left -= rest;
      copied_ -= first.copy.size();
      FabricOperation* const operation = first.operation;
      queue_.pop_front();
      if (operation != nullptr) owner_.sent(*operation, 0);
    }
  }
  return 0;
}

// Takes all that is in the buffer but the beginning of a header.
int StreamLink::parse() {
  for (;;) {  // bounded: by what is in the buffer
    if (left_ == 0) {
      if (end_ - begin_ < sizeof header_) break;
      std::memcpy(&header_, buffer_.data() + begin_, sizeof header_);
      begin_ += sizeof header_;
      place_ = {};
      // Now, so that the payload is dropped if there is no memory for a place.
      left_ = header_.payload();
      if (!owner_.begins(*this, header_, place_)) return EPROTO;
    }
    const uint64_t taken = std::min<uint64_t>(left_, end_ - begin_);
    const size_t kept = std::min<size_t>(taken, place_.size());
    if (kept != 0) {
      std::memcpy(place_.data(), buffer_.data() + begin_, kept);
      place_ = place_.subspan(kept);
    }
    begin_ += taken;
    left_ -= taken;
    if (left_ != 0) break;
    if (!owner_.ends(*this, header_)) return EPROTO;
  }
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return 0;
}

int StreamLink::read() {
  if (buffer_.empty()) buffer_.resize(kBufferBytes);
  for (int turn = 0; turn < kReadsAtOnce; ++turn) {
    // Behind the payload of one message, the next one goes to the buffer.
    const size_t straight = std::min<uint64_t>(left_, place_.size());
    const bool whole = straight == left_;
    std::array<iovec, 2> parts = {iovec{place_.data(), straight},
                                  iovec{buffer_.data() + end_, buffer_.size() - end_}};
    const bool both = straight != 0 && whole;
    msghdr message{};
    message.msg_iov = straight != 0 ? parts.data() : parts.data() + 1;
    message.msg_iovlen = both ? 2 : 1;
    const ssize_t count = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (count == 0) return left_ == 0 && end_ == 0 ? ESHUTDOWN : ECONNRESET;
    if (count < 0) return later(errno) ? 0 : errno;
    const auto got = static_cast<size_t>(count);
    const size_t placed = std::min(straight, got);
    place_ = place_.subspan(placed);
    left_ -= placed;
    end_ += got - placed;
    if (straight != 0 && left_ == 0 && !owner_.ends(*this, header_)) return EPROTO;
    if (const int error = parse(); error != 0) return error;
    const size_t asked = (straight != 0 ? straight : 0) +
                         (message.msg_iovlen == 2 || straight == 0 ? parts[1].iov_len : 0);
    if (got < asked) return 0;  // nothing more is there
  }
  return 0;
}

void StreamLink::fail(int error) {
  std::deque<Waiting> queue = std::exchange(queue_, {});
  copied_ = 0;
  for (const Waiting& waiting : queue) {
    if (waiting.operation != nullptr) owner_.sent(*waiting.operation, error);
  }
}

bool StreamLink::has_arrived() const {
  if (finished || broken || unwritable != 0) return true;
  int waiting = 0;
  return !wants_to_write() && (::ioctl(socket_.get(), SIOCOUTQ, &waiting) != 0 || waiting == 0);
}

bool StreamLink::finish() {
  if (finished || broken) return true;
  if (connecting_) {
    pollfd room{socket_.get(), POLLOUT, 0};
    if (::poll(&room, 1, 0) == 0) return false;
  }
  if (write() == 0) {
    // Unread bytes at a close would make the kernel forget what it has not sent yet.
    std::array<std::byte, 4096> scrap;
    const ssize_t count = ::recv(socket_.get(), scrap.data(), scrap.size(), MSG_DONTWAIT);
    const bool there = count > 0 || (count < 0 && later(errno));
    int waiting = 0;
    if (there &&
        (!queue_.empty() || (::ioctl(socket_.get(), SIOCOUTQ, &waiting) == 0 && waiting > 0))) {
      return false;
    }
  }
  ::shutdown(socket_.get(), SHUT_WR);
  finished = true;
  return true;
}

}  // namespace neuron::ccom
