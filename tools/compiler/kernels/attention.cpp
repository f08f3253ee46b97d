// SPDX-License-Identifier: Apache-2.0
// y = softmax(scale q k^T) v of each head, without ever storing the scores.
//
// Tiles of 128 queries meet blocks of keys. Scores of a block are in PSUM with queries on
// partitions, so that maximum, exponentials and their sum run along a partition. PE then transposes
// the exponentials, because the product with v needs the keys on partitions. With more than one
// block, the greatest score so far is the reference of all exponentials: when it grows, the sums so
// far shrink by exp(old - new). The blocks pass through the engines as through a pipeline. Causal:
// PE adds a mask to the scores on the diagonal; blocks beyond the diagonal are skipped. With a
// window, so are blocks before it, and another mask hides the part of its first square that is out
// of it. k and v of a head stay in SBUF for all queries of the heads that share them.
#include <algorithm>
#include <array>
#include <cmath>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/causal_mask.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/row_tiles.h"
#include "tools/compiler/kernels/short_names.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using builder::TileAccess;
using runtime::fail;

namespace {

constexpr uint32_t kRows = NEURON_PARTITIONS;  // Queries of a tile; keys of a transposed square
constexpr uint32_t kTurned = 4;                // Squares that are transposed together

class Attention {
 public:
  Attention(const std::string& name, uint8_t dtype, const AttentionShape& shape, uint8_t generation)
      : program_(name, generation), dtype_(dtype), shape_(shape) {}
  Neff build();

 private:
  // The tiles that a tile of queries works with.
  struct Set {
    Tile q, sums, y, maximum[2], lowered[2], total, factor, log_sum;
  };
  // The tiles that a block of keys works with.
  struct Step {
    Tile scores, weights, block_maximum, block_total, shrink;
  };
  // `count` keys of block `number` from its key `first` on meet the queries; `hides`: the last 128
  // of them are on the diagonal, `leaves`: the first 128 of them are partly out of the window.
  struct Block {
    uint32_t number = 0, count = 0;
    bool hides = false;
    uint32_t first = 0;
    bool leaves = false;
  };

  void allocate();
  void make_mask();
  void hide(const Step& step, uint32_t first, const Tile& mask);
  void load_head(uint64_t head);
  // One block of keys that meets one tile of queries.
  struct Meeting {
    RowTile tile;
    Block block;
    bool first = false, last = false;  // Of its queries
    unsigned step = 0;
  };
  void meet(uint64_t head, const RowTile& tile);
  void run(uint64_t head);
  void finish(uint64_t head, const RowTile& tile);
  std::vector<Block> blocks_of(uint64_t first_query) const;
  void score(const TileAccess& q, const Step& step, const Block& block);
  void exponentials(const Set& set, const Step& step, const Block& block, bool first);
  void weigh(const Set& set, const Step& step, const Block& block, bool first);
  uint32_t head_size() const { return static_cast<uint32_t>(shape_.head_size); }
  uint64_t kv_heads() const { return shape_.kv_heads == 0 ? shape_.heads : shape_.kv_heads; }
  uint64_t heads_together() const { return shape_.heads / kv_heads(); }

  Program program_;
  uint8_t dtype_;
  AttentionShape shape_;
  float scale_ = 1;
  uint32_t block_ = 0;
  Buffer q_, k_, v_, y_, log_sums_;
  std::vector<Tile> k_tiles_, v_tiles_;  // A block each
  Tile queries_;                         // Of a head; packed
  std::array<Set, 2> sets_;
  std::array<Step, 2> steps_;
  std::array<Tile, 2> turned_, turned_copy_, products_;
  CausalMask causal_;
  Tile past_;  // The mask where the window begins
  unsigned next_step_ = 0, next_turned_ = 0, next_product_ = 0;
  unsigned newest_ = 0;                  // Of Set::maximum
  std::array<unsigned, 2> newest_of_{};  // By set: the last block of its queries
  std::vector<Meeting> meetings_;
};

void Attention::allocate() {
  const auto sequence = static_cast<uint32_t>(shape_.sequence);
  for (uint32_t first = 0; first < sequence; first += block_) {
    const uint32_t count = std::min(block_, sequence - first);
    k_tiles_.push_back(program_.sbuf("k", head_size(), count, dtype_));
    v_tiles_.push_back(program_.sbuf("v", kRows, count / kRows * head_size(), dtype_));
  }
  if (shape_.packed) queries_ = program_.sbuf("q", head_size(), sequence, dtype_);
  const auto column = [&](const char* name) { return program_.sbuf(name, kRows, 1, kF32); };
  for (Set& set : sets_) {
    set.q = program_.sbuf("q", head_size(), kRows, dtype_);
    set.sums = program_.sbuf("weighted sums", kRows, head_size(), kF32);
    set.y = program_.sbuf("y", kRows, head_size(), dtype_);
    for (unsigned i = 0; i < 2; ++i) {
      set.maximum[i] = column("maximum");
      set.lowered[i] = column("negated maximum");
    }
    set.total = column("total");
    set.factor = column("factor");
    if (shape_.log_sums) set.log_sum = column("logarithm of the sum");
  }
  for (unsigned i = 0; i < 2; ++i) {
    steps_[i].scores = program_.psum("scores", kRows, std::min(block_, sequence));
    steps_[i].weights = program_.sbuf("weights", kRows, std::min(block_, sequence), dtype_);
    steps_[i].block_maximum = column("maximum of the block");
    steps_[i].block_total = column("total of the block");
    steps_[i].shrink = column("shrinkage");
    turned_[i] = program_.psum("turned weights", kRows, kTurned * kRows, dtype_);
    turned_copy_[i] = program_.sbuf("turned weights", kRows, kTurned * kRows, dtype_);
    products_[i] = program_.psum("weighted sums", kRows, head_size());
  }
}

// On the diagonal, keys above the query are hidden; where the window begins, those that are not.
void Attention::make_mask() {
  program_.section("mask");
  causal_ = causal_mask(program_, dtype_);
  if (shape_.window != 0) past_ = past_mask(program_, dtype_);
}

void Attention::load_head(uint64_t head) {
  program_.section("head_" + std::to_string(head));
  const uint64_t size = shape_.head_size;
  if (shape_.packed) {
    program_.dma(Engine::kSp, queries_.all(), q_.block(head * size, size, 0, shape_.sequence));
  }
  if (head % heads_together() != 0) return;
  head /= heads_together();
  for (size_t b = 0; b < k_tiles_.size(); ++b) {
    const uint64_t first = b * block_, count = k_tiles_[b].columns;
    program_.dma(Engine::kSp, k_tiles_[b].all(), k_.block(head * size, size, first, count));
    if (shape_.packed) {
      program_.dma(Engine::kSp, v_tiles_[b].all(),
                   v_.block(head * kRows, kRows, first / kRows * size, count / kRows * size));
      continue;
    }
    program_.dma(Engine::kSp, v_tiles_[b].all(),
                 v_.pattern((head * shape_.sequence + first) * size, {size, count / kRows, kRows},
                            {1, static_cast<int64_t>(kRows * size), static_cast<int64_t>(size)}));
  }
}

std::vector<Attention::Block> Attention::blocks_of(uint64_t first_query) const {
  std::vector<Block> blocks;
  const uint64_t end = shape_.causal ? first_query + kRows : shape_.sequence;
  const bool windowed = shape_.window != 0 && first_query >= shape_.window;
  const uint64_t begin = windowed ? first_query - shape_.window : 0;
  for (uint64_t first = begin; first < end;) {
    const uint64_t number = first / block_;
    const auto count = static_cast<uint32_t>(std::min((number + 1) * block_, end) - first);
    blocks.push_back({static_cast<uint32_t>(number), count, shape_.causal && first + count == end,
                      static_cast<uint32_t>(first % block_), windowed && first == begin});
    first += count;
  }
  return blocks;
}

void Attention::score(const TileAccess& q, const Step& step, const Block& block) {
  const Tile& k = k_tiles_[block.number];
  program_.load_weights(q);
  for (uint32_t first = 0; first < block.count; first += kBank) {
    const uint32_t count = std::min(kBank, block.count - first);
    program_.multiply(step.scores.column_range(first, count),
                      k.column_range(block.first + first, count), false, first == 0);
  }
  if (block.leaves) hide(step, 0, past_);
  if (block.hides) hide(step, block.count - kRows, causal_.mask);
}

// Adds a mask to 128 columns of scores.
void Attention::hide(const Step& step, uint32_t first, const Tile& mask) {
  program_.matmul(step.scores.column_range(first, kRows), causal_.identity.all(), mask.all(), true);
}

void Attention::exponentials(const Set& set, const Step& step, const Block& block, bool first) {
  const TileAccess scores = step.scores.column_range(0, block.count);
  const unsigned older = newest_;
  newest_ = 1 - newest_;
  const Tile& maximum = set.maximum[newest_];
  const Tile& lowered = set.lowered[newest_];
  if (first) {
    program_.tensor_reduce(maximum.all(), NEURON_ALU_MAX, scores);
  } else {
    program_.tensor_reduce(step.block_maximum.all(), NEURON_ALU_MAX, scores);
    program_.tensor_tensor(Engine::kDve, maximum.all(), set.maximum[older].all(), NEURON_ALU_MAX,
                           step.block_maximum.all());
  }
  program_.tensor_scalar(Engine::kDve, lowered.all(), maximum.all(), NEURON_ALU_MUL, -scale_);
  program_.activate(
      step.weights.column_range(0, block.count), NEURON_ACT_EXP, scores,
      {.scale = scale_, .bias = lowered.all(), .reduce = NEURON_REDUCE_RESET_ACCUMULATE});
  program_.read_accumulator(Engine::kActivation, first ? set.total.all() : step.block_total.all());
  if (first) return;
  program_.activate(step.shrink.all(), NEURON_ACT_EXP, set.maximum[older].all(),
                    {.scale = scale_, .bias = lowered.all()});
}

void Attention::weigh(const Set& set, const Step& step, const Block& block, bool first) {
  const Tile& product = products_[next_product_++ % 2];
  const Tile& v = v_tiles_[block.number];
  const uint32_t squares = block.count / kRows;
  // Both groups of squares are transposed before the first one is multiplied, so PE does not wait.
  const unsigned base = next_turned_;
  const auto together = [&](uint32_t group) {
    return std::min(kTurned, squares - group * kTurned);
  };
  const uint32_t groups = (squares + kTurned - 1) / kTurned;
  next_turned_ += groups;
  for (uint32_t group = 0; group < groups; ++group) {
    const unsigned side = (base + group) % 2;
    for (uint32_t i = 0; i < together(group); ++i) {
      program_.transpose(turned_[side].column_range(i * kRows, kRows),
                         step.weights.column_range((group * kTurned + i) * kRows, kRows));
    }
    const TileAccess copy = turned_copy_[side].column_range(0, together(group) * kRows);
    const TileAccess turned = turned_[side].column_range(0, together(group) * kRows);
    if (side == 0) {
      program_.tensor_copy(Engine::kDve, copy, turned);
    } else {
      program_.activate(copy, NEURON_ACT_COPY, turned);
    }
  }
  for (uint32_t square = 0; square < squares; ++square) {
    const unsigned side = (base + square / kTurned) % 2;
    program_.matmul(product.all(), turned_copy_[side].column_range(square % kTurned * kRows, kRows),
                    v.column_range((block.first / kRows + square) * head_size(), head_size()),
                    square > 0);
  }
  if (first) {
    program_.tensor_copy(Engine::kDve, set.sums.all(), product.all());
    return;
  }
  program_.scalar_tensor_tensor(set.total.all(), set.total.all(), NEURON_ALU_MUL, step.shrink.all(),
                                NEURON_ALU_ADD, step.block_total.all());
  program_.scalar_tensor_tensor(set.sums.all(), set.sums.all(), NEURON_ALU_MUL, step.shrink.all(),
                                NEURON_ALU_ADD, product.all());
}

void Attention::meet(uint64_t head, const RowTile& tile) {
  const std::vector<Block> blocks = blocks_of(tile.first);
  for (size_t b = 0; b < blocks.size(); ++b) {
    meetings_.push_back({tile, blocks[b], b == 0, b + 1 == blocks.size(), next_step_++ % 2});
  }
  // A round of a loop ends with its second tile.
  const bool ends = shape_.causal || shape_.packed
                        ? tile.first + kRows == shape_.sequence
                        : tile.set == 1 || tile.first + kRows == shape_.sequence;
  if (ends) run(head);
}

// Each engine does its part of three meetings at a time: PE the scores of the one after the next,
// DVE and Activation the exponentials of the next, and all of them the products of this one.
void Attention::run(uint64_t head) {
  const size_t count = meetings_.size(), size = shape_.head_size;
  const auto start = [&](size_t i) {
    if (i >= count) return;
    const Meeting& meeting = meetings_[i];
    const Set& set = sets_[meeting.tile.set];
    const auto first = static_cast<uint32_t>(meeting.tile.first);
    if (meeting.first && !shape_.packed) {
      program_.dma(Engine::kSp, set.q.all(),
                   q_.block(head * size, size, meeting.tile.first, kRows)
                       .advancing(meeting.tile.step * isa::dtype_bytes(dtype_)));
    }
    score(shape_.packed ? queries_.column_range(first, kRows) : set.q.all(), steps_[meeting.step],
          meeting.block);
  };
  const auto prepare = [&](size_t i) {
    if (i >= count) return;
    const Meeting& meeting = meetings_[i];
    exponentials(sets_[meeting.tile.set], steps_[meeting.step], meeting.block, meeting.first);
    newest_of_[meeting.tile.set] = newest_;
  };
  start(0);
  start(1);
  prepare(0);
  for (size_t i = 0; i < count; ++i) {
    const Meeting& meeting = meetings_[i];
    prepare(i + 1);
    start(i + 2);
    weigh(sets_[meeting.tile.set], steps_[meeting.step], meeting.block, meeting.first);
    if (meeting.last) finish(head, meeting.tile);
  }
  meetings_.clear();
}

void Attention::finish(uint64_t head, const RowTile& tile) {
  const Set& set = sets_[tile.set];
  const uint64_t size = shape_.head_size, element = isa::dtype_bytes(dtype_);
  program_.reciprocal(set.factor.all(), set.total.all());
  program_.tensor_scalar(Engine::kDve, set.y.all(), set.sums.all(), NEURON_ALU_MUL,
                         set.factor.all());
  program_.dma(Engine::kPool,
               y_.block(head * shape_.sequence + tile.first, kRows, 0, size)
                   .advancing(tile.step * static_cast<int64_t>(size * element)),
               set.y.all());
  if (!shape_.log_sums) return;
  program_.activate(set.log_sum.all(), NEURON_ACT_LOG, set.total.all());
  program_.scalar_tensor_tensor(set.log_sum.all(), set.maximum[newest_of_[tile.set]].all(),
                                NEURON_ALU_MUL, scale_, NEURON_ALU_ADD, set.log_sum.all());
  program_.dma(Engine::kPool,
               log_sums_.block(head * shape_.sequence + tile.first, kRows, 0, 1)
                   .advancing(tile.step * int64_t{4}),
               set.log_sum.all());
}

Neff Attention::build() {
  const auto [heads, sequence, size, causal, block, packed, shared, window, log_sums] = shape_;
  if ((heads != 0 && heads % kv_heads() != 0) ||
      (window != 0 && (!causal || window % kRows != 0))) {
    return fail(NRT_INVALID,
                "attention \"{}\" of {} heads on {} heads of keys with a window of {}; expected a "
                "number of heads that the keys' divides, and a window that is a multiple of {} and "
                "causal",
                program_.name(), heads, kv_heads(), window, kRows);
  }
  if (heads == 0 || sequence == 0 || sequence % kRows != 0 || sequence > UINT32_MAX || size == 0 ||
      size > kRows || block == 0 || block % kRows != 0 || block > 2 * kBank ||
      (dtype_ != NEURON_DTYPE_F32 && dtype_ != NEURON_DTYPE_BF16)) {
    return fail(NRT_INVALID,
                "attention \"{}\" of {} heads of {}, {} positions in blocks of {}, {}; expected "
                "f32 or bf16, heads of up to {}, positions and blocks that are multiples of {}, "
                "and blocks of up to {}",
                program_.name(), heads, size, sequence, block, isa::dtype_name(dtype_), kRows,
                kRows, 2 * kBank);
  }
  scale_ = static_cast<float>(1 / std::sqrt(static_cast<double>(size)));
  block_ = static_cast<uint32_t>(std::min(block, sequence));
  q_ = program_.input("q", dtype_, {heads, size, sequence});
  k_ = program_.input("k", dtype_, {kv_heads(), size, sequence});
  v_ = packed ? program_.input("v", dtype_, {kv_heads(), kRows, sequence / kRows * size})
              : program_.input("v", dtype_, {kv_heads(), sequence, size});
  y_ = program_.output("y", dtype_, {heads, sequence, size});
  if (log_sums) log_sums_ = program_.output("log_sums", kF32, {heads, sequence, 1});
  allocate();
  if (causal) make_mask();
  for (uint64_t head = 0; head < heads; ++head) {
    load_head(head);
    if (!causal && !packed) {
      for_row_tiles(program_, sequence, [&](const RowTile& tile) { meet(head, tile); });
      continue;
    }
    // Causal: each tile of queries meets a different number of keys; packed: each has its columns
    // of one tile. So no hardware loop is used.
    for (uint64_t row = 0; row < sequence; row += kRows) {
      meet(head, {row, kRows, 0, static_cast<unsigned>(row / kRows % 2)});
    }
  }
  return program_.build();
}

}  // namespace

Neff attention(const std::string& name, uint8_t dtype, const AttentionShape& shape,
               uint8_t generation) {
  return Attention(name, dtype, shape, generation).build();
}

}  // namespace neuron::kernels
