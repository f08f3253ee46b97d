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

#include "tests/unit/tools/compiler/program_builder/program_reader.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::builder {
namespace {

constexpr unsigned kTiles = 7;
constexpr unsigned kBuffers = 3;

constexpr unsigned kBlocks = 40;  // Of a buffer

// Tiles, then the blocks of the buffers.
struct Cell {
  unsigned first = 0;
  int step = 0;  // With each round of the loop
  unsigned in_round(unsigned round) const {
    return first + static_cast<unsigned>(step * static_cast<int>(round));
  }
};

struct Operation {
  bool is_transfer = false;
  std::vector<Cell> reads;
  Cell write;
};

uint64_t mix(uint64_t operation, const std::vector<uint64_t>& values) {
  uint64_t hash = operation * 0x9E3779B97F4A7C15ull + 1;
  for (uint64_t value : values) hash = (hash ^ value) * 0xD6E8FEB86659FD93ull + 7;
  return hash;
}

struct Built {
  testing::Loaded loaded;
  std::vector<Operation> operations;  // Operation i has debug id i + 1
  // Operations [first, end) are a loop.
  unsigned first = 0, end = 0, rounds = 1;
};

// `count` operations before, in and behind a loop; no loop if rounds is 0.
Built build_random(std::mt19937& random, unsigned count, unsigned rounds = 0) {
  Program program("random");
  std::vector<Tile> tiles;
  std::vector<Buffer> buffers;
  for (unsigned t = 0; t < kTiles; ++t) {
    tiles.push_back(program.sbuf("tile", 32, 16, NEURON_DTYPE_F32));
  }
  for (unsigned b = 0; b < kBuffers; ++b) {
    buffers.push_back(
        program.temporary("buffer" + std::to_string(b), NEURON_DTYPE_F32, {32 * kBlocks, 16}));
  }
  Built built;
  constexpr Engine kOwners[] = {Engine::kSp, Engine::kPool, Engine::kActivation, Engine::kDve};
  const auto add = [&](bool looped) {
    const unsigned to = random() % kTiles, a = random() % kTiles, b = random() % kTiles;
    const unsigned buffer = random() % kBuffers;
    const Engine owner = kOwners[random() % 4];
    // Blocks that stay, or go on by one or two, forwards or back.
    const int step = looped ? static_cast<int>(random() % 5) - 2 : 0;
    const unsigned block = (step < 0 ? kBlocks / 2 : 0) + random() % 4;
    const Cell memory{kTiles + buffer * kBlocks + block, step};
    const BufferAccess access = buffers[buffer].rows_of_round(block * 32, 32, step * 32);
    Operation operation;
    switch (random() % 6) {
      case 0:
        program.dma(owner, tiles[to].all(), access);
        operation = {true, {memory}, {to}};
        break;
      case 1:
        program.dma(owner, access, tiles[a].all());
        operation = {true, {{a}}, memory};
        break;
      case 2:
        program.activate(tiles[to].all(), NEURON_ACT_COPY, tiles[a].all());
        operation = {false, {{a}}, {to}};
        break;
      case 3:
        program.tensor_copy(Engine::kPool, tiles[to].all(), tiles[a].all());
        operation = {false, {{a}}, {to}};
        break;
      default:
        program.tensor_tensor(random() % 2 ? Engine::kDve : Engine::kPool, tiles[to].all(),
                              tiles[a].all(), NEURON_ALU_ADD, tiles[b].all());
        operation = {false, {{a}, {b}}, {to}};
        break;
    }
    built.operations.push_back(operation);
  };
  for (unsigned i = 0; i < count; ++i) add(false);
  if (rounds != 0) {
    built.first = count;
    built.end = 2 * count;
    built.rounds = rounds;
    program.loop(rounds, [&] {
      for (unsigned i = 0; i < count; ++i) add(true);
    });
    for (unsigned i = 0; i < count; ++i) add(false);
  }
  built.loaded = testing::load(program.build());
  return built;
}

class Machine {
 public:
  Machine(const Built& built, uint32_t seed) : built_(built), random_(seed) {
    for (unsigned c = 0; c < kTiles + kBuffers * kBlocks; ++c) cells_[c] = 1000 + c;
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
        if (holds(e, code[pc_[e]])) able.push_back(e);
      }
      for (unsigned t = 0; t < flying_.size(); ++t) able.push_back(100 + t);
      if (able.empty()) return over;
      const unsigned choice = able[random_() % able.size()];
      choice >= 100 ? advance(choice - 100) : step(choice);
    }
  }

  const std::map<unsigned, uint64_t>& cells() const { return cells_; }

 private:
  // A transfer reads when its first queue moves and writes when its last one does.
  struct Flight {
    const Operation* operation;
    unsigned number;
    unsigned round;
    uint8_t semaphore;
    unsigned moved = 0;
    uint64_t value = 0;
  };

  struct Frame {
    size_t first = 0, end = 0;
    unsigned limit = 0;
  };

  bool holds(unsigned engine, const isa::Instruction& i) const {
    for (const isa::Wait& wait : i.wait) {
      if (wait.condition == NEURON_WAIT_NONE) continue;
      EXPECT_EQ(wait.condition, NEURON_WAIT_GE);
      const auto found = semaphores_.find(wait.index);
      const auto wanted = wait.is_register ? static_cast<int>(registers_[engine][wait.value])
                                           : static_cast<int>(wait.value);
      if ((found == semaphores_.end() ? 0 : static_cast<int>(found->second)) < wanted) return false;
    }
    return true;
  }

  void step(unsigned engine) {
    const isa::Instruction& i = built_.loaded.code[engine][pc_[engine]++];
    auto& registers = registers_[engine];
    if (i.opcode == NEURON_OP_MOV) registers[i.flow.rd] = i.scalar0.value;
    if (i.opcode == NEURON_OP_ALU) registers[i.flow.rd] = registers[i.flow.ra] + i.scalar0.value;
    if (i.opcode == NEURON_OP_LOOP) {
      loops_[engine] = {pc_[engine], pc_[engine] + i.loop.length, i.scalar1.value};
      registers[i.flow.rd] = 0;
    }
    if (i.opcode >= NEURON_OP_TENSOR_TENSOR) work(engine, i);
    Frame& loop = loops_[engine];
    if (loop.end != 0 && pc_[engine] == loop.end) {
      if (++registers[0] < loop.limit) {
        pc_[engine] = loop.first;
      } else {
        loop = {};
        registers[0] = 0;
      }
    }
  }

  void work(unsigned engine, const isa::Instruction& i) {
    const unsigned number = i.debug, round = registers_[engine][0];
    const Operation& operation = built_.operations[number - 1];
    if (i.opcode == NEURON_OP_DMA_TRIGGER) {
      const auto& transfer = built_.loaded.graph().engines[engine].dma[next_transfer_[engine]++];
      flying_.push_back({&operation, number, round, *transfer.semaphore});
    } else {
      cells_[operation.write.in_round(round)] = compute(operation, number, round);
    }
    if (i.update[0].operation == NEURON_UPDATE_INC) ++semaphores_[i.update[0].index];
  }

  void advance(unsigned index) {
    Flight& flight = flying_[index];
    if (flight.moved == 0) {
      flight.value = compute(*flight.operation, flight.number, flight.round);
    }
    if (++flight.moved == 16) {
      cells_[flight.operation->write.in_round(flight.round)] = flight.value;
    }
    ++semaphores_[flight.semaphore];
    if (flight.moved == 16) flying_.erase(flying_.begin() + index);
  }

  uint64_t compute(const Operation& operation, unsigned number, unsigned round) {
    std::vector<uint64_t> values;
    for (const Cell& cell : operation.reads) values.push_back(cells_[cell.in_round(round)]);
    return mix(number + 10000 * round, values);
  }

  const Built& built_;
  std::mt19937 random_;
  std::map<unsigned, uint64_t> cells_;
  std::array<size_t, NEURON_CORE_ENGINES> pc_{};
  std::array<std::array<uint32_t, NEURON_REGISTERS>, NEURON_CORE_ENGINES> registers_{};
  std::array<Frame, NEURON_CORE_ENGINES> loops_{};
  std::array<size_t, NEURON_CORE_ENGINES> next_transfer_{};
  std::map<uint8_t, unsigned> semaphores_;
  std::vector<Flight> flying_;
};

std::map<unsigned, uint64_t> in_program_order(const Built& built) {
  std::map<unsigned, uint64_t> cells;
  for (unsigned c = 0; c < kTiles + kBuffers * kBlocks; ++c) cells[c] = 1000 + c;
  const auto run = [&](unsigned first, unsigned end, unsigned round) {
    for (unsigned i = first; i < end; ++i) {
      std::vector<uint64_t> values;
      for (const Cell& cell : built.operations[i].reads) {
        values.push_back(cells[cell.in_round(round)]);
      }
      cells[built.operations[i].write.in_round(round)] = mix(i + 1 + 10000 * round, values);
    }
  };
  run(0, built.first, 0);
  for (unsigned round = 0; round < built.rounds; ++round) run(built.first, built.end, round);
  run(built.end, static_cast<unsigned>(built.operations.size()), 0);
  return cells;
}

void check(const Built& built, unsigned round) {
  const auto expected = in_program_order(built);
  for (uint32_t seed = 0; seed < 8; ++seed) {
    Machine machine(built, seed * 77 + round);
    ASSERT_TRUE(machine.run()) << "deadlock in round " << round;
    ASSERT_EQ(machine.cells(), expected) << "round " << round << ", seed " << seed;
  }
}

TEST(Ordering, GivesTheResultOfProgramOrderInRandomInterleavings) {
  std::mt19937 random(11);
  for (unsigned round = 0; round < 25; ++round) check(build_random(random, 5 + round * 4), round);
}

TEST(Ordering, GivesTheResultOfProgramOrderInLoopsInRandomInterleavings) {
  std::mt19937 random(12);
  for (unsigned round = 0; round < 60; ++round) {
    check(build_random(random, 1 + round % 14, 2 + round % 7), round);
  }
}

TEST(Ordering, ReusesSemaphoresWhenThereAreMoreTransfersThanSemaphores) {
  Program program("transfers");
  const Buffer in = program.input("x", NEURON_DTYPE_F32, {32, 1024});
  std::vector<Tile> tiles;
  for (unsigned t = 0; t < 300; ++t) tiles.push_back(program.sbuf("t", 32, 16, NEURON_DTYPE_F32));
  for (unsigned t = 0; t < 300; ++t) {
    program.dma(Engine::kSp, tiles[t].all(), in.block(0, 32, 0, 16));
  }
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

TEST(Ordering, PutsWhatOverwritesAnInputBehindWhatReadsIt) {
  const auto waits = [](bool same) {
    Program program("donated");
    const Buffer x = program.input("x", NEURON_DTYPE_F32, {32, 8});
    const Buffer y = program.output("y", NEURON_DTYPE_F32, {32, 8}, same ? "x" : "");
    const Tile read = program.sbuf("read", 32, 8, NEURON_DTYPE_F32);
    const Tile written = program.sbuf("written", 32, 8, NEURON_DTYPE_F32);
    program.memset(Engine::kPool, written.all(), 0);
    program.dma(Engine::kSp, read.all(), x.all());
    program.dma(Engine::kActivation, y.all(), written.all());
    const auto loaded = testing::load(program.build());
    size_t count = 0;
    for (const auto& i : loaded.code[NEURON_ENGINE_ACTIVATION]) {
      if (i.opcode != NEURON_OP_DMA_TRIGGER) break;
      for (const auto& wait : i.wait) count += wait.condition != NEURON_WAIT_NONE;
    }
    return count;
  };
  EXPECT_EQ(waits(false), 1U);  // for Pool
  EXPECT_EQ(waits(true), 2U);   // and for the transfer that reads
}

TEST(Ordering, RefusesAnOutputInTheMemoryOfWhatIsNoInput) {
  Program program("donated");
  program.output("y", NEURON_DTYPE_F32, {32, 8}, "x");
  const auto built = program.build();
  ASSERT_FALSE(built);
  EXPECT_NE(built.error().sentence.find("which does not exist"), std::string::npos);
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
