// SPDX-License-Identifier: Apache-2.0
// Computes contents of buffers from a seed, without storing them, and compares results with the
// expected values.
//
// Concepts: element i of a rank's input is a function of seed, rank and i, so that every rank can
// compute the inputs of all others. The more ranks are summed, the fewer significant bits their
// values have, so that no order of summation rounds, and a sum that misses one rank is seen in
// every format. Copies, integers, sums and products are compared exactly, averages with the
// rounding of their division. Values that some order would round, which only groups of unusual
// ranks have, are compared with a bound that holds for one rounding a step. Callers: ranks of a
// run, the matrix of tests. Thread-safe: const calls. Fails: a Mismatch says where.
#ifndef TOOLS_NCCOM_TEST_RUN_DATA_H
#define TOOLS_NCCOM_TEST_RUN_DATA_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/nccom-test/run/case.h"

namespace neuron::nccom {

double decode(ccom_type_t type, const std::byte* element);
// To nearest even; floating-point types only.
void encode(ccom_type_t type, double value, std::byte* element);

class Data {
 public:
  // `ones`: all inputs are 1. `ranks`: that are reduced; 1 where nothing is.
  Data(uint64_t seed, bool ones, ccom_type_t type, ccom_reduction_t reduction, uint32_t ranks = 1);

  // `rank`: of the world, so that groups have contents of their own.
  void fill(uint32_t rank, uint64_t first, std::span<std::byte> into) const;
  void element(uint32_t rank, uint64_t index, std::byte* into) const;
  // Reduces over `ranks`, in their order: the serial reference, accumulated in double (integers:
  // wrapping) and rounded once. `bound`: how far a result may differ.
  void reduced(std::span<const uint32_t> ranks, uint64_t index, std::byte* into,
               double& bound) const;

  ccom_type_t type() const { return type_; }
  uint64_t width() const { return width_; }

 private:
  uint32_t scaling_ranks() const;
  void choose_factors();
  void choose_summands(uint32_t ranks);
  bool silent(uint32_t rank, uint64_t index) const;
  double bound_of(double result, double magnitude, double unit, size_t ranks) const;
  uint64_t hash(uint32_t rank, uint64_t index) const;
  void reduced_integer(std::span<const uint32_t> ranks, uint64_t index, std::byte* into) const;

  uint64_t seed_;
  bool ones_;
  ccom_type_t type_;
  ccom_reduction_t reduction_;
  uint64_t width_;
  std::vector<std::byte> values_;  // of floating-point types: those to choose from
  uint64_t choices_ = 0;
  // Of so many ranks one has a summand that is not 0: more would need more bits than the type has.
  uint32_t silence_ = 1;
};

// Fills elements that no result may touch.
inline constexpr std::byte kUntouched{0xA5};

struct Mismatch {
  uint64_t element = 0;
  std::string found, expected;
};

// `ranks`: world ranks of the group. `untouched`: with false, elements outside of the segments may
// hold anything (in place).
std::optional<Mismatch> verify(const Data& data, const Work& work, uint32_t place,
                               std::span<const uint32_t> ranks, std::span<const std::byte> output,
                               bool untouched);
// The whole expected output, for dumps.
std::vector<std::byte> golden(const Data& data, const Work& work, uint32_t place,
                              std::span<const uint32_t> ranks);

std::string shown(ccom_type_t type, const std::byte* element);

}  // namespace neuron::nccom

#endif
