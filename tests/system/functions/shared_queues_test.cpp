// SPDX-License-Identifier: Apache-2.0
// Programs with more functions that transfer than a core has queues: what they leave is, bit for
// bit, what the same program leaves that has the functions' bodies in the place of the calls. The
// calls follow an input, so that nobody knows their order before. In strict mode, on generations 2
// to 4.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>

#include "tests/support/setting.h"
#include "tools/compiler/program_builder/program.h"
#include "tools/execution/session.h"

namespace neuron::test {
namespace {

using builder::Compare;
using builder::Engine;
using execution::Model;
using execution::Port;
using ::testing::HasSubstr;

constexpr uint32_t kRows = 32, kColumns = 16, kRounds = 3;
constexpr uint8_t kType = NEURON_DTYPE_U32;
constexpr Engine kEngines[] = {Engine::kSp, Engine::kActivation, Engine::kPool, Engine::kDve,
                               Engine::kPe};

// What function i does: tile = its block of memory, or of the input, or blocks of a loop; tile ^=
// sum; calls another one; its block of memory, or of the output, = sum; sum = tile. So each result
// depends on the order of all calls.
struct Design {
  uint32_t functions = 40;
  uint32_t engines = 5;   // that start transfers
  bool nested = true;     // every fourth calls the one before it
  uint32_t steps = 30;    // calls that follow the input
  uint32_t repeats = 50;  // calls of functions 0 and 3 behind them
  bool races = false;     // function 1 reads its tile before it has come
};

using Order = std::vector<uint32_t>;

class Writer {
 public:
  // `prefix`: of the names of inputs and outputs.
  Writer(const Design& design, uint8_t generation, const std::string& prefix = "")
      : program_("functions", generation), design_(design) {
    const std::vector<uint64_t> shape = {uint64_t{design.functions} * kRows, kColumns};
    x_ = program_.input(prefix + "x", kType, shape);
    start_ = program_.input(prefix + "start", kType, shape);
    order_ = program_.input(prefix + "order", kType, {design.steps});
    y_ = program_.output(prefix + "y", kType, shape);
    last_ = program_.output(prefix + "last", kType, shape);
    result_ = program_.output(prefix + "result", kType, {kRows, kColumns});
    memory_ = program_.temporary("memory", kType, shape);
    words_ = program_.temporary("words", kType, {design.steps});
    sum_ = program_.sbuf("sum", kRows, kColumns, kType);
    for (const char* name : {"leaf", "caller"}) {
      tiles_.push_back(program_.sbuf(name, kRows, kColumns, kType));
    }
    other_ = program_.sbuf("other", kRows, kColumns, kType);
  }

  // With calls, which the input "order" chooses; or with the bodies in this order.
  execution::Result<std::vector<uint8_t>> build(const Order* inlined = nullptr) {
    write(inlined);
    return program_.build();
  }
  void write(const Order* inlined = nullptr) {
    program_.section("begin");
    program_.dma(Engine::kSp, memory_.all(), start_.all());
    program_.dma(Engine::kSp, y_.all(), start_.all());
    program_.dma(Engine::kSp, words_.all(), order_.all());
    program_.memset(Engine::kDve, sum_.all(), 0x55AA);
    program_.memset(Engine::kDve, other_.all(), 0);
    inlined != nullptr ? list(*inlined) : call();
    program_.section("end");
    program_.dma(Engine::kSp, last_.all(), memory_.all());
    program_.dma(Engine::kSp, result_.all(), sum_.all());
  }
  builder::Program& program() { return program_; }

 private:
  bool calls_another(uint32_t function) const { return design_.nested && function % 4 == 3; }
  Engine engine(uint32_t number) const { return kEngines[number % design_.engines]; }
  builder::BufferAccess block(const builder::Buffer& buffer, uint32_t function) const {
    return buffer.block(uint64_t{function} * kRows, kRows, 0, kColumns);
  }

  void body(uint32_t function) {
    const builder::Tile& tile = tiles_[calls_another(function) ? 1 : 0];
    const Engine in = engine(function), out = engine(2 * function + 1);
    if (function % 13 == 5) {
      program_.memset(Engine::kDve, tile.all(), function);
      const builder::BufferAccess first = block(x_, 0);
      program_.loop(kRounds, [&] {
        program_.dma(in, other_.all(), first.advancing(int64_t{kRows} * kColumns * 4));
        program_.tensor_tensor(Engine::kDve, tile.all(), tile.all(), NEURON_ALU_XOR, other_.all());
      });
    } else {
      program_.dma(in, tile.all(), block(function % 3 == 1 ? x_ : memory_, function));
    }
    if (design_.races && function == 1) read_too_early(tile);
    program_.tensor_tensor(Engine::kDve, tile.all(), tile.all(), NEURON_ALU_XOR, sum_.all());
    if (calls_another(function)) {
      functions_.empty() ? body(function - 1) : control_.call(functions_[function - 1]);
    }
    program_.dma(out, block(function % 3 == 2 ? y_ : memory_, function), sum_.all());
    program_.tensor_copy(Engine::kDve, sum_.all(), tile.all());
  }

  // The builder would order it behind the transfer.
  void read_too_early(const builder::Tile& tile) {
    isa::Instruction copy;
    copy.opcode = NEURON_OP_TENSOR_COPY;
    const auto operand = [](const builder::Tile& of) {
      isa::Operand made;
      made.space = NEURON_SPACE_SBUF;
      made.dtype = kType;
      made.start = static_cast<uint8_t>(of.start);
      made.parts = kRows;
      made.base = of.base;
      made.ndim = 1;
      made.size[0] = kColumns;
      made.step[0] = 1;
      return made;
    };
    copy.dst = operand(other_);
    copy.src0 = operand(tile);
    program_.raw(Engine::kPool, copy);
  }

  void list(const Order& order) {
    for (const uint32_t function : order) {
      program_.section("step");
      body(function);
    }
    for (uint32_t round = 0; round < design_.repeats; ++round) {
      body(0);
      body(3);
    }
  }

  void call() {
    const builder::Index chosen = control_.number("chosen", design_.functions);
    control_.set(chosen, 0);
    for (uint32_t f = 0; f < design_.functions; ++f) {
      const std::string name = "f" + std::to_string(f);
      functions_.reserve(design_.functions);
      functions_.push_back(control_.function(name, [&] { body(f); }));
    }
    const builder::Function choose = control_.function("choose", [&] {
      for (uint32_t f = 0; f < design_.functions; ++f) {
        control_.when(chosen, Compare::kEqual, f, [&] { control_.call(functions_[f]); });
      }
    });
    for (uint32_t step = 0; step < design_.steps; ++step) {
      control_.load(chosen, words_.pattern(step, {1}, {1}));
      control_.call(choose);
    }
    if (design_.repeats == 0) return;
    control_.loop(design_.repeats, [&](builder::Index) {
      control_.call(functions_[0]);
      control_.call(functions_[3]);
    });
  }

  builder::Program program_;
  builder::ControlFlow control_ = program_.control();
  const Design design_;
  builder::Buffer x_, start_, order_, y_, last_, result_, memory_, words_;
  builder::Tile sum_, other_;
  std::vector<builder::Tile> tiles_;
  std::vector<builder::Function> functions_;
};

std::vector<uint8_t> words(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> made(bytes);
  for (size_t at = 0; at < bytes; at += 4) {
    const uint32_t word = random() & 0xFFFF;
    std::memcpy(made.data() + at, &word, 4);
  }
  return made;
}

std::vector<uint8_t> bytes_of(const Order& order) {
  std::vector<uint8_t> bytes(order.size() * 4);
  std::memcpy(bytes.data(), order.data(), bytes.size());
  return bytes;
}

void fill(const Model& model, const Order& order, uint32_t seed) {
  for (const Port& port : model.ports()) {
    if (!port.input) continue;
    const auto other = seed + static_cast<uint32_t>(port.name.size());
    const auto written =
        port.write(port.name.ends_with("order") ? bytes_of(order) : words(port.bytes, other));
    ASSERT_TRUE(written) << written.error().sentence;
  }
}

using Outputs = std::vector<std::pair<std::string, std::vector<uint8_t>>>;

Outputs outputs_of(const Model& model) {
  Outputs outputs;
  for (const Port& port : model.ports()) {
    if (port.input) continue;
    auto bytes = port.read();
    EXPECT_TRUE(bytes) << bytes.error().sentence;
    if (bytes) outputs.emplace_back(port.name, std::move(*bytes));
  }
  return outputs;
}

Order random_order(const Design& design, uint32_t seed) {
  std::mt19937 random(seed);
  Order order(design.steps);
  for (uint32_t& function : order) function = random() % design.functions;
  return order;
}

struct Family {
  const char* instance_type;
  uint8_t generation;
};

class SharedQueues : public ::testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    auto session = execution::Session::open(1);
    ASSERT_TRUE(session) << session.error().sentence;
    session_ = std::move(*session);
  }

  // Both programs with the same inputs. `calling` has been loaded.
  void compare(const Design& design, Model& calling, const Order& order, uint32_t seed) const {
    const auto neff = Writer(design, GetParam().generation).build(&order);
    ASSERT_TRUE(neff) << neff.error().sentence;
    auto inlined = Model::load(*neff, 0);
    ASSERT_TRUE(inlined) << inlined.error().sentence;
    for (Model* model : {&calling, inlined->get()}) {
      fill(*model, order, seed);
      const auto report = model->execute();
      ASSERT_TRUE(report) << report.error().sentence;
    }
    EXPECT_EQ(outputs_of(calling), outputs_of(**inlined));
  }

  std::unique_ptr<Model> load(const Design& design) const {
    const auto neff = Writer(design, GetParam().generation).build();
    EXPECT_TRUE(neff) << neff.error().sentence;
    if (!neff) return nullptr;
    auto model = Model::load(*neff, 0);
    EXPECT_TRUE(model) << model.error().sentence;
    return model ? std::move(*model) : nullptr;
  }

 private:
  Setting emulator_{"NEURON_EMULATOR", GetParam().instance_type};
  Setting one_{"NEURON_LOGICAL_NC_CONFIG", GetParam().generation == 2 ? nullptr : "1"};
  Setting quiet_{"NEURON_RT_LOG_LEVEL", "QUIET"};
  std::unique_ptr<execution::Session> session_;
};

INSTANTIATE_TEST_SUITE_P(OfEachGeneration, SharedQueues,
                         ::testing::Values(Family{"trn1.2xlarge", 2}, Family{"trn2.3xlarge", 3},
                                           Family{"trn3pd98.3xlarge", 4}),
                         [](const auto& info) {
                           return "Generation" + std::to_string(info.param.generation);
                         });

TEST_P(SharedQueues, FortyFunctionsThatCallEachOtherDoWhatTheirBodiesDo) {
  const Design design;
  const auto model = load(design);
  ASSERT_NE(model, nullptr);
  for (const uint32_t seed : {1u, 2u, 3u}) {
    compare(design, *model, random_order(design, seed), seed);
    if (HasFatalFailure()) return;
  }
}

TEST_P(SharedQueues, EveryFunctionIsCalledInBothDirections) {
  Design design;
  design.steps = 2 * design.functions;
  design.repeats = 0;
  Order order;
  for (uint32_t f = 0; f < design.functions; ++f) order.push_back(f);
  order.insert(order.end(), order.rbegin(), order.rend());
  const auto model = load(design);
  ASSERT_NE(model, nullptr);
  compare(design, *model, order, 4);
}

TEST_P(SharedQueues, FunctionsOfOneEngineAreCalledMoreOftenThanTheirRingsHold) {
  Design design;
  design.engines = 1;
  design.functions = 20;
  design.steps = 5;
  design.repeats = 400;
  const auto model = load(design);
  ASSERT_NE(model, nullptr);
  compare(design, *model, {7, 7, 7, 0, 19}, 5);
}

TEST_P(SharedQueues, TwoModelsTakeTurnsOnACore) {
  const Design design{.functions = 16, .steps = 8, .repeats = 2};
  const auto first = load(design), second = load(design);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  for (const uint32_t seed : {6u, 7u}) {
    compare(design, *first, random_order(design, seed), seed);
    compare(design, *second, random_order(design, seed + 10), seed);
  }
}

// Between two numbers of calls, so that what is around them does not count.
TEST_P(SharedQueues, ACallOfAFunctionThatSharesTakesAFewMicrosecondsLonger) {
  const auto of_a_call = [&](uint32_t functions) {
    std::array<uint64_t, 2> times{};
    for (const uint32_t which : {0u, 1u}) {
      const Design design{.functions = functions,
                          .engines = 1,
                          .nested = false,
                          .steps = 1,
                          .repeats = 50 + 50 * which};
      const auto model = load(design);
      if (model == nullptr) return 0.0;
      fill(*model, {0}, 9);
      const auto report = model->execute();
      EXPECT_TRUE(report) << report.error().sentence;
      if (report) times[which] = report->device_ps;
    }
    return static_cast<double>(times[1] - times[0]) / 100 / 1e6;
  };
  const double alone = of_a_call(4), shared = of_a_call(20);
  RecordProperty("microseconds_alone", std::to_string(alone));
  RecordProperty("microseconds_shared", std::to_string(shared));
  EXPECT_GT(shared - alone, 2.5);
  EXPECT_LT(shared - alone, 4.5);
}

TEST_P(SharedQueues, AReadThatDoesNotWaitForATransferOfAFunctionIsARace) {
  Design design;
  design.races = true;
  design.steps = 2;
  design.repeats = 0;
  const auto model = load(design);
  ASSERT_NE(model, nullptr);
  fill(*model, {0, 2}, 8);
  const auto without = model->execute();
  EXPECT_TRUE(without) << without.error().sentence;
  fill(*model, {0, 1}, 8);
  const auto report = model->execute();
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().sentence, HasSubstr("RACE"));
  fill(*model, {2, 0}, 8);
  const auto again = model->execute();
  EXPECT_TRUE(again) << again.error().sentence;
}

TEST(SharedQueuesOfTwoCores, AreThoseOfEachCoresFunctions) {
  const Setting emulator("NEURON_EMULATOR", "trn2.3xlarge"), quiet("NEURON_RT_LOG_LEVEL", "QUIET");
  const auto session = execution::Session::open(1);
  ASSERT_TRUE(session) << session.error().sentence;
  const Design design{.functions = 20, .steps = 12, .repeats = 3};
  const Order order = random_order(design, 11);
  std::vector<Outputs> found;
  for (const Order* inlined : {static_cast<const Order*>(nullptr), &order}) {
    Writer first(design, 3), second(design, 3, "second_");
    second.write(inlined);
    first.program().physical_cores(2, &second.program());
    const auto neff = first.build(inlined);
    ASSERT_TRUE(neff) << neff.error().sentence;
    const auto model = Model::load(*neff, 0);
    ASSERT_TRUE(model) << model.error().sentence;
    for (const uint32_t seed : {12u, 13u}) {
      fill(**model, order, seed);
      const auto report = (*model)->execute();
      ASSERT_TRUE(report) << report.error().sentence;
      found.push_back(outputs_of(**model));
    }
  }
  EXPECT_EQ(found[0].size(), 6u);
  EXPECT_EQ(found[0], found[2]);
  EXPECT_EQ(found[1], found[3]);
  EXPECT_NE(found[0], found[1]);
}

}  // namespace
}  // namespace neuron::test
