// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/shared/shared_connection.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>

#include "driver/base/backoff.h"
#include "driver/base/deadline.h"
#include "driver/base/format.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/session.h"

namespace neuron::transport {
namespace {

// Messages of one client before others get their turn.
constexpr unsigned kTurn = 16;
constexpr int kPatienceMs = 10'000;
// How long a program of a client that goes away may go on in the thread of its doorbell.
constexpr std::chrono::milliseconds kServed{20};
// What a call that waits for a thread takes beside its message.
constexpr uint64_t kCallBytes = 512;
// The interface that the emulated driver implements, not the version of this project.
constexpr char kDriverVersion[] = "2.25.4.0-emulated";

template <size_t kSize>
void copy_text(char (&to)[kSize], std::string_view from) {
  std::memcpy(to, from.data(), std::min(from.size(), kSize - 1));
}

}  // namespace

Connection::Connection(const Shared& shared, base::FileDescriptor socket,
                       const service::Client& client, std::function<void()> closed)
    : shared_(shared), socket_(std::move(socket)), client_(client), closed_(std::move(closed)) {}

Connection::~Connection() = default;

void Connection::complain(const std::string& what) const {
  shared_.instance.log().write(
      client_,
      base::format("neuron-emulatord: pid {} {}; its connection is closed", client_.pid, what));
}

void Connection::complain_of(const std::exception& failure) const noexcept {
  try {
    complain(dynamic_cast<const std::bad_alloc*>(&failure) != nullptr
                 ? "finds the daemon out of memory for its call"
                 : std::string("made a call that the daemon has given up (") + failure.what() +
                       ")");
  } catch (const std::exception&) {
    // No memory for the sentence either.
  }
}

Connection::Received Connection::receive() {
  if (over_) return Received::kOver;
  try {
    if (const Received received = take_turn(); received != Received::kOver) return received;
  } catch (const std::exception& failure) {
    complain_of(failure);
  }
  abandon();
  return Received::kOver;
}

Connection::Received Connection::take_turn() {
  alignas(8) std::byte buffer[wire::kMaxMessage];
  for (unsigned i = 0; i < kTurn; ++i) {
    if (!has_room()) return Received::kNoRoom;
    base::PacketFiles files;
    bool files_lost = false;
    const ssize_t length =
        base::receive_packet(socket_.get(), buffer, files, MSG_DONTWAIT, &files_lost);
    if (length == -EAGAIN) return Received::kAll;
    if (length > 0 && handle({buffer, static_cast<size_t>(length)}, files, files_lost)) continue;
    if (length == -EMSGSIZE) {
      complain("sent a packet that is larger, or has more files, than any message");
    }
    return Received::kOver;
  }
  return Received::kAll;
}

void Connection::abandon() {
  if (over_) return;
  over_ = true;
  // Relaxed: calls in progress look at it now and then.
  gone_.store(true, std::memory_order_relaxed);
  {
    const std::lock_guard lock(session_mutex_);
    if (service::Session* session = session_.load(std::memory_order_acquire)) session->abandon();
  }
  ::shutdown(socket_.get(), SHUT_RDWR);
  if (!goodbye_) drop();
}

bool Connection::handle(std::span<const std::byte> packet, base::PacketFiles& files,
                        bool files_lost) {
  std::string why;
  const std::optional<Request> request = parse_request(packet, why);
  if (!request) {
    complain("sent " + why);
    return false;
  }
  if (goodbye_) {
    complain("sent a message after its goodbye");
    return false;
  }
  if (request->kind == wire::Kind::kHello) {
    if (greeted_) {
      complain("sent a second greeting");
      return false;
    }
    greeted_ = true;
    // Only opening a device takes time.
    if (request->hello.purpose == wire::kPurposeOpen) {
      submit([this, hello = request->hello] { greet(hello); });
    } else {
      greet(request->hello);
    }
    return true;
  }
  // Acquire: pairs with the release in open().
  service::Session* session = session_.load(std::memory_order_acquire);
  const bool observes = observes_.load(std::memory_order_acquire);
  if (session == nullptr && !observes) {
    complain("sent a call before it had opened a device");
    return false;
  }
  if (request->kind == wire::Kind::kGoodbye) {
    // The socket is watched on: the client may die before its calls have ended.
    goodbye_id_ = request->id;
    goodbye_ = true;
    drop();
    return true;
  }
  if ((request->kind == wire::Kind::kObserve) != observes) {
    complain("sent a call that is not what its connection was opened for");
    return false;
  }
  // The client's side lets no more calls than this be in flight.
  if (pending_.load(std::memory_order_relaxed) > wire::kMaxCalls + 1) {
    complain("sent more calls at once than a client may have in flight");
    return false;
  }
  auto call = std::make_shared<Call>(shared_.packets, client_);
  call->memory.take_at_once(packet.size() + kCallBytes);
  call->packet.assign(packet.begin(), packet.end());
  // Parsed again, because the spans must lead into the copy.
  call->request = *parse_request(call->packet, why);
  call->file = std::move(files[0]);
  call->file_lost = files_lost;
  submit([this, session, call] {
    if (gone_.load(std::memory_order_relaxed)) return;
    if (session == nullptr) {
      (void)carry_out_question(shared_.instance, socket_.get(), call->request);
    } else {
      (void)carry_out(*session, socket_.get(), *call, shared_.budget, gone_);
    }
  });
  return true;
}

void Connection::submit(std::function<void()> job) {
  pending_.fetch_add(1, std::memory_order_relaxed);
  auto self = shared_from_this();
  try {
    shared_.workers.submit(client_, [self, job = std::move(job)] {
      try {
        job();
      } catch (const std::exception& failure) {
        // The call has no answer: the client must not wait for one. The event loop sees the end.
        self->complain_of(failure);
        ::shutdown(self->socket_.get(), SHUT_RDWR);
      }
      self->drop();
    });
  } catch (const std::exception&) {
    pending_.fetch_sub(1, std::memory_order_relaxed);  // not to 0: the connection itself is one
    throw;
  }
}

void Connection::drop() {
  if (pending_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // Not on the event loop: it may take a reset of the client's cores.
  auto self = shared_from_this();
  try {
    shared_.workers.submit(client_, [self] { self->close(); });
  } catch (const std::exception&) {
    close();  // better late for others than never
  }
}

void Connection::remove_doorbell() {
  shared_.doorbells.retire(*doorbell_);
  while (!Doorbells::await(*doorbell_, kServed)) {
    if (!gone_.load(std::memory_order_relaxed)) continue;
    // A core that nobody has marked was not halted, and runs on until its reset.
    service::Session* const session = session_.load(std::memory_order_relaxed);
    session->abandon();
    session->stop();
  }
}

void Connection::close() {
  if (doorbell_) remove_doorbell();
  int result = 0;
  service::Session* session = nullptr;
  {
    const std::lock_guard lock(session_mutex_);
    session = session_.exchange(nullptr);
  }
  if (session != nullptr) {
    if (gone_.load(std::memory_order_relaxed)) session->abandon();
    result = shared_.instance.close(session);
  }
  if (goodbye_) (void)send_reply(socket_.get(), goodbye_id_, result);
  closed_();
}

// What a process of the same number has left is soon free.
int Connection::open_session(const wire::Hello& hello, service::Session** session) {
  const auto deadline = base::Deadline::after(std::chrono::milliseconds(kPatienceMs));
  for (;;) {  // bounded: by `deadline`
    const int error = shared_.instance.open(static_cast<unsigned>(hello.device),
                                            hello.open_flags & O_ACCMODE, client_, session);
    if (error != -EAGAIN || deadline.expired() || gone_.load(std::memory_order_relaxed)) {
      return error;
    }
    base::sleep_for(std::chrono::milliseconds(1));
  }
}

int Connection::open(const wire::Hello& hello, uint64_t features) {
  if (hello.device < 0) return service::fail(-ENODEV, "there is no device %d", hello.device);
  service::Session* session = nullptr;
  if (const int error = open_session(hello, &session)) return error;
  if (!session->restricted() && (features & wire::kFeatureDoorbells) != 0) {
    doorbell_ = Doorbell::create(*session, socket_.get());
    if (doorbell_ && !shared_.doorbells.add(*doorbell_)) {
      service::fail(-errno, "device %d: the doorbell of a client cannot be watched: %s",
                    hello.device, std::strerror(errno));
      doorbell_.reset();
    }
    if (!doorbell_) {
      shared_.instance.close(session);
      return -ENOMEM;
    }
  }
  session_.store(session, std::memory_order_release);
  return 0;
}

bool Connection::send_welcome(const wire::Hello& hello, int result, uint64_t features) {
  const char* sentence = result < 0 ? service::last_error() : "";
  const size_t length = std::min(std::strlen(sentence), wire::kMaxSentence);
  auto welcome = wire::message<wire::Welcome>(wire::Kind::kWelcome, hello.header.id, 0, length);
  welcome.result = result;
  welcome.version = wire::kNewestVersion;
  welcome.features = features;
  welcome.devices = shared_.instance.device_count();
  welcome.sentence_bytes = static_cast<uint32_t>(length);
  copy_text(welcome.profile, shared_.profile);
  copy_text(welcome.driver_version, kDriverVersion);
  int files[base::kPacketFiles];
  size_t count = 0;
  service::Session* session = session_.load(std::memory_order_relaxed);
  if (result == 0 && session != nullptr && doorbell_) {
    files[count++] = doorbell_->page_file();
    files[count++] = doorbell_->event();
  }
  const iovec parts[] = {{&welcome, sizeof(welcome)}, {const_cast<char*>(sentence), length}};
  return base::send_packet(socket_.get(), parts, {files, count}, kPatienceMs) == 0;
}

void Connection::greet(const wire::Hello& hello) {
  uint64_t features = hello.features & wire::kFeatures;
  // Doorbells are of no use to a client that cannot map what they lead to.
  if ((features & wire::kFeatureMapping) == 0) features &= ~wire::kFeatureDoorbells;
  int result = 0;
  try {
    if (hello.newest_version < wire::kOldestVersion ||
        hello.oldest_version > wire::kNewestVersion) {
      result = service::fail(
          -EPROTO,
          "the client speaks versions %u to %u of the shared device, the daemon %u to %u; install "
          "runtime and daemon of releases that are closer to each other",
          hello.oldest_version, hello.newest_version, wire::kOldestVersion, wire::kNewestVersion);
    } else if (hello.purpose == wire::kPurposeOpen && client_.pid <= 0) {
      result = service::fail(-EACCES,
                             "the client runs in a PID namespace that the daemon cannot see, and "
                             "what it holds could not be told from what others hold; run the "
                             "daemon in the same one or in one above");
    } else if (hello.purpose == wire::kPurposeOpen) {
      result = open(hello, features);
    } else if (hello.purpose == wire::kPurposeObserve) {
      observes_.store(true, std::memory_order_release);
    } else if (hello.purpose != wire::kPurposeList) {
      result = service::fail(-EPROTO, "purpose %u of a connection is unknown", hello.purpose);
    }
    // The session is visible only now to the event loop, which may have met the end before.
    service::Session* session = session_.load(std::memory_order_relaxed);
    if (session != nullptr && gone_.load(std::memory_order_relaxed)) session->abandon();
    (void)send_welcome(hello, result, features);
  } catch (const std::exception& failure) {
    (void)send_welcome(hello, fail_of(failure), features);
  }
}

}  // namespace neuron::transport
