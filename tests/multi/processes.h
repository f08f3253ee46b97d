// SPDX-License-Identifier: Apache-2.0
// A daemon and its clients as child processes, for tests and benchmarks.
//
// Concepts: a Worker is a multi-worker process asked by lines, answered by lines; nothing waits
// longer than kPatience. Callers: one thread. Owns: the processes, which are killed and reaped by
// the destructors, and a scratch folder.
#ifndef TESTS_MULTI_PROCESSES_H
#define TESTS_MULTI_PROCESSES_H

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace neuron::multi {

using Clock = std::chrono::steady_clock;
inline constexpr std::chrono::seconds kPatience{60};

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/neuron-multi-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string contents(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

// A child whose stdin and stdout are pipes and whose stderr is a file.
class Process {
 public:
  Process(const std::vector<std::string>& command, const std::map<std::string, std::string>& extra,
          const std::string& log) {
    int to[2], from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0) return;
    const int error = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], STDIN_FILENO);
      ::dup2(from[1], STDOUT_FILENO);
      ::dup2(error, STDERR_FILENO);
      for (const auto& [name, value] : extra) ::setenv(name.c_str(), value.c_str(), 1);
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    ::close(error);
    in_ = to[1];
    out_ = from[0];
  }
  ~Process() {
    signal(SIGKILL);
    reap();
    if (in_ >= 0) ::close(in_);
    if (out_ >= 0) ::close(out_);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const {
    if (pid_ > 0 && !reaped_) ::kill(pid_, number);
  }
  // Waits for the end: the status of waitpid.
  int reap() {
    int status = 0;
    if (pid_ > 0 && !reaped_) ::waitpid(pid_, &status, 0);
    reaped_ = true;
    return status;
  }
  // Whether it has ended; it is left for reap().
  bool ended() const {
    siginfo_t info = {};
    return pid_ <= 0 || reaped_ ||
           (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == pid_);
  }
  bool say(const std::string& line) {
    const std::string text = line + "\n";
    return ::write(in_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  void close_input() {
    ::close(in_);
    in_ = -1;
  }
  void close_output() {
    ::close(out_);
    out_ = -1;
  }
  // The next line of stdout; "(nothing)" after kPatience, "(end)" when there is no more.
  std::string line() {
    const auto end = Clock::now() + kPatience;
    for (;;) {
      const size_t found = read_.find('\n');
      if (found != std::string::npos) {
        const std::string text = read_.substr(0, found);
        read_.erase(0, found + 1);
        return text;
      }
      const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
      pollfd readable = {out_, POLLIN, 0};
      if (rest.count() <= 0 || ::poll(&readable, 1, static_cast<int>(rest.count())) <= 0)
        return "(nothing)";
      char buffer[4096];
      const ssize_t length = ::read(out_, buffer, sizeof(buffer));
      if (length <= 0) return "(end)";
      read_.append(buffer, static_cast<size_t>(length));
    }
  }
  std::string ask(const std::string& question) { return say(question) ? line() : "(end)"; }

 private:
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  bool reaped_ = false;
  std::string read_;
};

// A neuron-emulatord of its own at socket() in `folder`.
class Daemon {
 public:
  // `before`: a program that starts it in its own place.
  explicit Daemon(const Folder& folder, const std::string& profile = "trn1.2xlarge",
                  const std::string& name = "socket", std::vector<std::string> before = {})
      : socket_(folder.path() + "/" + name),
        log_(folder.path() + "/" + name + ".log"),
        process_(command(std::move(before), profile), {}, log_) {
    const auto end = Clock::now() + kPatience;
    while (!answers() && !process_.ended() && Clock::now() < end) ::usleep(1000);
  }
  const std::string& socket() const { return socket_; }
  std::string log() const { return contents(log_); }
  Process& process() { return process_; }

 private:
  std::vector<std::string> command(std::vector<std::string> words, const std::string& profile) {
    words.insert(words.end(), {std::string(NEURON_BUILD_DIR) + "/bin/neuron-emulatord", "--profile",
                               profile, "--socket", socket_});
    return words;
  }
  bool answers() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    socket_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const bool connected =
        ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(fd);
    return connected;
  }

  const std::string socket_, log_;
  Process process_;
};

// A client with one core of the device.
class Worker {
 public:
  Worker(const Folder& folder, const std::string& emulator, int core, const std::string& neff,
         const std::map<std::string, std::string>& extra = {})
      : log_(folder.path() + "/worker-" + std::to_string(core) + ".log"),
        process_({std::string(NEURON_BUILD_DIR) + "/tests/multi-worker", neff, "0"},
                 environment(emulator, core, extra), log_) {}
  Process& process() { return process_; }
  std::string line() { return process_.line(); }
  std::string ask(const std::string& question) { return process_.ask(question); }
  std::string log() const { return contents(log_); }

 private:
  static std::map<std::string, std::string> environment(const std::string& emulator, int core,
                                                        std::map<std::string, std::string> extra) {
    extra["NEURON_EMULATOR"] = emulator;
    extra["NEURON_RT_VISIBLE_CORES"] = std::to_string(core);
    return extra;
  }
  const std::string log_;
  Process process_;
};

}  // namespace neuron::multi

#endif
