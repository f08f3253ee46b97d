// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/neuroncore/engines/scalar_table.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace neuron::core {
namespace {

constexpr uint32_t kNan = 0x7FC00000u;

float real(uint32_t bits) { return std::bit_cast<float>(bits); }

// Not inlined: the compiler must not move its arithmetic out of the floating-point scope.
__attribute__((noinline)) float polynomial(const float* c, unsigned degree, float x, float centre) {
  const float t = x - centre;
  float y = c[degree];
  for (unsigned d = degree; d-- > 0;) y = std::fma(y, t, c[d]);
  return y;
}

}  // namespace

size_t ActivationTable::words_of(std::span<const uint32_t, NEURON_TABLE_HEADER_WORDS> header,
                                 size_t& wrong) {
  const auto between = [](uint32_t value, uint32_t most) { return value >= 1 && value <= most; };
  wrong = header[0] != NEURON_TABLE_MAGIC                   ? 0
          : header[1] != NEURON_TABLE_VERSION               ? 1
          : !between(header[2], NEURON_TABLE_MAX_FUNCTIONS) ? 2
          : !between(header[3], NEURON_TABLE_MAX_PIECES)    ? 3
                                                            : kAccepted;
  if (wrong != kAccepted) return 0;
  return NEURON_TABLE_HEADER_WORDS + header[2] * NEURON_TABLE_FUNCTION_WORDS +
         header[3] * NEURON_TABLE_PIECE_WORDS;
}

size_t ActivationTable::accept(unsigned set, std::span<const uint32_t> words) {
  size_t wrong = 0;
  if (words.size() < NEURON_TABLE_HEADER_WORDS) return 0;
  const size_t expected = words_of(words.first<NEURON_TABLE_HEADER_WORDS>(), wrong);
  if (expected == 0) return wrong;
  if (words.size() != expected) return 3;
  const size_t pieces_at =
      NEURON_TABLE_HEADER_WORDS + words[2] * size_t{NEURON_TABLE_FUNCTION_WORDS};

  std::vector<Piece> pieces(words[3]);
  for (size_t p = 0; p < pieces.size(); ++p) {
    const uint32_t* from = words.data() + pieces_at + p * NEURON_TABLE_PIECE_WORDS;
    Piece& piece = pieces[p];
    piece = {real(from[0]),
             real(from[1]),
             {real(from[2]), real(from[3]), real(from[4]), real(from[5])},
             3};
    while (piece.degree > 0 && piece.c[piece.degree] == 0.0f) --piece.degree;
  }
  std::vector<Function> functions(words[2]);
  for (size_t f = 0; f < functions.size(); ++f) {
    const size_t at = NEURON_TABLE_HEADER_WORDS + f * NEURON_TABLE_FUNCTION_WORDS;
    const uint32_t* from = words.data() + at;
    if (from[0] < NEURON_TABLE_FIRST_FUNCTION || from[0] > 255) return at;
    if (from[1] >= pieces.size()) return at + 1;
    if (from[2] < 1 || from[2] > pieces.size() - from[1]) return at + 2;
    if (!(real(from[3]) <= real(from[4]))) return at + 3;
    functions[f] = {from[0], from[1], from[2], real(from[3]), real(from[4])};
    for (size_t p = from[1]; p < from[1] + from[2]; ++p) {
      const bool ascends =
          p == from[1] ? pieces[p].from == -INFINITY : pieces[p].from > pieces[p - 1].from;
      if (!ascends) return pieces_at + p * NEURON_TABLE_PIECE_WORDS;
    }
  }
  set_ = set;
  functions_ = std::move(functions);
  pieces_ = std::move(pieces);
  return kAccepted;
}

void ActivationTable::clear() {
  set_ = 0;
  functions_.clear();
  pieces_.clear();
}

const ActivationTable::Function* ActivationTable::find(unsigned function) const {
  for (const Function& f : functions_) {
    if (f.number == function) return &f;
  }
  return nullptr;
}

void ActivationTable::compute(unsigned function, const float* in, float* out, size_t n,
                              numerics::Subnormals subnormals) const {
  const Function& f = *find(function);
  const Piece* first = pieces_.data() + f.first;
  const numerics::FloatScope environment(subnormals);
  const bool flush = subnormals == numerics::Subnormals::kFlush;
  for (size_t i = 0; i < n; ++i) {
    float x = in[i];
    if (flush) numerics::copy_flushed(&x, &x, 1);
    if (x != x) {
      out[i] = real(kNan);
      continue;
    }
    const Piece* piece = std::upper_bound(first, first + f.pieces, x,
                                          [](float v, const Piece& p) { return v < p.from; }) -
                         1;
    float y = polynomial(piece->c, piece->degree, x, piece->centre);
    if (flush) numerics::copy_flushed(&y, &y, 1);
    out[i] = y == y ? y : real(kNan);
  }
}

size_t ActivationTable::count_outside_domain(unsigned function, const float* in, size_t n) const {
  const Function& f = *find(function);
  const bool all_reals = f.low == -INFINITY && f.high == INFINITY;
  return static_cast<size_t>(std::count_if(
      in, in + n, [&](float x) { return x < f.low || x > f.high || (x != x && !all_reals); }));
}

}  // namespace neuron::core
