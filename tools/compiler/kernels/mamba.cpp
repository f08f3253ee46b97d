// SPDX-License-Identifier: Apache-2.0
// The selective scan of Mamba: for each channel and each of its states,
//   state[t] = exp(delta[t] a) state[t - 1] + delta[t] u[t] b[t],   y[t] = sum of c[t] state[t].
//
// Channels are partitions, time runs along them. b and c are the same for all channels: PE copies
// a row of them to all partitions of PSUM, by a product with a column of the identity. The three
// versions differ in their order and so in DVE's repeated work (N positions of a tile):
//   1  states outside, channels inside: delta, u and y pass by for every state; delta u is computed
//      for every state. 8 N cycles of DVE for each state of a tile of channels.
//   2  channels outside, states inside: delta u is computed once. 6 N.
//   3  as 2, in pieces of 512 positions, so that any sequence fits; the last state of a piece is
//      carried to the next one.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/pairs.h"
#include "tools/compiler/kernels/row_tiles.h"
#include "tools/compiler/kernels/short_names.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::ScalarArgument;
using builder::Tile;
using builder::TileAccess;
using runtime::fail;

namespace {

constexpr uint64_t kBankPositions = NEURON_PSUM_BANK_BYTES / 4;
// Rows of b and c, two each, fill PSUM.
constexpr uint64_t kWhole = 2 * kBankPositions;
// Each loop takes semaphores of its own, so a program with more of them is written out.
constexpr uint64_t kMostLoops = 60;

class Mamba {
 public:
  Mamba(const std::string& name, const MambaShape& shape, unsigned version)
      : program_(name), shape_(shape), version_(version) {}
  Neff build();

 private:
  struct Set {
    Tile delta, u, delta_u, y;
  };
  // A column of a tile that has one for each state of each tile of channels.
  struct Column {
    uint32_t first = 0;
    int64_t step = 0;  // In a loop
    TileAccess of(const Tile& tile) const { return tile.column_range(first, 1).advancing(step); }
  };

  void prepare();
  void load_rows(uint64_t at);
  void load_channels(const Set& set, const RowTile& tile, uint64_t at);
  void store_channels(const TileAccess& y, const RowTile& tile, uint64_t at);
  void spread(const Piece& state);
  void state(const Set& set, const TileAccess& y, const Column& column);
  void states_outside();
  void channels_outside(uint64_t at);

  Program program_;
  MambaShape shape_;
  unsigned version_;
  uint32_t width_ = 0, states_ = 0, tiles_ = 0;
  Buffer delta_, u_, a_, b_, c_, y_;
  Tile a_tile_, identity_, carry_, all_y_;
  std::array<Tile, 2> b_rows_, c_rows_;      // In SBUF, a state each
  std::array<Tile, 2> b_spread_, c_spread_;  // In PSUM
  std::array<Tile, 2> decay_, increment_, scanned_, shares_;
  std::array<Set, 2> sets_;
  unsigned next_rows_ = 0, rows_ = 0, next_spread_ = 0, spread_ = 0, next_state_ = 0;
  bool first_piece_ = true;
  bool loops_ = true;  // Over states, in versions 2 and 3
};

void Mamba::prepare() {
  const auto [channels, sequence, states] = shape_;
  delta_ = program_.input("delta", kF32, {channels, sequence});
  u_ = program_.input("u", kF32, {channels, sequence});
  a_ = program_.input("a", kF32, {channels, states});
  b_ = program_.input("b", kF32, {states, sequence});
  c_ = program_.input("c", kF32, {states, sequence});
  y_ = program_.output("y", kF32, {channels, sequence});
  program_.section("constants");
  a_tile_ = program_.sbuf("a", kParts, tiles_ * states_, kF32);
  program_.dma(
      Engine::kSp, a_tile_.all(),
      a_.pattern(0, {states, tiles_, kParts},
                 {1, static_cast<int64_t>(kParts * states), static_cast<int64_t>(states)}));
  const Tile ones = program_.sbuf("ones", states_, states_, kF32);
  identity_ = program_.sbuf("identity", states_, states_, kF32);
  program_.memset(Engine::kPool, ones.all(), std::bit_cast<uint32_t>(1.0F));
  program_.affine_select(
      identity_.all(), ones.all(),
      {.size = {static_cast<uint16_t>(states_)}, .step = {-1}, .offset = 0, .of_partition = 1},
      NEURON_ALU_EQ, 0.0F);
  for (unsigned i = 0; i < 2; ++i) {
    b_rows_[i] = program_.sbuf("b", states_, width_, kF32);
    c_rows_[i] = program_.sbuf("c", states_, width_, kF32);
    b_spread_[i] = program_.psum("b", kParts, width_);
    c_spread_[i] = program_.psum("c", kParts, width_);
    decay_[i] = program_.sbuf("decay", kParts, width_, kF32);
    increment_[i] = program_.sbuf("increment", kParts, width_, kF32);
    scanned_[i] = program_.sbuf("states", kParts, width_, kF32);
    shares_[i] = program_.sbuf("share of y", kParts, width_, kF32);
    sets_[i].delta = program_.sbuf("delta", kParts, width_, kF32);
    sets_[i].u = program_.sbuf("u", kParts, width_, kF32);
    sets_[i].delta_u = program_.sbuf("delta u", kParts, width_, kF32);
    if (version_ > 1) sets_[i].y = program_.sbuf("y", kParts, width_, kF32);
  }
  if (version_ == 1) all_y_ = program_.sbuf("y", kParts, tiles_ * width_, kF32);
  if (version_ == 3) carry_ = program_.sbuf("carry", kParts, tiles_ * states_, kF32);
}

void Mamba::load_rows(uint64_t at) {
  rows_ = next_rows_++ % 2;
  program_.dma(Engine::kSp, b_rows_[rows_].all(), b_.block(0, states_, at, width_));
  program_.dma(Engine::kSp, c_rows_[rows_].all(), c_.block(0, states_, at, width_));
}

void Mamba::load_channels(const Set& set, const RowTile& tile, uint64_t at) {
  const int64_t step = tile.step * static_cast<int64_t>(shape_.sequence) * 4;
  program_.dma(Engine::kSp, set.delta.all(),
               delta_.block(tile.first, kParts, at, width_).advancing(step));
  program_.dma(Engine::kSp, set.u.all(), u_.block(tile.first, kParts, at, width_).advancing(step));
}

void Mamba::store_channels(const TileAccess& y, const RowTile& tile, uint64_t at) {
  const int64_t step = tile.step * static_cast<int64_t>(shape_.sequence) * 4;
  program_.dma(Engine::kPool, y_.block(tile.first, kParts, at, width_).advancing(step), y);
}

// Copies rows `state` of b and c to all partitions.
void Mamba::spread(const Piece& state) {
  spread_ = next_spread_++ % 2;
  program_.load_weights(
      identity_.pattern(0, states_, static_cast<uint32_t>(state.first), {kParts}, {0})
          .advancing(state.step));
  // c comes first: an engine that waits for b then knows that c is complete as well.
  for (const auto& [to, from] :
       {std::pair{&c_spread_, &c_rows_}, std::pair{&b_spread_, &b_rows_}}) {
    for (uint32_t first = 0; first < width_; first += kBankPositions) {
      const auto count = static_cast<uint32_t>(std::min<uint64_t>(kBankPositions, width_ - first));
      program_.multiply((*to)[spread_].column_range(first, count),
                        (*from)[rows_].column_range(first, count), false,
                        to == &c_spread_ && first == 0);
    }
  }
}

void Mamba::state(const Set& set, const TileAccess& y, const Column& column) {
  const unsigned i = next_state_++ % 2;
  program_.activate(decay_[i].all(), NEURON_ACT_EXP, set.delta.all(),
                    {.scale = column.of(a_tile_)});
  if (version_ == 1) {
    program_.tensor_tensor(Engine::kDve, set.delta_u.all(), set.delta.all(), NEURON_ALU_MUL,
                           set.u.all());
  }
  program_.tensor_tensor(Engine::kDve, increment_[i].all(), set.delta_u.all(), NEURON_ALU_MUL,
                         b_spread_[spread_].all());
  ScalarArgument initial(0.0F);
  if (version_ == 3 && !first_piece_) initial = column.of(carry_);
  program_.tensor_tensor_scan(scanned_[i].all(), decay_[i].all(), NEURON_ALU_MUL, NEURON_ALU_ADD,
                              increment_[i].all(), initial);
  if (version_ == 3) {
    program_.tensor_copy(Engine::kDve, column.of(carry_), scanned_[i].column_range(width_ - 1, 1));
  }
  program_.tensor_tensor(Engine::kDve, shares_[i].all(), scanned_[i].all(), NEURON_ALU_MUL,
                         c_spread_[spread_].all());
  program_.tensor_tensor(Engine::kDve, y, y, NEURON_ALU_ADD, shares_[i].all());
}

void Mamba::states_outside() {
  load_rows(0);
  program_.memset(Engine::kPool, all_y_.all(), 0);
  for (uint32_t n = 0; n < states_; ++n) {
    program_.section("state_" + std::to_string(n));
    spread({n, 0, 0});
    for_row_tiles(program_, shape_.channels, [&](const RowTile& tile) {
      const auto number = static_cast<uint32_t>(tile.first / kParts);
      const int64_t step = tile.step / kParts;
      const Set& set = sets_[tile.set];
      const TileAccess y = all_y_.column_range(number * width_, width_).advancing(step * width_);
      load_channels(set, tile, 0);
      state(set, y, {number * states_ + n, step * states_});
      if (n + 1 == states_) store_channels(y, tile, 0);
    });
  }
}

void Mamba::channels_outside(uint64_t at) {
  const std::string section = "positions_" + std::to_string(at);
  program_.section(section);
  first_piece_ = at == 0;
  load_rows(at);
  for (uint32_t number = 0; number < tiles_; ++number) {
    const std::string part = section + "_channels_" + std::to_string(number * kParts);
    program_.section(part);
    const RowTile tile{uint64_t{number} * kParts, kParts, 0, number % 2};
    const Set& set = sets_[tile.set];
    load_channels(set, tile, at);
    program_.memset(Engine::kPool, set.y.all(), 0);
    program_.tensor_tensor(Engine::kDve, set.delta_u.all(), set.delta.all(), NEURON_ALU_MUL,
                           set.u.all());
    const auto body = [&](const Piece& n) {
      spread(n);
      state(set, set.y.all(), {number * states_ + static_cast<uint32_t>(n.first), n.step});
    };
    if (loops_) {
      for_pairs(program_, part + "_state", states_, body);
    } else {
      for (uint32_t n = 0; n < states_; ++n) body({n, 0, n % 2});
    }
    store_channels(set.y.all(), tile, at);
  }
}

Neff Mamba::build() {
  const auto [channels, sequence, states] = shape_;
  const bool pieces = version_ == 3;
  if (version_ < 1 || version_ > 3 || channels == 0 || channels % kParts != 0 ||
      channels > UINT32_MAX || states == 0 || states > kParts || sequence == 0 ||
      (pieces ? sequence % kBankPositions != 0 : sequence > kWhole)) {
    return fail(NRT_INVALID,
                "mamba \"{}\", version {}, of {} channels, {} positions and {} states; expected "
                "versions 1 to 3, channels a multiple of {}, up to {} states, and up to {} "
                "positions, in version 3 a multiple of {}",
                program_.name(), version_, channels, sequence, states, kParts, kParts, kWhole,
                kBankPositions);
  }
  width_ = static_cast<uint32_t>(pieces ? kBankPositions : sequence);
  states_ = static_cast<uint32_t>(states);
  tiles_ = static_cast<uint32_t>(channels / kParts);
  loops_ = sequence / width_ * tiles_ <= kMostLoops;
  prepare();
  if (version_ == 1) {
    states_outside();
  } else {
    for (uint64_t at = 0; at < sequence; at += width_) channels_outside(at);
  }
  return program_.build();
}

}  // namespace

Neff mamba(const std::string& name, const MambaShape& shape, unsigned version) {
  return Mamba(name, shape, version).build();
}

}  // namespace neuron::kernels
