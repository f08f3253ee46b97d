// SPDX-License-Identifier: Apache-2.0
// Whatever the engines and DMA queues do first, a built program must compute what its operations,
// taken one after the other, compute.
//
// Random programs are built, read back, and run by a small machine that knows only waits, updates
// and what each operation reads and writes; it picks at random who goes on. Memory holds a number
// for each tile; an operation writes a mix of its own number and of what it reads.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tests/unit/tools/program_builder/program_reader.h"
#include "tools/program_builder/program.h"

namespace neuron::builder {
namespace {

constexpr unsigned kTiles = 7;
constexpr unsigned kBuffers = 3;

struct Operation {
  bool is_transfer = false;
  std::vector<unsigned> reads;  // Cells: tiles, then buffers
  unsigned write = 0;
};

std::uint64_t mix(std::uint64_t operation, const std::vector<std::uint64_t>& values) {
  std::uint64_t hash = operation * 0x9E3779B97F4A7C15ull + 1;
  for (std::uint64_t value : values) hash = (hash ^ value) * 0xD6E8FEB86659FD93ull + 7;
  return hash;
}

struct Built {
  testing::Loaded loaded;
  std::vector<Operation> operations;  // Operation i has debug id i + 1
};

Built build_random(std::mt19937& random, unsigned count) {
  Program program("random");
  std::vector<Tile> tiles;
  std::vector<Buffer> buffers;
  for (unsigned t = 0; t < kTiles; ++t) {
    tiles.push_back(program.sbuf("tile", 32, 16, NEURON_DTYPE_F32));
  }
  for (unsigned b = 0; b < kBuffers; ++b) {
    buffers.push_back(program.temporary("buffer" + std::to_string(b), NEURON_DTYPE_F32, {32, 16}));
  }
  Built built;
  constexpr Engine kOwners[] = {Engine::kSp, Engine::kPool, Engine::kActivation, Engine::kDve};
  for (unsigned i = 0; i < count; ++i) {
    const unsigned to = random() % kTiles, a = random() % kTiles, b = random() % kTiles;
    const unsigned buffer = random() % kBuffers;
    const Engine owner = kOwners[random() % 4];
    Operation operation;
    switch (random() % 6) {
      case 0:
        program.dma(owner, tiles[to].all(), buffers[buffer].all());
        operation = {true, {kTiles + buffer}, to};
        break;
      case 1:
        program.dma(owner, buffers[buffer].all(), tiles[a].all());
        operation = {true, {a}, kTiles + buffer};
        break;
      case 2:
        program.activate(tiles[to].all(), NEURON_ACT_COPY, tiles[a].all());
        operation = {false, {a}, to};
        break;
      case 3:
        program.tensor_copy(Engine::kPool, tiles[to].all(), tiles[a].all());
        operation = {false, {a}, to};
        break;
      default:
        program.tensor_tensor(random() % 2 ? Engine::kDve : Engine::kPool, tiles[to].all(),
                              tiles[a].all(), NEURON_ALU_ADD, tiles[b].all());
        operation = {false, {a, b}, to};
        break;
    }
    built.operations.push_back(operation);
  }
  built.loaded = testing::load(program.build());
  return built;
}

class Machine {
 public:
  Machine(const Built& built, std::uint32_t seed) : built_(built), random_(seed) {
    for (unsigned c = 0; c < kTiles + kBuffers; ++c) cells_[c] = 1000 + c;
  }

  // False: nothing can go on although the program is not over.
  bool run() {
    for (;;) {
      std::vector<unsigned> able;
      bool over = true;
      for (unsigned e = 0; e < NEURON_CORE_ENGINES; ++e) {
        const auto& code = built_.loaded.code[e];
        if (pc_[e] >= code.size()) continue;
        over = false;
        if (holds(code[pc_[e]])) able.push_back(e);
      }
      for (unsigned t = 0; t < flying_.size(); ++t) able.push_back(100 + t);
      if (able.empty()) return over;
      const unsigned choice = able[random_() % able.size()];
      choice >= 100 ? advance(choice - 100) : step(choice);
    }
  }

  const std::map<unsigned, std::uint64_t>& cells() const { return cells_; }

 private:
  // A transfer reads when its first queue moves and writes when its last one does.
  struct Flight {
    const Operation* operation;
    unsigned number;
    std::uint8_t semaphore;
    unsigned moved = 0;
    std::uint64_t value = 0;
  };

  bool holds(const isa::Instruction& i) const {
    for (const isa::Wait& wait : i.wait) {
      if (wait.condition == NEURON_WAIT_NONE) continue;
      EXPECT_EQ(wait.condition, NEURON_WAIT_GE);
      const auto found = semaphores_.find(wait.index);
      if ((found == semaphores_.end() ? 0U : found->second) < wait.value) return false;
    }
    return true;
  }

  void step(unsigned engine) {
    const isa::Instruction& i = built_.loaded.code[engine][pc_[engine]++];
    if (i.opcode == NEURON_OP_EVENT || i.opcode == NEURON_OP_RET) return;
    const unsigned number = i.debug;
    const Operation& operation = built_.operations[number - 1];
    if (i.opcode == NEURON_OP_DMA_TRIGGER) {
      const auto& transfer = built_.loaded.graph().engines[engine].dma[next_transfer_[engine]++];
      flying_.push_back({&operation, number, *transfer.semaphore});
    } else {
      cells_[operation.write] = compute(operation, number);
    }
    if (i.update[0].operation == NEURON_UPDATE_INC) ++semaphores_[i.update[0].index];
  }

  void advance(unsigned index) {
    Flight& flight = flying_[index];
    if (flight.moved == 0) flight.value = compute(*flight.operation, flight.number);
    if (++flight.moved == 16) cells_[flight.operation->write] = flight.value;
    ++semaphores_[flight.semaphore];
    if (flight.moved == 16) flying_.erase(flying_.begin() + index);
  }

  std::uint64_t compute(const Operation& operation, unsigned number) {
    std::vector<std::uint64_t> values;
    for (unsigned cell : operation.reads) values.push_back(cells_[cell]);
    return mix(number, values);
  }

  const Built& built_;
  std::mt19937 random_;
  std::map<unsigned, std::uint64_t> cells_;
  std::array<std::size_t, NEURON_CORE_ENGINES> pc_{};
  std::array<std::size_t, NEURON_CORE_ENGINES> next_transfer_{};
  std::map<std::uint8_t, unsigned> semaphores_;
  std::vector<Flight> flying_;
};

TEST(Ordering, GivesTheResultOfProgramOrderInEveryInterleaving) {
  std::mt19937 random(11);
  for (unsigned round = 0; round < 25; ++round) {
    const Built built = build_random(random, 5 + round * 4);
    std::map<unsigned, std::uint64_t> expected;
    for (unsigned c = 0; c < kTiles + kBuffers; ++c) expected[c] = 1000 + c;
    for (unsigned i = 0; i < built.operations.size(); ++i) {
      std::vector<std::uint64_t> values;
      for (unsigned cell : built.operations[i].reads) values.push_back(expected[cell]);
      expected[built.operations[i].write] = mix(i + 1, values);
    }
    for (std::uint32_t seed = 0; seed < 8; ++seed) {
      Machine machine(built, seed * 77 + round);
      ASSERT_TRUE(machine.run()) << "deadlock in round " << round;
      ASSERT_EQ(machine.cells(), expected) << "round " << round << ", seed " << seed;
    }
  }
}

TEST(Ordering, ReusesSemaphoresWhenThereAreMoreTransfersThanSemaphores) {
  Program program("transfers");
  const Buffer in = program.input("x", NEURON_DTYPE_F32, {32, 1024});
  std::vector<Tile> tiles;
  for (unsigned t = 0; t < 300; ++t) tiles.push_back(program.sbuf("t", 32, 16, NEURON_DTYPE_F32));
  for (unsigned t = 0; t < 300; ++t)
    program.dma(Engine::kSp, tiles[t].all(), in.block(0, 32, 0, 16));
  const auto loaded = testing::load(program.build());
  unsigned waiting = 0;
  for (const auto& i : loaded.code[NEURON_ENGINE_SP]) {
    waiting += i.opcode == NEURON_OP_DMA_TRIGGER && i.wait[0].condition != NEURON_WAIT_NONE;
  }
  EXPECT_EQ(waiting, 100U);
  EXPECT_LE(loaded.graph().semaphores.size(), 224U);
}

TEST(Ordering, WaitsOnlyForWhatIsNotKnownYet) {
  Program program("chain");
  const Tile a = program.sbuf("a", 32, 8, NEURON_DTYPE_F32);
  const Tile b = program.sbuf("b", 32, 8, NEURON_DTYPE_F32);
  const Tile c = program.sbuf("c", 32, 8, NEURON_DTYPE_F32);
  program.memset(Engine::kPool, a.all(), 0);
  program.tensor_copy(Engine::kDve, b.all(), a.all());
  // Activation waits for DVE, which has waited for Pool: a needs no wait of its own.
  program.activate(c.all(), NEURON_ACT_COPY, b.all());
  program.activate(c.all(), NEURON_ACT_COPY, a.all());
  const auto loaded = testing::load(program.build());
  const auto& act = loaded.code[NEURON_ENGINE_ACTIVATION];
  ASSERT_EQ(act.size(), 3U);
  EXPECT_EQ(act[0].wait[0].condition, NEURON_WAIT_GE);
  EXPECT_EQ(act[0].wait[1].condition, NEURON_WAIT_NONE);
  EXPECT_EQ(act[1].wait[0].condition, NEURON_WAIT_NONE);
}

TEST(Ordering, PutsAThirdWaitIntoAnInstructionOfItsOwn) {
  Program program("three");
  const Buffer in = program.input("x", NEURON_DTYPE_F32, {32, 8});
  std::array<Tile, 4> tiles;
  for (Tile& tile : tiles) tile = program.sbuf("tile", 32, 8, NEURON_DTYPE_F32);
  program.dma(Engine::kSp, tiles[0].all(), in.all());
  program.dma(Engine::kSp, tiles[1].all(), in.all());
  program.activate(tiles[2].all(), NEURON_ACT_COPY, tiles[2].all());
  program.tensor_tensor(Engine::kDve, tiles[2].all(), tiles[0].all(), NEURON_ALU_ADD,
                        tiles[1].all());
  const auto loaded = testing::load(program.build());
  const auto& dve = loaded.code[NEURON_ENGINE_DVE];
  ASSERT_EQ(dve.size(), 3U);
  EXPECT_EQ(dve[0].opcode, NEURON_OP_EVENT);
  EXPECT_EQ(dve[0].wait[1].condition, NEURON_WAIT_GE);
  EXPECT_EQ(dve[1].wait[0].condition, NEURON_WAIT_GE);
  EXPECT_EQ(dve[1].wait[1].condition, NEURON_WAIT_NONE);
}

}  // namespace
}  // namespace neuron::builder
