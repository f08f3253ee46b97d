// SPDX-License-Identifier: Apache-2.0
// One size of one operation as one rank sees it: buffers, counts, and the expected output.
//
// This states the meaning of each operation a second time, from include/ccom/ccom.h and not from
// the planner, so that both can be compared. Callers: ranks of a run, the matrix of tests.
// Thread-safe: values. Fails with CCOM_INVALID when counts do not fit the group.
#ifndef TOOLS_NCCOM_TEST_RUN_CASE_H
#define TOOLS_NCCOM_TEST_RUN_CASE_H

#include <ccom/ccom.h>

#include <cstdint>
#include <vector>

#include "ccom/request/request.h"
#include "tools/nccom-test/input/input_files.h"

namespace neuron::nccom {

// A single call. Offsets and lengths of segments are in elements.
struct Work {
  ccom_operation_t operation = CCOM_BARRIER;
  ccom_type_t type = CCOM_UINT8;
  ccom_reduction_t reduction = CCOM_ADD;
  ccom_algorithm_t algorithm = CCOM_ALGORITHM_AUTO;
  uint32_t root = 0;
  uint32_t ranks = 1;  // of the group
  uint64_t count = 0;
  std::vector<uint64_t> counts, displacements, receive_counts, receive_displacements;
  std::vector<uint64_t> matrix;  // all_to_all_v: [from * ranks + to], and where each block lies
  std::vector<uint64_t> matrix_displacements;
  std::vector<ccom_pair_t> pairs;

  uint64_t input_elements(uint32_t place) const;
  uint64_t output_elements(uint32_t place) const;
  // Where the rank's input lies in its output (or its output in its input) when in place, in
  // elements from the start of the larger buffer; false: the operation cannot.
  bool in_place_offset(uint32_t place, uint64_t& offset, bool& output_is_larger) const;
};

// The call of the library, without buffers. It points into `work`.
ccom_collective_t collective_of(const Work& work);
// The same for the library's planner.
ccom::Request request_of(const Work& work, bool in_place);

enum class Origin : uint8_t { kCopy, kReduced };

// `length` elements of the output from `begin`: a copy of another rank's input from `source`, or
// all ranks' inputs from `source`, reduced. Elements in no segment stay as they are.
struct Segment {
  uint64_t begin = 0;
  uint64_t length = 0;
  Origin origin = Origin::kCopy;
  uint32_t place = 0;  // of the rank that it is a copy from
  uint64_t source = 0;
};

std::vector<Segment> expected_output(const Work& work, uint32_t place);

struct Case {
  uint64_t size = 0;   // as the operation counts bytes
  uint64_t count = 0;  // the same in elements
  uint64_t total_input = 0, total_output = 0;
  std::vector<Work> works;  // several: coalesced
};

// Sizes are rounded up to a multiple that the group can divide.
ccom::Result<Case> make_case(const BlockOptions& options, const PairConfig& pairs, uint64_t size,
                             uint32_t ranks, uint32_t place);

}  // namespace neuron::nccom

#endif
