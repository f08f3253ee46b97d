// SPDX-License-Identifier: Apache-2.0
// Which instructions TypeValues executes with each type that the checks accept, comparing values,
// and which tests do so for the others. The page coverage.md is written from this; that a named
// test exists is looked up in the sources (coverage_test.cpp), and that it executes the types, on
// the engines and generations of which the page says so, is found by running it
// (coverage_claims_test.cpp of the NeuronCore).
#ifndef TESTS_UNIT_DRIVER_ISA_VALUE_CHECKS_H
#define TESTS_UNIT_DRIVER_ISA_VALUE_CHECKS_H

#include <string>
#include <vector>

#include "tests/unit/driver/isa/samples.h"
#include "tests/unit/driver/isa/type_probe.h"

namespace neuron::isa::testing {

inline constexpr const char* kTypeValues = "TypeValues.OfEveryInstructionAreThoseOfFp32RoundedOnce";

// The tests that together compare the values of every type in every place of an instruction.
struct ValueChecks {
  std::string why;  // TypeValues alone does not; empty: it does
  std::vector<std::string> tests;
  bool by_type_values() const { return why.empty(); }
};

inline ValueChecks value_checks(const Instruction& i) {
  if (!has_typed_place(i)) return {"no operand has a type", {}};
  if (is_dma(i)) {
    return {"moves by descriptors", {"DmaTypes.ArriveRoundedOnceOrBitByBit"}};
  }
  switch (i.opcode) {
    case NEURON_OP_SENDRECV:
      return {"needs two cores", {"CoreMeeting.SendrecvMovesTheBitsOfEveryType"}};
    case NEURON_OP_LDWEIGHTS:
      return {"matmul shows what it loaded", {kTypeValues}};
    case NEURON_OP_LDWEIGHTS_MX:
    case NEURON_OP_MATMUL_MX:
      return {"codes and scales of blocks",
              {"BlockScaled.ProductsOfAllPairsOfFormatsAreTheSumsThatTheTextDefines",
               "BlockScaled.TakesScalesOfEitherTypeAndRoundsIntoBf16"}};
    case NEURON_OP_LDWEIGHTS_SPARSE:
    case NEURON_OP_MATMUL_SPARSE:
      return {"compressed weights with positions",
              {"Sparse.ProductsOfEveryRatioAndTypeAreThoseOfTheDenseMatrix"}};
    case NEURON_OP_QUANTIZE_MX:
      return {"rounds to blocks",
              {"QuantizeMx.GivesTheNearestCodesUnderTheScaleOfEachBlock",
               "QuantizeMx.WritesScalesOfEitherTypeAlike"}};
    case NEURON_OP_RAND_SET_STATE:
    case NEURON_OP_RAND_GET_STATE:
      return {"states of random numbers",
              {"XorwowOnPool.DrawsFromTheStatesThatAreSetAndGivesThemBack",
               "Generation4.Rand2IsUniformBetweenItsBoundsFromFourStatesByTurns"}};
    case NEURON_OP_RAND2:
      return {"random numbers",
              {"Generation4.Rand2IsUniformBetweenItsBoundsFromFourStatesByTurns",
               "Generation4.Rand2RoundsTheSameNumbersIntoEveryType"}};
    case NEURON_OP_RNG:
      return {"random bits", {"VectorRandom.WritesTheLowBitsOfTheWord"}};
    case NEURON_OP_SET_RNG_SEED:
      return {"what is drawn shows the seed",
              {"VectorRandom.RepeatsAfterTheSameSeedAndDiffersOtherwise"}};
    default:
      return {"", {kTypeValues}};
  }
}

}  // namespace neuron::isa::testing

#endif
