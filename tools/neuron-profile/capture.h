// SPDX-License-Identifier: Apache-2.0
//
// Executes a NEFF with made-up or given inputs, and writes the profile of one of its executions, on
// one core or on the ranks of a collective.
// A file that is an input, or that exists and is no profile, is not replaced by one. Callers:
// neuron-profile. Fails with libnrt's sentence; a failed execution fails the capture
// unless it is to be ignored.
#ifndef TOOLS_NEURON_PROFILE_CAPTURE_H
#define TOOLS_NEURON_PROFILE_CAPTURE_H

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::profile {

struct CaptureWishes {
  std::string neff;
  std::string session = "profile.ntff";
  std::vector<std::string> inputs;  // NAME FILE NAME FILE ...
  std::string multi_input;          // a file with such pairs, a line for each rank
  uint32_t executions = 1;
  uint32_t nth = 1;        // which one is profiled; 0: all of them, in one file
  bool nth_given = false;  // then the file's name says it
  bool profile = true;
  bool ignore_errors = false;
  bool save_outputs = false;
  bool save_npy = false;
  bool outputs_each_time = false;
  bool check_determinism = false;
  uint32_t ranks = 0;  // 0: no collectives
  bool fail_on_loss = false;
  std::string profiled_rank = "0";  // or "all"
};

// What was written, in the order of ranks.
struct Capture {
  std::vector<std::string> files;
  std::string text;  // lines about outputs, for standard output
  // Sentences about profiles that lack events, a line each.
  std::string losses;
};
runtime::Result<Capture> capture(const CaptureWishes& wishes);

// The file of a rank and an execution: "profile_rank_3_exec_2.ntff".
std::string session_name(const CaptureWishes& wishes, uint32_t rank);

}  // namespace neuron::profile

#endif
