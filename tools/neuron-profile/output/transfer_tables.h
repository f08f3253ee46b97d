// SPDX-License-Identifier: Apache-2.0
//
// DmaPacketAggregated, a row for each transfer, and DmaPacket, a row for each packet of those whose
// packets are known. Callers: the tables of a profile, with transfers in their order. One thread.
// Borrows the program. Memory does not grow with the rows. Fails as the files do.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_TRANSFER_TABLES_H
#define TOOLS_NEURON_PROFILE_OUTPUT_TRANSFER_TABLES_H

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "tools/neuron-profile/analysis/dependencies.h"
#include "tools/neuron-profile/analysis/packets.h"
#include "tools/neuron-profile/output/table_set.h"

namespace neuron::profile {

class TransferTables {
 public:
  TransferTables(const Program& program, Origin origin, const std::string& folder);

  // What is known of a transfer besides its event.
  struct Detail {
    std::optional<Ran> trigger;
    uint32_t changes = kNoCell;  // semaphore that it has changed at its end
    uint32_t block = 0;
    std::string collective;  // "all_reduce of 1024 float32 (add), to rank 1"
  };

  // The row that the next transfer gets.
  uint64_t next_row() const { return transfers_.rows(); }
  void add(const TransferEvent& e, const Detail& detail, const std::vector<Packet>& packets);
  runtime::Result<void> close(TableSet& tables);

  // What transfers have loaded of a variable into SBUF.
  struct Load {
    uint64_t bytes = 0, transfers = 0;
  };
  const std::map<uint32_t, Load>& loads() const { return loads_; }

 private:
  // Places of the fields.
  struct Fields {
    const parquet::Table& of = parquet::table("DmaPacketAggregated");
    size_t begin = of.field("start_ts"), end = of.field("end_ts"),
           duration = of.field("duration_ns"), id = of.field("id"), core = of.field("pcore_idx"),
           block = of.field("block_id"), queue = of.field("queue_idx"),
           queue_name = of.field("queue_name"), queue_type = of.field("queue_type"),
           op = of.field("op"), variable = of.field("variable"), read = of.field("read_bytes"),
           write = of.field("write_bytes"), bytes = of.field("transfer_bytes"),
           rate = of.field("throughput"), source = of.field("source"), dest = of.field("dest"),
           semaphore = of.field("semaphore_id"), trigger = of.field("trigger"),
           completion = of.field("completion");
    // Of what is read, and of what is written.
    struct Side {
      size_t partitions, count, shape, offset, steps;
    };
    Side sides[2] = {side("read"), side("write")};

   private:
    Side side(const std::string& name) const {
      return {of.field(name + "_sbuf_partitions"), of.field(name + "_num_sbuf_partitions"),
              of.field(name + "_shape"), of.field(name + "_offset"), of.field(name + "_steps")};
    }
  };
  struct PacketFields {
    const parquet::Table& of = parquet::table("DmaPacket");
    size_t begin = of.field("start_ts"), end = of.field("end_ts"),
           duration = of.field("duration_ns"), core = of.field("pcore_idx"), id = of.field("id"),
           number = of.field("packet_idx"), transfer = of.field("packet_aggregation_id"),
           engine = of.field("engine_idx"), read = of.field("read_bytes"),
           write = of.field("write_bytes"), bytes = of.field("transfer_bytes"),
           rate = of.field("throughput"), queue_type = of.field("queue_type"),
           variable = of.field("variable"), queue_name = of.field("queue_name"),
           queue = of.field("queue_idx");
  };
  struct KnownQueue {
    uint32_t name, type;
  };

  // The variable that people know a packet by: the one that does not lie in the core.
  const Variable* variable_of(const Packet& packet) const;
  KnownQueue describe(parquet::TableWriter& to, const TransferEvent& e) const;
  void set_side(bool written, const std::vector<Packet>& packets);
  void add_packets(const TransferEvent& e, uint64_t row, const std::vector<Packet>& packets);
  void note_loads(const std::vector<Packet>& packets);

  const Program& program_;
  const Origin origin_;
  parquet::TableWriter transfers_, packets_;
  const Fields f_;
  const PacketFields p_;
  KnownTexts<KnownQueue> queues_, packet_queues_;
  std::map<uint32_t, Load> loads_;
  FirstFailure failure_;
};

}  // namespace neuron::profile

#endif
