// SPDX-License-Identifier: Apache-2.0
#include "tools/program_builder/program.h"

#include <algorithm>

#include "hw/address_map.h"
#include "tools/program_builder/neff_emitter.h"

namespace neuron::builder {

using runtime::Error;
using runtime::Result;

namespace {

// Program semaphores 16..239, some of them for the engines' own counts.
constexpr std::uint32_t kMostSlots = 200;
// A transfer adds 16 to its slot's semaphore, and a wait compares with 16 bits.
constexpr std::uint32_t kMostTransfersOfASlot = 4095;

}  // namespace

Program::Program(std::string name)
    : name_(std::move(name)),
      sbuf_(NEURON_SPACE_SBUF, NEURON_V2_SBUF_PARTITION_BYTES),
      psum_(NEURON_SPACE_PSUM, NEURON_PSUM_PARTITION_BYTES) {}

void Program::fail(Error error) {
  if (error_) return;
  error_ = error.with("program \"{}\", section \"{}\", operation {}", name_, section_, line_);
}

Buffer Program::add_buffer(BufferInfo info) {
  if (error_) return {};
  for (const BufferInfo& other : buffers_) {
    if (other.name == info.name) {
      fail(runtime::fail(NRT_INVALID, "two buffers have the name \"{}\"", info.name));
      return {};
    }
  }
  // The name is a key of def.json and, of a constant, a file.
  if (info.name.empty() || info.name.size() > 255 || info.name == Transfer::kOnChipName) {
    fail(runtime::fail(NRT_INVALID,
                       "a buffer has the name \"{}\"; give 1 to 255 bytes other than \"{}\"",
                       info.name, Transfer::kOnChipName));
    return {};
  }
  const unsigned element = isa::dtype_bytes(info.dtype);
  std::uint64_t count = 1;
  for (std::uint64_t size : info.shape) {
    if (size == 0 || size > (std::uint64_t{1} << 40) / count) count = 0;
    if (count == 0) break;
    count *= size;
  }
  if (element == 0 || count == 0) {
    fail(runtime::fail(NRT_INVALID,
                       "buffer \"{}\" has data type {} and a dimension of 0 or too many elements",
                       info.name, isa::dtype_name(info.dtype)));
    return {};
  }
  info.bytes = count * element;
  if (info.kind == BufferKind::kConstant && info.contents.size() != info.bytes) {
    fail(runtime::fail(NRT_INVALID, "constant \"{}\" has {} bytes, its shape asks for {}",
                       info.name, info.contents.size(), info.bytes));
    return {};
  }
  Buffer buffer;
  buffer.index = static_cast<std::int32_t>(buffers_.size());
  buffer.dtype = info.dtype;
  buffer.columns = info.shape.empty() ? 1 : info.shape.back();
  buffer.rows = count / buffer.columns;
  buffers_.push_back(std::move(info));
  return buffer;
}

Buffer Program::input(const std::string& name, std::uint8_t dtype,
                      std::vector<std::uint64_t> shape) {
  return add_buffer({name, BufferKind::kInput, dtype, std::move(shape), 0, {}});
}
Buffer Program::output(const std::string& name, std::uint8_t dtype,
                       std::vector<std::uint64_t> shape) {
  return add_buffer({name, BufferKind::kOutput, dtype, std::move(shape), 0, {}});
}
Buffer Program::temporary(const std::string& name, std::uint8_t dtype,
                          std::vector<std::uint64_t> shape) {
  return add_buffer({name, BufferKind::kTemporary, dtype, std::move(shape), 0, {}});
}
Buffer Program::constant(const std::string& name, std::uint8_t dtype,
                         std::vector<std::uint64_t> shape, std::vector<std::uint8_t> contents) {
  return add_buffer({name, BufferKind::kConstant, dtype, std::move(shape), 0, std::move(contents)});
}

Tile Program::allocate(OnChipAllocator& allocator, std::uint8_t space, const std::string& name,
                       std::uint32_t parts, std::uint32_t columns, std::uint8_t dtype) {
  if (error_) return {};
  const auto place =
      allocator.allocate(name, parts, std::uint64_t{columns} * isa::dtype_bytes(dtype));
  if (!place) {
    fail(place.error());
    return {};
  }
  return {space, dtype, place->start, parts, place->base, columns};
}

Tile Program::sbuf(const std::string& name, std::uint32_t parts, std::uint32_t columns,
                   std::uint8_t dtype) {
  return allocate(sbuf_, NEURON_SPACE_SBUF, name, parts, columns, dtype);
}
Tile Program::psum(const std::string& name, std::uint32_t parts, std::uint32_t columns,
                   std::uint8_t dtype) {
  return allocate(psum_, NEURON_SPACE_PSUM, name, parts, columns, dtype);
}
void Program::release(const Tile& tile) {
  if (!tile.present()) return;
  (tile.space == NEURON_SPACE_PSUM ? psum_ : sbuf_).release(tile.start, tile.parts, tile.base);
}

void Program::section(const std::string& name) {
  section_ = name;
  line_ = 0;
}
void Program::use(Engine engine) { used_[static_cast<unsigned>(engine)] = true; }

void Program::order(unsigned engine, Step& step, std::vector<Point> points, bool own_engine_too) {
  // Latest first: it is the one that knows most, so that the others are likely known through it.
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.issue > b.issue; });
  for (const Point& point : points) {
    if (point.agent == engine && !own_engine_too) continue;  // The engine's own order
    if (knowledge_.knows(engine, point)) continue;
    knowledge_.wait(engine, point);
    step.waits.push_back(point);
    if (point.agent < NEURON_CORE_ENGINES) steps_[point.agent][point.sequence - 1].signals = true;
  }
}

void Program::emit(unsigned engine, isa::Instruction instruction, const std::vector<Region>& reads,
                   const std::vector<Region>& writes) {
  if (error_ || finished_) return;
  ++line_;
  const isa::Limits limits;
  std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
  isa::encode(instruction, bytes);
  isa::Violation violation = isa::check_encoding(bytes, engine, limits);
  if (!violation) violation = isa::check_operands(instruction, engine, limits);
  if (violation) {
    fail(runtime::fail(NRT_INVALID, "{} engine: {}; the instruction is {}",
                       isa::engine_name(engine), isa::describe(violation, instruction),
                       isa::disassemble(instruction, static_cast<int>(engine))));
    return;
  }
  Step step;
  step.instruction = instruction;
  std::vector<Point> points;
  for (const Region& region : reads) accesses_.conflicts(region, false, points);
  for (const Region& region : writes) accesses_.conflicts(region, true, points);
  order(engine, step, std::move(points), false);
  const Point self{engine, static_cast<std::uint32_t>(steps_[engine].size() + 1), ++issue_};
  knowledge_.start(engine, self);
  for (const Region& region : reads) accesses_.record(region, false, self);
  for (const Region& region : writes) accesses_.record(region, true, self);
  labels_.push_back({section_, line_});
  step.label = static_cast<std::uint32_t>(labels_.size());
  used_[engine] = true;
  steps_[engine].push_back(std::move(step));
}

void Program::raw(Engine target, isa::Instruction instruction) {
  if (error_ || finished_) return;
  ++line_;
  const auto engine = static_cast<unsigned>(target);
  Step step;
  instruction.engines = static_cast<std::uint8_t>(1u << engine);
  step.instruction = instruction;
  knowledge_.start(engine,
                   {engine, static_cast<std::uint32_t>(steps_[engine].size() + 1), ++issue_});
  labels_.push_back({section_, line_});
  step.label = static_cast<std::uint32_t>(labels_.size());
  used_[engine] = true;
  steps_[engine].push_back(std::move(step));
}

// A semaphore that the transfer can count on: the 16 queues of a transfer drift, so the one before
// it on the same semaphore must be known to be complete when this one is started.
std::uint32_t Program::take_slot(unsigned engine, Step& step) {
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].sequence < kMostTransfersOfASlot && knowledge_.knows(engine, slots_[slot])) {
      return slot;
    }
  }
  if (slots_.size() < kMostSlots) {
    slots_.push_back({kFirstDmaAgent + static_cast<Agent>(slots_.size()), 0, 0});
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  std::uint32_t oldest = UINT32_MAX;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (slots_[slot].sequence >= kMostTransfersOfASlot) continue;
    if (oldest == UINT32_MAX || slots_[slot].issue < slots_[oldest].issue) oldest = slot;
  }
  if (oldest == UINT32_MAX) {
    fail(runtime::fail(NRT_RESOURCE, "more than {} transfers in one program; use larger ones",
                       kMostSlots * kMostTransfersOfASlot));
    return 0;
  }
  order(engine, step, {slots_[oldest]}, true);
  return oldest;
}

void Program::transfer(unsigned engine, BufferAccess to, BufferAccess from, const Region& written,
                       const Region& read) {
  if (to.bytes() != from.bytes()) {
    fail(runtime::fail(NRT_INVALID, "a transfer moves {} bytes to {} bytes; expected equally many",
                       from.bytes(), to.bytes()));
    return;
  }
  Step step;
  step.instruction = make(NEURON_OP_DMA_TRIGGER, engine);
  std::vector<Point> points;
  accesses_.conflicts(read, false, points);
  accesses_.conflicts(written, true, points);
  // DMA does not follow the order of the engine that starts it.
  order(engine, step, std::move(points), true);
  const std::uint32_t slot = take_slot(engine, step);
  if (error_) return;
  Point& last = slots_[slot];
  ++last.sequence;
  last.issue = ++issue_;
  knowledge_.start(engine, last);
  knowledge_.start(engine, {engine, static_cast<std::uint32_t>(steps_[engine].size() + 1), issue_});
  accesses_.record(read, false, last);
  accesses_.record(written, true, last);
  Transfer entry;
  entry.id = next_id_[engine]++;
  entry.engine = engine;
  entry.slot = slot;
  entry.sequence = last.sequence;
  entry.from = from;
  entry.to = to;
  const char* direction = to.buffer == Transfer::kOnChip     ? "in"
                          : from.buffer == Transfer::kOnChip ? "out"
                                                             : "data";
  entry.queue = runtime::format("q{}_{}", isa::engine_name(engine), direction);
  step.transfer = static_cast<std::int32_t>(transfers_.size());
  transfers_.push_back(std::move(entry));
  labels_.push_back({section_, line_});
  step.label = static_cast<std::uint32_t>(labels_.size());
  used_[engine] = true;
  steps_[engine].push_back(std::move(step));
}

void Program::finish() {
  if (finished_) return;
  section("end");
  for (const Transfer& transfer : transfers_) {
    const Point& last = slots_[transfer.slot];
    if (transfer.sequence != last.sequence) continue;  // Not the last of its semaphore
    bool known = false;
    for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) known = known || knowledge_.knows(e, last);
    if (known) continue;
    Step step;
    step.instruction = make(NEURON_OP_EVENT, transfer.engine);
    // Two transfers can share one instruction: the emitter takes two waits each.
    auto& steps = steps_[transfer.engine];
    const bool join = !steps.empty() && steps.back().instruction.opcode == NEURON_OP_EVENT &&
                      steps.back().waits.size() == 1;
    order(transfer.engine, join ? steps.back() : step, {last}, true);
    if (!join) steps.push_back(std::move(step));
  }
  for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
    if (!used_[e]) continue;
    Step step;
    step.instruction = make(NEURON_OP_RET, e);
    steps_[e].push_back(std::move(step));
  }
  finished_ = true;
}

Result<std::vector<std::uint8_t>> Program::build() {
  if (!error_) finish();
  if (error_) return *error_;
  return NeffEmitter(*this).emit();
}

}  // namespace neuron::builder
