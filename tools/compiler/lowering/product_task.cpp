// SPDX-License-Identifier: Apache-2.0
// Products of matrices on PE: tiles of 128 x 128 stationary and 128 x 512 moving, K summed in one
// PSUM accumulation in ascending order, whatever the tiles are.
#include <algorithm>

#include "tools/compiler/lowering/tasks.h"
#include "tools/compiler/lowering/windows.h"

namespace neuron::lowering {
namespace {

constexpr uint32_t kTileDeep = NEURON_PARTITIONS;
constexpr uint32_t kTileHigh = NEURON_PE_MAX_M;
constexpr uint32_t kTileWide = NEURON_PE_MAX_N;
// Turned tiles of the left operand that stay for all columns: 128 columns of f32 each.
constexpr uint32_t kKept = 48;

uint32_t part(int64_t whole, uint32_t first, uint32_t most) {
  return static_cast<uint32_t>(std::min<int64_t>(most, whole - first));
}

class Product {
 public:
  Product(Workspace& work, Value value, ProductType type)
      : work_(work), node_(work.node(value)), type_(type) {
    left_ = work.place(node_.operands[0]);
    right_ = work.place(node_.operands[1]);
    result_ = work.make_place(value);
    whole_ = !graph::is_real(node_.type);
    depths_ = depth_parts(work.graph, node_);
  }

  void emit();

 private:
  void allocate();
  void release();
  // A tile of an operand in the type that is multiplied.
  Tile load(const Buffer& from, uint64_t first, int64_t pitch, uint32_t parts, uint32_t columns,
            std::vector<Tile>& ring, size_t& next);
  Tile convert(const Tile& tile, uint32_t parts, uint32_t columns, std::vector<Tile>& ring,
               size_t& next);
  Tile stationary(uint64_t batch, uint32_t row, uint32_t rows, uint32_t k, uint32_t depth);
  void block(uint64_t batch, uint32_t row, uint32_t column);
  void store(const Tile& bank, uint64_t first, uint32_t rows, uint32_t columns);

  Workspace& work_;
  const Node& node_;
  ProductType type_;
  bool whole_ = false;
  Buffer left_, right_, result_;
  std::vector<DepthPart> depths_;
  std::vector<Tile> loaded_, turned_, moving_, converted_, results_, banks_, turning_;
  size_t next_loaded_ = 0, next_turned_ = 0, next_moving_ = 0, next_converted_ = 0,
         next_result_ = 0, next_bank_ = 0, next_turning_ = 0;
  std::vector<Tile> kept_;  // stationary tiles of the present rows
};

uint8_t dtype_of(ProductType type) {
  return type == ProductType::kF32    ? NEURON_DTYPE_F32
         : type == ProductType::kBf16 ? NEURON_DTYPE_BF16
                                      : NEURON_DTYPE_F16;
}

Tile take(std::vector<Tile>& ring, size_t& next) { return ring[next++ % ring.size()]; }

void Product::allocate() {
  const auto depth = static_cast<uint32_t>(depths_.size());
  const uint32_t stationary = std::min(kKept, std::max(depth, 2U)) + (depth > kKept ? 0 : 2);
  const auto tiles = [&](std::vector<Tile>& ring, uint32_t count, const char* name,
                         uint32_t columns, uint8_t dtype) {
    for (uint32_t i = 0; i < count; ++i) {
      ring.push_back(work_.program.sbuf(name, kTileDeep, columns, dtype));
    }
  };
  tiles(loaded_, 3, "left", kTileHigh, left_.dtype);
  tiles(turned_, stationary, "stationary", kTileHigh, dtype_of(type_));
  tiles(moving_, 4, "right", kTileWide, right_.dtype);
  if (whole_ || type_ != ProductType::kF32) {
    tiles(converted_, 4, "converted", kTileWide, dtype_of(type_));
  }
  tiles(results_, 4, "result", kTileWide, result_.dtype);
  for (int i = 0; i < 4; ++i) banks_.push_back(work_.program.psum("sum", kTileHigh, kTileWide));
  for (int i = 0; i < 2; ++i) {
    turning_.push_back(work_.program.psum("turned", kTileDeep, kTileHigh));
  }
}

void Product::release() {
  for (const auto* ring :
       {&loaded_, &turned_, &moving_, &converted_, &results_, &banks_, &turning_}) {
    for (const Tile& tile : *ring) work_.program.release(tile);
  }
}

Tile Product::load(const Buffer& from, uint64_t first, int64_t pitch, uint32_t parts,
                   uint32_t columns, std::vector<Tile>& ring, size_t& next) {
  const Tile tile = take(ring, next);
  BufferAccess access = Workspace::rows(from, first, parts, columns);
  access.step[1] = pitch * 4;
  work_.load(tile.at(0, parts, 0, columns), access);
  return tile;
}

Tile Product::convert(const Tile& tile, uint32_t parts, uint32_t columns, std::vector<Tile>& ring,
                      size_t& next) {
  const Tile to = take(ring, next);
  work_.program.tensor_copy(Engine::kDve, to.at(0, parts, 0, columns),
                            tile.at(0, parts, 0, columns));
  return to;
}

// [depth, rows] of the left operand.
Tile Product::stationary(uint64_t batch, uint32_t row, uint32_t rows, uint32_t k, uint32_t depth) {
  const auto whole_rows = static_cast<uint64_t>(node_.rows);
  const auto whole_depth = static_cast<uint64_t>(node_.depth);
  const uint64_t begin = batch * whole_rows * whole_depth;
  if (node_.turned) {
    const Tile tile =
        load(left_, begin + k * whole_rows + row, node_.rows, depth, rows, loaded_, next_loaded_);
    return convert(tile, depth, rows, turned_, next_turned_);
  }
  Tile tile =
      load(left_, begin + row * whole_depth + k, node_.depth, rows, depth, loaded_, next_loaded_);
  if (whole_) tile = convert(tile, rows, depth, converted_, next_converted_);
  const Tile bank = take(turning_, next_turning_);
  const Tile source = whole_ ? tile : tile.as(NEURON_DTYPE_F32);
  const Tile target = bank.as(source.dtype);
  work_.program.transpose(target.at(0, depth, 0, rows), source.at(0, rows, 0, depth));
  const Tile turned = take(turned_, next_turned_);
  work_.program.tensor_copy(Engine::kDve, turned.at(0, depth, 0, rows),
                            target.at(0, depth, 0, rows));
  return turned;
}

void Product::store(const Tile& bank, uint64_t first, uint32_t rows, uint32_t columns) {
  const Tile result = take(results_, next_result_);
  const TileAccess to = result.at(0, rows, 0, columns);
  if (whole_ || next_result_ % 2 == 0) {
    work_.program.tensor_copy(Engine::kDve, to, bank.at(0, rows, 0, columns));
  } else {
    work_.program.activate(to, NEURON_ACT_COPY, bank.at(0, rows, 0, columns));
  }
  BufferAccess access = Workspace::rows(result_, first, rows, columns);
  access.step[1] = node_.columns * 4;
  work_.program.dma(Engine::kPool, access, to);
}

void Product::block(uint64_t batch, uint32_t row, uint32_t column) {
  const uint32_t rows = part(node_.rows, row, kTileHigh);
  const uint32_t columns = part(node_.columns, column, kTileWide);
  const Tile bank = take(banks_, next_bank_);
  for (size_t number = 0; number < depths_.size(); ++number) {
    const auto k = static_cast<uint32_t>(depths_[number].first);
    const auto depth = static_cast<uint32_t>(depths_[number].count);
    const bool keeps = depths_.size() <= kKept;
    if (keeps && kept_.size() <= number) {
      kept_.push_back(stationary(batch, row, rows, k, depth));
    }
    const Tile left = keeps ? kept_[number] : stationary(batch, row, rows, k, depth);
    const uint64_t first =
        (batch * static_cast<uint64_t>(node_.depth) + k) * static_cast<uint64_t>(node_.columns) +
        column;
    Tile right = load(right_, first, node_.columns, depth, columns, moving_, next_moving_);
    if (!converted_.empty()) right = convert(right, depth, columns, converted_, next_converted_);
    work_.program.matmul(bank.at(0, rows, 0, columns), left.at(0, depth, 0, rows),
                         right.at(0, depth, 0, columns), k != 0);
  }
  const uint64_t first =
      (batch * static_cast<uint64_t>(node_.rows) + row) * static_cast<uint64_t>(node_.columns) +
      column;
  store(bank, first, rows, columns);
}

void Product::emit() {
  work_.trim();
  work_.trim_stream();
  work_.program.section(node_.origin);
  allocate();
  for (int64_t batch = 0; batch < node_.batch && work_.program.ok(); ++batch) {
    for (uint32_t row = 0; row < node_.rows && work_.program.ok(); row += kTileHigh) {
      kept_.clear();
      for (uint32_t column = 0; column < node_.columns && work_.program.ok(); column += kTileWide) {
        block(static_cast<uint64_t>(batch), row, column);
      }
    }
  }
  release();
}

}  // namespace

void emit_product(Workspace& work, Value value, ProductType type) {
  const bool real = graph::is_real(work.node(value).type);
  Product(work, value, real ? type : ProductType::kF32).emit();
}

}  // namespace neuron::lowering
