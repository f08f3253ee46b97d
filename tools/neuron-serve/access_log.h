// SPDX-License-Identifier: Apache-2.0
//
// One line for each request that was answered, or that its client left.
//
// Concepts: lines are gathered and written at the end of a turn of the loop. Whoever reads them is
// not waited for: what does not fit is dropped and counted. Text of clients is escaped, so that a
// line is a line. Callers: the network thread. Owns: the file, or shares standard error. Fails:
// open() with a sentence; later failures count as dropped lines.
#ifndef TOOLS_NEURON_SERVE_ACCESS_LOG_H
#define TOOLS_NEURON_SERVE_ACCESS_LOG_H

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "driver/base/file_descriptor.h"

namespace neuron::serve {

struct Access {
  std::string_view peer, method, target;
  int status = 0;
  size_t bytes_in = 0, bytes_out = 0;
  std::chrono::nanoseconds time{};
};

class AccessLog {
 public:
  // The status of requests whose client did not wait.
  static constexpr int kClientGone = 499;

  // "-": standard error. Also once more, after the file was renamed.
  bool open(const std::string& path, std::string& error);
  bool enabled() const { return fd_ >= 0; }
  // "2026-11-22T12:00:00.123Z 127.0.0.1:41234 POST /v1/models/digits/infer 200 256 40 812us"
  void add(const Access& access);
  void flush();
  uint64_t dropped() const { return dropped_; }

 private:
  base::FileDescriptor file_;
  int fd_ = -1;
  std::string lines_;
  uint64_t dropped_ = 0;
};

}  // namespace neuron::serve

#endif
