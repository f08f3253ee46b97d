// SPDX-License-Identifier: Apache-2.0
// Programs of generations 3 and 4: what the builder writes for the instructions that they add, and
// where the waits of instructions go at which two cores meet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "runtime/neff/model_reader.h"
#include "tests/unit/tools/compiler/program_builder/program_reader.h"
#include "tests/unit/tools/compiler/program_builder/short_names.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::builder {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> texts(Program& program, unsigned engine) {
  std::vector<std::string> lines;
  for (const Step& step : program.parts().schedule.steps()[engine]) {
    lines.push_back(isa::disassemble(step.instruction, static_cast<int>(engine)));
  }
  return lines;
}
std::string error_of(Program& program) {
  const auto built = program.build();
  return built ? "" : built.error().sentence;
}

TEST(LaterGenerations, WriteEachInstructionOfGeneration3) {
  Program p("third", 3);
  const Tile x = p.sbuf("x", 128, 64, kF32), y = p.sbuf("y", 128, 64, kF32);
  const Tile mask = p.sbuf("mask", 128, 64, kU8), bounds = p.sbuf("bounds", 128, 2, kF32);
  const Tile states = p.sbuf("states", 128, 6, NEURON_DTYPE_U32);
  const Tile found = p.sbuf("found", 128, 65, NEURON_DTYPE_I32);
  p.select_reduce(y.all(), x.all(), mask.all(), -1.0F, true, NEURON_REDUCE_RESET_ACCUMULATE);
  p.range_select(y.all(), x.all(), NEURON_ALU_GE, bounds.column_range(0, 1), NEURON_ALU_LT,
                 bounds.column_range(1, 1), 128);
  p.nonzero_with_count(found.all(), x.all(), 7);
  p.set_random_state(Engine::kPool, states.all());
  p.get_random_state(Engine::kPool, states.all());
  ASSERT_TRUE(p.ok()) << error_of(p);
  const auto dve = texts(p, NEURON_ENGINE_DVE), pool = texts(p, NEURON_ENGINE_POOL);
  ASSERT_EQ(dve.size(), 2U);
  EXPECT_THAT(dve[0], HasSubstr("s0=-1, invert, reduce=max, reset_reduce"));
  EXPECT_THAT(dve[1], HasSubstr("start=128, op0=ge, s0=&sbuf[0, "));
  ASSERT_EQ(pool.size(), 3U);
  EXPECT_THAT(pool[0], HasSubstr("offset=0x7 i32, padding=-1"));
  EXPECT_THAT(pool[1], HasSubstr("rand_set_state sbuf[0:128, "));
  EXPECT_TRUE(p.build());
}

// Operations of 64-bit integers, from memory and back; the builder places their tiles at multiples
// of 64 bytes.
void add_integers64(Program& p) {
  constexpr uint8_t kI64 = NEURON_DTYPE_I64;
  const Buffer x = p.input("x", kI64, {128, 64}), y = p.output("y", kI64, {128, 64});
  const Tile a = p.sbuf("a", 128, 64, kI64), b = p.sbuf("b", 128, 64, kI64);
  const Tile total = p.sbuf("total", 128, 1, kI64), small = p.sbuf("small", 128, 64, kF32);
  p.dma(Engine::kSp, a.all(), x.all());
  p.iota(b.all(), {.size = {64}, .step = {1}, .offset = -5, .of_partition = 64});
  p.tensor_tensor(Engine::kPool, b.all(), a.all(), NEURON_ALU_MUL, b.all());
  p.tensor_scalar(Engine::kPool, b.all(), b.all(), NEURON_ALU_SUB, reversed(7), NEURON_ALU_ADD, -2);
  p.tensor_scalar_bits(Engine::kPool, b.all(), b.all(), NEURON_ALU_AND, 0xFF);
  p.tensor_reduce(total.all(), NEURON_ALU_ADD, b.all());
  p.tensor_scalar(Engine::kPool, b.all(), b.all(), NEURON_ALU_MAX, total.all());
  p.affine_select(b.all(), b.all(), {.size = {64}, .step = {1}}, NEURON_ALU_GE, 3.0F);
  p.tensor_copy(Engine::kPool, small.all(), b.all());
  p.dma(Engine::kSp, y.all(), b.all());
}

TEST(LaterGenerations, WriteInstructionsOn64BitIntegersForPool) {
  Program p("integers", 3);
  add_integers64(p);
  ASSERT_TRUE(p.ok()) << error_of(p);
  EXPECT_EQ(texts(p, NEURON_ENGINE_DVE), std::vector<std::string>{});
  const auto pool = texts(p, NEURON_ENGINE_POOL);
  ASSERT_EQ(pool.size(), 8U);
  EXPECT_THAT(pool[0], HasSubstr("i64 [64], p0=64:1, offset=0xFFFFFFFB i32, channel=64"));
  EXPECT_THAT(pool[2], HasSubstr("op0=sub, s0=0x7 i32, rev0, op1=add, s1=0xFFFFFFFE i32"));
  EXPECT_THAT(pool[4], HasSubstr("tensor_reduce sbuf[0:128, "));
  EXPECT_THAT(pool[5], HasSubstr("] i64"));
  EXPECT_THAT(pool[6], HasSubstr("s0=0x3 i32"));
  EXPECT_TRUE(p.build());
}

TEST(LaterGenerations, RefuseThe64BitIntegersThatAreNotPossible) {
  Program second("second", 2);
  add_integers64(second);
  EXPECT_THAT(error_of(second),
              HasSubstr("only Pool computes on i64 and u64, from generation 3 on"));
  Program wrong("wrong", 3);
  const Tile a = wrong.sbuf("a", 128, 64, NEURON_DTYPE_U64);
  wrong.tensor_scalar(Engine::kPool, a.all(), a.all(), NEURON_ALU_ADD, 0.5F);
  EXPECT_THAT(error_of(wrong), HasSubstr("the scalar 0.5 of 64-bit integers is no integer of 32 "
                                         "bits; put other ones into a tile"));
  Program vector("vector", 4);
  const Tile b = vector.sbuf("b", 128, 64, NEURON_DTYPE_U64);
  vector.memset(Engine::kDve, b.all(), 0);
  EXPECT_THAT(error_of(vector), HasSubstr("only Pool computes on i64 and u64"));
}

TEST(LaterGenerations, GiveTransfersOfAClassOfServiceAQueueOfTheirOwn) {
  const auto build = [](uint8_t generation) {
    Program p("classes", generation);
    const Buffer x = p.input("x", kF32, {128, 64}), rows = p.temporary("rows", kF32, {128, 64});
    const Tile tile = p.sbuf("tile", 128, 64, kF32), late = p.sbuf("late", 128, 64, kF32);
    const Tile index = p.sbuf("index", 128, 1, NEURON_DTYPE_U32);
    p.dma(Engine::kSp, tile.all(), x.all());
    p.dma_compute(Engine::kSp, late.all(), {x.all()},
                  {.operation = NEURON_DMA_COPY, .priority = 3});
    p.memset(Engine::kDve, index.all(), 0);
    p.dma(Engine::kSp, rows.all(), tile.all());
    p.dma_gather(tile.all(), rows, index.all(), {.priority = 2});
    p.dma_generate(rows.all(), late.all(), NEURON_DMA_COPY, 0, 1);
    return p.build();
  };
  const auto neff = build(4);
  ASSERT_TRUE(neff) << neff.error().sentence;
  const auto container = neff::Container::open(*neff);
  ASSERT_TRUE(container);
  const auto model = neff::load_model(*container, {4, 1, false});
  ASSERT_TRUE(model) << model.error().sentence;
  const neff::Subgraph& graph = model->subgraphs[0];
  const auto& transfers = graph.engines[NEURON_ENGINE_SP].dma;
  ASSERT_EQ(transfers.size(), 3U);
  EXPECT_EQ(transfers[0].priority, 0);
  EXPECT_EQ(graph.queues[transfers[0].queue].name, "qSP_in");
  EXPECT_EQ(transfers[1].priority, 3);
  EXPECT_EQ(graph.queues[transfers[1].queue].name, "qSP_in_priority3");
  std::vector<int> priorities;
  const auto& code = graph.engines[NEURON_ENGINE_POOL].code;
  for (size_t at = 0; at < code.size(); at += NEURON_INSTRUCTION_BYTES) {
    const isa::Instruction i = isa::decode(
        isa::Bytes(reinterpret_cast<const std::byte*>(code.data()) + at, NEURON_INSTRUCTION_BYTES));
    if (i.group() == 6 && i.opcode != NEURON_OP_DMA_TRIGGER) priorities.push_back(i.dma.priority);
  }
  EXPECT_EQ(priorities, (std::vector<int>{2, 1}));
  const auto older = build(3);
  ASSERT_FALSE(older);
  EXPECT_THAT(older.error().sentence, HasSubstr("generation 4 has 0 to 3, and others have none"));
}

TEST(LaterGenerations, WriteProductsOfF8AndOfBlockScaledMatrices) {
  Program p("products", 4);
  const Tile w = p.sbuf("w", 128, 256, NEURON_DTYPE_F8E4);
  const Tile x = p.sbuf("x", 128, 1024, NEURON_DTYPE_F8E4);
  const Tile sum = p.psum("sum", 128, 512);
  p.matmul(sum.all(), w.all().split(2), x.all().split(2), false, {.double_row = true});
  const Tile a = p.sbuf("a", 128, 512, kBf16);
  const Tile codes = p.sbuf("codes", 128, 128, NEURON_DTYPE_F8E4FNX4);
  const Tile scales = p.sbuf("scales", 128, 128, kU8);
  const ScaledAccess scaled{codes.all(), scales.all(), 2};
  p.quantize_mx(scaled, a.all());
  const Tile product = p.psum("product", 128, 128, kBf16);
  p.matmul_mx(product.all(), scaled, scaled);
  ASSERT_TRUE(p.ok()) << error_of(p);
  const auto pe = texts(p, NEURON_ENGINE_PE);
  ASSERT_EQ(pe.size(), 4U);
  EXPECT_THAT(pe[0], HasSubstr("f8e4 [2, 128], mode=1"));
  EXPECT_THAT(pe[1], HasSubstr("f8e4 [2, 512], new, swap, mode=1"));
  EXPECT_THAT(pe[2], HasSubstr("quarter=2"));
  EXPECT_THAT(pe[3], HasSubstr("bf16 [128] = sbuf"));
  // The product of what DVE has quantised waits for DVE, codes and scales.
  EXPECT_FALSE(p.parts().schedule.steps()[NEURON_ENGINE_PE][2].waits.empty());
  EXPECT_TRUE(p.build());
}

TEST(LaterGenerations, RefuseProductsOfBlockScaledMatricesThatDoNotGoTogether) {
  const auto refusal = [](uint32_t rows, uint32_t columns, uint32_t parts) {
    Program p("products", 4);
    const Tile left = p.sbuf("left", 128, 128, NEURON_DTYPE_F8E4FNX4);
    const Tile right = p.sbuf("right", parts, 128, NEURON_DTYPE_F8E4FNX4);
    const Tile scales = p.sbuf("scales", 128, 128, kU8);
    const Tile product = p.psum("product", rows, columns, kBf16);
    p.memset(Engine::kDve, scales.all(), 0);
    p.matmul_mx(product.all(), {left.all(), scales.all(), 0},
                {right.all(), scales.row_range(0, parts), 0});
    return error_of(p);
  };
  const std::string sentence = "expected [K, M], [K, N] and [M, N]";
  EXPECT_EQ(refusal(128, 128, 128), "");
  EXPECT_THAT(refusal(64, 128, 128), HasSubstr("into [64, 128]; " + sentence));
  EXPECT_THAT(
      refusal(128, 128, 64),
      HasSubstr("matmul of [128, 128] (stationary) and [64, 128] (moving) into [128, 128]; " +
                sentence));
}

TEST(LaterGenerations, WriteSparseProducts) {
  Program p("sparse", 3);
  const Tile w = p.sbuf("w", 128, 64, kBf16), x = p.sbuf("x", 128, 4 * 200, kBf16);
  const Tile positions = p.sbuf("positions", 128, 16, NEURON_DTYPE_U16);
  const Tile sum = p.psum("sum", 64, 200);
  const SparseAccess sparse{w.all(), positions.all(), NEURON_SPARSE_1_OF_4};
  p.matmul_sparse(sum.all(), sparse, x.all().split(4));
  ASSERT_TRUE(p.ok()) << error_of(p);
  const auto pe = texts(p, NEURON_ENGINE_PE);
  EXPECT_THAT(pe[0], HasSubstr("ldweights_sparse"));
  EXPECT_THAT(pe[0], HasSubstr("u16 [16], mode=5"));
  EXPECT_THAT(pe[1], HasSubstr("bf16 [4, 200], new, swap, mode=5"));
  p.matmul_sparse(sum.all(), sparse, x.all().split(2));
  EXPECT_THAT(error_of(p), HasSubstr("slots"));
}

TEST(LaterGenerations, WriteTheOtherInstructionsOfGeneration4) {
  Program p("fourth", 4);
  const Tile x = p.sbuf("x", 128, 64, kF32), m = p.sbuf("m", 128, 1, kF32);
  p.exponential(x.all(), x.all(), m.all(), NEURON_REDUCE_RESET_ACCUMULATE);
  p.random_uniform(x.all(), -1.0F, 1.0F);
  Activate2Options options;
  options.steps = NEURON_PRE_MUL_SUB;
  options.s0 = 2.0F;
  options.s1 = reversed(m.all());
  options.reduce_op = NEURON_ALU_ABS_MAX;
  options.reduce = NEURON_REDUCE_RESET_ACCUMULATE;
  p.activate2(x.all(), NEURON_ACT_EXP, x.all(), options);
  const Tile states = p.sbuf("states", 128, 24, NEURON_DTYPE_U32);
  p.set_random_state(Engine::kDve, states.all());
  ASSERT_TRUE(p.ok()) << error_of(p);
  EXPECT_THAT(texts(p, NEURON_ENGINE_DVE)[0], HasSubstr("exponential"));
  EXPECT_THAT(texts(p, NEURON_ENGINE_DVE)[1], HasSubstr("s0=-1, s1=1"));
  EXPECT_THAT(texts(p, NEURON_ENGINE_ACTIVATION)[0],
              HasSubstr("steps=mul_sub, s0=2, s1=&sbuf[0, 0x"));
  EXPECT_THAT(texts(p, NEURON_ENGINE_ACTIVATION)[0], HasSubstr("rev1, reduce=abs_max"));
  EXPECT_TRUE(p.build());
}

TEST(LaterGenerations, LoadAccumulatorsChainBitOperationsAndReduceOnPool) {
  Program p("arguments", 4);
  const Tile x = p.sbuf("x", 128, 64, kF32), m = p.sbuf("m", 128, 1, kF32);
  const Tile whole = p.sbuf("whole", 128, 64, NEURON_DTYPE_U32),
             mask = p.sbuf("mask", 128, 1, NEURON_DTYPE_U32);
  p.exponential(x.all(), x.all(), 1.0F, NEURON_REDUCE_LOAD_ACCUMULATE, m.all());
  p.tensor_scalar_reduce(x.all(), x.all(), NEURON_ALU_MUL, 2.0F, NEURON_ALU_MAX,
                         NEURON_REDUCE_LOAD_ACCUMULATE, -3.0F);
  BitArgument five = 5;
  five.reversed = true;
  p.tensor_scalar_bits(Engine::kDve, whole.all(), whole.all(), NEURON_ALU_SHL, five, NEURON_ALU_XOR,
                       mask.all());
  p.tensor_scalar_bits(Engine::kDve, whole.all(), whole.all(), NEURON_ALU_NOT, {},
                       NEURON_ALU_SHR_LOGICAL, 28);
  p.tensor_scalar(Engine::kActivation, x.all(), x.all(), NEURON_ALU_SUB, reversed(m.all()),
                  NEURON_ALU_MAX, 0.0F);
  p.tensor_reduce(m.all(), NEURON_ALU_ADD, x.all(), 1, false, Engine::kPool);
  ASSERT_TRUE(p.ok()) << error_of(p);
  const auto dve = texts(p, NEURON_ENGINE_DVE);
  ASSERT_EQ(dve.size(), 4U);
  EXPECT_THAT(dve[0], HasSubstr("s0=1, s1=&sbuf[0, "));
  EXPECT_THAT(dve[0], HasSubstr("f32, reduce=add, load_reduce"));
  EXPECT_THAT(dve[1], HasSubstr("op0=mul, s0=2, s1=-3, reduce=max, load_reduce"));
  EXPECT_THAT(dve[2], HasSubstr("op0=shl, s0=0x5 u32, rev0, op1=xor, s1=&sbuf[0, "));
  EXPECT_THAT(dve[3], HasSubstr("op0=not, op1=shr_logical, s1=0x1C u32"));
  EXPECT_THAT(texts(p, NEURON_ENGINE_ACTIVATION)[0], HasSubstr("rev0, op1=max, s1=0"));
  EXPECT_THAT(texts(p, NEURON_ENGINE_POOL)[0], HasSubstr("reduce=add, axes=1"));
  EXPECT_TRUE(p.build());
  Program third("third", 3);
  const Tile a = third.sbuf("a", 128, 64, kF32);
  third.tensor_scalar(Engine::kActivation, a.all(), a.all(), NEURON_ALU_SUB, 1.0F);
  EXPECT_THAT(error_of(third),
              HasSubstr("on Activation, tensor_scalar is mul, add, or mul then add"));
}

TEST(LaterGenerations, ScaleEachSourceOfATransfer) {
  Program p("scales", 3);
  const Buffer x = p.input("x", kF32, {128, 64}), y = p.output("y", kF32, {128, 64});
  ComputeOptions options{.operation = NEURON_DMA_FMA};
  options.scales = {0.5F, -3.0F};
  p.dma_compute(Engine::kSp, y.all(), {x.all(), x.all()}, options);
  const auto neff = p.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  const auto container = neff::Container::open(*neff);
  ASSERT_TRUE(container) << container.error().sentence;
  const auto model = neff::load_model(*container, {3, 1, false});
  ASSERT_TRUE(model) << model.error().sentence;
  const auto& transfers = model->subgraphs[0].engines[NEURON_ENGINE_SP].dma;
  ASSERT_EQ(transfers.size(), 1U);
  ASSERT_EQ(transfers[0].from.size(), 2U);
  EXPECT_EQ(transfers[0].from[0].scale, 0.5F);
  EXPECT_EQ(transfers[0].from[1].scale, -3.0F);
  Program few("few", 3);
  const Buffer a = few.input("a", kF32, {128, 64}), b = few.output("b", kF32, {128, 64});
  options.scales = {0.5F};
  few.dma_compute(Engine::kSp, b.all(), {a.all(), a.all()}, options);
  EXPECT_THAT(error_of(few), HasSubstr("a transfer of 2 sources has 1 scales"));
}

TEST(LaterGenerations, AreRefusedInOlderPrograms) {
  Program p("old", 3);
  const Tile x = p.sbuf("x", 128, 64, kF32);
  p.exponential(x.all(), x.all());
  EXPECT_THAT(error_of(p), HasSubstr("the opcode needs a later generation"));
  Program rows("rows", 3);
  const Tile w = rows.sbuf("w", 128, 256, kBf16);
  rows.load_weights(w.all().split(2), {.double_row = true});
  EXPECT_THAT(error_of(rows), HasSubstr("double_row multiplies f8e4, f8e5 and f8e4fn"));
  Program tile("tile", 3);
  const Tile v = tile.sbuf("v", 32, 32, kBf16);
  tile.load_weights(v.all(), {.row = 32, .column = 64, .rows = 32, .columns = 32});
  EXPECT_TRUE(tile.ok()) << error_of(tile);
  EXPECT_THAT(texts(tile, NEURON_ENGINE_PE)[0], HasSubstr("at=32x64, tile=32x32"));
}

// One direction: a write to the other core's semaphore behind all that the engine did, and there an
// event that waits for it.
TEST(LaterGenerations, TellTheOtherCoreByItsSemaphoreAndAwaitIt) {
  Program p("telling", 3), other("telling", 3);
  const Buffer in = p.input("in", kF32, {128, 64}), out = p.output("out", kF32, {128, 64});
  const Tile own = p.sbuf("own", 128, 64, kF32);
  p.dma(Engine::kSp, own.all(), in.all());
  p.dma(Engine::kSp, out.all(), own.all());
  p.tell_other(Engine::kPool, out.all(), 9);
  const Buffer from = other.input("from", kF32, {128, 64}),
               to = other.output("to", kF32, {128, 64});
  const Tile there = other.sbuf("there", 128, 64, kF32);
  other.await_other(Engine::kPool, from.all(), 9);
  other.dma(Engine::kSp, there.all(), from.all());
  other.dma(Engine::kSp, to.all(), there.all());
  p.physical_cores(2, &other);
  const auto neff = p.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  const auto container = neff::Container::open(*neff);
  ASSERT_TRUE(container) << container.error().sentence;
  const auto model = neff::load_model(*container, {3, 2, false});
  ASSERT_TRUE(model) << model.error().sentence;
  const auto code_of = [&](unsigned subgraph) {
    std::vector<isa::Instruction> code;
    const auto& pool = model->subgraphs[subgraph].engines[NEURON_ENGINE_POOL];
    for (size_t at = 0; at < pool.code.size(); at += NEURON_INSTRUCTION_BYTES) {
      code.push_back(isa::decode(isa::Bytes(
          reinterpret_cast<const std::byte*>(pool.code.data()) + at, NEURON_INSTRUCTION_BYTES)));
    }
    return code;
  };
  const auto tells = code_of(0), awaits = code_of(1);
  ASSERT_EQ(tells.size(), 2U);
  EXPECT_EQ(tells[0].opcode, NEURON_OP_WRITE);
  EXPECT_TRUE(tells[0].drain);
  EXPECT_EQ(tells[0].wait[0].condition, NEURON_WAIT_GE) << "for the transfer into `out`";
  const auto& relocations = model->subgraphs[0].engines[NEURON_ENGINE_POOL].relocations;
  ASSERT_EQ(relocations.size(), 1U);
  EXPECT_EQ(relocations[0].kind, NEURON_RELOC_CORE);
  EXPECT_EQ(relocations[0].symbol, "peer");
  EXPECT_EQ(relocations[0].addend, int64_t{NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 9 * 4});
  ASSERT_EQ(awaits.size(), 3U) << "what the transfer of SP waits for is in an event behind";
  EXPECT_EQ(awaits[0].opcode, NEURON_OP_EVENT);
  EXPECT_EQ(awaits[0].wait[1].index, 9);
  EXPECT_EQ(awaits[0].update[1].operation, NEURON_UPDATE_DEC);
  EXPECT_EQ(awaits[1].update[0].operation, NEURON_UPDATE_INC);

  Program wrong("wrong", 3);
  wrong.tell_other(Engine::kSp, {}, 16);
  EXPECT_THAT(error_of(wrong), HasSubstr("semaphore 16 between the two cores of a virtual core, "
                                         "expected 8 to 15"));
}

// The instruction has a wait and an update of its own: what it needs beside them is in events.
TEST(LaterGenerations, PutWaitsAndSignalsAroundTheInstructionsAtWhichCoresMeet) {
  Program p("meeting", 3);
  const Buffer in = p.input("in", kF32, {128, 64}), out = p.output("out", kF32, {128, 64});
  const Tile own = p.sbuf("own", 128, 64, kF32), others = p.sbuf("others", 128, 64, kF32);
  p.dma(Engine::kSp, own.all(), in.all());
  p.send_receive(others.all(), own.all(), 9);
  p.core_barrier(Engine::kDve, out.all());
  p.tensor_tensor(Engine::kDve, own.all(), own.all(), NEURON_ALU_ADD, others.all());
  p.dma(Engine::kSp, out.all(), own.all());
  Program other("meeting", 3);
  other.use(Engine::kSp);
  p.physical_cores(2, &other);
  const auto neff = p.build();
  ASSERT_TRUE(neff) << neff.error().sentence;
  // The transfer is waited for, and the addition waits: so there are an event before, one behind.
  const auto& pool = p.parts().schedule.steps()[NEURON_ENGINE_POOL];
  EXPECT_EQ(pool[0].waits.size(), 1U);
  EXPECT_TRUE(pool[0].signals);
  const auto container = neff::Container::open(*neff);
  ASSERT_TRUE(container) << container.error().sentence;
  const auto model = neff::load_model(*container, {3, 2, false});
  ASSERT_TRUE(model) << model.error().sentence;
  std::vector<isa::Instruction> code;
  for (const auto& engine : model->subgraphs[0].engines) {
    if (engine.engine != NEURON_ENGINE_POOL) continue;
    for (size_t at = 0; at < engine.code.size(); at += NEURON_INSTRUCTION_BYTES) {
      code.push_back(isa::decode(isa::Bytes(
          reinterpret_cast<const std::byte*>(engine.code.data()) + at, NEURON_INSTRUCTION_BYTES)));
    }
  }
  ASSERT_EQ(code.size(), 4U);
  EXPECT_EQ(code[0].opcode, NEURON_OP_EVENT);
  EXPECT_EQ(code[0].wait[0].condition, NEURON_WAIT_GE);
  EXPECT_EQ(code[1].opcode, NEURON_OP_SENDRECV);
  EXPECT_EQ(code[1].wait[1].index, 9);
  EXPECT_EQ(code[2].opcode, NEURON_OP_EVENT);
  EXPECT_EQ(code[2].update[0].operation, NEURON_UPDATE_INC);
  EXPECT_EQ(code[3].opcode, NEURON_OP_RET);
}

// What a barrier orders is done on this core before it, and begins behind it.
TEST(LaterGenerations, OrderAllThatABarrierNamesAndShareTemporariesByTheirNames) {
  const auto write = [](Program& p, const std::string& out, uint64_t columns) {
    const Buffer a = p.shared_temporary("a", kF32, {128, columns}),
                 b = p.output(out, kF32, {128, 8});
    const Tile tile = p.sbuf("tile", 128, 8, kF32);
    p.memset(Engine::kDve, tile.all(), 0);
    p.dma(Engine::kSp, a.block(0, 128, 0, 8), tile.all());
    p.dma(Engine::kActivation, b.all(), tile.all());
    p.core_barrier(Engine::kPool, {a.all(), b.all()}, 10);
    p.dma(Engine::kSp, tile.all(), a.block(0, 128, 0, 8));
  };
  const auto read = [&](uint64_t columns, const std::function<void(Program&)>& more) {
    Program first("sharing", 3), second("sharing", 3);
    write(first, "y0", 8);
    write(second, "y1", columns);
    more(first);
    first.physical_cores(2, &second);
    const auto& pool = first.parts().schedule.steps()[NEURON_ENGINE_POOL];
    EXPECT_EQ(pool[0].waits.size(), 2U) << "both transfers";
    const auto neff = first.build();
    if (!neff) return neff.error().sentence;
    const auto container = neff::Container::open(*neff);
    const auto model = neff::load_model(*container, {3, 2, false});
    return model ? std::string() : model.error().sentence;
  };
  EXPECT_EQ(read(8, [](Program&) {}), "");
  EXPECT_THAT(
      read(16, [](Program&) {}),
      HasSubstr("var.a is shared by the two cores of a logical core, but has 4096 bytes, and "
                "8192 in sg01/def.json"));
  EXPECT_THAT(read(8, [](Program& p) { p.shared_temporary("alone", kF32, {8}); }),
              HasSubstr("but sg01/def.json has no shared variable of that name"));
}

TEST(LaterGenerations, WriteIndirectOperandsWithTheirIndexes) {
  Program p("gathered", 4);
  const Tile x = p.sbuf("x", 128, 96, kF32), y = p.sbuf("y", 128, 40, kF32);
  const Tile index = p.sbuf("index", 128, 3, NEURON_DTYPE_U16);
  p.tensor_copy(Engine::kDve, y.all(), x.all().indirect(index.all(), 40));
  p.activate(x.all().indirect(index.all(), 40), NEURON_ACT_EXP, y.all());
  ASSERT_TRUE(p.ok()) << error_of(p);
  const auto dve = texts(p, NEURON_ENGINE_DVE), act = texts(p, NEURON_ENGINE_ACTIVATION);
  ASSERT_EQ(dve.size(), 1U);
  EXPECT_THAT(dve[0], HasSubstr("f32 [40 by &sbuf[0, 0x240] u16]"));
  ASSERT_EQ(act.size(), 1U);
  EXPECT_THAT(act[0], HasSubstr("activate sbuf[0:128, 0x0] f32 [40 by &sbuf[0, 0x240] u16]"));
}

// What an offset may name is the whole base, so that all of it is ordered, and so is the index.
TEST(LaterGenerations, OrderIndirectOperandsByTheirWholeBaseAndTheirIndex) {
  const auto waits = [](const std::function<void(Program&, Tile, Tile, Tile)>& body) {
    Program p("ordered", 4);
    const Tile x = p.sbuf("x", 128, 96, kF32), y = p.sbuf("y", 128, 40, kF32);
    const Tile index = p.sbuf("index", 128, 3, NEURON_DTYPE_U16);
    body(p, x, y, index);
    const auto loaded = testing::load(p.build(), 4);
    for (const auto& i : loaded.code[NEURON_ENGINE_DVE]) {
      if (i.opcode == NEURON_OP_TENSOR_COPY) return i.wait[0].condition != NEURON_WAIT_NONE;
    }
    ADD_FAILURE() << "no tensor_copy";
    return false;
  };
  const auto gather = [](Program& p, Tile x, Tile y, Tile index) {
    p.tensor_copy(Engine::kDve, y.all(), x.all().indirect(index.all(), 40));
  };
  EXPECT_TRUE(waits([&](Program& p, Tile x, Tile y, Tile index) {
    p.memset(Engine::kPool, x.column_range(95, 1), 0);
    gather(p, x, y, index);
  }));
  EXPECT_TRUE(waits([&](Program& p, Tile x, Tile y, Tile index) {
    p.memset(Engine::kPool, index.all(), 0);
    gather(p, x, y, index);
  }));
  EXPECT_FALSE(waits([&](Program& p, Tile x, Tile y, Tile index) {
    const Tile other = p.sbuf("other", 128, 8, kF32);
    p.memset(Engine::kPool, other.all(), 0);
    gather(p, x, y, index);
  }));
}

TEST(LaterGenerations, RefuseIndirectOperandsThatNoInstructionTakes) {
  const auto refusal = [](const std::function<void(Program&, Tile, Tile, Tile)>& body,
                          uint8_t generation = 4) {
    Program p("refused", generation);
    const Tile x = p.sbuf("x", 128, 96, kF32), y = p.sbuf("y", 128, 40, kF32);
    body(p, x, y, p.sbuf("index", 128, 3, NEURON_DTYPE_U16));
    return error_of(p);
  };
  EXPECT_THAT(refusal(
                  [](Program& p, Tile x, Tile y, Tile index) {
                    p.tensor_copy(Engine::kDve, y.all(), x.all().indirect(index.all(), 40));
                  },
                  3),
              HasSubstr("indirect operands need generation 4"));
  EXPECT_THAT(refusal([](Program& p, Tile x, Tile y, Tile index) {
                p.tensor_copy(Engine::kDve, y.all(),
                              x.all().indirect(index.column_range(0, 2), 40));
              }),
              HasSubstr("an index of 2 columns holds 32 offsets for each 16 partitions"));
  EXPECT_THAT(refusal([](Program& p, Tile x, Tile y, Tile index) {
                p.tensor_copy(Engine::kDve, y.all(), x.all().indirect(index.row_range(0, 64), 40));
              }),
              HasSubstr("an index of 64 partitions has no offsets for the last of 128"));
  EXPECT_THAT(refusal([](Program& p, Tile x, Tile y, Tile index) {
                p.tensor_copy(Engine::kDve, y.all(), x.strided(0, 40, 2).indirect(index.all(), 40));
              }),
              HasSubstr("needs dense elements of one dimension"));
  EXPECT_THAT(refusal([](Program& p, Tile x, Tile y, Tile index) {
                p.tensor_copy(Engine::kPool, y.all(), x.all().indirect(index.all(), 40));
              }),
              HasSubstr("cannot be indirect on this engine"));
  EXPECT_THAT(refusal([](Program& p, Tile x, Tile y, Tile index) {
                p.tensor_scalar(Engine::kDve, y.all(), y.all(), NEURON_ALU_ADD,
                                x.all().indirect(index.all(), 1));
              }),
              HasSubstr("a scalar operand is indirect"));
  EXPECT_THAT(refusal([](Program& p, Tile x, Tile y, Tile index) {
                p.reciprocal(y.all(), x.all().indirect(index.all(), 40));
              }),
              HasSubstr("this operand of the opcode cannot be indirect"));
}

}  // namespace
}  // namespace neuron::builder
