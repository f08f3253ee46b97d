// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/joined_team.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "driver/base/deadline.h"
#include "driver/base/file_descriptor.h"
#include "driver/base/hexadecimal.h"
#include "driver/base/hmac_sha256.h"
#include "driver/base/random_bytes.h"
#include "tools/launched/launched.h"
#include "tools/nccom-test/run/emulator_daemon.h"
#include "tools/nccom-test/run/rank_threads.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::format;
using ccom::Result;
using Clock = Collector::Clock;

namespace {

constexpr std::chrono::seconds kAllJoined{60};
constexpr std::chrono::milliseconds kPause{50}, kLastWords{1000};
constexpr size_t kLongestGreeting = 256, kLongestSettings = 8192;
// Connections that have not answered the challenge: the oldest of more is closed, and each after a
// while.
constexpr size_t kMostStrangers = 64;
constexpr std::chrono::seconds kToAnswer{10};
constexpr const char* kNothing = "-";  // in place of a word that is empty

uint32_t ranks_of_process(const Options& options) {
  return options.ranks / options.launched->processes;
}

std::string random_text() {
  std::array<uint8_t, 16> bytes{};
  return base::random_bytes(bytes) ? base::hexadecimal(bytes) : "";
}

bool has_secret() {
  const char* const given = std::getenv("CCOM_SECRET");
  return given != nullptr && *given != 0;
}

// What only a process that knows the secret can say about a text.
std::string proof_of(const std::string& text, const std::string& root) {
  const std::string key = has_secret() ? std::getenv("CCOM_SECRET") : root;
  const std::string data = "nccom-test " + text;
  return base::hexadecimal(
      base::hmac_sha256(std::as_bytes(std::span(key)), std::as_bytes(std::span(data))));
}

// Both sides prove that they know the secret, each with a challenge of the other.
std::string answer_to(const std::string& challenge, uint32_t process, const std::string& root) {
  return proof_of(format("process {} {}", challenge, process), root);
}
std::string proof_of_settings(const std::string& challenge, const std::string& settings,
                              const std::string& root) {
  return proof_of(format("settings {} {}", challenge, settings), root);
}
// The secret of the ranks. It does not travel: the network may have listeners.
std::string secret_of_ranks(const std::string& number, const std::string& root) {
  return proof_of("ranks " + number, root);
}

// Takes as long for different texts as for equal ones.
bool equal_proofs(const std::string& a, const std::string& b) {
  const auto digest = [](const std::string& text) {
    return base::Sha256::of({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  };
  return base::equal_digests(digest(a), digest(b));
}

// The port behind that of ADDRESS:PORT, of an IPv4 address.
Result<sockaddr_in> leader_address(const std::string& root) {
  if (const auto address = tools::address_behind(root)) return *address;
  return fail(CCOM_INVALID,
              "the address of rank 0 is \"{}\"; under mpirun or srun it must be IPV4:PORT, and the "
              "port behind it free as well",
              root);
}

bool send_all(int descriptor, const std::string& text) {
  return send(descriptor, text.data(), text.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(text.size());
}

struct Peer {
  base::FileDescriptor connection;
  std::string challenge;
  Clock::time_point until;               // to answer
  std::optional<uint32_t> process = {};  // once it has answered
  std::string text = {};                 // not yet a whole line
};

class JoinedTeam final : public Team {
 public:
  explicit JoinedTeam(const RunContext& context) : context_(context) {}
  ~JoinedTeam() override { stop(std::chrono::milliseconds(0)); }

  Result<void> start(Collector& collector) {
    const Options& options = *context_.options;
    if (context_.backend == Backend::kDevice && options.nodes == 1) {
      NEURON_TRY(started, EmulatorDaemon::start_if_needed());
      emulator_ = std::move(started);
    }
    NEURON_TRY(address, leader_address(options.root));
    listener_ =
        base::FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    if (!listener_ || setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener_.get(), SOMAXCONN) != 0) {
      return ccom::system_error(
          errno, format("cannot listen for the other processes at the port behind {}; give all "
                        "processes another NEURON_RT_ROOT_COMM_ID=ADDRESS:PORT",
                        options.root));
    }
    const bool loopback = (ntohl(address.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
    if (!loopback && !has_secret()) {
      std::fprintf(stderr,
                   "nccom-test: whoever reaches %s can join this job; export CCOM_SECRET to all of "
                   "its processes\n",
                   options.root.c_str());
    }
    number_ = random_text();
    if (number_.empty()) return fail(CCOM_SYSTEM, "the system gives no random numbers");
    joined_.assign(options.launched->processes, false);
    joined_[0] = true;
    NEURON_TRY(threads, RankThreads::start(
                            context_, {0, ranks_of_process(options)}, options.root,
                            secret_of_ranks(number_, options.root),
                            [&collector](const Message& message) { collector.put(message); }));
    threads_ = std::move(threads);
    return {};
  }

  void poll(Collector& collector, Clock::time_point until) override {
    std::vector<pollfd> waiting;
    if (listener_) waiting.push_back({listener_.get(), POLLIN, 0});
    const size_t first = waiting.size();
    for (const Peer& peer : peers_) waiting.push_back({peer.connection.get(), POLLIN, 0});
    // The leader's own ranks report past this call: it must not sleep long.
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::min(until - Clock::now(), Clock::duration(kPause)));
    ::poll(waiting.data(), waiting.size(), static_cast<int>(std::max<int64_t>(left.count(), 0)));
    for (size_t i = peers_.size(); i-- > 0;) {
      if (waiting[first + i].revents != 0 && !receive(peers_[i], collector)) {
        peers_.erase(peers_.begin() + static_cast<ptrdiff_t>(i));
      }
    }
    if (listener_ && waiting.front().revents != 0) greet();
    std::erase_if(peers_, [&](const Peer& peer) {
      return !peer.process && (!listener_ || Clock::now() > peer.until);
    });
    if (threads_->got_on()) collector.get_on();
    if (listener_ && Clock::now() > end_of_joining_) miss(collector);
  }

  bool stop(std::chrono::milliseconds patience) override {
    listener_ = base::FileDescriptor();
    std::erase_if(peers_, [](const Peer& peer) { return !peer.process; });
    // A worker that is through ends by itself, with status 0; one that is not, when its input ends.
    await_ends(std::min(patience, kLastWords));
    for (const Peer& peer : peers_) shutdown(peer.connection.get(), SHUT_WR);
    if (threads_ == nullptr) return true;
    threads_->abort();
    if (!threads_->ended(patience)) {
      // A thread that does not end cannot be destroyed; the process ends.
      static_cast<void>(threads_.release());
      return false;
    }
    threads_.reset();
    return true;
  }

 private:
  uint32_t processes() const { return context_.options->launched->processes; }
  std::string name_of(uint32_t process) const {
    const uint32_t count = ranks_of_process(*context_.options);
    return format("process {} of {} (ranks {}-{}, started by {})", process, processes(),
                  process * count, process * count + count - 1,
                  context_.options->launched->launcher);
  }

  void lose(uint32_t process, const std::string& how, Collector& collector) const {
    const uint32_t count = ranks_of_process(*context_.options);
    for (uint32_t i = 0; i < count; ++i) collector.lost(process * count + i, how);
  }

  void await_ends(std::chrono::milliseconds patience) {
    const auto end = base::Deadline::after(patience);
    char ignored[4096];
    while (!peers_.empty() && !end.expired()) {
      pollfd first{peers_.back().connection.get(), POLLIN, 0};
      if (::poll(&first, 1, end.remaining_ms()) <= 0) continue;
      const ssize_t length = recv(first.fd, ignored, sizeof ignored, MSG_DONTWAIT);
      if (length == 0 || (length < 0 && errno != EINTR && errno != EAGAIN)) peers_.pop_back();
    }
  }

  void greet() {
    base::FileDescriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection) return;
    Peer peer{.connection = std::move(connection),
              .challenge = random_text(),
              .until = Clock::now() + kToAnswer};
    if (peer.challenge.empty()) return;
    const auto stranger = [](const Peer& other) { return !other.process; };
    if (std::count_if(peers_.begin(), peers_.end(), stranger) >=
        static_cast<ptrdiff_t>(kMostStrangers)) {
      peers_.erase(std::find_if(peers_.begin(), peers_.end(), stranger));
    }
    const int on = 1;
    setsockopt(peer.connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (send_all(peer.connection.get(), "nccom-test 1 " + peer.challenge + "\n")) {
      peers_.push_back(std::move(peer));
    }
  }

  // False: the connection is over.
  bool receive(Peer& peer, Collector& collector) {
    char buffer[65536];
    const ssize_t length = recv(peer.connection.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (length <= 0) {
      if (peer.process) {
        lose(*peer.process, name_of(*peer.process) + " has closed its connection", collector);
      }
      return false;
    }
    peer.text.append(buffer, static_cast<size_t>(length));
    if (!peer.process) {
      const size_t end = peer.text.find('\n');
      if (end == std::string::npos) return peer.text.size() <= kLongestGreeting;
      if (!admit(peer, peer.text.substr(0, end))) return false;
      peer.text.erase(0, end + 1);
    }
    put_lines(peer.text, name_of(*peer.process), collector);
    return true;
  }

  // "PROCESS ANSWER CHALLENGE"
  bool admit(Peer& peer, const std::string& line) {
    uint32_t process = 0;
    char answer[65] = "", challenge[65] = "";
    const std::string& root = context_.options->root;
    if (std::sscanf(line.c_str(), "%u %64s %64s", &process, answer, challenge) != 3 ||
        process >= processes() || joined_[process] ||
        !equal_proofs(answer, answer_to(peer.challenge, process, root))) {
      std::fprintf(stderr,
                   "nccom-test: a process that does not belong to this job, or has another "
                   "CCOM_SECRET, has been turned away\n");
      return false;
    }
    const char* const emulator = emulator_ == nullptr ? nullptr : std::getenv("NEURON_EMULATOR");
    const std::string settings =
        format("{} {} {} {}", context_.seed, backend_name(context_.backend), number_,
               emulator == nullptr ? kNothing : emulator);
    const std::string told = proof_of_settings(challenge, settings, root) + " " + settings + "\n";
    if (!send_all(peer.connection.get(), told)) return false;
    joined_[process] = true;
    peer.process = process;
    if (std::find(joined_.begin(), joined_.end(), false) == joined_.end()) {
      listener_ = base::FileDescriptor();
    }
    return true;
  }

  void miss(Collector& collector) {
    listener_ = base::FileDescriptor();
    for (uint32_t process = 0; process < processes(); ++process) {
      if (joined_[process]) continue;
      lose(process,
           format("{} has not joined within {} s; it must reach {} and the port behind it",
                  name_of(process), kAllJoined.count(), context_.options->root),
           collector);
    }
  }

  const RunContext context_;
  std::unique_ptr<EmulatorDaemon> emulator_;  // outlives the ranks
  base::FileDescriptor listener_;
  std::vector<Peer> peers_;
  std::vector<bool> joined_;  // by process
  std::string number_;        // of this job
  std::unique_ptr<RankThreads> threads_;
  const Clock::time_point end_of_joining_ = Clock::now() + kAllJoined;
};

// Connects until the leader listens.
Result<base::FileDescriptor> connect_to(const std::string& root) {
  NEURON_TRY(address, leader_address(root));
  const auto end = base::Deadline::after(kAllJoined);
  int error = 0;
  while (!end.expired()) {
    base::FileDescriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connection && connect(connection.get(), reinterpret_cast<const sockaddr*>(&address),
                              sizeof address) == 0) {
      return connection;
    }
    error = errno;
    std::this_thread::sleep_for(kPause);
  }
  return ccom::system_error(
      error, format("process 0 cannot be reached at the port behind {} for {} s", root,
                    kAllJoined.count()));
}

// One line, a character at a time: what follows belongs to the worker.
std::string read_line(int descriptor, size_t longest, base::Deadline end) {
  std::string line;
  while (line.size() < longest) {
    pollfd input{descriptor, POLLIN, 0};
    char c = 0;
    if (end.expired() || ::poll(&input, 1, static_cast<int>(kPause.count())) < 0) return "";
    if ((input.revents & (POLLIN | POLLHUP)) == 0) continue;
    if (read(descriptor, &c, 1) != 1) return "";
    if (c == '\n') return line;
    line += c;
  }
  return "";
}

}  // namespace

Result<std::unique_ptr<Team>> lead_launched(const RunContext& context, Collector& collector) {
  std::signal(SIGPIPE, SIG_IGN);
  auto team = std::make_unique<JoinedTeam>(context);
  NEURON_CHECK(team->start(collector));
  return std::unique_ptr<Team>(std::move(team));
}

int join_launched(RunContext context) {
  const auto complain = [&](const std::string& sentence) {
    std::fprintf(stderr, "nccom-test: process %u of %u: %s\n", context.options->launched->process,
                 context.options->launched->processes, sentence.c_str());
    return 1;
  };
  std::signal(SIGPIPE, SIG_IGN);
  const Options& options = *context.options;
  const uint32_t process = options.launched->process;
  auto connection = connect_to(options.root);
  if (!connection) return complain(connection.error().sentence);
  const auto end = base::Deadline::after(kAllJoined);
  char challenge[65] = "", backend[32] = "", number[65] = "";
  const std::string greeting = read_line(connection->get(), kLongestGreeting, end);
  if (std::sscanf(greeting.c_str(), "nccom-test 1 %64s", challenge) != 1) {
    return complain(format("what listens at the port behind {} is no nccom-test", options.root));
  }
  const std::string own = random_text();
  if (own.empty()) return complain("the system gives no random numbers");
  send_all(connection->get(),
           format("{} {} {}\n", process, answer_to(challenge, process, options.root), own));
  const std::string told = read_line(connection->get(), kLongestSettings, end);
  const size_t space = told.find(' ');
  const std::string settings = told.substr(std::min(told.size(), space + 1));
  if (space != std::string::npos &&
      !equal_proofs(told.substr(0, space), proof_of_settings(own, settings, options.root))) {
    return complain(
        format("what listens at the port behind {} does not know the secret of this "
               "job; see which process has the port",
               options.root));
  }
  unsigned long long seed = 0;
  int emulator = 0;  // where it begins; the rest of the line
  if (std::sscanf(settings.c_str(), "%llu %31s %64s %n", &seed, backend, number, &emulator) != 3 ||
      emulator == 0) {
    return complain(
        "process 0 has turned this one away: all processes of a job need the same "
        "CCOM_SECRET and the same NEURON_RT_ROOT_COMM_ID");
  }
  context.seed = seed;
  for (const Backend known : {Backend::kDevice, Backend::kHost, Backend::kNetwork}) {
    if (std::string_view(backend) == backend_name(known)) context.backend = known;
  }
  if (settings.substr(emulator) != kNothing) {
    setenv("NEURON_EMULATOR", settings.c_str() + emulator, 1);
  }
  // What a rank prints by mistake is no message.
  if (dup2(connection->get(), STDIN_FILENO) < 0 || dup2(connection->get(), STDOUT_FILENO) < 0) {
    return complain(ccom::system_error(errno, "the connection to process 0").sentence);
  }
  Options of_worker = options;
  const uint32_t count = ranks_of_process(options);
  of_worker.worker = WorkerPart{process * count, count};
  context.options = &of_worker;
  return run_worker(context, secret_of_ranks(number, options.root));
}

}  // namespace neuron::nccom
