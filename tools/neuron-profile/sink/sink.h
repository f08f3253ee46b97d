// SPDX-License-Identifier: Apache-2.0
//
// Where a view goes, piece by piece: a file, or standard output for "-".
//
// A file is written beside its name and takes it in close(): until then, and when the disk gets
// full, an older file of the name stays as it was. Where the file system has files without names, a
// process that is killed leaves nothing. Devices and FIFOs are written to directly, and a
// symbolic link stays. Callers: views, one thread. Owns the file. Fails: NRT_INVALID for a file
// that cannot be made, NRT_RESOURCE for one that cannot be written; the first failure stays.
#ifndef TOOLS_NEURON_PROFILE_SINK_SINK_H
#define TOOLS_NEURON_PROFILE_SINK_SINK_H

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::profile {

class Sink {
 public:
  static runtime::Result<Sink> open(const std::string& path);
  Sink(Sink&& other) noexcept
      : file_(std::move(other.file_)),
        path_(std::move(other.path_)),
        target_(std::move(other.target_)),
        temporary_(std::exchange(other.temporary_, {})),
        nameless_(other.nameless_),
        failed_(other.failed_) {}
  Sink& operator=(Sink&&) = delete;
  ~Sink();

  void write(std::string_view text) {
    if (failed_ != 0 || text.empty()) return;
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size()) failed_ = errno;
  }
  // Nothing may be written behind it.
  runtime::Result<void> close();
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const {
      if (file != stdout) std::fclose(file);
    }
  };
  // Of a file that has none, the temporary one; 0, or the error.
  int give_name();
  Sink(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}

  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;       // as the user named it
  std::string target_;     // the name that the file takes
  std::string temporary_;  // that it has until then; empty: none
  bool nameless_ = false;  // which it is given in close() only
  int failed_ = 0;
};

// Refuses an output that is the same file or folder as one of the inputs, by whatever name or link:
// writing it would destroy what is read. "-" is what standard output leads to. Inputs that are not
// there, and empty names, are none.
runtime::Result<void> refuse_inputs(const std::string& output,
                                    const std::vector<std::string>& inputs);

}  // namespace neuron::profile

#endif
