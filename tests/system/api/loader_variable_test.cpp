// SPDX-License-Identifier: Apache-2.0
// Variables of every type and the lists of a NEFF, loaded and run.
#include <thread>

#include "hw/udma.h"
#include "tests/system/api/program_file.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

constexpr uint8_t kSyncEngine = NEURON_ENGINE_SP;
constexpr uint8_t kPool = NEURON_ENGINE_POOL;

class LoaderVariable : public RuntimeTest {
 protected:
  static NRT_STATUS load(ProgramFile& file, nrt_model_t** model) {
    const Bytes neff = file.pack();
    return nrt_load(neff.data(), neff.size(), 0, 1, model);
  }
};

// SP triggers each transfer and waits for it.
void move_all(ProgramFile& file, std::initializer_list<int> ids) {
  for (const int id : ids) {
    file.trigger(kSyncEngine, static_cast<unsigned>(id));
    file.wait(kSyncEngine, 20, 16);
  }
}

void queue(ProgramFile& file) {
  file.queue("q", R"("type": "data", "num_queues": 16)");
  file.semaphore("done", 20);
}

void copy(ProgramFile& file, int id, const std::string& from, const std::string& to,
          unsigned bytes) {
  const std::string shape = "_sizes\": [" + std::to_string(bytes) + "], \"";
  file.transfer(kSyncEngine, R"("id": )" + std::to_string(id) +
                                 R"(, "queue": "q", "semaphore": 20, "desc": {"from": ")" + from +
                                 R"(", "to": ")" + to + R"(", "from)" + shape +
                                 R"(from_steps": [1], "to)" + shape + R"(to_steps": [1]})");
}

Bytes output_of(ProgramFile file, const Bytes& input = {}) {
  Loaded loaded(file.pack());
  if (loaded.model == nullptr) return {};
  if (!input.empty()) {
    EXPECT_EQ(nrt_tensor_write(loaded.tensors["x"], input.data(), 0, input.size()), NRT_SUCCESS);
  }
  EXPECT_EQ(loaded.run(), NRT_SUCCESS) << nrt_open_last_error();
  return contents(loaded.tensors["y"]);
}

TEST_F(LoaderVariable, ConstantsComeFromArraysOfEveryVersionAndFromRawFiles) {
  for (const char version : {1, 2, 3}) {
    ProgramFile file;
    file.output("y", "uint8", "[12]", 12);
    file.variable("array", R"("type": "file", "size": 8, "file_name": "a.npy")");
    file.variable("raw",
                  R"("type": "file", "size": 4, "file_name": "raw.bin4", "alignment": 4096)");
    std::string header = "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 2), }";
    header.resize(version == 1 ? 118 : 116, ' ');
    const char length = static_cast<char>(header.size());
    file.member("sg00/a.npy", std::string("\x93NUMPY") + version + std::string("\0", 1) + length +
                                  std::string(version == 1 ? 1 : 3, '\0') + header + "abcdefgh");
    file.member("sg00/raw.bin4", "WXYZ");
    queue(file);
    copy(file, 1, "array", "y", 8);
    file.transfer(kSyncEngine,
                  R"("id": 2, "queue": "q", "semaphore": 20, "desc": {"from": "raw", "to": "y",
        "to_off": 8})");
    move_all(file, {1, 2});
    file.end_main(kSyncEngine);
    const Bytes y = output_of(file);
    EXPECT_EQ(std::string(y.begin(), y.end()), "abcdefghWXYZ") << int{version};
  }
}

TEST_F(LoaderVariable, AProgramFollowsPointersAndTablesOfAddresses) {
  ProgramFile file;
  file.output("y", "uint32", "[2]", 8);
  file.variable("a", R"("type": "tmp-buf", "size": 64)");  // var_id 2
  file.variable("b", R"("type": "virtual", "size": 64, "backing_variable_off": 640)");
  file.variable("p", R"("type": "pointer", "size": 8, "referenced_var_id": 2)");
  file.variable("t", R"("type": "dge-table", "size": 16, "list": [2, 3])");
  queue(file);
  // A word through the pointer into a, another through the table's second entry into b.
  const auto store_through = [&](const char* variable, int64_t at, uint32_t value) {
    for (const int word : {0, 1}) {
      isa::Instruction& load = file.add(kSyncEngine, NEURON_OP_LOAD);
      load.flow.rd = static_cast<uint8_t>(8 + word);
      load.address = {0, 0, 1};
      file.relocate(kSyncEngine, NEURON_ADDRESS_ADDR, NEURON_RELOC_VAR_ADDR, 8, variable,
                    at + 4 * word);
    }
    isa::Instruction& mov = file.add(kSyncEngine, NEURON_OP_MOV);
    mov.flow.rd = 5;
    mov.scalar0 = {.value = value, .kind = NEURON_SCALAR_IMMEDIATE, .dtype = NEURON_DTYPE_U32};
    isa::Instruction& store = file.add(kSyncEngine, NEURON_OP_STORE);
    store.address = {0, 0, 1};
    store.bind[0] = {8, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
    store.flow.ra = 5;
  };
  store_through("p", 0, 0x1111);
  store_through("t", 8, 0x2222);
  copy(file, 1, "a", "y", 4);
  file.transfer(kSyncEngine,
                R"("id": 2, "queue": "q", "semaphore": 20, "desc": {"from": "b", "to": "y",
      "from_sizes": [4], "from_steps": [1], "to_off": 4})");
  move_all(file, {1, 2});
  file.end_main(kSyncEngine);
  EXPECT_EQ(output_of(file), (Bytes{0x11, 0x11, 0, 0, 0x22, 0x22, 0, 0}));
}

// x through a virtual variable to y, and a pointer to it.
ProgramFile through_scratchpad(uint64_t offset) {
  ProgramFile file;
  file.input("x", "uint8", "[64]", 64);
  file.output("y", "uint8", "[64]", 64);
  file.variable(
      "s", R"("type": "virtual", "size": 64, "backing_variable_off": )" + std::to_string(offset));
  queue(file);
  copy(file, 1, "x", "s", 64);
  copy(file, 2, "s", "y", 64);
  move_all(file, {1});
  // Adds to the first word by the address that the program itself has.
  isa::Instruction& load = file.add(kSyncEngine, NEURON_OP_LOAD);
  load.flow.rd = 4;
  load.address = {0, 0, 1};
  file.relocate(kSyncEngine, NEURON_ADDRESS_ADDR, NEURON_RELOC_VAR_ADDR, 8, "s");
  isa::Instruction& add = file.add(kSyncEngine, NEURON_OP_ALU);
  add.flow = {.rd = 4, .ra = 4, .imm = true, .alu = NEURON_ALU_ADD};
  add.scalar0 = {.value = 1, .kind = NEURON_SCALAR_IMMEDIATE, .dtype = NEURON_DTYPE_U32};
  isa::Instruction& store = file.add(kSyncEngine, NEURON_OP_STORE);
  store.address = {0, 0, 1};
  store.flow.ra = 4;
  file.relocate(kSyncEngine, NEURON_ADDRESS_ADDR, NEURON_RELOC_VAR_ADDR, 8, "s");
  move_all(file, {2});
  file.end_main(kSyncEngine);
  return file;
}

void expect_passed(Loaded& loaded, uint8_t seed) {
  Bytes in = pattern(64, seed);
  EXPECT_EQ(nrt_tensor_write(loaded.tensors["x"], in.data(), 0, in.size()), NRT_SUCCESS);
  EXPECT_EQ(loaded.run(), NRT_SUCCESS) << nrt_open_last_error();
  ++in[0];
  EXPECT_EQ(contents(loaded.tensors["y"]), in);
}

TEST_F(LoaderVariable, ModelsShareOneScratchpadThatGrowsAndGoesWithTheLastOfThem) {
  const uint64_t before = used_bytes();
  {
    Loaded small(through_scratchpad(0).pack());
    expect_passed(small, 1);
    const uint64_t one = used_bytes();
    {
      Loaded large(through_scratchpad(200u << 20).pack());
      expect_passed(large, 2);
      expect_passed(small, 3);
      expect_passed(large, 4);
      // 256 MiB for both, not 64 + 256.
      EXPECT_LT(used_bytes(), one + (193u << 20));
    }
    expect_passed(small, 5);
  }
  EXPECT_EQ(used_bytes(), before);
}

// Stores through a pointer into the scratchpad, then moves what it points to.
ProgramFile through_pointer() {
  ProgramFile file;
  file.output("y", "uint32", "[1]", 4);
  file.variable("s", R"("type": "virtual", "size": 64, "backing_variable_off": 192)");  // var_id 2
  file.variable("p", R"("type": "pointer", "size": 8, "referenced_var_id": 2)");
  queue(file);
  for (const int word : {0, 1}) {
    isa::Instruction& load = file.add(kSyncEngine, NEURON_OP_LOAD);
    load.flow.rd = static_cast<uint8_t>(8 + word);
    load.address = {0, 0, 1};
    file.relocate(kSyncEngine, NEURON_ADDRESS_ADDR, NEURON_RELOC_VAR_ADDR, 8, "p", 4 * word);
  }
  isa::Instruction& mov = file.add(kSyncEngine, NEURON_OP_MOV);
  mov.flow.rd = 5;
  mov.scalar0 = {.value = 77, .kind = NEURON_SCALAR_IMMEDIATE, .dtype = NEURON_DTYPE_U32};
  isa::Instruction& store = file.add(kSyncEngine, NEURON_OP_STORE);
  store.address = {0, 0, 1};
  store.bind[0] = {8, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
  store.flow.ra = 5;
  copy(file, 1, "s", "y", 4);
  move_all(file, {1});
  file.end_main(kSyncEngine);
  return file;
}

// Registers 8 and 9 of `engine`: the address that is at `at` of `variable`.
void load_address(ProgramFile& file, uint8_t engine, uint8_t low, const char* variable,
                  int64_t at) {
  for (const int word : {0, 1}) {
    isa::Instruction& load = file.add(engine, NEURON_OP_LOAD);
    load.flow.rd = static_cast<uint8_t>(low + word);
    load.address = {0, 0, 1};
    file.relocate(engine, NEURON_ADDRESS_ADDR, NEURON_RELOC_VAR_ADDR, 8, variable, at + 4 * word);
  }
}

// The word at x + 4 to y, without a queue; or all of x by a transfer that the Pool engine
// generates.
ProgramFile by_addresses(bool generated) {
  ProgramFile file;
  file.input("x", "uint8", "[64]", 64);   // var_id 1
  file.output("y", "uint8", "[64]", 64);  // var_id 2
  file.variable("t", R"("type": "dge-table", "size": 24, "list": [1, 3, 2])");
  file.variable("a", R"("type": "tmp-buf", "size": 64)");  // between them, whose place is fixed
  if (!generated) {
    load_address(file, kSyncEngine, 8, "t", 0);
    load_address(file, kSyncEngine, 10, "t", 16);
    isa::Instruction& load = file.add(kSyncEngine, NEURON_OP_LOAD);
    load.flow.rd = 5;
    load.address = {4, 0, 1};
    load.bind[0] = {8, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
    isa::Instruction& store = file.add(kSyncEngine, NEURON_OP_STORE);
    store.address = {0, 0, 1};
    store.bind[0] = {10, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
    store.flow.ra = 5;
    file.end_main(kSyncEngine);
    return file;
  }
  file.queue("dyn",
             R"("type": "dynamic", "num_queues": 4, "owner": "Pool", "ring_descriptors": 64)");
  file.semaphore("generated", 21);
  load_address(file, kPool, 8, "t", 0);
  load_address(file, kPool, 10, "t", 16);
  isa::Instruction& generate = file.add(kPool, NEURON_OP_DMA_GENERATE);
  generate.dma.from_type = generate.dma.to_type = NEURON_DTYPE_U8;
  generate.dma.mask = 0xF;
  generate.dma.semaphore = 21;
  generate.dma.signal = true;
  generate.generate.to_dims = {{{16, 1}, {4, 16}}};
  generate.generate.from_dims = {{{16, 1}, {4, 16}}};
  generate.bind[0] = {10, NEURON_BIND_BASE, 0, NEURON_BIND_ADD_PAIR};
  generate.bind[1] = {8, NEURON_BIND_BASE, 1, NEURON_BIND_ADD_PAIR};
  file.relocate(kPool, NEURON_RELOC_QUEUE_CTL, NEURON_RELOC_QUEUE, 1, "dyn");
  file.end_main(kPool);
  file.wait(kSyncEngine, 21, 4);
  file.end_main(kSyncEngine);
  return file;
}

TEST_F(LoaderVariable, AProgramReadsTheAddressesOfTheTensorsOfEachExecution) {
  for (const bool generated : {false, true}) {
    Loaded first(by_addresses(generated).pack());
    ASSERT_NE(first.model, nullptr) << nrt_open_last_error();
    // Other tensors of the same model, and another model between them.
    nrt_tensor_set_t *inputs = nullptr, *outputs = nullptr;
    nrt_tensor_t *x = nullptr, *y = nullptr;
    ASSERT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "x", &x), NRT_SUCCESS);
    ASSERT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, 0, 64, "y", &y), NRT_SUCCESS);
    ASSERT_EQ(nrt_allocate_tensor_set(&inputs), NRT_SUCCESS);
    ASSERT_EQ(nrt_allocate_tensor_set(&outputs), NRT_SUCCESS);
    ASSERT_EQ(nrt_add_tensor_to_tensor_set(inputs, "x", x), NRT_SUCCESS);
    ASSERT_EQ(nrt_add_tensor_to_tensor_set(outputs, "y", y), NRT_SUCCESS);
    Loaded other(through_pointer().pack());
    for (uint8_t round = 1; round <= 6; ++round) {
      const Bytes one = pattern(64, round), two = pattern(64, static_cast<uint8_t>(100 + round));
      EXPECT_EQ(nrt_tensor_write(first.tensors["x"], one.data(), 0, 64), NRT_SUCCESS);
      EXPECT_EQ(nrt_tensor_write(x, two.data(), 0, 64), NRT_SUCCESS);
      EXPECT_EQ(nrt_tensor_memset(first.tensors["y"], 0, 0, 64), NRT_SUCCESS);
      EXPECT_EQ(nrt_tensor_memset(y, 0, 0, 64), NRT_SUCCESS);
      EXPECT_EQ(first.run(), NRT_SUCCESS) << nrt_open_last_error();
      EXPECT_EQ(nrt_execute(first.model, inputs, outputs), NRT_SUCCESS) << nrt_open_last_error();
      if (round % 3 == 0) {
        EXPECT_EQ(other.run(), NRT_SUCCESS) << nrt_open_last_error();
      }
      for (const auto& [tensor, in] : {std::pair{first.tensors["y"], one}, std::pair{y, two}}) {
        Bytes expected(64);
        std::copy_n(in.begin() + (generated ? 0 : 4), generated ? 64 : 4, expected.begin());
        EXPECT_EQ(contents(tensor), expected) << generated << " round " << int{round};
      }
    }
    nrt_destroy_tensor_set(&inputs);
    nrt_destroy_tensor_set(&outputs);
    nrt_tensor_free(&x);
    nrt_tensor_free(&y);
  }
}

TEST_F(LoaderVariable, PointersIntoTheScratchpadFollowItWhenItGrows) {
  Loaded pointing(through_pointer().pack());
  for (const bool grown : {false, true}) {
    nrt_model_t* large = nullptr;
    ProgramFile file = through_scratchpad(130u << 20);
    if (grown) {
      ASSERT_EQ(load(file, &large), NRT_SUCCESS) << nrt_open_last_error();
    }
    EXPECT_EQ(nrt_tensor_memset(pointing.tensors["y"], 0, 0, 4), NRT_SUCCESS);
    EXPECT_EQ(pointing.run(), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(contents(pointing.tensors["y"]), (Bytes{77, 0, 0, 0})) << grown;
    if (large != nullptr) {
      EXPECT_EQ(nrt_unload(large), NRT_SUCCESS);
    }
  }
}

TEST_F(LoaderVariable, ADynamicQueueHasARingThatTheProgramFills) {
  ProgramFile file;
  file.input("x", "uint8", "[512]", 512);
  file.output("y", "uint8", "[512]", 512);
  file.variable("s", R"("type": "tmp-buf", "size": 512)");
  file.variable("d", R"("type": "tmp-buf", "size": 512)");
  queue(file);
  file.queue("dyn",
             R"("type": "dynamic", "num_queues": 4, "owner": "Pool", "ring_descriptors": 64)");
  file.semaphore("generated", 21);
  copy(file, 1, "x", "s", 512);
  copy(file, 2, "d", "y", 512);
  move_all(file, {1});
  // More rounds than the ring has room for at once.
  constexpr unsigned kRounds = 40;
  isa::Instruction& go = file.add(kSyncEngine, NEURON_OP_EVENT);
  go.update[0] = {.index = 22, .operation = NEURON_UPDATE_INC, .at_complete = true};
  isa::Instruction& started = file.add(kPool, NEURON_OP_EVENT);
  started.wait[0] = {.index = 22, .condition = NEURON_WAIT_GE, .value = 1};
  for (unsigned round = 0; round < kRounds; ++round) {
    isa::Instruction& generate = file.add(kPool, NEURON_OP_DMA_GENERATE);
    generate.dma.from_type = generate.dma.to_type = NEURON_DTYPE_U8;
    generate.dma.skip = false;
    generate.dma.mask = 0xF;
    generate.dma.semaphore = 21;
    generate.dma.signal = true;
    generate.generate.to_dims = {{{64, 1}, {8, 64}}};
    generate.generate.from_dims = {{{64, 1}, {8, 64}}};
    file.relocate(kPool, NEURON_DMA_GENERATE_TO, NEURON_RELOC_VAR_ADDR, 8, "d");
    file.relocate(kPool, NEURON_DMA_GENERATE_FROM, NEURON_RELOC_VAR_ADDR, 8, "s");
    file.relocate(kPool, NEURON_RELOC_QUEUE_CTL, NEURON_RELOC_QUEUE, 1, "dyn");
  }
  file.end_main(kPool);
  file.wait(kSyncEngine, 21, 4 * kRounds);
  move_all(file, {2});
  file.end_main(kSyncEngine);
  EXPECT_EQ(output_of(file, pattern(512)), pattern(512));
}

TEST_F(LoaderVariable, AFaultNamesTheFunctionAndTheTensorsOfItsInstruction) {
  ProgramFile file;
  file.output("y", "uint8", "[64]", 64);
  isa::Instruction& bad = file.add(kSyncEngine, NEURON_OP_LOAD);
  bad.debug = 7;
  bad.address = {0x7FFFFFFFF000, 0, 1};
  file.end_main(kSyncEngine);
  file.program(kSyncEngine).lines = {{7, 42, 0, "model.py"}};
  file.member("kernel_debug_info.json",
              R"({"files": ["model.py"], "functions": [{"name": "tile", "debug": [5, 9]}],
      "tensors": [{"debug": [1, 6], "name": "other"}, {"debug": [7, 7], "name": "w", "shape": [128, 64]}]})");
  Loaded loaded(file.pack());
  EXPECT_NE(loaded.run(), NRT_SUCCESS);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("(model.py:42, in tile, on w [128, 64]): load"));
}

TEST_F(LoaderVariable, QueuesWithoutARingAndPeersAreRefusedWithTheReason) {
  ProgramFile file;
  file.output("y", "uint8", "[64]", 64);
  file.queue("unused", R"("type": "data")");
  file.add(kPool, NEURON_OP_WRITE).address = {0, 0, 1};
  file.relocate(kPool, NEURON_ADDRESS_ADDR, NEURON_RELOC_QUEUE, 8, "unused");
  file.end_main(kPool);
  nrt_model_t* model = nullptr;
  EXPECT_EQ(load(file, &model), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("it is not dynamic, so it has no ring"));

  ProgramFile owned;
  owned.output("y", "uint8", "[64]", 64);
  owned.variable("t", R"("type": "tmp-buf", "size": 64)");
  owned.queue("q", R"("type": "data", "owner": "DVE")");
  copy(owned, 1, "t", "y", 64);
  owned.end_main(kSyncEngine);
  EXPECT_EQ(load(owned, &model), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("DVE triggers the queue set \"q\" (owner)"));
}

TEST_F(LoaderVariable, EightThreadsLoadAskAndUnloadAtTheSameTime) {
  const uint64_t before[2] = {used_bytes(0), used_bytes(1)};
  const Bytes files[2] = {through_scratchpad(0).pack(), through_scratchpad(100u << 20).pack()};
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Bytes& file = files[t / 2 % 2];
      for (int round = 0; round < 5; ++round) {
        nrt_model_t* model = nullptr;
        if (nrt_load(file.data(), file.size(), t % 2, 1, &model) != NRT_SUCCESS) {
          ++wrong;
          continue;
        }
        uint32_t count = 0;
        nrt_model_info_t info{};
        nrt_tensor_info_array_t* tensors = nullptr;
        if (nrt_get_model_nc_count(model, &count) != NRT_SUCCESS || count != 1) ++wrong;
        if (nrt_get_model_instance_count(model, &count) != NRT_SUCCESS || count != 1) ++wrong;
        if (nrt_get_model_info(model, &info, sizeof(info), nullptr) != NRT_SUCCESS) ++wrong;
        if (nrt_get_model_tensor_info(model, &tensors) != NRT_SUCCESS ||
            tensors->tensor_count != 2) {
          ++wrong;
        }
        nrt_free_model_tensor_info(tensors);
        if (nrt_unload(model) != NRT_SUCCESS) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(used_bytes(0), before[0]);
  EXPECT_EQ(used_bytes(1), before[1]);
}

}  // namespace
}  // namespace neuron::test
