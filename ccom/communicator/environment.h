// SPDX-License-Identifier: Apache-2.0
// The settings of a communicator: options of the caller, else the environment, else defaults.
//
// README.md of this folder has the table of variables. Callers: ccom_init, ccom_init_all.
// Thread-safe: functions that read the environment. Fails: CCOM_INVALID with the variable, its
// value and the expected one.
#ifndef CCOM_COMMUNICATOR_ENVIRONMENT_H
#define CCOM_COMMUNICATOR_ENVIRONMENT_H

#include <ccom/ccom.h>

#include <chrono>
#include <string>

#include "ccom/base/error.h"

namespace neuron::ccom {

struct Settings {
  std::string root;
  bool own_root = true;  // false: other communicators of a split have the same
  std::string secret;
  std::string channel;  // what encrypts the bootstrap; empty: nothing
  std::string providers;
  std::string topology;  // empty: plain processes
  std::string dump_path;
  std::string algorithm;    // from the environment: ranks must agree on it
  std::string calibration;  // prices of CCOM_CALIBRATION as text: ranks must agree on them, too
  std::chrono::milliseconds timeout{60000};
  std::chrono::milliseconds heartbeat{900};
  uint64_t memory_bytes = uint64_t{1} << 30;
  uint32_t device = 0;
  bool shared_memory = true;
  bool rank_order = true;
  bool require_secret = false;  // at an address that other hosts reach
};

// `options` may be null.
Result<Settings> read_settings(const ccom_options_t* options);

}  // namespace neuron::ccom

#endif
