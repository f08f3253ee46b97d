// SPDX-License-Identifier: Apache-2.0
#include "runtime/rings/function_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/runtime/rings/calling_program.h"

namespace neuron::runtime {
namespace {

using test::CallingProgram;
using ::testing::ElementsAre;

TEST(FunctionCalls, FindsWhoCallsWhomAndFromWhere) {
  CallingProgram sample;
  const uint32_t first = sample.call(3);
  const uint32_t again = sample.call(1);
  sample.add(NEURON_OP_RET);
  const uint32_t inner = sample.function("inner", {});
  const uint32_t middle = sample.function("middle", {inner, inner});
  const uint32_t outer = sample.function("outer", {middle, inner});
  const neff::EngineProgram program = sample.take();
  const FunctionCalls calls(program);
  EXPECT_THAT(calls.order(), ElementsAre(inner, middle, outer));
  EXPECT_THAT(calls.callees(outer), ElementsAre(inner, middle));
  EXPECT_THAT(calls.callees(inner), ElementsAre());
  EXPECT_THAT(calls.calls(outer), ElementsAre(first));
  const uint32_t of_middle = program.entries[middle].pc, of_outer = program.entries[outer].pc;
  EXPECT_THAT(calls.calls(inner), ElementsAre(again, of_middle + 1, of_middle + 2, of_outer + 2));
  EXPECT_FALSE(calls.known(0)) << "main is no function";
  EXPECT_FALSE(calls.known(9)) << "there is no such entry";
}

TEST(FunctionCalls, TakesTheTargetOfACallThatTheFileGivesByName) {
  CallingProgram sample;
  const uint32_t call = sample.add(NEURON_OP_CALL);
  sample.add(NEURON_OP_RET);
  const uint32_t function = sample.function("function", {});
  neff::EngineProgram program = sample.take();
  program.relocations.push_back({.pc = call,
                                 .field = NEURON_INST_OP + 4,
                                 .kind = NEURON_RELOC_PC,
                                 .width = 4,
                                 .symbol = "function",
                                 .target = function});
  EXPECT_THAT(FunctionCalls(program).calls(function), ElementsAre(call));
}

// Whether functions 1, 2 and 3 are known, of which 2 calls 1; `change` adds to what 1 does, and
// `more` to main.
using Change = std::function<void(CallingProgram&)>;
std::vector<bool> known(const Change& change, const Change& more = {}) {
  CallingProgram sample;
  sample.call(2);
  if (more) more(sample);
  sample.add(NEURON_OP_RET);
  sample.function("first");
  sample.add(NEURON_OP_NOP);
  if (change) change(sample);
  sample.add(NEURON_OP_RET);
  sample.function("second", {1});
  sample.function("third", {});
  const neff::EngineProgram program = sample.take();
  const FunctionCalls calls(program);
  return {calls.known(1), calls.known(2), calls.known(3)};
}

TEST(FunctionCalls, KnowsFunctionsThatAreOnlyCalled) {
  EXPECT_THAT(known({}), ElementsAre(true, true, true));
}

TEST(FunctionCalls, KnowsFunctionsThatBranchAndLoopInside) {
  EXPECT_THAT(known([](CallingProgram& p) {
                p.go(NEURON_OP_BRANCH, 1);
                p.code[p.add(NEURON_OP_LOOP)].loop = {1, 1};
                p.add(NEURON_OP_NOP);
              }),
              ElementsAre(true, true, true));
}

TEST(FunctionCalls, DoesNotKnowWhatCallsItselfNorItsCallers) {
  EXPECT_THAT(known([](CallingProgram& p) { p.call(1); }), ElementsAre(false, false, true));
  EXPECT_THAT(known([](CallingProgram& p) { p.call(2); }), ElementsAre(false, false, true));
  EXPECT_THAT(known([](CallingProgram& p) { p.call(0); }), ElementsAre(false, false, true))
      << "main calls it, too";
}

TEST(FunctionCalls, DoesNotKnowWhatIsReachedInAnotherWayThanByACall) {
  const auto branch = [](uint32_t entry, uint32_t behind) {
    return [=](CallingProgram& p) { p.go(NEURON_OP_BRANCH, entry, behind); };
  };
  EXPECT_THAT(known({}, branch(1, 0)), ElementsAre(false, false, true));
  EXPECT_THAT(known({}, branch(3, 1)), ElementsAre(true, true, false));
  EXPECT_THAT(known(branch(3, 0)), ElementsAre(false, false, false)) << "a function jumps";
  EXPECT_THAT(known(branch(0, 0)), ElementsAre(false, false, true)) << "into main";
  EXPECT_THAT(known({}, [](CallingProgram& p) { p.go(NEURON_OP_CALL, 3, 1); }),
              ElementsAre(true, true, false))
      << "a call into the middle";
  EXPECT_THAT(known([](CallingProgram& p) { p.go(NEURON_OP_CALL, 0, 1); }),
              ElementsAre(false, false, true))
      << "a call of what has no name";
}

TEST(FunctionCalls, DoesNotKnowAFunctionWhoseEndGoesOnInTheNext) {
  CallingProgram sample;
  sample.add(NEURON_OP_RET);
  sample.function("falls");
  sample.add(NEURON_OP_NOP);
  sample.function("next", {});
  sample.function("other", {});
  sample.function("last");
  sample.add(NEURON_OP_NOP);
  const neff::EngineProgram program = sample.take();
  EXPECT_THAT(FunctionCalls(program).order(), ElementsAre(3));
}

TEST(FunctionCalls, DoesNotKnowAFunctionWhoseLoopEndsOutside) {
  EXPECT_THAT(known([](CallingProgram& p) {
                p.code[p.add(NEURON_OP_LOOP)].loop = {1, 5};
              }),
              ElementsAre(false, false, true));
}

TEST(FunctionCalls, DoesNotKnowFunctionsThatShareInstructions) {
  CallingProgram sample;
  sample.add(NEURON_OP_RET);
  for (const char* name : {"one", "two", "three", "four"}) sample.function(name, {});
  neff::EngineProgram program = sample.take();
  program.entries[1].length += 1;
  program.entries.push_back(program.entries[3]);
  program.entries.push_back({"beyond", 1000, 5, NEURON_ENTRY_FUNCTION});
  program.entries.push_back({"empty", 1, 0, NEURON_ENTRY_FUNCTION});
  EXPECT_THAT(FunctionCalls(program).order(), ElementsAre(4));
}

TEST(FunctionCalls, KnowsNothingOfAProgramWithoutCode) {
  neff::EngineProgram program;
  program.entries = {{"main", 0, 1, NEURON_ENTRY_MAIN}, {"late", 1, 1, NEURON_ENTRY_FUNCTION}};
  EXPECT_THAT(FunctionCalls(program).order(), ElementsAre());
}

}  // namespace
}  // namespace neuron::runtime
