// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/window_port.h"

#include <algorithm>
#include <system_error>

#include "ccom/transport/fabric_connection.h"
#include "driver/base/backoff.h"
#include "driver/base/service_thread.h"

namespace neuron::ccom {
namespace {

constexpr uint64_t kPiece = 1u << 20;  // bytes of a message of data
constexpr uint64_t kPiecesAhead = 8;   // granted and not arrived
constexpr std::chrono::milliseconds kNap{1};
// Looks of the thread before it naps: what has begun to arrive goes on soon.
constexpr base::Backoff::Steps kServing{.pauses = 4, .yields = 1000};
// What a closing window waits for the network to let go of its memory.
constexpr std::chrono::milliseconds kLettingGo{100};
constexpr base::Backoff::Steps kLooks{.pauses = 4, .yields = base::Backoff::kNoSleep};

// All windows' ports are their own, so their messages need no signature.
const Signature kSignature;

constexpr uint16_t kChannel = 0;

MessageId message(uint64_t number) { return {kSignature.stream, kChannel, 0, number}; }

}  // namespace

WindowPort::WindowPort(std::unique_ptr<NetworkPort> port, Place place, const FirstFailure& failure)
    : port_(std::move(port)),
      place_(std::move(place)),
      failure_(failure),
      no_memory_(fail(CCOM_RESOURCE,
                      "rank {} has no memory left for the messages of its window: its process "
                      "needs more, or a larger limit",
                      port_->rank())) {}

Result<std::unique_ptr<WindowPort>> WindowPort::open(std::unique_ptr<NetworkPort> port, Place place,
                                                     const FirstFailure& failure) {
  std::unique_ptr<WindowPort> made(new WindowPort(std::move(port), std::move(place), failure));
  made->incoming_.resize(made->port_->ranks());
  made->sent_.resize(made->port_->ranks());
  made->port_->expect(kSignature);
  NEURON_CHECK(made->port_->add_memory(made->place_.data, made->place_.bytes));
  try {
    made->thread_ = base::service_thread(
        "ccom-window", [port = made.get()] { port->serve(); },
        [port = made.get()](const char*) { port->close(); });
  } catch (const std::system_error& error) {
    return fail(CCOM_RESOURCE, "rank {} has no thread for its window: {}", made->port_->rank(),
                error.code().message());
  }
  return made;
}

WindowPort::~WindowPort() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(wake_mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  port_->quiesce(base::Deadline::after(kLettingGo));
  port_->remove_memory(place_.data);
}

void WindowPort::close() {
  const std::lock_guard lock(mutex_);
  broken_ = true;
}

Error WindowPort::failure_of(Rank peer) const {
  const Error& error = port_->connection(peer).failure();
  return error.sentence.empty() ? port_->failure() : error;
}

Result<bool> WindowPort::take_header(Rank source, Incoming& incoming) {
  FabricConnection& connection = port_->connection(source);
  if (incoming.granted == incoming.arrived) {
    const Outcome granted = connection.grant(
        message(incoming.granted), reinterpret_cast<std::byte*>(&incoming.header), sizeof(Header));
    if (granted != Outcome::kDone) {
      return granted == Outcome::kFailed ? Result<bool>(failure_of(source)) : false;
    }
    ++incoming.granted;
  }
  Arrival arrival;
  const Outcome outcome = connection.arrived(message(incoming.arrived), arrival);
  if (outcome != Outcome::kDone) {
    return outcome == Outcome::kFailed ? Result<bool>(failure_of(source)) : false;
  }
  connection.consumed(message(incoming.arrived));
  ++incoming.arrived;
  const Header& header = incoming.header;
  if (header.offset > place_.bytes || header.bytes > place_.bytes - header.offset ||
      (header.signal >= CCOM_SIGNALS && header.signal != CCOM_NO_SIGNAL)) {
    return fail(CCOM_SYSTEM,
                "rank {} puts {} bytes at {} with signal {} into the window of rank {}, which has "
                "{} bytes: is it of this version?",
                source, header.bytes, header.offset, header.signal, port_->rank(), place_.bytes);
  }
  incoming.asked = incoming.received = 0;
  incoming.in_data = true;
  if (header.bytes == 0) {
    end_put(source, incoming);
  }
  return true;
}

void WindowPort::end_put(Rank source, Incoming& incoming) {
  incoming.in_data = false;
  if (incoming.header.signal != CCOM_NO_SIGNAL) {
    place_.count(source, incoming.header.signal);
  }
}

Result<bool> WindowPort::receive(Rank source) {
  Incoming& incoming = incoming_[source];
  if (!incoming.in_data) {
    return take_header(source, incoming);
  }
  FabricConnection& connection = port_->connection(source);
  const Header& header = incoming.header;
  bool moved = false;
  while (incoming.asked < header.bytes && incoming.granted - incoming.arrived < kPiecesAhead) {
    const uint64_t bytes = std::min(kPiece, header.bytes - incoming.asked);
    const Outcome granted = connection.grant(message(incoming.granted),
                                             place_.data + header.offset + incoming.asked, bytes);
    if (granted == Outcome::kFailed) {
      return failure_of(source);
    }
    if (granted == Outcome::kNotYet) {
      break;
    }
    ++incoming.granted;
    incoming.asked += bytes;
    moved = true;
  }
  Arrival arrival;
  while (incoming.arrived < incoming.granted) {
    const Outcome outcome = connection.arrived(message(incoming.arrived), arrival);
    if (outcome == Outcome::kFailed) {
      return failure_of(source);
    }
    if (outcome == Outcome::kNotYet) {
      break;
    }
    connection.consumed(message(incoming.arrived));
    ++incoming.arrived;
    incoming.received += arrival.bytes;
    moved = true;
  }
  if (incoming.received == header.bytes) {
    end_put(source, incoming);
  }
  return moved;
}

Result<bool> WindowPort::turn() {
  const Outcome outcome = port_->progress();
  if (outcome == Outcome::kFailed) {
    return port_->failure();
  }
  bool moved = outcome == Outcome::kDone;
  for (Rank source = 0; source < incoming_.size(); ++source) {
    if (source != port_->rank()) {
      NEURON_TRY(one, receive(source));
      moved = moved || one;
    }
  }
  return moved;
}

bool WindowPort::advance() {
  const std::lock_guard lock(mutex_);
  return step();
}

bool WindowPort::step() {
  if (broken_ || failure_.there()) {
    return false;
  }
  Result<bool> moved = false;
  try {
    const Result<void> there = place_.check != nullptr ? place_.check() : Result<void>();
    moved = there ? turn() : Result<bool>(there.error());
  } catch (const std::bad_alloc&) {
    moved = std::move(no_memory_);
  }
  if (!moved) {
    broken_ = true;
    place_.fail(moved.error());
    return false;
  }
  return *moved;
}

Error WindowPort::late(const Outgoing& put) const {
  const char* const route = port_->connection(put.target).description();
  if (put.header.bytes == 0) {
    return fail(CCOM_TIMEOUT, "rank {} has taken nothing from {} for {} ms, and not the signal {}",
                put.target, route, put.timeout.count(), put.header.signal);
  }
  return fail(CCOM_TIMEOUT,
              "rank {} has taken nothing from {} for {} ms: {} of the {} bytes at {} of its window "
              "are missing",
              put.target, route, put.timeout.count(), put.header.bytes - put.taken,
              put.header.bytes, put.header.offset);
}

template <class Look>
Result<void> WindowPort::until(const Outgoing& put, Look&& look) {
  const FabricConnection& connection = port_->connection(put.target);
  const auto taken = [&] { return connection.taken(kSignature.stream, kChannel); };
  base::Backoff backoff(kLooks);
  base::Deadline deadline = base::Deadline::after(put.timeout);
  uint64_t before = taken();
  // bounded: by `timeout` without progress of the target. What others send is none.
  for (;;) {
    const Outcome outcome = look();
    if (outcome == Outcome::kDone) {
      return {};
    }
    if (outcome == Outcome::kFailed) {
      return failure_of(put.target);
    }
    if (failure_.there()) {
      return failure_.error();
    }
    NEURON_TRY(moved, turn());
    if (const uint64_t now = taken(); now != before) {
      before = now;
      deadline = base::Deadline::after(put.timeout);
    } else if (deadline.expired()) {
      return late(put);
    }
    moved ? backoff.reset() : backoff.wait();
  }
}

Result<void> WindowPort::send(const Outgoing& put, uint64_t number, const std::byte* data,
                              uint64_t bytes) {
  return until(put, [&] {
    return port_->connection(put.target).send(message(number), data, bytes, kSignature);
  });
}

Result<void> WindowPort::send(Outgoing& put) {
  uint64_t& number = sent_[put.target];
  NEURON_CHECK(
      send(put, number++, reinterpret_cast<const std::byte*>(&put.header), sizeof(put.header)));
  const uint64_t first = number, bytes = put.header.bytes;
  uint64_t over = first;  // messages below it are
  const auto look_again = [&] {
    while (over < number && port_->connection(put.target).sent(message(over)) == Outcome::kDone) {
      put.taken = std::min(bytes, (++over - first) * kPiece);
    }
  };
  for (uint64_t at = 0; at < bytes; at += kPiece) {
    NEURON_CHECK(send(put, number++, put.source + at, std::min(kPiece, bytes - at)));
    look_again();
  }
  while (over < number) {
    NEURON_CHECK(until(put, [&] { return port_->connection(put.target).sent(message(over)); }));
    look_again();
  }
  return {};
}

Result<void> WindowPort::put(Rank target, uint64_t offset, const std::byte* source, uint64_t bytes,
                             uint32_t signal, std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  if (broken_) {
    return fail(CCOM_SYSTEM, "the window of rank {} was closed by a failure", port_->rank());
  }
  NEURON_CHECK(port_->add_memory(source, bytes));
  Outgoing put{target, {offset, bytes, signal, 0}, source, timeout};
  Result<void> done;
  try {
    done = send(put);
  } catch (const std::bad_alloc&) {
    done = std::move(no_memory_);
  }
  if (!done) {
    // The caller may use the source again: the network must not read it any more.
    broken_ = true;
    port_->quiesce(base::Deadline::after(kLettingGo));
  }
  if (bytes != 0) {
    port_->remove_memory(source);
  }
  return done;
}

void WindowPort::serve() {
  base::Backoff backoff(kServing);
  std::unique_lock wake(wake_mutex_);
  while (!stopping_) {
    wake.unlock();
    bool moved = false;
    // A caller that has the lock does the same.
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) {
      moved = step();
    }
    if (moved) {
      backoff.reset();
    } else if (!backoff.sleeps()) {
      backoff.wait();
    }
    wake.lock();
    if (!moved && backoff.sleeps() && !stopping_) {
      wake_.wait_for(wake, kNap);
    }
  }
}

}  // namespace neuron::ccom
