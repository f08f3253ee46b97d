// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/launcher.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "driver/base/file_descriptor.h"
#include "driver/base/hexadecimal.h"
#include "driver/base/random_bytes.h"
#include "tools/common/child_process.h"
#include "tools/nccom-test/run/emulator_daemon.h"
#include "tools/nccom-test/run/rank_threads.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::format;
using ccom::Result;
using Clock = Collector::Clock;

namespace {

// How often a process says that its ranks get on. The watchdog's patience is longer than two of it.
constexpr std::chrono::milliseconds kTellsProgress{750};
constexpr int kNoProgram = 127;  // the exit status of a shell that does not find a program

Result<std::string> new_secret() {
  std::array<uint8_t, 16> bytes = {};
  // Without a secret the ranks would let in whoever knows their address.
  if (!base::random_bytes(bytes)) return fail(CCOM_SYSTEM, "the system gives no random numbers");
  return base::hexadecimal(bytes);
}

// An address on the loopback that was free a moment ago.
Result<std::string> free_root() {
  const base::FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (!listener || bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return ccom::system_error(errno, "no free port on the loopback interface");
  }
  return format("127.0.0.1:{}", ntohs(address.sin_port));
}

class ThreadTeam final : public Team {
 public:
  explicit ThreadTeam(std::unique_ptr<RankThreads> threads) : threads_(std::move(threads)) {}
  void poll(Collector& collector, Clock::time_point until) override {
    collector.wait_until(until);
    if (threads_->got_on()) collector.get_on();
  }
  bool stop(std::chrono::milliseconds patience) override {
    threads_->abort();
    if (threads_->ended(patience)) return true;
    // A thread that does not end cannot be destroyed; the process ends.
    (void)threads_.release();
    return false;
  }

 private:
  std::unique_ptr<RankThreads> threads_;
};

// One process: its pipes, its ranks, and output that is not yet a whole line.
struct Child {
  tools::ChildProcess process;
  WorkerPart part;
  std::string name;
  std::string launcher = {};  // the program that starts it on its host
  std::string text = {};
};

class ProcessTeam final : public Team {
 public:
  // `emulator`: what the processes share; ended behind them.
  explicit ProcessTeam(std::unique_ptr<EmulatorDaemon> emulator) : emulator_(std::move(emulator)) {}
  ~ProcessTeam() override { stop(std::chrono::milliseconds(0)); }

  Result<void> start(const std::vector<std::string>& words, const WorkerPart& part,
                     const std::string& name, const std::string& launcher,
                     const std::string& secret, const std::string& log) {
    base::FileDescriptor errors;
    if (!log.empty()) {
      errors =
          base::FileDescriptor(open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
      if (!errors) return ccom::system_error(errno, format("log {}", log));
    }
    using Stream = tools::ChildProcess::Stream;
    Child child{.process = tools::ChildProcess({.command = words,
                                                .input = Stream::kPipe,
                                                .errors = Stream::kLog,
                                                .log = errors.get(),
                                                .signal_at_our_death = SIGKILL}),
                .part = part,
                .name = name,
                .launcher = launcher};
    if (child.process.ended_by(base::Deadline::after(std::chrono::milliseconds(0))) &&
        child.process.ending().how == tools::Ending::How::kNotStarted) {
      return ccom::system_error(child.process.ending().code,
                                format("{}: '{}' cannot be started", name, words.front()));
    }
    const std::string line = secret + "\n";
    // A process that is already gone is noticed when its output ends.
    if (write(child.process.input(), line.data(), line.size()) < 0 && errno != EPIPE) {
      return ccom::system_error(errno, format("cannot speak to {}", name));
    }
    children_.push_back(std::move(child));
    return {};
  }

  void poll(Collector& collector, Clock::time_point until) override {
    std::vector<pollfd> waiting;
    std::vector<Child*> who;
    for (Child& child : children_) {
      if (child.process.output() < 0) continue;
      waiting.push_back({child.process.output(), POLLIN, 0});
      who.push_back(&child);
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (::poll(waiting.data(), waiting.size(), static_cast<int>(std::max<int64_t>(left, 0))) <= 0) {
      return;
    }
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0) receive(*who[i], collector);
    }
  }

  bool stop(std::chrono::milliseconds patience) override {
    for (Child& child : children_) child.process.close_input();
    const auto end = base::Deadline::after(patience);
    for (Child& child : children_) child.process.ended_by(end);
    for (const Child& child : children_) child.process.signal(SIGKILL);
    children_.clear();
    return true;
  }

 private:
  // Reads the available output; at its end reports how the process ended.
  void receive(Child& child, Collector& collector) {
    char buffer[65536];
    const ssize_t length = read(child.process.output(), buffer, sizeof buffer);
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (length <= 0) {
      child.process.close_output();
      tell_end(child, collector);
      return;
    }
    child.text.append(buffer, static_cast<size_t>(length));
    put_lines(child.text, child.name, collector);
  }

  void tell_end(Child& child, Collector& collector) {
    // The output is closed; the process itself ends at once or is stuck.
    const std::string which =
        child.launcher.empty()
            ? child.name
            : format("{}, started by '{}', which --debug shows whole", child.name, child.launcher);
    std::string how = "its process closed its output";
    if (child.process.ended_by(base::Deadline::after(std::chrono::seconds(1)))) {
      const tools::Ending& ending = child.process.ending();
      how = ending.how == tools::Ending::How::kNotStarted || ending.code == kNoProgram
                ? format("its process could not be started ({})", which)
                : format("its process ({}) {}", which, ending.sentence());
    }
    for (uint32_t i = 0; i < child.part.count; ++i) collector.lost(child.part.first + i, how);
  }

  std::unique_ptr<EmulatorDaemon> emulator_;
  std::vector<Child> children_;
};

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::string quoted_for_shell(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace

void put_lines(std::string& text, const std::string& name, Collector& collector) {
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const std::string_view line(text.data() + begin, end - begin);
    if (const auto message = from_line(line)) {
      collector.put(*message);
    } else {
      std::fprintf(stderr, "%s: %.*s\n", name.c_str(), static_cast<int>(line.size()), line.data());
    }
    begin = end + 1;
  }
  text.erase(0, begin);
}

std::vector<std::string> split_command(const std::string& command, const std::string& host) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;
  char quote = 0;
  for (size_t i = 0; i < command.size(); ++i) {
    const char c = command[i];
    if (command.compare(i, 6, "{host}") == 0) {
      word += host;
      open = true;
      i += 5;
    } else if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      open = true;
    } else if (c == ' ' || c == '\t') {
      if (open) words.push_back(word);
      word.clear();
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (open) words.push_back(word);
  return words;
}

Result<std::unique_ptr<Team>> start_threads(const RunContext& context, Collector& collector) {
  // Each rank of a process opens the memory of all others; most systems leave room above the limit
  // that they begin with.
  struct rlimit files = {};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
  }
  std::string root, secret;
  if (context.backend == Backend::kNetwork) {
    NEURON_TRY(free, free_root());
    root = free;
    NEURON_TRY(made, new_secret());
    secret = made;
  }
  NEURON_TRY(threads,
             RankThreads::start(context, {0, context.options->ranks}, root, secret,
                                [&collector](const Message& message) { collector.put(message); }));
  return std::unique_ptr<Team>(std::make_unique<ThreadTeam>(std::move(threads)));
}

Result<std::unique_ptr<Team>> start_processes(const RunContext& context) {
  const Options& options = *context.options;
  std::string root = options.root;
  if (root.empty() && options.nodes > 1) {
    return fail(CCOM_INVALID,
                "several nodes need NEURON_RT_ROOT_COMM_ID=ADDRESS:PORT, an address of the first "
                "host ({}) and a free port there",
                options.hosts.front());
  }
  if (root.empty()) {
    NEURON_TRY(free, free_root());
    root = free;
  }
  std::signal(SIGPIPE, SIG_IGN);
  NEURON_TRY(secret, new_secret());
  const uint32_t of_node = options.ranks / options.nodes;
  const uint32_t of_process = options.processes ? 1 : of_node;
  std::unique_ptr<EmulatorDaemon> emulator;
  if (context.backend == Backend::kDevice && options.hosts.empty()) {
    NEURON_TRY(started, EmulatorDaemon::start_if_needed());
    emulator = std::move(started);
  }
  auto team = std::make_unique<ProcessTeam>(std::move(emulator));
  for (uint32_t first = 0; first < options.ranks; first += of_process) {
    const uint32_t node = first / of_node;
    std::vector<std::string> words;
    const bool remote = !options.hosts.empty();
    if (remote) words = split_command(options.launch, options.hosts[node]);
    // The command may hold a secret.
    const std::string launcher = words.empty() ? "" : words.front();
    const bool shell = !words.empty() && words.front().find("ssh") != std::string::npos;
    std::vector<std::string> own = {tools::own_program()};
    own.insert(own.end(), options.arguments.begin(), options.arguments.end());
    own.insert(own.end(),
               {"--worker", format("{},{}", first, of_process), "--root-comm-id", root, "--seed",
                std::to_string(context.seed), "--backend", backend_name(context.backend),
                "--nnodes", std::to_string(options.nodes)});
    for (const std::string& word : own) words.push_back(shell ? quoted_for_shell(word) : word);
    const std::string name =
        remote ? format("ranks {}-{} on {}", first, first + of_process - 1, options.hosts[node])
               : format("ranks {}-{}", first, first + of_process - 1);
    const std::string log = options.log_folder.empty()
                                ? ""
                                : format("{}/nccom-test-rank{}.log", options.log_folder, first);
    if (options.debug) {
      std::fprintf(stderr, "nccom-test: %s: %s\n", name.c_str(), joined(words).c_str());
    }
    NEURON_CHECK(team->start(words, {first, of_process}, name, launcher, secret, log));
  }
  return std::unique_ptr<Team>(std::move(team));
}

int run_worker(const RunContext& context) {
  // The secret, one line; nothing behind it until the input ends.
  std::string secret;
  const auto end = Clock::now() + std::chrono::seconds(10);
  for (char c = 0; c != '\n';) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0 || ::poll(&input, 1, static_cast<int>(left)) <= 0 ||
        read(STDIN_FILENO, &c, 1) != 1) {
      std::fprintf(stderr, "nccom-test: --worker is for processes that nccom-test starts\n");
      return 2;
    }
    if (c != '\n') secret += c;
  }
  return run_worker(context, secret);
}

int run_worker(const RunContext& context, const std::string& secret) {
  std::mutex mutex;
  const Sink sink = [&mutex](const Message& message) {
    const std::string line = to_line(message) + "\n";
    const std::lock_guard lock(mutex);
    std::fwrite(line.data(), 1, line.size(), stdout);
    std::fflush(stdout);
  };
  auto threads =
      RankThreads::start(context, *context.options->worker, context.options->root, secret, sink);
  if (!threads) {
    for (uint32_t i = 0; i < context.options->worker->count; ++i) {
      Message message;
      message.kind = Message::Kind::kBroken;
      message.rank = context.options->worker->first + i;
      message.text = threads.error().sentence;
      sink(message);
    }
    return 1;
  }
  Message gets_on;
  gets_on.kind = Message::Kind::kGetsOn;
  gets_on.rank = context.options->worker->first;
  auto told = Clock::now();
  while (!(*threads)->ended(std::chrono::milliseconds(0))) {
    if (Clock::now() - told >= kTellsProgress && (*threads)->got_on()) {
      sink(gets_on);
      told = Clock::now();
    }
    pollfd input{STDIN_FILENO, POLLIN, 0};
    char c = 0;
    if (::poll(&input, 1, 50) > 0 && read(STDIN_FILENO, &c, 1) <= 0) {
      // The process that started this one wants it to end, or is gone.
      (*threads)->abort();
      if (!(*threads)->ended(std::chrono::seconds(1))) _exit(1);
      return 1;
    }
  }
  return 0;
}

}  // namespace neuron::nccom
