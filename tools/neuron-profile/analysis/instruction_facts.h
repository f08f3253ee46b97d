// SPDX-License-Identifier: Apache-2.0
//
// What the bytes of an instruction say of the work that it does: bytes that it reads and writes,
// operations, and the places of its operands.
// Callers: tables of a profile, which keep them. Thread-safe: pure. Cannot fail: of an instruction
// whose code the profile lacks, nothing is known.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_INSTRUCTION_FACTS_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_INSTRUCTION_FACTS_H

#include <string>
#include <vector>

#include "tools/neuron-profile/trace/program.h"

namespace neuron::profile {

// Bytes of the same place in each of some partitions of SBUF or PSUM.
struct TilePiece {
  uint8_t space = 0;  // enum neuron_space
  uint8_t start = 0, parts = 0;
  bool write = false;
  bool keeps = false;  // what is there is added to
  uint32_t begin = 0, end = 0;
};

struct InstructionFacts {
  // False: it has no operands, or registers say how large they are.
  bool has_bytes = false;
  uint64_t sbuf_read = 0, sbuf_write = 0, psum_read = 0, psum_write = 0;
  bool multiplies = false;  // on the Tensor engine, transpositions included
  bool transposes = false;
  uint64_t flops = 0;
  double bf16_passes = 1;  // how many times as long as of bf16
  std::string activation;  // "EXP"
  bool meets_core = false;
  uint32_t semaphore = 0;  // where it meets the other core
  uint32_t block = 0;      // of transfers that it starts
  uint32_t row_bytes = 0;  // of each descriptor that it makes; 0: not known
  // Operands whose places no register decides.
  std::vector<TilePiece> pieces;
};

InstructionFacts facts_of(const Program& program, unsigned engine, uint32_t pc);

}  // namespace neuron::profile

#endif
