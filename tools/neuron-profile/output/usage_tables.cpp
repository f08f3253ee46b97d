// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/usage_tables.h"

#include <algorithm>

#include "driver/isa/generation.h"

namespace neuron::profile {
namespace {

using parquet::TableWriter;
using runtime::Result;

// Rows of DmaUsage that one of DmaUsageSummary stands for.
constexpr size_t kPointsOfSum = 64;

// Writers as numbers: an instruction is engine << 32 | pc; a transfer has the highest bit, then
// queue << 56 | block << 32 | variable that it reads.
constexpr uint64_t kTransfer = 1ull << 63;
constexpr uint32_t kBlockMask = 0xFFFFFF;

uint64_t writer_of(const TransferEvent& e, uint32_t block, uint32_t variable) {
  return kTransfer | uint64_t{e.queue & 15u} << 56 | uint64_t{block & kBlockMask} << 32 | variable;
}

double rate(uint64_t bytes, uint64_t ps) {
  return static_cast<double>(bytes) * 1e12 / static_cast<double>(ps);
}

}  // namespace

UsageTables::UsageTables(const Program& program, Origin origin, uint64_t total,
                         const std::string& folder)
    : program_(program),
      origin_(origin),
      dma_(total),
      hbm_(total),
      pending_(total),
      partitions_(Occupancy::kPartitions, TimeGrid(total)),
      banks_(NEURON_PSUM_BANKS, TimeGrid(total)),
      occupancy_([this](const Occupancy::Stay& one) { stay(one); }),
      stays_(parquet::table("SbufAllocation"), folder) {}

void UsageTables::add(const InstructionEvent& e, const InstructionFacts& facts) {
  const uint64_t writer = uint64_t{e.engine} << 32 | e.pc;
  for (const TilePiece& piece : facts.pieces) occupancy_.add(piece, e.begin, e.end, writer);
}

void UsageTables::add(const TransferEvent& e, uint64_t started, uint32_t block,
                      const std::vector<Packet>& packets) {
  dma_.spread(e.begin, e.end, e.bytes);
  const uint64_t sides =
      ((e.reads & NEURON_PLACE_HBM) != 0 ? 1 : 0) + ((e.writes & NEURON_PLACE_HBM) != 0 ? 1 : 0);
  hbm_.spread(e.begin, e.end, sides * e.bytes);
  pending_.level(std::min(started, e.begin), e.end, 1);
  for (const Packet& packet : packets) {
    touch_core(packet.from, packet.from_offset, packet, false, Occupancy::kNobody);
    touch_core(packet.to, packet.to_offset, packet, true, writer_of(e, block, packet.from));
  }
}

void UsageTables::touch_core(uint32_t variable, uint64_t offset, const Packet& packet, bool write,
                             uint64_t writer) {
  const Variable* of = program_.variable(variable);
  if (of == nullptr || of->kind != "core") return;
  const uint64_t at = of->core_offset + offset;
  const bool psum = at >= NEURON_CORE_PSUM;
  if (at >= NEURON_CORE_PSUM + NEURON_CORE_PSUM_SIZE) return;
  const uint64_t stride = psum ? NEURON_PSUM_PARTITION_STRIDE : NEURON_SBUF_PARTITION_STRIDE;
  const uint64_t in_space = psum ? at - NEURON_CORE_PSUM : at;
  const auto begin = static_cast<uint32_t>(in_space % stride);
  occupancy_.add({.space = static_cast<uint8_t>(psum ? NEURON_SPACE_PSUM : NEURON_SPACE_SBUF),
                  .start = static_cast<uint8_t>(in_space / stride),
                  .parts = 1,
                  .write = write,
                  .begin = begin,
                  .end = begin + packet.bytes},
                 packet.begin, packet.end, writer);
}

UsageTables::Writer UsageTables::describe(uint64_t writer) {
  TableWriter& to = stays_;
  const auto some = [&](const std::string& text) { return text.empty() ? 0 : to.known(text) + 1; };
  Writer known{};
  if (writer == Occupancy::kNobody) return known;
  if ((writer & kTransfer) != 0) {
    const Variable* variable = program_.variable(static_cast<uint32_t>(writer));
    known.source = some("dma");
    known.queue = some(program_.queue_name(static_cast<uint32_t>(writer >> 56 & 15)));
    known.block = static_cast<uint32_t>(writer >> 32) & kBlockMask;
    known.tensor = some(variable != nullptr ? variable->name : "");
    return known;
  }
  const auto engine = static_cast<unsigned>(writer >> 32);
  const auto pc = static_cast<uint32_t>(writer);
  const isa::Instruction i = program_.instruction(engine, pc);
  known.source = some("instruction");
  known.opcode = some(opcode_name(i.opcode));
  known.operands = some(program_.text(engine, pc, i.opcode));
  known.tensor = some(program_.tensor(i.debug));
  return known;
}

void UsageTables::stay(const Occupancy::Stay& stay) {
  const uint64_t bytes = stay.end - stay.begin;
  if (stay.space == NEURON_SPACE_PSUM) {
    for (uint32_t at = stay.begin; at < stay.end;) {
      const uint32_t bank = at / NEURON_PSUM_BANK_BYTES;
      const uint32_t end = std::min(stay.end, (bank + 1) * NEURON_PSUM_BANK_BYTES);
      if (bank < banks_.size()) banks_[bank].level(stay.from, stay.to, end - at);
      at = end;
    }
    return;
  }
  partitions_[stay.partition / Occupancy::kEvery].level(stay.from, stay.to, bytes);
  TableWriter& to = stays_;
  const Writer& writer = writers_.of(stay.writer, to, [&] { return describe(stay.writer); });
  const auto set = [&](size_t field, uint32_t text) {
    if (text != 0) to.set_known(field, text - 1);
  };
  to.set(f_.begin, origin_.since(stay.from));
  to.set(f_.end, origin_.since(stay.to));
  to.set(f_.first, stay.begin);
  to.set(f_.last, int64_t{stay.end} - 1);
  to.set(f_.partition, stay.partition);
  set(f_.source, writer.source);
  set(f_.opcode, writer.opcode);
  set(f_.operands, writer.operands);
  set(f_.queue, writer.queue);
  set(f_.tensor, writer.tensor);
  if (writer.queue != 0) to.set(f_.block, writer.block);
  to.set(f_.core, program_.part);
  failure_.keep(to.end_row());
}

Result<void> UsageTables::write_rates(TableSet& tables, const char* name,
                                      const TimeGrid& grid) const {
  if (!grid.any()) return {};
  return tables.write(name, [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
    uint64_t sum = 0;
    for (size_t point = 0; point < grid.points(); ++point) {
      sum += grid.value(point);
      to.set(t.field("timestamp"), origin_.since(grid.time(point)));
      to.set_real(t.field("current_throughput"), rate(grid.value(point), grid.width()));
      to.set(t.field("total_transfer_bytes"), static_cast<int64_t>(sum));
      to.set(t.field("pcore_idx"), program_.part);
      NEURON_CHECK(to.end_row());
    }
    return {};
  });
}

Result<void> UsageTables::write_sums(TableSet& tables) const {
  if (!dma_.any()) return {};
  return tables.write(
      "DmaUsageSummary", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
        uint64_t total = 0;
        for (size_t first = 0; first < dma_.points(); first += kPointsOfSum) {
          const size_t end = std::min(first + kPointsOfSum, dma_.points());
          double rates = 0, totals = 0;
          for (size_t point = first; point < end; ++point) {
            total += dma_.value(point);
            totals += static_cast<double>(total);
            rates += rate(dma_.value(point), dma_.width());
          }
          to.set(t.field("timestamp"), origin_.since(dma_.time(first)));
          to.set(t.field("pcore_idx"), program_.part);
          to.set_real(t.field("sum_current_throughput"), rates);
          to.set(t.field("sum_total_transfer_bytes"), static_cast<int64_t>(std::min(totals, 9e18)));
          to.set(t.field("max_total_transfer_bytes"), static_cast<int64_t>(total));
          to.set(t.field("count"), static_cast<int64_t>(end - first));
          to.set(t.field("bucket_resolution_ns"),
                 static_cast<int64_t>(kPointsOfSum * dma_.width() / 1000));
          NEURON_CHECK(to.end_row());
        }
        return {};
      });
}

Result<void> UsageTables::write_pending(TableSet& tables) {
  if (!pending_.any()) return {};
  pending_.finish_levels();
  return tables.write("PendingDma", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
    for (size_t point = 0; point < pending_.points(); ++point) {
      to.set(t.field("timestamp"), origin_.since(pending_.time(point)));
      to.set(t.field("value"), static_cast<int64_t>(pending_.value(point)));
      to.set(t.field("pcore_idx"), program_.part);
      NEURON_CHECK(to.end_row());
    }
    return {};
  });
}

Result<void> UsageTables::write_fullness(TableSet& tables, const char* name,
                                         std::vector<TimeGrid>& grids, uint64_t whole,
                                         const std::vector<std::string>& fields) const {
  bool any = false;
  for (TimeGrid& grid : grids) {
    any = any || grid.any();
    grid.finish_levels();
  }
  if (!any) return {};
  return tables.write(name, [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
    for (size_t point = 0; point < grids[0].points(); ++point) {
      double sum = 0;
      for (size_t n = 0; n < grids.size(); ++n) {
        const double share =
            static_cast<double>(grids[n].value(point)) / static_cast<double>(whole);
        to.set_real(t.field(fields[n]), share);
        sum += share;
      }
      to.set(t.field("timestamp"), origin_.since(grids[0].time(point)));
      to.set_real(t.field("avg_util_percent"), sum / static_cast<double>(grids.size()));
      to.set(t.field("pcore_idx"), program_.part);
      NEURON_CHECK(to.end_row());
    }
    return {};
  });
}

Result<void> UsageTables::close(TableSet& tables) {
  occupancy_.finish();
  NEURON_CHECK(failure_.state());
  NEURON_CHECK(tables.close(stays_));
  NEURON_CHECK(write_rates(tables, "DmaUsage", dma_));
  NEURON_CHECK(write_rates(tables, "HbmUsage", hbm_));
  NEURON_CHECK(write_sums(tables));
  NEURON_CHECK(write_pending(tables));
  std::vector<std::string> partitions, banks;
  for (unsigned n = 0; n < Occupancy::kPartitions; ++n) {
    partitions.push_back("partition_" + std::to_string(n * Occupancy::kEvery) + "_util_percent");
  }
  for (unsigned n = 0; n < NEURON_PSUM_BANKS; ++n) {
    banks.push_back("bank_" + std::to_string(n) + "_util_percent");
  }
  const uint64_t sbuf = isa::limits_of(program_.generation).sbuf_partition_bytes;
  NEURON_CHECK(write_fullness(tables, "SbufUsage", partitions_, sbuf, partitions));
  return write_fullness(tables, "PsumUsage", banks_,
                        uint64_t{NEURON_PSUM_BANK_BYTES} * Occupancy::kPartitions, banks);
}

}  // namespace neuron::profile
