// SPDX-License-Identifier: Apache-2.0
// A neuron-emulatord of a test's own, and clients of it as processes.
//
// Callers: one thread. A Daemon owns its process and kills it at the end; so does a Worker. The
// folder outlives both. Deadlines: a Daemon is there when the constructor returns, unless it has
// ended or kPatience is over: then log() says why.
#ifndef TESTS_SUPPORT_DAEMON_H
#define TESTS_SUPPORT_DAEMON_H

#include <memory>
#include <string>

#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::test {

class Daemon {
 public:
  struct Options {
    std::string name = "socket";  // of the socket in the folder
    Words before;                 // a program that starts the daemon in its own place
    Words arguments;              // behind those that every daemon has
    std::string answers_at = {};  // behind the socket's path, where the daemon serves another one
  };
  explicit Daemon(const Folder& folder, const std::string& profile = "trn1.2xlarge");
  Daemon(const Folder& folder, const std::string& profile, Options options);

  const std::string& socket() const { return socket_; }
  // What clients have as NEURON_EMULATOR.
  std::string emulator() const { return "unix:" + socket_; }
  std::string log() const { return read_file(log_); }
  Process& process() { return *process_; }
  // Kills the daemon if it lives, and starts it once more at the same socket.
  void restart();
  // neuron-emulatorctl with this command at this daemon.
  Ending control(const Words& command) const;

 private:
  bool answers() const;

  const std::string socket_, log_;
  Words command_;
  std::unique_ptr<Process> process_;
};

// A multi-worker (tests/multi/worker.cpp) with one core of a device and a model of build/neff, or
// of an absolute path; it says "ready" first.
class Worker {
 public:
  Worker(const Folder& folder, const std::string& emulator, int core, const std::string& neff,
         Environment extra = {});
  Process& process() { return process_; }
  std::string line() { return process_.line(); }
  std::string ask(const std::string& question) { return process_.ask(question); }
  std::string log() const { return read_file(log_); }

 private:
  const std::string log_;
  Process process_;
};

}  // namespace neuron::test

#endif
