// SPDX-License-Identifier: Apache-2.0
// What the log gets to read about clients, and from them.
//
// Concepts: a line is one line whatever is in it: control characters and what is no UTF-8 become
// \xNN, and what is too long is cut. A user has a few lines at once and then one every few seconds;
// how many were left out is said with the next. The process that the devices are in writes as much
// as it likes. Callers: any thread (a mutex). Owns: a count for each user that has lately written.
// Fails: never; without memory a line is lost.
#ifndef DRIVER_EMULATOR_SERVICE_CLIENT_LOG_H
#define DRIVER_EMULATOR_SERVICE_CLIENT_LOG_H

#include <chrono>
#include <map>
#include <mutex>
#include <string_view>

#include "driver/emulator/service/client.h"

namespace neuron::service {

class ClientLog {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kLongest = 512;  // bytes of a line, as they are written
  static constexpr unsigned kAtOnce = 10;
  static constexpr std::chrono::seconds kPace{5};

  // A line on standard error. `who`: the client that it is from or about.
  void write(const Client& who, std::string_view line, Clock::time_point now = Clock::now());

 private:
  struct Lines {
    Clock::time_point until;  // when all that the user has written will be paid for
    unsigned left_out = 0;
  };
  std::mutex mutex_;
  std::map<uint32_t, Lines> users_;
};

}  // namespace neuron::service

#endif
