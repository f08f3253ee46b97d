// SPDX-License-Identifier: Apache-2.0
//
// Where a view goes, piece by piece: a file, or standard output for "-". Callers: views, one
// thread. Owns the file. Fails: NRT_INVALID for a file that cannot be made, NRT_RESOURCE for one
// that cannot be written; the first failure stays.
#ifndef TOOLS_NEURON_PROFILE_SINK_SINK_H
#define TOOLS_NEURON_PROFILE_SINK_SINK_H

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/error.h"

namespace neuron::profile {

class Sink {
 public:
  static runtime::Result<Sink> open(const std::string& path) {
    std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "we");
    if (file == nullptr) {
      return runtime::fail_with_errno(NRT_INVALID, errno, "cannot write '{}'", path);
    }
    return Sink(file, path);
  }
  void write(std::string_view text) {
    if (failed_ != 0 || text.empty()) return;
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) failed_ = errno;
  }
  runtime::Result<void> close() {
    if (failed_ == 0 && std::fflush(file_.get()) != 0) failed_ = errno;
    if (failed_ == 0) return {};
    return runtime::fail_with_errno(NRT_RESOURCE, failed_, "'{}' could not be written", path_);
  }
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdout) std::fclose(file);
    }
  };
  Sink(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}

  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
  int failed_ = 0;
};

}  // namespace neuron::profile

#endif
