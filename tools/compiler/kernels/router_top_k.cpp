// SPDX-License-Identifier: Apache-2.0
// The router of a mixture of experts: for each token the experts of the greatest logits, and
// weights.
//
// Tokens are partitions; 512 of them are loaded at a time, for long rows. The logits stay in PSUM;
// DVE takes the eight greatest of them at a time, finds where they are, and hides them before it
// looks for the next eight. The softmax of what was chosen needs no more exponentials than that;
// the one over all experts sums them in Activation's accumulators.
#include <algorithm>
#include <array>

#include "driver/isa/instruction.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/kernels/pairs.h"
#include "tools/compiler/kernels/short_names.h"

namespace neuron::kernels {

using builder::Buffer;
using builder::Engine;
using builder::Program;
using builder::Tile;
using runtime::fail;

namespace {

constexpr uint32_t kEight = 8;    // Of max8 and its companions
constexpr uint32_t kGroup = 512;  // Tokens of one load
constexpr uint32_t kMostChosen = 64, kMostInputs = 4096;
constexpr float kBelowLogits = -3e38F;  // Below every logit

class Router {
 public:
  Router(const std::string& name, uint8_t dtype, const RouterShape& shape, uint8_t generation)
      : program_(name, generation),
        dtype_(dtype),
        shape_(shape),
        depth_(static_cast<uint32_t>(shape.inputs / kParts)),
        rounds_((shape.chosen + kEight - 1) / kEight) {}
  Neff build();

 private:
  struct Set {
    Tile logits, left, greatest, found;
    Tile lowered, exponentials, odds, total, factor, weights;
  };

  void allocate(Set& set);
  void load(const Piece& tokens, uint32_t count);
  void choose(const Set& set, uint32_t first, uint32_t parts);
  void weigh(const Set& set, uint32_t parts);
  void group(const Piece& tokens, uint32_t count);

  Program program_;
  uint8_t dtype_;
  RouterShape shape_;
  uint32_t depth_, rounds_;
  Buffer x_t_, weights_, found_;
  Tile w_;
  std::array<Tile, 2> x_;
  std::array<Set, 2> sets_;
  unsigned loaded_ = 0;  // Of x_
};

void Router::allocate(Set& set) {
  const auto column = [&](const char* name) { return program_.sbuf(name, kParts, 1, kF32); };
  const uint32_t experts = shape_.experts, places = rounds_ * kEight;
  set.logits = program_.psum("logits", kParts, experts);
  if (rounds_ > 1) set.left = program_.sbuf("logits that are left", kParts, experts, kF32);
  set.greatest = program_.sbuf("greatest logits", kParts, places, kF32);
  set.found = program_.sbuf("experts", kParts, places, NEURON_DTYPE_U32);
  set.lowered = column("negated maximum");
  set.exponentials =
      shape_.normalised ? Tile{} : program_.sbuf("exponentials", kParts, experts, dtype_);
  set.odds = program_.sbuf("odds", kParts, shape_.chosen, kF32);
  set.total = column("total");
  set.factor = column("factor");
  set.weights = program_.sbuf("weights", kParts, shape_.chosen, kF32);
}

// `count` tokens of a group of 512.
void Router::load(const Piece& tokens, uint32_t count) {
  const auto row = static_cast<int64_t>(shape_.tokens);
  program_.dma(Engine::kSp, x_[loaded_].pattern(0, kParts, 0, {count, depth_}, {1, kGroup}),
               x_t_.pattern(tokens.first * kGroup, {count, depth_, kParts}, {1, kParts * row, row})
                   .advancing(tokens.step * kGroup * isa::dtype_bytes(dtype_)));
}

void Router::choose(const Set& set, uint32_t first, uint32_t parts) {
  for (uint32_t deep = 0; deep < depth_; ++deep) {
    program_.matmul(set.logits.row_range(0, parts),
                    x_[loaded_].column_range(deep * kGroup + first, parts),
                    w_.column_range(deep * shape_.experts, shape_.experts), deep != 0);
  }
  for (uint32_t round = 0; round < rounds_; ++round) {
    const auto from = (round == 0 ? set.logits : set.left).row_range(0, parts);
    const auto greatest = set.greatest.at(0, parts, round * kEight, kEight);
    program_.max8(greatest, from);
    program_.find_index8(set.found.at(0, parts, round * kEight, kEight), from, greatest);
    if (round + 1 == rounds_) continue;
    program_.match_replace8(set.left.row_range(0, parts), from, greatest, kBelowLogits);
  }
}

void Router::weigh(const Set& set, uint32_t parts) {
  const auto rows = [parts](const Tile& tile) { return tile.row_range(0, parts); };
  const auto lowered = rows(set.lowered);
  program_.tensor_scalar(Engine::kDve, lowered, set.greatest.at(0, parts, 0, 1), NEURON_ALU_MUL,
                         -1.0F);
  const uint8_t sums = NEURON_REDUCE_RESET_ACCUMULATE, none = NEURON_REDUCE_IDLE;
  if (!shape_.normalised) {
    program_.activate(rows(set.exponentials), NEURON_ACT_EXP, rows(set.logits),
                      {.bias = lowered, .reduce = sums});
    program_.read_accumulator(Engine::kActivation, rows(set.total));
  }
  program_.activate(rows(set.odds), NEURON_ACT_EXP, set.greatest.at(0, parts, 0, shape_.chosen),
                    {.bias = lowered, .reduce = shape_.normalised ? sums : none});
  if (shape_.normalised) program_.read_accumulator(Engine::kActivation, rows(set.total));
  program_.reciprocal(rows(set.factor), rows(set.total));
  program_.tensor_scalar(Engine::kDve, rows(set.weights), rows(set.odds), NEURON_ALU_MUL,
                         rows(set.factor));
}

// Each engine chooses for the next 128 tokens before it weighs these.
void Router::group(const Piece& tokens, uint32_t count) {
  loaded_ = tokens.set;
  load(tokens, count);
  const uint32_t tiles = (count + kParts - 1) / kParts, chosen = shape_.chosen;
  const auto parts_of = [count](uint32_t tile) { return std::min(kParts, count - tile * kParts); };
  choose(sets_[0], 0, parts_of(0));
  for (uint32_t tile = 0; tile < tiles; ++tile) {
    const Set& set = sets_[tile % 2];
    if (tile + 1 < tiles) choose(sets_[(tile + 1) % 2], (tile + 1) * kParts, parts_of(tile + 1));
    const uint32_t parts = parts_of(tile);
    weigh(set, parts);
    const uint64_t first = tokens.first * kGroup + tile * kParts;
    const int64_t step = tokens.step * kGroup;
    program_.dma(Engine::kPool, weights_.rows_of_round(first, parts, step),
                 set.weights.row_range(0, parts));
    program_.dma(Engine::kPool, found_.rows_of_round(first, parts, step),
                 set.found.at(0, parts, 0, chosen));
  }
}

Neff Router::build() {
  const auto [tokens, inputs, experts, chosen, normalised] = shape_;
  x_t_ = program_.input("x_t", dtype_, {inputs, tokens});
  const Buffer w = program_.input("w", dtype_, {inputs, experts});
  weights_ = program_.output("weights", kF32, {tokens, chosen});
  found_ = program_.output("experts", NEURON_DTYPE_U32, {tokens, chosen});
  program_.section("experts");
  w_ = program_.sbuf("w", kParts, depth_ * experts, dtype_);
  program_.dma(Engine::kActivation, w_.all(),
               w.pattern(0, {experts, depth_, kParts},
                         {1, static_cast<int64_t>(kParts) * experts, experts}));
  for (Tile& x : x_) x = program_.sbuf("x", kParts, depth_ * kGroup, dtype_);
  for (Set& set : sets_) allocate(set);
  const uint64_t whole = tokens / kGroup;
  for_pairs(program_, "tokens", whole, [&](const Piece& piece) { group(piece, kGroup); });
  if (tokens % kGroup == 0) return program_.build();
  program_.section("last_tokens");
  group({whole, 0, static_cast<unsigned>(whole % 2)}, static_cast<uint32_t>(tokens % kGroup));
  return program_.build();
}

}  // namespace

Neff router_top_k(const std::string& name, uint8_t dtype, const RouterShape& shape,
                  uint8_t generation) {
  const auto [tokens, inputs, experts, chosen, normalised] = shape;
  if (tokens == 0 || tokens > UINT32_MAX || inputs == 0 || inputs % kParts != 0 ||
      inputs > kMostInputs || experts < kEight || experts > NEURON_PE_MAX_N || chosen == 0 ||
      chosen > experts || chosen > kMostChosen || (dtype != kF32 && dtype != NEURON_DTYPE_BF16)) {
    return fail(NRT_INVALID,
                "router_top_k \"{}\" of {} tokens of {}, {} of {} experts, {}; expected f32 or "
                "bf16, inputs a multiple of {} up to {}, {} to {} experts, and at most {} of "
                "them chosen",
                name, tokens, inputs, chosen, experts, isa::dtype_name(dtype), kParts, kMostInputs,
                kEight, NEURON_PE_MAX_N, kMostChosen);
  }
  return Router(name, dtype, shape, generation).build();
}

}  // namespace neuron::kernels
