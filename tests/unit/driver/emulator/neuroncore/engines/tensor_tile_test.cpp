// SPDX-License-Identifier: Apache-2.0
// Tiles of the PE array, and every type that it multiplies.
#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

class TensorTile : public UnitMachine {
 protected:
  // A 1 x 1 stationary matrix of `value` for the tile at (row, column), in multiples of 32.
  void load(unsigned row, unsigned column, unsigned rows, unsigned columns, float value) {
    put(sbuf(1, 0, kF32, 1), 0, {value});
    Instruction i =
        at(make(NEURON_OP_LDWEIGHTS, {}, sbuf(1, 0, kF32, 1)), row, column, rows, columns);
    run(kPe, i);
  }
  static Instruction at(Instruction i, unsigned row, unsigned column, unsigned rows,
                        unsigned columns) {
    i.pe.row = static_cast<uint8_t>(row);
    i.pe.column = static_cast<uint8_t>(column);
    i.pe.rows = static_cast<uint8_t>(rows);
    i.pe.columns = static_cast<uint8_t>(columns);
    return i;
  }
  Instruction matmul(unsigned row, unsigned column, unsigned rows, unsigned columns, bool swap) {
    put(sbuf(1, 256, kF32, 1), 0, {1.0f});
    Instruction i = at(make(NEURON_OP_MATMUL, psum(1, 0, kF32, 1), sbuf(1, 256, kF32, 1)), row,
                       column, rows, columns);
    i.pe.swap = swap;
    return i;
  }
  float result(unsigned row, unsigned column, unsigned rows, unsigned columns, bool swap) {
    run(kPe, matmul(row, column, rows, columns, swap));
    return get(psum(1, 0, kF32, 1), 0)[0];
  }
};

// "fp32 and tf32 must pair with fp32 and tf32" (instruction reference).
TEST_F(TensorTile, MultipliesTypesOf32BitsWithEachOtherOnly) {
  constexpr unsigned kWide[] = {NEURON_DTYPE_F32, NEURON_DTYPE_F32R, NEURON_DTYPE_TF32};
  constexpr unsigned kNarrow[] = {NEURON_DTYPE_BF16, NEURON_DTYPE_F16, NEURON_DTYPE_F8E3,
                                  NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5};
  const auto code = [&](unsigned stationary, unsigned moving) {
    const isa::Operand w = sbuf(1, 0, stationary, 1), x = sbuf(1, 256, moving, 1);
    put(w, 0, {3.0f});
    put(x, 0, {2.0f});
    run(kPe, make(NEURON_OP_LDWEIGHTS, {}, w));
    Instruction i = make(NEURON_OP_MATMUL, psum(1, 0, kF32, 1), x);
    i.pe.swap = true;
    const Fault fault = attempt(kPe, i);
    if (!fault) {
      EXPECT_EQ(get(psum(1, 0, kF32, 1), 0)[0], 6.0f);
    }
    return fault.code;
  };
  for (const unsigned wide : kWide) {
    for (const unsigned other : kWide) EXPECT_EQ(code(wide, other), NEURON_FAULT_NONE);
    for (const unsigned narrow : kNarrow) {
      EXPECT_EQ(code(wide, narrow), NEURON_FAULT_OPERAND_DTYPE) << isa::dtype_name(narrow);
      EXPECT_EQ(code(narrow, wide), NEURON_FAULT_OPERAND_DTYPE) << isa::dtype_name(narrow);
    }
  }
  for (const unsigned a : kNarrow) {
    for (const unsigned b : kNarrow) EXPECT_EQ(code(a, b), NEURON_FAULT_NONE);
  }
}

TEST_F(TensorTile, KeepsWeightsOfItsOwn) {
  load(0, 0, 1, 1, 2.0f);  // four tiles of 64 x 64
  load(0, 2, 1, 1, 3.0f);
  load(2, 0, 1, 1, 5.0f);
  load(2, 2, 1, 1, 7.0f);
  EXPECT_EQ(result(2, 0, 1, 1, true), 5.0f);
  EXPECT_EQ(result(0, 0, 1, 1, true), 2.0f);
  EXPECT_EQ(result(2, 2, 1, 1, true), 7.0f);
  EXPECT_EQ(result(0, 2, 1, 1, true), 3.0f);
  EXPECT_EQ(result(2, 0, 1, 1, false), 5.0f);
}

TEST_F(TensorTile, LosesItsWeightsToATileOfTheSameCells) {
  load(0, 0, 0, 0, 2.0f);
  EXPECT_EQ(result(0, 0, 0, 0, true), 2.0f);
  load(2, 0, 1, 0, 3.0f);  // the lower half: loaded, but not active yet
  EXPECT_EQ(result(0, 0, 0, 0, false), 2.0f);
  EXPECT_EQ(result(2, 0, 1, 0, true), 3.0f);
  Instruction whole = matmul(0, 0, 0, 0, false);
  EXPECT_EQ(attempt(kPe, whole).code, NEURON_FAULT_WEIGHTS);
}

TEST_F(TensorTile, DropsShadowsThatAnotherTileOverwrites) {
  load(2, 2, 1, 1, 2.0f);
  load(0, 0, 0, 0, 3.0f);
  Instruction small = matmul(2, 2, 1, 1, true);
  EXPECT_EQ(attempt(kPe, small).code, NEURON_FAULT_WEIGHTS);
  EXPECT_EQ(result(0, 0, 0, 0, true), 3.0f);
}

TEST_F(TensorTile, NeedsWeightsAfterAReset) {
  load(0, 2, 1, 2, 2.0f);
  EXPECT_EQ(result(0, 2, 1, 2, true), 2.0f);
  pe_.reset();
  Instruction i = matmul(0, 2, 1, 2, false);
  EXPECT_EQ(attempt(kPe, i).code, NEURON_FAULT_WEIGHTS);
}

TEST_F(TensorTile, TakesMatricesThatFitAndNoLargerOnes) {
  const auto wide = sbuf(64, 0, kF32, 65), deep = sbuf(65, 0, kF32, 64);
  Instruction i = at(make(NEURON_OP_LDWEIGHTS, {}, wide), 0, 0, 1, 1);
  EXPECT_EQ(attempt(kPe, i).code, NEURON_FAULT_OPERAND_SHAPE);
  i = at(make(NEURON_OP_LDWEIGHTS, {}, deep), 0, 0, 1, 1);
  EXPECT_EQ(attempt(kPe, i).code, NEURON_FAULT_OPERAND_SHAPE);
  i = at(make(NEURON_OP_LDWEIGHTS, {}, sbuf(64, 0, kF32, 64)), 2, 2, 1, 1);
  EXPECT_FALSE(attempt(kPe, i)) << refusal_;
}

TEST_F(TensorTile, IgnoresHintsInItsResults) {
  put(sbuf(1, 0, kF32, 1), 0, {0.3f});  // not 0 or 1: the hint is about time
  Instruction i = make(NEURON_OP_LDWEIGHTS, {}, sbuf(1, 0, kF32, 1));
  i.pe.onezero_stationary = true;
  run(kPe, i);
  Instruction m = matmul(0, 0, 0, 0, true);
  m.pe.onezero_moving = m.pe.onezero_stationary = true;
  run(kPe, m);
  EXPECT_EQ(get(psum(1, 0, kF32, 1), 0)[0], 0.3f);
}

TEST_F(TensorTile, MultipliesEveryPairOfTypesInFp32) {
  const unsigned narrow[] = {NEURON_DTYPE_BF16, NEURON_DTYPE_F16, NEURON_DTYPE_F8E3,
                             NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5};
  const unsigned wide[] = {kF32, NEURON_DTYPE_F32R, NEURON_DTYPE_TF32};
  const auto check = [&](unsigned stationary, unsigned moving) {
    constexpr unsigned kK = 40, kM = 3, kN = 16;
    const auto a = sbuf(kK, 0, stationary, kM), b = sbuf(kK, 256, moving, kN);
    // Multiples of 1/8 below 1: exact in every type.
    fill(a, [](unsigned p, unsigned e) { return 0.125f * ((3 * p + 5 * e) % 8); });
    fill(b, [](unsigned p, unsigned e) { return 0.125f * ((7 * p + e) % 8) - 0.5f; });
    run(kPe, make(NEURON_OP_LDWEIGHTS, {}, a));
    Instruction m = make(NEURON_OP_MATMUL, psum(kM, 0, kF32, kN), b);
    m.pe.swap = true;
    run(kPe, m);
    for (unsigned row = 0; row < kM; ++row) {
      const auto found = get(m.dst, row);
      for (unsigned n = 0; n < kN; ++n) {
        float sum = 0;
        for (unsigned k = 0; k < kK; ++k) {
          sum += 0.125f * ((3 * k + 5 * row) % 8) * (0.125f * ((7 * k + n) % 8) - 0.5f);
        }
        ASSERT_EQ(found[n], sum) << isa::dtype_name(stationary) << " x " << isa::dtype_name(moving);
      }
    }
  };
  for (const unsigned s : narrow) {
    for (const unsigned m : narrow) check(s, m);
  }
  for (const unsigned s : wide) {
    for (const unsigned m : wide) check(s, m);
  }
}

TEST_F(TensorTile, RoundsTf32OperandsToTenBits) {
  put_raw<uint32_t>(sbuf(1, 0, NEURON_DTYPE_TF32, 1), 0, {0x3F801001});  // 1 + just above 2^-11
  run(kPe, make(NEURON_OP_LDWEIGHTS, {}, sbuf(1, 0, NEURON_DTYPE_TF32, 1)));
  put(sbuf(1, 256, kF32, 1), 0, {1.0f});
  Instruction m = make(NEURON_OP_MATMUL, psum(1, 0, kF32, 1), sbuf(1, 256, kF32, 1));
  m.pe.swap = true;
  run(kPe, m);
  EXPECT_EQ(get(m.dst, 0)[0], 1.0f + 0x1p-10f);
}

TEST_F(TensorTile, TransposesEveryTypeOfTwoAndFourBytesBitByBit) {
  for (const unsigned type : {NEURON_DTYPE_F16, NEURON_DTYPE_BF16, NEURON_DTYPE_I16}) {
    for (unsigned p = 0; p < 9; ++p) {
      put_raw<uint16_t>(sbuf(9, 0, type, 3), p,
                        {uint16_t(p), uint16_t(0xFF80 | p), uint16_t(0x7FC1 + p)});
    }
    run(kPe, make(NEURON_OP_TRANSPOSE, psum(3, 0, type, 9), sbuf(9, 0, type, 3)));
    EXPECT_EQ(get_raw<uint16_t>(psum(3, 0, type, 9), 2)[8], 0x7FC9);
  }
  for (const unsigned type : {NEURON_DTYPE_F32, NEURON_DTYPE_TF32, NEURON_DTYPE_U32}) {
    put_raw<uint32_t>(sbuf(1, 0, type, 2), 0, {0xFF812345, 7});
    run(kPe, make(NEURON_OP_TRANSPOSE, psum(2, 0, type, 1), sbuf(1, 0, type, 2)));
    EXPECT_EQ(get_raw<uint32_t>(psum(2, 0, type, 1), 0)[0], 0xFF812345);
  }
}

// Larger than the squares that are moved at once, and no multiple of them.
TEST_F(TensorTile, TransposesWholeSquaresAndTheirEdges) {
  constexpr unsigned kRows = 37, kColumns = 22;
  std::vector<uint16_t> halves(kColumns);
  std::vector<uint32_t> words(kColumns);
  const auto half = [](unsigned p, unsigned c) {
    return static_cast<uint16_t>(0x8001 * p + 3 * c);
  };
  const auto word = [](unsigned p, unsigned c) { return 0x7F800001 * p + 0x10003 * c; };
  const isa::Operand from16 = sbuf(kRows, 0, NEURON_DTYPE_BF16, kColumns);
  const isa::Operand from32 = sbuf(kRows, 512, kF32, kColumns);
  for (unsigned p = 0; p < kRows; ++p) {
    for (unsigned c = 0; c < kColumns; ++c) {
      halves[c] = half(p, c);
      words[c] = word(p, c);
    }
    put_raw(from16, p, halves);
    put_raw(from32, p, words);
  }
  const isa::Operand to16 = psum(kColumns, 0, NEURON_DTYPE_BF16, kRows);
  const isa::Operand to32 = psum(kColumns, 512, kF32, kRows);
  run(kPe, make(NEURON_OP_TRANSPOSE, to16, from16));
  run(kPe, make(NEURON_OP_TRANSPOSE, to32, from32));
  for (unsigned c = 0; c < kColumns; ++c) {
    const auto halves_of_column = get_raw<uint16_t>(to16, c);
    const auto words_of_column = get_raw<uint32_t>(to32, c);
    for (unsigned p = 0; p < kRows; ++p) {
      EXPECT_EQ(halves_of_column[p], half(p, c));
      EXPECT_EQ(words_of_column[p], word(p, c));
    }
  }
}

}  // namespace
}  // namespace neuron::core
