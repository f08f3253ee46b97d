// SPDX-License-Identifier: Apache-2.0
#include "runtime/send_receive/send_receive.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "driver/base/service_thread.h"
#include "hw/control.h"
#include "runtime/base/environment.h"
#include "runtime/base/log.h"

namespace neuron::runtime {
namespace {

// Connections that nobody accepts are few: more are let in when older ones have gone.
constexpr size_t kMostGuests = 256;
// How often deadlines and connections that could not be made yet are looked at.
constexpr int kLook_ms = 20;
constexpr std::chrono::milliseconds kRest{100};
constexpr uint16_t kPort = 45645;

Result<Core*> core_of(const Session& session, int number) {
  for (uint32_t vnc = 0; vnc < session.core_count(); ++vnc) {
    NEURON_TRY(core, session.core(vnc));
    if (static_cast<int>(session.number_on_host(*core)) == number) return core;
  }
  return fail(
      NRT_INVALID,
      "this process does not own core {} of the host; cores are counted over all devices of "
      "the host here, not from the first one of the process",
      number);
}

}  // namespace

SendReceive::~SendReceive() {
  stopping_ = true;
  if (thread_.joinable()) {
    wake();
    thread_.join();
  }
}

Result<void> SendReceive::start() {
  if (gave_up_) return *gave_up_;
  if (thread_.joinable()) return {};
  NEURON_TRY(port,
             environment_unsigned("NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT", kPort, 1, 65000));
  port_ = static_cast<uint16_t>(port);
  wake_.reset(base::above_standard_streams(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)));
  if (!wake_) return fail_with_errno(NRT_RESOURCE, errno, "no event for the thread of transfers");
  thread_ = base::service_thread(
      "nrt-sendrecv", [this] { work(); }, [this](const char* what) { give_up(what); });
  return {};
}

void SendReceive::wake() {
  const uint64_t one = 1;
  // A full counter wakes too.
  (void)!::write(wake_.get(), &one, sizeof(one));
}

Result<void> SendReceive::open(Session& session, int core) {
  NEURON_TRY(enabled, environment_boolean("NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED", false));
  if (!enabled) {
    return fail(NRT_FAILURE,
                "transfers between cores are off; set "
                "NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED=1");
  }
  NEURON_CHECK(core_of(session, core));
  const std::lock_guard lock(mutex_);
  if (broken_.contains(core)) {
    return fail(NRT_FAILURE, "core {} was closed with transfers under way, and stays closed", core);
  }
  if (cores_.contains(core)) return fail(NRT_FAILURE, "core {} is open already", core);
  NEURON_CHECK(start());
  limit_ = std::chrono::seconds(session.configuration().collectives_timeout_s);
  NEURON_TRY(listener, listen_on(static_cast<uint16_t>(port_ + core)));
  cores_[core].listener = std::move(listener);
  wake();
  return {};
}

Result<void> SendReceive::close(int core) {
  const std::lock_guard lock(mutex_);
  if (cores_.erase(core) == 0) return fail(NRT_FAILURE, "core {} is not open", core);
  size_t unconnected = 0, unfinished = 0;
  std::set<Id> ended;
  for (auto it = connections_.begin(); it != connections_.end();) {
    if (it->second->core() != core) {
      ++it;
      continue;
    }
    unconnected += it->second->state() == Connection::State::kMeeting ? 1 : 0;
    unfinished += it->second->in_flight();
    ended.insert(it->first);
    it = connections_.erase(it);
  }
  std::erase_if(requests_, [&](const auto& r) { return ended.contains(r.second.connection); });
  wake();
  if (unconnected == 0 && unfinished == 0) return {};
  broken_.insert(core);
  return fail(
      NRT_FAILURE,
      "core {} was closed with {} connections that were not made and {} requests under way; "
      "all of them are lost",
      core, unconnected, unfinished);
}

Result<void> SendReceive::flush(Session& session, int core) {
  {
    const std::lock_guard lock(mutex_);
    if (!cores_.contains(core)) return fail(NRT_FAILURE, "core {} is not open", core);
  }
  NEURON_TRY(device_core, core_of(session, core));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // The device answers a read behind the writes that came before it.
  NEURON_CHECK(device_core->device().read_register(device_core->place().window_bar0() +
                                                   NEURON_CORE_CONTROL + NEURON_CORE_STATUS));
  return {};
}

Result<SendReceive::Id> SendReceive::connect(Connection::Role role, const std::string& peer,
                                             int peer_core, int core) {
  NEURON_TRY(address, HostAddress::parse(peer));
  const std::lock_guard lock(mutex_);
  if (gave_up_) return *gave_up_;
  if (!cores_.contains(core)) {
    return fail(NRT_FAILURE, "core {} is not open; call nrt_async_sendrecv_init first", core);
  }
  if (peer_core < 0 || peer_core > UINT16_MAX - port_) {
    return fail(NRT_INVALID, "there is no core {}", peer_core);
  }
  const auto count = std::count_if(connections_.begin(), connections_.end(),
                                   [&](const auto& c) { return c.second->core() == core; });
  if (count >= kMostConnections) {
    return fail(NRT_RESOURCE, "core {} has {} connections, and more are not possible", core, count);
  }
  const Connection::Peer to{
      .address = address, .port = static_cast<uint16_t>(port_ + peer_core), .core = peer_core};
  const Id id = next_++;
  connections_[id] =
      std::make_unique<Connection>(role, to, core, Connection::Clock::now() + limit_);
  wake();
  return id;
}

Result<Connection*> SendReceive::find(Id connection) {
  const auto found = connections_.find(connection);
  if (found != connections_.end()) return found->second.get();
  return fail(NRT_INVALID_HANDLE, "this is no connection between cores, or its core was closed");
}

Result<bool> SendReceive::is_connected(Id connection) {
  const std::lock_guard lock(mutex_);
  NEURON_TRY(found, find(connection));
  if (found->state() == Connection::State::kEnded) return *found->error();
  return found->state() == Connection::State::kConnected;
}

Result<SendReceive::Id> SendReceive::transfer(Connection::Role role, Id connection,
                                              const TensorView& memory) {
  auto transfer = std::make_shared<Transfer>();
  transfer->memory = memory;
  transfer->bytes = memory.size;
  const HostUse use = role == Connection::Role::kSends ? HostUse::kRead : HostUse::kWritten;
  NEURON_TRY(at, memory.storage->reach(memory.offset, memory.size, use));
  transfer->at = at;
  const std::lock_guard lock(mutex_);
  NEURON_TRY(found, find(connection));
  if (found->role() != role) {
    return fail(NRT_INVALID, "this connection of core {} {}", found->core(),
                role == Connection::Role::kSends ? "receives" : "sends");
  }
  if (found->state() == Connection::State::kEnded) return *found->error();
  if (found->state() != Connection::State::kConnected) {
    return fail(NRT_INVALID,
                "the connection of core {} is not made yet; ask nrt_async_sendrecv_test_comm first",
                found->core());
  }
  if (found->untested >= kMostTransfers) {
    return fail(NRT_RESOURCE,
                "{} requests of this connection were not tested to their end, and more are not "
                "possible",
                found->untested);
  }
  const Id id = next_++;
  found->add(transfer);
  ++found->untested;
  requests_[id] = {connection, std::move(transfer)};
  wake();
  return id;
}

Result<SendReceive::Progress> SendReceive::test(Id transfer) {
  const std::lock_guard lock(mutex_);
  const auto found = requests_.find(transfer);
  if (found == requests_.end()) {
    return fail(NRT_INVALID_HANDLE,
                "this is no request between cores, it was done before, or its core was closed");
  }
  const std::shared_ptr<Transfer> tested = found->second.transfer;
  if (!tested->done) return Progress{};
  --connections_.at(found->second.connection)->untested;
  requests_.erase(found);
  if (tested->error) return *tested->error;
  return Progress{.done = true, .bytes = tested->moved};
}

void SendReceive::welcome(int core, OpenCore& open) {
  const auto now = Connection::Clock::now();
  // bounded: each turn takes a connection that was asked for.
  for (;;) {
    Guest guest;
    guest.socket = accept_from(open.listener.get(), guest.from);
    if (!guest.socket) {
      // Without a descriptor to spare, the listener stays readable: a rest keeps the thread from
      // asking without a pause.
      if (errno != EAGAIN) open.rests_until = now + kRest;
      break;
    }
    guest.deadline = now + limit_;
    if (open.guests.size() >= kMostGuests) open.guests.erase(open.guests.begin());
    open.guests.push_back(std::move(guest));
  }
  listen_to_guests(core, open);
  introduce_guests(open);
}

void SendReceive::listen_to_guests(int core, OpenCore& open) {
  const auto now = Connection::Clock::now();
  std::erase_if(open.guests, [&](Guest& guest) {
    auto* to = reinterpret_cast<std::byte*>(&guest.says);
    const bool complete = guest.heard == sizeof(guest.says);
    std::byte more;
    const ssize_t got = complete ? ::recv(guest.socket.get(), &more, 1, MSG_PEEK)
                                 : ::recv(guest.socket.get(), to + guest.heard,
                                          sizeof(guest.says) - guest.heard, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return true;
    if (!complete && got > 0) guest.heard += static_cast<size_t>(got);
    const bool heard = guest.heard == sizeof(guest.says);
    return now > guest.deadline || (heard && (!guest.says.good() || guest.says.to_core != core));
  });
}

void SendReceive::introduce_guests(OpenCore& open) {
  std::erase_if(open.guests, [&](Guest& guest) {
    if (guest.heard != sizeof(guest.says)) return false;
    for (auto& [id, connection] : connections_) {
      const bool expected = connection->role() == Connection::Role::kReceives &&
                            connection->state() == Connection::State::kMeeting &&
                            connection->core() == guest.says.to_core &&
                            connection->peer().core == guest.says.from_core &&
                            connection->peer().address.same_as(guest.from);
      if (!expected) continue;
      connection->adopt(std::move(guest.socket), guest.says);
      return true;
    }
    return false;
  });
}

// Nobody moves bytes any more: whoever waits for a connection or a request is told so.
void SendReceive::give_up(const char* what) {
  base::guarded(
      [&] {
        const std::lock_guard lock(mutex_);
        const Error why =
            fail(NRT_FAILURE, "the thread of transfers between cores has ended: {}", what);
        log_error(LogComponent::kNrt, "{}", why.sentence);
        for (auto& [id, connection] : connections_) connection->end(why);
        gave_up_ = why;
      },
      [](const char*, bool) {});
}

void SendReceive::work() {
  std::vector<pollfd> sockets;
  std::vector<Id> ids;  // of the sockets behind the first ones
  // bounded: until the session ends.
  while (!stopping_) {
    bool busy = false;
    size_t first = 0;  // of the connections
    sockets.assign(1, {wake_.get(), POLLIN, 0});
    ids.clear();
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [core, open] : cores_) {
        const bool rests = Connection::Clock::now() < open.rests_until;
        sockets.push_back({rests ? -1 : open.listener.get(), POLLIN, 0});
        for (const Guest& guest : open.guests) {
          // One that has introduced itself says nothing more; its end is seen at the next look.
          const bool listens = guest.heard != sizeof(guest.says);
          sockets.push_back({listens ? guest.socket.get() : -1, POLLIN, 0});
        }
      }
      first = sockets.size();
      for (const auto& [id, connection] : connections_) {
        busy = busy || connection->busy();
        sockets.push_back({connection->socket(), connection->interest(), 0});
        ids.push_back(id);
      }
    }
    if (::poll(sockets.data(), sockets.size(), busy ? 0 : kLook_ms) < 0) continue;
    uint64_t wakes = 0;
    (void)!::read(wake_.get(), &wakes, sizeof(wakes));
    const std::lock_guard lock(mutex_);
    for (auto& [core, open] : cores_) welcome(core, open);
    for (size_t n = 0; n < ids.size(); ++n) {
      const auto found = connections_.find(ids[n]);
      if (found == connections_.end()) continue;
      found->second->progress(sockets[first + n].revents);
    }
  }
}

}  // namespace neuron::runtime
