// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <numeric>
#include <set>

#include "runtime/model/loaded_model.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::runtime {
namespace {

using neff::VariableKind;
using test::FakeMachine;
using test::sample_model;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Appends a variable to the first subgraph; its number.
uint32_t add(neff::Model& model, neff::Variable variable) {
  auto& variables = model.subgraphs[0].variables;
  variables.push_back(std::move(variable));
  return static_cast<uint32_t>(variables.size() - 1);
}

class LoadedVariables : public ::testing::Test {
 protected:
  LoadedVariables() : core_(machine_.core()) { model_.subgraphs[0].variables[2].size = 100; }
  std::string load() {
    auto loaded = LoadedModel::load(*core_, model_);
    if (!loaded) {
      status_ = loaded.error().status;
      return loaded.error().sentence;
    }
    loaded_ = std::move(*loaded);
    return "loaded";
  }
  uint64_t address(uint32_t variable) const { return loaded_->addresses()[variable]; }
  template <class T>
  T word_at(uint64_t address) {
    T value{};
    std::memcpy(&value, machine_.state.bytes_at(address), sizeof(value));
    return value;
  }

  FakeMachine machine_;
  std::unique_ptr<Core> core_;
  neff::Model model_ = sample_model();
  std::unique_ptr<LoadedModel> loaded_;
  NRT_STATUS status_ = NRT_SUCCESS;
};

TEST_F(LoadedVariables, LieBehindEachOtherAsTheyAreAligned) {
  const uint32_t next = add(model_, {.name = "n", .kind = VariableKind::kTmpBuf, .size = 1});
  const uint32_t large =
      add(model_, {.name = "l", .kind = VariableKind::kTmpBuf, .size = 8, .alignment = 8192});
  const uint32_t last = add(model_, {.name = "e", .kind = VariableKind::kTmpBuf, .size = 64});
  ASSERT_EQ(load(), "loaded");
  EXPECT_EQ(address(next), address(2) + 128) << "the next multiple of 64 behind 100 bytes";
  EXPECT_EQ(address(large) % 8192, 0u);
  EXPECT_EQ(address(large), address(2) + 8192);
  EXPECT_EQ(address(last), address(large) + 64);
  const auto& allocation = machine_.state.at_address(address(2));
  EXPECT_EQ(allocation.request.size, 8192u + 64 + 64);
  EXPECT_EQ(allocation.request.align, 8192u);
  EXPECT_EQ(address(0), 0u) << "inputs and outputs have no place of their own";
  EXPECT_EQ(address(1), 0u);
  EXPECT_EQ(loaded_->variable_size(large), 8u);
}

TEST_F(LoadedVariables, OfAFewBytesGetAnAllocationOfALine) {
  model_.subgraphs[0].variables[2].size = 4;
  ASSERT_EQ(load(), "loaded");
  EXPECT_EQ(machine_.state.at_address(address(2)).request.size, 64u);
  EXPECT_EQ(machine_.state.at_address(address(2)).request.align, 4096u);
}

TEST_F(LoadedVariables, ThatAreConstantsHoldWhatTheFileHas) {
  std::vector<uint8_t> bytes(130);
  std::iota(bytes.begin(), bytes.end(), 1);
  const uint32_t constant = add(
      model_, {.name = "c", .kind = VariableKind::kFile, .size = bytes.size(), .contents = bytes});
  const uint32_t pointer =
      add(model_, {.name = "p", .kind = VariableKind::kPointer, .size = 8, .referenced = 2});
  const uint32_t table = add(
      model_,
      {.name = "t", .kind = VariableKind::kDgeTable, .size = 24, .list = {constant, 2, pointer}});
  ASSERT_EQ(load(), "loaded");
  EXPECT_EQ(std::memcmp(machine_.state.bytes_at(address(constant)), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(word_at<uint64_t>(address(pointer)), address(2));
  EXPECT_EQ(word_at<uint64_t>(address(table)), address(constant));
  EXPECT_EQ(word_at<uint64_t>(address(table) + 8), address(2));
  EXPECT_EQ(word_at<uint64_t>(address(table) + 16), address(pointer));
  EXPECT_EQ(address(pointer), address(constant) + 192);
}

TEST_F(LoadedVariables, InTheStateBufferAreInTheWindowOfTheCore) {
  const uint32_t state = add(
      model_, {.name = "s", .kind = VariableKind::kStateBuffer, .size = 8, .core_offset = 0x40100});
  ASSERT_EQ(load(), "loaded");
  EXPECT_EQ(address(state), core_->window() + 0x40100);
}

TEST_F(LoadedVariables, OfTheScratchpadMoveWithIt) {
  const uint32_t first =
      add(model_, {.name = "v", .kind = VariableKind::kVirtual, .size = 64, .backing_offset = 256});
  const uint32_t pointer =
      add(model_, {.name = "p", .kind = VariableKind::kPointer, .size = 8, .referenced = first});
  const uint32_t table = add(
      model_, {.name = "t", .kind = VariableKind::kDgeTable, .size = 16, .list = {pointer, first}});
  // An instruction that names it.
  neff::EngineProgram& pe = model_.subgraphs[0].engines[NEURON_ENGINE_PE];
  isa::Instruction store = test::sample_event(NEURON_ENGINE_PE);
  store.opcode = NEURON_OP_STORE;
  store.address = {0, 0, 1};
  pe.code = test::sample_code({store, test::sample_event(NEURON_ENGINE_PE)});
  pe.entries[0].length = 2;
  pe.relocations = {{0, NEURON_ADDRESS_ADDR, NEURON_RELOC_VAR_ADDR, 8, "v", 16, first}};
  ASSERT_EQ(load(), "loaded");
  const uint64_t before = address(first);
  EXPECT_EQ(before, machine_.state.at_address(before).address + 256);
  EXPECT_EQ(core_->scratchpad.size(), 64ull << 20);
  EXPECT_EQ(word_at<uint64_t>(address(pointer)), before);
  const EngineImage& image = loaded_->image(NEURON_ENGINE_PE);
  const uint64_t place = image.address + image.wrapper * NEURON_INSTRUCTION_BYTES;
  EXPECT_EQ(word_at<uint64_t>(place + NEURON_ADDRESS_ADDR), before + 16);

  // Another model needs a larger one.
  neff::Model larger = sample_model();
  add(larger,
      {.name = "w", .kind = VariableKind::kVirtual, .size = 65ull << 20, .backing_offset = 4096});
  auto other = LoadedModel::load(*core_, larger);
  ASSERT_TRUE(other) << other.error().sentence;
  EXPECT_EQ(core_->scratchpad.size(), 128ull << 20);
  EXPECT_NE(address(first), before);
  EXPECT_EQ(address(first), machine_.state.at_address(address(first)).address + 256);
  EXPECT_EQ(word_at<uint64_t>(address(pointer)), before) << "until the model runs next";
  machine_.state
      .registers[core_->place().window_bar0() + NEURON_CORE_CONTROL + NEURON_CORE_STATUS] =
      test::kSettled;
  Binding binding;
  auto rings = DescriptorRings::create(
      *machine_.device, 0, loaded_->rings(),
      std::vector<uint64_t>(loaded_->addresses().begin(), loaded_->addresses().end()));
  ASSERT_TRUE(rings);
  binding.rings = std::move(*rings);
  ASSERT_TRUE(loaded_->make_ready(binding, {}));
  EXPECT_EQ(word_at<uint64_t>(address(pointer)), address(first));
  EXPECT_EQ(word_at<uint64_t>(address(table)), address(pointer));
  EXPECT_EQ(word_at<uint64_t>(address(table) + 8), address(first));
  EXPECT_EQ(word_at<uint64_t>(place + NEURON_ADDRESS_ADDR), address(first) + 16);
  EXPECT_EQ(core_->current_model, loaded_.get());
  // What nothing has moved is not written again.
  const size_t copies = machine_.state.count(NEURON_IOCTL_MEM_BUF_ZEROCOPY64);
  core_->current_model = nullptr;
  ASSERT_TRUE(loaded_->make_ready(binding, {}));
  EXPECT_EQ(machine_.state.count(NEURON_IOCTL_MEM_BUF_ZEROCOPY64), copies);
  loaded_->retire();
  EXPECT_EQ(core_->scratchpad.size(), 128ull << 20) << "the other still has it";
}

TEST_F(LoadedVariables, ThatCannotBeHadAreRefused) {
  model_.subgraphs[0].variables[2].alignment = 1ull << 30;
  EXPECT_EQ(load(), "loaded");
  model_.subgraphs[0].variables[2].alignment = 1ull << 31;
  EXPECT_EQ(load(),
            "NEFF 'sample': variable 't' asks for an alignment of 2147483648 bytes; the most is "
            "1073741824");
  EXPECT_EQ(status_, NRT_INVALID);
  model_.subgraphs[0].variables[2].alignment = 0;
  model_ = sample_model();
  const uint32_t unbound = add(model_, {.name = "u", .kind = VariableKind::kInput, .size = 64});
  add(model_, {.name = "p", .kind = VariableKind::kPointer, .size = 8, .referenced = unbound});
  EXPECT_EQ(load(),
            "NEFF 'sample': variable 'u' is an input or output whose address the program reads, "
            "but neff.json lists no tensor for it");
  EXPECT_EQ(status_, NRT_INVALID);
  model_ = sample_model();
  add(model_, {.name = "d",
               .kind = VariableKind::kDgeTable,
               .size = 8200,
               .list = std::vector<uint32_t>(1025, 0)});
  EXPECT_EQ(load(),
            "NEFF 'sample': the program reads the addresses of inputs and outputs at 1025 places; "
            "the most is 1024");
  EXPECT_EQ(status_, NRT_INVALID);
  model_ = sample_model();
  add(model_, {.name = "d", .kind = VariableKind::kDgeTable, .size = 16, .list = {2, 2, 2}});
  EXPECT_EQ(load(), "NEFF 'sample': variable 'd' has 16 bytes; its 3 addresses need 24");
  EXPECT_EQ(status_, NRT_INVALID);
  machine_.state.failing[NEURON_IOCTL_MEM_ALLOC_V2MT64] = -ENOMEM;
  model_ = sample_model();
  EXPECT_THAT(load(), HasSubstr("temporary variables"));
  EXPECT_EQ(status_, NRT_RESOURCE);
}

TEST_F(LoadedVariables, ThatAreMovedMustBeBoundToATensor) {
  model_.outputs.clear();
  EXPECT_EQ(load(),
            "NEFF 'sample': variable 'y' is moved as an input or output, but neff.json lists no "
            "tensor for it");
  EXPECT_EQ(status_, NRT_INVALID);
  model_ = sample_model();
  model_.inputs[0].subgraph = 1;
  EXPECT_THAT(load(), HasSubstr("variable 'x' is moved as an input or output"))
      << "that of another core is another variable";
}

TEST_F(LoadedVariables, AModelHasItsPortsInTheOrderOfTheFile) {
  model_.inputs.push_back({.name = "z", .variable = 0, .size = 64});
  ASSERT_EQ(load(), "loaded");
  std::vector<std::pair<std::string, bool>> ports;
  for (const ModelPort& port : loaded_->ports()) ports.emplace_back(port.info.name, port.output);
  EXPECT_THAT(ports,
              ElementsAre(std::pair{std::string("x"), false}, std::pair{std::string("z"), false},
                          std::pair{std::string("y"), true}));
  EXPECT_EQ(loaded_->bindings.staging.size(), 3u);
  EXPECT_EQ(loaded_->name(), "sample");
  EXPECT_EQ(loaded_->semaphores().size(), 1u);
}

TEST_F(LoadedVariables, BehindThemAreTheAddressesThatEveryRingNeeds) {
  ASSERT_EQ(load(), "loaded");
  ASSERT_EQ(loaded_->addresses().size(), 6u);
  EXPECT_EQ(address(3), core_->one().address());
  EXPECT_EQ(address(4), core_->semaphore_inc(0));
  EXPECT_EQ(address(5), core_->window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_EVENT);
}

TEST_F(LoadedVariables, EachEngineHasItsProgramBehindTheWrapper) {
  ASSERT_EQ(load(), "loaded");
  uint64_t at = loaded_->image(0).address;
  EXPECT_EQ(at % 4096, 0u);
  for (uint32_t engine = 0; engine < NEURON_CORE_ENGINES; ++engine) {
    const EngineImage& image = loaded_->image(engine);
    EXPECT_EQ(image.address, at);
    EXPECT_EQ(image.code.size(), size_t{image.instructions} * NEURON_INSTRUCTION_BYTES);
    EXPECT_EQ(image.instructions - image.wrapper, engine == NEURON_ENGINE_PE ? 3u : 0u);
    EXPECT_EQ(
        std::memcmp(machine_.state.bytes_at(image.address), image.code.data(), image.code.size()),
        0);
    at += image.code.size();
  }
  const auto& code = model_.subgraphs[0].engines[NEURON_ENGINE_PE].code;
  const EngineImage& pe = loaded_->image(NEURON_ENGINE_PE);
  EXPECT_EQ(std::memcmp(pe.code.data() + size_t{pe.wrapper} * NEURON_INSTRUCTION_BYTES, code.data(),
                        code.size()),
            0);
  EXPECT_EQ(machine_.state.at_address(pe.address).request.size, at - loaded_->image(0).address);
}

TEST_F(LoadedVariables, TheWrapperClearsWhatTheProgramUsesAndNothingElse) {
  neff::Subgraph& graph = model_.subgraphs[0];
  graph.semaphores = {{"ready", 20}, {"other", 30}};
  graph.engines[NEURON_ENGINE_SP].dma[0].semaphore = 35;
  neff::Collective barrier;
  barrier.semaphore = 60;
  graph.operations = {barrier, neff::Collective()};
  graph.queues[0].semaphore = 40;
  graph.queues.push_back({.name = "d", .semaphore_set = {50, 51}});
  neff::DmaTransfer transfer = graph.engines[NEURON_ENGINE_SP].dma[0];
  transfer.id = 8;
  transfer.semaphore = std::nullopt;
  transfer.event = 9;
  graph.engines[NEURON_ENGINE_SP].dma.push_back(transfer);
  ASSERT_EQ(load(), "loaded");
  std::set<uint32_t> cleared;
  const EngineImage& sp = loaded_->image(NEURON_ENGINE_SP);
  const uint64_t set = core_->window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET;
  const uint64_t events = core_->window() + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_EVENT;
  bool event = false;
  for (uint32_t pc = 0; pc < sp.wrapper; ++pc) {
    const auto i = isa::decode(isa::Bytes(sp.code.data() + size_t{pc} * NEURON_INSTRUCTION_BYTES,
                                          NEURON_INSTRUCTION_BYTES));
    if (i.opcode == NEURON_OP_WRITE && i.address.addr >= set && i.address.addr < set + 1024) {
      for (uint32_t n = 0; n < i.address.count; ++n) cleared.insert((i.address.addr - set) / 4 + n);
    }
    event = event || (i.opcode == NEURON_OP_WRITE && i.address.addr == events + 9 * 4);
  }
  EXPECT_EQ(cleared, (std::set<uint32_t>{20, 30, 35, 40, 50, 51, 60}));
  EXPECT_TRUE(event);
}

class Published : public LoadedVariables {
 protected:
  // Of the first model that is told.
  nds_model_bytes_t bytes() {
    nds_model_bytes_t value{};
    std::memcpy(&value, block_.data() + NDS_SLOT_MODELS + sizeof(nds_slot_t), sizeof(value));
    return value;
  }
  uint32_t state() {
    nds_slot_t slot{};
    std::memcpy(&slot, block_.data() + NDS_SLOT_MODELS, sizeof(slot));
    return slot.state;
  }
  std::vector<char> block_ = std::vector<char>(NDS_BLOCK_BYTES);
};

TEST_F(Published, OperatorToolsSeeAModelWithItsMemoryUntilItGoes) {
  machine_.device->record().attach(block_.data(), {}, "");
  model_.uuid = {1, 2, 3};
  model_.name = std::string(300, 'a') + "end";
  add(model_, {.name = "p", .kind = VariableKind::kPointer, .size = 8, .referenced = 2});
  core_ = machine_.core(1);
  ASSERT_EQ(load(), "loaded");
  EXPECT_EQ(core_->models, 1u);
  EXPECT_EQ(state(), uint32_t{NDS_SLOT_PUBLISHED});
  const nds_model_bytes_t told = bytes();
  const std::string name = told.info.name;
  EXPECT_EQ(name.size(), sizeof(told.info.name) - 1) << "the end of a long name";
  EXPECT_EQ(name.substr(name.size() - 4), "aend");
  EXPECT_EQ(told.info.uuid[2], 3);
  EXPECT_EQ(told.info.nc_index, 1);
  EXPECT_EQ(told.info.sg_index, 0);
  EXPECT_EQ(told.info.model_node_id, 0u);
  const auto& use = told.usage.model_mem_usage[1];
  uint64_t code = 0;
  for (uint32_t e = 0; e < NEURON_CORE_ENGINES; ++e) code += loaded_->image(e).code.size();
  EXPECT_EQ(use[NDS_DMA_MEM_USAGE_SLOT_CODE].total_size, code);
  EXPECT_EQ(use[NDS_DMA_MEM_USAGE_SLOT_CODE].chunk_count, 1u);
  EXPECT_EQ(use[NDS_DMA_MEM_USAGE_SLOT_CONSTANTS].total_size, 64u);
  EXPECT_EQ(use[NDS_DMA_MEM_USAGE_SLOT_SCRATCHPAD].total_size, 100u);
  const uint32_t id = told.info.model_id;
  loaded_->retire();
  EXPECT_TRUE(loaded_->retired());
  EXPECT_EQ(state(), uint32_t{NDS_SLOT_FREE});
  EXPECT_EQ(core_->models, 0u);
  loaded_->retire();
  EXPECT_EQ(core_->models, 0u) << "it goes once";
  model_.name = "short";
  ASSERT_EQ(load(), "loaded");
  EXPECT_STREQ(bytes().info.name, "short");
  EXPECT_EQ(bytes().info.model_id, id + 1) << "each load has a number of its own";
  loaded_.reset();
  machine_.device->record().detach();
}

TEST_F(LoadedVariables, AModelThatRunsIsTakenOffItsCore) {
  ASSERT_EQ(load(), "loaded");
  core_->current_model = loaded_.get();
  machine_.state.written.clear();
  loaded_.reset();
  EXPECT_EQ(core_->current_model, nullptr);
  EXPECT_FALSE(machine_.state.written.empty()) << "it was halted";
  ASSERT_EQ(load(), "loaded");
  core_->current_model = this;
  machine_.state.written.clear();
  loaded_.reset();
  EXPECT_EQ(core_->current_model, this) << "another one runs";
  EXPECT_TRUE(machine_.state.written.empty());
  core_->current_model = nullptr;
}

TEST_F(LoadedVariables, AnInstructionIsDescribedAsTheFileCounts) {
  ASSERT_EQ(load(), "loaded");
  const EngineImage& pe = loaded_->image(NEURON_ENGINE_PE);
  EXPECT_THAT(loaded_->describe_instruction(NEURON_ENGINE_PE, pe.wrapper),
              HasSubstr("PE pc 0 (matmul.py:40)"));
  EXPECT_THAT(loaded_->describe_instruction(NEURON_ENGINE_PE, pe.wrapper + 2),
              HasSubstr("PE pc 2"));
  EXPECT_THAT(loaded_->describe_instruction(NEURON_ENGINE_PE, pe.wrapper - 1),
              HasSubstr("the runtime's own code, PE pc " + std::to_string(pe.wrapper - 1)));
  EXPECT_EQ(loaded_->describe_instruction(NEURON_ENGINE_PE, pe.instructions),
            "PE pc " + std::to_string(pe.instructions) + " (outside its " +
                std::to_string(pe.instructions) + " instructions)");
  EXPECT_EQ(loaded_->describe_instruction(5, 3), "engine 5 pc 3");
}

}  // namespace
}  // namespace neuron::runtime
