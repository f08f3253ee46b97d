// SPDX-License-Identifier: Apache-2.0
//
// The places in the source that the instructions of a program come from, numbered from 1 as the
// tables of stack frames do. A line table has the innermost place of each instruction only, so no
// frame has a caller. Callers: writers of tables. Values. Cannot fail.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_SOURCE_FRAMES_H
#define TOOLS_NEURON_PROFILE_OUTPUT_SOURCE_FRAMES_H

#include <map>
#include <tuple>

#include "tools/neuron-profile/output/table_set.h"
#include "tools/neuron-profile/trace/program.h"

namespace neuron::profile {

class SourceFrames {
 public:
  explicit SourceFrames(const Program& program);

  // 0: the instruction has no line.
  uint32_t frame_of(unsigned engine, uint32_t debug) const;
  // "Vector.12:0" of an instruction that comes from a kernel in Python; else empty.
  std::string kernel_name(unsigned engine, uint32_t pc, uint32_t debug) const;
  // StackFrame, StackFrameFileLocation, StackFrameFileName, StackFrameFunctionName,
  // KernelInstructions, KernelStackFrames.
  runtime::Result<void> write(TableSet& tables) const;

 private:
  struct Frame {
    uint32_t file = 0, line = 0;
    uint32_t function = 0;  // 0: not known
    auto operator<=>(const Frame&) const = default;
  };
  Frame place_of(unsigned engine, const ntff::TraceLine& line) const;
  runtime::Result<void> write_places(TableSet& tables) const;
  runtime::Result<void> write_kernels(TableSet& tables) const;

  const Program& program_;
  std::map<std::string, uint32_t> functions_;  // their numbers
  std::map<Frame, uint32_t> frames_;           // likewise
};

}  // namespace neuron::profile

#endif
