// SPDX-License-Identifier: Apache-2.0
//
// The indexes of a program: rounds of loops, and numbers. Whether one may be used at the place that
// is being written, and how far what moves with it goes.
// Callers: Schedule, ControlFlow and Program, in program order; Placement reads them. Thread-safe:
// no, but programs of several threads have different numbers. Borrows the journal. Fails: what may
// not be used is an error of the journal.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_INDEXES_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_INDEXES_H

#include <cstdint>
#include <vector>

#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/journal.h"
#include "tools/compiler/program_builder/known_numbers.h"
#include "tools/compiler/program_builder/program_parts.h"

namespace neuron::builder {

class Indexes {
 public:
  explicit Indexes(Journal& journal) : journal_(journal), program_(next_program()) {}

  // No other program of this process has this number.
  uint32_t program() const { return program_; }
  // Its largest value must be known.
  Index add(IndexInfo info);
  // A number that is always 0, and one that is 0 until an execution has ended. Registers are 0
  // when the program is started, and stay as they are from one execution to the next.
  Index zero();
  Index executed();
  bool has_executed() const { return executed_.present(); }
  // The loop has ended.
  void close(uint32_t index) { all_[index].open = false; }

  const IndexInfo& of(Index index) const { return all_[index.number]; }
  // By number; the first is none.
  const std::vector<IndexInfo>& all() const { return all_; }
  KnownNumbers& known() { return known_; }

  // False, with an error, if it is no index of this program.
  bool made(Index index);
  // The same, or if the loop has ended, or the number has no value.
  bool check(Index index);
  bool check(const Motions& motions);

  // The distance behind `most` units of so many bytes; beyond 2^60, where nothing lies, it is 2^60.
  static int64_t distance(int64_t bytes, uint32_t most);

 private:
  static uint32_t next_program();

  Journal& journal_;
  const uint32_t program_;
  std::vector<IndexInfo> all_{1};
  KnownNumbers known_;
  Index zero_, executed_;
};

}  // namespace neuron::builder

#endif
