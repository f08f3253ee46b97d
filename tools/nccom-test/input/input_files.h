// SPDX-License-Identifier: Apache-2.0
// The JSON files that a run can be given: replica groups, source-target pairs, counts of the
// variable-length operations, streams; and lists of hosts.
// Callers: nccom-test before it starts anything. Thread-safe: functions of their arguments. Fails
// with the file, the field, and what was found and expected there. Files count as hostile.
#ifndef TOOLS_NCCOM_TEST_INPUT_INPUT_FILES_H
#define TOOLS_NCCOM_TEST_INPUT_INPUT_FILES_H

#include <ccom/ccom.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ccom/base/error.h"
#include "tools/nccom-test/input/byte_size.h"

namespace neuron::nccom {

using Group = std::vector<uint32_t>;
using GroupConfig = std::vector<Group>;  // disjoint
using PairConfig = std::vector<ccom_pair_t>;

// One rank's entry; empty receive lists follow from what the others send.
struct VariableEntry {
  std::vector<uint64_t> send_counts, send_displacements;
  std::vector<uint64_t> receive_counts, receive_displacements;
};

// The options of one block of rows, from the command line or from one stream of --streams-json.
struct BlockOptions {
  ccom_operation_t operation = CCOM_ALL_REDUCE;
  ccom_type_t type = CCOM_UINT8;
  ccom_reduction_t reduction = CCOM_ADD;
  ccom_algorithm_t algorithm = CCOM_ALGORITHM_AUTO;
  Sweep sweep;
  uint32_t root = 0;
  uint32_t operations_per_iteration = 1;
  bool in_place = false;
  std::vector<GroupConfig> group_configs;  // empty: all ranks together
  std::vector<PairConfig> pair_configs;
  std::vector<VariableEntry> metadata;  // one for all ranks, or one each
  std::vector<uint32_t> coalesced;      // parts of one operation, relative to one another
};

ccom::Result<std::string> read_text(const std::string& path);
// Writes the whole text or nothing; "-" is standard output.
ccom::Result<void> write_text(const std::string& path, const std::string& text);
// Whether write_text() could, as far as that is known beforehand: whoever measures for minutes asks
// first. Leaves no file.
ccom::Result<void> check_writable(const std::string& path);

ccom::Result<std::vector<GroupConfig>> parse_replica_groups(const std::string& text,
                                                            const std::string& file,
                                                            uint32_t ranks);
ccom::Result<std::vector<PairConfig>> parse_pairs(const std::string& text, const std::string& file,
                                                  uint32_t ranks);
ccom::Result<std::vector<VariableEntry>> parse_metadata(const std::string& text,
                                                        const std::string& file, uint32_t ranks);
ccom::Result<std::vector<BlockOptions>> parse_streams(const std::string& text,
                                                      const std::string& file,
                                                      const BlockOptions& defaults, uint32_t ranks);
// One name a line; '#' begins a comment; "slots=N" behind a name is ignored.
std::vector<std::string> parse_hosts(const std::string& text);
// "[1,2,1]", as of --coalesced-cc-size-ratio.
ccom::Result<std::vector<uint32_t>> parse_ratio(const std::string& text);

}  // namespace neuron::nccom

#endif
