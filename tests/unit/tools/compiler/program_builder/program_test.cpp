// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "hw/address_map.h"
#include "runtime/neff/model_reader.h"
#include "tests/unit/tools/compiler/program_builder/program_reader.h"
#include "tests/unit/tools/compiler/program_builder/short_names.h"

namespace neuron::builder {
namespace {

using ::testing::HasSubstr;

TEST(Program, WritesTensorsVariablesQueuesAndTransfers) {
  Program program("copy");
  const Buffer x = program.input("x", kF32, {128, 64});
  const Buffer y = program.output("y", kF32, {128, 64});
  const Tile tile = program.sbuf("tile", 128, 64, kF32);
  program.dma(Engine::kSp, tile.all(), x.all());
  program.dma(Engine::kPool, y.all(), tile.all());
  const auto loaded = testing::load(program.build());
  ASSERT_EQ(loaded.model.inputs.size(), 1U);
  EXPECT_EQ(loaded.model.inputs[0].name, "x");
  EXPECT_EQ(loaded.model.inputs[0].size, 128U * 64 * 4);
  EXPECT_EQ(loaded.model.outputs[0].shape, (std::vector<uint32_t>{128, 64}));
  const auto& graph = loaded.graph();
  ASSERT_EQ(graph.queues.size(), 2U);
  EXPECT_EQ(graph.queues[0].name, "qPool_out");
  EXPECT_EQ(graph.queues[0].kind, neff::QueueKind::kOut);
  EXPECT_EQ(graph.queues[1].kind, neff::QueueKind::kIn);
  EXPECT_EQ(graph.queues[1].num_queues, 16U);
  const auto& transfer = graph.engines[NEURON_ENGINE_SP].dma.at(0);
  EXPECT_EQ(transfer.from[0].sizes, (std::array<uint64_t, 4>{256, 128, 1, 1}));
  EXPECT_EQ(transfer.to.steps[1], static_cast<int64_t>(NEURON_SBUF_PARTITION_STRIDE));
  EXPECT_EQ(graph.variables[transfer.to.variable].name, "sbuf");
  const auto& pool = loaded.code[NEURON_ENGINE_POOL];
  ASSERT_EQ(pool.size(), 3U);
  EXPECT_EQ(pool[0].wait[0].value, 16);
  EXPECT_EQ(pool[1].opcode, NEURON_OP_EVENT);
  EXPECT_EQ(pool[2].opcode, NEURON_OP_RET);
  EXPECT_EQ(graph.engines[NEURON_ENGINE_POOL].relocations.at(0).kind, NEURON_RELOC_DMA_BLOCK);
}

TEST(Program, KeepsConstantsAsTheyAre) {
  Program program("constant");
  const Buffer c = program.constant("weights", NEURON_DTYPE_BF16, {2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Tile tile = program.sbuf("tile", 2, 2, NEURON_DTYPE_BF16);
  program.dma(Engine::kSp, tile.all(), c.all());
  const auto neff = program.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  const auto container = neff::Container::open(*neff);
  ASSERT_TRUE(container);
  const auto model = neff::load_model(*container, {2, 1, false});
  ASSERT_TRUE(model) << model.error().sentence;
  const auto& variable = model->subgraphs[0].variables[0];
  EXPECT_EQ(variable.kind, neff::VariableKind::kFile);
  EXPECT_EQ(std::vector<uint8_t>(variable.contents.begin(), variable.contents.end()),
            (std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(Program, OfGeneration3HasItsStateBufferAndNamesItsDevice) {
  const auto build = [](uint8_t generation) {
    Program program("wide", generation);
    const Buffer y = program.output("y", kF32, {128, 55 * 1024});
    const Tile tile = program.sbuf("tile", 128, 55 * 1024, kF32);
    program.memset(Engine::kDve, tile.all(), 1);
    program.dma(Engine::kSp, y.all(), tile.all());
    return program.build();
  };
  const auto older = build(2);
  ASSERT_FALSE(older) << "220 KiB are more than a partition of generation 2 has";
  const auto neff = build(3);
  ASSERT_TRUE(neff) << neff.error().sentence;
  const auto container = neff::Container::open(*neff);
  ASSERT_TRUE(container);
  const auto model = neff::load_model(*container, {3, 1, false});
  ASSERT_TRUE(model) << model.error().sentence;
  EXPECT_EQ(model->target, "trn2");
  EXPECT_EQ(model->subgraphs[0].engines[NEURON_ENGINE_SP].generation, 3);
  EXPECT_FALSE(neff::load_model(*container, {2, 1, false})) << "too new for generation 2";
}

TEST(Program, GivesTheSameBytesForTheSameCalls) {
  const auto build = [] {
    Program program("same");
    const Buffer x = program.input("x", kF32, {128, 512});
    const Tile tile = program.sbuf("tile", 128, 512, kF32);
    const Tile sum = program.psum("sum", 128, 512);
    program.dma(Engine::kSp, tile.all(), x.all());
    program.matmul(sum.all(), tile.column_range(0, 128), tile.all());
    return *program.build();
  };
  EXPECT_EQ(build(), build());
}

TEST(Program, NamesSectionAndOperationInTheLineTable) {
  Program program("lines");
  const Tile tile = program.sbuf("tile", 32, 8, kF32);
  program.section("first");
  program.memset(Engine::kDve, tile.all(), 0);
  program.section("second");
  program.memset(Engine::kDve, tile.all(), 1);
  program.memset(Engine::kDve, tile.all(), 2);
  const auto loaded = testing::load(program.build());
  const auto& lines = loaded.graph().engines[NEURON_ENGINE_DVE].lines;
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[2].file, "lines/second");
  EXPECT_EQ(lines[2].line, 2U);
  EXPECT_EQ(loaded.code[NEURON_ENGINE_DVE][2].debug, lines[2].debug);
}

// Every misuse is one sentence with the place; what follows it changes nothing.
void expect_error(Program& program, const char* sentence) {
  const auto result = program.build();
  ASSERT_FALSE(result) << sentence;
  EXPECT_THAT(result.error().sentence, HasSubstr(sentence));
  EXPECT_THAT(result.error().sentence, HasSubstr("program \"bad\", section \"part\""));
}

struct Fixture {
  Program program{"bad"};
  Buffer x = program.input("x", kF32, {128, 64});
  Tile tile = program.sbuf("tile", 128, 64, kF32);
  Tile bank = program.psum("bank", 128, 64);
  Fixture() { program.section("part"); }
};

TEST(Program, RefusesATransferOfUnequalSizes) {
  Fixture f;
  f.program.dma(Engine::kSp, f.tile.column_range(0, 32), f.x.all());
  f.program.memset(Engine::kDve, f.tile.all(), 0);
  expect_error(f.program, "moves 32768 bytes to 16384 bytes");
}

TEST(Program, RefusesToWriteAnInput) {
  Fixture f;
  f.program.dma(Engine::kSp, f.x.all(), f.tile.all());
  expect_error(f.program, "writes to input \"x\"");
}

TEST(Program, RefusesATransferBeyondItsBuffer) {
  Fixture f;
  f.program.dma(Engine::kSp, f.tile.all(), f.x.block(1, 128, 0, 64));
  expect_error(f.program, "reaches bytes 256 to 33024 of buffer \"x\"");
}

TEST(Program, RefusesATransferToPsum) {
  Fixture f;
  f.program.dma(Engine::kSp, f.bank.all(), f.x.all());
  expect_error(f.program, "transfers reach SBUF only");
}

TEST(Program, RefusesAnAccessOutsideItsTile) {
  Fixture f;
  f.program.memset(Engine::kDve, f.tile.column_range(60, 5), 0);
  expect_error(f.program, "leaves its tile");
}

TEST(Program, RefusesABrokenOperandRuleWithTheInstruction) {
  Fixture f;
  f.program.memset(Engine::kDve, f.tile.row_range(8, 8), 0);
  expect_error(f.program, "rule R1 [OPERAND_PARTITION]; the instruction is memset sbuf[8:8, 0x0]");
}

TEST(Program, RefusesAMatmulOfShapesThatDoNotGoTogether) {
  Fixture f;
  f.program.matmul(f.bank.all(), f.tile.all(), f.tile.all());
  expect_error(f.program, "expected [K, M], [K, N] and [M, N]");
}

TEST(Program, RefusesATileThatDoesNotFit) {
  Fixture f;
  const Tile large = f.program.sbuf("large", 128, 60000, kF32);
  f.program.memset(Engine::kDve, large.all(), 0);
  expect_error(f.program, "SBUF tile \"large\": asked for 240000 bytes");
}

TEST(Program, RefusesTwoBuffersOfOneName) {
  Fixture f;
  f.program.output("x", kF32, {4});
  expect_error(f.program, "two buffers have the name \"x\"");
}

TEST(Program, RefusesABufferWithTheNameOfTheStateBuffer) {
  Program program("names");
  program.input("sbuf", kF32, {1});
  const auto neff = program.build();
  ASSERT_FALSE(neff);
  EXPECT_THAT(neff.error().sentence, HasSubstr("other than \"sbuf\""));
}

TEST(Program, RefusesATrueSizeOfWhatIsNoOutput) {
  Fixture f;
  f.program.true_size(f.program.temporary("t", kF32, {4}),
                      f.program.temporary("counter", NEURON_DTYPE_U32, {1}));
  expect_error(f.program, "buffer \"t\" is to tell its true size, but is no output");
}

TEST(Program, RefusesATrueSizeThatIsCountedInNoTemporaryOf32Bits) {
  for (const uint8_t type : {NEURON_DTYPE_F32, NEURON_DTYPE_U16}) {
    Fixture f;
    f.program.true_size(f.program.output("counted", kF32, {4}),
                        f.program.temporary("n", type, {1}));
    expect_error(f.program,
                 "the true size of output \"counted\" is counted in buffer \"n\" of type ");
  }
}

TEST(Program, RefusesAConstantOfTheWrongSize) {
  Fixture f;
  f.program.constant("c", kF32, {4}, {1, 2, 3});
  expect_error(f.program, "constant \"c\" has 3 bytes, its shape asks for 16");
}

TEST(Program, UsesReleasedMemoryAgainInOrder) {
  Program program("reuse");
  const Tile a = program.sbuf("a", 128, 40000, kF32);
  program.memset(Engine::kPool, a.all(), 0);
  program.release(a);
  const Tile b = program.sbuf("b", 128, 40000, kF32);
  EXPECT_EQ(a.base, b.base);
  program.memset(Engine::kDve, b.all(), 0);
  const auto loaded = testing::load(program.build());
  EXPECT_EQ(loaded.code[NEURON_ENGINE_DVE][0].wait[0].condition, NEURON_WAIT_GE);
}

TEST(TileAccess, NamesPartsOfATileWithoutCopying) {
  Program program("views");
  const Tile tile = program.sbuf("tile", 64, 24, kF32);
  const TileAccess every = tile.strided(1, 8, 3);
  EXPECT_EQ(every.elements(), 8U);
  EXPECT_EQ(every.end_byte(), tile.base + 4U * 23);
  EXPECT_TRUE(every.inside);
  EXPECT_FALSE(tile.strided(3, 8, 3).inside);
  const TileAccess back = tile.strided(23, 24, -1);
  EXPECT_EQ(back.first_byte(), tile.base);
  EXPECT_TRUE(back.inside);
  EXPECT_FALSE(tile.strided(22, 24, -1).inside);
  const TileAccess rows = tile.all().split(4);  // [4, 6]
  EXPECT_EQ(rows.size[0], 6U);
  const TileAccess turned = rows.reordered({1, 0});
  EXPECT_EQ(turned.size[0], 4U);
  EXPECT_EQ(turned.step[0], 6);
  EXPECT_FALSE(rows.reordered({1, 1}).inside);
  EXPECT_FALSE(rows.reordered({1}).inside);
  const TileAccess repeated = rows.repeated(5), stretched = rows.stretched(5);
  EXPECT_EQ(repeated.step[2], 0);
  EXPECT_EQ(stretched.step[0], 0);
  EXPECT_EQ(stretched.step[2], 6);
  EXPECT_EQ(repeated.elements(), 120U);
  EXPECT_EQ(tile.as(NEURON_DTYPE_BF16).columns, 48U);
}

TEST(Program, LetsBlocksOfColumnsOfOneMatrixMoveAtTheSameTime) {
  Program program("columns");
  const Buffer y = program.output("y", kF32, {128, 64});
  const Tile tile = program.sbuf("tile", 128, 64, kF32);
  program.memset(Engine::kPool, tile.all(), 0);
  program.dma(Engine::kSp, y.block(0, 128, 0, 32), tile.column_range(0, 32));
  program.dma(Engine::kSp, y.block(0, 128, 32, 32), tile.column_range(32, 32));
  program.dma(Engine::kSp, y.block(0, 128, 16, 32), tile.column_range(16, 32));
  const auto loaded = testing::load(program.build());
  const auto& sp = loaded.code[NEURON_ENGINE_SP];
  EXPECT_EQ(sp[0].wait[0].condition, NEURON_WAIT_GE);
  EXPECT_EQ(sp[1].wait[0].condition, NEURON_WAIT_NONE);
  // The third overlaps both.
  EXPECT_EQ(sp[2].wait[0].condition, NEURON_WAIT_GE);
  EXPECT_EQ(sp[2].wait[1].condition, NEURON_WAIT_GE);
}

TEST(Program, WritesALoopOnceWithRegistersForWaitsAndOperands) {
  Program program("loop");
  const Buffer x = program.input("x", kF32, {320, 8});
  const Tile tile = program.sbuf("tile", 32, 8, kF32);
  const Tile all = program.sbuf("all", 32, 80, kF32);
  program.loop(10, [&] {
    program.dma(Engine::kSp, tile.all(), x.rows_of_round(0, 32, 32));
    program.tensor_copy(Engine::kDve, all.column_range(0, 8).advancing(8), tile.all());
  });
  const auto loaded = testing::load(program.build());
  const auto& dve = loaded.code[NEURON_ENGINE_DVE];
  // Two registers, the loop, its body, both registers' steps, the end.
  ASSERT_EQ(dve.size(), 7U);
  EXPECT_EQ(dve[2].opcode, NEURON_OP_LOOP);
  EXPECT_EQ(dve[2].loop.length, 3U);
  EXPECT_EQ(dve[2].scalar1.value, 10U);
  EXPECT_TRUE(dve[3].wait[0].is_register);
  EXPECT_EQ(dve[3].bind[0].mode, NEURON_BIND_ADD);
  const auto& transfers = loaded.graph().engines[NEURON_ENGINE_SP].dma;
  ASSERT_EQ(transfers.size(), 10U);
  EXPECT_EQ(transfers[9].from[0].offset, 9U * 32 * 8 * 4);
  EXPECT_EQ(transfers[9].id, transfers[0].id);
}

TEST(Program, RefusesAnOperandThatLeavesItsPartitionInTheLastRound) {
  Fixture f;
  f.program.loop(
      1000, [&] { f.program.memset(Engine::kDve, f.tile.column_range(0, 64).advancing(64), 0); });
  expect_error(f.program, "OPERAND_RANGE");
}

TEST(Program, RefusesATransferThatLeavesItsBufferInTheLastRound) {
  Fixture f;
  f.program.loop(2,
                 [&] { f.program.dma(Engine::kSp, f.tile.all(), f.x.rows_of_round(0, 128, 1)); });
  expect_error(f.program, "of buffer \"x\", which has 32768");
}

// A prepared transfer, generated ones and the tiles of indirect ones, each with what moves it.
TEST(Program, RefusesATransferThatLeavesItsPartition) {
  constexpr const char* kSentence = "of a partition of SBUF, which has 196608";
  const auto in_loop = [](const std::function<void(Fixture&, const Buffer&)>& move,
                          const char* sentence) {
    Fixture f;
    const Buffer memory = f.program.temporary("memory", kF32, {128, 64});
    f.program.loop(10000, [&] { move(f, memory); });
    expect_error(f.program, sentence);
  };
  const auto far = [](Fixture& f, int64_t elements) {
    return f.tile.column_range(0, 8).advancing(elements);
  };
  for (int64_t elements : {8, -8}) {
    in_loop(
        [&](Fixture& f, const Buffer& memory) {
          f.program.dma(Engine::kSp, far(f, elements), memory.block(0, 128, 0, 8));
        },
        kSentence);
    in_loop(
        [&](Fixture& f, const Buffer& memory) {
          f.program.dma_generate(memory.block(0, 128, 0, 8), far(f, elements));
        },
        kSentence);
    in_loop(
        [&](Fixture& f, const Buffer& memory) {
          const Tile index = f.program.sbuf("index", 128, 1, NEURON_DTYPE_U32);
          f.program.dma_gather(f.tile.all().advancing(elements), memory, index.all());
        },
        elements > 0 ? "OPERAND_RANGE" : "which an instruction cannot name");
    in_loop(
        [&](Fixture& f, const Buffer& memory) {
          const Tile index = f.program.sbuf("index", 128, 1, NEURON_DTYPE_U32);
          f.program.dma_scatter(memory, index.all().advancing(elements), f.tile.all());
        },
        elements > 0 ? "OPERAND_RANGE" : "which an instruction cannot name");
  }
  Fixture f;
  ControlFlow control = f.program.control();
  const Index n = control.number("n", 10000);
  control.set(n, 0);
  f.program.dma_generate(f.tile.column_range(0, 8).advancing(8, n),
                         f.program.temporary("memory", kF32, {128, 8}).all());
  expect_error(f.program, kSentence);
}

// Distances whose lowest 32 bits are small.
TEST(Program, RefusesDistancesBeyond32Bits) {
  constexpr int64_t kFar = int64_t{1} << 30;  // Elements of 4 bytes
  for (int64_t elements : {kFar, -kFar, int64_t{1} << 60}) {
    Fixture f;
    f.program.loop(2, [&] {
      f.program.memset(Engine::kDve, f.tile.column_range(0, 8).advancing(elements), 0);
    });
    expect_error(f.program, "which an instruction cannot name");
    Fixture scalar;
    scalar.program.loop(2, [&] {
      scalar.program.tensor_scalar(Engine::kDve, scalar.tile.all(), scalar.tile.all(),
                                   NEURON_ALU_ADD,
                                   scalar.tile.column_range(0, 1).advancing(elements));
    });
    expect_error(scalar.program, "which an instruction cannot name");
    Fixture transfer;
    transfer.program.loop(2, [&] {
      transfer.program.dma(Engine::kSp, transfer.tile.column_range(0, 8).advancing(elements),
                           transfer.x.block(0, 128, 0, 8));
    });
    expect_error(transfer.program, "of a partition of SBUF");
    Fixture buffer;
    buffer.program.loop(2, [&] {
      buffer.program.dma(Engine::kSp, buffer.tile.all(), buffer.x.all().advancing(elements * 4));
    });
    expect_error(buffer.program, "of buffer \"x\", which has 32768");
  }
}

// The memory is large enough; registers are not.
TEST(Program, RefusesGeneratedTransfersThatRegistersCannotMove) {
  constexpr uint64_t kRows = uint64_t{6} << 20, kColumns = 1024;  // 24 GiB
  const auto generate = [](const std::function<BufferAccess(const BufferAccess&)>& moved,
                           const char* sentence) {
    Fixture f;
    const Buffer large = f.program.temporary("large", kF32, {kRows, kColumns});
    f.program.loop(
        2, [&] { f.program.dma_generate(f.tile.at(0, 2, 0, 8), moved(large.block(0, 2, 0, 8))); });
    if (sentence != nullptr) return expect_error(f.program, sentence);
    EXPECT_TRUE(f.program.ok());
  };
  constexpr int64_t kMost = int64_t{UINT32_MAX} - 3;
  generate([](const BufferAccess& access) { return access.advancing(kMost); }, nullptr);
  generate([](const BufferAccess& access) { return access.advancing(kMost + 4); },
           "moves by up to 4294967296 bytes");
  generate(
      [](BufferAccess access) {
        access.offset += 2 * static_cast<uint64_t>(kMost);
        return access.advancing(-(kMost + 4));
      },
      "moves by up to 4294967296 bytes");
  generate(
      [](BufferAccess access) {
        access.step[1] = int64_t{1} << 31;
        return access;
      },
      "elements more than 2147483647 bytes apart");
}

TEST(Program, RefusesRowsOfAnIndirectTransferBeyond32Bits) {
  Fixture f;
  const Buffer large = f.program.temporary("large", kF32, {uint64_t{1} << 33, 64});
  const Tile index = f.program.sbuf("index", 128, 1, NEURON_DTYPE_U32);
  f.program.dma_gather(f.tile.all(), large, index.all());
  expect_error(f.program, "names a buffer of 8589934592 rows of 256 bytes");
}

// A pair of registers each, loaded once; a name that a buffer has already is left to it.
TEST(Program, ReadsTheAddressesOfInputsAndOutputsThatGeneratedTransfersName) {
  Program program("ports");
  const Buffer x = program.input("x", kF32, {32, 8});
  const Buffer y = program.output("y", kF32, {32, 8});
  program.temporary("x.address", kF32, {1, 1});
  program.dma_generate(y.all(), x.all());
  program.dma_generate(y.all(), x.all());
  const auto loaded = testing::load(program.build());
  std::vector<std::string> pointers;
  for (const neff::Variable& variable : loaded.graph().variables) {
    if (variable.kind != neff::VariableKind::kPointer) continue;
    pointers.push_back(variable.name + " to " + loaded.graph().variables[variable.referenced].name);
  }
  EXPECT_THAT(pointers, ::testing::UnorderedElementsAre("x.address_ to x", "y.address to y"));
  const auto& code = loaded.code[NEURON_ENGINE_POOL];
  unsigned loads = 0;
  for (const isa::Instruction& i : code) {
    loads += i.opcode == NEURON_OP_LOAD ? 1 : 0;
    if (i.opcode != NEURON_OP_DMA_GENERATE) continue;
    EXPECT_EQ(i.bind[0].mode, NEURON_BIND_ADD_PAIR);
    EXPECT_EQ(i.bind[1].mode, NEURON_BIND_ADD_PAIR);
    EXPECT_EQ(i.bind[0].reg % 2 + i.bind[1].reg % 2, 0);
  }
  EXPECT_EQ(loads, 4u);
}

TEST(Program, RefusesMoreAddressesOfTensorsThanThereAreRegisters) {
  Fixture f;
  for (unsigned n = 0; n < 30; ++n) {
    f.program.dma_generate(f.tile.all(),
                           f.program.input("x" + std::to_string(n), kF32, {128, 64}).all());
  }
  const auto result = f.program.build();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().sentence,
              HasSubstr("Pool needs registers for 0 numbers and for the addresses of 30 inputs and "
                        "outputs, more than there are"));
}

TEST(Program, WritesWhichTensorEachDebugIdStandsFor) {
  Program program("names");
  const Buffer y = program.output("y", kF32, {32, 8});
  const Tile tile = program.sbuf("accumulated gradient", 32, 8, kF32);
  program.memset(Engine::kDve, tile.all(), 0);
  program.memset(Engine::kDve, tile.all(), 1);
  program.dma(Engine::kSp, y.all(), tile.all());
  const auto neff = program.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  const auto container = neff::Container::open(*neff);
  ASSERT_TRUE(container);
  const neff::Member* member = container->find("sg00/kernel_debug_info.json");
  ASSERT_NE(member, nullptr);
  const std::string text(member->bytes.begin(), member->bytes.end());
  EXPECT_THAT(text, HasSubstr("\"files\":[\"names/main\"]"));
  EXPECT_THAT(text,
              HasSubstr("{\"debug\":[1,2],\"name\":\"accumulated gradient\",\"shape\":[32,8]}"));
  EXPECT_THAT(text, HasSubstr("{\"debug\":[3,3],\"name\":\"y\",\"shape\":[32,8]}"));
}

}  // namespace
}  // namespace neuron::builder
