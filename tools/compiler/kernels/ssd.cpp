// SPDX-License-Identifier: Apache-2.0
// Mamba-2's state-space duality: a recurrence as products of chunks of 128 positions.
//
// Let s[i] be the sum of delta a up to position i of a chunk. Then with u = delta x,
//   y[i] = sum over j <= i of (c[i] b[j]) exp(s[i] - s[j]) u[j]  +  exp(s[i]) c[i] state,
//   state = exp(s[127]) state + sum over j of exp(s[127] - s[j]) b[j] u[j].
// Everything has positions j on partitions. PE sums: a product with a triangle of ones gives s in a
// column, and a product of one repeated column with that triangle gives s in every row. c b is the
// same for all heads of a chunk. What is later than i is hidden by a mask before the exponential,
// because it could overflow. Both parts of y are added in PSUM.
#include <array>

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

constexpr uint32_t kChunk = NEURON_PARTITIONS;

class Ssd {
 public:
  Ssd(const std::string& name, uint8_t dtype, const SsdShape& shape, uint8_t generation)
      : program_(name, generation),
        dtype_(dtype),
        shape_(shape),
        heads_(static_cast<uint32_t>(shape.heads)),
        size_(static_cast<uint32_t>(shape.head_size)),
        states_(static_cast<uint32_t>(shape.states)) {}
  Neff build();

 private:
  // The tiles of a chunk.
  struct Set {
    Tile x, y, b, c, b_turned, c_turned, rows;
    Tile delta, decay, lowered, left, kept;  // A column for each head
    Tile overlaps;                           // In PSUM: c b
  };
  // The tiles of a head's part of it.
  struct Step {
    Tile sums, y, increment;  // In PSUM
    Tile reach, shares, mixed, carried, now, later;
  };

  void allocate();
  void allocate_steps();
  void make_constants(const Buffer& a);
  void load(const Set& set, uint64_t batch, uint64_t first);
  void turn(const Tile& to, const TileAccess& from);
  void sum(const Set& set);
  void head(const Set& set, uint32_t head, bool first);
  void store(const Set& set, uint64_t batch, uint64_t first);

  Program program_;
  uint8_t dtype_;
  SsdShape shape_;
  uint32_t heads_, size_, states_;
  Buffer x_, delta_, b_, c_, y_;
  CausalMask causal_;
  Tile later_, ones_, triangle_, a_, turned_, totals_, sums_, rest_;
  std::array<Set, 2> sets_;
  std::array<Step, 2> steps_;
  Tile states_tile_, narrow_;  // Of each head: f32, and what PE multiplies
  uint32_t next_step_ = 0;
};

void Ssd::allocate() {
  const auto of_heads = [&](const char* name) { return program_.sbuf(name, kChunk, heads_, kF32); };
  for (Set& set : sets_) {
    set.x = program_.sbuf("x", kChunk, heads_ * size_, dtype_);
    set.y = program_.sbuf("y", kChunk, heads_ * size_, dtype_);
    set.b = program_.sbuf("b", kChunk, states_, dtype_);
    set.c = program_.sbuf("c", kChunk, states_, dtype_);
    set.b_turned = program_.sbuf("b transposed", states_, kChunk, dtype_);
    set.c_turned = program_.sbuf("c transposed", states_, kChunk, dtype_);
    set.rows = program_.sbuf("delta", heads_, kChunk, kF32);
    set.delta = of_heads("delta transposed");
    set.decay = of_heads("delta a");
    set.lowered = of_heads("negated sums");
    set.left = of_heads("delta that is left at the end");
    set.kept = of_heads("decay of the chunk");
    set.overlaps = program_.psum("c b", kChunk, kChunk);
  }
  rest_ = of_heads("decay to the end");
  turned_ = program_.psum("transposed", kChunk, kChunk, dtype_);
  sums_ = program_.psum("sums", kChunk, heads_);
  totals_ = program_.psum("totals", kChunk, heads_);
  states_tile_ = program_.sbuf("states", states_, heads_ * size_, kF32);
  narrow_ =
      dtype_ == kF32 ? states_tile_ : program_.sbuf("states", states_, heads_ * size_, dtype_);
}

void Ssd::allocate_steps() {
  for (Step& step : steps_) {
    step.sums = program_.psum("sums in rows", kChunk, kChunk);
    step.y = program_.psum("y", kChunk, size_);
    step.increment = program_.psum("increment", states_, size_);
    step.reach = program_.sbuf("decay from the state", states_, kChunk, kF32);
    step.shares = program_.sbuf("decay", kChunk, kChunk, kF32);
    step.mixed = program_.sbuf("weights", kChunk, kChunk, dtype_);
    step.carried = program_.sbuf("decayed c", states_, kChunk, dtype_);
    step.now = program_.sbuf("u", kChunk, size_, dtype_);
    step.later = program_.sbuf("u that is left", kChunk, size_, dtype_);
  }
}

// A triangle of ones where the column is not above the row, and a mask where it is later.
void Ssd::make_constants(const Buffer& a) {
  program_.section("constants");
  causal_ = causal_mask(program_, dtype_);
  later_ = program_.sbuf("mask of what is later", kChunk, kChunk, dtype_);
  ones_ = program_.sbuf("ones", kChunk, kChunk, kF32);
  triangle_ = program_.sbuf("triangle", kChunk, kChunk, kF32);
  a_ = program_.sbuf("a", kChunk, heads_, kF32);
  program_.memset(Engine::kPool, later_.all(), 0);
  program_.affine_select(later_.all(), later_.all(), below_diagonal(), NEURON_ALU_LE, kHidden);
  program_.memset(Engine::kPool, ones_.all(), 0x3F800000);
  program_.affine_select(triangle_.all(), ones_.all(), below_diagonal(), NEURON_ALU_LE, 0.0F);
  program_.dma(Engine::kSp, a_.all(), a.broadcast(kChunk));
}

void Ssd::load(const Set& set, uint64_t batch, uint64_t first) {
  const uint64_t sequence = shape_.sequence;
  const auto size = static_cast<int64_t>(size_);
  program_.dma(Engine::kSp, set.rows.all(), delta_.block(batch * heads_, heads_, first, kChunk));
  program_.dma(Engine::kSp, set.b.all(), b_.block(batch * sequence + first, kChunk, 0, states_));
  program_.dma(Engine::kSp, set.c.all(), c_.block(batch * sequence + first, kChunk, 0, states_));
  program_.dma(Engine::kSp, set.x.all(),
               x_.pattern((batch * heads_ * sequence + first) * size_, {size_, heads_, kChunk},
                          {1, static_cast<int64_t>(sequence) * size, size}));
}

void Ssd::turn(const Tile& to, const TileAccess& from) {
  const TileAccess turned = turned_.at(0, to.parts, 0, to.columns);
  program_.transpose(turned, from);
  program_.activate(to.all(), NEURON_ACT_COPY, turned);
}

// What all heads need of a chunk: sums of delta a, and what follows from them.
void Ssd::sum(const Set& set) {
  turn(set.b_turned, set.b.all());
  turn(set.c_turned, set.c.all());
  program_.transpose(totals_.all(), set.rows.all());
  program_.tensor_copy(Engine::kDve, set.delta.all(), totals_.all());
  program_.tensor_tensor(Engine::kDve, set.decay.all(), set.delta.all(), NEURON_ALU_MUL, a_.all());
  program_.matmul(sums_.all(), triangle_.all(), set.decay.all());
  program_.matmul(totals_.all(), ones_.all(), set.decay.all());
  program_.matmul(set.overlaps.all(), set.b_turned.all(), set.c_turned.all());
  program_.tensor_scalar(Engine::kDve, set.lowered.all(), sums_.all(), NEURON_ALU_MUL, -1.0F);
  program_.tensor_tensor(Engine::kDve, rest_.all(), totals_.all(), NEURON_ALU_ADD,
                         set.lowered.all());
  program_.activate(rest_.all(), NEURON_ACT_EXP, rest_.all());
  program_.activate(set.kept.all(), NEURON_ACT_EXP, totals_.all());
  program_.tensor_tensor(Engine::kDve, set.left.all(), rest_.all(), NEURON_ALU_MUL,
                         set.delta.all());
}

void Ssd::head(const Set& set, uint32_t head, bool first) {
  const Step& step = steps_[next_step_++ % 2];
  const TileAccess x = set.x.column_range(head * size_, size_);
  const TileAccess state = states_tile_.column_range(head * size_, size_);
  const TileAccess narrow = narrow_.column_range(head * size_, size_);
  const auto column = [head](const Tile& tile) { return tile.column_range(head, 1); };
  program_.matmul(step.sums.all(), set.decay.pattern(0, kChunk, head, {kChunk}, {0}),
                  triangle_.all());
  if (!first) {
    program_.activate(step.reach.all(), NEURON_ACT_EXP, step.sums.row_range(0, states_));
    program_.tensor_tensor(Engine::kDve, step.carried.all(), set.c_turned.all(), NEURON_ALU_MUL,
                           step.reach.all());
  }
  program_.matmul(step.sums.all(), causal_.identity.all(), later_.all(), true);
  program_.activate(step.shares.all(), NEURON_ACT_EXP, step.sums.all(),
                    {.bias = column(set.lowered)});
  program_.tensor_tensor(Engine::kDve, step.mixed.all(), set.overlaps.all(), NEURON_ALU_MUL,
                         step.shares.all());
  program_.tensor_scalar(Engine::kDve, step.now.all(), x, NEURON_ALU_MUL, column(set.delta));
  program_.tensor_scalar(Engine::kDve, step.later.all(), x, NEURON_ALU_MUL, column(set.left));
  program_.matmul(step.y.all(), step.mixed.all(), step.now.all());
  if (!first) program_.matmul(step.y.all(), step.carried.all(), narrow, true);
  program_.matmul(step.increment.all(), set.b.all(), step.later.all());
  program_.activate(set.y.column_range(head * size_, size_), NEURON_ACT_COPY, step.y.all());
  if (first) {
    program_.tensor_copy(Engine::kDve, state, step.increment.all());
  } else {
    program_.scalar_tensor_tensor(state, state, NEURON_ALU_MUL, set.kept.at(0, states_, head, 1),
                                  NEURON_ALU_ADD, step.increment.all());
  }
  if (dtype_ != kF32) program_.activate(narrow, NEURON_ACT_COPY, state);
}

void Ssd::store(const Set& set, uint64_t batch, uint64_t first) {
  const auto size = static_cast<int64_t>(size_);
  const auto sequence = static_cast<int64_t>(shape_.sequence);
  program_.dma(Engine::kPool,
               y_.pattern((batch * heads_ * shape_.sequence + first) * size_,
                          {size_, heads_, kChunk}, {1, sequence * size, size}),
               set.y.all());
}

Neff Ssd::build() {
  const auto [batch, heads, sequence, size, states] = shape_;
  x_ = program_.input("x", dtype_, {batch, heads, sequence, size});
  delta_ = program_.input("delta", kF32, {batch, heads, sequence});
  const Buffer a = program_.input("a", kF32, {heads});
  b_ = program_.input("b", dtype_, {batch, sequence, states});
  c_ = program_.input("c", dtype_, {batch, sequence, states});
  y_ = program_.output("y", dtype_, {batch, heads, sequence, size});
  allocate();
  allocate_steps();
  make_constants(a);
  const uint64_t chunks = sequence / kChunk, all = batch * chunks;
  const auto load_chunk = [&](uint64_t i) {
    if (i < all) load(sets_[i % 2], i / chunks, i % chunks * kChunk);
  };
  load_chunk(0);
  for (uint64_t i = 0; i < all; ++i) {
    program_.section("chunk_" + std::to_string(i));
    load_chunk(i + 1);
    const Set& set = sets_[i % 2];
    sum(set);
    for (uint32_t number = 0; number < heads_; ++number) head(set, number, i % chunks == 0);
    store(set, i / chunks, i % chunks * kChunk);
  }
  return program_.build();
}

}  // namespace

Neff ssd(const std::string& name, uint8_t dtype, const SsdShape& shape, uint8_t generation) {
  const auto [batch, heads, sequence, size, states] = shape;
  if (batch == 0 || heads == 0 || heads > kChunk || sequence == 0 || sequence % kChunk != 0 ||
      size == 0 || size > kBank || states == 0 || states > kChunk ||
      (dtype != kF32 && dtype != NEURON_DTYPE_BF16)) {
    return fail(NRT_INVALID,
                "ssd \"{}\" of {} x {} heads of {}, {} positions, {} states, {}; expected f32 or "
                "bf16, up to {} heads and states, heads of up to {}, and positions that are a "
                "multiple of {}",
                name, batch, heads, size, sequence, states, isa::dtype_name(dtype), kChunk, kBank,
                kChunk);
  }
  return Ssd(name, dtype, shape, generation).build();
}

}  // namespace neuron::kernels
