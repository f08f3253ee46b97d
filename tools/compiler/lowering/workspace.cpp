// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/workspace.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tools/compiler/lowering/tasks.h"

namespace neuron::lowering {

Workspace::Workspace(const Graph& graph, uint8_t generation, bool resident)
    : graph(graph),
      program(graph.name, generation),
      residents(*this, resident ? kResidentColumns : 0),
      resident_(resident),
      places_(graph.nodes.size()),
      stream_(program, kStreamColumns),
      resting_(std::make_shared<std::deque<Tile>>()) {
  if (resident) {
    residents.reserve();
    stream_.reserve();
  }
  for (const Node& user : graph.nodes) {
    using Function = graph::Function;
    const bool rounds = user.function == Function::kRound || user.function == Function::kFloor ||
                        user.function == Function::kCeil;
    if (user.kind == graph::Kind::kMap && rounds) rounded_.insert(&node(user.operands[0]));
  }
  for (const Value input : graph.inputs) tensors_.insert(node(input).name);
  for (const graph::Output& output : graph.outputs) tensors_.insert(output.name);
}

uint8_t Workspace::dtype_of(graph::Type type) {
  return graph::is_real(type) ? NEURON_DTYPE_F32 : NEURON_DTYPE_I32;
}

std::string Workspace::unused_name(const char* kind) {
  for (;;) {  // bounded: by the names of the model
    std::string name = kind + std::to_string(names_++);
    if (tensors_.count(name) == 0) return name;
  }
}

Buffer Workspace::temporary(uint8_t dtype, uint64_t elements) {
  memory.add_values(layer, elements * 4);
  return program.temporary(unused_name("value_"), dtype, {elements});
}

Buffer Workspace::constant(uint8_t dtype, uint64_t elements, std::vector<uint8_t> bytes) {
  memory.add_weights(layer, bytes.size());
  const Buffer buffer =
      program.constant(unused_name("constant_"), dtype, {elements}, std::move(bytes));
  early_.insert(buffer.index);
  return buffer;
}

namespace {

// Elements as the program has them; whole numbers beyond 32 bits lose their upper half.
std::vector<uint8_t> inner_bytes(const graph::Tensor& tensor) {
  const auto count = static_cast<size_t>(tensor.elements());
  std::vector<uint8_t> bytes(count * 4);
  for (size_t i = 0; i < count; ++i) {
    if (graph::is_real(tensor.type)) {
      const auto number = static_cast<float>(tensor.reals[i]);
      std::memcpy(&bytes[i * 4], &number, 4);
    } else {
      const auto number = static_cast<uint32_t>(tensor.integers[i]);
      std::memcpy(&bytes[i * 4], &number, 4);
    }
  }
  return bytes;
}

}  // namespace

const Buffer& Workspace::place(Value value) {
  Buffer& place = places_[static_cast<size_t>(value)];
  const Node& made = node(value);
  if (!place.present() && made.kind == graph::Kind::kConstant) {
    // Constants of several shapes may have the same elements.
    Buffer& elements = elements_[made.constant.get()];
    if (!elements.present()) {
      elements = constant(dtype_of(made.type), static_cast<uint64_t>(made.constant->elements()),
                          inner_bytes(*made.constant));
    }
    place = elements;
  } else if (!place.present() && residents.has(value)) {
    if (graph::renames(made, graph)) return place = this->place(made.operands[0]);
    make_place(value);
    residents.store(value, place);
  } else if (!place.present() && resident_ && made.kind == graph::Kind::kMove) {
    // A move that waited for somebody who needs it.
    emit_move(*this, value);
    if (!place.present() && residents.has(value)) return this->place(value);
  }
  return place;
}

void Workspace::set_place(Value value, const Buffer& buffer) {
  places_[static_cast<size_t>(value)] = buffer;
  if (node(value).kind == graph::Kind::kInput) early_.insert(buffer.index);
}

const Buffer& Workspace::make_place(Value value) {
  const Node& made = node(value);
  const auto destination = destinations_.find(value);
  if (destination != destinations_.end()) {
    set_place(value, destination->second);
    return places_[static_cast<size_t>(value)];
  }
  set_place(value,
            temporary(dtype_of(made.type), static_cast<uint64_t>(graph::elements_of(made.shape))));
  return places_[static_cast<size_t>(value)];
}

Buffer Workspace::table(Value value, uint64_t rows, uint64_t columns) {
  Buffer buffer = place(value);
  buffer.rows = rows;
  buffer.columns = columns;
  return buffer;
}

bool Workspace::uniform(Value value, double& number) const {
  const Node* made = &node(value);
  // A number that is repeated to a shape.
  while (made->kind == graph::Kind::kMove && made->operands.size() == 1 &&
         graph::elements_of(node(made->operands[0]).shape) == 1 && made->regions.size() == 1) {
    int64_t count = 1;
    for (const graph::Region::Dimension& d : made->regions[0].dimensions) count *= d.size;
    if (count != graph::elements_of(made->shape)) return false;
    made = &node(made->operands[0]);
  }
  if (made->kind != graph::Kind::kConstant || made->constant->elements() == 0) return false;
  const graph::Tensor& tensor = *made->constant;
  number = tensor.real(0);
  // Zeros of both signs are equal, and not the same number.
  const auto& reals = tensor.reals;
  const auto& integers = tensor.integers;
  return std::all_of(reals.begin(), reals.end(),
                     [&](double x) {
                       return x == reals[0] && std::signbit(x) == std::signbit(reals[0]);
                     }) &&
         std::all_of(integers.begin(), integers.end(), [&](int64_t x) { return x == integers[0]; });
}

uint32_t fill_bits(const Node& move) {
  if (graph::is_real(move.type)) return std::bit_cast<uint32_t>(static_cast<float>(move.fill));
  return static_cast<uint32_t>(static_cast<int32_t>(graph::truncated(move.type, move.fill)));
}

void Workspace::copy(const TileAccess& to, const TileAccess& from) {
  const auto columns = static_cast<uint32_t>(to.elements());
  if (to.dtype == NEURON_DTYPE_F32 && activation_is_idle(columns)) {
    program.activate(to, NEURON_ACT_COPY, from);
  } else {
    vector_works(columns);
    program.tensor_copy(Engine::kDve, to, from);
  }
}

Register Workspace::lend() {
  if (resting_->empty() || lent_ < (resident_ ? kFewRegisters : kRegisters)) {
    ++lent_;
    constexpr uint64_t kBytes = uint64_t{kWidth} * 4;
    if (!program.parts().sbuf.has_room(NEURON_PARTITIONS, kBytes)) trim_stream();
    resting_->push_front(program.sbuf("register", NEURON_PARTITIONS, kWidth, NEURON_DTYPE_F32));
  }
  const Tile tile = resting_->front();
  resting_->pop_front();
  return {new Tile(tile), [resting = resting_](const Tile* returned) {
            resting->push_back(*returned);
            delete returned;
          }};
}

void Workspace::reserve_stream() {
  if (!resident_ || stream_.reserved()) return;
  // Registers may lie where it was.
  for (; !resting_->empty(); --lent_) {
    program.release(resting_->front());
    resting_->pop_front();
  }
  stream_.reserve();
}

std::shared_ptr<const Tile> Workspace::stream(uint32_t columns) {
  for (;;) {  // bounded: each round has one tile less
    auto tile = stream_.take(columns);
    // What values will not need holds more weights that come early.
    const bool lent = !tile;
    if (lent) tile = residents.lend(columns);
    if (tile) {
      streamed_.push_back({tile, lent});
      return tile;
    }
    if (streamed_.empty() || !program.ok()) break;
    streamed_.pop_front();
  }
  no_room("weights");
  return nullptr;
}

bool Workspace::give_back_lent() {
  const auto oldest = std::find_if(streamed_.begin(), streamed_.end(),
                                   [](const Streamed& one) { return one.lent; });
  if (oldest == streamed_.end()) return false;
  streamed_.erase(oldest);
  return true;
}

void Workspace::trim_stream() {
  streamed_.clear();
  stream_.release();
}

void Workspace::no_room(const std::string& origin) {
  auto& journal = program.parts().schedule.journal();
  if (journal.error()) return;
  const auto& sbuf = program.parts().sbuf;
  const uint32_t all = sbuf.partition_bytes();
  const uint32_t held = all - sbuf.free_bytes(NEURON_PARTITIONS);
  const uint32_t values = resident_ ? kResidentColumns * 4 : 0;
  const uint32_t weights = stream_.reserved() ? kStreamColumns * 4 : 0;
  const auto registers = static_cast<uint32_t>(lent_) * kWidth * 4;
  journal.fail(runtime::fail(
      NRT_RESOURCE,
      "node \"{}\": no room in SBUF for its operands: of {} KiB in a partition {} are held, {} for "
      "values between layers, {} for weights on their way, {} for {} registers and {} by this "
      "layer's own tiles; say -O0, which keeps nothing there between layers",
      base::escaped(origin), all >> 10, held >> 10, values >> 10, weights >> 10, registers >> 10,
      lent_, (held - std::min(held, values + weights + registers)) >> 10));
}

void Workspace::trim() {
  while (lent_ > kFewRegisters && !resting_->empty()) {
    program.release(resting_->front());
    resting_->pop_front();
    --lent_;
  }
}

BufferAccess Workspace::rows(const Buffer& buffer, uint64_t first, uint32_t parts,
                             uint32_t columns) {
  if (!buffer.present()) return {};
  BufferAccess access;
  access.buffer = buffer.index;
  access.dtype = buffer.dtype;
  access.offset = first * 4;
  access.ndim = 2;
  access.size = {uint64_t{columns} * 4, parts, 1, 1};
  access.step = {1, static_cast<int64_t>(columns) * 4, 0, 0};
  return access;
}

void Workspace::load(const TileAccess& to, const BufferAccess& from) {
  // What waits for a store does not delay what could be loaded at once.
  if (resident_) {
    program.dma(early_.count(from.buffer) != 0 ? Engine::kSp : Engine::kPool, to, from);
    return;
  }
  // Two engines start loads in turn; what one waits for does not delay the other.
  program.dma(loads_++ % 2 == 0 ? Engine::kSp : Engine::kActivation, to, from);
}

void Workspace::store(const BufferAccess& to, const TileAccess& from) {
  program.dma(resident_ ? Engine::kPool : Engine::kSp, to, from);
}

void Workspace::copy(const BufferAccess& to, const BufferAccess& from) {
  program.dma(resident_ ? Engine::kPool : Engine::kSp, to, from);
}

}  // namespace neuron::lowering
