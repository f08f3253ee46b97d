// SPDX-License-Identifier: Apache-2.0
//
// The files of an inspect session in a folder: what was recorded of calls and executions, samples
// of the host, and device profiles.
//
// Files are read piece by piece, each time that somebody visits them. Callers: tables of a session.
// One thread. Fails: NRT_INVALID for a folder without trace_info.pb, and with the sentences of the
// files.
#ifndef TOOLS_NEURON_PROFILE_TRACE_SESSION_H
#define TOOLS_NEURON_PROFILE_TRACE_SESSION_H

#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::profile {

class Session {
 public:
  static runtime::Result<Session> open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const std::string& instance() const { return instance_; }
  uint64_t begin_ns() const { return begin_ns_; }
  uint64_t end_ns() const { return end_ns_; }
  uint64_t hbm_bytes() const { return hbm_bytes_; }  // of a core; 0: not known
  // Paths, in the order of their names.
  const std::vector<std::string>& device_profiles() const { return device_profiles_; }

  // Objects as the runtime writes them; none if the session did not record that.
  using Use = std::function<void(const boost::json::object&)>;
  runtime::Result<void> events(const Use& use) const { return each("ntrace.pb", "events", use); }
  runtime::Result<void> processors(const Use& use) const {
    return each("cpu_util.pb", "cpu_util", use);
  }
  runtime::Result<void> memory(const Use& use) const {
    return each("host_mem.pb", "mem_usage", use);
  }

 private:
  explicit Session(std::string folder) : folder_(std::move(folder)) {}
  runtime::Result<void> each(const char* file, const char* list, const Use& use) const;

  std::string folder_;
  std::string instance_;
  uint64_t begin_ns_ = 0, end_ns_ = 0, hbm_bytes_ = 0;
  std::vector<std::string> device_profiles_;
};

}  // namespace neuron::profile

#endif
