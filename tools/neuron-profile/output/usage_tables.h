// SPDX-License-Identifier: Apache-2.0
//
// How much of the machine an execution uses, at equal distances in time: DmaUsage, DmaUsageSummary,
// HbmUsage, PendingDma, SbufUsage, PsumUsage; and SbufAllocation, a row for each stay of bytes in
// SBUF. Callers: the tables of a profile, with events in the order of their times. One thread.
// Borrows the program. Memory depends on the number of points, and on what SBUF holds at one time.
// Fails as the files do.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_USAGE_TABLES_H
#define TOOLS_NEURON_PROFILE_OUTPUT_USAGE_TABLES_H

#include <vector>

#include "tools/neuron-profile/analysis/occupancy.h"
#include "tools/neuron-profile/analysis/packets.h"
#include "tools/neuron-profile/analysis/time_grid.h"
#include "tools/neuron-profile/output/table_set.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

class UsageTables {
 public:
  // `total`: picoseconds of the execution.
  UsageTables(const Program& program, Origin origin, uint64_t total, const std::string& folder);

  void add(const InstructionEvent& e, const InstructionFacts& facts);
  // `started`: when it was to begin; `block`: as the program numbers it.
  void add(const TransferEvent& e, uint64_t started, uint32_t block,
           const std::vector<Packet>& packets);
  runtime::Result<void> close(TableSet& tables);

 private:
  // What wrote bytes: an instruction of an engine, or a transfer of a block of a queue.
  struct Writer {
    uint32_t source, opcode, operands, queue, tensor;  // 0: none, else 1 more
    uint32_t block;
  };
  struct Fields {
    const parquet::Table& of = parquet::table("SbufAllocation");
    size_t begin = of.field("start_ts"), end = of.field("end_ts"),
           first = of.field("start_address"), last = of.field("end_address"),
           partition = of.field("partition"), source = of.field("op_source_type"),
           opcode = of.field("opcode"), operands = of.field("operands"),
           queue = of.field("queue_name"), block = of.field("block_id"),
           tensor = of.field("tensor_name"), core = of.field("pcore_idx");
  };

  void stay(const Occupancy::Stay& stay);
  Writer describe(uint64_t writer);
  void touch_core(uint32_t variable, uint64_t offset, const Packet& packet, bool write,
                  uint64_t writer);
  runtime::Result<void> write_rates(TableSet& tables, const char* name, const TimeGrid& grid) const;
  runtime::Result<void> write_sums(TableSet& tables) const;
  runtime::Result<void> write_pending(TableSet& tables);
  // Shares of what is full: the average, and of each partition or bank.
  runtime::Result<void> write_fullness(TableSet& tables, const char* name,
                                       std::vector<TimeGrid>& grids, uint64_t whole,
                                       const std::vector<std::string>& fields) const;

  const Program& program_;
  const Origin origin_;
  TimeGrid dma_, hbm_, pending_;
  std::vector<TimeGrid> partitions_, banks_;
  Occupancy occupancy_;
  parquet::TableWriter stays_;
  const Fields f_;
  KnownTexts<Writer> writers_;
  FirstFailure failure_;
};

}  // namespace neuron::profile

#endif
