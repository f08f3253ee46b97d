// SPDX-License-Identifier: Apache-2.0
//
// The commands that show a profile.
// Callers: main(), tests. Fails: NRT_INVALID for a profile that cannot be read, or wishes that it
// cannot meet.
#ifndef TOOLS_NEURON_PROFILE_VIEW_H
#define TOOLS_NEURON_PROFILE_VIEW_H

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "tools/common/terminal.h"

namespace neuron::profile {

const std::vector<std::string>& view_formats();

struct ViewWishes {
  std::string session = "profile.ntff";
  std::string session_folder;  // of an inspect session, instead of a profile; empty: none
  std::string neff;
  std::string format = "report";
  std::string file;  // empty: what the format does by itself
  std::string table = "instruction";
  std::string data_path = ".";  // of Parquet tables
  std::string display_name;     // empty: the session's without its ending
  uint32_t execution = 0;       // from 1; 0: the one that stands for all
  uint32_t part = 0;
  bool pretty = false;
  bool page = false;                                         // html, whatever `format` is
  bool open = false;                                         // show the page in a browser
  bool flows = false;                                        // arrows in the trace of Perfetto
  bool leave_out_system = false, leave_out_devices = false;  // of a session
  std::vector<std::string> cores, events, instances;         // of its events; empty: all
};

struct CompareWishes {
  std::string before, after;
  bool json = false;
  double most = -1;  // percent that the second may take longer; negative: any
};

struct SessionWishes {
  std::string session = "profile.ntff";
  bool errors = false;
  bool json = false;
};

struct Shown {
  std::string text;      // for standard output
  std::string warnings;  // for standard error
  bool good = true;      // what was to be checked holds
};
runtime::Result<Shown> view(const ViewWishes& wishes, const tools::Style& style);
runtime::Result<Shown> compare_profiles(const CompareWishes& wishes);
// Prints what it shows piece by piece.
runtime::Result<Shown> show_session(const SessionWishes& wishes);

}  // namespace neuron::profile

#endif
