// SPDX-License-Identifier: Apache-2.0
#include "tests/support/daemon.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <utility>

namespace neuron::test {

Daemon::Daemon(const Folder& folder, const std::string& profile)
    : Daemon(folder, profile, Options{}) {}

Daemon::Daemon(const Folder& folder, const std::string& profile, Options options)
    : socket_(folder.path(options.name + options.answers_at)),
      log_(folder.path(options.name + ".log")),
      command_(std::move(options.before)) {
  command_.insert(command_.end(), {built("bin/neuron-emulatord"), "--profile", profile, "--socket",
                                   folder.path(options.name)});
  command_.insert(command_.end(), options.arguments.begin(), options.arguments.end());
  restart();
}

void Daemon::restart() {
  process_.reset();
  process_ = std::make_unique<Process>(command_, Environment{}, log_);
  eventually([this] { return answers() || process_->ended(); });
}

Ending Daemon::control(const Words& command) const {
  constexpr int kNobodyListens = 3;
  Words words = {built("bin/neuron-emulatorctl"), "--socket", socket_};
  words.insert(words.end(), command.begin(), command.end());
  // The control channel is there a moment after the socket of the devices.
  Ending ending;
  eventually([&] { return (ending = run(words).ending) != kNobodyListens; });
  return ending;
}

bool Daemon::answers() const {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const base::FileDescriptor client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  return ::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
}

namespace {

Environment with(Environment extra, const std::string& emulator, int core) {
  extra["NEURON_EMULATOR"] = emulator;
  extra["NEURON_RT_VISIBLE_CORES"] = std::to_string(core);
  return extra;
}

}  // namespace

Worker::Worker(const Folder& folder, const std::string& emulator, int core, const std::string& neff,
               Environment extra)
    : log_(folder.path("worker-" + std::to_string(core) + ".log")),
      process_({built("tests/multi-worker"), neff, "0"}, with(std::move(extra), emulator, core),
               log_) {}

}  // namespace neuron::test
