// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/disassembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "runtime/base/file.h"
#include "runtime/neff/model_reader.h"
#include "tests/unit/driver/isa/samples.h"
#include "tests/unit/runtime/neff/sample_program.h"
#include "tools/compiler/assembler/assembler.h"
#include "tools/compiler/assembler/optimizer.h"
#include "tools/compiler/kernels/fault_programs.h"
#include "tools/compiler/kernels/kernels.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::assembler {
namespace {

using test::must;
using test::SampleProgram;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Bytes = std::vector<uint8_t>;

Bytes assembled_bytes(const std::string& text) {
  AssembleOptions options;
  const Assembled result = assemble(text, options);
  EXPECT_TRUE(result.ok()) << render(result.errors, "text", text);
  if (!result.ok()) return {};
  return must(write(result.assembly));
}

// A file of this project's writer comes back as it is.
void expect_same_file(const Bytes& file, const std::string& name) {
  const auto shown = disassemble(file);
  ASSERT_TRUE(shown.has_value()) << name << ": " << shown.error().sentence;
  EXPECT_TRUE(shown->same_file) << name;
  EXPECT_EQ(assembled_bytes(shown->text), file) << name;
  EXPECT_THAT(shown->verbatim, IsEmpty()) << name;
}

TEST(Disassembler, EveryKernelComesBackToTheSameBytes) {
  for (const std::string& name : kernels::names()) {
    const auto file =
        kernels::build(name, std::string(NEURON_SOURCE_DIR) + "/tools/compiler/kernels/digits");
    ASSERT_TRUE(file.has_value()) << name << ": " << file.error().sentence;
    if (file->size() < (4u << 20)) expect_same_file(*file, name);
  }
}

TEST(Disassembler, CollectivesOfTheBuilderComeBackToTheSameBytes) {
  using builder::CollectiveOptions;
  using builder::Engine;
  builder::Program program("collectives");
  const auto x = program.temporary("x", NEURON_DTYPE_BF16, {64, 32});
  const auto tile = program.sbuf("tile", 64, 8, NEURON_DTYPE_BF16);
  const auto wide = program.sbuf("wide", 64, 32, NEURON_DTYPE_BF16);
  program.memset(Engine::kDve, tile.all(), 0);
  CollectiveOptions options;
  options.groups = {{0, 1, 2, 3}, {5, 4, 6, 7}};
  program.collective(Engine::kPool, CCOM_ALL_GATHER, wide.all(), tile.all(), options);
  program.collective(Engine::kPool, CCOM_ALL_TO_ALL, x.all(), wide.all(), options);
  options.stream = 1;
  options.algorithm = CCOM_RING;
  options.reduction = CCOM_MAX;
  program.collective(Engine::kSp, CCOM_ALL_REDUCE, tile.all(), tile.all(), options);
  options.algorithm = CCOM_ALGORITHM_AUTO;
  options.root = 3;
  program.collective(Engine::kSp, CCOM_REDUCE, x.all(), x.all(), options);
  options.counts = {512, 0, 512, 100};
  options.displacements = {0, 512, 512, 1024};
  program.collective(Engine::kSp, CCOM_ALL_GATHER_V, x.all(), tile.all(), options);
  options.counts = options.displacements = {};
  program.collective(Engine::kSp, CCOM_BARRIER, {}, {}, options);
  options.pairs = {{0, 1}, {2, 3}};
  program.collective(Engine::kSp, CCOM_PERMUTE, x.block(0, 16, 0, 32), tile.all(), options);
  expect_same_file(must(program.build()), "collectives");
}

TEST(Disassembler, ProgramsOfCollectiveCoresComeBackToTheSameBytes) {
  const Bytes file = assembled_bytes(R"(.neff name=rings, build=unit
.engine SP
  ret
.engine CC stream=2, bin=ring.bin
  ret
.engine CC
  nop
  ret
)");
  expect_same_file(file, "rings");
  const auto shown = must(disassemble(file));
  EXPECT_THAT(shown.text, AllOf(HasSubstr("ring.bin"), HasSubstr("stream=2")));
  const auto container = must(neff::Container::open(file));
  const neff::Model model = must(neff::load_model(container, {}));
  const auto& programs = model.subgraphs.at(0).collectives;
  ASSERT_EQ(programs.size(), 2U);
  EXPECT_EQ(programs[0].stream, 2U);
  EXPECT_EQ(programs[0].program.instructions(), 1U);
  EXPECT_EQ(programs[1].program.instructions(), 2U);
}

// A logical core has two physical ones, and a file for it a second program, sg01.
TEST(Disassembler, BothProgramsOfALogicalCoreOfTwoComeBackToTheSameBytes) {
  using builder::Engine;
  const auto fill = [](builder::Program& program, const char* name, uint32_t bits) {
    const auto output = program.output(name, NEURON_DTYPE_F32, {64, 8});
    const auto tile = program.sbuf("tile", 64, 8, NEURON_DTYPE_F32);
    program.memset(Engine::kDve, tile.all(), bits);
    program.dma(Engine::kSp, output.all(), tile.all());
    const auto board = program.shared_temporary("board", NEURON_DTYPE_F32, {64, 8});
    program.dma(Engine::kSp, board.block(bits, 1, 0, 8), output.block(0, 1, 0, 8));
  };
  builder::Program first("pair", 3), second("pair", 3);
  fill(first, "x", 1);
  fill(second, "y", 2);
  first.physical_cores(2, &second);
  const Bytes file = must(first.build());
  expect_same_file(file, "pair");
  EXPECT_THAT(disassemble(file)->text, AllOf(HasSubstr("lnc=2"), HasSubstr(".subgraph sg01\n"),
                                             HasSubstr("tmp-buf, size=2048, shared=yes")));
  builder::Program alone("alone", 3);
  alone.use(Engine::kSp);
  alone.physical_cores(2);
  expect_same_file(must(alone.build()), "the other core is idle");
}

TEST(Disassembler, NamesBelongToTheProgramOfTheirCore) {
  const Bytes file = assembled_bytes(R"(.neff name=pair, build=unit
.target trn2, lnc=2
.subgraph sg00
.var x : f32 [128, 4] input
.var tile : state-buffer, size=0x2000000
.sem ready = 40
.queue q = in, engines=16, owner=SP
.engine SP
.dma 7 move : x -> tile [128:262144, 16], queue=q, semaphore=ready
main:
  dma_trigger move
  event wait(ready >= 16)
  ret
.subgraph sg01
.var y : f32 [64, 2] output
.var tile : state-buffer, size=0x2000000
.sem ready = 41
.queue q = out, engines=8, owner=SP
.engine SP
.dma 7 move : tile [64:262144, 8] -> y, queue=q, semaphore=ready
main:
  dma_trigger move wait(ready >= 1)
  ret
.engine DVE
main:
  memset sbuf[0:64, 0] f32 [2], value=0x3F800000 then(ready++)
  ret
)");
  expect_same_file(file, "pair");
  const auto container = must(neff::Container::open(file));
  const neff::Model model = must(neff::load_model(container, {3, 2, false}));
  ASSERT_EQ(model.subgraphs.size(), 2U);
  const neff::Subgraph& first = model.subgraphs[0];
  const neff::Subgraph& second = model.subgraphs[1];
  EXPECT_EQ(first.name, "sg00");
  EXPECT_EQ(second.name, "sg01");
  EXPECT_EQ(first.engines[NEURON_ENGINE_SP].instructions(), 3U);
  EXPECT_EQ(second.engines[NEURON_ENGINE_SP].instructions(), 2U);
  EXPECT_EQ(first.engines[NEURON_ENGINE_DVE].instructions(), 0U);
  EXPECT_EQ(second.engines[NEURON_ENGINE_DVE].instructions(), 2U);
  EXPECT_EQ(first.semaphores[0].number, 40U);
  EXPECT_EQ(second.semaphores[0].number, 41U);
  EXPECT_EQ(first.queues[0].num_queues, 16U);
  EXPECT_EQ(second.queues[0].num_queues, 8U);
}

TEST(Disassembler, ProgramsThatBreakRulesComeBackToo) {
  expect_same_file(must(kernels::deadlock()), "deadlock");
  expect_same_file(must(kernels::bad_partition_register()), "bad_partition_register");
  expect_same_file(must(kernels::endless_loop()), "endless_loop");
  expect_same_file(must(kernels::bad_address()), "bad_address");
  expect_same_file(must(kernels::no_weights()), "no_weights");
  expect_same_file(must(kernels::bad_partition()), "bad_partition");
  EXPECT_THAT(disassemble(must(kernels::bad_partition()))->text, HasSubstr(".check off\n"));
  expect_same_file(must(kernels::illegal_opcode()), "illegal_opcode");
  EXPECT_THAT(disassemble(must(kernels::illegal_opcode()))->text, HasSubstr("\n  .word "));
}

// Keys that no directive has, numbers instead of names, members of other tools.
TEST(Disassembler, AFileOfAnotherWriterKeepsEveryMember) {
  const SampleProgram sample;
  const auto shown = disassemble(sample.pack());
  ASSERT_TRUE(shown.has_value()) << shown.error().sentence;
  EXPECT_THAT(shown->text, HasSubstr("dma_trigger load_x_7  reloc(semaphore loaded at 8)"));
  EXPECT_THAT(shown->text, HasSubstr("write at=&scratch + 64"));
  EXPECT_THAT(shown->text, HasSubstr(".entry late function"));
  EXPECT_THAT(shown->text, HasSubstr(".var x : f32 [4, 16] input, id=1, name=\"x:0\", format=NC"));
  EXPECT_THAT(shown->text, HasSubstr("file=\"w.npy\"  # <f4 [3, 4]"));
  EXPECT_THAT(shown->verbatim, ::testing::Contains("sg00/def.json"));
  AssembleOptions options;
  options.check = false;
  const Assembled result = assemble(shown->text, options);
  ASSERT_TRUE(result.ok()) << render(result.errors, "text", shown->text);
  EXPECT_EQ(must(all_members(result.assembly)), sample.members);
}

TEST(Disassembler, UncompressedFilesAndHeaderFieldsComeBack) {
  SampleProgram sample;
  sample.options.compress = false;
  sample.options.name = "a \"name\"\n";
  sample.options.uuid = std::array<uint8_t, 16>{1, 2, 3};
  const auto shown = disassemble(sample.pack());
  ASSERT_TRUE(shown.has_value()) << shown.error().sentence;
  EXPECT_TRUE(shown->same_file);
  EXPECT_THAT(shown->text, HasSubstr("uuid=\"01020300000000000000000000000000\""));
}

TEST(Disassembler, ConstantsGoToFilesWhereAsked) {
  const SampleProgram sample;
  std::map<std::string, Bytes> saved;
  DisassembleOptions options;
  options.save = [&](const std::string& member, neff::Bytes contents) {
    saved["there/" + member] = Bytes(contents.begin(), contents.end());
    return runtime::Result<std::string>("there/" + member);
  };
  const auto shown = disassemble(sample.pack(), options);
  ASSERT_TRUE(shown.has_value());
  EXPECT_THAT(shown->text, HasSubstr(".member \"sg00/w.npy\" from \"there/sg00/w.npy\""));
  EXPECT_EQ(saved.size(), 2U);
  AssembleOptions back;
  back.check = false;
  back.read = [&](const std::string& file) { return runtime::Result<Bytes>(saved.at(file)); };
  EXPECT_EQ(must(all_members(assemble(shown->text, back).assembly)), sample.members);
}

TEST(Disassembler, RandomProgramsComeBackToTheSameBytes) {
  std::mt19937_64 random(11);
  const auto pick = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
  const auto samples = isa::testing::samples();
  for (unsigned round = 0; round < 60; ++round) {
    SampleProgram sample;
    neff::EngineProgram program;
    program.engine = NEURON_ENGINE_PE;
    program.entries = {{"main", 0, 0, NEURON_ENTRY_MAIN}};
    const unsigned count = 1 + pick(40);
    for (unsigned i = 0; i < count; ++i) {
      isa::Instruction instruction =
          samples[pick(static_cast<unsigned>(samples.size()))].instruction;
      const unsigned kind = pick(6);
      if (kind == 0) {
        instruction = isa::testing::make(NEURON_OP_BRANCH, NEURON_ENGINE_PE);
        instruction.flow.target = static_cast<int32_t>(pick(60)) - 25;
      } else if (kind == 1) {
        instruction = isa::testing::make(NEURON_OP_LOOP, NEURON_ENGINE_PE);
        instruction.loop = {1, 1 + pick(12)};
        instruction.scalar0 = instruction.scalar1 = isa::testing::immediate(3, NEURON_DTYPE_I32);
      }
      isa::testing::Raw bytes = isa::testing::raw(instruction);
      for (unsigned flips = pick(4) ? 0 : pick(20); flips > 0; --flips) {
        bytes[pick(NEURON_INSTRUCTION_BYTES)] = static_cast<std::byte>(random());
      }
      const auto* first = reinterpret_cast<const uint8_t*>(bytes.data());
      program.code.insert(program.code.end(), first, first + bytes.size());
    }
    program.entries[0].length = pick(2) ? count : pick(count + 1);
    for (unsigned i = pick(4); i > 0; --i) {
      const unsigned pc = pick(count);
      program.entries.push_back(
          {pick(3) ? "e" + std::to_string(i) : "same", pc, pick(count - pc + 1), 1 + pick(2)});
    }
    for (uint32_t id = pick(3); id < 9; id += 1 + pick(4)) {
      program.lines.push_back({id + 1, pick(100), static_cast<uint16_t>(pick(9)), "k \"1\".py"});
    }
    sample.set_engine("sg00/PE.bin", program);
    const auto shown = disassemble(sample.pack());
    ASSERT_TRUE(shown.has_value()) << round << ": " << shown.error().sentence;
    // The engine binary needs no copy of itself in the text.
    EXPECT_THAT(shown->verbatim, ::testing::Not(::testing::Contains("sg00/PE.bin"))) << shown->text;
    AssembleOptions options;
    options.check = false;
    const Assembled result = assemble(shown->text, options);
    ASSERT_TRUE(result.ok()) << round << ": " << render(result.errors, "text", shown->text);
    EXPECT_EQ(must(all_members(result.assembly)), sample.members) << round << "\n" << shown->text;
  }
}

TEST(Disassembler, WhatNoLoaderReadsIsRefusedWithItsSentence) {
  SampleProgram sample;
  sample.set("sg00/def.json", "{");
  EXPECT_THAT(disassemble(sample.pack()).error().sentence, HasSubstr("sg00/def.json"));
  EXPECT_FALSE(disassemble(Bytes(2000, 7)).has_value());
}

TEST(Optimizer, MergesConstantsDropsDebugInformationAndIsSmallerToRead) {
  const SampleProgram sample;
  const Bytes file = sample.pack();
  const auto container = must(neff::Container::open(file));
  const auto done = optimize(container);
  ASSERT_TRUE(done.has_value()) << done.error().sentence;
  const auto fast = must(neff::Container::open(*done));
  EXPECT_FALSE(fast.compressed());
  EXPECT_EQ(fast.find("sg00/w.npy"), nullptr);
  const neff::Member* weights = fast.find("sg00/weights.dat");
  ASSERT_NE(weights, nullptr);
  EXPECT_EQ(weights->bytes.size(), 69U);  // 48 bytes, room up to 64, 5 bytes
  const neff::Model before = must(neff::load_model(container, {}));
  const neff::Model after = must(neff::load_model(fast, {}));
  const auto same = [](neff::Bytes a, neff::Bytes b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  };
  for (size_t v = 0; v < before.subgraphs[0].variables.size(); ++v) {
    EXPECT_TRUE(
        same(before.subgraphs[0].variables[v].contents, after.subgraphs[0].variables[v].contents))
        << before.subgraphs[0].variables[v].name;
  }
  EXPECT_THAT(after.subgraphs[0].engines[NEURON_ENGINE_SP].lines, IsEmpty());
  EXPECT_EQ(after.subgraphs[0].engines[NEURON_ENGINE_SP].dma.size(), 3U);
  expect_same_file(*done, "optimized");
}

// A small file can name one constant any number of times.
TEST(Optimizer, LeavesVariablesThatShareTheirBytes) {
  std::string text = ".member \"sg00/all.dat\" text <<END\n" + std::string(4095, 'x') + "\nEND\n";
  for (int i = 0; i < 100; ++i) {
    text += ".var w" + std::to_string(i) +
            " : file size=4000, file=all.dat, offset=" + std::to_string(i % 10) + "\n";
  }
  const Bytes file = assembled_bytes(text + ".engine SP\nret\n");
  const auto done = optimize(must(neff::Container::open(file)));
  ASSERT_TRUE(done.has_value()) << done.error().sentence;
  const auto fast = must(neff::Container::open(*done));
  EXPECT_NE(fast.find("sg00/all.dat"), nullptr);
  EXPECT_EQ(fast.find("sg00/weights.dat"), nullptr);
  EXPECT_EQ(must(neff::load_model(fast, {})).subgraphs[0].variables.size(), 100U);
}

}  // namespace
}  // namespace neuron::assembler
