// SPDX-License-Identifier: Apache-2.0
//
// Traces of NKI kernels: what is read, how it is placed and ordered, and what is refused.
#include "tools/compiler/nki/lowering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "runtime/neff/model_reader.h"
#include "tools/compiler/nki/accumulation.h"
#include "tools/compiler/nki/record.h"

namespace neuron::nki {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader =
    R"({"op":"nki_trace","version":1,"kernel":"k","target":"trn2","files":["k.py"]})"
    "\n";
constexpr const char* kTensors =
    R"({"op":"hbm","id":0,"name":"x","kind":"input","dtype":"float32","shape":[128,64],"at":[0,1]})"
    "\n"
    R"({"op":"hbm","id":1,"name":"y","kind":"output","dtype":"float32","shape":[128,64],"at":[0,2]})"
    "\n";
constexpr const char* kTile =
    R"({"op":"tile","id":2,"space":"sbuf","name":"t","parts":128,"columns":64,"dtype":"float32","at":[0,3]})"
    "\n";
const std::string kOnChip = R"({"tile":2,"dtype":"float32","parts":128,"pattern":[[1,64]]})";

std::string hbm(int id) {
  return R"({"hbm":)" + std::to_string(id) + R"(,"dtype":"float32","pattern":[[64,128],[1,64]]})";
}

std::string copy_in_and_out(const std::string& between) {
  return std::string(kHeader) + kTensors + kTile + R"({"op":"dma_copy","at":[0,4],"dst":)" +
         kOnChip + R"(,"src":)" + hbm(0) + "}\n" + between +
         R"({"op":"dma_copy","at":[0,9],"dst":)" + hbm(1) + R"(,"src":)" + kOnChip + "}\n";
}

std::string sentence_of(const std::string& trace) {
  const auto lowered = lower(trace, {});
  return lowered ? "" : lowered.error().sentence;
}

TEST(Lowering, APriorityOfATransferNeedsGeneration4) {
  std::string trace = copy_in_and_out("");
  trace.replace(trace.find(R"("at":[0,4])"), 10, R"("at":[0,4],"priority":1)");
  EXPECT_THAT(sentence_of(trace), HasSubstr("a priority of a transfer is of generation 4"));
  trace.replace(trace.find("trn2"), 4, "trn3");
  EXPECT_EQ(sentence_of(trace), "");
  trace.replace(trace.find(R"("priority":1)"), 12, R"("priority":4)");
  EXPECT_THAT(sentence_of(trace), HasSubstr("priority"));
}

TEST(Lowering, ReducesOnTheEngineThatTheTraceNames) {
  const auto reduce = [](const char* target, const char* engine) {
    std::string trace = copy_in_and_out(
        R"({"op":"tile","id":3,"space":"sbuf","name":"r","parts":128,"columns":1,"dtype":"float32","at":[0,5]})"
        "\n"
        R"({"op":"tensor_reduce","at":[0,6],"alu":"add","axes":1,"dst":{"tile":3,"dtype":"float32","parts":128,"pattern":[[1,1]]},"data":)" +
        kOnChip + R"(,"engine":")" + engine + "\"}\n");
    trace.replace(trace.find("trn2"), 4, target);
    return trace;
  };
  for (const char* target : {"trn2", "trn3"}) {
    const auto lowered = lower(reduce(target, "gpsimd"), {});
    ASSERT_TRUE(lowered) << lowered.error().sentence;
    EXPECT_EQ(lowered->lines[0].engine, unsigned{NEURON_ENGINE_POOL});
  }
  EXPECT_THAT(sentence_of(reduce("trn1", "gpsimd")), HasSubstr("expected vector"));
  EXPECT_THAT(sentence_of(reduce("trn2", "scalar")), HasSubstr("engine = scalar cannot do this"));
}

TEST(Lowering, NamesTheCostOfEachLine) {
  const auto lowered = lower(copy_in_and_out(R"({"op":"reciprocal","at":[0,6],"dst":)" + kOnChip +
                                             R"(,"data":)" + kOnChip + "}\n"),
                             {});
  ASSERT_TRUE(lowered) << lowered.error().sentence;
  EXPECT_GT(lowered->neff.size(), 1024U);
  EXPECT_EQ(lowered->transfers, 2U);
  EXPECT_EQ(lowered->transferred_bytes, 2U * 128 * 64 * 4);
  ASSERT_FALSE(lowered->lines.empty());
  EXPECT_EQ(lowered->lines[0].file, "k.py");
  EXPECT_EQ(lowered->lines[0].line, 6U);
  EXPECT_EQ(lowered->lines[0].engine, unsigned{NEURON_ENGINE_DVE});
  // 8 cycles an element at 0.96 GHz.
  EXPECT_EQ(lowered->lines[0].picoseconds, 8U * 64 * 1'000'000 / 960);
  ASSERT_EQ(lowered->tiles.size(), 1U);
  EXPECT_EQ(lowered->tiles[0].line, 3U);
}

// A product of [128, 64] with itself, with more fields.
std::string product_with(const std::string& fields) {
  return copy_in_and_out(
      R"({"op":"tile","id":3,"space":"psum","name":"p","parts":64,"columns":64,"dtype":"float32","at":[0,5]})"
      "\n"
      R"({"op":"nc_matmul","at":[0,6],"dst":{"tile":3,"dtype":"float32","parts":64,"pattern":[[1,64]]},)"
      R"("stationary":)" +
      kOnChip + R"(,"moving":)" + kOnChip + fields + "}\n");
}

TEST(Lowering, PutsAProductIntoTheTileOfTheArrayThatItNames) {
  const auto whole = lower(product_with(""), {});
  const auto right = lower(product_with(R"(,"tile_position":[0,64],"tile_size":[128,64])"), {});
  ASSERT_TRUE(whole) << whole.error().sentence;
  ASSERT_TRUE(right) << right.error().sentence;
  EXPECT_NE(whole->neff, right->neff);
}

TEST(Lowering, RefusesATileThatTheArrayDoesNotHave) {
  const auto expect = [](const char* fields, const char* words) {
    EXPECT_THAT(sentence_of(product_with(fields)), HasSubstr(words)) << fields;
  };
  expect(R"(,"tile_position":[0,0])", "found 2 and 0 numbers");
  expect(R"(,"tile_size":[64])", "found 0 and 1 numbers");
  expect(R"(,"tile_position":[0,0],"tile_size":[128,48])", "32, 64 or 128 on each side; found 48");
  expect(R"(,"tile_position":[0,32],"tile_size":[128,64])", "found tile_position 32");
  expect(R"(,"tile_position":[128,0],"tile_size":[128,64])", "found tile_position 128");
  expect(R"(,"tile_position":[0,0],"tile_size":[64,128])",
         "at most as many partitions as the tile of the array has rows");
}

TEST(Lowering, GivesTheSameBytesForTheSameTrace) {
  const auto first = lower(copy_in_and_out(""), {}), second = lower(copy_in_and_out(""), {});
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->neff, second->neff);
}

TEST(Lowering, RefusesWhatIsNoTrace) {
  EXPECT_THAT(sentence_of(""), HasSubstr("the trace is empty"));
  EXPECT_THAT(sentence_of("{}\n"), HasSubstr("line 1"));
  EXPECT_THAT(sentence_of(R"({"op":"hbm"})"), HasSubstr("no trace of an NKI kernel"));
  EXPECT_THAT(
      sentence_of(
          R"({"op":"nki_trace","version":2,"kernel":"k","target":"trn2","files":["k.py"]})"),
      HasSubstr("version 2, this program reads version 1"));
  EXPECT_THAT(
      sentence_of(
          R"({"op":"nki_trace","version":1,"kernel":"k","target":"trn9","files":["k.py"]})"),
      HasSubstr("expected trn1, inf2, trn2 or trn3"));
  EXPECT_THAT(sentence_of(std::string(kHeader) + "{\n"), HasSubstr("line 2"));
}

TEST(Lowering, NamesTheLineOfPythonThatItRefuses) {
  EXPECT_THAT(sentence_of(copy_in_and_out(R"({"op":"levitate","at":[0,7]})"
                                          "\n")),
              HasSubstr("k.py:7: levitate: nki.isa.levitate is not available"));
  const std::string outside =
      R"({"op":"memset","at":[0,8],"value":0,"dst":{"tile":2,"dtype":"float32","parts":128,"offset":128,"pattern":[[1,64]]}})"
      "\n";
  EXPECT_THAT(sentence_of(copy_in_and_out(outside)),
              HasSubstr("k.py:8: memset: an operand reaches partitions 0 to 127 and bytes 128 to "
                        "383 of tile \"t\" (k.py:3), which has 128 partitions of 256 bytes"));
  EXPECT_THAT(sentence_of(copy_in_and_out(R"({"op":"free","id":7,"at":[0,8]})"
                                          "\n")),
              HasSubstr("k.py:8: free: tile 7 is dropped, but there is none"));
  const std::string written =
      R"({"op":"dma_copy","at":[0,5],"dst":)" + hbm(0) + R"(,"src":)" + kOnChip + "}\n";
  EXPECT_THAT(sentence_of(copy_in_and_out(written)),
              HasSubstr("k.py:5: dma_copy: tensor \"x\" is written"));
}

TEST(Lowering, SaysWhatHoldsTheSpace) {
  std::string trace = copy_in_and_out("");
  for (int i = 0; i < 8; ++i) {
    trace +=
        R"({"op":"tile","id":)" + std::to_string(10 + i) +
        R"(,"space":"psum","name":"p","parts":128,"columns":512,"dtype":"float32","at":[0,20]})"
        "\n";
  }
  EXPECT_EQ(sentence_of(trace), "");
  trace +=
      R"({"op":"tile","id":30,"space":"psum","name":"q","parts":128,"columns":1,"dtype":"float32","at":[0,21]})"
      "\n";
  EXPECT_THAT(
      sentence_of(trace),
      HasSubstr("k.py:21: PSUM has no room for tile \"q\" of 128 partitions: tiles hold, in "
                "each partition: 16384 bytes by 8 tiles \"p\" since k.py:20"));
}

TEST(Lowering, RefusesOperandsThatNoMemoryHolds) {
  // Products of counts and steps stay far from 64 bits.
  for (const char* pattern :
       {"[[1,0]]", "[[-9223372036854775808,2]]", "[[1,-1]]",
        "[[9223372036854775807,9223372036854775807]]", "[[4611686018427387904,2]]",
        "[[-9223372036854775808,2]]", "[[1]]", "[1,2]", "\"all\""}) {
    const std::string line =
        R"({"op":"memset","at":[0,8],"value":0,"dst":{"tile":2,"dtype":"float32","parts":128,"pattern":)" +
        std::string(pattern) + "}}\n";
    EXPECT_THAT(sentence_of(copy_in_and_out(line)), HasSubstr("pattern")) << pattern;
  }
}

// A line between the copies, refused with a sentence that has all of these words.
void refused(const std::string& line, const std::vector<std::string>& words) {
  const std::string sentence = sentence_of(copy_in_and_out(line + "\n"));
  for (const std::string& word : words) EXPECT_THAT(sentence, HasSubstr(word)) << line;
}

TEST(Lowering, EndsSoonWhateverSizesATraceHas) {
  // Elements that a step of 0 names again and again, and transfers without number.
  const std::string repeated = R"({"tile":2,"dtype":"float32","parts":128,"pattern":)";
  refused(
      R"({"op":"memset","at":[0,8],"value":0,"dst":)" + repeated + "[[0,1048576],[0,1048576]]}}",
      {"k.py:8: memset", "1099511627776 elements in each partition"});
  std::string deep, square;
  for (int i = 0; i < 9; ++i) deep += (i == 0 ? "" : ",") + std::string("[16,2]");
  for (int i = 0; i < 3; ++i) square += "[0,4096],";
  const auto between = [](const std::string& op, int to, int from, const std::string& pattern) {
    const auto side = [&](int id) {
      return R"({"hbm":)" + std::to_string(id) + R"(,"dtype":"float32","pattern":[)" + pattern +
             "]}";
    };
    return R"({"op":")" + op + R"(","at":[0,8],"dst":)" + side(to) + R"(,"src":)" + side(from) +
           "}";
  };
  refused(between("dma_copy", 1, 0, "[5,2]," + square + "[3,2],[7,2],[11,2]"),
          {"k.py:8: dma_copy", "more than 4096 transfers"});
  refused(between("dma_transpose", 1, 0, "[0,2],[0,1000000000],[0,2]"),
          {"k.py:8: dma_transpose", "at most 4096"});
  refused(between("dma_transpose", 1, 0, "[0,2],[0,100],[0,100],[0,2]"), {"at most 4096"});
  EXPECT_EQ(sentence_of(copy_in_and_out(between("dma_copy", 1, 0, "[0,1]," + deep) + "\n")), "");
}

TEST(Lowering, RefusesNumbersThatItWouldCut) {
  const std::string call = R"({"op":"tensor_scalar","at":[0,8],"dst":)" + kOnChip + R"(,"data":)" +
                           kOnChip + R"(,"alu0":)";
  for (const char* number : {"\"inf\"", "\"nan\"", "1e300", "-1e300", "1.5", "4294967296"}) {
    refused(call + R"("bitwise_and","operand0":)" + number + "}", {"no integer of 32 bits"});
  }
  refused(call + R"("bitwise_or"})", {"k.py:8", "operand0 is missing"});
  refused(call + R"("add"})", {"k.py:8", "operand0 is missing"});
  refused(call + R"("divide"})", {"k.py:8", "operand0 is missing"});
  refused(call + R"("left_shift","operand0":1,"alu1":"add","operand1":2})",
          {"k.py:8", "both operations must be bit operations, or both arithmetic"});
  refused(call + R"("left_shift","operand0":1,"alu1":"bitwise_or"})",
          {"k.py:8", "operand1 is missing"});
  refused(R"({"op":"iota","at":[0,8],"index":[1,64,3],"dst":)" + kOnChip + "}",
          {"index has 3 numbers"});
  refused(R"({"op":"local_gather","at":[0,8],"src_buffer":)" + kOnChip + R"(,"dst":)" + kOnChip +
              R"(,"index":{"tile":2,"dtype":"uint16","parts":128,"pattern":[[0,5000]]}})",
          {"80000 indices"});
  const std::string collective =
      R"({"op":"collective","at":[0,8],"operation":"collective_permute",)"
      R"("group_size":1,"dst":)" +
      hbm(1) + R"(,"src":)" + hbm(0);
  refused(collective + R"(,"members":[4294967296]})", {"no rank 4294967296"});
  refused(collective + R"(,"members":[0],"pairs":[0,4294967297]})", {"no rank 4294967297"});
  refused(collective + R"(,"members":[0],"pairs":[0]})", {"pairs has 1"});
}

TEST(Lowering, RefusesConstantsThatAreNoBytes) {
  const auto constant = [](const std::string& data) {
    return R"({"op":"hbm","id":9,"name":"c","kind":"constant","dtype":"uint8","shape":[2],)"
           R"("at":[0,5],"data":")" +
           data + "\"}";
  };
  EXPECT_EQ(sentence_of(copy_in_and_out(constant("00ff") + "\n")), "");
  refused(constant("00fg"), {"k.py:5", "no hexadecimal digits", "byte 1"});
  refused(constant("00FF"), {"no hexadecimal digits"});
  refused(constant("00f"), {"3 digits"});
  refused(constant("00"), {"1 bytes"});
}

TEST(Lowering, RefusesTilesThatItCannotPlaceWhereTheTraceSays) {
  const auto placed = [](const std::string& address, const std::string& more = "") {
    return R"({"op":"tile","id":9,"space":"sbuf","name":"p","parts":32,"columns":8,)"
           R"("dtype":"float32","at":[0,5],"address":)" +
           address + more + "}";
  };
  EXPECT_EQ(sentence_of(copy_in_and_out(placed("[0,100000]") + "\n")), "");
  refused(placed("[0]"), {"k.py:5", "address has 1 numbers"});
  refused(placed("[1024,0]"), {"k.py:5"});
  refused(placed("[0,99999999999]"), {"k.py:5"});
  refused(placed("[0,100000]") + "\n" + placed("[0,120000]"), {"two tiles have the number 9"});
  refused(R"({"op":"tile","id":9,"space":"hbm","parts":1,"columns":1,"dtype":"float32",)"
          R"("at":[0,5],"address":[0,0]})",
          {"in \"hbm\"; expected at least one of each"});
  refused(R"({"op":"tile","id":9,"space":"sbuf","parts":0,"columns":1,"dtype":"float32",)"
          R"("at":[0,5],"address":[0,0]})",
          {"of 0 partitions"});
}

TEST(Lowering, ReducesOneElementBehindThreeDimensionsAndRefusesItBehindFour) {
  const auto reduce = [](const std::string& dimensions) {
    return R"({"op":"tensor_reduce","at":[0,8],"alu":"add","axes":1,"dst":{"tile":2,)"
           R"("dtype":"float32","parts":128,"pattern":[)" +
           dimensions + R"(]},"data":{"tile":2,"dtype":"float32","parts":128,"pattern":[)" +
           dimensions + R"(,[1,1]]}})";
  };
  EXPECT_EQ(sentence_of(copy_in_and_out(reduce("[20,2],[9,2],[3,2]") + "\n")), "");
  refused(reduce("[36,2],[17,2],[7,2],[3,2]"), {"k.py:8", "needs 5 dimensions"});
}

TEST(Lowering, TellsAProductOfWhatOthersWroteThereAlsoWithoutLines) {
  const std::string tiles =
      R"({"op":"tile","id":5,"space":"psum","name":"p","parts":64,"columns":64,"dtype":"float32"})"
      "\n";
  const std::string product =
      R"({"op":"nc_matmul","dst":{"tile":5,"dtype":"float32","parts":64,"pattern":[[1,64]]},)"
      R"("stationary":)" +
      kOnChip + R"(,"moving":)" + kOnChip + "}\n";
  const std::string psum = R"({"tile":5,"dtype":"float32","parts":64,"pattern":[[1,64]]})";
  const std::string sbuf = R"({"tile":2,"dtype":"float32","parts":64,"pattern":[[1,64]]})";
  for (const std::string& written :
       {R"({"op":"tensor_copy","dst":)" + psum + R"(,"src":)" + sbuf + "}\n",
        R"({"op":"rng","dst":{"tile":5,"dtype":"uint32","parts":64,"pattern":[[1,64]]}})" +
            std::string("\n"),
        R"({"op":"max8","dst":{"tile":5,"dtype":"float32","parts":64,"pattern":[[1,8]]},"src":)" +
            sbuf + "}\n"}) {
    EXPECT_THAT(sentence_of(copy_in_and_out(tiles + written + product)),
                HasSubstr("say accumulate=True"))
        << written;
  }
  for (const std::string& transfer :
       {R"({"op":"dma_copy","dst":)" + psum + R"(,"src":)" + sbuf + "}\n",
        R"({"op":"dma_compute","dst":)" + psum + R"(,"srcs":[)" + sbuf + "," + sbuf + "]}\n"}) {
    EXPECT_THAT(sentence_of(copy_in_and_out(tiles + transfer)),
                HasSubstr("transfers reach SBUF only"))
        << transfer;
  }
  EXPECT_EQ(sentence_of(copy_in_and_out(tiles + product + product)), "");
}

builder::TileAccess psum(uint32_t tile, uint32_t first, uint32_t count, uint32_t parts = 128) {
  builder::TileAccess access;
  access.space = NEURON_SPACE_PSUM;
  access.dtype = NEURON_DTYPE_F32;
  access.parts = parts;
  access.base = first * 4;
  access.ndim = 1;
  access.size = {count, 0, 0, 0};
  access.step = {1, 0, 0, 0};
  access.tile = tile;
  return access;
}

TEST(Accumulation, OverwritesALocationOnceAndThenAdds) {
  Accumulation state;
  state.made(psum(1, 0, 512));
  auto runs = state.runs(psum(1, 0, 64));
  ASSERT_TRUE(runs);
  ASSERT_EQ(runs->size(), 1U);
  EXPECT_FALSE(runs->at(0).accumulate);
  state.multiplied(psum(1, 0, 64));
  runs = state.runs(psum(1, 32, 64));
  ASSERT_TRUE(runs);
  ASSERT_EQ(runs->size(), 2U);
  EXPECT_TRUE(runs->at(0).accumulate);
  EXPECT_EQ(runs->at(0).count, 32U);
  EXPECT_FALSE(runs->at(1).accumulate);
  EXPECT_EQ(runs->at(1).first, 32U);
}

TEST(Accumulation, KnowsTilesApartThatLieOnTheSameBytes) {
  Accumulation state;
  state.made(psum(1, 0, 64));
  state.made(psum(2, 0, 64));
  state.multiplied(psum(1, 0, 64));
  EXPECT_FALSE(state.runs(psum(2, 0, 64))->at(0).accumulate);
  EXPECT_TRUE(state.runs(psum(1, 0, 64))->at(0).accumulate);
}

TEST(Accumulation, TakesZerosForNothingAndRefusesOtherValues) {
  Accumulation state;
  state.made(psum(1, 0, 64));
  state.written(psum(1, 0, 64), true, 5);
  EXPECT_FALSE(state.runs(psum(1, 0, 64))->at(0).accumulate);
  state.written(psum(1, 0, 64), false, 6);
  const auto refused = state.runs(psum(1, 0, 64));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().sentence, HasSubstr("line 6"));
}

TEST(Accumulation, RefusesAPartThatOnlySomePartitionsHold) {
  Accumulation state;
  state.made(psum(1, 0, 64));
  state.multiplied(psum(1, 0, 64, 32));
  const auto refused = state.runs(psum(1, 0, 64, 64));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().sentence, HasSubstr("some partitions"));
}

TEST(Record, ReadsNumbersThatJsonHasNotAsTexts) {
  Record record(R"({"op":"memset","value":"-inf","at":[3,4]})", 9);
  EXPECT_EQ(record.operation(), "memset");
  EXPECT_EQ(record.file(), 3U);
  EXPECT_EQ(record.line(), 4U);
  EXPECT_EQ(record.number("value"), -__builtin_inf());
  EXPECT_TRUE(record.ok());
  record.number("absent");
  ASSERT_FALSE(record.result());
  EXPECT_THAT(record.result().error().sentence, HasSubstr("line 9: the key \"absent\" is missing"));
}

const std::string kWord =
    R"({"op":"tile","id":7,"space":"sbuf","name":"go","parts":1,"columns":1,"dtype":"int32"})"
    "\n"
    R"({"op":"while","at":[0,5],"condition":{"tile":7,"dtype":"int32","parts":1,"pattern":[[1,1]]}})"
    "\n";

TEST(LoopsOfTheDevice, EndWhereTheyBegan) {
  EXPECT_EQ(sentence_of(copy_in_and_out(kWord + R"({"op":"end_while","at":[0,6]})" + "\n")), "");
  EXPECT_THAT(sentence_of(copy_in_and_out(R"({"op":"end_while","at":[0,6]})"
                                          "\n")),
              HasSubstr("k.py:6: end_while: a loop of the device ends here, but none has begun"));
  EXPECT_THAT(sentence_of(copy_in_and_out(kWord)), HasSubstr("has no end"));
}

TEST(LoopsOfTheDevice, HaveAConditionOfOneWord) {
  const std::string wide =
      R"({"op":"while","at":[0,5],"condition":)" + kOnChip + "}\n" + R"({"op":"end_while"})" + "\n";
  EXPECT_THAT(sentence_of(copy_in_and_out(wide)),
              AllOf(HasSubstr("k.py:5"), HasSubstr("32768 bytes in SBUF; expected a word")));
}

TEST(LoopsOfTheDevice, HoldWhatTheirNextRoundNeeds) {
  // The tile is dropped in the body; only the end of the loop gives its room away.
  const std::string large = R"("space":"sbuf","name":"big","parts":128,"columns":50000,)"
                            R"("dtype":"float32","at":[0,7]})";
  const std::string body = kWord + R"({"op":"free","id":3})" + "\n" + R"({"op":"tile","id":4,)" +
                           large + "\n" + R"({"op":"end_while","at":[0,8]})" + "\n";
  const std::string before = R"({"op":"tile","id":3,"space":"sbuf","name":"old","parts":128,)"
                             R"("columns":20000,"dtype":"float32","at":[0,4]})"
                             "\n";
  EXPECT_THAT(sentence_of(copy_in_and_out(before + body)), HasSubstr("SBUF has no room"));
  EXPECT_EQ(sentence_of(copy_in_and_out(before + R"({"op":"free","id":3})" + "\n" +
                                        R"({"op":"tile","id":4,)" + large + "\n")),
            "");
}

TEST(Signature, HasTheTensorsOfTheCallerInTheOrderOfTheTrace) {
  const std::string changed = R"({"op":"hbm","id":5,"name":"z","kind":"inout","dtype":"int32",)"
                              R"("shape":[4],"at":[0,3]})"
                              "\n";
  const auto signature = signature_of(copy_in_and_out(changed));
  ASSERT_TRUE(signature) << signature.error().sentence;
  EXPECT_EQ(signature->generation, 3);
  ASSERT_EQ(signature->inputs.size(), 2u);
  ASSERT_EQ(signature->outputs.size(), 2u);
  EXPECT_EQ(signature->inputs[0].name, "x");
  EXPECT_EQ(signature->outputs[0].shape, (std::vector<uint64_t>{128, 64}));
  EXPECT_EQ(signature->inputs[1].name, "z");
  EXPECT_EQ(signature->outputs[1].name, "z");
}

// Both programs do `lines` with a tile that each loads.
std::string pair_of(const std::string& tensors, const std::string& lines) {
  const std::string load =
      R"({"op":"dma_copy","at":[0,4],"dst":)" + kOnChip + R"(,"src":)" + hbm(0) + "}\n";
  return std::string(kHeader) + kTensors + tensors + kTile + load + lines +
         R"({"op":"core","number":1})" + "\n" + kTile + load + lines;
}

std::string sentence_of_pair(const std::string& trace) {
  const auto lowered = lower(trace, {.physical_cores = 2});
  return lowered ? "" : lowered.error().sentence;
}

TEST(Pairs, MeetAtInstructionsOfBothCores) {
  const std::string shared =
      R"({"op":"hbm","id":5,"name":"s","kind":"temporary","shared":true,"dtype":"float32","shape":[128,64]})"
      "\n";
  const std::string barrier = R"({"op":"core_barrier","at":[0,7],"data":[)" + hbm(5) + "]}\n";
  const std::string exchange =
      R"({"op":"sendrecv","at":[0,8],"dst":)" + kOnChip + R"(,"src":)" + kOnChip + "}\n";
  const auto lowered = lower(pair_of(shared, barrier + exchange), {.physical_cores = 2});
  ASSERT_TRUE(lowered) << lowered.error().sentence;
  std::map<uint32_t, uint64_t> instructions;  // By line
  for (const LineCost& line : lowered->lines) {
    if (line.engine == NEURON_ENGINE_POOL) instructions[line.line] += line.instructions;
  }
  EXPECT_EQ(instructions[7], 2U) << "one of each core";
  EXPECT_EQ(instructions[8], 2U);
  const auto container = neff::Container::open(lowered->neff);
  ASSERT_TRUE(container) << container.error().sentence;
  const auto model = neff::load_model(*container, {3, 2, false});
  ASSERT_TRUE(model) << model.error().sentence;
  for (const neff::Subgraph& subgraph : model->subgraphs) {
    const auto found = std::find_if(subgraph.variables.begin(), subgraph.variables.end(),
                                    [](const neff::Variable& v) { return v.name == "s"; });
    ASSERT_NE(found, subgraph.variables.end());
    EXPECT_TRUE(found->shared);
  }
}

TEST(Pairs, AreNamedWhereATraceHasOneProgramOrATensorOfBothComesTooLate) {
  const std::string barrier = R"({"op":"core_barrier","at":[0,7]})"
                              "\n";
  EXPECT_THAT(sentence_of(copy_in_and_out(barrier)),
              HasSubstr("k.py:7: core_barrier: the trace has one program"));
  for (const char* kind : {R"("temporary","shared":true)", R"("inout")"}) {
    const std::string late = std::string(R"({"op":"hbm","id":6,"name":"s","kind":)") + kind +
                             R"(,"dtype":"float32","shape":[8]})"
                             "\n";
    EXPECT_EQ(sentence_of_pair(pair_of(late, "")), "");
    EXPECT_THAT(sentence_of_pair(pair_of("", "") + late),
                HasSubstr("stands behind the line of the second core"));
  }
}

TEST(Pairs, ExchangeTilesOfSbufWithAsManyElements) {
  const auto exchange = [](const std::string& tile, const std::string& from) {
    return sentence_of_pair(pair_of("", tile + R"({"op":"sendrecv","at":[0,8],"dst":)" + kOnChip +
                                            R"(,"src":)" + from + "}\n"));
  };
  EXPECT_THAT(exchange("", R"({"tile":2,"dtype":"float32","parts":128,"pattern":[[1,32]]})"),
              HasSubstr("k.py:8: sendrecv: sendrecv of [128, 32] to [128, 64]"));
  EXPECT_THAT(
      exchange(
          R"({"op":"tile","id":3,"space":"psum","name":"p","parts":128,"columns":64,"dtype":"float32","at":[0,5]})"
          "\n",
          R"({"tile":3,"dtype":"float32","parts":128,"pattern":[[1,64]]})"),
      HasSubstr("moves tiles of SBUF, and src is in PSUM"));
  EXPECT_EQ(exchange("", R"({"tile":2,"dtype":"int32","parts":128,"pattern":[[1,64]]})"), "");
}

TEST(Signature, IsRefusedWhereAKernelNeedsAProgramOfItsOwn) {
  const auto refused = [](const std::string& line) {
    const auto signature = signature_of(copy_in_and_out(line + "\n"));
    return signature ? "" : signature.error().sentence;
  };
  EXPECT_THAT(refused(R"({"op":"core","number":1})"), HasSubstr("no second core"));
  EXPECT_THAT(refused(R"({"op":"while"})"), HasSubstr("no loops whose rounds"));
  EXPECT_THAT(refused(R"({"op":"collective"})"), HasSubstr("no collectives"));
  EXPECT_THAT(refused(R"({"op":"tile","id":9,"space":"sbuf","parts":1,"columns":1,)"
                      R"("dtype":"float32","address":[0,0]})"),
              HasSubstr("no tiles at addresses"));
  // Of a tile, which nobody knows while only the signature is read: this was read from nowhere.
  EXPECT_THAT(refused(R"({"op":"collective","at":[0,7],"operation":"all_reduce","dst":)" + kOnChip +
                      R"(,"src":)" + kOnChip + "}"),
              HasSubstr("k.py:7: collective: a kernel inside of a model has no collectives"));
}

TEST(KernelsOfModels, AreRefusedByTheLoweringItselfWhereTheyNeedAProgramOfTheirOwn) {
  for (const char* line : {R"({"op":"core","number":1})", R"({"op":"while"})"}) {
    builder::Program program("model", 3);
    const auto done = inline_kernel(copy_in_and_out(std::string(line) + "\n"), program, {}, {}, "");
    ASSERT_FALSE(done) << line;
    EXPECT_THAT(done.error().sentence, HasSubstr("a kernel inside of a model")) << line;
  }
}

// `count` products, each in a bank of PSUM of its own. Behind all of them, each bank is added to a
// tile of SBUF `rounds` times, in turns.
std::string products_of(int count, const std::string& order, int rounds) {
  const std::string sum = R"({"tile":3,"dtype":"float32","parts":64,"pattern":[[1,64]]})";
  const auto bank = [](int i) {
    return R"({"tile":)" + std::to_string(10 + i) +
           R"(,"dtype":"float32","parts":64,"pattern":[[1,64]]})";
  };
  std::string trace =
      R"({"op":"nki_trace","version":1,"kernel":"k","target":"trn2","files":["k.py"])" + order +
      "}\n" + kTensors + kTile + R"({"op":"dma_copy","at":[0,4],"dst":)" + kOnChip + R"(,"src":)" +
      hbm(0) + "}\n" +
      R"({"op":"tile","id":3,"space":"sbuf","name":"t","parts":64,"columns":64,"dtype":"float32","at":[0,5]})" +
      "\n" + R"({"op":"memset","at":[0,5],"value":0,"dst":)" + sum + "}\n";
  for (int i = 0; i < count; ++i) {
    trace +=
        R"({"op":"tile","id":)" + std::to_string(10 + i) +
        R"(,"space":"psum","name":"p","parts":128,"columns":512,"dtype":"float32","at":[0,6]})" +
        "\n" + R"({"op":"nc_matmul","at":[0,7],"dst":)" + bank(i) + R"(,"stationary":)" + kOnChip +
        R"(,"moving":)" + kOnChip + "}\n";
  }
  for (int i = 0; i < rounds * count; ++i) {
    trace += R"({"op":"tensor_tensor","at":[0,8],"alu":"add","dst":)" + sum + R"(,"data1":)" + sum +
             R"(,"data2":)" + bank(i % count) + "}\n";
  }
  for (int i = 0; i < count; ++i) trace += R"({"op":"free","id":)" + std::to_string(10 + i) + "}\n";
  return trace + R"({"op":"dma_copy","at":[0,9],"dst":)" + hbm(1) + R"(,"src":)" + kOnChip + "}\n";
}

const std::string kFree = R"(,"order":"free")";

TEST(Lowering, LetsATileWithoutRoomWaitForOthersWhereTheOrderIsFree) {
  EXPECT_EQ(sentence_of(products_of(8, "", 1)), "");
  EXPECT_THAT(sentence_of(products_of(20, "", 1)), HasSubstr("k.py:6: PSUM has no room"));
  EXPECT_THAT(sentence_of(products_of(20, R"(,"order":"kept")", 1)), HasSubstr("no room"));
  const auto lowered = lower(products_of(20, kFree, 1), {});
  ASSERT_TRUE(lowered) << lowered.error().sentence;
  EXPECT_EQ(lowered->first_wait, "k.py:6");
}

TEST(Lowering, ChangesNothingWhereThereIsRoomInTheOrderOfTheTrace) {
  const auto kept = lower(products_of(8, "", 2), {}), free = lower(products_of(8, kFree, 2), {});
  ASSERT_TRUE(kept && free);
  EXPECT_EQ(kept->neff, free->neff);
  EXPECT_EQ(free->first_wait, "");
}

TEST(Lowering, EndsTilesThatNothingUsesAgainWhenRoomIsNeeded) {
  // Nothing reads the products, and all of them are dropped at the end.
  EXPECT_THAT(sentence_of(products_of(9, "", 0)), HasSubstr("no room"));
  EXPECT_EQ(sentence_of(products_of(9, kFree, 0)), "");
}

TEST(Lowering, RefusesATileForWhichNoOrderMakesRoom) {
  EXPECT_THAT(sentence_of(products_of(9, kFree, 2)),
              HasSubstr("k.py:6: PSUM has no room for tile \"p\" of 128 partitions: tiles hold, in "
                        "each partition: 16384 bytes by 8 tiles \"p\" since k.py:6"));
}

TEST(Lowering, RefusesAnUnknownOrder) {
  EXPECT_THAT(sentence_of(products_of(1, R"(,"order":"any")", 1)),
              HasSubstr("the order of the calls is \"any\"; expected kept or free"));
}

}  // namespace
}  // namespace neuron::nki
