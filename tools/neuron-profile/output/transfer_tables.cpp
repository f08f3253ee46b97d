// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/transfer_tables.h"

#include <algorithm>

#include "tools/neuron-profile/output/detail.h"

namespace neuron::profile {
namespace {

using parquet::TableWriter;

double rate(uint64_t bytes, uint64_t begin, uint64_t end) {
  return begin == end ? 0 : static_cast<double>(bytes) * 1e12 / static_cast<double>(end - begin);
}

bool in_core(const Variable* variable) { return variable != nullptr && variable->kind == "core"; }

bool in_sbuf(const Variable& variable, uint64_t offset) {
  return variable.kind == "core" && variable.core_offset + offset < NEURON_CORE_SBUF_SIZE;
}

// "0-15,64": ascending.
std::string ranges_of(const std::set<uint32_t>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const uint32_t first = *at;
    uint32_t last = first;
    while (++at != numbers.end() && *at == last + 1) last = *at;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last != first) text += "-" + std::to_string(last);
  }
  return text;
}

}  // namespace

TransferTables::TransferTables(const Program& program, Origin origin, const std::string& folder)
    : program_(program),
      origin_(origin),
      transfers_(parquet::table("DmaPacketAggregated"), folder),
      packets_(parquet::table("DmaPacket"), folder) {}

const Variable* TransferTables::variable_of(const Packet& packet) const {
  const Variable* from = program_.variable(packet.from);
  const Variable* to = program_.variable(packet.to);
  if (from != nullptr && !in_core(from)) return from;
  return to != nullptr && !in_core(to) ? to : from;
}

TransferTables::KnownQueue TransferTables::describe(TableWriter& to, const TransferEvent& e) const {
  return {to.known(program_.queue_name(e.queue)), to.known(program_.queue_type(e.queue))};
}

void TransferTables::add(const TransferEvent& e, const Detail& detail,
                         const std::vector<Packet>& packets) {
  TableWriter& to = transfers_;
  const KnownQueue queue = queues_.of(e.queue, to, [&] { return describe(to, e); });
  const uint64_t row = next_row();
  const int64_t begin = origin_.since(e.begin), end = origin_.since(e.end);
  const auto bytes = static_cast<int64_t>(e.bytes);
  const Variable* variable = packets.empty() ? nullptr : variable_of(packets.front());
  to.set(f_.begin, begin);
  to.set(f_.end, end);
  to.set(f_.duration, end - begin);
  to.set(f_.id, static_cast<int64_t>(row));
  to.set(f_.core, program_.part);
  to.set(f_.block, detail.block);
  to.set(f_.queue, e.queue);
  to.set_known(f_.queue_name, queue.name);
  to.set_known(f_.queue_type, queue.type);
  to.set_text(f_.op, opcode_name(e.opcode));
  if (!detail.collective.empty()) {
    to.set_text(f_.variable, detail.collective);
  } else if (variable != nullptr) {
    to.set_text(f_.variable, variable->name);
  }
  to.set(f_.read, bytes);
  to.set(f_.write, e.writes == 0 ? 0 : bytes);
  to.set(f_.bytes, bytes);
  to.set_real(f_.rate, rate(e.bytes, e.begin, e.end));
  to.set_text(f_.source, places_text(e.reads));
  to.set_text(f_.dest, places_text(e.writes));
  to.set_text(f_.semaphore, detail.changes == kNoCell ? "-1" : program_.cell(detail.changes));
  if (detail.trigger) {
    to.set(f_.trigger, origin_.since(detail.trigger->begin));
    to.set(f_.completion, origin_.since(detail.trigger->end));
  }
  set_side(false, packets);
  set_side(true, packets);
  failure_.keep(to.end_row());
  add_packets(e, row, packets);
  note_loads(packets);
}

// The pieces of one side: how many bytes each, how far apart, and where in the variable.
void TransferTables::set_side(bool written, const std::vector<Packet>& packets) {
  TableWriter& to = transfers_;
  const Fields::Side& side = f_.sides[written ? 1 : 0];
  const auto offset = [&](const Packet& packet) {
    return written ? packet.to_offset : packet.from_offset;
  };
  std::vector<const Packet*> pieces;
  std::set<uint32_t> partitions;
  for (const Packet& packet : packets) {
    const Variable* variable = program_.variable(written ? packet.to : packet.from);
    if (variable == nullptr) continue;
    pieces.push_back(&packet);
    if (in_sbuf(*variable, offset(packet))) {
      partitions.insert(static_cast<uint32_t>((variable->core_offset + offset(packet)) /
                                              NEURON_SBUF_PARTITION_STRIDE));
    }
  }
  to.set_text(side.partitions, ranges_of(partitions));
  to.set(side.count, static_cast<int64_t>(partitions.size()));
  if (pieces.empty()) return;
  to.set_text(side.offset, runtime::format("[{:#x}]", offset(*pieces[0])));
  const uint64_t step = pieces.size() > 1 ? offset(*pieces[1]) - offset(*pieces[0]) : 0;
  for (size_t n = 1; n < pieces.size(); ++n) {
    const bool alike =
        pieces[n]->bytes == pieces[0]->bytes && offset(*pieces[n]) - offset(*pieces[n - 1]) == step;
    if (!alike) return;
  }
  to.set_text(side.shape, runtime::format("[{}, {}]", pieces.size(), pieces[0]->bytes));
  to.set_text(side.steps, runtime::format("[{}, 1]", static_cast<int64_t>(step)));
}

void TransferTables::add_packets(const TransferEvent& e, uint64_t row,
                                 const std::vector<Packet>& packets) {
  TableWriter& to = packets_;
  const KnownQueue queue = packet_queues_.of(e.queue, to, [&] { return describe(to, e); });
  for (size_t n = 0; n < packets.size(); ++n) {
    const Packet& packet = packets[n];
    const int64_t begin = origin_.since(packet.begin), end = origin_.since(packet.end);
    const Variable* variable = variable_of(packet);
    to.set(p_.begin, begin);
    to.set(p_.end, end);
    to.set(p_.duration, end - begin);
    to.set(p_.core, program_.part);
    to.set(p_.id, static_cast<int64_t>(to.rows()));
    to.set(p_.number, static_cast<int64_t>(n));
    to.set(p_.transfer, static_cast<int64_t>(row));
    to.set(p_.engine, e.dma_engine);
    to.set(p_.read, packet.bytes);
    to.set(p_.write, e.writes == 0 ? 0 : packet.bytes);
    to.set(p_.bytes, packet.bytes);
    to.set_real(p_.rate, rate(packet.bytes, packet.begin, packet.end));
    to.set_known(p_.queue_type, queue.type);
    if (variable != nullptr) to.set_text(p_.variable, variable->name);
    to.set_known(p_.queue_name, queue.name);
    to.set(p_.queue, e.queue);
    failure_.keep(to.end_row());
  }
}

void TransferTables::note_loads(const std::vector<Packet>& packets) {
  uint32_t last = ntff::TracePacket::kNone;
  for (const Packet& packet : packets) {
    const Variable *from = program_.variable(packet.from), *to = program_.variable(packet.to);
    if (from == nullptr || to == nullptr || in_core(from)) continue;
    if (!in_sbuf(*to, packet.to_offset)) continue;
    Load& load = loads_[packet.from];
    load.bytes += packet.bytes;
    load.transfers += packet.from == last ? 0 : 1;
    last = packet.from;
  }
}

runtime::Result<void> TransferTables::close(TableSet& tables) {
  NEURON_CHECK(failure_.state());
  NEURON_CHECK(tables.close(transfers_));
  return tables.close(packets_);
}

}  // namespace neuron::profile
