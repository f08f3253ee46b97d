// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what clients of the daemon may send, and of their deaths: packets are parsed, and
// what is a message is carried out on a session of a real device. Three clients do so at once, each
// in two threads of its own as in the daemon, and go in the middle of their calls. Nothing may
// crash, and the daemon's addresses stay inside. Meant for the address and the thread sanitizer.
//
// An input: a byte of flags (1 = make a header that fits, 2 = make it a call that exists), then
// packets, each behind two bytes: 14 bits of length, and above them whose packet it is. 3 there is
// no packet: client `length` modulo 3 dies.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/service/session.h"
#include "driver/emulator/transport/shared/shared_calls.h"
#include "driver/emulator/transport/shared/shared_message.h"
#include "driver/wire/wire_ioctl.h"
#include "uapi/neuron_ioctl.h"

namespace {

using namespace neuron;

constexpr uint64_t kMemory = 256u << 20;
constexpr int kReadWrite = 2;  // O_RDWR

constexpr unsigned kClients = 3, kThreads = 2;
// How long calls may still go on when the input is at its end, before their clients die.
constexpr std::chrono::milliseconds kRest{2};

service::Instance& instance() {
  static service::Instance* const made = [] {
    int error = 0;
    auto built =
        service::Instance::create("trn1.2xlarge", {.all = kMemory}, core::create_chip, error);
    if (built == nullptr) {
      std::fprintf(stderr, "%s\n", service::last_error());
      std::abort();
    }
    return built.release();
  }();
  return *made;
}

void make_call(std::vector<std::byte>& packet) {
  const auto rules = wire::all_ioctls();
  if (packet.size() < sizeof(wire::IoctlRequest)) packet.resize(sizeof(wire::IoctlRequest));
  wire::IoctlRequest request;
  std::memcpy(&request, packet.data(), sizeof(request));
  const wire::IoctlRule& rule = rules[request.request % rules.size()];
  request.request = rule.request;
  request.argument_bytes = rule.size;
  if (packet.size() < sizeof(request) + rule.size) packet.resize(sizeof(request) + rule.size);
  request.data_bytes = packet.size() - sizeof(request) - rule.size;
  request.header.kind = static_cast<uint16_t>(wire::Kind::kIoctl);
  request.header.flags &= wire::kFlagNoArgument;
  std::memcpy(packet.data(), &request, sizeof(request));
}

// What the daemon has for a client: a session, and threads that carry out its calls. Where answers
// go, nobody reads them but the thread that has caused them.
class Client {
 public:
  explicit Client(int32_t pid) {
    if (instance().open(0, kReadWrite, pid, &session_) != 0) std::abort();
    for (unsigned t = 0; t < kThreads; ++t) threads_.emplace_back([this] { work(); });
  }
  ~Client() {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kRest, [this] { return calls_.empty() && running_ == 0; });
    }
    die();
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    instance().close(session_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void submit(std::unique_ptr<transport::Call> call) {
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(std::move(call));
    }
    changed_.notify_all();
  }
  void die() {
    gone_.store(true, std::memory_order_relaxed);
    session_->abandon();
  }

 private:
  void work() {
    int sockets[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, sockets) != 0) std::abort();
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ending_ || !calls_.empty(); });
      if (calls_.empty()) break;
      const std::unique_ptr<transport::Call> call = std::move(calls_.front());
      calls_.pop_front();
      ++running_;
      lock.unlock();
      carry_out(*call, sockets);
      lock.lock();
      --running_;
      changed_.notify_all();
    }
    ::close(sockets[0]);
    ::close(sockets[1]);
  }
  void carry_out(transport::Call& call, const int* sockets) {
    (void)transport::carry_out(*session_, sockets[0], call, gone_);
    alignas(8) std::byte answer[wire::kMaxMessage];
    base::PacketFiles files;
    const ssize_t got = base::receive_packet(sockets[1], answer, files, MSG_DONTWAIT);
    wire::Reply reply;
    if (got < static_cast<ssize_t>(sizeof(reply))) std::abort();
    std::memcpy(&reply, answer, sizeof(reply));
    if (reply.header.size != static_cast<uint32_t>(got)) std::abort();
  }

  service::Session* session_ = nullptr;
  std::atomic<bool> gone_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<transport::Call>> calls_;
  unsigned running_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

// Null: the packet is no message, or one that only writes to the log.
std::unique_ptr<transport::Call> parse(std::span<const std::byte> packet, uint8_t flags) {
  auto call = std::make_unique<transport::Call>();
  call->packet.assign(packet.begin(), packet.end());
  if ((flags & 2) != 0) make_call(call->packet);
  if ((flags & 1) != 0 && call->packet.size() >= sizeof(wire::Header)) {
    wire::Header header;
    std::memcpy(&header, call->packet.data(), sizeof(header));
    header.magic = wire::kMagic;
    header.size = static_cast<uint32_t>(call->packet.size());
    std::memcpy(call->packet.data(), &header, sizeof(header));
  }
  std::string why;
  const auto request = transport::parse_request(call->packet, why);
  if (!request) {
    if (why.empty()) std::abort();
    return nullptr;
  }
  if (request->kind == wire::Kind::kIoctl &&
      (request->ioctl.request == NEURON_IOCTL_PRINTK ||
       request->ioctl.request == NEURON_IOCTL_NC_PID_STATE_DUMP)) {
    return nullptr;
  }
  call->request = *request;
  return call;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const uint8_t flags = data[0];
  std::vector<std::unique_ptr<Client>> clients;
  for (unsigned i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Client>(static_cast<int32_t>(1 + i)));
  }
  for (size_t at = 1; at + 2 <= size;) {
    const unsigned word = data[at] | data[at + 1] << 8;
    const unsigned whose = word >> 14;
    at += 2;
    if (whose == kClients) {
      clients[word % kClients]->die();
      continue;
    }
    const size_t length = std::min<size_t>(word & 0x3FFF, size - at);
    const auto* begin = reinterpret_cast<const std::byte*>(data) + at;
    at += length;
    if (auto call = parse({begin, length}, flags)) clients[whose]->submit(std::move(call));
  }
  return 0;
}
