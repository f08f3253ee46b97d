// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/isa/instruction.h"
#include "runtime/neff/container.h"
#include "runtime/neff/model_reader.h"
#include "tools/compiler/assembler/disassembler.h"

namespace neuron::assembler {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader = R"(.neff name=test, build=unit
.var x : f32 [128, 4] input
.var y : f32 [128, 4] output
.var sbuf : state-buffer, size=0x2000000
.sem loaded, stored = 100
.queue q = data, engines=16, owner=SP
)";

Assembled assembled(const std::string& body) { return assemble(kHeader + body, {}); }

const neff::EngineProgram& sp(const Assembled& result) {
  return result.assembly.model.subgraphs[0].engines[NEURON_ENGINE_SP];
}
isa::Instruction at(const neff::EngineProgram& program, size_t pc) {
  const auto* first = reinterpret_cast<const std::byte*>(program.code.data());
  return isa::decode(isa::Bytes(first + pc * NEURON_INSTRUCTION_BYTES, NEURON_INSTRUCTION_BYTES));
}
// "line:column: message" of the first error; lines count from the first below the header.
std::string refusal(const std::string& body) {
  const Assembled result = assembled(body);
  if (result.ok()) return "accepted";
  const Diagnostic& error = result.errors[0];
  return std::to_string(error.line - std::min(error.line, 6U)) + ":" +
         std::to_string(error.column) + ": " + error.message;
}

TEST(Assembler, LabelsAndBlocksBecomeDistances) {
  const Assembled result = assembled(R"(.engine SP
main:
  loop r1 = 0 .. 3 {
    loop r2 = 0 .. r1 step 2 {
      nop
    }
    branch eq r1, 2, .Lout
  }
.Lout:
  call helper
  branch always main
helper:
  ret
)");
  ASSERT_TRUE(result.ok()) << render(result.errors, "t", "");
  const neff::EngineProgram& program = sp(result);
  ASSERT_EQ(program.instructions(), 7U);
  EXPECT_EQ(at(program, 0).loop.length, 3U);
  EXPECT_EQ(at(program, 1).loop.length, 1U);
  EXPECT_EQ(at(program, 3).flow.target, 1);
  EXPECT_EQ(at(program, 4).flow.target, 2);
  EXPECT_EQ(at(program, 5).flow.target, -5);
  // Local labels stay in the text.
  ASSERT_EQ(program.entries.size(), 2U);
  EXPECT_EQ(program.entries[0].kind, NEURON_ENTRY_MAIN);
  EXPECT_EQ(program.entries[0].length, 7U);
  EXPECT_EQ(program.entries[1].name, "helper");
  EXPECT_EQ(program.entries[1].kind, NEURON_ENTRY_LABEL);
}

TEST(Assembler, NamesBecomeRelocationsWhereOnlyTheLoaderKnowsTheAddress) {
  const Assembled result = assembled(R"(.var scratch : tmp-buf, size=4096
.engine SP
.dma 3 load_x : x -> sbuf [128:262144, 16], semaphore=loaded
  dma_trigger load_x then(&loaded++)
  write at=&scratch + 64, s0=1
  write at=&sem_addr:stored - 1024, s0=1
  load r1, at=&core:self
  call &far
  .entry far function
  ret
)");
  ASSERT_TRUE(result.ok()) << render(result.errors, "t", "");
  const auto& relocations = sp(result).relocations;
  ASSERT_EQ(relocations.size(), 6U);
  const auto expect = [&](size_t i, uint32_t pc, unsigned field, unsigned kind, unsigned width,
                          const char* symbol, int64_t addend) {
    EXPECT_EQ(relocations[i].pc, pc) << i;
    EXPECT_EQ(relocations[i].field, field) << i;
    EXPECT_EQ(relocations[i].kind, kind) << i;
    EXPECT_EQ(relocations[i].width, width) << i;
    EXPECT_EQ(relocations[i].symbol, symbol) << i;
    EXPECT_EQ(relocations[i].addend, addend) << i;
  };
  expect(0, 0, NEURON_INST_UPDATE0, NEURON_RELOC_SEMAPHORE, 1, "loaded", 0);
  expect(1, 0, NEURON_DMA_TRIGGER_M2S, NEURON_RELOC_DMA_BLOCK, 0, "3", 0);
  expect(2, 1, NEURON_ADDRESS_ADDR, NEURON_RELOC_VAR_ADDR, 8, "scratch", 64);
  expect(3, 2, NEURON_ADDRESS_ADDR, NEURON_RELOC_SEM_ADDR, 8, "stored", -1024);
  expect(4, 3, NEURON_ADDRESS_ADDR, NEURON_RELOC_CORE, 8, "self", 0);
  expect(5, 4, NEURON_INST_OP + 4, NEURON_RELOC_PC, 4, "far", 0);
  EXPECT_EQ(at(sp(result), 1).scalar0.value, 1U);
}

TEST(Assembler, EveryKindOfVariableAndTransferComesBackFromTheFile) {
  const std::string text = std::string(kHeader) + R"(.const w : f32 [4] = 1, -2.5, inf, 0x7F800001
.var raw : file, file="raw.dat", align=64
.member "sg00/raw.dat" base64 <<END
AAEC
END
.var packed : u8 [4] file, file="packed.dat", encoding=streams
.member "sg00/packed.dat" base64 <<END
iU5TMQQAAAAEAACA9IwwKQECAwQ=
END
.var shared : virtual, size=512, backing=1024, fabric=alt
.var scratch : f32 [128, 32] tmp-buf
.var p : pointer, to=later
.var table : dge-table, list=[later, w], size=64
.var later : tmp-buf, size=8
.var bank : state-buffer, size=4096, offset=0x2000000
.queue many = data, engines=2, owner=SP, instances=[a, "b c"], semaphores=[120, 121], fabric=alt
.queue made = dynamic, engines=4, ring=128, owner=Pool
.engine SP
.dma 0 : x -> scratch [16, 128], queue=q, semaphore=loaded, event=e3
.dma 1 sum : x f32 [2048], scratch f32 [2048] -> sbuf f32 [128:262144, 16], queue=q, op=add, section
.dma 2 : x f32 [2048] * 0.5, scratch f32 [2048] * 3 -> scratch f32 [2048], queue=q, op=fma, scale=2
.dma 3 : x f32 [2048], scratch f32 [2048] -> scratch f32 [2048], queue=q, op=min, constant=-1.5
.dma 4 : x [2048] -> scratch [2048], queue=q, op=transpose, shape=[1, 16, 32, 1], element=4
.dma 5 : x + 16 f32 [64] -> scratch + 8 bf16 [32], queue=q, op=cast, function=f
.dma 6 : x -> scratch [2048], queue=q, function=main
.dma 7 : x -> scratch [2048], queue=many, instance="b c"
.dma 8 : x [2048] -> scratch [2064], queue=q, op=compress
.dma 9 : scratch [2064] -> scratch + 4096 [2048], queue=q, op=decompress
.line 7 "kernel.py" 12:3
main:
  dma_trigger 0
  dma_trigger sum  wait(loaded >= 16, e3 == 1) @7
  ret
.entry f function
  dma_trigger 5
  ret
.engine Activation
.function_sets exp_set
  ret
.member "sg00/exp_set.json" text open <<END
{}
END
)";
  const Assembled first = assemble(text, {});
  ASSERT_TRUE(first.ok()) << render(first.errors, "t", text);
  const auto file = write(first.assembly);
  ASSERT_TRUE(file.has_value()) << file.error().sentence;
  const auto shown = disassemble(*file);
  ASSERT_TRUE(shown.has_value()) << shown.error().sentence;
  EXPECT_TRUE(shown->same_file);
  EXPECT_THAT(shown->verbatim, ::testing::IsEmpty());
  for (const char* part :
       {".var raw : file, size=3, align=64, file=\"raw.dat\"", ".var p : pointer, to=later",
        "list=[later, w]", ".sem stored = 100", "instances=[a, \"b c\"]", "ring=128",
        "x f32 [2048] * 0.5, scratch f32 [2048] * 3 -> scratch f32 [2048], queue=q, op=fma, "
        "scale=2",
        ".var packed : file, size=4, file=\"packed.dat\", encoding=streams",
        "x [2048] -> scratch [2064], queue=q, op=compress",
        "scratch [2064] -> scratch + 0x1000 [2048], queue=q, op=decompress", "constant=-1.5",
        "shape=[1, 16, 32, 1], element=4", "function=f", "function=main", "dma_trigger load_x_1",
        "wait(loaded >= 16, e3 == 1)  @7", ".entry f function", ".var x : f32 [128, 4] input"}) {
    EXPECT_THAT(shown->text, HasSubstr(part));
  }
  const Assembled second = assemble(shown->text, {});
  ASSERT_TRUE(second.ok()) << render(second.errors, "t", shown->text);
  EXPECT_EQ(*write(second.assembly), *file);
}

// The name of the main program stands for no function, wherever the program lies in the file.
TEST(Assembler, TransfersOfAFunctionInFrontOfTheMainProgramAreItsOwn) {
  const Assembled result = assembled(R"(.engine SP
.dma 0 : x -> sbuf [128:262144, 16], queue=q, function=early
.dma 1 : x -> sbuf + 32 [128:262144, 16], queue=q, function=main
.entry early function
  dma_trigger 0
  ret
main:
  dma_trigger 1
  ret
)");
  ASSERT_TRUE(result.ok()) << render(result.errors, "t", "");
  const auto file = write(result.assembly);
  ASSERT_TRUE(file.has_value()) << file.error().sentence;
  const auto container = neff::Container::open(*file);
  const auto model = neff::load_model(*container, {});
  ASSERT_TRUE(model.has_value()) << model.error().sentence;
  const neff::EngineProgram& program = model->subgraphs[0].engines[NEURON_ENGINE_SP];
  EXPECT_EQ(program.main, 1U);
  EXPECT_EQ(program.entries.at(0).name, "early");
  EXPECT_EQ(program.dma.at(0).function, 0U);
  EXPECT_EQ(program.dma.at(1).function, std::nullopt);
}

// Two programs of a logical core. The number of the semaphore is that of the other core's list.
std::string two_cores(const std::string& told, const std::string& write,
                      const std::string& transfer, unsigned lnc = 2) {
  return ".target trn2, lnc=" + std::to_string(lnc) + R"(
.subgraph sg00
.var x : f32 [64] input, name=x
.var t : f32 [64] tmp-buf
.queue q = data, engines=2
.engine SP
.dma 0 : x -> t, queue=q)" +
         transfer + R"(
main:
  dma_trigger 0
  )" + write +
         R"(
  ret
)" + (lnc == 1 ? "" : R"(.subgraph sg01
.sem )" + told + R"(
.var y : f32 [64] output, name=y
.engine SP
main:
  event  wait(told >= 1)  then(told -= 1)
  ret
)");
}

TEST(Assembler, AProgramNamesTheSemaphoresOfItsOtherCoreAndTheTextComesBack) {
  const std::string text =
      two_cores("told = 9", "write at=&sem_addr:peer:told s0=1", ", remote=[9, 15]");
  const Assembled first = assemble(text, {});
  ASSERT_TRUE(first.ok()) << render(first.errors, "t", text);
  const auto file = write(first.assembly);
  ASSERT_TRUE(file.has_value()) << file.error().sentence;
  const auto shown = disassemble(*file);
  ASSERT_TRUE(shown.has_value()) << shown.error().sentence;
  EXPECT_TRUE(shown->same_file);
  EXPECT_THAT(shown->text, HasSubstr("at=&sem_addr:peer:told"));
  EXPECT_THAT(shown->text, HasSubstr("remote=[9, 15]"));
  EXPECT_THAT(shown->text, HasSubstr(".sem told = 9"));
  const auto container = neff::Container::open(*file);
  ASSERT_TRUE(container);
  const auto model = neff::load_model(*container, {});
  ASSERT_TRUE(model) << model.error().sentence;
  const neff::EngineProgram& sp = model->subgraphs[0].engines[NEURON_ENGINE_SP];
  EXPECT_EQ(sp.dma[0].remote_semaphores, (std::vector<uint8_t>{9, 15}));
  for (const neff::Relocation& relocation : sp.relocations) {
    if (!relocation.of_peer()) continue;
    EXPECT_EQ(model->subgraphs[1].semaphores[relocation.target].number, 9);
  }
}

TEST(Assembler, WhatTheOtherCoreCannotRaiseIsRefusedWithTheReason) {
  const auto error = [](const std::string& text) {
    const Assembled assembled = assemble(text, {});
    return assembled.ok() ? std::string() : render(assembled.errors, "t", text);
  };
  EXPECT_THAT(error(two_cores("told = 20", "write at=&sem_addr:peer:told s0=1", "")),
              HasSubstr("it is number 20 there; the other core raises those of 8 to 15 only"));
  EXPECT_THAT(error(two_cores("told = 9", "write at=&sem_addr:peer:untold s0=1", "")),
              HasSubstr("the def.json of the other core has no such semaphore"));
  EXPECT_THAT(error(two_cores("told = 9", "nop", ", remote=[16]")),
              HasSubstr("a semaphore of the other core of two"));
  EXPECT_THAT(error(two_cores("", "nop", ", remote=[9]", 1)),
              HasSubstr("increments 1 semaphores of another core (remote_semaphores); this program "
                        "is for logical cores of 1"));
  EXPECT_THAT(error(two_cores("", "write at=&sem_addr:peer:told s0=1", "", 1)),
              HasSubstr("it is of the other core, but this program is for logical cores of 1"));
  EXPECT_THAT(
      error(".target trn2\n.sem early = 9\n.var y : f32 [4] output, name=y\n.engine SP\n"
            "main:\n  ret\n"),
      HasSubstr("semaphore \"early\" is number 9, which the other core of a logical core of "
                "two raises"));
}

TEST(Assembler, ATransferHasAClassOfServiceOnGeneration4) {
  const std::string text = R"(.neff name=test, build=unit
.target trn3
.var x : f32 [128, 4] input
.var scratch : tmp-buf, size=2048
.queue q = data, engines=16, owner=SP
.engine SP
.dma 0 : x -> scratch [2048], queue=q, priority=2
main:
  dma_trigger 0
  ret
)";
  const Assembled first = assemble(text, {});
  ASSERT_TRUE(first.ok()) << render(first.errors, "t", text);
  EXPECT_EQ(sp(first).dma[0].priority, 2);
  const auto file = write(first.assembly);
  ASSERT_TRUE(file.has_value()) << file.error().sentence;
  const auto shown = disassemble(*file);
  ASSERT_TRUE(shown.has_value()) << shown.error().sentence;
  EXPECT_TRUE(shown->same_file);
  EXPECT_THAT(shown->text, HasSubstr("queue=q, priority=2"));
  EXPECT_THAT(refusal(".engine SP\n.dma 0 : x -> y, queue=q, priority=4\n"),
              HasSubstr("a class of service"));
}

TEST(Assembler, AnInstructionThatBreaksARuleIsRefusedWhereItStands) {
  const std::string matmul =
      "  matmul psum[0:128, 0x0] f32 [512] = psum[0:128, 0x0] bf16 [512], new\n  ret\n";
  EXPECT_THAT(refusal(".engine PE\n" + matmul), HasSubstr("2:3: matmul: src0: "));
  EXPECT_THAT(refusal(".engine PE\n" + matmul), HasSubstr(".check off"));
  EXPECT_EQ(refusal(".engine PE\n.check off\n" + matmul), "accepted");
  EXPECT_THAT(refusal(".engine DVE\n" + matmul), HasSubstr("matmul"));
}

TEST(Assembler, EveryMistakeHasItsPlace) {
  EXPECT_EQ(refusal(".engine SP\n  ret\n"), "accepted");
  EXPECT_THAT(refusal("  ret\n"), HasSubstr("1:3: found \"ret\", expected a directive"));
  EXPECT_THAT(refusal(".engine TPU\n"), HasSubstr("1:9: found \"TPU\", expected PE, Activation"));
  EXPECT_THAT(refusal(".engine SP\n ret\n.engine SP\n ret\n"), HasSubstr("3:9"));
  EXPECT_THAT(refusal(".engine SP\n"), HasSubstr("SP of sg00 has no instruction"));
  EXPECT_THAT(refusal(""), HasSubstr("names no engine"));
  EXPECT_THAT(refusal(".var x : tmp-buf, size=4\n"),
              HasSubstr("1:6: found \"x\", expected a name that no other variable has"));
  EXPECT_THAT(refusal(".var z : tmp-buff, size=4\n"), HasSubstr("input, output, file, tmp-buf"));
  EXPECT_THAT(refusal(".var z : tmp-buf\n"), HasSubstr("expected size=BYTES"));
  EXPECT_THAT(refusal(".var z : pointer, to=nowhere\n.engine SP\n ret\n"),
              HasSubstr("1:22: found \"nowhere\", expected a variable of sg00"));
  EXPECT_THAT(refusal(".var z : file, file=\"z.npy\"\n.engine SP\n ret\n"),
              HasSubstr("has no contents"));
  EXPECT_THAT(refusal(".const z : f32 [3] = 1, 2\n"), HasSubstr("3 numbers, or one for all"));
  EXPECT_THAT(refusal(".sem loaded\n"), HasSubstr("1:6"));
  EXPECT_THAT(refusal(".sem other = 100\n"), HasSubstr("a number that no other semaphore has"));
  EXPECT_THAT(refusal(".sem other = 5\n"), HasSubstr("from 8 to 239"));
  EXPECT_THAT(refusal(".queue r = dta\n"), HasSubstr("in, out, data, embedding_update, dynamic"));
  EXPECT_THAT(refusal(".engine SP\n.dma 0 : x -> nowhere\n ret\n"), HasSubstr("2:15: found"));
  // The file has JSON's numbers.
  for (const char* text :
       {"x f32 [16] * inf -> y f32 [16], op=fma", "x f32 [16] -> y f32 [16], op=fma, scale=nan",
        "x f32 [16] -> y f32 [16], op=min, constant=-inf"}) {
    EXPECT_THAT(refusal(std::string(".engine SP\n.dma 0 : ") + text + "\n ret\n"),
                HasSubstr("expected a finite number"));
  }
  EXPECT_THAT(refusal(".engine SP\n.dma 0 : x + 5000 -> sbuf\n ret\n"),
              HasSubstr("the offset is 5000, expected less than the 2048 bytes of x"));
  EXPECT_THAT(refusal(".engine SP\n dma_trigger load\n ret\n"), HasSubstr("2:14: found \"load\""));
  EXPECT_THAT(refusal(".engine SP\n branch always there\n ret\n"),
              HasSubstr("2:16: found \"there\", expected a label"));
  EXPECT_THAT(refusal(".engine SP\n loop r0 = 0 .. 3 {\n nop\n"), HasSubstr("2:1: this loop"));
  EXPECT_THAT(refusal(".engine SP\n }\n ret\n"), HasSubstr("no loop is open"));
  EXPECT_THAT(refusal(".engine SP\na:\na:\n ret\n"), HasSubstr("3:1"));
  EXPECT_THAT(refusal(".engine SP\n .frobnicate\n ret\n"), HasSubstr("expected a directive"));
  EXPECT_THAT(refusal(".member \"m\" text <<END\nx\n"), HasSubstr("that ends the contents"));
  EXPECT_THAT(refusal(".member \"m\" from \"m\"\n"), HasSubstr("with text or base64"));
}

TEST(Assembler, WhatAReaderOfTheFileRefusesHasTheLineThatDeclaresIt) {
  EXPECT_THAT(refusal(".engine SP\n.dma 0 : x [4] -> sbuf [4]\n.dma 1 : x [4] -> sbuf [8]\n ret\n"),
              HasSubstr("3:6: sg00/SP.json: dma[1].desc"));
  EXPECT_THAT(refusal(".var odd : tmp-buf, size=8, align=3\n.engine SP\n ret\n"),
              HasSubstr("1:6: sg00/def.json: var.odd.alignment"));
  EXPECT_THAT(refusal(".engine SP\n ret\n.engine PE\n write at=&scratch, s0=1\n ret\n"),
              HasSubstr("4:2: sg00/PE.bin: relocation of \"scratch\" at instruction 0"));
  EXPECT_THAT(refusal(".engine SP\n"), HasSubstr("1:9: SP of sg00 has no instruction"));
}

TEST(Assembler, AnErrorOfTheWholeTextHasAPlaceToo) {
  for (const auto& [text, line, column] :
       {std::tuple{"\n# \xC3\xA4 \xFF", 2U, 6U}, {"", 1U, 1U}, {".engine SP\n\xC3", 2U, 1U}}) {
    const Assembled result = assemble(text, {});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.errors[0].line, line) << result.errors[0].message;
    EXPECT_EQ(result.errors[0].column, column) << result.errors[0].message;
  }
}

TEST(Assembler, AnUnknownOperationOrFunctionComesWithTheListOfThem) {
  EXPECT_THAT(
      refusal(".engine DVE\n tensor_reduce sbuf[0:128, 0] f32 [4] = sbuf[0:128, 64] f32 [4], "
              "reduce=frob, axes=1\n ret\n"),
      ::testing::AllOf(HasSubstr("an operation: bypass, add,"), HasSubstr("shr_arith")));
  EXPECT_THAT(refusal(".engine Activation\n activate sbuf[0:128, 0] f32 [4] = frob sbuf[0:128, 64] "
                      "f32 [4]\n ret\n"),
              ::testing::AllOf(HasSubstr("table128"), HasSubstr("exp"), HasSubstr("gelu")));
}

// Two transfers of a queue, and `code`.
std::string triggers(const std::string& code) {
  return ".engine SP\n"
         ".dma 0 one : x -> sbuf [128:262144, 16], queue=q\n"
         ".dma 1 two : x -> sbuf + 16 [128:262144, 16], queue=q\n"
         ".dma 0 one : x -> sbuf + 32 [128:262144, 16], queue=q\n" +
         code + " ret\n";
}

TEST(Assembler, ATriggerThatNamesAnotherTransferThanTheNextIsRefused) {
  const std::string order = ", expected \"two\", the .dma of line ";
  EXPECT_THAT(refusal(triggers(" dma_trigger one\n dma_trigger one\n")),
              HasSubstr("6:2: found \"one\" as the next trigger of queue \"q\"" + order));
  EXPECT_THAT(refusal(triggers(" loop r0 = 0 .. 2 step 1 {\n dma_trigger one\n }\n")),
              HasSubstr("6:2: found \"one\""));
  EXPECT_THAT(refusal(triggers(" mov r1 = 3\n branch gt r1, 2, there\n dma_trigger one\nthere:\n"
                               " dma_trigger two\n")),
              HasSubstr("9:2: found \"two\" as the next trigger of queue \"q\", expected \"one\""));
  EXPECT_THAT(
      refusal(triggers(" dma_trigger one\n dma_trigger two\n dma_trigger one\n"
                       " dma_trigger two\n")),
      HasSubstr("8:2: found \"two\" as the next trigger of queue \"q\", expected no trigger "
                "any more"));
}

TEST(Assembler, TriggersInTheOrderOfTheTransfersAreAccepted) {
  for (const char* code :
       {" dma_trigger one\n dma_trigger two\n dma_trigger one\n", " dma_trigger 0\n",
        // The way on depends on data.
        " sem r1 = 20\n branch eq r1, 0, there\n dma_trigger one\nthere:\n dma_trigger two\n",
        " .check off\n dma_trigger two\n .check on\n",
        // A loop that runs the list once, and a function that runs it.
        " loop r0 = 0 .. 1 step 1 {\n dma_trigger one\n dma_trigger two\n }\n dma_trigger one\n"}) {
    const Assembled result = assembled(triggers(code));
    EXPECT_TRUE(result.ok()) << code << render(result.errors, "t", triggers(code));
  }
}

TEST(Assembler, CollectivesAreWhatTheLoaderReads) {
  const auto result = assemble(R"(.sem done_here = 30
.var h : tmp-buf, size=4096
.var b : state-buffer, size=0x2000000
.collective all_reduce bf16 [1024] max : h + 1024 -> b + 0x40 [16, 128], stream=1, semaphore=done_here, add=16, algorithm=ring
.collective all_gather f32 [64] : h -> b [8, 64], groups=[[0, 2], [3, 1]]
.collective permute u8 [8] : h -> h, pairs=[[0, 1], [1, 0]]
.collective reduce i32 [8] : h -> h + 32, root=1, stream=1
.collective all_to_all_v f32 : h -> h + 2048, counts=[1, 2, 3, 4]
.collective barrier, stream=2, semaphore=30
.engine SP
  cc_trigger at=&cc:1 s0=1
  ret
)",
                               {});
  ASSERT_TRUE(result.ok()) << render(result.errors, "text", "");
  const auto file = write(result.assembly);
  ASSERT_TRUE(file.has_value()) << file.error().sentence;
  const auto container = neff::Container::open(*file);
  const auto model = neff::load_model(*container, {});
  ASSERT_TRUE(model.has_value()) << model.error().sentence;
  const neff::Subgraph& graph = model->subgraphs[0];
  ASSERT_EQ(graph.operations.size(), 6U);
  const neff::Collective& first = graph.operations[0];
  EXPECT_EQ(first.type, CCOM_BF16);
  EXPECT_EQ(first.reduction, CCOM_MAX);
  EXPECT_EQ(first.count, 1024U);
  EXPECT_EQ(first.input_offset, 1024U);
  EXPECT_EQ(first.output_rows.partitions, 16U);
  EXPECT_EQ(first.output_rows.row_bytes, 128U);
  EXPECT_EQ(first.output_rows.first_byte(), 0x40U);
  EXPECT_EQ(first.stream, 1U);
  EXPECT_EQ(first.semaphore, 30);
  EXPECT_EQ(first.semaphore_add, 16);
  EXPECT_EQ(first.algorithm, CCOM_RING);
  EXPECT_EQ(graph.operations[1].groups, (std::vector<std::vector<uint32_t>>{{0, 2}, {3, 1}}));
  EXPECT_EQ(graph.operations[2].pairs.size(), 2U);
  EXPECT_EQ(graph.operations[3].root, 1U);
  EXPECT_EQ(graph.operations[4].displacements, (std::vector<uint64_t>{0, 1, 0, 3}));
  EXPECT_EQ(graph.operations[5].operation, CCOM_BARRIER);
  const auto& relocation = graph.engines[NEURON_ENGINE_SP].relocations.at(0);
  EXPECT_EQ(relocation.symbol, "cc:1");
  EXPECT_EQ(relocation.addend, static_cast<int64_t>(NEURON_SEM_BLOCK_INC));
  const auto text = disassemble(*file);
  ASSERT_TRUE(text.has_value());
  EXPECT_TRUE(text->same_file) << text->text;
}

TEST(Assembler, EveryMistakeInACollectiveHasItsPlace) {
  const auto of = [](const std::string& line) {
    return refusal(".var h : tmp-buf, size=4096\n.var b : state-buffer, size=0x2000000\n" + line +
                   "\n.engine SP\n  ret\n");
  };
  EXPECT_EQ(of(".collective all_reduce f32 [8] : h -> b [128, 4]"), "accepted");
  EXPECT_THAT(of(".collective allreduce f32 [8] : h -> h"),
              HasSubstr("3:13: found \"allreduce\", expected all_reduce, all_gather"));
  EXPECT_THAT(of(".collective all_reduce tf32 [8] : h -> h"),
              HasSubstr("3:24: found \"tf32\", expected uint8, int8"));
  EXPECT_THAT(of(".collective all_reduce f32 : h -> h"), HasSubstr("3:28: found \":\""));
  EXPECT_THAT(of(".collective all_reduce f32 [8] mean : h -> h"),
              HasSubstr("3:32: found \"mean\", expected add, min, max, product, average"));
  EXPECT_THAT(of(".collective all_gather f32 [8] max : h -> h"),
              HasSubstr("3:32: found \"max\", expected \":\"; all_gather reduces nothing"));
  EXPECT_THAT(of(".collective all_reduce f32 [8] : nowhere -> h"),
              HasSubstr("3:34: found \"nowhere\", expected a variable of sg00"));
  EXPECT_THAT(of(".collective all_reduce f32 [8] : h -> x"),
              HasSubstr("3:39: found \"x\", expected a tmp-buf or a state-buffer"));
  EXPECT_THAT(of(".collective all_reduce f32 [8] : h -> b"), HasSubstr("3:40"));
  EXPECT_THAT(of(".collective all_reduce f32 [8] : h -> b [129, 4]"),
              HasSubstr("3:41: found \"[\", expected up to 128 partitions"));
  EXPECT_THAT(of(".collective all_reduce f32 [8] : h -> b [128, 6]"),
              HasSubstr("3:39: rows of 6 bytes"));
  EXPECT_THAT(of(".collective all_reduce f32 [8] : h -> b + 0x40000 [128, 4]"),
              HasSubstr("3:39: 128 partitions from partition 1 on"));
  EXPECT_THAT(of(".collective all_reduce f32 [1025] : h -> b [128, 4]"),
              HasSubstr("3:37: 4100 bytes at 0 of \"h\", which has 4096"));
  EXPECT_THAT(of(".collective all_reduce f32 [8] : b [8, 4] -> b + 2 [8, 4]"),
              HasSubstr("3:46: rows of 4 bytes from byte 2"));
  EXPECT_THAT(of(".collective all_reduce f32 [8] : b [8, 8] -> b + 4 [8, 8]"),
              HasSubstr("3:46: the input (partitions 0 to 3"));
  EXPECT_THAT(of(".collective all_reduce f32 [8] : h -> h, colour=1"),
              HasSubstr("3:42: found \"colour\", expected one of the keys stream, semaphore"));
  EXPECT_THAT(of(".collective all_reduce f32 [8] : h -> h, semaphore=nobody"),
              HasSubstr("3:52: found \"nobody\", expected a semaphore; name it with .sem"));
  EXPECT_THAT(of(".collective all_reduce f32 [8] : h -> h, groups=[[0, 1], [1, 2]]"),
              HasSubstr("3:49: found \"[\", expected groups that are equally large"));
  EXPECT_THAT(of(".collective permute f32 [8] : h -> h, pairs=[[0]]"),
              HasSubstr("expected pairs of ranks"));
  EXPECT_THAT(of(".collective all_gather_v f32 : h -> h"), HasSubstr("counts=[...]"));
  EXPECT_THAT(of(".collective barrier, stream=9"),
              HasSubstr("3:29: found 9, expected a stream from 0 to 3"));
  EXPECT_THAT(refusal(".engine SP\n  cc_trigger at=&cc:7 s0=1\n  ret\n"), HasSubstr("2:21"));
}

TEST(Assembler, DebugLinesPointIntoTheText) {
  AssembleOptions options;
  options.file_name = "k.s";
  options.debug_lines = true;
  const Assembled result =
      assemble(std::string(kHeader) + ".engine SP\n  nop\n\n  nop @9\n ret\n", options);
  ASSERT_TRUE(result.ok());
  const neff::EngineProgram& program = sp(result);
  ASSERT_EQ(program.lines.size(), 2U);
  EXPECT_EQ(program.lines[0].file, "k.s");
  EXPECT_EQ(program.lines[0].line, 8U);
  EXPECT_EQ(program.lines[0].column, 3U);
  EXPECT_EQ(program.lines[1].line, 11U);
  EXPECT_EQ(at(program, 1).debug, 9U);
}

TEST(Diagnostics, ShowTheLineAndACaret) {
  const std::string text = std::string(kHeader) + ".engine SP\n\tevent wait(full >= 1)\n";
  const Assembled result = assemble(text, {});
  ASSERT_EQ(result.errors.size(), 1U);
  EXPECT_EQ(render(result.errors, "k.s", text),
            "k.s:8:13: found \"full\", expected a semaphore; name it with .sem before\n"
            "  8 |  event wait(full >= 1)\n"
            "    |             ^\n");
}

TEST(Assembler, StopsAfterTwentyErrors) {
  std::string text = kHeader;
  for (int i = 0; i < 100; ++i) text += ".bad\n";
  EXPECT_EQ(assemble(text, {}).errors.size(), kMostErrors);
}

}  // namespace
}  // namespace neuron::assembler
