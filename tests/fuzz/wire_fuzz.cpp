// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what clients of the daemon may send, and of their deaths: packets are parsed, and
// what is a message is carried out on sessions of a real device. Three processes of two users do so
// at once, one of them by two descriptors, each descriptor in two threads of its own as in the
// daemon, and go in the middle of their calls; others of their users crowd in. They name what
// belongs to each other and to a fourth process, the neighbour, which does nothing and must keep
// what it has. Nothing may crash, no answer and no file may show what is the neighbour's, memory
// that is given out is zeros, somebody new is always served, and nothing is left when all are gone.
// Meant for the address and the thread sanitizer.
//
// An input: a byte of flags (1 = make a header that fits, 2 = make it a call that exists, 4 = its
// pointers are valid and as much data comes as they need), then steps of five bytes: what and whose
// (Step), a mask of the 64-bit words of the argument that become names (numbers of what somebody
// has), one for the words of the data behind it, and two bytes of length, behind which a packet
// follows.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
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
#include <utility>
#include <vector>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/service/session.h"
#include "driver/emulator/transport/shared/shared_calls.h"
#include "driver/emulator/transport/shared/shared_message.h"
#include "driver/wire/wire_ioctl.h"
#include "tests/fuzz/neighbour.h"
#include "uapi/neuron_ioctl.h"

namespace {

using namespace neuron;
using fuzz::Mapping;
using fuzz::Neighbour;

constexpr uint64_t kMemory = 256u << 20, kMemoryOfUser = kMemory / 4;
constexpr int kReadWrite = 2;  // O_RDWR
// As few that processes meet the ends of their shares.
constexpr size_t kFiles = 64, kHandles = 128;

constexpr unsigned kProcesses = 3, kDescriptors = 4, kThreads = 2;
// The last descriptor is a second one of the last process.
constexpr unsigned kProcessOf[kDescriptors] = {0, 1, 2, 2};
constexpr uint32_t kUserOf[kProcesses] = {1000, 1000, 2000}, kNewcomer = 4000;
// Beyond all that a host gives out: no process of this host is meant.
constexpr int32_t kPid = 5'000'001, kPidOfNewcomer = 5'000'100, kPidOfCrowd = 5'000'200;
constexpr unsigned kMostSteps = 256, kMostNames = 256, kMostCrowd = 16, kMostStale = 16;
// How long calls may still go on when the input is at its end, before their clients die.
constexpr std::chrono::milliseconds kRest{2};

// Bits 0 and 1: whose descriptor; bits 2 and 3: what.
enum Step : uint8_t {
  kPacket = 0,
  kDeath = 1,  // of the process; an odd length: and another one gets its number at once
  kClose = 2,  // of the descriptor, which is opened again; an odd length: only waits for its calls
  kCrowd = 3,  // `length` modulo 8 further processes of the user
};

[[noreturn]] void found(const std::string& what) {
  std::fprintf(stderr, "wire_fuzz: %s\n", what.c_str());
  std::abort();
}

service::Instance& instance() {
  static service::Instance* const made = [] {
    int error = 0;
    auto built = service::Instance::create(
        "trn1.2xlarge", {.all = kMemory, .each_user = kMemoryOfUser}, core::create_chip, error);
    if (built == nullptr) found(service::last_error());
    built->files().allow(kFiles);
    return built.release();
  }();
  return *made;
}

Neighbour& neighbour() {
  static Neighbour* const made = [] {
    // What the device keeps for itself comes first: handles are shared from then on.
    service::Session* session = nullptr;
    if (instance().open(0, kReadWrite, service::Client{kPid, kNewcomer, 2}, &session) != 0 ||
        instance().close(session) != 0) {
      found(service::last_error());
    }
    instance().device_if_probed(0)->memory().allow_handles(kHandles);
    auto built = Neighbour::create(instance());
    if (built == nullptr) found(service::last_error());
    return built.release();
  }();
  return *made;
}

uint64_t next_process() {
  static std::atomic<uint64_t> next{100};
  return ++next;
}

// What of an input concerns all its clients.
struct Shared {
  std::mutex mutex;
  std::vector<uint64_t> names;        // numbers of what somebody has
  std::vector<Mapping> stale;         // of memory whose process is gone, and that still maps it
  std::atomic<unsigned> starting{0};  // calls that may start descriptors, in flight
  std::atomic<bool> started{false};   // some have: descriptors reach all memory

  // Sequentially consistent, as all of both: whoever sees what a descriptor did sees one of them.
  bool reached() const { return starting.load() != 0 || started.load(); }
  void name(uint64_t number) {
    const std::lock_guard lock(mutex);
    if (names.size() < kMostNames) names.push_back(number);
  }
  // Those who still map what was theirs write into it.
  void scribble() {
    const std::lock_guard lock(mutex);
    for (const Mapping& mapping : stale) {
      for (size_t i = 0; i < mapping.size(); ++i) mapping.words()[i] = ~uint64_t{0};
    }
  }
  void keep(Mapping mapping) {
    if (!mapping) return;
    const std::lock_guard lock(mutex);
    if (stale.size() == kMostStale) stale.erase(stale.begin());
    stale.push_back(std::move(mapping));
  }
};

// --- packets --------------------------------------------------------------------------------

// The bytes of its argument.
size_t make_call(std::vector<std::byte>& packet) {
  const auto rules = wire::all_ioctls();
  if (packet.size() < sizeof(wire::IoctlRequest)) packet.resize(sizeof(wire::IoctlRequest));
  wire::IoctlRequest request;
  std::memcpy(&request, packet.data(), sizeof(request));
  const wire::IoctlRule* rule = wire::find_ioctl(request.request);
  if (rule == nullptr) rule = &rules[request.request % rules.size()];
  request.request = rule->request;
  request.argument_bytes = rule->size;
  if (packet.size() < sizeof(request) + rule->size) packet.resize(sizeof(request) + rule->size);
  request.data_bytes = packet.size() - sizeof(request) - rule->size;
  request.header.kind = static_cast<uint16_t>(wire::Kind::kIoctl);
  request.header.flags &= wire::kFlagNoArgument;
  std::memcpy(packet.data(), &request, sizeof(request));
  return rule->size;
}

void put_names(std::span<std::byte> bytes, uint8_t mask, Shared& shared) {
  const std::lock_guard lock(shared.mutex);
  for (size_t word = 0; word < 8 && word * 8 + 8 <= bytes.size(); ++word) {
    if ((mask >> word & 1) == 0) continue;
    const size_t name = static_cast<uint8_t>(bytes[word * 8]) % shared.names.size();
    std::memcpy(&bytes[word * 8], &shared.names[name], 8);
  }
}

// What comes with a call, followed by zeros, and how much of it was wanted.
class Counted final : public wire::DataSource {
 public:
  explicit Counted(std::span<const std::byte> data) : data_(data) {}
  bool read(void* to, uint64_t size) override {
    const size_t there = std::min<uint64_t>(size, data_.size());
    std::memcpy(to, data_.data(), there);
    std::memset(static_cast<std::byte*>(to) + there, 0, size - there);
    data_ = data_.subspan(there);
    bytes_ += size;
    return true;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  std::span<const std::byte> data_;
  uint64_t bytes_ = 0;
};

void complete_call(std::vector<std::byte>& packet) {
  wire::IoctlRequest request;
  std::memcpy(&request, packet.data(), sizeof(request));
  const std::span<const std::byte> behind = std::span(packet).subspan(sizeof(request));
  const size_t argument = request.argument_bytes;
  Counted counted(behind.subspan(argument));
  request.pointers = 0x5;
  // Its result says only that not all of the most that there can be was wanted.
  (void)wire::IncomingCall().accept(request.request, behind.first(argument), request.pointers,
                                    wire::kMaxData, counted);
  if (counted.bytes() > wire::kMaxMessage - sizeof(request) - argument) return;
  request.data_bytes = counted.bytes();
  packet.resize(sizeof(request) + argument + request.data_bytes);
  std::memcpy(packet.data(), &request, sizeof(request));
}

// As in the daemon, of all clients together: so little that large calls wait for each other.
transport::CallBudget& packets() {
  static transport::CallBudget budget(uint64_t{1} << 20);
  return budget;
}
transport::CallBudget& buffers() {
  static transport::CallBudget budget(uint64_t{8} << 20);
  return budget;
}

// Null: the packet is no message, or one that only writes to the log. Borrows `sender`.
std::unique_ptr<transport::Call> parse(std::span<const std::byte> packet,
                                       const service::Client& sender, uint8_t flags,
                                       const uint8_t* masks, Shared& shared) {
  auto call = std::make_unique<transport::Call>(packets(), sender);
  std::vector<std::byte>& bytes = call->packet;
  bytes.assign(packet.begin(), packet.end());
  wire::Header header;
  if ((flags & 2) != 0) {
    const size_t argument = make_call(bytes);
    const auto behind = std::span(bytes).subspan(sizeof(wire::IoctlRequest));
    put_names(behind.first(argument), masks[0], shared);
    put_names(behind.subspan(argument), masks[1], shared);
    if ((flags & 4) != 0) complete_call(bytes);
  } else if (bytes.size() >= sizeof(header)) {
    put_names(std::span(bytes).subspan(sizeof(header)), masks[0], shared);
  }
  if ((flags & 1) != 0 && bytes.size() >= sizeof(header)) {
    std::memcpy(&header, bytes.data(), sizeof(header));
    header.magic = wire::kMagic;
    header.size = static_cast<uint32_t>(bytes.size());
    std::memcpy(bytes.data(), &header, sizeof(header));
  }
  // What a fuzzer has guessed by its comparisons proves nothing in an answer.
  if (neighbour().is_secret(bytes)) return nullptr;
  std::string why;
  const auto request = transport::parse_request(bytes, why);
  if (!request) {
    if (why.empty()) found("a packet was refused without a word");
    return nullptr;
  }
  if (request->kind == wire::Kind::kIoctl &&
      (request->ioctl.request == NEURON_IOCTL_PRINTK ||
       request->ioctl.request == NEURON_IOCTL_NC_PID_STATE_DUMP)) {
    return nullptr;
  }
  call->request = *request;
  call->memory.take_at_once(bytes.size());
  return call;
}

bool is_call(const transport::Request& request, uint64_t call) {
  return request.kind == wire::Kind::kIoctl && _IOC_NR(request.ioctl.request) == _IOC_NR(call) &&
         (request.flags & wire::kFlagNoArgument) == 0;
}

uint64_t first_word(const transport::Request& request) {
  uint64_t word = 0;
  std::memcpy(&word, request.argument.data(), std::min(sizeof(word), request.argument.size()));
  return word;
}

// Calls that start a queue of the neighbour's fail; others may set descriptors to work.
bool names_its_queue(const transport::Request& request) {
  return first_word(request) == (Neighbour::kEngine | uint64_t{Neighbour::kQueue} << 32);
}

bool may_start_descriptors(const transport::Request& request) {
  return is_call(request, NEURON_IOCTL_DMA_QUEUE_COPY_START) && !names_its_queue(request);
}

// What no process may have done to another one, by the answer alone. Empty: it has not.
std::string trespass(const transport::Request& request, int32_t result) {
  if (request.kind == wire::Kind::kWait && neighbour().owns_address(request.wait.word_address) &&
      result != -EINVAL) {
    return "a word of the neighbour's can be waited for";
  }
  if (request.kind == wire::Kind::kResolve && neighbour().owns_handle(request.resolve.handle) &&
      result >= 0) {
    return "memory of the neighbour's can be resolved";
  }
  if (request.kind != wire::Kind::kIoctl || result != 0) return "";
  // The second form has the same number.
  if (is_call(request, NEURON_IOCTL_MEM_MC_GET_INFO) &&
      neighbour().owns_address(first_word(request))) {
    return "memory of the neighbour's is found by its address";
  }
  for (const uint64_t call : {NEURON_IOCTL_MEM_GET_PA, NEURON_IOCTL_MEM_GET_INFO,
                              NEURON_IOCTL_MEM_GET_EXTENDED_INFO, NEURON_IOCTL_MEM_FREE}) {
    if (is_call(request, call) && neighbour().owns_handle(first_word(request))) {
      return "a handle of the neighbour's can be used";
    }
  }
  if (is_call(request, NEURON_IOCTL_DMA_QUEUE_COPY_START) && names_its_queue(request) &&
      !neighbour().was_reset()) {
    return "a queue of the neighbour's is started";
  }
  return "";
}

bool allocates(uint64_t request) {
  return request == NEURON_IOCTL_MEM_ALLOC || request == NEURON_IOCTL_MEM_ALLOC_V2 ||
         request == NEURON_IOCTL_MEM_ALLOC_V2MT || request == NEURON_IOCTL_MEM_ALLOC_V2MT64;
}

// --- clients --------------------------------------------------------------------------------

// What the daemon has for a connection: a session, and threads that carry out its calls. Where
// answers go, nobody reads them but the thread that has caused them.
class Client {
 public:
  Client(service::Session* session, Shared& shared) : session_(session), shared_(shared) {
    for (unsigned t = 0; t < kThreads; ++t) threads_.emplace_back([this] { work(); });
  }
  ~Client() {
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

  service::Session& session() { return *session_; }
  void submit(std::unique_ptr<transport::Call> call) {
    {
      const std::lock_guard lock(mutex_);
      calls_.push_back(std::move(call));
    }
    changed_.notify_all();
  }
  // Whether its calls have ended, at the latest after kRest.
  bool rest() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kRest, [this] { return calls_.empty() && running_ == 0; });
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
    // Those who are gone begin no more calls, as in the daemon.
    if (gone_.load(std::memory_order_relaxed)) return;
    const bool starts = may_start_descriptors(call.request);
    if (starts) ++shared_.starting;
    (void)transport::carry_out(*session_, sockets[0], call, buffers(), gone_);
    alignas(8) std::byte answer[wire::kMaxMessage];
    base::PacketFiles files;
    const ssize_t got = base::receive_packet(sockets[1], answer, files, MSG_DONTWAIT);
    wire::Reply reply;
    if (got < static_cast<ssize_t>(sizeof(reply))) found("a call has no answer");
    std::memcpy(&reply, answer, sizeof(reply));
    const std::span<const std::byte> bytes{answer, static_cast<size_t>(got)};
    if (reply.header.size != bytes.size()) found("an answer has another size than it says");
    if (starts && reply.result == 0) shared_.started = true;
    if (starts) --shared_.starting;
    look_at(call.request, reply, bytes, files);
  }
  void look_at(const transport::Request& request, const wire::Reply& reply,
               std::span<const std::byte> bytes, const base::PacketFiles& files) {
    if (const std::string what = trespass(request, reply.result); !what.empty()) found(what);
    if (neighbour().is_secret(bytes) && !shared_.reached()) {
      found("an answer holds what only the neighbour knows");
    }
    for (const base::FileDescriptor& file : files) {
      if (file && neighbour().is_own_file(file.get())) {
        found("an answer brings a file of the neighbour's");
      }
    }
    if (request.kind != wire::Kind::kIoctl || reply.result != 0) return;
    uint64_t handle = 0;
    if (allocates(request.ioctl.request) && reply.data_bytes == sizeof(handle)) {
      std::memcpy(&handle, &bytes[bytes.size() - sizeof(handle)], sizeof(handle));
      shared_.name(handle);
    }
  }

  service::Session* const session_;
  Shared& shared_;
  std::atomic<bool> gone_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<transport::Call>> calls_;
  unsigned running_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

// A page of memory that a process has from its beginning, so that there is something to name.
struct Page {
  uint64_t handle = 0;
  Mapping mapping;
};

// A process with one descriptor or two. Nothing of it is there when the device has no place for it.
class Process {
 public:
  Process(unsigned index, Shared& shared) : index_(index), shared_(shared) { begin(); }
  ~Process() { end(); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const service::Client& identity() const { return identity_; }
  // Null: it is not there.
  Client* client(unsigned descriptor) { return clients_[descriptor].get(); }
  void rest() {
    for (auto& client : clients_) {
      if (client != nullptr) (void)client->rest();
    }
  }
  void die() {
    for (auto& client : clients_) {
      if (client != nullptr) client->die();
    }
  }
  // Dies, and another process has its number.
  void begin_anew() {
    end();
    begin();
  }
  void reopen(unsigned descriptor) {
    if (clients_[descriptor] == nullptr) return;
    if (!clients_[descriptor]->rest()) clients_[descriptor]->die();
    // They are its first descriptor's.
    if (descriptor == index_) keep_pages();
    clients_[descriptor].reset();
    open(descriptor);
  }

 private:
  void begin() {
    identity_ = {kPid + static_cast<int32_t>(index_), kUserOf[index_], next_process()};
    for (unsigned descriptor = 0; descriptor < kDescriptors; ++descriptor) {
      if (kProcessOf[descriptor] == index_) open(descriptor);
    }
  }
  void end() {
    die();
    keep_pages();
    for (auto& client : clients_) client.reset();
  }
  void keep_pages() {
    for (Page& page : pages_) shared_.keep(std::move(page.mapping));
    pages_ = {};
  }
  void open(unsigned descriptor) {
    service::Session* session = nullptr;
    // No place is left, with a crowd of its user.
    if (instance().open(0, kReadWrite, identity_, &session) != 0) return;
    if (descriptor == index_) furnish(*session);
    clients_[descriptor] = std::make_unique<Client>(session, shared_);
  }
  // Memory of both kinds, and a queue on it.
  void furnish(service::Session& session) {
    for (const bool host : {false, true}) {
      Page& page = pages_[host];
      __u64 handle = 0;
      neuron_ioctl_mem_alloc_v2_mem_type64 request = {};
      request.size = Neighbour::kBytes;
      request.host_memory = host;
      request.mem_handle = &handle;
      if (session.ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request) != 0) return;
      neuron_ioctl_mem_get_extended_info info = {};
      info.mem_handle = handle;
      if (session.ioctl(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &info) != 0) return;
      page.handle = handle;
      page.mapping = Mapping::of(session, info.pa, Neighbour::kBytes);
      shared_.scribble();
      // A second descriptor of the process may guess the handle.
      const bool alone = clients_.back() == nullptr || kProcessOf[kDescriptors - 1] != index_;
      for (size_t i = 0; i < page.mapping.size() && alone && !shared_.reached(); ++i) {
        if (page.mapping.words()[i] != 0) found("memory is given out with another one's bytes");
      }
      neuron_ioctl_memset fill = {handle, 0, 0xA0u + index_, Neighbour::kBytes};
      (void)session.ioctl(NEURON_IOCTL_MEMSET, &fill);
      shared_.name(handle);
      shared_.name(info.pa);
    }
    const uint32_t engine = 2 + index_;
    neuron_ioctl_dma_queue_init init = {
        engine, 1, Neighbour::kRing, Neighbour::kRing, pages_[1].handle, pages_[1].handle, 0, 0};
    (void)session.ioctl(NEURON_IOCTL_DMA_QUEUE_INIT, &init);
    shared_.name(static_cast<uint64_t>(identity_.pid));
    shared_.name(engine | uint64_t{1} << 32);
  }

  const unsigned index_;
  Shared& shared_;
  service::Client identity_;
  std::array<std::unique_ptr<Client>, kDescriptors> clients_;
  std::array<Page, 2> pages_;
};

// Further processes, which do nothing but take places.
class Crowd {
 public:
  Crowd() = default;
  ~Crowd() {
    for (service::Session* session : sessions_) instance().close(session);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  void come(uint32_t user, unsigned count) {
    for (unsigned i = 0; i < count && sessions_.size() < kMostCrowd; ++i) {
      service::Session* session = nullptr;
      const int32_t pid = kPidOfCrowd + static_cast<int32_t>(sessions_.size());
      if (instance().open(0, kReadWrite, {pid, user, next_process()}, &session) != 0) return;
      sessions_.push_back(session);
    }
  }

 private:
  std::vector<service::Session*> sessions_;
};

// Whatever others have taken, somebody of another user gets in and gets memory.
void expect_newcomer_served() {
  service::Session* session = nullptr;
  if (instance().open(0, kReadWrite, {kPidOfNewcomer, kNewcomer, next_process()}, &session) != 0) {
    found(std::string("somebody new is not served: ") + service::last_error());
  }
  for (const bool host : {false, true}) {
    __u64 handle = 0;
    neuron_ioctl_mem_alloc_v2_mem_type64 request = {};
    request.size = Neighbour::kBytes;
    request.host_memory = host;
    request.mem_handle = &handle;
    if (session->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request) != 0) {
      found(std::string("somebody new gets no memory: ") + service::last_error());
    }
    neuron_ioctl_mem_get_extended_info info = {};
    info.mem_handle = handle;
    if (session->ioctl(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &info) != 0 ||
        !Mapping::of(*session, info.pa, Neighbour::kBytes)) {
      found(std::string("somebody new cannot map memory: ") + service::last_error());
    }
  }
  instance().close(session);
}

// --- inputs ---------------------------------------------------------------------------------

void carry_out(const uint8_t* data, size_t size, Shared& shared) {
  const uint8_t flags = data[0];
  std::vector<std::unique_ptr<Process>> processes;
  for (unsigned i = 0; i < kProcesses; ++i) {
    processes.push_back(std::make_unique<Process>(i, shared));
  }
  Crowd crowd;
  size_t at = 1;
  for (unsigned step = 0; step < kMostSteps && at + 5 <= size; ++step) {
    const uint8_t what = data[at];
    const uint8_t masks[2] = {data[at + 1], data[at + 2]};
    const unsigned number = data[at + 3] | data[at + 4] << 8;
    at += 5;
    const unsigned descriptor = what % kDescriptors;
    Process& process = *processes[kProcessOf[descriptor]];
    switch (what >> 2 & 3) {
      case kDeath:
        process.die();
        if (number % 2 != 0) process.begin_anew();
        break;
      case kClose:
        if (number % 2 != 0) {
          process.rest();
        } else {
          process.reopen(descriptor);
        }
        break;
      case kCrowd:
        crowd.come(kUserOf[kProcessOf[descriptor]], number % 8);
        break;
      default: {
        const size_t length = std::min<size_t>(number & 0x3FFF, size - at);
        const auto* begin = reinterpret_cast<const std::byte*>(data) + at;
        at += length;
        auto call = parse({begin, length}, process.identity(), flags, masks, shared);
        Client* client = process.client(descriptor);
        if (call != nullptr && client != nullptr) client->submit(std::move(call));
      }
    }
  }
  for (const auto& process : processes) process->rest();
  expect_newcomer_served();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  Shared shared;
  shared.names = neighbour().names();
  for (const uint64_t number : {0, 1, 2, 3, 64}) shared.names.push_back(number);
  carry_out(data, size, shared);
  shared.scribble();
  if (const std::string harm = neighbour().harm(shared.started); !harm.empty()) {
    found("the neighbour is harmed: " + harm);
  }
  if (const std::string left = neighbour().leftovers(); !left.empty()) {
    found("all are gone, and " + left);
  }
  return 0;
}
