// SPDX-License-Identifier: Apache-2.0
// The gradients of attention, without ever storing scores: they are computed anew.
//
// With P = exp(scale q^T k - log_sums) and D the sum of dy y of each query:
//   dv = P^T dy,   dS = P (dy v^T - D),   dk = scale dS^T q,   dq = scale dS k.
// Blocks of 512 keys meet tiles of 128 queries, the last ones first, of all heads that share the
// keys. With a window, a tile meets only the squares of a block that it reaches, the first one of
// which is partly out of the window. dk and dv of a block grow in PSUM, dq in SBUF. P and dS have
// queries on partitions, as dk and dv want them; dq wants keys there, so PE transposes dS. Each
// engine works on three meetings at a time: PE begins the next one, DVE and Activation finish this
// one, and dq is that of the one before.
#include <array>
#include <cmath>
#include <functional>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/causal_mask.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/short_names.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using builder::TileAccess;
using runtime::fail;

namespace {

constexpr uint32_t kKeyRows = NEURON_PARTITIONS;
constexpr uint32_t kKeys = NEURON_PSUM_BANK_BYTES / 4;  // Of a block
constexpr uint32_t kTurnedSquares = kKeys / kKeyRows;   // Squares that are transposed together

class AttentionBackward {
 public:
  AttentionBackward(const std::string& name, uint8_t dtype, const AttentionShape& shape,
                    uint8_t generation)
      : program_(name, generation),
        dtype_(dtype),
        shape_(shape),
        sequence_(static_cast<uint32_t>(shape.sequence)),
        size_(static_cast<uint32_t>(shape.head_size)),
        squares_(sequence_ / kKeyRows),
        scale_(static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_size)))) {}
  Neff build();

 private:
  // A head of q. "rows": queries on partitions, 128 of them behind each other.
  struct Head {
    Tile q, q_rows, dy_rows, dy, lowered, dots, dq;
  };
  // The squares of a block of keys that a tile of queries meets.
  struct Meeting {
    uint32_t head = 0, tile = 0;
    uint32_t block = 0;          // Its first key
    uint32_t from = 0, end = 0;  // Keys of the block that are met
    bool hides = false;          // The last square is on the diagonal
    bool leaves = false;         // The first square is partly out of the window
    bool begins = false;         // No block before this one meets the tile
    bool last = false;           // Of the block
    std::array<bool, kTurnedSquares>
        adds{};  // To what earlier meetings of the block left, by squares

    uint32_t keys() const { return end - from; }
    uint32_t first_key() const { return block + from; }
  };

  void declare();
  void allocate();
  void load_keys(uint64_t kv_head);
  void load_head(const Head& head, uint64_t number);
  void turn(const Tile& to, uint32_t columns, const std::function<TileAccess(uint32_t)>& square);
  std::vector<Meeting> meetings() const;
  void start(const Meeting& meeting, unsigned side);
  void weigh(const Meeting& meeting, unsigned side);
  void add_to_keys(const Meeting& meeting, const Head& head, const Tile& errors);
  void query_gradient(const Meeting& meeting, unsigned side);
  void store_block(uint64_t kv_head, const Meeting& meeting);
  void store_head(const Head& head, uint64_t number);

  Program program_;
  uint8_t dtype_;
  AttentionShape shape_;
  uint32_t sequence_, size_, squares_;
  float scale_;
  uint64_t kv_heads_ = 0;
  Buffer q_, k_, v_, y_, dy_, log_sums_, dq_, dk_, dv_;
  CausalMask causal_;
  Tile past_;  // The mask where the window begins
  Tile k_tile_, k_rows_, v_rows_, v_tile_;
  std::vector<Head> heads_;
  std::array<Tile, 2> scores_, products_, weights_, errors_, errors_turned_, dq_sums_;
  Tile dk_sums_, dv_sums_, turned_, y_rows_, dy_y_, log_rows_, dk_out_, dv_out_, dq_out_;
  uint32_t next_copy_ = 0;
};

void AttentionBackward::declare() {
  const uint64_t heads = shape_.heads, sequence = shape_.sequence, size = shape_.head_size;
  q_ = program_.input("q", dtype_, {heads, size, sequence});
  k_ = program_.input("k", dtype_, {kv_heads_, size, sequence});
  v_ = program_.input("v", dtype_, {kv_heads_, sequence, size});
  y_ = program_.input("y", dtype_, {heads, sequence, size});
  dy_ = program_.input("dy", dtype_, {heads, sequence, size});
  log_sums_ = program_.input("log_sums", kF32, {heads * squares_, kKeyRows});
  dq_ = program_.output("dq", dtype_, {heads, size, sequence});
  dk_ = program_.output("dk", dtype_, {kv_heads_, size, sequence});
  dv_ = program_.output("dv", dtype_, {kv_heads_, sequence, size});
}

void AttentionBackward::allocate() {
  const auto wide = [&](const char* name, uint8_t dtype) {
    return program_.sbuf(name, size_, sequence_, dtype);
  };
  const auto rows = [&](const char* name, uint8_t dtype) {
    return program_.sbuf(name, kKeyRows, squares_ * size_, dtype);
  };
  k_tile_ = wide("k", dtype_);
  k_rows_ = rows("k transposed", dtype_);
  v_rows_ = rows("v", dtype_);
  v_tile_ = wide("v transposed", dtype_);
  y_rows_ = rows("y", dtype_);
  dy_y_ = rows("dy y", kF32);
  log_rows_ = program_.sbuf("logarithms of the sums", squares_, kKeyRows, kF32);
  for (uint64_t i = 0; i < shape_.heads / kv_heads_; ++i) {
    heads_.push_back({wide("q", dtype_), rows("q transposed", dtype_), rows("dy", dtype_),
                      wide("dy transposed", dtype_),
                      program_.sbuf("negated logarithms", kKeyRows, squares_, kF32),
                      program_.sbuf("sums of dy y", kKeyRows, squares_, kF32),
                      wide("sums of dq", kF32)});
  }
  for (unsigned i = 0; i < 2; ++i) {
    scores_[i] = program_.psum("scores", kKeyRows, kKeys);
    products_[i] = program_.psum("dy v^T", kKeyRows, kKeys);
    weights_[i] = program_.sbuf("weights", kKeyRows, kKeys, dtype_);
    errors_[i] = program_.sbuf("dS", kKeyRows, kKeys, dtype_);
    errors_turned_[i] = program_.sbuf("dS transposed", kKeyRows, kKeys, dtype_);
    dq_sums_[i] = program_.psum("dq", size_, kKeyRows);
  }
  dk_sums_ = program_.psum("dk", size_, kKeys);
  dv_sums_ = program_.psum("dv", kKeyRows, kTurnedSquares * size_);
  turned_ = program_.psum("transposed", kKeyRows, kKeys, dtype_);
  dk_out_ = program_.sbuf("dk", size_, kKeys, dtype_);
  dv_out_ = program_.sbuf("dv", kKeyRows, kTurnedSquares * size_, dtype_);
  dq_out_ = wide("dq", dtype_);
}

// Transposes a square after the other into `columns` columns of `to` each.
void AttentionBackward::turn(const Tile& to, uint32_t columns,
                             const std::function<TileAccess(uint32_t)>& square) {
  for (uint32_t first = 0; first < squares_; first += kTurnedSquares) {
    const uint32_t count = std::min(kTurnedSquares, squares_ - first);
    for (uint32_t i = 0; i < count; ++i) {
      program_.transpose(turned_.at(0, to.parts, i * columns, columns), square(first + i));
    }
    const TileAccess from = turned_.at(0, to.parts, 0, count * columns);
    const TileAccess copy = to.column_range(first * columns, count * columns);
    if (next_copy_++ % 2 == 0) {
      program_.activate(copy, NEURON_ACT_COPY, from);
    } else {
      program_.tensor_copy(Engine::kDve, copy, from);
    }
  }
}

void AttentionBackward::load_keys(uint64_t kv_head) {
  program_.section("keys_" + std::to_string(kv_head));
  const auto size = static_cast<int64_t>(size_);
  program_.dma(Engine::kSp, k_tile_.all(), k_.block(kv_head * size_, size_, 0, sequence_));
  program_.dma(Engine::kSp, v_rows_.all(),
               v_.pattern(kv_head * sequence_ * size_, {size_, squares_, kKeyRows},
                          {1, kKeyRows * size, size}));
  turn(k_rows_, size_, [&](uint32_t i) { return k_tile_.column_range(i * kKeyRows, kKeyRows); });
  turn(v_tile_, kKeyRows, [&](uint32_t i) { return v_rows_.column_range(i * size_, size_); });
}

void AttentionBackward::load_head(const Head& head, uint64_t number) {
  program_.section("head_" + std::to_string(number));
  const auto size = static_cast<int64_t>(size_);
  const auto rows = [&](const Buffer& from) {
    return from.pattern(number * sequence_ * size_, {size_, squares_, kKeyRows},
                        {1, kKeyRows * size, size});
  };
  program_.dma(Engine::kSp, head.q.all(), q_.block(number * size_, size_, 0, sequence_));
  program_.dma(Engine::kSp, head.dy_rows.all(), rows(dy_));
  program_.dma(Engine::kSp, y_rows_.all(), rows(y_));
  program_.dma(Engine::kSp, log_rows_.all(),
               log_sums_.block(number * squares_, squares_, 0, kKeyRows));
  turn(head.q_rows, size_, [&](uint32_t i) { return head.q.column_range(i * kKeyRows, kKeyRows); });
  turn(head.dy, kKeyRows, [&](uint32_t i) { return head.dy_rows.column_range(i * size_, size_); });
  const TileAccess logs = products_[0].as(kF32).column_range(0, squares_);
  program_.transpose(logs, log_rows_.all());
  program_.tensor_scalar(Engine::kDve, head.lowered.all(), logs, NEURON_ALU_MUL, -1.0F);
  program_.tensor_tensor(Engine::kDve, dy_y_.all(), head.dy_rows.all(), NEURON_ALU_MUL,
                         y_rows_.all());
  program_.tensor_reduce(head.dots.all(), NEURON_ALU_ADD, dy_y_.all().split(squares_));
}

std::vector<AttentionBackward::Meeting> AttentionBackward::meetings() const {
  const auto window = static_cast<uint32_t>(shape_.window);
  std::vector<Meeting> all;
  for (uint32_t block = 0; block < sequence_; block += kKeys) {
    const uint32_t block_end = std::min(block + kKeys, sequence_);
    std::array<bool, kTurnedSquares> met{};
    for (uint32_t head = 0; head < heads_.size(); ++head) {
      for (uint32_t tile = squares_; tile-- > 0;) {
        const uint32_t row = tile * kKeyRows, seen = shape_.causal ? row + kKeyRows : sequence_;
        const uint32_t begin = window != 0 && row > window ? row - window : 0;
        if (seen <= block || begin >= block_end) continue;
        Meeting meeting{.head = head,
                        .tile = tile,
                        .block = block,
                        .from = std::max(begin, block) - block,
                        .end = std::min(seen, block_end) - block,
                        .hides = shape_.causal && seen <= block_end,
                        .leaves = window != 0 && row >= window && begin >= block,
                        .begins = begin >= block || block == 0,
                        .adds = met};
        for (uint32_t key = meeting.from; key < meeting.end; key += kKeyRows) {
          met[key / kKeyRows] = true;
        }
        all.push_back(meeting);
      }
    }
    all.back().last = true;
  }
  return all;
}

void AttentionBackward::start(const Meeting& meeting, unsigned side) {
  const Head& head = heads_[meeting.head];
  const uint32_t row = meeting.tile * kKeyRows, keys = meeting.keys();
  const TileAccess scores = scores_[side].column_range(0, keys);
  program_.matmul(scores, head.q.column_range(row, kKeyRows),
                  k_tile_.column_range(meeting.first_key(), keys));
  if (meeting.hides) {
    program_.matmul(scores_[side].column_range(keys - kKeyRows, kKeyRows), causal_.identity.all(),
                    causal_.mask.all(), true);
  }
  if (meeting.leaves) {
    program_.matmul(scores_[side].column_range(0, kKeyRows), causal_.identity.all(), past_.all(),
                    true);
  }
  program_.matmul(products_[side].column_range(0, keys), head.dy.column_range(row, kKeyRows),
                  v_tile_.column_range(meeting.first_key(), keys));
  program_.activate(weights_[side].column_range(0, keys), NEURON_ACT_EXP, scores,
                    {.scale = scale_, .bias = head.lowered.column_range(meeting.tile, 1)});
}

void AttentionBackward::weigh(const Meeting& meeting, unsigned side) {
  const Head& head = heads_[meeting.head];
  const uint32_t keys = meeting.keys();
  const Tile &weights = weights_[side], &errors = errors_[side];
  program_.scalar_tensor_tensor(errors.column_range(0, keys), products_[side].column_range(0, keys),
                                NEURON_ALU_SUB, head.dots.column_range(meeting.tile, 1),
                                NEURON_ALU_MUL, weights.column_range(0, keys));
  for (uint32_t key = 0; key < keys; key += kKeyRows) {
    const uint32_t square = (meeting.from + key) / kKeyRows;
    program_.matmul(dv_sums_.column_range(square * size_, size_),
                    weights.column_range(key, kKeyRows),
                    head.dy_rows.column_range(meeting.tile * size_, size_), meeting.adds[square]);
  }
  add_to_keys(meeting, head, errors);
  for (uint32_t key = 0; key < keys; key += kKeyRows) {
    program_.transpose(turned_.column_range(key, kKeyRows), errors.column_range(key, kKeyRows));
  }
  program_.activate(errors_turned_[side].column_range(0, keys), NEURON_ACT_COPY,
                    turned_.column_range(0, keys));
}

// The squares that others have met before are neighbours, and so are the rest.
void AttentionBackward::add_to_keys(const Meeting& meeting, const Head& head, const Tile& errors) {
  for (uint32_t from = meeting.from; from < meeting.end;) {
    const bool adds = meeting.adds[from / kKeyRows];
    uint32_t end = from;
    while (end < meeting.end && meeting.adds[end / kKeyRows] == adds) end += kKeyRows;
    program_.matmul(dk_sums_.column_range(from, end - from),
                    head.q_rows.column_range(meeting.tile * size_, size_),
                    errors.column_range(from - meeting.from, end - from), adds);
    from = end;
  }
}

void AttentionBackward::query_gradient(const Meeting& meeting, unsigned side) {
  const TileAccess sums = heads_[meeting.head].dq.column_range(meeting.tile * kKeyRows, kKeyRows);
  for (uint32_t key = 0; key < meeting.keys(); key += kKeyRows) {
    program_.matmul(dq_sums_[side].all(),
                    k_rows_.column_range((meeting.first_key() + key) / kKeyRows * size_, size_),
                    errors_turned_[side].column_range(key, kKeyRows), key != 0);
  }
  if (meeting.begins) {
    program_.tensor_copy(Engine::kDve, sums, dq_sums_[side].all());
  } else {
    program_.tensor_tensor(Engine::kDve, sums, sums, NEURON_ALU_ADD, dq_sums_[side].all());
  }
}

void AttentionBackward::store_block(uint64_t kv_head, const Meeting& meeting) {
  const uint32_t keys = std::min(kKeys, sequence_ - meeting.block), squares = keys / kKeyRows;
  const auto size = static_cast<int64_t>(size_);
  program_.activate(dk_out_.column_range(0, keys), NEURON_ACT_COPY, dk_sums_.column_range(0, keys),
                    {.scale = scale_});
  program_.dma(Engine::kPool, dk_.block(kv_head * size_, size_, meeting.block, keys),
               dk_out_.column_range(0, keys));
  program_.tensor_copy(Engine::kDve, dv_out_.column_range(0, squares * size_),
                       dv_sums_.column_range(0, squares * size_));
  program_.dma(Engine::kPool,
               dv_.pattern((kv_head * sequence_ + meeting.block) * size_,
                           {size_, squares, kKeyRows}, {1, kKeyRows * size, size}),
               dv_out_.column_range(0, squares * size_));
}

void AttentionBackward::store_head(const Head& head, uint64_t number) {
  program_.activate(dq_out_.all(), NEURON_ACT_COPY, head.dq.all(), {.scale = scale_});
  program_.dma(Engine::kPool, dq_.block(number * size_, size_, 0, sequence_), dq_out_.all());
}

Neff AttentionBackward::build() {
  kv_heads_ = shape_.kv_heads == 0 ? shape_.heads : shape_.kv_heads;
  declare();
  allocate();
  program_.section("mask");
  if (shape_.causal) causal_ = causal_mask(program_, dtype_);
  if (shape_.window != 0) past_ = past_mask(program_, dtype_);
  const std::vector<Meeting> all = meetings();
  for (uint64_t kv_head = 0; kv_head < kv_heads_; ++kv_head) {
    load_keys(kv_head);
    const uint64_t first = kv_head * heads_.size();
    for (size_t h = 0; h < heads_.size(); ++h) load_head(heads_[h], first + h);
    program_.section("gradients_" + std::to_string(kv_head));
    start(all[0], 0);
    for (size_t i = 0; i < all.size(); ++i) {
      if (i + 1 < all.size()) start(all[i + 1], (i + 1) % 2);
      weigh(all[i], i % 2);
      if (i > 0) query_gradient(all[i - 1], (i - 1) % 2);
      if (all[i].last) store_block(kv_head, all[i]);
    }
    query_gradient(all.back(), (all.size() - 1) % 2);
    for (size_t h = 0; h < heads_.size(); ++h) store_head(heads_[h], first + h);
  }
  return program_.build();
}

}  // namespace

Neff attention_backward(const std::string& name, uint8_t dtype, const AttentionShape& shape,
                        uint8_t generation) {
  if (shape.window != 0 && (!shape.causal || shape.window % kKeyRows != 0)) {
    return fail(NRT_INVALID,
                "attention_backward \"{}\" with a window of {}; expected one that is a multiple of "
                "{} and causal",
                name, shape.window, kKeyRows);
  }
  const uint64_t kv_heads = shape.kv_heads == 0 ? shape.heads : shape.kv_heads;
  constexpr uint64_t kMost = uint64_t{kKeyRows} * kKeyRows;  // Squares have a partition each
  if (shape.heads == 0 || shape.heads % kv_heads != 0 || shape.sequence == 0 ||
      shape.sequence % kKeyRows != 0 || shape.sequence > kMost || shape.head_size == 0 ||
      shape.head_size > kKeyRows || (dtype != kF32 && dtype != NEURON_DTYPE_BF16)) {
    return fail(
        NRT_INVALID,
        "attention_backward \"{}\" of {} heads of {} on {} heads of keys, {} positions, {}; "
        "expected f32 or bf16, heads of up to {}, a number of heads that the keys' "
        "divides, and positions that are a multiple of {} up to {}",
        name, shape.heads, shape.head_size, kv_heads, shape.sequence, isa::dtype_name(dtype),
        kKeyRows, kKeyRows, kMost);
  }
  return AttentionBackward(name, dtype, shape, generation).build();
}

}  // namespace neuron::kernels
