// SPDX-License-Identifier: Apache-2.0
// What the flow of a program refuses, each with its sentence; and what it must not refuse.
#include "tools/compiler/program_builder/control_flow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "hw/address_map.h"
#include "tests/unit/tools/compiler/program_builder/program_reader.h"
#include "tests/unit/tools/compiler/program_builder/short_names.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::builder {
namespace {

using ::testing::HasSubstr;

struct Fixture {
  Program program{"bad"};
  ControlFlow control = program.control();
  Buffer x = program.input("x", kF32, {32, 8});
  Buffer memory = program.temporary("memory", kF32, {64, 8});
  Buffer constant = program.constant("constant", kU32, {1}, {1, 0, 0, 0});
  Tile tile = program.sbuf("tile", 32, 8, kF32);
  Tile word = program.sbuf("word", 1, 1, kU32);
  Index number(uint32_t most, const char* name = "n") {
    const Index made = control.number(name, most);
    control.set(made, 0);
    return made;
  }
  void work() { program.memset(Engine::kDve, tile.all(), 0); }
  AddressField condition() const {
    return {NEURON_ADDRESS_ADDR, Transfer::kOnChip,
            word.start * uint64_t{NEURON_SBUF_PARTITION_STRIDE} + word.base};
  }
};

using Write = std::function<void(Fixture&)>;

void expect_refused(const char* sentence, const Write& write) {
  Fixture f;
  f.work();
  write(f);
  const auto built = f.program.build();
  ASSERT_FALSE(built) << sentence;
  EXPECT_THAT(built.error().sentence, HasSubstr(sentence));
  EXPECT_THAT(built.error().sentence, HasSubstr("program \"bad\""));
}

void expect_built(const Write& write) {
  Fixture f;
  f.work();
  write(f);
  const auto built = f.program.build();
  EXPECT_TRUE(built) << built.error().sentence;
}

// So many loops around each other, and `body` in the innermost one.
void nest(Fixture& f, uint32_t loops, const std::function<void()>& body) {
  if (loops == 0) return body();
  f.program.loop(2, [&] { nest(f, loops - 1, body); });
}

TEST(ControlFlow, RefusesMoreRoundsThanRegistersCount) {
  constexpr uint32_t kMany = 1u << 31;
  expect_refused("a loop of 2147483648 rounds",
                 [](Fixture& f) { f.program.loop(kMany, [&] { f.work(); }); });
  expect_refused("a loop of 2147483648 rounds",
                 [](Fixture& f) { f.control.loop(kMany, [&](Index) { f.work(); }); });
  expect_refused("a loop of up to 4294967295 rounds", [](Fixture& f) {
    f.control.loop(f.number(UINT32_MAX), [&](Index) { f.work(); });
  });
}

TEST(ControlFlow, RefusesMoreLoopsAroundEachOtherThanEnginesKeep) {
  expect_built([](Fixture& f) { nest(f, 8, [&] { f.work(); }); });
  expect_refused("more than 8 loops around each other",
                 [](Fixture& f) { nest(f, 9, [&] { f.work(); }); });
}

// Loops around a call and loops of the function count together, through all functions in between.
TEST(ControlFlow, RefusesMoreLoopsAroundEachOtherAcrossFunctions) {
  const auto write = [](Fixture& f, uint32_t in_first, uint32_t in_second, uint32_t around) {
    const Function first =
        f.control.function("first", [&] { nest(f, in_first, [&] { f.work(); }); });
    const Function second = f.control.function("second", [&] {
      nest(f, 1, [&] { f.work(); });
      nest(f, in_second, [&] { f.control.call(first); });
    });
    nest(f, around, [&] { f.control.call(second); });
  };
  expect_built([&](Fixture& f) { write(f, 3, 3, 2); });
  expect_refused("function \"second\" has 6 loops around each other and is called in 3",
                 [&](Fixture& f) { write(f, 3, 3, 3); });
  expect_refused("function \"first\" has 5 loops around each other and is called in 4",
                 [&](Fixture& f) { write(f, 5, 4, 0); });
}

// Neither a loop of one round nor one with nothing in it is a loop of an engine.
TEST(ControlFlow, CountsNoLoopsThatEnginesDoNotHave) {
  expect_built([](Fixture& f) {
    const Function function = f.control.function("function", [&] {
      nest(f, 3, [] {});
      nest(f, 2, [&] { f.work(); });
    });
    f.control.loop(1, [&](Index) { nest(f, 6, [&] { f.control.call(function); }); });
  });
}

// The runtime's call of the main program is the eighth.
TEST(ControlFlow, RefusesMoreCallsInsideOfEachOtherThanEnginesKeep) {
  const auto write = [](Fixture& f, uint32_t calls) {
    Function last = f.control.function("f1", [&] { f.work(); });
    for (uint32_t i = 2; i <= calls; ++i) {
      last = f.control.function("f" + std::to_string(i), [&] { f.control.call(last); });
    }
    f.control.call(last);
  };
  expect_built([&](Fixture& f) { write(f, 7); });
  expect_refused("function \"f8\" and those that it calls are 8 calls inside of each other",
                 [&](Fixture& f) { write(f, 8); });
}

TEST(ControlFlow, RefusesAFunctionThatItDidNotMake) {
  expect_refused("a function that was never made is called",
                 [](Fixture& f) { f.control.call(Function()); });
  expect_refused("a function that was never made is called", [](Fixture& f) {
    Function itself;
    itself = f.control.function("function", [&] { f.control.call(itself); });
  });
  expect_refused("a function that was never made is called", [](Fixture& f) {
    const Function made = f.control.function("function", [&] { f.work(); });
    f.control.call({made.number + 1, made.program});
  });
  expect_refused("a function of another program is called", [](Fixture& f) {
    f.control.function("function", [&] { f.work(); });
    Fixture other;
    f.control.call(other.control.function("function", [&] { other.work(); }));
  });
}

TEST(ControlFlow, RefusesAFunctionOfATakenNameOrInAnotherBody) {
  expect_refused("a function has the name \"twice\", which is taken", [](Fixture& f) {
    for (int i = 0; i < 2; ++i) f.control.function("twice", [&] { f.work(); });
  });
  expect_refused("a function has the name \"\", which is empty",
                 [](Fixture& f) { f.control.function("", [&] { f.work(); }); });
  expect_refused("function \"inner\" begins inside of a loop, branch or function", [](Fixture& f) {
    f.program.loop(2, [&] { f.control.function("inner", [&] { f.work(); }); });
  });
}

TEST(ControlFlow, RefusesWhatHappensOnceInAnotherBody) {
  constexpr const char* kSentence = "what happens once lies in a loop, branch or function";
  const auto once = [](Fixture& f) { f.control.once([&] { f.work(); }); };
  expect_refused(kSentence, [&](Fixture& f) { f.program.loop(2, [&] { once(f); }); });
  expect_refused(kSentence, [&](Fixture& f) { f.control.function("function", [&] { once(f); }); });
  expect_refused(kSentence, [&](Fixture& f) {
    f.program.parts().schedule.begin_while(f.condition());
    once(f);
  });
}

TEST(ControlFlow, RefusesIndexesThatItDidNotMake) {
  constexpr const char* kNever = "an index that was never made is used";
  constexpr const char* kOther = "an index of another program is used";
  const auto uses = [](Fixture& f, Index index) {
    return std::vector<std::function<void()>>{
        [&f, index] { f.control.set(index, 1); },
        [&f, index] { f.control.load(index, f.word.all()); },
        [&f, index] { f.control.store(f.word.all(), index); },
        [&f, index] { f.control.when(index, Compare::kEqual, 0, [&] { f.work(); }); },
        [&f, index] { f.control.loop(index, [&](Index) { f.work(); }); },
        [&f, index] {
          f.program.memset(Engine::kDve, f.tile.column_range(0, 1).advancing(1, index), 0);
        },
        [&f, index] {
          f.program.dma_generate(f.tile.all(), f.memory.block(0, 32, 0, 8).advancing(32, index));
        },
        [&f, index] {
          f.program.dma(Engine::kSp, f.tile.column_range(0, 1).advancing(1, index),
                        f.memory.block(0, 32, 0, 1));
        },
    };
  };
  for (size_t use = 0; use < 8; ++use) {
    SCOPED_TRACE(use);
    expect_refused(kOther, [&](Fixture& f) {
      f.number(5);
      Fixture other;
      uses(f, other.number(5))[use]();
    });
    if (use >= 5) continue;
    expect_refused(kNever, [&](Fixture& f) { uses(f, Index())[use](); });
  }
}

TEST(ControlFlow, RefusesTheRoundOfALoopBehindItsEnd) {
  const auto use = [](const std::function<void(Fixture&, Index)>& use_round) {
    return [use_round](Fixture& f) {
      Index kept;
      f.control.loop(3, [&](Index round) {
        kept = round;
        f.work();
      });
      use_round(f, kept);
    };
  };
  expect_refused("the round of a loop is used behind its end",
                 use([](Fixture& f, Index round) { f.control.store(f.word.all(), round); }));
  expect_refused("the round of a loop is used behind its end", use([](Fixture& f, Index round) {
                   f.program.memset(Engine::kDve, f.tile.column_range(0, 1).advancing(1, round), 0);
                 }));
  expect_refused("a value is given to the round of a loop", [](Fixture& f) {
    f.control.loop(3, [&](Index round) { f.control.set(round, 1); });
  });
}

// A number has a value where all ways to the place have given it one.
TEST(ControlFlow, RefusesANumberWithoutAValueOnSomeWay) {
  constexpr const char* kSentence = "number \"late\" is used before it has a value on every way";
  const auto write = [](const std::function<void(Fixture&, Index late)>& gives) {
    return [gives](Fixture& f) {
      const Index late = f.control.number("late", 5);
      gives(f, late);
      f.control.store(f.word.all(), late);
    };
  };
  const auto branch = [&](bool then, bool otherwise) {
    return write([=](Fixture& f, Index late) {
      const auto body = [&f, late](bool gives) {
        f.work();
        if (gives) f.control.set(late, 1);
      };
      f.control.when(
          f.number(1), Compare::kEqual, 0, [&] { body(then); }, [&] { body(otherwise); });
    });
  };
  expect_refused(kSentence, write([](Fixture&, Index) {}));
  expect_refused(kSentence, branch(true, false));
  expect_refused(kSentence, branch(false, true));
  expect_built(branch(true, true));
  expect_refused(kSentence, write([](Fixture& f, Index late) {
                   f.control.when(f.number(1), Compare::kEqual, 0, [&] { f.control.set(late, 1); });
                 }));
  expect_refused(kSentence, write([](Fixture& f, Index late) {
                   f.control.loop(f.number(3), [&](Index) { f.control.set(late, 1); });
                 }));
  expect_refused(kSentence, write([](Fixture& f, Index late) {
                   f.program.parts().schedule.begin_while(f.condition());
                   f.control.set(late, 1);
                   f.program.parts().schedule.end_while();
                 }));
  expect_refused(kSentence, write([](Fixture& f, Index late) {
                   f.program.loop(2, [&] {
                     f.program.parts().schedule.begin_while(f.condition());
                     f.control.set(late, 1);
                     f.program.parts().schedule.end_while();
                   });
                 }));
  expect_built(
      write([](Fixture& f, Index late) { f.program.loop(2, [&] { f.control.set(late, 1); }); }));
  expect_built(write([](Fixture& f, Index late) { f.control.load(late, f.constant.all()); }));
  // Registers stay as they are from one execution to the next.
  expect_built(
      write([](Fixture& f, Index late) { f.control.once([&] { f.control.set(late, 1); }); }));
}

// What a function gives a value to has one behind its call; what it uses must have one in front.
TEST(ControlFlow, FollowsValuesOfNumbersThroughFunctions) {
  const auto write = [](const std::function<void(Fixture&, Index, Function, Function)>& calls) {
    return [calls](Fixture& f) {
      const Index n = f.control.number("given", 5);
      const Function gives = f.control.function("gives", [&] { f.control.set(n, 1); });
      const Function uses = f.control.function("uses", [&] { f.control.store(f.word.all(), n); });
      calls(f, n, gives, uses);
    };
  };
  constexpr const char* kSentence = "uses number \"given\", which has no value on every way";
  expect_built(write([](Fixture& f, Index n, Function gives, Function uses) {
    f.control.call(gives);
    f.control.call(uses);
    f.control.store(f.word.all(), n);
  }));
  expect_built(write([](Fixture& f, Index n, Function, Function uses) {
    f.control.set(n, 2);
    f.control.call(uses);
  }));
  expect_refused(kSentence,
                 write([](Fixture& f, Index, Function, Function uses) { f.control.call(uses); }));
  expect_refused(
      "number \"given\" is used before",
      write([](Fixture& f, Index n, Function, Function) { f.control.store(f.word.all(), n); }));
  const auto through = [&](bool given) {
    return write([given](Fixture& f, Index, Function gives, Function uses) {
      const Function outer = f.control.function("outer", [&] { f.control.call(uses); });
      if (given) f.control.call(gives);
      f.control.call(outer);
    });
  };
  expect_built(through(true));
  expect_refused("function \"outer\" uses number \"given\"", through(false));
}

// What an instruction reads and writes are the registers that its numbers were given first.
TEST(ControlFlow, NamesTheRegistersOfItsNumbers) {
  Fixture f;
  const Index a = f.control.number("a", 9), b = f.control.number("b", 9);
  f.control.set(a, 3);
  f.control.set(b, 4);
  f.control.set(a, b, NEURON_ALU_ADD, 1);
  f.control.set(b, a, NEURON_ALU_SUB, b);
  f.control.store(f.word.all(), b);
  const auto loaded = testing::load(f.program.build());
  std::vector<isa::Instruction> moves, sums, stores;
  for (const isa::Instruction& i : loaded.code[NEURON_ENGINE_SP]) {
    if (i.opcode == NEURON_OP_MOV) moves.push_back(i);
    if (i.opcode == NEURON_OP_ALU && i.flow.alu != NEURON_ALU_MIN) sums.push_back(i);
    if (i.opcode == NEURON_OP_STORE) stores.push_back(i);
  }
  ASSERT_EQ(moves.size(), 2u);
  ASSERT_EQ(sums.size(), 2u);
  ASSERT_EQ(stores.size(), 1u);
  const uint8_t first = moves[0].flow.rd, second = moves[1].flow.rd;
  EXPECT_NE(first, second);
  EXPECT_EQ(sums[0].flow.rd, first);
  EXPECT_EQ(sums[0].flow.ra, second);
  EXPECT_EQ(sums[1].flow.rd, second);
  EXPECT_EQ(sums[1].flow.ra, first);
  EXPECT_EQ(sums[1].flow.rb, second);
  EXPECT_EQ(stores[0].flow.ra, second);
}

TEST(ControlFlow, RefusesOperationsThatNumbersDoNotHave) {
  expect_refused("numbers have no operation eq with 1", [](Fixture& f) {
    const Index n = f.number(5);
    f.control.set(n, n, NEURON_ALU_EQ, 1);
  });
  expect_refused("numbers have no operation div with 0", [](Fixture& f) {
    const Index n = f.number(5);
    f.control.set(n, n, NEURON_ALU_DIV, 0);
  });
  expect_refused("numbers have no operation eq", [](Fixture& f) {
    const Index n = f.number(5);
    f.control.set(n, n, NEURON_ALU_EQ, n);
  });
}

// A result that is cut to 32 bits would be small instead of the largest value.
TEST(ControlFlow, RefusesResultsOfMoreThan32Bits) {
  const auto with_number = [](uint32_t most_a, uint8_t op, uint32_t most_b, uint32_t most) {
    return [=](Fixture& f) {
      const Index a = f.number(most_a, "a"), b = f.number(most_b, "b");
      f.control.set(f.number(most, "result"), a, op, b);
    };
  };
  const auto with_value = [](uint32_t most_a, uint8_t op, uint32_t b, uint32_t most) {
    return [=](Fixture& f) { f.control.set(f.number(most, "result"), f.number(most_a), op, b); };
  };
  constexpr uint32_t kAll = UINT32_MAX, kHalf = 1u << 16;
  expect_refused("number \"result\" is at most 7, but add may give up to 4294967296",
                 with_value(kAll, NEURON_ALU_ADD, 1, 7));
  expect_refused("mul may give up to 4294967296", with_value(kHalf, NEURON_ALU_MUL, kHalf, 7));
  expect_refused("may give up to 4294967296", with_value(kHalf, NEURON_ALU_SHL, 16, 7));
  expect_refused("may give up to 8589934590", with_number(kAll, NEURON_ALU_ADD, kAll, 7));
  expect_refused("mul may give up to 4294967296", with_number(kHalf, NEURON_ALU_MUL, kHalf, 7));
  expect_refused("may give up to 4294967296", with_number(2, NEURON_ALU_SHL, 40, 7));
  expect_built(with_value(kAll - 1, NEURON_ALU_ADD, 1, 7));
  expect_built(with_value(kHalf, NEURON_ALU_MUL, kHalf - 1, 7));
  expect_built(with_value(kHalf, NEURON_ALU_SHL, 40, 7));  // Engines make it 0
  expect_built(with_number(3, NEURON_ALU_SUB, kAll, 7));
  expect_built(with_number(kAll, NEURON_ALU_XOR, kAll, 7));
  // All 32 bits are kept where nothing is cut.
  expect_built(with_number(kAll, NEURON_ALU_MUL, kAll, kAll));
}

TEST(ControlFlow, RefusesWordsThatNumbersCannotBe) {
  constexpr const char* kOnChip =
      "a number is loaded from or stored to what is no single word in SBUF";
  expect_refused(kOnChip, [](Fixture& f) { f.control.load(f.number(5), f.tile.at(0, 1, 0, 2)); });
  expect_refused(kOnChip, [](Fixture& f) { f.control.store(f.tile.all(), f.number(5)); });
  expect_refused("a number is loaded from what is no single word of a constant or temporary",
                 [](Fixture& f) { f.control.load(f.number(5), f.x.block(0, 1, 0, 1)); });
  expect_refused("a number is stored to what is no single word of a temporary",
                 [](Fixture& f) { f.control.store(f.constant.all(), f.number(5)); });
}

TEST(ControlFlow, RefusesPreparedTransfersWhereTheDeviceDecides) {
  constexpr const char* kSentence =
      "a loop whose rounds the device decides, or a branch, holds no prepared transfer";
  const auto move = [](Fixture& f) { f.program.dma(Engine::kSp, f.tile.all(), f.x.all()); };
  expect_refused(kSentence,
                 [&](Fixture& f) { f.control.loop(f.number(3), [&](Index) { move(f); }); });
  expect_refused(kSentence, [&](Fixture& f) {
    f.control.when(f.number(3), Compare::kEqual, 1, [&] { move(f); });
  });
  expect_refused(kSentence, [&](Fixture& f) {
    f.program.parts().schedule.begin_while(f.condition());
    move(f);
  });
  expect_refused("a prepared transfer moves with a number", [](Fixture& f) {
    f.program.dma(Engine::kSp, f.tile.column_range(0, 1).advancing(1, f.number(3)),
                  f.x.block(0, 32, 0, 1));
  });
}

TEST(ControlFlow, RefusesCollectivesInBodies) {
  const auto reduce = [](Fixture& f) {
    f.program.collective(Engine::kPool, CCOM_ALL_REDUCE, f.memory, f.memory);
  };
  expect_refused("a collective in a loop, branch or function",
                 [&](Fixture& f) { f.program.loop(2, [&] { reduce(f); }); });
  expect_refused("a loop, branch or function holds no collective", [&](Fixture& f) {
    f.program.parts().schedule.begin_while(f.condition());
    reduce(f);
  });
}

TEST(ControlFlow, RefusesALoopOfTheDeviceWithoutAnEnd) {
  expect_refused("a loop whose rounds the device decides has no end", [](Fixture& f) {
    f.program.parts().schedule.begin_while(f.condition());
    f.work();
  });
}

// Neither one that never began, nor one that began around the body that is open.
TEST(ControlFlow, IgnoresTheEndOfALoopOfTheDeviceThatIsNotOpenThere) {
  const auto bytes_with = [](bool more_ends) {
    Fixture f;
    auto& schedule = f.program.parts().schedule;
    f.work();
    if (more_ends) schedule.end_while();
    schedule.begin_while(f.condition());
    f.program.loop(2, [&] {
      f.work();
      if (more_ends) schedule.end_while();
    });
    EXPECT_TRUE(schedule.in_while());
    schedule.end_while();
    if (more_ends) schedule.end_while();
    EXPECT_FALSE(schedule.in_while());
    f.work();
    const auto built = f.program.build();
    EXPECT_TRUE(built) << built.error().sentence;
    return built ? *built : std::vector<uint8_t>{};
  };
  EXPECT_EQ(bytes_with(true), bytes_with(false));
}

TEST(ControlFlow, RefusesMoreNumbersThanThereAreRegisters) {
  expect_refused("needs registers for 64 numbers and for the addresses of 0 inputs",
                 [](Fixture& f) {
                   for (int i = 0; i < 64; ++i) f.control.number("n" + std::to_string(i), 5);
                 });
  expect_refused("has no register left for the rounds of a loop", [](Fixture& f) {
    for (int i = 0; i < 56; ++i) f.control.number("n" + std::to_string(i), 5);
    nest(f, 3, [&] { f.work(); });
  });
}

TEST(ControlFlow, RefusesMoreTransfersInALoopThanThereAreSemaphores) {
  expect_refused("a loop or function starts more transfers than there are semaphores left",
                 [](Fixture& f) {
                   f.program.loop(2, [&] {
                     for (int i = 0; i < 230; ++i) {
                       f.program.dma(Engine::kSp, f.tile.all(), f.x.all());
                     }
                   });
                 });
}

TEST(ControlFlow, RefusesAProgramOfNoEngine) {
  Program program("idle");
  const auto built = program.build();
  ASSERT_FALSE(built);
  EXPECT_THAT(built.error().sentence, HasSubstr("program \"idle\" uses no engine"));
}

}  // namespace
}  // namespace neuron::builder
