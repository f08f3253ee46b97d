// SPDX-License-Identifier: Apache-2.0
//
// What the service manager wants of this process and has passed to it, read with libsystemd.
// Callers: main() and the network thread. Thread-safe: no; the functions read the environment only.
// Fails: without a manager nothing is wanted, nothing is passed and nothing is told.
#ifndef TOOLS_NEURON_SERVE_SERVICE_MANAGER_H
#define TOOLS_NEURON_SERVE_SERVICE_MANAGER_H

#include <chrono>
#include <string>
#include <string_view>

#include "driver/base/file_descriptor.h"

namespace neuron::serve {

// The period in which WATCHDOG=1 is expected; 0: none is.
std::chrono::microseconds watchdog_period();

// Tells the manager how this process is (NOTIFY_SOCKET), and never waits for it, as libsystemd does
// when the manager has not read what it was sent before: requests would wait, too. What finds no
// room is kept, and sent with what is told next or by retry(): of states the last one.
class ServiceManager {
 public:
  void ready();
  void stopping();
  void status(const std::string& what);  // one line; at most 1 KiB of it is told
  void alive();                          // for the watchdog
  void retry();

 private:
  std::string untold() const;
  bool send(std::string_view words);  // false: there is no room

  base::FileDescriptor socket_;
  bool ready_ = false, stopping_ = false, alive_ = false;  // to be told
  std::string status_;
};

// The listening socket that was passed; -1: none. `error` has a sentence if what was passed is not
// exactly one listening stream socket.
int passed_socket(std::string& error);

}  // namespace neuron::serve

#endif
