// SPDX-License-Identifier: Apache-2.0
// A mixture of experts without dropped tokens: blocks of 128 places, each of one expert.
//
// Whoever routes the tokens sorts their places by expert, and pads the last block of an expert. A
// block gathers its tokens' rows of x, fetches the weights of its expert from an address that is
// known on the device only, and adds its weighted results to their rows of y. The weights of the
// next block are fetched while this one computes.
//
// Weights lie in SBUF as they do in HBM, one run for each partition: partition p has rows p d to
// p d + d - 1 of d tiles of rows. So the transposed tokens are columns t, t + d, ... of x, and the
// hidden units come in tiles of every d-th. Neither costs anything: PE reads with a stride.
#include <algorithm>
#include <array>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/dynamic_fetch.h"
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

constexpr uint8_t kU32 = NEURON_DTYPE_U32;
constexpr uint32_t kPlaces = kMoePlaces;
constexpr uint32_t kTogether = kBank / kParts;  // Squares in a bank
constexpr uint8_t kGateUpRegister = 8, kDownRegister = 9;

class Moe {
 public:
  Moe(const std::string& name, uint8_t dtype, const MoeShape& shape, const MoeWeights* weights,
      uint8_t generation)
      : program_(name, generation),
        dtype_(dtype),
        shape_(shape),
        weights_(weights),
        inputs_(static_cast<uint32_t>(shape.inputs)),
        hidden_(static_cast<uint32_t>(shape.hidden)),
        experts_(static_cast<uint32_t>(shape.experts)) {}
  Neff build();

 private:
  struct Set {
    Tile gate_up, down, x, affinities, share, selected, turned, h;
  };

  Buffer resident(const char* name, std::vector<uint64_t> shape,
                  const std::vector<uint8_t> MoeWeights::*contents);
  Buffer copied(const char* name, uint8_t dtype, uint64_t columns);
  void allocate();
  void clear_sums();
  void fetch(const Set& set, uint32_t block);
  void turn(const Set& set);
  void hide(const Set& set);
  void finish(const Set& set, uint32_t block);
  uint32_t depth(uint32_t rows) const { return rows / kParts; }

  Program program_;
  uint8_t dtype_;
  MoeShape shape_;
  const MoeWeights* weights_;
  uint32_t inputs_, hidden_, experts_;
  Buffer gate_up_, down_, x_, affinities_, sums_, y_;
  std::array<Set, 2> sets_;
  std::array<Tile, 2> turned_, gates_, ups_, products_, weighted_;
  Tile tokens_, numbers_, expert_of_, iota_, silu_, zeros_;
  uint32_t next_turned_ = 0, next_hidden_ = 0, next_product_ = 0;
};

// Weights where a generated transfer finds them: constants of the file, or a copy of the input.
Buffer Moe::resident(const char* name, std::vector<uint64_t> shape,
                     const std::vector<uint8_t> MoeWeights::*contents) {
  if (weights_ != nullptr) return program_.constant(name, dtype_, shape, weights_->*contents);
  const Buffer input = program_.input(name, dtype_, shape);
  const Buffer copy = program_.temporary(std::string(name) + " copy", dtype_, shape);
  program_.dma(Engine::kSp, copy.all(), input.all());
  return copy;
}

// An input of a row for each token, where a gathering transfer finds it.
Buffer Moe::copied(const char* name, uint8_t dtype, uint64_t columns) {
  const Buffer input = program_.input(name, dtype, {shape_.tokens, columns});
  const Buffer copy =
      program_.temporary(std::string(name) + " copy", dtype, {shape_.tokens, columns});
  program_.dma(Engine::kSp, copy.all(), input.all());
  return copy;
}

void Moe::allocate() {
  const auto tile = [&](const char* name, uint32_t columns, uint8_t dtype) {
    return program_.sbuf(name, kParts, columns, dtype);
  };
  for (Set& set : sets_) {
    set.gate_up = tile("gate and up", depth(inputs_) * 2 * hidden_, dtype_);
    set.down = tile("down", depth(hidden_) * inputs_, dtype_);
    set.x = tile("x", inputs_, dtype_);
    set.affinities = tile("affinities", experts_, kF32);
    set.selected = tile("affinity to the expert", experts_, kF32);
    set.share = tile("share", 1, kF32);
    set.turned = tile("x transposed", inputs_, dtype_);
    set.h = tile("hidden units", depth(hidden_) * kPlaces, dtype_);
  }
  for (unsigned i = 0; i < 2; ++i) {
    turned_[i] = program_.psum("x transposed", kParts, kTogether * kPlaces, dtype_);
    gates_[i] = program_.psum("gates", kParts, kBank);
    ups_[i] = program_.psum("ups", kParts, kBank);
    products_[i] = program_.psum("products", kPlaces, kBank);
    weighted_[i] = tile("weighted results", inputs_, kF32);
  }
  silu_ = tile("silu", kBank, kF32);
  zeros_ = tile("zeros", std::max(inputs_, experts_), kF32);
  tokens_ = tile("tokens", shape_.blocks, kU32);
  numbers_ = program_.sbuf("experts", 1, shape_.blocks, kU32);
  expert_of_ = tile("experts", shape_.blocks, kF32);
  iota_ = tile("numbers of the experts", experts_, kF32);
}

// Every row of y begins with 0, and so do the places without a token.
void Moe::clear_sums() {
  program_.section("clear");
  for (const Set& set : sets_) {
    program_.memset(Engine::kDve, set.x.all(), 0);
    program_.memset(Engine::kDve, set.affinities.all(), 0);
  }
  program_.memset(Engine::kDve, zeros_.all(), 0);
  sums_ = program_.temporary("sums", kF32, {shape_.tokens, shape_.inputs});
  for (uint64_t row = 0; row < shape_.tokens; row += kParts) {
    const auto rows = static_cast<uint32_t>(std::min<uint64_t>(kParts, shape_.tokens - row));
    program_.dma(Engine::kActivation, sums_.block(row, rows, 0, inputs_),
                 zeros_.at(0, rows, 0, inputs_));
  }
}

// What a block works with. A place without a token keeps what it had: its results go nowhere.
void Moe::fetch(const Set& set, uint32_t block) {
  program_.section("block_" + std::to_string(block));
  const auto bytes = static_cast<uint32_t>(isa::dtype_bytes(dtype_));
  const auto run = [](const Buffer& buffer, uint64_t elements) {
    return buffer.pattern(0, {elements, kParts}, {1, static_cast<int64_t>(elements)});
  };
  load_register(program_, kGateUpRegister, numbers_, block, inputs_ * 2 * hidden_ * bytes,
                experts_);
  fetch_part(program_, kGateUpRegister, set.gate_up.all(), gate_up_,
             run(gate_up_, set.gate_up.columns));
  const TileAccess tokens = tokens_.column_range(block, 1);
  program_.dma_gather(set.x.all(), x_, tokens, {.skip = true});
  program_.dma_gather(set.affinities.all(), affinities_, tokens, {.skip = true});
  load_register(program_, kDownRegister, numbers_, block, hidden_ * inputs_ * bytes, experts_);
  fetch_part(program_, kDownRegister, set.down.all(), down_, run(down_, set.down.columns));
}

void Moe::turn(const Set& set) {
  const uint32_t deep = depth(inputs_);
  for (uint32_t first = 0; first < deep; first += kTogether) {
    const uint32_t count = std::min(kTogether, deep - first);
    const unsigned side = next_turned_++ % 2;
    for (uint32_t i = 0; i < count; ++i) {
      program_.transpose(turned_[side].column_range(i * kPlaces, kPlaces),
                         set.x.strided(first + i, kParts, static_cast<int32_t>(deep)));
    }
    const TileAccess from = turned_[side].column_range(0, count * kPlaces);
    const TileAccess to = set.turned.column_range(first * kPlaces, count * kPlaces);
    program_.tensor_copy(Engine::kDve, to, from);
  }
}

// silu(gate) * up, hidden units on partitions: as many of them as a bank has room for.
void Moe::hide(const Set& set) {
  const uint32_t deep = depth(inputs_), tall = depth(hidden_);
  for (uint32_t first = 0; first < tall; first += kTogether) {
    const uint32_t count = std::min(kTogether, tall - first);
    const unsigned side = next_hidden_++ % 2;
    for (uint32_t i = 0; i < count; ++i) {
      for (const bool up : {false, true}) {
        for (uint32_t k = 0; k < deep; ++k) {
          const uint32_t column = k * 2 * hidden_ + (up ? hidden_ : 0) + first + i;
          program_.matmul((up ? ups_ : gates_)[side].column_range(i * kPlaces, kPlaces),
                          set.gate_up.strided(column, kParts, static_cast<int32_t>(tall)),
                          set.turned.column_range(k * kPlaces, kPlaces), k != 0);
        }
      }
    }
    const TileAccess gate = gates_[side].column_range(0, count * kPlaces);
    const TileAccess up = ups_[side].column_range(0, count * kPlaces);
    const TileAccess silu = silu_.column_range(0, count * kPlaces);
    program_.activate(silu, NEURON_ACT_SILU, gate);
    program_.tensor_tensor(Engine::kDve, set.h.column_range(first * kPlaces, count * kPlaces), silu,
                           NEURON_ALU_MUL, up);
  }
}

void Moe::finish(const Set& set, uint32_t block) {
  program_.scalar_tensor_tensor(set.selected.all(), iota_.all(), NEURON_ALU_EQ,
                                expert_of_.column_range(block, 1), NEURON_ALU_MUL,
                                set.affinities.all());
  program_.tensor_reduce(set.share.all(), NEURON_ALU_ADD, set.selected.all());
  const uint32_t tall = depth(hidden_);
  const Tile& weighted = weighted_[block % 2];
  for (uint32_t first = 0; first < inputs_; first += kBank) {
    const uint32_t count = std::min(kBank, inputs_ - first);
    const TileAccess product = products_[next_product_++ % 2].column_range(0, count);
    for (uint32_t k = 0; k < tall; ++k) {
      program_.matmul(product, set.h.column_range(k * kPlaces, kPlaces),
                      set.down.column_range(k * inputs_ + first, count), k != 0);
    }
    program_.activate(weighted.column_range(first, count), NEURON_ACT_COPY, product,
                      {.scale = set.share.all()});
  }
  program_.dma_scatter(sums_, tokens_.column_range(block, 1), weighted.all(),
                       {.accumulate = true, .skip = true});
}

Neff Moe::build() {
  const auto [tokens, inputs, hidden, experts, blocks] = shape_;
  gate_up_ = resident("gate_up", {experts, inputs, 2 * hidden}, &MoeWeights::gate_up);
  down_ = resident("down", {experts, hidden, inputs}, &MoeWeights::down);
  x_ = copied("x", dtype_, inputs);
  affinities_ = copied("affinities", kF32, experts);
  const Buffer places = program_.input("tokens", kU32, {blocks, kPlaces});
  const Buffer numbers = program_.input("experts", kU32, {blocks});
  y_ = program_.output("y", dtype_, {tokens, inputs});
  allocate();
  program_.dma(Engine::kSp, numbers_.all(), numbers.all());
  program_.dma(Engine::kSp, tokens_.all(),
               places.pattern(0, {1, blocks, kPlaces}, {1, kPlaces, 1}));
  const Tile everywhere = program_.sbuf("experts of the blocks", kParts, blocks, kU32);
  program_.dma(Engine::kSp, everywhere.all(), numbers.broadcast(kParts));
  program_.tensor_copy(Engine::kDve, expert_of_.all(), everywhere.all());
  program_.iota(iota_.all(), {.size = {static_cast<uint16_t>(experts)}, .step = {1}});
  clear_sums();
  fetch(sets_[0], 0);
  for (uint32_t block = 0; block < blocks; ++block) {
    if (block + 1 < blocks) fetch(sets_[(block + 1) % 2], block + 1);
    program_.section("expert_of_block_" + std::to_string(block));
    const Set& set = sets_[block % 2];
    turn(set);
    hide(set);
    finish(set, block);
  }
  program_.section("results");
  if (dtype_ == kF32) {
    program_.dma(Engine::kSp, y_.all(), sums_.all());
  } else {
    program_.dma_compute(Engine::kSp, y_.all(), {sums_.all()}, {.operation = NEURON_DMA_CAST});
  }
  return program_.build();
}

}  // namespace

Neff moe(const std::string& name, uint8_t dtype, const MoeShape& shape, const MoeWeights* weights,
         uint8_t generation) {
  const auto [tokens, inputs, hidden, experts, blocks] = shape;
  constexpr uint64_t kMost = 1 << 14;
  const uint64_t bytes = isa::dtype_bytes(dtype);
  if (tokens == 0 || tokens > UINT32_MAX || inputs == 0 || inputs % kParts != 0 || inputs > kMost ||
      hidden == 0 || hidden % kParts != 0 || hidden > kMost || experts == 0 || experts > kMost ||
      blocks == 0 || blocks > kMost || experts * inputs * 2 * hidden * bytes > UINT32_MAX ||
      (dtype != kF32 && dtype != NEURON_DTYPE_BF16)) {
    return fail(NRT_INVALID,
                "moe \"{}\" of {} tokens of {}, {} experts of {} hidden units, {} blocks, {}; "
                "expected f32 or bf16, inputs and hidden units that are multiples of {} up to "
                "{}, up to {} experts and blocks, and less than 4 GiB of each kind of weights",
                name, tokens, inputs, experts, hidden, blocks, isa::dtype_name(dtype), kParts,
                kMost, kMost);
  }
  return Moe(name, dtype, shape, weights, generation).build();
}

}  // namespace neuron::kernels
