// SPDX-License-Identifier: Apache-2.0
//
// The files of an inspect session in a folder: what was recorded of calls and executions, samples
// of the host, and device profiles.
//
// Files are read piece by piece, each time that somebody visits them. What a file lacks, and a file
// that cannot be read, is no failure but a notice: the others are shown. Callers: tables of a
// session. One thread. Fails: NRT_INVALID for a folder without a trace_info.pb of this project.
#ifndef TOOLS_NEURON_PROFILE_TRACE_SESSION_H
#define TOOLS_NEURON_PROFILE_TRACE_SESSION_H

#include <boost/json/object.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::profile {

class Session {
 public:
  // Told how far the reading of a file is.
  using Watcher = std::function<void(uint64_t at, uint64_t size)>;
  // `given` has the files of a session, or exactly one folder that has them.
  static runtime::Result<Session> open(const std::string& given, Watcher watcher = {});

  // That with the files.
  const std::string& folder() const { return folder_; }
  const std::string& instance() const { return instance_; }
  uint64_t begin_ns() const { return begin_ns_; }
  uint64_t end_ns() const { return end_ns_; }
  uint64_t hbm_bytes() const { return hbm_bytes_; }  // of a core; 0: not known
  uint32_t version() const { return version_; }      // of the format of its files
  // Paths, in the order of their names.
  const std::vector<std::string>& device_profiles() const { return device_profiles_; }

  // Objects as the runtime writes them; none if the session did not record that.
  using Use = std::function<void(const boost::json::object&)>;
  void events(const Use& use) { each("ntrace.pb", "events", use); }
  void processors(const Use& use) { each("cpu_util.pb", "cpu_util", use); }
  void memory(const Use& use) { each("host_mem.pb", "mem_usage", use); }

  // Sentences about what is missing, of all that was read until now.
  void notice(std::string sentence) { notices_.push_back(std::move(sentence)); }
  const std::vector<std::string>& notices() const { return notices_; }
  const Watcher& watcher() const { return watcher_; }

 private:
  Session(std::string folder, Watcher watcher)
      : folder_(std::move(folder)), watcher_(std::move(watcher)) {}
  void each(const char* file, const char* list, const Use& use);
  runtime::Result<void> read(const std::string& path, const Use& use);

  std::string folder_;
  Watcher watcher_;
  std::string instance_;
  uint64_t begin_ns_ = 0, end_ns_ = 0, hbm_bytes_ = 0;
  uint32_t version_ = 0;
  std::vector<std::string> device_profiles_;
  std::vector<std::string> notices_;
};

}  // namespace neuron::profile

#endif
