// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/model_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::neff {
namespace {

using runtime::Result;
using test::Buffer;
using test::SampleProgram;
using testing::HasSubstr;

// A model together with what its constants point into.
struct Loaded {
  Buffer file;
  Container container;
  Model model;
};

Result<Loaded> load_model(const SampleProgram& sample, const Target& target = {},
                          const ModelLimits& limits = {}) {
  Loaded loaded;
  loaded.file = sample.pack();
  NEURON_TRY(container, Container::open(loaded.file));
  loaded.container = std::move(container);
  NEURON_TRY(model, load_model(loaded.container, target, limits));
  loaded.model = std::move(model);
  return loaded;
}

void expect_model_refused(const SampleProgram& sample, NRT_STATUS status,
                          const std::string& sentence) {
  const auto loaded = load_model(sample);
  ASSERT_FALSE(loaded) << "accepted, expected: " << sentence;
  EXPECT_EQ(loaded.error().status, status) << loaded.error().sentence;
  EXPECT_THAT(loaded.error().sentence, HasSubstr(sentence));
}

TEST(Model, HasTheTensorsOfTheGraph) {
  const auto loaded = load_model(SampleProgram());
  ASSERT_TRUE(loaded) << loaded.error().sentence;
  const Model& model = loaded->model;
  EXPECT_EQ(model.name, "sample");
  EXPECT_EQ(model.target, "trn1");
  EXPECT_EQ(model.generation, 2u);
  EXPECT_EQ(model.notes, std::vector<std::string>());
  ASSERT_EQ(model.inputs.size(), 1u);
  EXPECT_EQ(model.inputs[0].name, "x:0");
  EXPECT_EQ(model.inputs[0].dtype, NEURON_DTYPE_F32);
  EXPECT_EQ(model.inputs[0].shape, (std::vector<uint32_t>{4, 16}));
  EXPECT_EQ(model.inputs[0].size, 256u);
  EXPECT_EQ(model.inputs[0].format, "NC");
  ASSERT_EQ(model.outputs.size(), 1u);
  EXPECT_EQ(model.outputs[0].dtype, NEURON_DTYPE_BF16);
  EXPECT_EQ(model.subgraphs[0].variables[model.outputs[0].variable].name, "y");
}

TEST(Model, HasTheVariablesWithTheirContents) {
  const auto loaded = load_model(SampleProgram());
  ASSERT_TRUE(loaded) << loaded.error().sentence;
  const std::vector<Variable>& variables = loaded->model.subgraphs[0].variables;
  ASSERT_EQ(variables.size(), 9u);
  EXPECT_EQ(variables[1].alignment, 64u);
  EXPECT_EQ(variables[2].kind, VariableKind::kFile);
  ASSERT_EQ(variables[2].contents.size(), 48u);  // Behind the .npy header
  EXPECT_EQ(variables[2].contents[47], 47);
  EXPECT_EQ(std::string(variables[3].contents.begin(), variables[3].contents.end()), "bytes");
  EXPECT_EQ(variables[5].backing_offset, 512u);
  EXPECT_EQ(variables[6].referenced, 4u);
  EXPECT_EQ(variables[7].list, (std::vector<uint32_t>{4, 2}));
  EXPECT_EQ(variables[8].kind, VariableKind::kStateBuffer);
}

TEST(Model, HasTheWordThatCountsWhatAnOutputHas) {
  SampleProgram sample;
  sample.edit("sg00/def.json", "\"size\": 256, \"alignment\"",
              R"("size": 256, "true_size": {"var_id": 5, "unit": 4}, "alignment")");
  const auto loaded = load_model(sample);
  ASSERT_TRUE(loaded) << loaded.error().sentence;
  const std::vector<Variable>& variables = loaded->model.subgraphs[0].variables;
  const auto with_size = std::ranges::find_if(
      variables, [](const Variable& variable) { return variable.true_size.has_value(); });
  ASSERT_NE(with_size, variables.end());
  EXPECT_EQ(with_size->name, "y");
  EXPECT_EQ(with_size->true_size->unit, 4U);
  EXPECT_EQ(variables[with_size->true_size->counter].name, "scratch");
}

TEST(Model, HasQueuesSemaphoresAndTransfers) {
  const auto loaded = load_model(SampleProgram());
  ASSERT_TRUE(loaded) << loaded.error().sentence;
  const Subgraph& subgraph = loaded->model.subgraphs[0];
  ASSERT_EQ(subgraph.queues.size(), 2u);
  EXPECT_EQ(subgraph.queues[0].num_queues, 16u);
  EXPECT_EQ(subgraph.queues[0].owner, NEURON_ENGINE_SP);
  EXPECT_EQ(subgraph.queues[0].semaphore, 20);
  EXPECT_EQ(subgraph.queues[1].semaphore_set, (std::vector<uint8_t>{21, 22}));
  ASSERT_EQ(subgraph.semaphores.size(), 2u);
  const std::vector<DmaTransfer>& dma = subgraph.engines[NEURON_ENGINE_SP].dma;
  ASSERT_EQ(dma.size(), 3u);
  EXPECT_EQ(dma[0].semaphore, 20);
  EXPECT_EQ(dma[0].from[0].bytes(), 256u);  // Taken from the shape of the other side.
  EXPECT_EQ(dma[0].to.runs(), 4u);
  EXPECT_EQ(dma[0].to.steps[1], 0x40000);
  EXPECT_FALSE(dma[0].function);
  EXPECT_EQ(dma[1].instance, "data_b");
  EXPECT_EQ(dma[1].queue, 1u);
  EXPECT_EQ(dma[1].event, 3);
  EXPECT_EQ(dma[1].from[0].bytes(), 32u);
  EXPECT_EQ(dma[2].operation, DmaOperation::kCast);
  EXPECT_EQ(dma[2].function, 1u);
  EXPECT_EQ(dma[2].to.bytes(), 256u);
}

TEST(Model, ResolvesRelocationsToWhatTheyName) {
  const auto loaded = load_model(SampleProgram());
  ASSERT_TRUE(loaded) << loaded.error().sentence;
  const EngineProgram& program = loaded->model.subgraphs[0].engines[NEURON_ENGINE_SP];
  ASSERT_EQ(program.relocations.size(), 4u);
  EXPECT_EQ(program.relocations[0].target, 0u);  // Semaphore "loaded"
  EXPECT_EQ(program.relocations[1].target, 0u);  // Transfer 7
  EXPECT_EQ(program.relocations[2].target, 4u);  // Variable "scratch"
  EXPECT_EQ(program.relocations[3].target, 2u);  // Transfer 9 of the function
  EXPECT_EQ(program.instructions(), 4u);
  EXPECT_TRUE(loaded->model.subgraphs[0].engines[NEURON_ENGINE_DVE].code.empty());
}

TEST(Model, NotesUnknownKeysAndGoesOn) {
  SampleProgram sample;
  sample.edit("neff.json", "\"version\": 1", "\"version\": 1, \"colour\": \"red\"");
  sample.edit("sg00/SP.json", "\"event\": 3", "\"event\": 3, \"later\": {}");
  const auto loaded = load_model(sample);
  ASSERT_TRUE(loaded) << loaded.error().sentence;
  EXPECT_THAT(loaded->model.notes,
              testing::ElementsAre("neff.json: colour: unknown key, ignored",
                                   "sg00/SP.json: dma[1].later: unknown key, ignored"));
}

TEST(Model, TreatsANameInBothListsAsOneBuffer) {
  SampleProgram sample;
  sample.edit("neff.json",
              "\"name\": \"y:0\", \"variable\": \"y\", \"dtype\": \"bfloat16\", \"shape\": [128]",
              "\"name\": \"x:0\", \"variable\": \"x\", \"dtype\": \"float32\", \"shape\": [64]");
  sample.edit("sg00/def.json", "\"type\": \"output\"", "\"type\": \"tmp-buf\"");
  const auto loaded = load_model(sample);
  ASSERT_TRUE(loaded) << loaded.error().sentence;
  EXPECT_EQ(loaded->model.inputs[0].variable, loaded->model.outputs[0].variable);
}

TEST(Model, RefusesAKeyThatStandsTwice) {
  SampleProgram sample;
  sample.edit("sg00/def.json", "\"size\": 4096", "\"size\": 4096, \"size\": 8192");
  expect_model_refused(sample, NRT_INVALID, "sg00/def.json: line 7, column");
  expect_model_refused(sample, NRT_INVALID, "the key \"size\" stands twice in one object");
}

struct Fault {
  const char* member;
  const char* from;
  const char* to;
  const char* sentence;
};

class RefusedEdit : public testing::TestWithParam<Fault> {};

TEST_P(RefusedEdit, NamesMemberFieldFoundAndExpected) {
  const Fault& fault = GetParam();
  SampleProgram sample;
  sample.edit(fault.member, fault.from, fault.to);
  expect_model_refused(sample, NRT_INVALID, fault.sentence);
}

const Fault kGraphFaults[] = {
    {"neff.json", "\"lnc\": 1", "\"lnc\": 3",
     "neff.json: lnc: found 3, expected a whole number from 1 to 2"},
    {"neff.json", "\"lnc\": 1", "\"lnc\": 2",
     "neff.json: nodes: 1 subgraphs, but the logical core size is 2"},
    {"neff.json", "\"name\": \"sg00\"", "\"name\": \"sg07\"",
     "neff.json: nodes[0].name: the file has no member \"sg07/def.json\""},
    {"neff.json", "\"subgraph\": \"sg00\"", "\"subgraph\": \"sg01\"",
     "neff.json: inputs[0].subgraph: \"sg01\" is not among the nodes"},
    {"neff.json", "\"float32\"", "\"float33\"",
     "neff.json: inputs[0].dtype: found \"float33\", which is no data type"},
    {"neff.json", "[4, 16]", "[4, 17]",
     "neff.json: inputs[0].size: found 256, but the shape in float32 has 272 bytes"},
    {"neff.json", "[4, 16]", "[4294967295, 4294967295, 16]",
     "neff.json: inputs[0].size: found 256"},
    {"neff.json", "[4, 16]", "[4, -16]",
     "neff.json: inputs[0].shape[1]: found -16, expected a whole number"},
    {"neff.json", "[4, 16]", "[4, 16.0]", "neff.json: inputs[0].shape[1]: found 1.6E1"},
    {"neff.json", "[4, 16]", "4", "neff.json: inputs[0].shape: found 4, expected a list"},
    {"neff.json", "\"variable\": \"x\"", "\"variable\": \"z\"",
     "neff.json: input \"x:0\": variable \"z\" of sg00 does not exist in def.json"},
    {"neff.json", "\"variable\": \"x\"", "\"variable\": \"y\"", "of sg00 is not of type input"},
    {"neff.json", "\"name\": \"y:0\"", "\"name\": \"y\\n0\"",
     "expected text of 1 to 255 bytes without control"},
    {"neff.json", "\"timeseries\": false", "\"timeseries\": 0",
     "neff.json: inputs[0].timeseries: found 0, expected true or false"},
    {"neff.json", "\"outputs\"", "\"results\"", "neff.json: the key \"outputs\" is missing"},
    {"neff.json", "\"lnc\": 1,", "\"lnc\": 1", "neff.json: line 2, column"},
    {"neff.json", "[128], \"size\": 256}]",
     "[128], \"size\": 256}, {\"name\": \"y:0\", \"variable\": \"y\", "
     "\"dtype\": \"bfloat16\", \"shape\": [128], \"size\": 256}]",
     "neff.json: outputs[1].name: \"y:0\" stands twice among the outputs"},
    {"neff.json", "[128], \"size\": 256}]",
     "[128], \"size\": 256}, {\"name\": \"z:0\", \"variable\": \"y\", "
     "\"dtype\": \"bfloat16\", \"shape\": [128], \"size\": 256}]",
     "neff.json: tensors \"y:0\" and \"z:0\" share the variable \"y\""},
    {"sg00/def.json", "\"var_id\": 1, \"size\": 256", "\"var_id\": 1, \"size\": 260",
     "neff.json: input \"x:0\": variable \"x\" of sg00 has 260 bytes, the tensor 256"},
};
INSTANTIATE_TEST_SUITE_P(Graph, RefusedEdit, testing::ValuesIn(kGraphFaults));

const Fault kDefinitionFaults[] = {
    {"sg00/def.json", "\"tmp-buf\"", "\"temporary\"",
     "sg00/def.json: var.scratch.type: found \"temporary\", expected one of input, output, file, "
     "tmp-buf"},
    {"sg00/def.json", "\"var_id\": 5, ", "",
     "sg00/def.json: var.scratch: the key \"var_id\" is missing"},
    {"sg00/def.json", "\"var_id\": 5", "\"var_id\": 4",
     "sg00/def.json: var.scratch.var_id: 4 is the id of another variable already"},
    {"sg00/def.json", "\"size\": 4096", "\"size\": 0", "sg00/def.json: var.scratch.size: found 0"},
    {"sg00/def.json", "\"size\": 4096", "\"size\": 1e99",
     "sg00/def.json: var.scratch.size: found 1E99"},
    {"sg00/def.json", "\"size\": 4096", "\"size\": 18446744073709551615",
     "expected a whole number from 1 to"},
    {"sg00/def.json", "\"alignment\": 64", "\"alignment\": 48",
     "sg00/def.json: var.y.alignment: found 48, expected 0 or a power of two"},
    {"sg00/def.json", "\"w.npy\"", "\"../neff.json\"",
     "sg00/def.json: var.w.file_name: the file has no member \"sg00/../neff.json\""},
    {"sg00/def.json", "\"size\": 48", "\"size\": 44",
     "sg00/def.json: var.w.size: found 44, but sg00/w.npy holds 48 bytes of data"},
    {"sg00/w.npy", "'<f4'", "'>f4'",
     "sg00/def.json: var.w.file_name: sg00/w.npy: .npy type is \">f4\""},
    {"sg00/def.json", "\"file_name\": \"w.npy\"", R"("file_name": "w.npy", "encoding": "streams")",
     "sg00/def.json: var.w.encoding: sg00/w.npy is an array; expected a file of streams alone"},
    {"sg00/def.json", "\"referenced_var_id\": 5", "\"referenced_var_id\": 77",
     "sg00/def.json: var.p: no variable has the id 77"},
    {"sg00/def.json", "\"referenced_var_id\": 5", "\"referenced_var_id\": 9",
     "sg00/def.json: var.p: refers to state-buffer \"sbuf\"; only variables in HBM can be"},
    {"sg00/def.json", "\"size\": 8,", "\"size\": 9,",
     "sg00/def.json: var.p.size: found 9, a pointer has 8 bytes"},
    {"sg00/def.json", "[5, 3]", "[5, 3, 5, 3, 5]",
     "sg00/def.json: var.t.size: found 32, the addresses of 5 variables have 40 bytes"},
    {"sg00/def.json", "[5, 3]", "[5, 33]", "sg00/def.json: var.t: no variable has the id 33"},
    {"sg00/def.json", "\"size\": 256, \"alignment\"",
     R"("size": 256, "true_size": {"var_id": 77, "unit": 4}, "alignment")",
     "sg00/def.json: var.y: no variable has the id 77"},
    {"sg00/def.json", "\"size\": 256, \"alignment\"",
     R"("size": 256, "true_size": {"var_id": 5, "unit": 257}, "alignment")",
     "sg00/def.json: var.y.true_size.unit: found 257, expected a whole number from 1 to 256"},
    {"sg00/def.json", "\"size\": 256, \"alignment\"",
     R"("size": 256, "true_size": {"var_id": 3, "unit": 4}, "alignment")",
     "sg00/def.json: var.y: its true size is counted in file \"w\" of 48 bytes; expected a tmp-buf "
     "of at least 4 that is not shared"},
    {"sg00/def.json", "\"size\": 256, \"alignment\"",
     R"("size": 256, "true_size": {"var_id": 1, "unit": 4}, "alignment")",
     "sg00/def.json: var.y: refers to input \"x\"; only variables in HBM with a fixed address can"},
    {"sg00/def.json", "\"type\": \"tmp-buf\"", R"("type": "tmp-buf", "shared": true)",
     "is shared by the two cores of a logical core, but this program is for logical cores of 1"},
    {"sg00/def.json", "\"size\": 33554432", "\"core_offset\": 4096, \"size\": 33554432",
     "sg00/def.json: var.sbuf: 33554432 bytes at 0x1000 of the core window end behind 0x2000000, "
     "the end of SBUF"},
    {"sg00/def.json", "\"num_queues\": 16", "\"num_queues\": 17",
     "sg00/def.json: dma_queue.in.num_queues: found 17, expected a whole number from 1 to 16"},
    {"sg00/def.json", "\"owner\": \"SP\"", "\"owner\": \"ACT\"",
     "sg00/def.json: dma_queue.in.owner: found \"ACT\", expected PE"},
    {"sg00/def.json", "\"semaphore_set\"", "\"pinned\": true, \"semaphore_set\"",
     "pinned queues exist on inf1 only"},
    {"sg00/def.json", "\"stored\": 21", "\"stored\": 20",
     "sg00/def.json: semaphore.stored: semaphore 20 has another name already"},
    {"sg00/def.json", "\"stored\": 21", "\"stored\": 5",
     "sg00/def.json: semaphore.stored: found 5, expected a whole number from 8 to 239"},
    {"sg00/def.json", "\"stored\": 21", "\"stored\": 9",
     "sg00/def.json: semaphore \"stored\" is number 9, which the other core of a logical core of "
     "two "
     "raises; this program is for logical cores of 1; number it 16 to 239"},
    {"sg00/def.json", "\"PE\":", "\"ACT\":", "sg00/def.json: engines.ACT: no such engine"},
    {"sg00/def.json", "\"PE.bin\"", "\"PE2.bin\"",
     "sg00/def.json: engines.PE.bin: the file has no member \"sg00/PE2.bin\""},
    {"sg00/def.json", "\"PE.bin\"", "\"SP.bin\"",
     "sg00/SP.bin: a program of SP, expected one of PE"},
    {"sg00/def.json", "\"generation\": 2", "\"generation\": 3",
     "sg00/def.json: program.generation is 3, the target trn1 of neff.json is 2"},
    {"sg00/def.json", "\"type\": \"virtual\"", "\"type\": \"output\"",
     "sg00/def.json: var.shared: an input or output that neff.json does not list"},
};
INSTANTIATE_TEST_SUITE_P(Definition, RefusedEdit, testing::ValuesIn(kDefinitionFaults));

const Fault kTransferFaults[] = {
    {"sg00/SP.json", "\"id\": 7, ", "", "sg00/SP.json: dma[0]: the key \"id\" is missing"},
    {"sg00/SP.json", "\"id\": 7, \"queue\": \"in\"", "\"id\": 7, \"queue\": \"out\"",
     "sg00/SP.json: dma[0].queue: def.json has no queue set \"out\""},
    {"sg00/SP.json", "\"data_b\"", "\"data_c\"",
     "sg00/SP.json: dma[1].instance_name: no queue set of def.json has an instance \"data_c\""},
    {"sg00/SP.json", "\"id\": 8", "\"id\": 7",
     "id 7 is used with queue set \"data\", and in dma[0] with \"in\""},
    {"sg00/SP.json", "\"late\"", "\"early\"",
     "sg00/SP.json: dma[2].function_start: the binary of SP has no function \"early\""},
    {"sg00/SP.json", "\"loaded\"", "\"unloaded\"",
     "sg00/SP.json: dma[0].semaphore: def.json has no semaphore \"unloaded\""},
    {"sg00/SP.json", "\"event\": 3", "\"event\": 256", "sg00/SP.json: dma[1].event: found 256"},
    {"sg00/SP.json", "\"from\": \"x\"", "\"from\": \"xx\"",
     "sg00/SP.json: dma[0].desc: from: def.json has no variable \"xx\""},
    {"sg00/SP.json", "[64, 4]", "[64, 5]",
     "sg00/SP.json: dma[0].desc: from reaches byte 320 of the variable \"x\", which has 256"},
    {"sg00/SP.json", "[64, 4]", "[63, 4]", ""},
    {"sg00/SP.json", "262144", "33554432",
     "to reaches byte 100667456 of the variable \"sbuf\", which has 33554432"},
    {"sg00/SP.json", "262144", "-262144", "to reaches 782336 bytes before the variable \"sbuf\""},
    {"sg00/SP.json", "262144", "-9223372036854775808", "to reaches"},
    {"sg00/SP.json", "\"to_off\": 4096", "\"to_off\": 196608",
     "a run of 64 bytes at byte 0x30000 of SBUF partition 0 leaves its 0x30000 bytes"},
    {"sg00/SP.json", "\"to_off\": 4096", "\"to_off\": 196545",
     "of SBUF partition 0 leaves its 0x30000 bytes"},
    {"sg00/SP.json", "[1, 262144]", "[1]",
     "to_sizes has 2 elements and to_steps 1; expected equally many"},
    {"sg00/SP.json", "[1, 262144]", "[4, 262144]", "to_steps[0] is 4, expected 1"},
    {"sg00/SP.json", "[64, 4]", "[64, 4, 1, 1, 1]",
     "dma[0].desc.to_sizes: found 5 elements, expected at most 4"},
    {"sg00/SP.json", "[64, 4]", "[1, 1099511627776]",
     "more than 1048576 contiguous runs in one transfer"},
    {"sg00/SP.json", "\"from_off\": 16", "\"from_off\": 17",
     "from reaches byte 49 of the variable \"w\""},
    {"sg00/SP.json", "\"from_off\": 16", "\"from_off\": 48", "dma[1].desc.from_off: found 48"},
    {"sg00/SP.json", "\"op\": \"copy\"", "\"op\": \"move\"",
     "sg00/SP.json: dma[1].desc.op: found \"move\", expected one of copy, cast, fma"},
    {"sg00/SP.json", "\"to_dtype\": \"bfloat16\"", "\"to_dtype\": \"float32\"",
     "from has 128 elements, to has 64; expected equally many"},
    {"sg00/SP.json", "[512]", "[510]",
     "runs of 510 bytes hold no whole number of elements of 4 bytes"},
    {"sg00/SP.json", "\"dma\": [", "\"dma\": 5, \"old\": [",
     "sg00/SP.json: dma: found 5, expected a list"},
};

TEST(Model, AcceptsAShapeThatUsesLessThanItsVariable) {
  SampleProgram sample;
  sample.edit("sg00/SP.json", "[64, 4]", "[63, 4]");
  EXPECT_TRUE(load_model(sample));
}

std::vector<Fault> with_sentence(std::span<const Fault> faults) {
  std::vector<Fault> kept;
  for (const Fault& fault : faults) {
    if (*fault.sentence) kept.push_back(fault);
  }
  return kept;
}
INSTANTIATE_TEST_SUITE_P(Transfer, RefusedEdit, testing::ValuesIn(with_sentence(kTransferFaults)));

struct RelocationFault {
  neff::Relocation relocation;
  const char* sentence;
};
class RefusedRelocation : public testing::TestWithParam<RelocationFault> {};

TEST_P(RefusedRelocation, NamesItsSymbolAndPlace) {
  SampleProgram sample;
  EngineProgram program = test::sample_engine(NEURON_ENGINE_SP);
  program.relocations.push_back(GetParam().relocation);
  sample.set_engine("sg00/SP.bin", program);
  expect_model_refused(sample, NRT_INVALID, GetParam().sentence);
}

const RelocationFault kRelocationFaults[] = {
    {{2, 0x68, NEURON_RELOC_VAR_ADDR, 8, "x", 0, 0},
     "relocation of \"x\" at instruction 2, byte 104: it is an input or output, whose address "
     "changes"},
    {{2, 0x68, NEURON_RELOC_VAR_ADDR, 8, "none", 0, 0}, "def.json has no such variable"},
    {{2, 0x68, NEURON_RELOC_VAR_ADDR, 8, "scratch", 4096, 0},
     "the addend 4096 lies outside its 4096 bytes"},
    {{2, 0x68, NEURON_RELOC_VAR_ADDR, 8, "scratch", -1, 0},
     "the addend -1 lies outside its 4096 bytes"},
    {{2, 0x68, NEURON_RELOC_QUEUE, 8, "none", 0, 0}, "def.json has no such queue set"},
    {{2, 0x68, NEURON_RELOC_SEMAPHORE, 1, "none", 0, 0}, "def.json has no such semaphore"},
    {{2, 0x68, NEURON_RELOC_SEM_ADDR, 8, "loaded", 4, 0}, "the addend is 0x4, expected that of"},
    {{2, 0x68, NEURON_RELOC_PC, 4, "none", 0, 0}, "the binary has no such entry"},
    {{2, 0x68, NEURON_RELOC_CORE, 8, "other", 0, 0}, "expected self, peer or cc:N"},
    {{2, 0x68, NEURON_RELOC_PEER, 8, "self", 0, 0}, "expected rank:N"},
    {{2, 0x20, NEURON_RELOC_DMA_BLOCK, 0, "7", 0, 0},
     "the instruction is 0x003, expected dma_trigger"},
    {{2, 0x20, NEURON_RELOC_DMA_BLOCK, 0, "9", 0, 0},
     "has no transfer with this id for the main program"},
    {{2, 0x20, NEURON_RELOC_DMA_BLOCK, 0, "7x", 0, 0}, "expected the decimal id of a transfer"},
};
INSTANTIATE_TEST_SUITE_P(Program, RefusedRelocation, testing::ValuesIn(kRelocationFaults));

TEST(Model, KeepsWithinItsLimits) {
  ModelLimits limits;
  limits.transfers = 2;
  auto loaded = load_model(SampleProgram(), {}, limits);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().sentence,
              HasSubstr("sg00/SP.json: dma: found 3 elements, expected at most 2"));
  limits = {};
  limits.instructions = 3;
  loaded = load_model(SampleProgram(), {}, limits);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().sentence, HasSubstr("sg00/PE.bin: offset 0x10: 4 instructions"));
  limits = {};
  limits.json_depth = 2;
  loaded = load_model(SampleProgram(), {}, limits);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().sentence, HasSubstr("neff.json: line 2, column"));
  limits = {};
  limits.json_values = 10;
  loaded = load_model(SampleProgram(), {}, limits);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().sentence, HasSubstr("more than 10 values"));
  limits = {};
  limits.variables = 8;
  loaded = load_model(SampleProgram(), {}, limits);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().sentence, HasSubstr("9 variables, at most 8"));
}

}  // namespace
}  // namespace neuron::neff
