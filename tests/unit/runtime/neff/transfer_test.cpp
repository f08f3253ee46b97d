// SPDX-License-Identifier: Apache-2.0
// Fields of the engine JSON and of queue sets that change what a transfer does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "runtime/neff/model_reader.h"
#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::neff {
namespace {

using test::must;
using test::SampleProgram;
using testing::HasSubstr;

// The sample with another description of its third transfer (scratch, 4096 bytes, to y, 256).
SampleProgram with_description(const std::string& desc) {
  SampleProgram sample;
  sample.edit("sg00/SP.json", R"("desc": {"op": "cast", "from": "scratch",
   "from_dtype": "float32", "to_dtype": "bfloat16", "from_sizes": [512], "from_steps": [1], "to": "y"})",
              "\"desc\": {" + desc + "}");
  return sample;
}

runtime::Result<DmaTransfer> read(const SampleProgram& sample, size_t index = 2) {
  const auto file = sample.pack();
  NEURON_TRY(container, Container::open(file));
  NEURON_TRY(model, load_model(container, {}));
  return model.subgraphs[0].engines[NEURON_ENGINE_SP].dma[index];
}

DmaTransfer accepted(const std::string& desc) { return must(read(with_description(desc))); }

void expect_transfer_refused(const SampleProgram& sample, const std::string& sentence) {
  const auto transfer = read(sample);
  ASSERT_FALSE(transfer) << "accepted, expected: " << sentence;
  EXPECT_EQ(transfer.error().status, NRT_INVALID);
  EXPECT_THAT(transfer.error().sentence, HasSubstr(sentence));
}
void expect_transfer_refused(const std::string& desc, const std::string& sentence) {
  expect_transfer_refused(with_description(desc), sentence);
}

const std::string kTo = R"("to": "y", "to_dtype": "float32", "from_dtype": "float32")";
std::string source(int offset, const std::string& more = "") {
  return R"({"from": "scratch", "from_dtype": "float32", "from_sizes": [256], "from_steps": [1], "from_off": )" +
         std::to_string(offset) + more + "}";
}

TEST(Transfer, GivesEachSourceOfAnFmaItsScale) {
  const DmaTransfer t = accepted(R"("op": "fma", "scale": 0.5, "from_arr": [)" + source(0) + "," +
                                 source(256, ", \"scale\": -2") + "], " + kTo);
  EXPECT_EQ(t.scale, 0.5f);
  ASSERT_EQ(t.from.size(), 2u);
  EXPECT_EQ(t.from[0].scale, 0.5f);
  EXPECT_EQ(t.from[1].scale, -2.0f);
  EXPECT_EQ(accepted("\"op\": \"fma\", \"from_arr\": [" + source(0) + "], " + kTo).from[0].scale,
            1);
}

TEST(Transfer, CompressesAndDecompressesBetweenSidesOfAnyLengths) {
  const std::string sides = R"(, "from": "scratch", "from_sizes": [100], "from_steps": [1],
      "to": "y")";
  const DmaTransfer packs = accepted(R"("op": "compress")" + sides);
  EXPECT_EQ(packs.operation, DmaOperation::kCompress);
  EXPECT_EQ(packs.from[0].bytes(), 100u);
  EXPECT_EQ(packs.to.bytes(), 256u);
  EXPECT_EQ(accepted(R"("op": "decompress")" + sides).operation, DmaOperation::kDecompress);
  expect_transfer_refused(
      R"("op": "decompress", "to": "y", "from_arr": [)" + source(0) + "," + source(256) + "]",
      "a decompress of 2 sources, expected one");
}

TEST(Transfer, TakesConstantsOfThreeTypesAndTheInfinityForNone) {
  const auto constant = [](const std::string& op, const std::string& more) {
    return accepted("\"op\": \"" + op + "\", \"from_arr\": [" + source(0) + "], " + kTo + more);
  };
  EXPECT_EQ(constant("min", ", \"constant\": 1.5").constant, std::bit_cast<uint32_t>(1.5f));
  const DmaTransfer integer = constant("max", R"(, "constant": -7, "constant_dtype": "int32")");
  EXPECT_EQ(integer.constant, static_cast<uint32_t>(-7));
  EXPECT_EQ(integer.constant_dtype, NEURON_DTYPE_I32);
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(constant("min", "").constant, std::bit_cast<uint32_t>(infinity));
  EXPECT_EQ(constant("max", "").constant, std::bit_cast<uint32_t>(-infinity));
  expect_transfer_refused("\"op\": \"max\", \"from_arr\": [" + source(0) + "], " + kTo +
                              R"(, "constant": 1.5, "constant_dtype": "uint32")",
                          "desc.constant: found 1.5 as uint32");
}

TEST(Transfer, ChecksTheShapeOfATranspose) {
  const std::string sides = R"("op": "transpose", "from": "scratch", "from_sizes": [256],
      "from_steps": [1], "to": "y", "transpose_element_size": 2, "transpose_shape": )";
  const DmaTransfer t = accepted(sides + "[2, 8, 4, 2]");
  EXPECT_EQ(t.transpose_shape, (std::array<uint32_t, 4>{2, 8, 4, 2}));
  EXPECT_EQ(t.transpose_element_bytes, 2u);
  expect_transfer_refused(sides + "[2, 8, 4, 3]",
                          "transpose_shape: has 192 elements of 2 bytes, the sides have 128");
  expect_transfer_refused(sides + "[2, 8, 4]", "transpose_shape: 3 numbers, expected 4");
  expect_transfer_refused(
      R"("op": "transpose", "from": "scratch", "from_sizes": [255], "from_steps": [1],
      "to": "y", "to_sizes": [255], "to_steps": [1], "transpose_element_size": 3,
      "transpose_shape": [85, 1, 1, 1])",
      "transpose_element_size: found 3, expected 1, 2, 4 or 8");
}

TEST(Transfer, RefusesSourcesThatItsOperationDoesNotTake) {
  expect_transfer_refused(
      "\"op\": \"cast\", \"from_arr\": [" + source(0) + "," + source(256) + "], " + kTo,
      "a cast of 2 sources, expected one");
  expect_transfer_refused(R"("op": "add", "from_arr": [)" + source(0) +
                              R"(, {"from": "scratch", "from_dtype": "int32", "from_sizes": [256],
                        "from_steps": [1]}], )" +
                              kTo,
                          "from_arr: sources of float32 and of int32");
  expect_transfer_refused(
      R"("op": "copy", "from": "scratch", "from_sizes": [256], "from_steps": [1],
      "from_dtype": "float32", "to": "y", "to_dtype": "int32")",
      "a copy does not turn float32 into int32");
}

TEST(Transfer, HasAClassOfServiceOnGeneration4Only) {
  SampleProgram sample;
  sample.edit("sg00/SP.json", R"({"id": 9, )", R"({"id": 9, "priority": 2, )");
  expect_transfer_refused(
      sample, "found 2, and the program is for generation 2: transfers have classes of");
  sample = SampleProgram();
  sample.edit("sg00/SP.json", R"({"id": 9, )", R"({"id": 9, "priority": 0, )");
  EXPECT_EQ(must(read(sample)).priority, 0);
  sample = SampleProgram();
  sample.edit("sg00/SP.json", R"({"id": 9, )", R"({"id": 9, "priority": 4, )");
  expect_transfer_refused(sample, "priority");
}

TEST(Transfer, AnOwnerIsTheOnlyEngineThatTriggers) {
  SampleProgram sample;
  sample.edit("sg00/def.json", "\"owner\": \"SP\"", "\"owner\": \"PE\"");
  expect_transfer_refused(sample,
                          "dma[0]: def.json says that PE triggers the queue set \"in\" (owner)");
}

TEST(Transfer, TheNameOfMainEndsAFunctionsSection) {
  SampleProgram sample;
  sample.edit(
      "sg00/SP.json", R"({"id": 9, "queue": "in", "function_start": "late",)",
      R"({"id": 4, "queue": "in", "function_start": "late", "desc": {"from": "w", "to": "scratch",
                   "to_sizes": [48], "to_steps": [1]}},
                 {"id": 9, "queue": "in", "function_start": "main",)");
  const auto transfer = read(sample, 3);
  // Transfer 9 is now of the main program, so the trigger in the function finds none of its own.
  ASSERT_FALSE(transfer);
  EXPECT_THAT(transfer.error().sentence, HasSubstr("\"9\""));
}

TEST(QueueSet, HasOneSemaphoreForEachQueueOrOneForAll) {
  SampleProgram sample;
  sample.edit("sg00/def.json", "[21, 22]", "[21, 22, 23]");
  expect_transfer_refused(sample, "dma_queue.data.semaphore_set: 3 semaphores, expected 2");
  SampleProgram both;
  both.edit("sg00/def.json", "[21, 22]", "[21, 22], \"semaphore\": 25");
  expect_transfer_refused(both, "has both semaphore and semaphore_set");
}

TEST(QueueSet, ADynamicOneSaysHowLongItsRingIs) {
  const auto dynamic = [](const std::string& more) {
    SampleProgram sample;
    sample.edit("sg00/def.json", "\"semaphore\": {\"loaded\"",
                R"("unused": {}, "semaphore": {"loaded")");
    sample.edit("sg00/def.json", "\"dma_queue\": {",
                R"("dma_queue": {"dyn": {"type": "dynamic")" + more + "}, ");
    return sample;
  };
  const auto ring = [&](const std::string& more) {
    const auto file = dynamic(more).pack();
    const auto container = must(Container::open(file));
    return must(load_model(container, {})).subgraphs[0].queues[0].ring_descriptors;
  };
  EXPECT_EQ(ring(""), 1024u);
  EXPECT_EQ(ring(", \"ring_descriptors\": 4096"), 4096u);
  expect_transfer_refused(dynamic(", \"ring_descriptors\": 40"),
                          "found 40, expected a multiple of 16");
  expect_transfer_refused(dynamic(", \"queue_instances\": [\"a\"]"), "so it has no instances");
}

TEST(DeviceLists, TablesOfActivationAndDveAreCarriedAndMustExist) {
  SampleProgram sample;
  sample.set_engine("sg00/Activation.bin", test::sample_engine(NEURON_ENGINE_ACTIVATION));
  sample.set_engine("sg00/DVE.bin", test::sample_engine(NEURON_ENGINE_DVE));
  sample.edit("sg00/def.json", R"("engines": {)",
              R"("engines": {"Activation": {"bin": "Activation.bin", "json": "Activation.json"},
                 "DVE": {"bin": "DVE.bin", "json": "DVE.json"}, )");
  sample.set("sg00/Activation.json", R"({"activation_function_sets": ["gelu_set"]})");
  sample.set("sg00/DVE.json", R"({"dve_tables": [{"control_table": "c.bin.txt",
     "datapath_table": "d.txt", "opcode_table": "o.txt"}]})");
  for (const char* name : {"sg00/c.bin.txt", "sg00/d.txt", "sg00/o.txt", "sg00/gelu_set_1.txt"}) {
    sample.set(name, "table");
  }
  const auto file = sample.pack();
  const auto container = must(Container::open(file));
  const Model model = must(load_model(container, {}));
  EXPECT_EQ(model.subgraphs[0].engines[NEURON_ENGINE_ACTIVATION].activation_function_sets,
            std::vector<std::string>{"gelu_set"});
  ASSERT_EQ(model.subgraphs[0].engines[NEURON_ENGINE_DVE].dve_tables.size(), 1u);
  EXPECT_EQ(model.subgraphs[0].engines[NEURON_ENGINE_DVE].dve_tables[0].datapath, "sg00/d.txt");
  sample.members.erase("sg00/gelu_set_1.txt");
  expect_transfer_refused(sample,
                          "activation_function_sets: the file has no member that begins with "
                          "\"sg00/gelu_set\"");
}

TEST(DebugInfo, NamesFunctionsAndTensorsByDebugId) {
  SampleProgram sample;
  sample.set("sg00/kernel_debug_info.json", R"({"files": ["k.py"],
      "functions": ["main", {"name": "tile", "debug": [3, 8]}],
      "tensors": [{"debug": [3, 4], "name": "w", "shape": [128, 64]}, {"debug": [4, 4], "name": "x"}]})");
  const auto file = sample.pack();
  const auto container = must(Container::open(file));
  const Model model = must(load_model(container, {}));
  const DebugInfo& info = model.subgraphs[0].debug;
  EXPECT_EQ(info.files, std::vector<std::string>{"k.py"});
  EXPECT_EQ(info.function_names, (std::vector<std::string>{"main", "tile"}));
  EXPECT_EQ(info.describe(4), "in tile, on w [128, 64] and x");
  EXPECT_EQ(info.describe(8), "in tile");
  EXPECT_EQ(info.describe(9), "");
  EXPECT_EQ(info.describe(0), "");
}

TEST(DebugInfo, WhatIsMalformedCostsTheNamesAndNotTheProgram) {
  SampleProgram sample;
  sample.set("kernel_debug_info.json", R"({"tensors": [{"debug": [5, 3], "name": "w"}]})");
  const auto file = sample.pack();
  const auto container = must(Container::open(file));
  const Model model = must(load_model(container, {}));
  EXPECT_TRUE(model.subgraphs[0].debug.tensors.empty());
  ASSERT_EQ(model.notes.size(), 1u);
  EXPECT_THAT(model.notes[0], HasSubstr("expected the first and the last debug id"));
}

}  // namespace
}  // namespace neuron::neff
