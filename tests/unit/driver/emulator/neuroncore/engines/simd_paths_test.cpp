// SPDX-License-Identifier: Apache-2.0
// Every compute instruction of PE, Vector and Activation, and of Pool where it shares the units, on
// every pair of types that the checks accept: the same bits on every SIMD path of this host.
#include "tests/support/simd_paths.h"

#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "driver/emulator/numerics/simd_path.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"
#include "tests/unit/driver/isa/small_values.h"

namespace neuron::core {
namespace {

using numerics::SimdPath;

constexpr unsigned kParts = 33;
constexpr int kN = 37;
constexpr uint32_t kPathA = 0, kPathB = 0x1000, kScalars = 0x2000, kPathOut = 0x4000,
                   kOutBytes = 0x1000;
constexpr unsigned kTypes[] = {NEURON_DTYPE_I8,   NEURON_DTYPE_U8,   NEURON_DTYPE_I16,
                               NEURON_DTYPE_U16,  NEURON_DTYPE_I32,  NEURON_DTYPE_U32,
                               NEURON_DTYPE_BF16, NEURON_DTYPE_F16,  NEURON_DTYPE_F32,
                               NEURON_DTYPE_F32R, NEURON_DTYPE_TF32, NEURON_DTYPE_F8E3,
                               NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5, NEURON_DTYPE_F8E4FN};
constexpr unsigned kPairs = 225;  // of these types

struct Case {
  unsigned engine;
  Instruction i;
  std::string name;
};

class SimdPaths : public UnitMachine {
 protected:
  void SetUp() override { saved_ = numerics::simd_path(); }
  void TearDown() override { numerics::select_simd_path(saved_); }

  // Any bits, NaN and subnormals included; values of moderate size where `moderate`.
  void fill_inputs(bool moderate) {
    uint32_t word = 12345;
    for (unsigned p = 0; p < NEURON_PARTITIONS; ++p) {
      auto* row = reinterpret_cast<uint32_t*>(memory_.sbuf(p));
      for (uint32_t at = 0; at < kPathOut / 4; ++at) {
        word = word * 1664525u + 1013904223u;
        const uint32_t mixed = word ^ word >> 15;
        // bf16 halves between 2^-3 and 2^4 with either sign
        row[at] = moderate ? (mixed & 0x80FF80FFu) + 0x3E003E00u : mixed;
      }
    }
  }
  void clear_output() {
    for (unsigned p = 0; p < NEURON_PARTITIONS; ++p) {
      std::memset(memory_.sbuf(p) + kPathOut, 0x11, kOutBytes);
      std::memset(memory_.psum(p), 0x22, NEURON_PSUM_BANK_BYTES);
    }
  }
  uint64_t output_hash() {
    uint64_t hash = 0xCBF29CE484222325ull;
    const auto add = [&](const std::byte* from, size_t bytes) {
      for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word;
        std::memcpy(&word, from + at, 8);
        hash = (hash ^ word) * 0x100000001B3ull;
        hash ^= hash >> 29;
      }
    };
    for (unsigned p = 0; p < 64; ++p) {
      add(memory_.sbuf(p) + kPathOut, 640);
      add(memory_.psum(p), 320);
    }
    return hash;
  }
  bool accepted(const Case& c) const {
    Instruction i = c.i;
    i.engines = static_cast<uint8_t>(1u << c.engine);
    std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes{};
    isa::encode(i, bytes);
    return !isa::check_encoding(bytes, c.engine, limits_) &&
           !isa::check_operands(i, c.engine, limits_);
  }
  uint64_t hash_of(const Case& c) {
    clear_output();
    dve_.random_position = act_.random_position = pool_.random_position = 0;
    dve_.random_numbers = {};
    dve_.states.seeded = pool_.states.seeded = false;
    dve_.accumulator.fill(1.5f);
    act_.accumulator.fill(1.5f);
    pe_.reset();
    if (c.i.opcode == NEURON_OP_MATMUL || c.i.opcode == NEURON_OP_MATMUL_MX) {
      const bool scaled = c.i.opcode == NEURON_OP_MATMUL_MX;
      Instruction weights =
          make(scaled ? NEURON_OP_LDWEIGHTS_MX : NEURON_OP_LDWEIGHTS, {}, c.i.src0, c.i.src1);
      weights.pe.mode = c.i.pe.mode;
      weights.src0.size[0] = c.i.dst.parts;
      if (scaled) weights.src1.size[0] = c.i.dst.parts;
      weights.src0.base = kPathB;
      EXPECT_FALSE(execute(kPe, weights));
    }
    const Fault fault = execute(c.engine, c.i);
    EXPECT_FALSE(fault) << c.name << ": " << isa::fault_name(fault.code);
    uint64_t hash = output_hash();
    for (const float lane : dve_.accumulator) hash = hash * 31 + std::bit_cast<uint32_t>(lane);
    for (const float lane : act_.accumulator) hash = hash * 31 + std::bit_cast<uint32_t>(lane);
    return hash;
  }
  static bool needs_generation_4(const Instruction& i) {
    return i.dst.dtype == NEURON_DTYPE_F8E4FN || i.src0.dtype == NEURON_DTYPE_F8E4FN ||
           i.src1.dtype == NEURON_DTYPE_F8E4FN;
  }
  // Returns how many of the cases the checks accept.
  size_t compare(const std::vector<Case>& cases) {
    size_t ran = 0;
    const isa::Limits of_test = limits_;
    for (const bool moderate : {false, true}) {
      fill_inputs(moderate);
      for (const Case& c : cases) {
        limits_ = needs_generation_4(c.i) ? isa::limits_of(4) : of_test;
        if (!accepted(c)) continue;
        ++ran;
        numerics::select_simd_path(SimdPath::kScalar);
        const uint64_t expected = hash_of(c);
        for (const SimdPath path :
             {SimdPath::kAvx2, SimdPath::kAvx512, SimdPath::kAvx512Bf16, SimdPath::kAmx}) {
          if (!test::select_path_or_tell(path)) continue;
          EXPECT_EQ(hash_of(c), expected) << c.name << " on " << numerics::simd_path_name(path)
                                          << ": " << isa::disassemble(c.i);
        }
      }
    }
    limits_ = of_test;
    return ran;
  }

  static isa::Operand out(unsigned type, int n = kN) { return sbuf(kParts, kPathOut, type, n); }
  static isa::Operand in(unsigned type, int n = kN, uint32_t base = kPathA) {
    return sbuf(kParts, base, type, n);
  }
  // All types of source and destination, with rounding to nearest even and stochastic.
  template <class Make>
  std::vector<Case> over_types(unsigned engine, const std::string& name, Make&& make_one) {
    std::vector<Case> cases;
    for (const unsigned from : kTypes) {
      for (const unsigned to : kTypes) {
        for (const unsigned rounding : {1u, 2u}) {
          Case c{engine, make_one(from, to),
                 name + " " + isa::dtype_name(from) + " -> " + isa::dtype_name(to)};
          c.i.rounding = static_cast<uint8_t>(rounding);
          cases.push_back(c);
        }
      }
    }
    return cases;
  }

  SimdPath saved_ = SimdPath::kScalar;
};

Instruction with_op(Instruction i, unsigned op0, unsigned op1 = NEURON_ALU_BYPASS) {
  i.vector.op0 = static_cast<uint8_t>(op0);
  i.vector.op1 = static_cast<uint8_t>(op1);
  return i;
}

TEST_F(SimdPaths, AgreeOnElementwiseInstructionsOfEveryType) {
  const auto copies = [](unsigned from, unsigned to) {
    return make(NEURON_OP_TENSOR_COPY, out(to), in(from));
  };
  const auto adds = [](unsigned from, unsigned to) {
    return with_op(make(NEURON_OP_TENSOR_TENSOR, out(to), in(from), in(from, kN, kPathB)),
                   NEURON_ALU_ADD);
  };
  const auto scales = [](unsigned from, unsigned to) {
    Instruction i =
        with_op(make(NEURON_OP_TENSOR_SCALAR, out(to), in(from)), NEURON_ALU_MUL, NEURON_ALU_MAX);
    i.scalar0 = real(0.7f);
    i.scalar1 = pointer(kScalars);
    return i;
  };
  const auto fuses = [](unsigned from, unsigned to) {
    Instruction i =
        with_op(make(NEURON_OP_SCALAR_TENSOR_TENSOR, out(to), in(from), in(to, kN, kPathB)),
                NEURON_ALU_SUB, NEURON_ALU_MUL);
    i.scalar0 = pointer(kScalars);
    i.vector.rev0 = true;
    return i;
  };
  const auto inverts = [](unsigned from, unsigned to) {
    return make(NEURON_OP_RECIPROCAL, out(to), in(from));
  };
  for (const unsigned engine : {kDve, kPool}) {
    EXPECT_EQ(compare(over_types(engine, "copy", copies)), 2 * 2 * kPairs);
    EXPECT_EQ(compare(over_types(engine, "add", adds)), 2 * 2 * kPairs);
    EXPECT_EQ(compare(over_types(engine, "scale", scales)), 2 * 2 * kPairs);
  }
  EXPECT_EQ(compare(over_types(kDve, "stt", fuses)), 2 * 2 * kPairs);
  EXPECT_EQ(compare(over_types(kDve, "reciprocal", inverts)), 2 * 2 * kPairs);
}

TEST_F(SimdPaths, AgreeOnEveryOperation) {
  size_t ran = 0;
  for (unsigned op = 0; op < 64; ++op) {
    std::vector<Case> cases;
    for (const unsigned type : {kF32, unsigned{NEURON_DTYPE_BF16}, unsigned{NEURON_DTYPE_I32},
                                unsigned{NEURON_DTYPE_U8}, unsigned{NEURON_DTYPE_I16}}) {
      for (const unsigned engine : {kDve, kPool}) {
        const std::string name = std::string(isa::alu_name(op)) + " " + isa::dtype_name(type);
        cases.push_back(
            {engine,
             with_op(make(NEURON_OP_TENSOR_TENSOR, out(type), in(type), in(type, kN, kPathB)), op),
             name});
        Instruction scalar = with_op(make(NEURON_OP_TENSOR_SCALAR, out(type), in(type)), op);
        cases.push_back({engine, scalar, name + " unary"});
        scalar.scalar0 = pointer(kScalars, type);
        cases.push_back({engine, scalar, name + " pointer"});
        scalar.vector.rev0 = true;
        cases.push_back({engine, scalar, name + " reversed"});
      }
      Instruction reduce = make(NEURON_OP_TENSOR_REDUCE, out(type, 1), in(type));
      reduce.vector.reduce = static_cast<uint8_t>(op);
      reduce.vector.axes = 1;
      cases.push_back({kDve, reduce, "reduce"});
      reduce.dst = out(type, 7);
      reduce.src0 = tile(NEURON_SPACE_SBUF, 0, kParts, kPathA, type, {10, 7}, {2, 20});
      cases.push_back({kDve, reduce, "reduce groups"});
    }
    ran += compare(cases);
  }
  EXPECT_GT(ran, 1000u);
}

TEST_F(SimdPaths, AgreeOnScansAndAccumulators) {
  const unsigned operations[] = {NEURON_ALU_ADD,        NEURON_ALU_SUB, NEURON_ALU_MUL,
                                 NEURON_ALU_MAX,        NEURON_ALU_MIN, NEURON_ALU_GT,
                                 NEURON_ALU_LOGICAL_XOR};
  std::vector<Case> cases;
  for (const unsigned op0 : operations) {
    for (const unsigned op1 : operations) {
      for (unsigned reverse = 0; reverse < 4; ++reverse) {
        Instruction scan =
            with_op(make(NEURON_OP_TENSOR_TENSOR_SCAN, out(kF32), in(kF32), in(kF32, kN, kPathB)),
                    op0, op1);
        scan.scalar0 = pointer(kScalars);
        scan.vector.rev0 = reverse & 1;
        scan.vector.rev1 = reverse & 2;
        cases.push_back({kDve, scan, "scan"});
      }
      Instruction run =
          with_op(make(NEURON_OP_TENSOR_SCALAR_CUMULATIVE, out(kF32), in(kF32)), op0, op1);
      run.scalar0 = real(0.9f);
      for (const unsigned command : {NEURON_REDUCE_ACCUMULATE, NEURON_REDUCE_RESET_ACCUMULATE,
                                     NEURON_REDUCE_LOAD_ACCUMULATE}) {
        run.vector.reduce_command = static_cast<uint8_t>(command);
        run.scalar1 = command == NEURON_REDUCE_LOAD_ACCUMULATE ? pointer(kScalars) : isa::Scalar{};
        cases.push_back({kDve, run, "cumulative"});
      }
      Instruction reduce = with_op(make(NEURON_OP_TENSOR_SCALAR_REDUCE, out(kF32), in(kF32)), op0);
      reduce.scalar0 = real(0.9f);
      reduce.vector.reduce = static_cast<uint8_t>(op1);
      for (unsigned command = 0; command < 4; ++command) {
        reduce.vector.reduce_command = static_cast<uint8_t>(command);
        cases.push_back({kDve, reduce, "scalar reduce"});
      }
    }
  }
  EXPECT_GT(compare(cases), 500u);
  compare(over_types(kDve, "scan", [](unsigned from, unsigned to) {
    Instruction i =
        with_op(make(NEURON_OP_TENSOR_TENSOR_SCAN, out(to), in(from), in(to, kN, kPathB)),
                NEURON_ALU_MUL, NEURON_ALU_ADD);
    i.scalar0 = real(1.0f);
    return i;
  }));
  compare(over_types(kDve, "cumulative", [](unsigned from, unsigned to) {
    Instruction i = with_op(make(NEURON_OP_TENSOR_SCALAR_CUMULATIVE, out(to), in(from)),
                            NEURON_ALU_MUL, NEURON_ALU_ADD);
    i.scalar0 = real(0.5f);
    i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
    return i;
  }));
  compare(over_types(kDve, "scalar reduce", [](unsigned from, unsigned to) {
    Instruction i =
        with_op(make(NEURON_OP_TENSOR_SCALAR_REDUCE, out(to), in(from)), NEURON_ALU_MUL);
    i.scalar0 = real(0.5f);
    i.vector.reduce = NEURON_ALU_MAX;
    i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
    return i;
  }));
}

TEST_F(SimdPaths, AgreeOnTheOtherVectorInstructionsOfEveryType) {
  const struct {
    const char* name;
    std::function<Instruction(unsigned, unsigned)> make_one;
  } families[] = {
      {"reduce",
       [](unsigned from, unsigned to) {
         Instruction i = make(NEURON_OP_TENSOR_REDUCE, out(to, 1), in(from));
         i.vector.reduce = NEURON_ALU_ADD;
         i.vector.axes = 1;
         return i;
       }},
      {"predicated",
       [](unsigned from, unsigned to) {
         return make(NEURON_OP_COPY_PREDICATED, out(to), in(to), in(from, kN, kPathB));
       }},
      {"bn_stats",
       [](unsigned from, unsigned to) { return make(NEURON_OP_BN_STATS, out(to, 6), in(from)); }},
      {"bn_aggr", [](unsigned from,
                     unsigned to) { return make(NEURON_OP_BN_AGGR, out(to, 2), in(from, 36)); }},
      {"max8",
       [](unsigned from, unsigned to) { return make(NEURON_OP_MAX8, out(to, 8), in(from)); }},
      {"find",
       [](unsigned from, unsigned to) {
         return make(NEURON_OP_FIND_INDEX8, out(to, 8), in(from), in(from, 8));
       }},
      {"replace",
       [](unsigned from, unsigned to) {
         Instruction i = make(NEURON_OP_MATCH_REPLACE8, out(to), in(from));
         i.scalar0 = pointer(kPathA, from);
         i.vector.imm = std::bit_cast<uint32_t>(2.7f);
         return i;
       }},
      {"shuffle",
       [](unsigned from, unsigned to) {
         Instruction i = make(NEURON_OP_STREAM_SHUFFLE, out(to), in(from));
         for (unsigned r = 0; r < 32; ++r) i.shuffle[r] = static_cast<uint8_t>((r * 7) % 32);
         return i;
       }},
      {"transpose32",
       [](unsigned from, unsigned to) {
         return make(NEURON_OP_TRANSPOSE32, sbuf(32, kPathOut, to, 64), sbuf(32, kPathA, from, 64));
       }},
      {"dropout",
       [](unsigned from, unsigned to) {
         Instruction i = make(NEURON_OP_DROPOUT, out(to), in(from));
         i.scalar0 = real(0.3f);
         return i;
       }},
      {"memset",
       [](unsigned, unsigned to) {
         Instruction i = make(NEURON_OP_MEMSET, out(to));
         i.vector.imm = 0x12345678;
         return i;
       }},
      {"rng", [](unsigned, unsigned to) { return make(NEURON_OP_RNG, out(to)); }},
      {"read_acc", [](unsigned, unsigned to) { return make(NEURON_OP_READ_ACC, out(to, 1)); }},
  };
  for (const auto& family : families) {
    EXPECT_GT(compare(over_types(kDve, family.name, family.make_one)), 0u) << family.name;
  }
}

TEST_F(SimdPaths, AgreeOnActivation) {
  size_t ran = 0;
  for (unsigned function = 0; function <= NEURON_ACT_RECIPROCAL; ++function) {
    std::vector<Case> cases;
    for (const unsigned type : {kF32, unsigned{NEURON_DTYPE_BF16}, unsigned{NEURON_DTYPE_F16}}) {
      Instruction i = make(NEURON_OP_ACTIVATE, out(type), in(type));
      i.act.function = static_cast<uint8_t>(function);
      i.act.param = std::bit_cast<uint32_t>(0.3f);
      cases.push_back({kAct, i, isa::activation_name(function)});
      i.scalar0 = real(0.6f);
      i.scalar1 = pointer(kScalars);
      i.act.reduce = NEURON_ALU_ADD;
      i.act.reduce_command = NEURON_REDUCE_ACCUMULATE;
      cases.push_back({kAct, i, isa::activation_name(function)});
    }
    ran += compare(cases);
  }
  EXPECT_EQ(ran, 2 * (26 * 6 - 3u)) << "reciprocal takes no bias";
  EXPECT_EQ(compare(over_types(kAct, "exp",
                               [](unsigned from, unsigned to) {
                                 Instruction i = make(NEURON_OP_ACTIVATE, out(to), in(from));
                                 i.act.function = NEURON_ACT_EXP;
                                 i.scalar0 = pointer(kScalars);
                                 return i;
                               })),
            2 * 2 * kPairs);
}

TEST_F(SimdPaths, AgreeOnTheTensorEngine) {
  std::vector<Case> cases;
  for (const unsigned type : kTypes) {
    for (const bool accumulate : {false, true}) {
      Instruction i = make(NEURON_OP_MATMUL, psum(kParts, 0, kF32, kN), in(type));
      i.pe.swap = true;
      i.pe.accumulate = accumulate;
      cases.push_back({kPe, i, std::string("matmul ") + isa::dtype_name(type)});
    }
    cases.push_back(
        {kPe, make(NEURON_OP_TRANSPOSE, psum(64, 0, type, kParts), in(type, 64)), "transpose"});
  }
  EXPECT_EQ(compare(cases), 2 * (2 * 9 + 9u));
}

TEST_F(SimdPaths, AgreeOnTheTensorEngineOfGeneration4) {
  limits_ = isa::limits_of(4);
  std::vector<Case> cases;
  for (const bool accumulate : {false, true}) {
    const auto add = [&](Instruction i, const std::string& name) {
      i.pe.swap = true;
      i.pe.accumulate = accumulate;
      cases.push_back({kPe, i, name});
    };
    for (const unsigned type : {NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5, NEURON_DTYPE_F8E4FN}) {
      const isa::Operand moving = tile(NEURON_SPACE_SBUF, 0, kParts, kPathA, type, {kN, 2});
      Instruction i = make(NEURON_OP_MATMUL, psum(kParts, 0, kF32, kN), moving);
      i.pe.mode = NEURON_PE_DOUBLE_ROW;
      add(i, "double_row");
    }
    for (const unsigned type : {NEURON_DTYPE_F8E5X4, NEURON_DTYPE_F8E4FNX4, NEURON_DTYPE_F4X4}) {
      for (const unsigned into : {kF32, unsigned{NEURON_DTYPE_BF16}}) {
        add(make(NEURON_OP_MATMUL_MX, psum(32, 0, into, kN), sbuf(64, kPathA, type, kN),
                 sbuf(64, kScalars, NEURON_DTYPE_U8, kN)),
            "mx");
      }
    }
    add(make(NEURON_OP_MATMUL, psum(kParts, 0, NEURON_DTYPE_BF16, kN), in(NEURON_DTYPE_BF16)),
        "into bf16");
  }
  EXPECT_EQ(compare(cases), 2 * 2 * 10U);
}

TEST_F(SimdPaths, AgreeOnTheOtherInstructionsOfGenerations3And4) {
  limits_ = isa::limits_of(4);
  const auto run_types = [&](const char* name, auto&& make_one) {
    EXPECT_GT(compare(over_types(kDve, name, make_one)), 0U) << name;
  };
  run_types("select_reduce", [](unsigned from, unsigned to) {
    Instruction i =
        make(NEURON_OP_SELECT_REDUCE, out(to), in(from), in(NEURON_DTYPE_U8, kN, kPathB));
    i.scalar0 = real(-3.0f);
    i.vector.reduce = NEURON_ALU_MAX;
    i.vector.reduce_command = NEURON_REDUCE_ACCUMULATE;
    return i;
  });
  run_types("range_select", [](unsigned from, unsigned to) {
    Instruction i = make(NEURON_OP_RANGE_SELECT, out(to), in(from));
    i.vector.op0 = NEURON_ALU_GE;
    i.vector.op1 = NEURON_ALU_LT;
    i.scalar0 = real(5.0f);
    i.scalar1 = real(30.0f);
    return i;
  });
  run_types("exponential", [](unsigned from, unsigned to) {
    Instruction i = make(NEURON_OP_EXPONENTIAL, out(to), in(from));
    i.scalar0 = pointer(kScalars);
    i.vector.reduce = NEURON_ALU_ADD;
    i.vector.reduce_command = NEURON_REDUCE_ACCUMULATE;
    return i;
  });
  run_types("rand2", [](unsigned, unsigned to) {
    Instruction i = make(NEURON_OP_RAND2, out(to));
    i.scalar0 = real(-1.0f);
    i.scalar1 = real(3.0f);
    return i;
  });
  std::vector<Case> cases;
  for (const unsigned from : {NEURON_DTYPE_BF16, NEURON_DTYPE_F16}) {
    for (const unsigned to : {NEURON_DTYPE_F8E5X4, NEURON_DTYPE_F8E4FNX4}) {
      for (const uint8_t rounding : {1, 2}) {
        Instruction i =
            make(NEURON_OP_QUANTIZE_MX, sbuf(64, kPathOut, to, 30), sbuf(64, kPathA, from, 120),
                 sbuf(64, kPathOut + 256, NEURON_DTYPE_U8, 30));
        i.rounding = rounding;
        cases.push_back({kDve, i, "quantize_mx"});
      }
    }
  }
  for (const unsigned type : {kF32, unsigned{NEURON_DTYPE_BF16}}) {
    Instruction i = make(NEURON_OP_ACTIVATE2, out(type), in(type));
    i.act.function = NEURON_ACT_TANH;
    i.act.pre = NEURON_PRE_MUL_SUB;
    i.scalar0 = real(0.6f);
    i.scalar1 = pointer(kScalars);
    i.act.reduce = NEURON_ALU_ABS_MAX;
    i.act.reduce_command = NEURON_REDUCE_ACCUMULATE;
    cases.push_back({kAct, i, "activate2"});
  }
  EXPECT_EQ(compare(cases), 2 * (8 + 2U));
}

// Every code of each f8 format times every code of each, alone in its sum: the exact product, on
// each path, those of matrix units included.
TEST_F(SimdPaths, MultiplyAllPairsOfF8Exactly) {
  limits_ = isa::limits_of(4);
  constexpr uint8_t kF8[] = {NEURON_DTYPE_F8E3, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E5,
                             NEURON_DTYPE_F8E4FN};
  std::map<uint8_t, std::vector<double>> numbers;
  for (const uint8_t type : kF8) {
    for (unsigned c = 0; c < 256; ++c) numbers[type].push_back(isa::testing::number_of(type, c));
  }
  std::vector<uint8_t> all(256);
  std::iota(all.begin(), all.end(), uint8_t{0});
  unsigned pairs = 0;
  for (const uint8_t w : kF8) {
    for (const uint8_t x : kF8) {
      const bool never_together = (w == NEURON_DTYPE_F8E4FN && x == NEURON_DTYPE_F8E4) ||
                                  (x == NEURON_DTYPE_F8E4FN && w == NEURON_DTYPE_F8E4);
      if (never_together) continue;
      ++pairs;
      for (unsigned half = 0; half < 2; ++half) {
        const isa::Operand weights = sbuf(1, kPathB, w, 128), moving = sbuf(1, kPathA, x, 256);
        put_raw(weights, 0,
                std::vector<uint8_t>(all.begin() + half * 128, all.begin() + half * 128 + 128));
        put_raw(moving, 0, all);
        Instruction product = make(NEURON_OP_MATMUL, psum(128, 0, kF32, 256), moving);
        product.pe.swap = true;
        for (const SimdPath path : {SimdPath::kScalar, SimdPath::kAvx2, SimdPath::kAvx512,
                                    SimdPath::kAvx512Bf16, SimdPath::kAmx}) {
          if (!test::select_path_or_tell(path)) continue;
          clear_output();
          pe_.reset();
          run(kPe, make(NEURON_OP_LDWEIGHTS, {}, weights));
          run(kPe, product);
          for (unsigned m = 0; m < 128; ++m) {
            const std::vector<float> found = get(product.dst, m);
            const double of_weight = numbers[w][half * 128 + m];
            for (unsigned n = 0; n < 256; ++n) {
              const double exact = of_weight * numbers[x][n];
              const bool same = std::isnan(exact) ? std::isnan(found[n]) : found[n] == exact;
              ASSERT_TRUE(same) << isa::dtype_name(w) << " " << half * 128 + m << " x "
                                << isa::dtype_name(x) << " " << n << " on "
                                << numerics::simd_path_name(path) << " is " << found[n]
                                << " instead of " << exact;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(pairs, 14U);
}

TEST_F(SimdPaths, ConvertAsOneElementAtATimeDoes) {
  limits_ = isa::limits_of(4);
  fill_inputs(false);
  for (const unsigned from : kTypes) {
    for (const unsigned to : kTypes) {
      Instruction i = with_op(make(NEURON_OP_TENSOR_SCALAR, out(to), in(from)), NEURON_ALU_MUL);
      i.scalar0 = real(3.0f);
      dve(i);
      const unsigned from_bytes = isa::dtype_bytes(from), to_bytes = isa::dtype_bytes(to);
      for (unsigned p = 0; p < kParts; p += 13) {
        for (int e = 0; e < kN; ++e) {
          float value = numerics::widen_one(from, memory_.sbuf(p) + e * from_bytes) * 3.0f;
          if (value != value) value = std::bit_cast<float>(0x7FC00000u);
          std::array<std::byte, 4> expected{};
          numerics::narrow_one(to, value, expected.data());
          ASSERT_EQ(
              std::memcmp(memory_.sbuf(p) + kPathOut + e * to_bytes, expected.data(), to_bytes), 0)
              << isa::dtype_name(from) << " -> " << isa::dtype_name(to) << " of " << value;
        }
      }
    }
  }
}

}  // namespace
}  // namespace neuron::core
