// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/strict/strict_mode.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "driver/isa/indirection.h"
#include "driver/isa/scale_rows.h"

namespace neuron::core {
namespace {

uint32_t place_word(unsigned column, unsigned partition, unsigned byte) {
  const bool psum = column >= StrictShadow::kSbufColumns;
  const unsigned first = psum ? StrictShadow::kSbufColumns : 0;
  return ((column - first) * StrictShadow::kCellBytes + byte) |
         partition << NEURON_STRICT_PARTITION_SHIFT | (psum ? NEURON_STRICT_PSUM : 0);
}

bool is_transfer(const StrictAccess& access) { return access.actor >= StrictClocks::kFirstQueue; }

uint32_t other_word(const StrictAccess& other) {
  return (other.pc & NEURON_STRICT_PC_MASK) |
         static_cast<uint32_t>(other.engine) << NEURON_STRICT_ENGINE_SHIFT | NEURON_STRICT_OTHER;
}

isa::Operand column_of(const isa::Scalar& scalar, unsigned parts, unsigned columns) {
  isa::Operand operand;
  operand.space = scalar.space;
  operand.start = scalar.start;
  operand.parts = static_cast<uint8_t>(parts);
  operand.base = scalar.value;
  operand.dtype = scalar.dtype;
  operand.ndim = 1;
  operand.size[0] = static_cast<uint16_t>(columns);
  operand.step[0] = 1;
  return operand;
}

}  // namespace

bool StrictMode::wanted() {
  const char* text = std::getenv("NEURON_EMULATOR_STRICT");
  if (text == nullptr || *text == '\0' || std::strcmp(text, "1") == 0) return true;
  if (std::strcmp(text, "0") == 0) return false;
  static std::once_flag told;  // every core asks, one reports
  std::call_once(told, [text] {
    std::fprintf(
        stderr,
        "NEURON_EMULATOR_STRICT is \"%.32s\", expected 0 (strict mode off) or 1 (on); strict "
        "mode stays on\n",
        text);
  });
  return true;
}

StrictShadow& StrictMode::shadow() {
  if (!shadow_) shadow_ = std::make_unique<StrictShadow>(clocks_);
  return *shadow_;
}

void StrictMode::forget() {
  if (shadow_) shadow_->forget();
  trap_.reset();
  clocks_.forget_heard();
  if (pair_) pair_->forget();
  launch_ = number_ = 0;
}

Fault StrictMode::check(const isa::Instruction& i, unsigned engine, uint32_t pc,
                        CoreMemory& memory) {
  StrictAccess who;
  who.actor = static_cast<uint16_t>(engine);
  who.engine = static_cast<uint8_t>(engine);
  who.pc = pc;
  who.tick = clocks_.advance(engine);
  conflict_ = {};
  if (isa::has_indirection(i) ? access_indirect(who, i, memory) : access(who, i)) return {};
  return fault_of(who, conflict_writes_);
}

bool StrictMode::read(const StrictAccess& who, const isa::Operand& operand) {
  if (!operand.present()) return true;
  conflict_writes_ = false;
  return shadow().read(who, operand.start, operand.start + operand.parts, footprint_.of(operand),
                       conflict_);
}

bool StrictMode::write(const StrictAccess& who, const isa::Operand& operand) {
  if (!operand.present()) return true;
  conflict_writes_ = true;
  return shadow().write(who, operand.start, operand.start + operand.parts, footprint_.of(operand),
                        conflict_);
}

bool StrictMode::read_scalar(const StrictAccess& who, const isa::Instruction& i,
                             const isa::Scalar& scalar, unsigned columns) {
  if (scalar.kind != NEURON_SCALAR_POINTER) return true;
  return read(who, column_of(scalar, i.dst.parts, columns));
}

bool StrictMode::write_scalar(const StrictAccess& who, const isa::Instruction& i,
                              const isa::Scalar& scalar, unsigned columns) {
  if (scalar.kind != NEURON_SCALAR_POINTER) return true;
  return write(who, column_of(scalar, i.dst.parts, columns));
}

// A row is read if the mask names it for a written row, also beyond the partition count. A row that
// the mask keeps is not written.
bool StrictMode::shuffle(const StrictAccess& who, const isa::Instruction& i) {
  for (const bool writes : {false, true}) {
    const isa::Operand& operand = writes ? i.dst : i.src0;
    for (unsigned quadrant = 0; quadrant < operand.parts; quadrant += NEURON_SHUFFLE_ROWS) {
      const unsigned used = std::min<unsigned>(NEURON_SHUFFLE_ROWS, operand.parts - quadrant);
      uint32_t rows = 0;
      for (unsigned row = 0; row < used; ++row) {
        if (i.shuffle[row] == NEURON_SHUFFLE_KEEP) continue;
        rows |= 1u << (writes ? row : i.shuffle[row] % NEURON_SHUFFLE_ROWS);
      }
      for (unsigned row = 0; row < NEURON_SHUFFLE_ROWS; ++row) {
        const unsigned partition = operand.start + quadrant + row;
        if ((rows >> row & 1) == 0) continue;
        conflict_writes_ = writes;
        const auto segments = footprint_.of(operand);
        const bool good = writes
                              ? shadow().write(who, partition, partition + 1, segments, conflict_)
                              : shadow().read(who, partition, partition + 1, segments, conflict_);
        if (!good) return false;
      }
    }
  }
  return true;
}

// Touches elements 0 to n - 1 of each group of 16 partitions. They lie column by column, and the
// rest of the last column is not touched. A pattern of several dimensions counts as a whole.
bool StrictMode::touch_columns(const StrictAccess& who, const isa::Operand& operand, uint32_t n,
                               bool writes) {
  constexpr unsigned kGroup = 16;
  const auto touch = [&](const isa::Operand& part) {
    return writes ? write(who, part) : read(who, part);
  };
  if (operand.ndim != 1) return touch(operand);
  isa::Operand part = operand;
  part.size[0] = static_cast<uint16_t>((n + kGroup - 1) / kGroup);
  const unsigned rest = n % kGroup;
  if (rest == 0) return touch(part);
  for (unsigned group = 0; group < operand.parts; group += kGroup) {
    part.start = static_cast<uint8_t>(operand.start + group);
    part.parts = static_cast<uint8_t>(rest);
    if (!touch(part)) return false;
    isa::Operand others = part;
    others.start = static_cast<uint8_t>(part.start + rest);
    others.parts = static_cast<uint8_t>(kGroup - rest);
    if (--others.size[0] != 0 && !touch(others)) return false;
  }
  return true;
}

// The rows of block scales (src1) of the matrix that is src0.
bool StrictMode::touch_scales(const StrictAccess& who, const isa::Instruction& i, unsigned quarter,
                              bool writes) {
  isa::Operand rows = i.src1;
  rows.parts = isa::kScalesOfQuadrant;
  for (unsigned part = 0; part < i.src0.parts; part += isa::kQuadrant) {
    rows.start = static_cast<uint8_t>(i.src1.start + isa::scale_row(part, quarter));
    if (writes ? !write(who, rows) : !read(who, rows)) return false;
  }
  return true;
}

// Partitions 0, distance, 2 distance, ... of an operand.
bool StrictMode::read_every(const StrictAccess& who, const isa::Operand& operand,
                            unsigned distance) {
  isa::Operand row = operand;
  row.parts = 1;
  for (unsigned part = 0; part < operand.parts; part += distance) {
    row.start = static_cast<uint8_t>(operand.start + part);
    if (!read(who, row)) return false;
  }
  return true;
}

// Accesses the operands that an instruction reads, and then those that it writes.
bool StrictMode::access(const StrictAccess& who, const isa::Instruction& i) {
  switch (i.opcode) {
    case NEURON_OP_LDWEIGHTS_MX:
      return read(who, i.src0) && touch_scales(who, i, i.pe.quarter, false);
    case NEURON_OP_QUANTIZE_MX:
      return read(who, i.src0) && write(who, i.dst) && touch_scales(who, i, i.vector.imm, true);
    case NEURON_OP_NONZERO_WITH_COUNT: {
      if (!read_every(who, i.src0, 16) || !read_scalar(who, i, i.scalar0, 1)) return false;
      isa::Operand row = i.dst;
      row.parts = 1;
      for (unsigned part = 0; part < i.dst.parts; part += 16) {
        row.start = static_cast<uint8_t>(i.dst.start + part);
        if (!write(who, row)) return false;
      }
      return true;
    }
    case NEURON_OP_MATMUL:
    case NEURON_OP_MATMUL_MX:
    case NEURON_OP_MATMUL_SPARSE:
      if (!read(who, i.src0)) return false;
      if (i.opcode == NEURON_OP_MATMUL_MX && !touch_scales(who, i, i.pe.quarter, false)) {
        return false;
      }
      if (i.pe.accumulate && !shadow().written_by_pe(i.dst.start, i.dst.start + i.dst.parts,
                                                     footprint_.of(i.dst), conflict_)) {
        return false;
      }
      return write(who, i.dst);
    case NEURON_OP_STREAM_SHUFFLE:
      return shuffle(who, i);
    case NEURON_OP_MATCH_REPLACE8:
      return read(who, i.src0) && read_scalar(who, i, i.scalar0, 8) && write(who, i.dst) &&
             write_scalar(who, i, i.scalar1, 8);
    case NEURON_OP_TOPK:
      return touch_columns(who, i.src0, i.vector.imm, false) &&
             touch_columns(who, i.dst, i.pool.count, true) &&
             touch_columns(who, i.src1, i.pool.count, true);
    case NEURON_OP_LOCAL_GATHER:
      return read(who, i.src0) && touch_columns(who, i.src1, i.pool.count, false) &&
             write(who, i.dst);
    case NEURON_OP_DMA_GATHER:
    case NEURON_OP_DMA_SCATTER:
      return read(who, i.src0);  // the rows themselves are accessed by the queue's transfers
    default:
      return read(who, i.src0) && read(who, i.src1) && read_scalar(who, i, i.scalar0, 1) &&
             read_scalar(who, i, i.scalar1, 1) && write(who, i.dst);
  }
}

// The offsets of an index: element i is in partition i % group, column i / group of each group.
bool StrictMode::read_index(const StrictAccess& who, const isa::Operand& operand) {
  const isa::IndexPlace index = operand.index();
  const unsigned group = isa::index_group(who.engine);
  const auto n = static_cast<unsigned>(operand.elements());
  isa::Operand rows;
  rows.space = NEURON_SPACE_SBUF;
  rows.base = index.base;
  rows.dtype = index.dtype;
  rows.ndim = 1;
  rows.step[0] = 1;
  const unsigned rest = n % group;
  for (unsigned part = 0; part < operand.parts; part += group) {
    rows.start = static_cast<uint8_t>(index.start + part);
    rows.parts = static_cast<uint8_t>(rest);
    rows.size[0] = static_cast<uint16_t>(n / group + 1);
    if (rest != 0 && !read(who, rows)) return false;
    rows.start = static_cast<uint8_t>(rows.start + rest);
    rows.parts = static_cast<uint8_t>(group - rest);
    rows.size[0] = static_cast<uint16_t>(n / group);
    if (rows.size[0] != 0 && !read(who, rows)) return false;
  }
  return true;
}

// Partitions [first, end) of an indirect operand, at the offsets that have been read.
bool StrictMode::access_indirect(const StrictAccess& who, const isa::Operand& operand,
                                 unsigned which, Access kind, unsigned first, unsigned end) {
  const IndexOffsets& offsets = offsets_[which];
  conflict_writes_ = kind == Access::kWrite;
  while (first < end) {
    const unsigned next = std::min(end, (first / offsets.group() + 1) * offsets.group());
    const auto segments = footprint_.of_offsets(operand.space, operand.base,
                                                isa::dtype_bytes(operand.dtype), offsets.of(first));
    const unsigned low = operand.start + first, high = operand.start + next;
    bool good = false;
    switch (kind) {
      case Access::kRead:
        good = shadow().read(who, low, high, segments, conflict_);
        break;
      case Access::kWrite:
        good = shadow().write(who, low, high, segments, conflict_);
        break;
      case Access::kWrittenByPe:
        good = shadow().written_by_pe(low, high, segments, conflict_);
        break;
    }
    if (!good) return false;
    first = next;
  }
  return true;
}

// As access(), for instructions that may have indirect operands: the indexes are read first, then
// the elements that they name.
bool StrictMode::access_indirect(const StrictAccess& who, const isa::Instruction& i,
                                 CoreMemory& memory) {
  const isa::Operand* operands[] = {&i.dst, &i.src0, &i.src1};
  const auto is_indirect = [&](unsigned o) {
    return operands[o]->present() && operands[o]->indirect;
  };
  for (unsigned o : {1u, 2u, 0u}) {
    if (is_indirect(o) && !read_index(who, *operands[o])) return false;
  }
  for (unsigned o = 0; o < 3; ++o) {
    // The unit faults with an offset that leads out of the partition; nothing is accessed then.
    if (is_indirect(o) && offsets_[o].read(memory, *operands[o], o, who.engine)) return true;
  }
  const bool scaled = i.opcode == NEURON_OP_LDWEIGHTS_MX || i.opcode == NEURON_OP_MATMUL_MX;
  for (unsigned o : {1u, 2u}) {
    if (scaled && o == 2 && is_indirect(o)) {
      for (unsigned part = 0; part < i.src0.parts; part += isa::kQuadrant) {
        const unsigned first = isa::scale_row(part, i.pe.quarter);
        if (!access_indirect(who, i.src1, 2, Access::kRead, first,
                             first + isa::kScalesOfQuadrant)) {
          return false;
        }
      }
    } else if (scaled && o == 2) {
      if (!touch_scales(who, i, i.pe.quarter, false)) return false;
    } else if (is_indirect(o)
                   ? !access_indirect(who, *operands[o], o, Access::kRead, 0, operands[o]->parts)
                   : !read(who, *operands[o])) {
      return false;
    }
  }
  const bool product = i.group() == 2;
  if (!product && (!read_scalar(who, i, i.scalar0, 1) || !read_scalar(who, i, i.scalar1, 1))) {
    return false;
  }
  const bool adds = product && i.pe.accumulate;
  if (!is_indirect(0)) {
    if (adds && !shadow().written_by_pe(i.dst.start, i.dst.start + i.dst.parts,
                                        footprint_.of(i.dst), conflict_)) {
      return false;
    }
    return write(who, i.dst);
  }
  if (adds && !access_indirect(who, i.dst, 0, Access::kWrittenByPe, 0, i.dst.parts)) return false;
  return access_indirect(who, i.dst, 0, Access::kWrite, 0, i.dst.parts);
}

Fault StrictMode::fault_of(const StrictAccess& who, bool writes) const {
  const StrictConflict& c = conflict_;
  uint32_t where = place_word(c.column, c.partition, c.byte);
  if (writes) where |= NEURON_STRICT_WRITES;
  if (c.other_wrote) where |= NEURON_STRICT_OTHER_WROTE;
  if (is_transfer(who)) where |= NEURON_STRICT_DMA;
  uint32_t other = 0;
  uint32_t extra = who.queue;
  neuron_fault code = NEURON_FAULT_RACE;
  if (c.has_other) {
    other = other_word(c.other);
    if (is_transfer(c.other)) where |= NEURON_STRICT_OTHER_DMA;
    extra |= static_cast<uint32_t>(c.other.queue) << 8;
  }
  switch (c.kind) {
    case StrictConflict::kUnwritten: {
      code = NEURON_FAULT_UNINITIALISED;
      StrictConflict near;
      extra = 0;
      if (shadow_->nearest(c, near)) {
        other = other_word(near.other);
        if (is_transfer(near.other)) where |= NEURON_STRICT_OTHER_DMA;
        where |= NEURON_STRICT_OTHER_WROTE;
        extra = place_word(near.column, near.partition, near.byte);
      }
      break;
    }
    case StrictConflict::kNotPe:
      code = NEURON_FAULT_PSUM_UNDEFINED;
      where |= NEURON_STRICT_WRITES;
      break;
    default:
      if (writes && c.other_wrote && c.column >= StrictShadow::kSbufColumns) {
        code = NEURON_FAULT_PSUM_COLLISION;
      }
      break;
  }
  return make_fault(code, uint64_t{other} << 32 | where, extra);
}

void StrictMode::name_pending(Fault& fault, unsigned own, unsigned number, uint32_t ahead) {
  const StrictClocks::Queue& queue = clocks_.queue(number);
  const auto ringer = StrictClocks::ringer_of(queue, queue.consumed + ahead);
  StrictAccess transfer;
  transfer.engine = ringer.engine;
  transfer.pc = ringer.pc;
  const auto where = static_cast<uint32_t>(fault.address) & ~NEURON_STRICT_OTHER_WROTE;
  const uint32_t other = other_word(transfer) | NEURON_STRICT_PENDING;
  fault.code = NEURON_FAULT_RACE;
  fault.address = uint64_t{other} << 32 | where | NEURON_STRICT_OTHER_DMA;
  fault.info = own | number << 8;
}

void StrictMode::name_producer(Fault& fault, const isa::Operand& operand) {
  // The unit has recorded the element, its partition in the operand, and its value.
  const uint64_t element = fault.address & NEURON_STRICT_PLACE_MASK;
  const auto partition =
      static_cast<unsigned>(fault.address >> NEURON_STRICT_PARTITION_SHIFT) & 127;
  int64_t at = operand.base;
  uint64_t rest = element;
  if (operand.indirect) {
    const auto offsets = offsets_[1].of(partition - operand.start);
    at += int64_t{offsets[rest]} * isa::dtype_bytes(operand.dtype);
  }
  for (unsigned d = 0; !operand.indirect && d < operand.ndim && d < 4; ++d) {
    at += static_cast<int64_t>(rest % operand.size[d]) * operand.step[d] *
          isa::dtype_bytes(operand.dtype);
    rest /= operand.size[d];
  }
  const auto byte = static_cast<unsigned>(at);
  if (operand.space == NEURON_SPACE_PSUM) fault.address |= NEURON_STRICT_PSUM;
  const StrictAccess* producer =
      shadow().writer(StrictShadow::first_column(operand.space) + byte / StrictShadow::kCellBytes,
                      partition, byte % StrictShadow::kCellBytes);
  if (producer == nullptr) return;
  fault.address |= NEURON_STRICT_OTHER_WROTE;
  if (is_transfer(*producer)) fault.address |= NEURON_STRICT_OTHER_DMA;
  fault.address |= uint64_t{other_word(*producer)} << 32;
}

void StrictMode::keep(const StrictAccess& who, bool writes) {
  if (trap_) return;
  trap_ = Trap{fault_of(who, writes), {who.pc, who.engine}};
}

StrictMode::Trap StrictMode::take_trap() {
  const Trap trap = trap_.value_or(Trap{});
  trap_.reset();
  return trap;
}

void StrictMode::access_word(unsigned engine, uint32_t pc, unsigned space, unsigned partition,
                             uint64_t offset, uint64_t bytes, bool write) {
  const bool outside = engine >= NEURON_CORE_ENGINES;
  StrictAccess who;
  who.actor = static_cast<uint16_t>(outside ? StrictClocks::kOutside : engine);
  who.engine = static_cast<uint8_t>(outside ? unsigned{NEURON_ENGINE_HOST} : engine);
  who.pc = pc;
  // An actor outside may have seen all accesses so far.
  if (outside) clocks_.acquire_all(StrictClocks::kOutside);
  who.tick = clocks_.advance(who.actor);
  conflict_ = {};
  const auto segments = footprint_.of_bytes(space, offset, bytes);
  const bool good = write ? shadow().write(who, partition, partition + 1, segments, conflict_)
                          : shadow().read(who, partition, partition + 1, segments, conflict_);
  if (!good && !outside) keep(who, write);
}

void StrictMode::begin_packet(unsigned number, uint32_t ahead) {
  StrictClocks::Queue& queue = clocks_.queue(number);
  clocks_.begin_packet(queue, queue.consumed + ahead);
  packet_.actor = queue.actor;
  packet_.engine = queue.ringer.engine;
  packet_.pc = queue.ringer.pc;
  packet_.queue = static_cast<uint8_t>(number);
  packet_.tick = clocks_.advance_packet(queue);
}

void StrictMode::pass_packet(unsigned number, uint32_t ahead) {
  StrictClocks::Queue& queue = clocks_.queue(number);
  clocks_.begin_packet(queue, queue.consumed + ahead);
}

void StrictMode::transfer(unsigned space, unsigned partition, uint64_t offset, uint64_t bytes,
                          bool write) {
  conflict_ = {};
  const auto segments = footprint_.of_bytes(space, offset, bytes);
  const bool good = write ? shadow().write(packet_, partition, partition + 1, segments, conflict_)
                          : shadow().read(packet_, partition, partition + 1, segments, conflict_);
  if (!good) keep(packet_, write);
}

// Launches that the host orders together have one record: each execution has the next number.
void StrictMode::begin_execution(uint64_t pair) {
  if (pair_ == nullptr || (pair == 0 && number_ == 0)) return;
  number_ = pair != 0 && pair == launch_ ? number_ + 1 : pair;
  launch_ = pair;
  pair_->begin(side_, number_);
}

Fault StrictMode::race_across(const StrictPair::Access& access,
                              const StrictPair::Conflict& conflict) {
  auto where = static_cast<uint32_t>(conflict.address & NEURON_STRICT_ADDRESS_MASK);
  if (access.write) where |= NEURON_STRICT_WRITES;
  if (conflict.other_wrote) where |= NEURON_STRICT_OTHER_WROTE;
  if (is_transfer(access.who)) where |= NEURON_STRICT_DMA;
  if (is_transfer(conflict.other)) where |= NEURON_STRICT_OTHER_DMA;
  const uint32_t other = other_word(conflict.other) | NEURON_STRICT_PEER;
  return make_fault(NEURON_FAULT_RACE, uint64_t{other} << 32 | where,
                    static_cast<uint32_t>(conflict.address >> NEURON_STRICT_ADDRESS_BITS));
}

void StrictMode::transfer_shared(uint64_t address, uint64_t bytes, bool write) {
  const StrictPair::Access access{packet_, address, bytes, write, false};
  const auto conflict = pair_->access(side_, access, clocks_);
  if (!conflict || trap_) return;
  trap_ = Trap{race_across(access, *conflict), {packet_.pc, packet_.engine}};
}

Fault StrictMode::store_shared(unsigned engine, uint32_t pc, uint64_t address) {
  StrictPair::Access access{{}, address, 4, true, true};
  access.who.actor = static_cast<uint16_t>(engine);
  access.who.engine = static_cast<uint8_t>(engine);
  access.who.pc = pc;
  access.who.tick = clocks_.advance(engine);
  const auto conflict = pair_->access(side_, access, clocks_);
  return conflict ? race_across(access, *conflict) : Fault{};
}

void StrictMode::load_shared(unsigned engine, uint64_t address) {
  if (const auto known = pair_->writer_of(side_, address)) clocks_.acquire_known(engine, *known);
}

void StrictMode::tell(unsigned cell, unsigned engine, unsigned actor, uint64_t tick) {
  pair_->tell(side_, cell, engine, clocks_.known_by(actor, tick));
}

void StrictMode::hear(unsigned cell, unsigned engine, uint32_t units) {
  if (pair_ == nullptr) return;
  if (const auto known = pair_->hear(side_, cell, engine)) clocks_.hear(cell, units, *known);
}

}  // namespace neuron::core
