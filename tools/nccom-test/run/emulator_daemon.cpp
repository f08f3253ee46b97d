// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/emulator_daemon.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "driver/base/file_descriptor.h"

namespace neuron::nccom {

using base::FileDescriptor;
using ccom::fail;
using ccom::Result;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kPatience{20};

// Beside this program, or wherever programs are.
std::string daemon_program() {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto beside = own.parent_path() / "neuron-emulatord";
  return !error && std::filesystem::exists(beside, error) ? beside.string() : "neuron-emulatord";
}

std::string contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

Result<std::unique_ptr<EmulatorDaemon>> EmulatorDaemon::start_if_needed() {
  const char* emulator = std::getenv("NEURON_EMULATOR");
  if (emulator == nullptr || *emulator == 0 || std::string(emulator).compare(0, 5, "unix:") == 0) {
    return std::unique_ptr<EmulatorDaemon>();
  }
  std::unique_ptr<EmulatorDaemon> daemon(new EmulatorDaemon);
  daemon->profile_ = emulator;
  NEURON_CHECK(daemon->start());
  return daemon;
}

Result<void> EmulatorDaemon::start() {
  char folder[] = "/tmp/nccom-test-XXXXXX";
  if (mkdtemp(folder) == nullptr) {
    return ccom::system_error(errno, "no folder for the emulator in /tmp");
  }
  folder_ = folder;
  socket_ = folder_ + "/neuron";
  log_ = folder_ + "/log";
  const std::string program = daemon_program();
  const base::FileDescriptor log(open(log_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const base::FileDescriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!log || !nothing) return ccom::system_error(errno, "the log of the emulator");
  const char* arguments[] = {program.c_str(), "--profile",     profile_.c_str(),
                             "--socket",      socket_.c_str(), nullptr};
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) return ccom::system_error(errno, "no process for the emulator");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(127);
    dup2(nothing.get(), STDIN_FILENO);
    dup2(log.get(), STDOUT_FILENO);
    dup2(log.get(), STDERR_FILENO);
    unsetenv("NEURON_EMULATOR");
    execvp(arguments[0], const_cast<char**>(arguments));
    _exit(127);
  }
  const auto end = Clock::now() + kPatience;
  while (!answers()) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return fail(
          CCOM_SYSTEM,
          "one process for each rank needs neuron-emulatord, which shares emulated devices; "
          "{} --profile {} ended: {}",
          program, profile_,
          WIFEXITED(status) && WEXITSTATUS(status) == 127 ? "no such program" : contents(log_));
    }
    if (Clock::now() > end) {
      return fail(CCOM_TIMEOUT, "{} does not answer at {} after {} s", program, socket_,
                  kPatience.count());
    }
    usleep(2000);
  }
  setenv("NEURON_EMULATOR", ("unix:" + socket_).c_str(), 1);
  return {};
}

bool EmulatorDaemon::answers() const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path, sizeof address.sun_path - 1);
  const base::FileDescriptor client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  return client &&
         connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

EmulatorDaemon::~EmulatorDaemon() {
  if (!profile_.empty()) setenv("NEURON_EMULATOR", profile_.c_str(), 1);
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    const auto end = Clock::now() + std::chrono::seconds(2);
    while (waitpid(pid_, nullptr, WNOHANG) == 0) {
      if (Clock::now() > end) {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        break;
      }
      usleep(1000);
    }
  }
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace neuron::nccom
