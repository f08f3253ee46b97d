// SPDX-License-Identifier: Apache-2.0
// Runs cells of the matrix: every rank in a thread, all cells of an executor and number of ranks in
// one communicator, each result compared with the serial reference. On the device
// (device_cells.cpp) a rank is a core of an emulated trn1.32xlarge, with buffers in HBM or in rows
// of SBUF, and many cells are one program.
//
// Callers: the test. Threads: its own, joined before it returns. Nothing waits longer than the
// time limit of the communicators, or of the runtime.
#ifndef TESTS_SYSTEM_MATRIX_GRID_H
#define TESTS_SYSTEM_MATRIX_GRID_H

#include <ccom/ccom.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tools/nccom-test/run/case.h"

namespace neuron::matrix {

enum class Executor : uint8_t {
  kHost,
  kTcp,
  kRough,
  kDevice,  // buffers in HBM
  kDeviceSbuf,
  kSimulatedNode,
  kSimulatedNodes,
  kCount
};

struct Cell {
  ccom_operation_t operation = CCOM_ALL_REDUCE;
  ccom_type_t type = CCOM_UINT8;
  uint64_t elements = 0;
  uint32_t ranks = 1;
  ccom_algorithm_t algorithm = CCOM_ALGORITHM_AUTO;
  Executor executor = Executor::kHost;

  std::string name() const;
};

struct Verdict {
  enum class Kind : uint8_t { kNotRun, kResult, kRefusal, kNothing, kWrong } kind = Kind::kNotRun;
  std::string sentence;  // of a refusal, or what is wrong
};

// What one rank found.
struct Outcome {
  Verdict verdict;
  uint64_t hash = 0;  // of its output
};

// All cells there are: from the enumerations of the library.
std::vector<Cell> all_cells();

// Cells of one executor and number of ranks.
std::map<std::string, Verdict> run_cells(const std::vector<Cell>& cells);

// Parts of it.
nccom::Work work_of(const Cell& cell, uint32_t rank);
Verdict verdict_of(ccom_status_t status, const std::string& sentence);
std::vector<std::byte> input_of(const nccom::Work& work, uint32_t rank);
// Compares an output with what must have become of the inputs.
Outcome outcome_of(const nccom::Work& work, uint32_t rank, std::span<const std::byte> output);
// What all ranks say of the cell with number i: the worst of it, and that they agree.
Verdict together(const Cell& cell, const std::vector<std::vector<Outcome>>& outcomes, size_t i);
std::map<std::string, Verdict> run_on_device(const std::vector<Cell>& cells);

}  // namespace neuron::matrix

#endif
