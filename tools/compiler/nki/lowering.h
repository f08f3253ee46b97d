// SPDX-License-Identifier: Apache-2.0
//
// From the trace of an NKI kernel to a NEFF: TRACE.md beside this file describes the input.
//
// Operations keep the order of the kernel on each engine; semaphores follow from the memory that
// they touch. The line table names the Python file and line of each instruction. The same trace
// gives the same bytes. Callers: neuron-nki and tests. Thread-safe: a function of its arguments.
// Fails with "kernel.py:12: nc_matmul: ..." for what the chip cannot do, and with "line N" for a
// trace that is malformed.
#ifndef TOOLS_COMPILER_NKI_LOWERING_H
#define TOOLS_COMPILER_NKI_LOWERING_H

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "tools/compiler/nki/memory.h"

namespace neuron::nki {

// What one line of Python costs on one engine.
struct LineCost {
  std::string file;
  uint32_t line = 0;
  uint32_t engine = 0;
  uint64_t instructions = 0;
  uint64_t picoseconds = 0;  // The engine is occupied, by the cost model
};

struct Lowered {
  std::vector<uint8_t> neff;
  std::vector<LineCost> lines;  // The dearest first
  std::vector<TilePlace> tiles;
  uint64_t transfers = 0;
  uint64_t transferred_bytes = 0;
  std::string first_wait;  // "k.py:12": the first tile that waited for room; empty: none did
};

struct LoweringOptions {
  uint32_t physical_cores = 1;  // Of a virtual core; the first runs a trace of one program
};

// A tensor of a kernel's caller.
struct KernelTensor {
  std::string name;
  uint8_t dtype = 0;
  std::vector<uint64_t> shape;
};

// What the caller of a kernel gives and gets, in the order of the trace; what a call changes is
// both.
struct Signature {
  uint8_t generation = 0;
  std::vector<KernelTensor> inputs, outputs;
};

// Fails for a trace that is malformed or cannot be a part of a larger program: one of two cores,
// with tiles at addresses of its own, loops whose rounds the device decides, or collectives.
runtime::Result<Signature> signature_of(std::string_view trace);

// Writes the kernel into a program that goes on before and behind it. The buffers are temporaries
// of the program, with the types and shapes of the signature; the kernel's own have names that
// begin with `prefix`. All tiles are given back.
runtime::Result<void> inline_kernel(std::string_view trace, builder::Program& program,
                                    std::deque<builder::Buffer> inputs,
                                    std::deque<builder::Buffer> outputs, const std::string& prefix);

runtime::Result<Lowered> lower(std::string_view trace, const LoweringOptions& options);

}  // namespace neuron::nki

#endif
