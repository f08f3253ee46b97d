// SPDX-License-Identifier: Apache-2.0
#include "driver/ndl/shared_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>

#include "driver/base/process_status.h"
#include "driver/ndl/error.h"

namespace neuron::ndl {
namespace {

using Clock = std::chrono::steady_clock;

// For a daemon that builds a device, and for one that only has to say what it is.
constexpr uint32_t kBuildingMs = 60'000, kGreetingMs = 10'000;
// How long a stopped daemon (SIGSTOP) may take to go on.
constexpr uint32_t kStoppedMs = 1'000;
// The longest time between two looks at the deadline.
constexpr std::chrono::milliseconds kLook{500};

bool is_stopped(int pid) {
  const std::optional<base::ProcessStatus> status = base::process_status(pid);
  return status && status->is_stopped();
}

}  // namespace

int SharedChannel::fail_silent(uint64_t waited_ms) const {
  // The listening process; 0 in a PID namespace that does not see it.
  ucred peer = {};
  socklen_t size = sizeof(peer);
  (void)::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
  const std::string pid = peer.pid > 1 ? " (pid " + std::to_string(peer.pid) + ")" : "";
  if (peer.pid > 1 && is_stopped(peer.pid)) {
    return fail(-ETIMEDOUT,
                "the daemon at %s%s does not answer: it is stopped; kill -CONT %d lets it go on",
                path_.c_str(), pid.c_str(), peer.pid);
  }
  return fail(-ETIMEDOUT,
              "the daemon at %s%s has not answered for %llu ms; look at its journal, restart it if "
              "it hangs",
              path_.c_str(), pid.c_str(), static_cast<unsigned long long>(waited_ms));
}

int SharedChannel::await_welcome(uint32_t limit_ms) {
  const uint32_t first = std::min(limit_ms, kStoppedMs);
  if (base::await_socket(socket_.get(), POLLIN, static_cast<int>(first)) >= 0) return 0;
  ucred peer = {};
  socklen_t size = sizeof(peer);
  (void)::getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
  if (first == limit_ms || (peer.pid > 1 && is_stopped(peer.pid))) return fail_silent(first);
  if (base::await_socket(socket_.get(), POLLIN, static_cast<int>(limit_ms - first)) >= 0) return 0;
  return fail_silent(limit_ms);
}

bool SharedChannel::hung_up() const {
  pollfd end = {socket_.get(), 0, 0};
  return ::poll(&end, 1, 0) > 0;
}

int SharedChannel::fail_gone() const {
  return fail(-ENODEV, "the daemon at %s is gone; restart it and call nrt_close and nrt_init",
              path_.c_str());
}

std::unique_ptr<SharedChannel> SharedChannel::open(const std::string& path, uint32_t purpose,
                                                   int device, int flags, uint32_t limit_ms) {
  std::unique_ptr<SharedChannel> channel(new SharedChannel(path));
  if (limit_ms == 0) limit_ms = purpose == wire::kPurposeOpen ? kBuildingMs : kGreetingMs;
  return channel->greet(purpose, device, flags, limit_ms) == 0 ? std::move(channel) : nullptr;
}

int SharedChannel::greet(uint32_t purpose, int device, int flags, uint32_t limit_ms) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path_.empty() || path_.size() >= sizeof(address.sun_path)) {
    return fail(-EINVAL, "\"%s\" is no path of a socket: it must have 1 to %zu characters",
                path_.c_str(), sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  socket_ = base::FileDescriptor(
      base::above_standard_streams(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)));
  if (!socket_) return fail(-errno, "no socket for %s: %s", path_.c_str(), std::strerror(errno));
  const timeval patience = {static_cast<time_t>(limit_ms / 1000),
                            static_cast<suseconds_t>(limit_ms % 1000 * 1000 + 1)};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail(-ENODEV,
                "no daemon answers at %s: %s; start one with neuron-emulatord --socket %s, or set "
                "NEURON_EMULATOR to a profile name for a device of this process alone",
                path_.c_str(), std::strerror(errno), path_.c_str());
  }
  auto hello = wire::message<wire::Hello>(wire::Kind::kHello, 0);
  hello.oldest_version = wire::kOldestVersion;
  hello.newest_version = wire::kNewestVersion;
  hello.purpose = purpose;
  hello.features = wire::kFeatures;
  hello.device = device;
  hello.open_flags = flags;
  const iovec part = {&hello, sizeof(hello)};
  if (base::send_packet(socket_.get(), {&part, 1}, {}, static_cast<int>(limit_ms)) != 0) {
    return fail_gone();
  }
  if (const int silent = await_welcome(limit_ms)) return silent;
  std::vector<std::byte>& packet = buffer_;
  packet.resize(wire::kMaxMessage);
  const ssize_t length = base::receive_packet(socket_.get(), packet, files_);
  if (length == -EMFILE) {
    return fail(-EMFILE,
                "this process may not open the files of device memory that the daemon at %s has "
                "passed; raise its limit of open files (ulimit -n)",
                path_.c_str());
  }
  if (length <= 0) return fail_gone();
  if (static_cast<size_t>(length) < sizeof(welcome_)) {
    return fail(-EPROTO, "what listens at %s is no neuron-emulatord", path_.c_str());
  }
  std::memcpy(&welcome_, packet.data(), sizeof(welcome_));
  if (welcome_.header.magic != wire::kMagic ||
      welcome_.header.kind != static_cast<uint16_t>(wire::Kind::kWelcome)) {
    return fail(-EPROTO, "what listens at %s is no neuron-emulatord", path_.c_str());
  }
  welcome_.profile[sizeof(welcome_.profile) - 1] = 0;
  welcome_.driver_version[sizeof(welcome_.driver_version) - 1] = 0;
  if (welcome_.result == 0) return 0;
  const size_t behind = static_cast<size_t>(length) - sizeof(welcome_);
  const int error = welcome_.result < 0 ? -welcome_.result : EIO;
  return fail(-error, "%.*s", static_cast<int>(std::min<size_t>(welcome_.sentence_bytes, behind)),
              reinterpret_cast<const char*>(packet.data() + sizeof(welcome_)));
}

void SharedChannel::deliver(std::span<const std::byte> packet, base::PacketFiles files,
                            bool files_lost) {
  wire::Header header;
  if (packet.size() < sizeof(header)) return;
  std::memcpy(&header, packet.data(), sizeof(header));
  if (header.magic != wire::kMagic || header.kind != static_cast<uint16_t>(wire::Kind::kReply)) {
    return;  // a wake-up: the thread that waits for the slot looks at it again
  }
  const auto found = waiting_.find(header.id);
  // Nobody waits for the answer to a call that was given up.
  if (found == waiting_.end()) return;
  found->second.packet.assign(packet.begin(), packet.end());
  found->second.files = std::move(files);
  found->second.files_lost = files_lost;
}

int SharedChannel::pump(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done,
                        uint64_t limit_ms) {
  const auto deadline = Clock::now() + std::chrono::milliseconds(limit_ms);
  while (!done()) {
    if (gone()) return fail_gone();
    const auto now = Clock::now();
    if (now >= deadline) return fail_silent(limit_ms);
    const auto look = std::min<Clock::duration>(deadline - now, kLook);
    if (reading_) {
      changed_.wait_for(lock, look);
      continue;
    }
    reading_ = true;
    lock.unlock();
    pollfd readable = {socket_.get(), POLLIN, 0};
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(look).count();
    const int ready = ::poll(&readable, 1, static_cast<int>(milliseconds) + 1);
    ssize_t length = -EAGAIN;
    base::PacketFiles files;
    bool files_lost = false;
    if (ready > 0) {
      length = base::receive_packet(socket_.get(), buffer_, files, MSG_DONTWAIT, &files_lost);
    }
    lock.lock();
    reading_ = false;
    if (length > 0) {
      deliver({buffer_.data(), static_cast<size_t>(length)}, std::move(files), files_lost);
    }
    if (length == 0 || (length < 0 && length != -EAGAIN && length != -EMSGSIZE)) {
      gone_.store(true, std::memory_order_relaxed);
    }
    changed_.notify_all();
  }
  return 0;
}

bool SharedChannel::take_answer(SharedAnswer& answer) {
  if (answer.packet.size() < sizeof(wire::Reply)) return false;
  std::memcpy(&answer.reply, answer.packet.data(), sizeof(wire::Reply));
  std::span<const std::byte> rest = answer.packet;
  rest = rest.subspan(sizeof(wire::Reply));
  if (answer.reply.sentence_bytes > rest.size()) return false;
  answer.sentence = rest.first(answer.reply.sentence_bytes);
  rest = rest.subspan(answer.reply.sentence_bytes);
  if (answer.reply.argument_bytes > rest.size()) return false;
  answer.argument = rest.first(answer.reply.argument_bytes);
  answer.data = rest.subspan(answer.reply.argument_bytes);
  return (answer.reply.header.flags & wire::kFlagDataInFile) != 0 ||
         answer.data.size() == answer.reply.data_bytes;
}

int SharedChannel::call(std::span<const iovec> parts, std::span<const int> files,
                        SharedAnswer& answer, uint64_t limit_ms) {
  std::unique_lock lock(mutex_);
  // The daemon closes a connection that has more in flight.
  const auto room = [this] { return calls_ < wire::kMaxCalls - wire::kSlots; };
  if (!room() && !changed_.wait_for(lock, std::chrono::milliseconds(limit_ms), room)) {
    return fail(-ETIMEDOUT, "%u calls to the daemon at %s are waiting for their answers", calls_,
                path_.c_str());
  }
  if (gone()) return fail_gone();
  if (++next_id_ < wire::kSlots) next_id_ = wire::kSlots;
  const uint32_t id = next_id_;
  auto* header = static_cast<wire::Header*>(parts[0].iov_base);
  header->id = id;
  SharedAnswer& place = waiting_[id];  // stays where it is while others come and go
  ++calls_;
  lock.unlock();
  const int sent = base::send_packet(socket_.get(), parts, files, static_cast<int>(limit_ms));
  lock.lock();
  int result = 0;
  if (sent == -EFAULT) {
    result = fail(-EFAULT, "a buffer of the call is no memory of this process");
  } else if (sent != 0) {
    gone_.store(true, std::memory_order_relaxed);
    changed_.notify_all();
    result = fail_gone();
  } else {
    result = pump(
        lock, [&place] { return !place.packet.empty(); }, limit_ms);
  }
  answer = std::move(place);
  waiting_.erase(id);
  --calls_;
  changed_.notify_all();
  lock.unlock();
  if (result != 0) return result;
  if (!take_answer(answer)) {
    return fail(-EPROTO, "the daemon at %s has sent an answer that cannot be read", path_.c_str());
  }
  if (answer.reply.result < 0) {
    return fail(answer.reply.result, "%.*s", static_cast<int>(answer.sentence.size()),
                reinterpret_cast<const char*>(answer.sentence.data()));
  }
  if (answer.reply.result > 0) {
    return fail(-EIO, "the emulated driver answered %d, which no driver call may",
                answer.reply.result);
  }
  return 0;
}

int SharedChannel::await(const std::function<bool()>& done) {
  std::unique_lock lock(mutex_);
  return pump(lock, done, kLimitMs);
}

void SharedChannel::close() {
  if (gone() || !socket_) return;
  auto goodbye = wire::message<wire::Header>(wire::Kind::kGoodbye, 0);
  const iovec part = {&goodbye, sizeof(goodbye)};
  SharedAnswer answer;
  (void)call({&part, 1}, {}, answer);
}

}  // namespace neuron::ndl
