// SPDX-License-Identifier: Apache-2.0
// Values of instructions with indirect operands. The reference knows the offsets from the test's
// own table: it gathers and scatters on the host, and between both the same instruction runs on
// plain tiles.
#include <gmock/gmock.h>

#include <random>

#include "tests/unit/driver/emulator/neuroncore/short_names.h"
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"

namespace neuron::core {
namespace {

constexpr uint32_t kFromIndex = 0x8000, kToIndex = 0x9000;
constexpr uint32_t kA = 0, kB = 0x4000, kTo = 0x10000, kPlainA = 0x18000, kPlainTo = 0x20000;
constexpr uint32_t kMatrix = 0x28000, kPlainScales = 0x30000, kScales = 0x34000;

class IndirectionTest : public UnitMachine {
 protected:
  IndirectionTest() { limits_ = isa::limits_of(4); }

  using Table = std::vector<std::vector<uint32_t>>;  // a group's offsets, in stream order

  // Offsets below `most`, and the index in SBUF that holds them.
  Table make_index(unsigned parts, unsigned n, unsigned group, unsigned most,
                   const isa::IndexPlace& place, bool different = false) {
    Table table;
    for (unsigned first = 0; first < parts; first += group) {
      std::vector<uint32_t> offsets(n);
      for (uint32_t& offset : offsets) offset = random_() % most;
      if (different) {
        std::vector<uint32_t> all(most);
        for (uint32_t i = 0; i < most; ++i) all[i] = i;
        std::shuffle(all.begin(), all.end(), random_);
        std::copy_n(all.begin(), n, offsets.begin());
      }
      for (unsigned i = 0; i < n; ++i) {
        const unsigned bytes = isa::dtype_bytes(place.dtype);
        std::memcpy(memory_.sbuf(place.start + first + i % group) + place.base + i / group * bytes,
                    &offsets[i], bytes);
      }
      table.push_back(offsets);
    }
    return table;
  }
  static isa::Operand by(isa::Operand base, unsigned n, const isa::IndexPlace& place) {
    base.ndim = 1;
    base.size = {static_cast<uint16_t>(n), 0, 0, 0};
    base.step = {1, 0, 0, 0};
    base.set_index(place);
    return base;
  }
  static isa::Operand at(uint32_t base, unsigned dtype, int n, unsigned parts = 128,
                         unsigned start = 0, unsigned space = NEURON_SPACE_SBUF) {
    return tile(space, start, parts, base, dtype, {n});
  }
  void randomise(const isa::Operand& operand, float scale = 2.0f) {
    std::uniform_real_distribution<float> value(-scale, scale);
    fill(operand, [&](unsigned, unsigned) { return value(random_); });
  }
  std::byte* element(const isa::Operand& operand, unsigned part, size_t e) {
    return memory_.row(operand.space, operand.start + part) + operand.base +
           e * isa::dtype_bytes(operand.dtype);
  }
  void gather(const isa::Operand& from, const Table& table, unsigned group,
              const isa::Operand& to) {
    for (unsigned p = 0; p < from.parts; ++p) {
      const auto& offsets = table[p / group];
      for (size_t i = 0; i < offsets.size(); ++i) {
        std::memcpy(element(to, p, i), element(from, p, offsets[i]), isa::dtype_bytes(from.dtype));
      }
    }
  }
  void scatter(const isa::Operand& from, const Table& table, unsigned group,
               const isa::Operand& to) {
    for (unsigned p = 0; p < to.parts; ++p) {
      const auto& offsets = table[p / group];
      for (size_t i = 0; i < offsets.size(); ++i) {
        std::memcpy(element(to, p, offsets[i]), element(from, p, i), isa::dtype_bytes(to.dtype));
      }
    }
  }
  std::vector<std::byte> bytes_of(const isa::Operand& whole) {
    std::vector<std::byte> all;
    for (unsigned p = 0; p < whole.parts; ++p) {
      const std::byte* row = element(whole, p, 0);
      all.insert(all.end(), row, row + whole.elements() * isa::dtype_bytes(whole.dtype));
    }
    return all;
  }

  struct Case {
    const char* name;
    uint16_t opcode;
    unsigned engine;
    unsigned dtype = NEURON_DTYPE_F32;
    unsigned results = 0;  // elements of the destination; 0: those of the source
    void (*complete)(Instruction&) = nullptr;
  };

  // `gathers`, `scatters`: which operands are indirect. 24 partitions: one group and a half.
  void expect_as_on_plain_tiles(const Case& c, bool gathers, bool scatters, unsigned parts,
                                unsigned start, unsigned index_type) {
    SCOPED_TRACE(std::string(c.name) + (gathers ? " gathers" : "") + (scatters ? " scatters" : "") +
                 " from partition " + std::to_string(start));
    constexpr unsigned kWide = 96, n = 41;
    const unsigned results = c.results == 0 ? n : c.results;
    const isa::IndexPlace from_place{kFromIndex, static_cast<uint8_t>(start),
                                     static_cast<uint8_t>(index_type)};
    const isa::IndexPlace to_place{kToIndex, static_cast<uint8_t>(start),
                                   static_cast<uint8_t>(index_type)};
    const Table from_table = make_index(parts, n, 16, kWide, from_place);
    const Table to_table = make_index(parts, results, 16, kWide, to_place);
    const isa::Operand a = at(kA, c.dtype, kWide, parts, start);
    const isa::Operand to = at(kTo, c.dtype, kWide, parts, start);
    const isa::Operand plain_a = at(kPlainA, c.dtype, n, parts, start);
    const isa::Operand plain_to = at(kPlainTo, c.dtype, static_cast<int>(results), parts, start);
    randomise(a);
    randomise(to);
    randomise(at(kB, c.dtype, n, parts, start));
    Instruction direct = make(c.opcode, plain_to, plain_a);
    if (c.complete) c.complete(direct);
    for (isa::Operand* operand : {&direct.src1}) {
      if (!operand->present()) continue;
      operand->start = static_cast<uint8_t>(start);
      operand->parts = static_cast<uint8_t>(parts);
    }
    Instruction indirect = direct;
    if (gathers) {
      gather(a, from_table, 16, plain_a);
      indirect.src0 = by(a, n, from_place);
    } else {
      randomise(plain_a);
    }
    if (scatters) indirect.dst = by(to, results, to_place);
    run(c.engine, direct);
    std::vector<std::byte> expected = bytes_of(plain_to);
    if (scatters) {
      const auto before = bytes_of(to);
      scatter(plain_to, to_table, 16, to);
      expected = bytes_of(to);
      const size_t row = to.elements() * isa::dtype_bytes(to.dtype);
      for (unsigned p = 0; p < parts; ++p) {
        std::memcpy(element(to, p, 0), before.data() + p * row, row);
      }
    } else {
      randomise(plain_to);
    }
    UnitContext& unit = unit_of(c.engine);
    const auto accumulators = unit.accumulator;
    unit.accumulator.fill(0.0f);
    run(c.engine, indirect);
    EXPECT_EQ(bytes_of(scatters ? to : plain_to), expected);
    EXPECT_EQ(unit.accumulator, accumulators);
    unit.accumulator.fill(0.0f);
  }

  std::mt19937 random_{20260301};
};

void reduces_all(Instruction& i) {
  i.vector.reduce = NEURON_ALU_ADD;
  i.vector.axes = 1;
}
void scales(Instruction& i) {
  i.scalar0 = real(1.5f);
  i.scalar1 = real(-0.25f);
  i.vector.op0 = NEURON_ALU_MUL;
  i.vector.op1 = NEURON_ALU_ADD;
}
void exponentiates(Instruction& i) {
  i.vector.reduce = NEURON_ALU_ADD;
  i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
}
void multiplies_and_sums(Instruction& i) {
  i.scalar0 = real(2.0f);
  i.vector.op0 = NEURON_ALU_MUL;
  i.vector.reduce = NEURON_ALU_ADD;
  i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
}
void sums_up(Instruction& i) {
  i.scalar0 = real(0.5f);
  i.vector.op0 = NEURON_ALU_MUL;
  i.vector.op1 = NEURON_ALU_ADD;
  i.vector.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
}
void adds_b(Instruction& i) {
  i.src1 = tile(NEURON_SPACE_SBUF, 0, 128, kB, i.dst.dtype, {41});
  i.vector.op0 = NEURON_ALU_ADD;
}
void takes_tanh(Instruction& i) {
  i.scalar0 = real(0.5f);
  i.act.function = NEURON_ACT_TANH;
  i.act.reduce = NEURON_ALU_ADD;
  i.act.reduce_command = NEURON_REDUCE_RESET_ACCUMULATE;
}
void takes_sigmoid(Instruction& i) {
  i.scalar0 = real(0.5f);
  i.scalar1 = real(0.125f);
  i.act.function = NEURON_ACT_SIGMOID;
  i.act.pre = NEURON_PRE_MUL_ADD;
}

TEST_F(IndirectionTest, GivesWhatPlainTilesOfTheSameElementsGive) {
  const Case cases[] = {
      {"tensor_copy on DVE", NEURON_OP_TENSOR_COPY, kDve},
      {"tensor_copy on Activation", NEURON_OP_TENSOR_COPY, kAct},
      {"tensor_copy of f8e4", NEURON_OP_TENSOR_COPY, kDve, NEURON_DTYPE_F8E4},
      {"tensor_tensor on DVE", NEURON_OP_TENSOR_TENSOR, kDve, NEURON_DTYPE_F32, 0, adds_b},
      {"tensor_tensor on Pool", NEURON_OP_TENSOR_TENSOR, kPool, NEURON_DTYPE_BF16, 0, adds_b},
      {"tensor_tensor of i32", NEURON_OP_TENSOR_TENSOR, kPool, NEURON_DTYPE_I32, 0, adds_b},
      {"tensor_scalar on DVE", NEURON_OP_TENSOR_SCALAR, kDve, NEURON_DTYPE_BF16, 0, scales},
      {"tensor_scalar on Activation", NEURON_OP_TENSOR_SCALAR, kAct, NEURON_DTYPE_F32, 0, scales},
      {"tensor_scalar on Pool", NEURON_OP_TENSOR_SCALAR, kPool, NEURON_DTYPE_F32, 0, scales},
      {"tensor_reduce", NEURON_OP_TENSOR_REDUCE, kDve, NEURON_DTYPE_F32, 1, reduces_all},
      {"tensor_scalar_reduce", NEURON_OP_TENSOR_SCALAR_REDUCE, kDve, NEURON_DTYPE_F32, 0,
       multiplies_and_sums},
      {"tensor_scalar_cumulative", NEURON_OP_TENSOR_SCALAR_CUMULATIVE, kDve, NEURON_DTYPE_F32, 0,
       sums_up},
      {"exponential", NEURON_OP_EXPONENTIAL, kDve, NEURON_DTYPE_BF16, 0, exponentiates},
      {"activate", NEURON_OP_ACTIVATE, kAct, NEURON_DTYPE_F32, 0, takes_tanh},
      {"activate2", NEURON_OP_ACTIVATE2, kAct, NEURON_DTYPE_F16, 0, takes_sigmoid},
  };
  for (const Case& c : cases) {
    for (const unsigned type : {NEURON_DTYPE_U16, NEURON_DTYPE_I32, NEURON_DTYPE_U32}) {
      expect_as_on_plain_tiles(c, true, false, 128, 0, type);
      expect_as_on_plain_tiles(c, false, true, 64, 64, type);
      expect_as_on_plain_tiles(c, true, true, 24, 96, type);
    }
  }
}

TEST_F(IndirectionTest, ReadsOffsetsColumnByColumnOfSixteenPartitions) {
  // Partition r, column c of the index holds 100 - (16 c + r): element i is number 100 - i.
  const isa::Operand a = at(kA, NEURON_DTYPE_F32, 128);
  fill(a, [](unsigned p, unsigned e) { return static_cast<float>(1000 * p + e); });
  for (unsigned p = 0; p < 128; ++p) {
    const auto r = static_cast<uint16_t>(p % 16);
    put_raw<uint16_t>(at(kFromIndex, NEURON_DTYPE_U16, 3), p,
                      {static_cast<uint16_t>(100 - r), static_cast<uint16_t>(84 - r),
                       static_cast<uint16_t>(68 - r)});
  }
  const isa::Operand to = at(kTo, NEURON_DTYPE_F32, 40);
  dve(make(NEURON_OP_TENSOR_COPY, to, by(a, 40, {kFromIndex, 0, NEURON_DTYPE_U16})));
  for (const unsigned p : {0u, 15u, 16u, 127u}) {
    const std::vector<float> row = get(to, p);
    for (unsigned i = 0; i < 40; ++i) EXPECT_EQ(row[i], 1000.0f * p + 100 - i) << p;
  }
}

TEST_F(IndirectionTest, LetsTheLastOfElementsThatGoToOnePlaceStay) {
  const isa::Operand a = at(kA, NEURON_DTYPE_F32, 20);
  fill(a, [](unsigned, unsigned e) { return static_cast<float>(e); });
  const isa::Operand to = at(kTo, NEURON_DTYPE_F32, 4);
  fill(to, [](unsigned, unsigned) { return -1.0f; });
  for (unsigned p = 0; p < 128; ++p) {
    put_raw<uint16_t>(at(kToIndex, NEURON_DTYPE_U16, 2), p, {static_cast<uint16_t>(p % 2), 1});
  }
  dve(make(NEURON_OP_TENSOR_COPY, by(to, 20, {kToIndex, 0, NEURON_DTYPE_U16}), a));
  EXPECT_THAT(get(to, 77), ::testing::ElementsAre(14, 19, -1, -1));
}

TEST_F(IndirectionTest, ReadsIndexAndSourceBeforeAnythingIsWritten) {
  // The destination is the index itself, and then the base of the source.
  const isa::IndexPlace place{kFromIndex, 0, NEURON_DTYPE_I32};
  const isa::Operand a = at(kA, NEURON_DTYPE_I32, 64);
  fill(a, [](unsigned p, unsigned e) { return static_cast<float>(64 * p + e); });
  const Table table = make_index(128, 32, 16, 64, place);
  dve(make(NEURON_OP_TENSOR_COPY, at(kFromIndex, NEURON_DTYPE_I32, 32), by(a, 32, place)));
  const auto row = get_raw<int32_t>(at(kFromIndex, NEURON_DTYPE_I32, 32), 40);
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(row[i], static_cast<int>(64 * 40 + table[2][i]));
  const Table again = make_index(128, 32, 16, 64, place);
  dve(make(NEURON_OP_TENSOR_COPY, at(kA, NEURON_DTYPE_I32, 32), by(a, 32, place)));
  const auto moved = get_raw<int32_t>(at(kA, NEURON_DTYPE_I32, 32), 3);
  for (unsigned i = 0; i < 32; ++i) EXPECT_EQ(moved[i], static_cast<int>(64 * 3 + again[0][i]));
}

TEST_F(IndirectionTest, SendsOnlyWhatThePredicateSelects) {
  const isa::Operand values = at(kA, NEURON_DTYPE_F32, 16);
  fill(values, [](unsigned, unsigned e) { return static_cast<float>(e); });
  const isa::Operand predicate = at(kB, NEURON_DTYPE_U8, 64);
  fill(predicate, [](unsigned, unsigned e) { return e < 8 ? 1.0f : 0.0f; });
  const isa::Operand to = at(kTo, NEURON_DTYPE_F32, 16);
  fill(to, [](unsigned, unsigned) { return -1.0f; });
  for (unsigned p = 0; p < 128; ++p) {
    const unsigned r = p % 16;
    // The predicate of element r is its number 4 r; elements r and r + 4 go to place r mod 4.
    put_raw<uint16_t>(at(kFromIndex, NEURON_DTYPE_U16, 1), p, {static_cast<uint16_t>(4 * r)});
    put_raw<uint16_t>(at(kToIndex, NEURON_DTYPE_U16, 1), p, {static_cast<uint16_t>(r % 4)});
  }
  Instruction i = make(NEURON_OP_COPY_PREDICATED, by(to, 16, {kToIndex, 0, NEURON_DTYPE_U16}),
                       values, by(predicate, 16, {kFromIndex, 0, NEURON_DTYPE_U16}));
  dve(i);
  std::vector<float> expected(16, -1.0f);
  expected[0] = 0;
  expected[1] = 1;
  EXPECT_EQ(get(to, 100), expected);
  i.vector.invert = true;
  dve(i);
  expected[0] = 12;
  expected[1] = 13;
  expected[2] = 14;
  expected[3] = 15;
  EXPECT_EQ(get(to, 100), expected);
}

TEST_F(IndirectionTest, FaultsWithAnOffsetThatLeavesThePartitionAndWritesNothing) {
  struct {
    unsigned space, dtype;
    uint32_t base, offset, bound;
  } cases[] = {
      {NEURON_SPACE_SBUF, NEURON_DTYPE_I32, 0x100, 0x40000 / 4 - 0x40, 0x40000 / 4 - 0x40},
      {NEURON_SPACE_SBUF, NEURON_DTYPE_I32, 0x100, 0xFFFFFFFF, 0x40000 / 4 - 0x40},
      {NEURON_SPACE_SBUF, NEURON_DTYPE_U32, 0x100, 0x80000000, 0x40000 / 4 - 0x40},
      {NEURON_SPACE_PSUM, NEURON_DTYPE_U16, 0x800, 0x3800 / 4, 0x3800 / 4},
  };
  for (const auto& c : cases) {
    const isa::IndexPlace place{kFromIndex, 0, static_cast<uint8_t>(c.dtype)};
    const unsigned bytes = isa::dtype_bytes(c.dtype);
    make_index(128, 64, 16, 10, place);
    const isa::Operand base = at(c.base, NEURON_DTYPE_F32, 8, 128, 0, c.space);
    const isa::Operand plain = at(kTo, NEURON_DTYPE_F32, 64);
    fill(plain, [](unsigned, unsigned) { return 7.0f; });
    Instruction ok = make(NEURON_OP_TENSOR_COPY, plain, by(base, 64, place));
    std::memcpy(memory_.sbuf(53) + kFromIndex + 2 * bytes, &c.offset, bytes);
    fill(plain, [](unsigned, unsigned) { return 7.0f; });
    const Fault fault = attempt(kDve, ok);
    EXPECT_EQ(fault.code, NEURON_FAULT_INDEX_OOB);
    EXPECT_EQ(fault.info, c.offset);
    EXPECT_EQ(fault.detail, c.bound);
    EXPECT_EQ(fault.offset, NEURON_INST_SRC0);
    EXPECT_EQ(fault.address, uint64_t{53} << 20 | (kFromIndex + 2 * bytes));
    EXPECT_EQ(get(plain, 0)[0], 7.0f);
    Instruction scattered = make(NEURON_OP_TENSOR_COPY, by(base, 64, place), plain);
    const Fault second = attempt(kDve, scattered);
    EXPECT_EQ(second.code, NEURON_FAULT_INDEX_OOB);
    EXPECT_EQ(second.offset, NEURON_INST_DST);
  }
}

TEST_F(IndirectionTest, ReachesTheLastElementOfThePartition) {
  const isa::IndexPlace place{kFromIndex, 0, NEURON_DTYPE_U32};
  make_index(128, 1, 16, 1, place);
  const uint32_t last = 0x40000 / 4 - 1;
  for (unsigned group = 0; group < 128; group += 16) {
    std::memcpy(memory_.sbuf(group) + kFromIndex, &last, 4);
  }
  const isa::Operand end = at(0x40000 - 4, NEURON_DTYPE_F32, 1);
  fill(end, [](unsigned p, unsigned) { return static_cast<float>(p); });
  dve(make(NEURON_OP_TENSOR_COPY, at(kTo, NEURON_DTYPE_F32, 1),
           by(at(0, NEURON_DTYPE_F32, 1), 1, place)));
  EXPECT_EQ(get(at(kTo, NEURON_DTYPE_F32, 1), 99)[0], 99.0f);
}

// Offsets of PE are shared by 32 partitions.
TEST_F(IndirectionTest, MultipliesMatricesOfGatheredColumns) {
  constexpr int kColumns = 200, m = 96, n = 150;
  for (const unsigned dtype :
       {NEURON_DTYPE_BF16, NEURON_DTYPE_F16, NEURON_DTYPE_F8E4, NEURON_DTYPE_F8E4FN}) {
    const isa::Operand weights = at(kMatrix, dtype, kColumns), moving = at(kA, dtype, kColumns);
    randomise(weights);
    randomise(moving);
    const isa::IndexPlace w{kToIndex, 0, NEURON_DTYPE_U16}, x{kFromIndex, 0, NEURON_DTYPE_I32};
    const Table w_table = make_index(128, m, 32, kColumns, w);
    const Table x_table = make_index(128, n, 32, kColumns, x);
    const isa::Operand plain_w = at(kPlainA, dtype, m), plain_x = at(kPlainTo, dtype, n);
    gather(weights, w_table, 32, plain_w);
    gather(moving, x_table, 32, plain_x);
    const auto product = [&](const isa::Operand& w_at, const isa::Operand& x_at, uint32_t to) {
      run(kPe, make(NEURON_OP_LDWEIGHTS, {}, w_at));
      Instruction i =
          make(NEURON_OP_MATMUL, at(to, NEURON_DTYPE_F32, n, m, 0, NEURON_SPACE_PSUM), x_at);
      i.pe.swap = true;
      run(kPe, i);
      return bytes_of(i.dst);
    };
    const auto expected = product(plain_w, plain_x, 0);
    EXPECT_EQ(product(by(weights, m, w), by(moving, n, x), 0x1000), expected);
  }
}

TEST_F(IndirectionTest, ScattersProductsAndAddsEachThatGoesToOnePlace) {
  constexpr int m = 64, n = 40, kWide = 50;
  const isa::Operand weights = at(kMatrix, NEURON_DTYPE_BF16, m), x = at(kA, NEURON_DTYPE_BF16, n);
  randomise(weights);
  randomise(x);
  run(kPe, make(NEURON_OP_LDWEIGHTS, {}, weights));
  const isa::Operand plain = at(0x2000, NEURON_DTYPE_F32, n, m, 0, NEURON_SPACE_PSUM);
  Instruction direct = make(NEURON_OP_MATMUL, plain, x);
  direct.pe.swap = true;
  run(kPe, direct);
  const isa::Operand to = at(0, NEURON_DTYPE_F32, kWide, m, 0, NEURON_SPACE_PSUM);
  for (const bool different : {true, false}) {
    const isa::IndexPlace place{kToIndex, 0, NEURON_DTYPE_U16};
    const Table table = make_index(m, n, 32, different ? kWide : 12, place, different);
    fill(to, [](unsigned p, unsigned e) { return static_cast<float>(p) + 0.25f * e; });
    Instruction scattered = make(NEURON_OP_MATMUL, by(to, n, place), x);
    run(kPe, scattered);
    for (unsigned p = 0; p < m; ++p) {
      std::vector<float> expected(kWide);
      for (unsigned e = 0; e < kWide; ++e) expected[e] = p + 0.25f * e;
      const auto results = get(plain, p);
      for (int i = 0; i < n; ++i) expected[table[p / 32][i]] = results[i];
      EXPECT_EQ(get(to, p), expected) << p;
    }
    // The same onto zeros, accumulated: exact, because the first sum starts from 0 and the others
    // are compared with some room.
    fill(to, [](unsigned, unsigned) { return 0.0f; });
    scattered.pe.accumulate = true;
    run(kPe, scattered);
    for (unsigned p = 0; p < m; ++p) {
      std::vector<float> expected(kWide, 0.0f);
      const auto results = get(plain, p);
      for (int i = 0; i < n; ++i) expected[table[p / 32][i]] += results[i];
      const auto found = get(to, p);
      for (unsigned e = 0; e < kWide; ++e) EXPECT_NEAR(found[e], expected[e], 1e-4f) << p;
    }
  }
}

TEST_F(IndirectionTest, MarksScatteredPlacesOfPsumAsWrittenByThePeAndNoOthers) {
  const isa::Operand weights = at(kMatrix, NEURON_DTYPE_BF16, 32, 32),
                     x = at(kA, NEURON_DTYPE_BF16, 2, 32);
  randomise(weights);
  randomise(x);
  run(kPe, make(NEURON_OP_LDWEIGHTS, {}, weights));
  const isa::IndexPlace place{kToIndex, 0, NEURON_DTYPE_U16};
  const uint16_t offsets[] = {3, 9};
  for (unsigned i = 0; i < 2; ++i) std::memcpy(memory_.sbuf(i) + kToIndex, &offsets[i], 2);
  const isa::Operand to = at(0, NEURON_DTYPE_F32, 16, 32, 0, NEURON_SPACE_PSUM);
  Instruction i = make(NEURON_OP_MATMUL, by(to, 2, place), x);
  i.pe.swap = true;
  run(kPe, i);
  for (unsigned e = 0; e < 16; ++e) {
    EXPECT_EQ(memory_.pe_wrote(20, 4 * e, 4), e == 3 || e == 9) << e;
  }
  unit_of(kPe).strict_psum = true;
  i.pe.swap = false;
  i.pe.accumulate = true;
  run(kPe, i);
  i.dst = by(at(4, NEURON_DTYPE_F32, 16, 32, 0, NEURON_SPACE_PSUM), 2, place);
  const Fault fault = attempt(kPe, i);
  EXPECT_EQ(fault.code, NEURON_FAULT_PSUM_UNDEFINED);
  EXPECT_EQ(fault.address & NEURON_STRICT_PLACE_MASK, 4U + 3 * 4);
  unit_of(kPe).strict_psum = false;
}

TEST_F(IndirectionTest, NeedsTheIndexOfAScatteredProductWhereItsWeightsStart) {
  const isa::Operand weights = at(kMatrix, NEURON_DTYPE_BF16, 32, 32, 64);
  const isa::Operand x = at(kA, NEURON_DTYPE_BF16, 16, 32);
  randomise(weights);
  randomise(x);
  run(kPe, make(NEURON_OP_LDWEIGHTS, {}, weights));
  isa::IndexPlace place{kToIndex, 0, NEURON_DTYPE_U16};
  make_index(32, 16, 32, 16, place);
  const isa::Operand to = at(0, NEURON_DTYPE_F32, 16, 32, 0, NEURON_SPACE_PSUM);
  Instruction i = make(NEURON_OP_MATMUL, by(to, 16, place), x);
  i.pe.swap = true;
  const Fault fault = attempt(kPe, i);
  EXPECT_EQ(fault.code, NEURON_FAULT_OPERAND_PARTITION);
  EXPECT_EQ(fault.rule, 7);
  EXPECT_EQ(fault.info, 0U);
  EXPECT_EQ(fault.detail, 64U);
  place.start = 64;
  make_index(32, 16, 32, 16, place);
  i.dst = by(to, 16, place);
  run(kPe, i);
}

TEST_F(IndirectionTest, TransposesGatheredColumns) {
  const isa::Operand a = at(kA, NEURON_DTYPE_BF16, 64, 96);
  randomise(a);
  const isa::IndexPlace place{kFromIndex, 0, NEURON_DTYPE_U16};
  const Table table = make_index(96, 40, 32, 64, place);
  const isa::Operand to = at(0, NEURON_DTYPE_BF16, 96, 40, 0, NEURON_SPACE_PSUM);
  run(kPe, make(NEURON_OP_TRANSPOSE, to, by(a, 40, place)));
  for (unsigned column = 0; column < 40; ++column) {
    const auto row = get(to, column);
    for (unsigned p = 0; p < 96; ++p) EXPECT_EQ(row[p], get(a, p)[table[p / 32][column]]);
  }
}

TEST_F(IndirectionTest, GathersMatricesOfMxTogetherWithTheirScales) {
  constexpr int kColumns = 80, m = 32, n = 48;
  const isa::IndexPlace place{kFromIndex, 0, NEURON_DTYPE_U16};
  const Table table = make_index(128, n, 32, kColumns, place);
  const auto random_raw = [&](const isa::Operand& operand, unsigned low, unsigned high) {
    for (unsigned p = 0; p < operand.parts; ++p) {
      std::byte* row = element(operand, p, 0);
      for (size_t e = 0; e < operand.elements() * isa::dtype_bytes(operand.dtype); ++e) {
        row[e] = static_cast<std::byte>(low + random_() % (high - low));
      }
    }
  };
  const isa::Operand data = at(kA, NEURON_DTYPE_F8E4FNX4, kColumns);
  const isa::Operand scale = at(kScales, NEURON_DTYPE_U8, kColumns);
  const isa::Operand plain = at(kPlainA, NEURON_DTYPE_F8E4FNX4, n);
  const isa::Operand plain_scale = at(kPlainScales, NEURON_DTYPE_U8, n);
  const isa::Operand w = at(kMatrix, NEURON_DTYPE_F8E4FNX4, m);
  random_raw(data, 0x10, 0x60);
  random_raw(w, 0x10, 0x60);
  random_raw(scale, 120, 132);
  gather(data, table, 32, plain);
  gather(scale, table, 32, plain_scale);
  const auto product = [&](const isa::Operand& x, const isa::Operand& scales_of_x, uint32_t to) {
    run(kPe, make(NEURON_OP_LDWEIGHTS_MX, {}, w, at(kScales, NEURON_DTYPE_U8, m)));
    Instruction i = make(NEURON_OP_MATMUL_MX, at(to, NEURON_DTYPE_F32, n, m, 0, NEURON_SPACE_PSUM),
                         x, scales_of_x);
    i.pe.swap = true;
    run(kPe, i);
    return bytes_of(i.dst);
  };
  const auto expected = product(plain, plain_scale, 0);
  EXPECT_EQ(product(by(data, n, place), by(scale, n, place), 0x1000), expected);
}

}  // namespace
}  // namespace neuron::core
