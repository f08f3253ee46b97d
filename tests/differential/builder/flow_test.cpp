// SPDX-License-Identifier: Apache-2.0
// The flow of built programs on the emulated device: loops around loops, loops that a number
// counts, branches, functions, what happens once; and memory at places that the program chose.
#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <utility>

#include "hw/activation_table.h"
#include "tests/differential/compare.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::differential {
namespace {

using builder::Buffer;
using builder::Compare;
using builder::ControlFlow;
using builder::Engine;
using builder::Function;
using builder::Index;
using builder::Program;
using builder::Tile;

constexpr uint8_t kU32 = NEURON_DTYPE_U32;

Bytes bytes_of(const std::vector<uint32_t>& words) {
  Bytes bytes(words.size() * 4);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

// One execution, of which input `name` is this word.
bool execute_with(DeviceModel& model, const char* name, uint32_t word) {
  const Bytes bytes = bytes_of({word});
  model.write(name, bytes.data(), bytes.size());
  return model.execute();
}

// y = a block of x for each row and column of blocks, each with its own sum of indexes.
TEST(BuilderFlow, NestsLoopsAndMovesAccessesWithAllOfThem) {
  constexpr uint32_t kOuter = 3, kMiddle = 2, kInner = 4, kSize = 16;
  Program program("nest");
  const Buffer x = program.input("x", kF32, {kOuter * 32, kMiddle * kInner * kSize});
  const Buffer y = program.output("y", kF32, {kOuter * 32, kMiddle * kInner * kSize});
  const Tile row = program.sbuf("row", 32, kMiddle * kInner * kSize, kF32);
  const Tile result = program.sbuf("result", 32, kMiddle * kInner * kSize, kF32);
  const Tile added = program.sbuf("added", 32, kSize, kF32);
  program.memset(Engine::kPool, added.all(), 0);
  program.control().loop(kOuter, [&](Index outer) {
    program.dma(Engine::kSp, row.all(),
                x.block(0, 32, 0, x.columns).advancing(32 * x.columns * 4, outer));
    program.loop(kMiddle, [&] {
      program.tensor_scalar(Engine::kDve, added.all(), added.all(), NEURON_ALU_ADD, 100.0F);
      const auto middle = [&](const builder::TileAccess& access) { return access; };
      program.control().loop(kInner, [&](Index inner) {
        const auto piece = [&](const Tile& tile) {
          return middle(tile.column_range(0, kSize)).advancing(kSize, inner);
        };
        program.tensor_tensor(Engine::kDve, piece(result), piece(row), NEURON_ALU_ADD, added.all());
      });
      program.dma(Engine::kPool,
                  y.block(0, 32, 0, kInner * kSize)
                      .advancing(kInner * kSize * 4)
                      .advancing(32 * y.columns * 4, outer),
                  result.column_range(0, kInner * kSize));
    });
  });
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  const std::vector<float> values = counting(x.rows * x.columns);
  model.write("x", values);
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = floats(model.read("y"));
  for (uint32_t r = 0; r < x.rows; ++r) {
    for (uint32_t c = 0; c < x.columns; ++c) {
      // Each round of the middle loop reads the first columns, and adds 100 more than the one
      // before.
      const uint32_t round = c / (kInner * kSize) + r / 32 * kMiddle;
      const float expected =
          values[r * x.columns + c % (kInner * kSize)] + 100 * static_cast<float>(round + 1);
      ASSERT_EQ(got[r * x.columns + c], expected) << r << ", " << c;
    }
  }
}

// Rows of the caller's x by the caller's indexes to rows of his y, and blocks of x in both
// directions to his z: no instruction knows where these are until the program runs.
TEST(BuilderFlow, GeneratesTransfersFromAndToTheTensorsOfTheCaller) {
  constexpr uint32_t kRows = 128, kColumns = 8, kBlocks = 3;  // The fourth block may be reached
  Program program("ports");
  const Buffer x = program.input("x", kF32, {kRows, kColumns});
  const Buffer wanted = program.input("wanted", kU32, {32, 1});
  const Buffer y = program.output("y", kF32, {kRows, kColumns});
  const Buffer z = program.output("z", kF32, {kRows, kColumns});
  const Tile index = program.sbuf("index", 32, 1, kU32);
  const Tile rows = program.sbuf("rows", 32, kColumns, kF32);
  const Tile nothing = program.sbuf("nothing", kRows, kColumns, kF32);
  program.dma(Engine::kSp, index.all(), wanted.all());
  program.memset(Engine::kDve, nothing.all(), 0);
  program.dma(Engine::kSp, y.all(), nothing.all());
  program.dma(Engine::kSp, z.all(), nothing.all());
  program.dma_gather(rows.all(), x, index.all());
  program.tensor_scalar(Engine::kDve, rows.all(), rows.all(), NEURON_ALU_ADD, 1000.0F);
  program.dma_scatter(y, index.all(), rows.all());
  // The sums of four registers and two addresses are more than an instruction binds.
  ControlFlow control = program.control();
  const Index none = control.number("none", 1), zero = control.number("zero", 1);
  control.set(none, 0);
  control.set(zero, 0);
  constexpr int64_t kBlock = int64_t{32} * kColumns * 4;
  control.loop(kBlocks, [&](Index block) {
    program.dma_generate(
        z.block(0, 32, 0, kColumns).advancing(kBlock, block).advancing(kBlock, none),
        x.block(64, 32, 0, kColumns).advancing(-kBlock, block).advancing(kBlock, zero));
  });
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  for (uint32_t round = 0; round < 2; ++round) {
    std::vector<float> values = counting(size_t{kRows} * kColumns);
    for (float& value : values) value += static_cast<float>(round) * 0.5F;
    model.write("x", values);
    std::vector<uint32_t> numbers(32);
    for (uint32_t i = 0; i < 32; ++i) numbers[i] = (i * 3 + round) % kRows;
    const Bytes bytes = bytes_of(numbers);
    model.write("wanted", bytes.data(), bytes.size());
    ASSERT_TRUE(model.execute());
    std::vector<float> expected_y(values.size(), 0), expected_z(values.size(), 0);
    for (const uint32_t row : numbers) {
      for (uint32_t c = 0; c < kColumns; ++c) {
        expected_y[row * kColumns + c] = values[row * kColumns + c] + 1000;
      }
    }
    for (uint32_t r = 0; r < kBlocks * 32; ++r) {
      const uint32_t from = 64 - r / 32 * 32 + r % 32;
      std::copy_n(values.begin() + from * kColumns, kColumns, expected_z.begin() + r * kColumns);
    }
    EXPECT_EQ(floats(model.read("y")), expected_y) << round;
    EXPECT_EQ(floats(model.read("z")), expected_z) << round;
  }
}

// Sums blocks of a table: as many as the caller says, from the one that the caller says.
TEST(BuilderFlow, CountsAndMovesByNumbersOfTheCaller) {
  constexpr uint32_t kBlocks = 9, kSize = 8;
  Program program("dynamic");
  const Buffer x = program.input("x", kF32, {kBlocks * 32, kSize});
  const Buffer wanted = program.input("wanted", kU32, {2});
  const Buffer y = program.output("y", kF32, {32, kSize});
  const Buffer rounds = program.output("rounds", kU32, {1, 1});
  const Buffer table = program.temporary("table", kF32, {kBlocks * 32, kSize});
  const Tile words = program.sbuf("words", 1, 2, kU32);
  const Tile done = program.sbuf("done", 1, 1, kU32);
  const Tile block = program.sbuf("block", 32, kSize, kF32);
  const Tile sum = program.sbuf("sum", 32, kSize, kF32);
  program.dma(Engine::kSp, table.all(), x.all());
  program.dma(Engine::kSp, words.all(), wanted.broadcast(1));
  program.memset(Engine::kDve, sum.all(), 0);
  ControlFlow control = program.control();
  const Index count = control.number("count", 5), first = control.number("first", 4);
  const Index passed = control.number("passed", 1000);
  control.load(count, words.at(0, 1, 0, 1));
  control.load(first, words.at(0, 1, 1, 1));
  control.set(passed, 0);
  control.loop(count, [&](Index round) {
    program.dma_generate(block.all(), table.block(0, 32, 0, kSize)
                                          .advancing(32 * kSize * 4, round)
                                          .advancing(32 * kSize * 4, first));
    program.tensor_tensor(Engine::kDve, sum.all(), sum.all(), NEURON_ALU_ADD, block.all());
    control.set(passed, passed, NEURON_ALU_ADD, 1);
  });
  control.store(done.all(), passed);
  program.dma(Engine::kSp, y.all(), sum.all());
  program.dma(Engine::kSp, rounds.all(), done.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  const std::vector<float> values = counting(kBlocks * 32 * kSize);
  model.write("x", values);
  for (const auto& [asked, from] : std::vector<std::pair<uint32_t, uint32_t>>{
           {3, 2}, {0, 1}, {1, 4}, {5, 0}, {77, 3}, {4, 99}}) {
    const Bytes numbers = bytes_of({asked, from});
    model.write("wanted", numbers.data(), numbers.size());
    ASSERT_TRUE(model.execute());
    const uint32_t happens = std::min(asked, 5U), begins = std::min(from, 4U);
    const std::vector<float> got = floats(model.read("y"));
    for (size_t i = 0; i < got.size(); ++i) {
      float expected = 0;
      for (uint32_t b = 0; b < happens; ++b) expected += values[(begins + b) * 32 * kSize + i];
      ASSERT_EQ(got[i], expected) << asked << " from " << from << ", " << i;
    }
    EXPECT_EQ(model.read("rounds"), bytes_of({happens}));
  }
}

TEST(BuilderFlow, TakesOneOfTwoBranches) {
  Program program("branch");
  const Buffer x = program.input("x", kF32, {32, 8});
  const Buffer chosen = program.input("chosen", kU32, {1});
  const Buffer y = program.output("y", kF32, {32, 8});
  const Tile word = program.sbuf("word", 1, 1, kU32);
  const Tile tile = program.sbuf("tile", 32, 8, kF32);
  program.dma(Engine::kSp, word.all(), chosen.broadcast(1));
  program.dma(Engine::kSp, tile.all(), x.all());
  ControlFlow control = program.control();
  const Index choice = control.number("choice", 100);
  control.load(choice, word.all());
  control.when(
      choice, Compare::kLess, 10,
      [&] {
        program.tensor_scalar(Engine::kDve, tile.all(), tile.all(), NEURON_ALU_MUL, 2.0F);
        control.when(choice, Compare::kEqual, 3, [&] {
          program.activate(tile.all(), NEURON_ACT_COPY, tile.all(), {.scale = 5.0F});
        });
      },
      [&] { program.tensor_scalar(Engine::kPool, tile.all(), tile.all(), NEURON_ALU_ADD, 1.0F); });
  program.dma(Engine::kPool, y.all(), tile.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  const std::vector<float> values = counting(256);
  model.write("x", values);
  for (uint32_t choice_now : {0U, 3U, 9U, 10U, 99U}) {
    ASSERT_TRUE(execute_with(model, "chosen", choice_now));
    const std::vector<float> got = floats(model.read("y"));
    for (size_t i = 0; i < got.size(); ++i) {
      const float expected = choice_now == 3   ? values[i] * 10
                             : choice_now < 10 ? values[i] * 2
                                               : values[i] + 1;
      ASSERT_EQ(got[i], expected) << choice_now << ", " << i;
    }
  }
}

// A function with prepared transfers, called from loops of both kinds, branches and a function.
TEST(BuilderFlow, CallsFunctionsThatMoveData) {
  Program program("functions");
  const Buffer step = program.input("step", kF32, {32, 8});
  const Buffer calls = program.input("calls", kU32, {1});
  const Buffer y = program.output("y", kF32, {32, 8});
  const Tile sum = program.sbuf("sum", 32, 8, kF32);
  const Tile part = program.sbuf("part", 32, 8, kF32);
  const Tile word = program.sbuf("word", 1, 1, kU32);
  ControlFlow control = program.control();
  const Function add = control.function("add", [&] {
    program.dma(Engine::kSp, part.all(), step.all());
    program.tensor_tensor(Engine::kDve, sum.all(), sum.all(), NEURON_ALU_ADD, part.all());
  });
  const Function twice = control.function("twice", [&] {
    program.tensor_scalar(Engine::kPool, sum.all(), sum.all(), NEURON_ALU_MUL, 2.0F);
    program.loop(2, [&] { control.call(add); });
  });
  program.memset(Engine::kDve, sum.all(), 0);
  program.dma(Engine::kSp, word.all(), calls.broadcast(1));
  const Index count = control.number("count", 7);
  control.load(count, word.all());
  control.loop(count, [&](Index round) {
    control.call(add);
    control.when(round, Compare::kEqual, 1, [&] { control.call(twice); });
  });
  control.call(twice);
  program.dma(Engine::kSp, y.all(), sum.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  const std::vector<float> values = counting(256);
  model.write("step", values);
  for (uint32_t wanted : {0U, 1U, 2U, 5U, 7U}) {
    ASSERT_TRUE(execute_with(model, "calls", wanted));
    float factor = 0;
    for (uint32_t round = 0; round < wanted; ++round) {
      factor += 1;
      if (round == 1) factor = factor * 2 + 2;
    }
    factor = factor * 2 + 2;
    const std::vector<float> got = floats(model.read("y"));
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], values[i] * factor) << wanted;
  }
}

// Accesses that would move in front of the memory in a second round, which never happens: what
// reads a tile still waits for what writes it, in the loop and behind it.
TEST(BuilderFlow, OrdersACountedLoopOfOneRoundThatMovesBackwards) {
  Program program("backwards");
  const Buffer rounds = program.input("rounds", kU32, {1});
  const Buffer y = program.output("y", kF32, {32, 512});
  const Tile first = program.tile_at(NEURON_SPACE_SBUF, "first", 0, 0, 32, 512, kF32);
  const Tile second = program.tile_at(NEURON_SPACE_SBUF, "second", 0, 4096, 32, 512, kF32);
  const Tile word = program.sbuf("word", 1, 1, kU32);
  program.dma(Engine::kSp, word.all(), rounds.broadcast(1));
  program.memset(Engine::kPool, first.all(), std::bit_cast<uint32_t>(1.0F));
  program.memset(Engine::kPool, second.all(), std::bit_cast<uint32_t>(2.0F));
  ControlFlow control = program.control();
  const Index count = control.number("count", 1);
  control.load(count, word.all());
  control.loop(count, [&](Index round) {
    const auto back = [&](const Tile& tile) { return tile.all().advancing(-512, round); };
    program.tensor_scalar(Engine::kPool, back(first), first.all(), NEURON_ALU_ADD, 10.0F);
    program.tensor_scalar(Engine::kDve, second.all(), back(first), NEURON_ALU_MUL, 3.0F);
    program.activate(back(first), NEURON_ACT_COPY, second.all());
  });
  program.dma(Engine::kSp, y.all(), first.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  for (uint32_t happens : {0U, 1U}) {
    ASSERT_TRUE(execute_with(model, "rounds", happens));
    EXPECT_EQ(floats(model.read("y")), std::vector<float>(32 * 512, happens ? 33.0F : 1.0F));
  }
}

// Seven functions inside of each other, and eight loops across two of them: what engines keep.
TEST(BuilderFlow, NestsCallsAndLoopsAsDeepAsEnginesKeep) {
  Program program("deep");
  const Buffer y = program.output("y", kF32, {32, 8});
  const Tile sum = program.sbuf("sum", 32, 8, kF32);
  ControlFlow control = program.control();
  const std::function<void(uint32_t, const std::function<void()>&)> nest =
      [&](uint32_t loops, const std::function<void()>& body) {
        if (loops == 0) return body();
        program.loop(2, [&] { nest(loops - 1, body); });
      };
  Function last = control.function("f1", [&] {
    nest(4,
         [&] { program.tensor_scalar(Engine::kDve, sum.all(), sum.all(), NEURON_ALU_ADD, 1.0F); });
  });
  for (uint32_t i = 2; i <= 7; ++i) {
    last = control.function("f" + std::to_string(i),
                            [&] { nest(i == 5 ? 2 : 0, [&] { control.call(last); }); });
  }
  program.memset(Engine::kDve, sum.all(), 0);
  nest(2, [&] { control.call(last); });
  program.dma(Engine::kSp, y.all(), sum.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  ASSERT_TRUE(model.execute());
  EXPECT_EQ(floats(model.read("y")), std::vector<float>(256, 256.0F));
}

// The innermost loop is one more index where it holds other blocks.
TEST(BuilderFlow, RefusesAnAccessThatMovesWithMoreIndexesThanItKeeps) {
  Program program("much");
  const Buffer x = program.input("x", kF32, {64, 8});
  const Tile tile = program.sbuf("tile", 2, 8, kF32);
  ControlFlow control = program.control();
  control.loop(2, [&](Index a) {
    control.loop(2, [&](Index b) {
      control.loop(2, [&](Index c) {
        program.loop(2, [&] {
          program.dma(Engine::kSp, tile.all(),
                      x.block(0, 2, 0, 8)
                          .advancing(16)
                          .advancing(32, a)
                          .advancing(64, b)
                          .advancing(128, c));
          program.loop(2, [&] { program.memset(Engine::kDve, tile.all(), 0); });
        });
      });
    });
  });
  const auto neff = program.build();
  ASSERT_FALSE(neff);
  EXPECT_THAT(neff.error().sentence, ::testing::HasSubstr("moves with more than 3 indexes"));
}

// Weights are moved in the first execution, and are still there in later ones.
TEST(BuilderFlow, KeepsWeightsBetweenExecutions) {
  Program program("resident");
  const Buffer x = program.input("x", kF32, {32, 8});
  const Buffer y = program.output("y", kF32, {32, 8});
  const std::vector<float> numbers = counting(256);
  Bytes contents(1024);
  std::memcpy(contents.data(), numbers.data(), contents.size());
  const Buffer w = program.constant("w", kF32, {32, 8}, contents);
  const Tile weights = program.sbuf("weights", 32, 8, kF32);
  const Tile tile = program.sbuf("tile", 32, 8, kF32);
  program.control().once([&] { program.dma(Engine::kSp, weights.all(), w.all()); });
  program.dma(Engine::kSp, tile.all(), x.all());
  program.tensor_tensor(Engine::kDve, tile.all(), tile.all(), NEURON_ALU_ADD, weights.all());
  program.dma(Engine::kSp, y.all(), tile.all());
  const auto neff = program.build();
  Program filler("filler");
  const Tile others = filler.sbuf("others", 32, 8, kF32);
  filler.memset(Engine::kDve, others.all(), 0x7F);
  filler.dma(Engine::kSp, filler.output("y", kF32, {32, 8}).all(), others.all());
  DeviceModel model(neff), other(filler.build());
  ASSERT_TRUE(model.usable() && other.usable());
  std::vector<uint64_t> times;
  for (float offset : {0.0F, 1000.0F, 2000.0F}) {
    std::vector<float> values(256, offset);
    model.write("x", values);
    ASSERT_TRUE(model.execute());
    times.push_back(model.device_ps());
    const std::vector<float> got = floats(model.read("y"));
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], numbers[i] + offset) << i;
  }
  EXPECT_LT(times[2] + 1'000'000, times[0]) << "the transfer takes more than a microsecond";
  EXPECT_EQ(times[1], times[2]);
  // Another model on the core takes its memory; then the weights are moved again.
  ASSERT_TRUE(other.execute());
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = floats(model.read("y"));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], numbers[i] + 2000.0F) << i;
}

// Each loop has semaphores of its own; 224 would be enough for some forty.
TEST(BuilderFlow, UsesSemaphoresAgainWhereThereAreMoreLoopsThanSemaphores) {
  constexpr uint32_t kLoops = 300;
  Program program("loops");
  const Buffer y = program.output("y", kF32, {32, 8});
  const Tile a = program.sbuf("a", 32, 8, kF32), b = program.sbuf("b", 32, 8, kF32);
  program.memset(Engine::kPool, a.all(), 0);
  for (uint32_t i = 0; i < kLoops; ++i) {
    program.loop(2, [&] {
      program.tensor_scalar(Engine::kDve, b.all(), a.all(), NEURON_ALU_ADD, 1.0F);
      program.activate(a.all(), NEURON_ACT_COPY, b.all());
    });
  }
  program.dma(Engine::kSp, y.all(), a.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  ASSERT_TRUE(model.execute());
  EXPECT_EQ(floats(model.read("y")), std::vector<float>(256, 2.0F * kLoops));
}

TEST(BuilderFlow, OrdersMemoryAtChosenPlaces) {
  Program program("places");
  const Buffer x = program.input("x", kF32, {64, 8});
  const Buffer y = program.output("y", kF32, {64, 8});
  const Buffer all = program.scratch("all", kF32, {64, 8}, 4096);
  const Buffer half = program.scratch("half", kF32, {32, 8}, 4096 + 1024);
  const Tile tile = program.tile_at(NEURON_SPACE_SBUF, "tile", 32, 0x800, 32, 8, kF32);
  program.dma(Engine::kSp, all.all(), x.all());
  // The second half of `all`.
  program.dma(Engine::kActivation, tile.all(), half.all());
  program.tensor_scalar(Engine::kDve, tile.all(), tile.all(), NEURON_ALU_MUL, 3.0F);
  program.dma(Engine::kPool, half.all(), tile.all());
  program.dma(Engine::kSp, y.all(), all.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  const std::vector<float> values = counting(512);
  model.write("x", values);
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = floats(model.read("y"));
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], values[i] * (i < 256 ? 1 : 3)) << i;
}

TEST(BuilderFlow, LoadsATableOfFunctions) {
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  // Function 128: 0 below 1, 2 t + 3 with t = x - 1 from there on.
  const std::vector<uint32_t> words = {NEURON_TABLE_MAGIC,
                                       NEURON_TABLE_VERSION,
                                       1,
                                       2,
                                       128,
                                       0,
                                       2,
                                       bits(-100.0F),
                                       bits(100.0F),
                                       bits(kLowest),
                                       bits(0),
                                       bits(0),
                                       bits(0),
                                       bits(0),
                                       bits(0),
                                       bits(1),
                                       bits(1),
                                       bits(3),
                                       bits(2),
                                       bits(0),
                                       bits(0)};
  Program program("table");
  const Buffer x = program.input("x", kF32, {32, 8});
  const Buffer y = program.output("y", kF32, {32, 8});
  const Buffer table = program.constant("table", kU32, {words.size()}, bytes_of(words));
  const Tile tile = program.sbuf("tile", 32, 8, kF32);
  program.load_table(1, table);
  program.dma(Engine::kSp, tile.all(), x.all());
  program.activate(tile.all(), 128, tile.all(), {.table_set = 1});
  program.dma(Engine::kSp, y.all(), tile.all());
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  std::vector<float> values(256);
  for (size_t i = 0; i < values.size(); ++i) values[i] = (static_cast<float>(i) - 100) / 4;
  model.write("x", values);
  ASSERT_TRUE(model.execute());
  const std::vector<float> got = floats(model.read("y"));
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i], values[i] < 1 ? 0 : 2 * (values[i] - 1) + 3) << i;
  }
}

TEST(BuilderFlow, AsksForConstantsWhenTheFileIsWritten) {
  Program program("source");
  const Buffer y = program.output("y", kF32, {64, 512});
  uint64_t asked = 0;
  const Buffer c = program.streamed_constant(
      "c", kF32, {64, 512}, [&](std::span<uint8_t> to, uint64_t at) -> runtime::Result<void> {
        EXPECT_EQ(at, asked);
        asked += to.size();
        for (size_t i = 0; i + 4 <= to.size(); i += 4) {
          const auto value = static_cast<float>((at + i) / 4);
          std::memcpy(to.data() + i, &value, 4);
        }
        return {};
      });
  program.dma(Engine::kSp, y.all(), c.all());
  EXPECT_EQ(asked, 0U);
  DeviceModel model(program.build());
  ASSERT_TRUE(model.usable());
  EXPECT_EQ(asked, 64U * 512 * 4);
  ASSERT_TRUE(model.execute());
  EXPECT_EQ(floats(model.read("y")), counting(64 * 512));
}

}  // namespace
}  // namespace neuron::differential
