// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/emulator_daemon.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
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

using ccom::fail;
using ccom::Result;

namespace {

constexpr std::chrono::seconds kPatience{20};
constexpr std::chrono::milliseconds kDaemonPause{2};

// Looked for beside this program, else in PATH.
std::string daemon_program() {
  std::error_code error;
  const std::string beside = tools::program_beside("neuron-emulatord");
  return std::filesystem::exists(beside, error) ? beside : "neuron-emulatord";
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
  if (!log) return ccom::system_error(errno, "the log of the emulator");
  using Stream = tools::ChildProcess::Stream;
  process_.emplace(
      tools::ChildProcess::Options{.command = {program, "--profile", profile_, "--socket", socket_},
                                   .environment = {{"NEURON_EMULATOR", ""}},
                                   .output = Stream::kLog,
                                   .errors = Stream::kLog,
                                   .log = log.get(),
                                   .signal_at_our_death = SIGTERM});
  const auto end = base::Deadline::after(kPatience);
  while (!answers()) {
    if (process_->ended_by(base::Deadline::after(kDaemonPause))) {
      const bool missing = process_->ending().how == tools::Ending::How::kNotStarted;
      return fail(
          CCOM_SYSTEM,
          "one process for each rank needs neuron-emulatord, which shares emulated devices; "
          "{} --profile {} ended: {}",
          program, profile_, missing ? "no such program" : contents(log_));
    }
    if (end.expired()) {
      return fail(CCOM_TIMEOUT, "{} does not answer at {} after {} s", program, socket_,
                  kPatience.count());
    }
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
  if (process_) process_->end(SIGTERM, std::chrono::seconds(2));
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace neuron::nccom
