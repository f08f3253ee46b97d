// SPDX-License-Identifier: Apache-2.0
//
// The place of each operation in its program, and the first error. Labels and errors name the
// section and the operation's number in it.
// Callers: Program and Schedule. Thread-safe: no. Cannot fail.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_JOURNAL_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_JOURNAL_H

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "tools/compiler/program_builder/program_parts.h"

namespace neuron::builder {

class Journal {
 public:
  explicit Journal(std::string program) : program_(std::move(program)) {}

  void section(const std::string& name) {
    section_ = name;
    line_ = 0;
    of_file_ = false;
  }
  // The operations that follow come from a line of a source file instead.
  void source(const std::string& file, uint32_t line) {
    section_ = file;
    line_ = line;
    of_file_ = true;
  }
  void next_operation() {
    if (!of_file_) ++line_;
  }

  // The number of a new label for the present operation, from 1.
  uint32_t label(uint32_t tile, int32_t buffer) {
    labels_.push_back({section_, line_, tile, buffer, of_file_});
    return static_cast<uint32_t>(labels_.size());
  }

  // Keeps the first error only: those that follow are its consequences.
  void fail(const runtime::Error& error) {
    if (error_) return;
    error_ = of_file_ ? error.with("{}:{}", section_, line_)
                      : error.with("program \"{}\", section \"{}\", operation {}", program_,
                                   section_, line_);
  }

  const std::string& program() const { return program_; }
  const std::vector<Label>& labels() const { return labels_; }
  const std::optional<runtime::Error>& error() const { return error_; }

 private:
  std::string program_;
  std::string section_ = "main";
  uint32_t line_ = 0;
  bool of_file_ = false;  // section_ is a source file, line_ a line of it
  std::vector<Label> labels_;
  std::optional<runtime::Error> error_;
};

}  // namespace neuron::builder

#endif
