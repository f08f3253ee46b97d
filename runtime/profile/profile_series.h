// SPDX-License-Identifier: Apache-2.0
//
// The profiles of one core in one folder: <folder>/profile_nc_<vnc>_session_<n>.ntff, where a later
// file has a larger n. Nothing is overwritten. With a limit, the oldest files go.
// Callers: ContinuousProfile. Thread-safe: no state; several processes may write into one folder.
// Fails: NRT_INVALID for a folder that cannot be made or read, or a file that cannot be written.
#ifndef RUNTIME_PROFILE_PROFILE_SERIES_H
#define RUNTIME_PROFILE_PROFILE_SERIES_H

#include <cstdint>
#include <string>

#include "runtime/ntff/trace_file.h"

namespace neuron::runtime {

class ProfileSeries {
 public:
  ProfileSeries(std::string folder, uint32_t vnc) : folder_(std::move(folder)), vnc_(vnc) {}

  // A file behind all that there are. Makes the folder.
  Result<ntff::TraceFileWriter> next() const;
  // Leaves the last `most` files; 0: all. A file that cannot be removed is told in the log.
  void trim(uint64_t most) const;

  // How many files of a core continuous profiling leaves in a folder; 0: all
  // (NEURON_OPEN_PROFILE_FILES).
  static Result<uint64_t> limit();

 private:
  std::string path(uint64_t number) const;

  std::string folder_;
  uint32_t vnc_;
};

}  // namespace neuron::runtime

#endif
