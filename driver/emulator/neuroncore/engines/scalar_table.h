// SPDX-License-Identifier: Apache-2.0
// The loadable activation functions of one core: the set that load_table loaded last
// (include/hw/activation_table.h).
//
// Owned by the Activation engine's context, used in the group's thread. accept() takes a whole
// image or refuses it and keeps the old set; the words come from device memory and are not trusted.
// Allocates when a set is accepted, never while computing.
#ifndef DRIVER_EMULATOR_NEURONCORE_ENGINES_SCALAR_TABLE_H
#define DRIVER_EMULATOR_NEURONCORE_ENGINES_SCALAR_TABLE_H

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "driver/emulator/numerics/float_environment.h"
#include "hw/activation_table.h"

namespace neuron::core {

class ActivationTable {
 public:
  static constexpr size_t kMaxWords = NEURON_TABLE_HEADER_WORDS +
                                      NEURON_TABLE_MAX_FUNCTIONS * NEURON_TABLE_FUNCTION_WORDS +
                                      NEURON_TABLE_MAX_PIECES * NEURON_TABLE_PIECE_WORDS;
  static constexpr size_t kAccepted = ~size_t{0};

  // Words of the image whose header is given; 0 if the header is invalid; `wrong` is then the wrong
  // word.
  static size_t words_of(std::span<const uint32_t, NEURON_TABLE_HEADER_WORDS> header,
                         size_t& wrong);
  // kAccepted, or the number of the first word that breaks a rule.
  size_t accept(unsigned set, std::span<const uint32_t> words);
  void clear();

  // The number of the set; 0: none is loaded.
  unsigned set() const { return set_; }
  bool has(unsigned function) const { return find(function) != nullptr; }
  void compute(unsigned function, const float* in, float* out, size_t n,
               numerics::Subnormals subnormals) const;
  size_t count_outside_domain(unsigned function, const float* in, size_t n) const;

 private:
  struct Piece {
    float from, centre, c[4];
    unsigned degree;
  };
  struct Function {
    unsigned number;
    size_t first, pieces;
    float low, high;
  };
  const Function* find(unsigned function) const;

  unsigned set_ = 0;
  std::vector<Function> functions_;
  std::vector<Piece> pieces_;
};

}  // namespace neuron::core

#endif
