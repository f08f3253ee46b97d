// SPDX-License-Identifier: Apache-2.0
//
// What is known of a host and of a failed execution, gathered into one archive.
//
// Concepts: a part is a file of the archive. A part that cannot be had is no failure: report.txt
// says which and why. Nothing of other users is asked for, no list of processes, and of the
// environment only what this runtime and its network read; values that look like secrets are left
// out.
// Callers: main(), one thread. Fails: build() if the archive itself cannot be made.
#ifndef TOOLS_NEURON_DUMP_REPORT_H
#define TOOLS_NEURON_DUMP_REPORT_H

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "driver/base/deadline.h"
#include "runtime/neff/neff_writer.h"

namespace neuron::dump {

class Report {
 public:
  // `folder`: of all parts, inside of the archive. By `deadline` programs that are asked must have
  // answered.
  Report(std::string folder, base::Deadline deadline)
      : folder_(std::move(folder)), deadline_(deadline) {}

  // For the head of report.txt: "model: digits".
  void note(const std::string& name, const std::string& value);
  void add_text(const std::string& name, const std::string& text);
  // The whole of a file, or its end if it is long. A path that names no regular file is missing.
  void add_file(const std::string& name, const std::string& path);
  // What the program prints; with `word`, the lines that have it in any case of letters.
  void add_output(const std::string& name, const std::vector<std::string>& command,
                  const std::string& word = "");
  // All that is the same for every report.
  void add_host();

  size_t parts() const { return members_.size(); }
  const std::vector<std::string>& missing() const { return missing_; }
  // tar.gz
  runtime::Result<std::vector<uint8_t>> build() const;

 private:
  void add_environment();

  const std::string folder_;
  const base::Deadline deadline_;
  tools::NeffMembers members_;
  std::vector<std::string> notes_, missing_;
};

}  // namespace neuron::dump

#endif
