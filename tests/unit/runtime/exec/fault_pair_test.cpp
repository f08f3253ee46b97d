// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/fault_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "hw/fault.h"
#include "tests/unit/runtime/loaded_sample.h"

namespace neuron::runtime {
namespace {

using test::LoadedSample;
using ::testing::HasSubstr;

constexpr uint32_t kPlace = 3u << NEURON_STRICT_PARTITION_SHIFT | 0x40;

TEST(FaultPair, ConcernsTheFaultsOfStrictModeOnly) {
  for (const uint32_t code : {NEURON_FAULT_PSUM_UNDEFINED, NEURON_FAULT_PSUM_COLLISION,
                              NEURON_FAULT_DOMAIN, NEURON_FAULT_UNINITIALISED, NEURON_FAULT_RACE}) {
    EXPECT_TRUE(concerns_two_instructions(code)) << code;
  }
  for (const uint32_t code : {NEURON_FAULT_NUMERIC_NAN, NEURON_FAULT_NQ_OVERFLOW,
                              NEURON_FAULT_WEIGHTS, NEURON_FAULT_OPERAND_SHAPE}) {
    EXPECT_FALSE(concerns_two_instructions(code)) << code;
  }
  EXPECT_FALSE(concerns_two_instructions(NEURON_FAULT_RACE + 1));
}

class Pair : public ::testing::Test {
 protected:
  std::string of(uint32_t code, const FaultWords& words, uint32_t engine = NEURON_ENGINE_PE,
                 uint32_t pc = 0) {
    return describe_pair(*sample_.loaded, engine, pc, code, words);
  }
  // The second instruction: PE's at `pc`.
  static uint32_t other(uint32_t engine, uint32_t pc) {
    return NEURON_STRICT_OTHER | engine << NEURON_STRICT_ENGINE_SHIFT | pc;
  }
  LoadedSample sample_;
};

TEST_F(Pair, ARaceSaysWhoReadsWhatTheOtherWroteAndHowToOrderThem) {
  const std::string first = sample_.loaded->describe_instruction(NEURON_ENGINE_PE, 1);
  EXPECT_EQ(of(NEURON_FAULT_RACE,
               {kPlace | NEURON_STRICT_OTHER_WROTE, other(NEURON_ENGINE_PE, 1), 0, true}),
            "found that it reads partition 3 byte 0x40 of SBUF, which was written by " + first +
                ", expected an order between the two: a semaphore that the earlier one updates at "
                "completion and the later one waits for");
  EXPECT_EQ(of(NEURON_FAULT_RACE, {kPlace | NEURON_STRICT_WRITES | NEURON_STRICT_PSUM,
                                   other(NEURON_ENGINE_PE, 1), 0, true}),
            "found that it writes partition 3 byte 0x40 of PSUM, which was read by " + first +
                ", expected an order between the two: a semaphore that the earlier one updates at "
                "read or at completion and the later one waits for");
}

TEST_F(Pair, ARaceAcrossNamesTheAddressAndTheOtherCore) {
  const uint32_t place = 0x40 | NEURON_STRICT_DMA | NEURON_STRICT_OTHER_DMA;
  const uint32_t across = other(NEURON_ENGINE_PE, 1) | NEURON_STRICT_PEER;
  const std::string first = sample_.loaded->describe_instruction(NEURON_ENGINE_PE, 1);
  EXPECT_EQ(
      of(NEURON_FAULT_RACE, {place | NEURON_STRICT_OTHER_WROTE, across, 2, true}),
      "found that its transfer reads device memory at 0x20000040, which was written by a transfer "
      "that was started by " +
          first +
          " on the other core of the pair, expected an order between the two cores: a barrier or "
          "sendrecv of both between the two, or a semaphore from 8 to 15 of the later one's core, "
          "which the earlier one's core raises when its bytes are there and the later one waits "
          "for");
  EXPECT_THAT(of(NEURON_FAULT_RACE, {0x40 | NEURON_STRICT_WRITES, across, 0, false}),
              HasSubstr("found that it writes device memory (an address that ends in 0x0000040), "
                        "which was read by " +
                        first));
}

TEST_F(Pair, ATransferIsNamedByItsQueueWhereThatIsKnown) {
  const uint32_t place = kPlace | NEURON_STRICT_DMA | NEURON_STRICT_OTHER_DMA;
  const uint32_t queues = 0x31 | 0x52 << 8;
  const std::string known = of(NEURON_FAULT_RACE, {place, other(8, 0), queues, true});
  EXPECT_THAT(known, HasSubstr("found that its transfer of DMA engine 3 queue 1 reads"));
  EXPECT_THAT(known, HasSubstr("read by a transfer of DMA engine 5 queue 2 that was started by the "
                               "host or another core"));
  const std::string unknown = of(NEURON_FAULT_RACE, {place, other(8, 0), 0, false});
  EXPECT_THAT(unknown, HasSubstr("found that its transfer reads"));
  EXPECT_THAT(unknown, HasSubstr("read by a transfer that was started by the host"));
  EXPECT_THAT(of(NEURON_FAULT_RACE, {kPlace, 0, 0, true}),
              HasSubstr("which was read by another instruction"));
  EXPECT_THAT(of(NEURON_FAULT_PSUM_COLLISION, {place, other(8, 0), queues, true}),
              HasSubstr("transfer of DMA engine 3 queue 1"));
}

TEST_F(Pair, BytesThatNothingHasWrittenComeWithTheNearestThatWere) {
  EXPECT_EQ(of(NEURON_FAULT_UNINITIALISED, {kPlace, 0, 0, true}),
            "found that it reads partition 3 byte 0x40 of SBUF, which nothing has written since "
            "the model was loaded (nothing has written any byte near it either), expected every "
            "byte that is read to be written before");
  EXPECT_THAT(of(NEURON_FAULT_UNINITIALISED,
                 {kPlace, other(8, 0), 4u << NEURON_STRICT_PARTITION_SHIFT | 0x10, true}),
              HasSubstr("(the nearest written, partition 4 byte 0x10 of SBUF, was written by the "
                        "host or another core)"));
  EXPECT_THAT(of(NEURON_FAULT_UNINITIALISED, {kPlace, other(8, 0), 0, false}),
              HasSubstr("(the nearest written byte was written by the host or another core)"));
}

// The sample with a transfer into SBUF: 4 partitions from 2 on, 64 bytes each at byte 0x40.
neff::Model with_tile(std::optional<uint8_t> semaphore, std::optional<uint8_t> event = {}) {
  neff::Model model = test::sample_model();
  neff::Subgraph& graph = model.subgraphs[0];
  graph.variables.push_back(
      {.name = "sbuf", .kind = neff::VariableKind::kStateBuffer, .id = 9, .size = 0x2000000});
  graph.variables[2].size = 256;
  neff::DmaTransfer transfer;
  transfer.id = 8;
  transfer.semaphore = semaphore;
  transfer.event = event;
  transfer.from.resize(1);
  transfer.from[0].variable = 2;
  transfer.from[0].sizes = {64, 4, 1, 1};
  transfer.from[0].steps = {1, 64, 0, 0};
  transfer.from[0].dimensions = 2;
  transfer.to = transfer.from[0];
  transfer.to.variable = 3;
  transfer.to.offset = 2 * NEURON_SBUF_PARTITION_STRIDE + 0x40;
  transfer.to.steps[1] = NEURON_SBUF_PARTITION_STRIDE;
  graph.engines[NEURON_ENGINE_SP].dma.push_back(transfer);
  return model;
}

std::string early_read(const neff::Model& model, uint32_t code, const FaultWords& words) {
  const LoadedSample sample(model);
  return describe_pair(*sample.loaded, NEURON_ENGINE_PE, 0, code, words);
}

TEST(FaultPairTransfers, AReadDuringATransferNamesItAndWhatSaysThatItIsDone) {
  const uint32_t place = kPlace | NEURON_STRICT_OTHER_DMA;
  const uint32_t other =
      NEURON_STRICT_OTHER | NEURON_STRICT_PENDING | 8u << NEURON_STRICT_ENGINE_SHIFT;
  EXPECT_EQ(
      early_read(with_tile(20), NEURON_FAULT_RACE, {place, other, 0x50 << 8, true}),
      "found that it reads partition 3 byte 0x40 of SBUF while the transfer that writes it is "
      "in flight: transfer 8 of SP (queue set 'q'), a transfer of DMA engine 5 queue 0 that "
      "was started by the host or another core, expected a wait here for semaphore 20 "
      "(ready), which that transfer increments when its bytes are there");
  EXPECT_THAT(early_read(with_tile({}, 3), NEURON_FAULT_RACE, {place, other, 0x50 << 8, true}),
              HasSubstr("expected a wait here for event 3, which that transfer sets"));
  EXPECT_THAT(early_read(with_tile({}), NEURON_FAULT_RACE, {place, other, 0x50 << 8, true}),
              HasSubstr("expected a wait here for a semaphore that the transfer increments at its "
                        "end; it signals none yet"));
  // Another queue: descriptors that the program makes itself.
  EXPECT_THAT(early_read(with_tile(20), NEURON_FAULT_RACE, {place, other, 0x51 << 8, true}),
              HasSubstr("is in flight: a transfer of DMA engine 5 queue 1 that"));
}

TEST(FaultPairTransfers, AReadBeforeATransferNamesItToo) {
  EXPECT_THAT(early_read(with_tile(20), NEURON_FAULT_UNINITIALISED, {kPlace, 0, 0, true}),
              HasSubstr("reads partition 3 byte 0x40 of SBUF, which nothing has written yet: "
                        "transfer 8 of SP (queue set 'q') writes it ("));
  const uint32_t first = 2u << NEURON_STRICT_PARTITION_SHIFT;
  for (const uint32_t outside : {first | 0x3F, first | 0x80, first + (4u << 20) + 0x40}) {
    EXPECT_THAT(early_read(with_tile(20), NEURON_FAULT_UNINITIALISED, {outside, 0, 0, true}),
                HasSubstr("which nothing has written since the model was loaded"))
        << outside;
  }
}

TEST_F(Pair, AnAccumulationNeedsAMatmulBeforeIt) {
  EXPECT_EQ(of(NEURON_FAULT_PSUM_UNDEFINED, {kPlace | NEURON_STRICT_PSUM, 0, 0, true}),
            "found partition 3 byte 0x40 of PSUM as no matmul has written it, expected a matmul "
            "without accumulation to have written it");
  EXPECT_THAT(of(NEURON_FAULT_PSUM_UNDEFINED, {kPlace | NEURON_STRICT_PSUM, other(8, 0), 0, true}),
              HasSubstr("as last written by the host or another core, expected a matmul"));
}

TEST_F(Pair, AnInputOutsideOfADomainIsShownWithWhatProducedIt) {
  const uint32_t value = std::bit_cast<uint32_t>(-1.5f);
  EXPECT_THAT(of(NEURON_FAULT_DOMAIN, {kPlace, 0, value, true}),
              HasSubstr("found -1.5 as the input of "));
  EXPECT_THAT(of(NEURON_FAULT_DOMAIN, {kPlace, 0, value, true}),
              HasSubstr(" in partition 3, element 64 of src0, expected inputs "));
  EXPECT_THAT(of(NEURON_FAULT_DOMAIN, {kPlace, 0, value, false}), HasSubstr("found a value as"));
  EXPECT_THAT(of(NEURON_FAULT_DOMAIN, {kPlace, other(8, 0), value, true}),
              HasSubstr("element 64 of src0, which was produced by the host or another core, "));
  EXPECT_THAT(of(NEURON_FAULT_DOMAIN, {kPlace, 0, value, true}, NEURON_CORE_ENGINES),
              HasSubstr("as the input of the function in partition 3, element 64 of src0, expected "
                        "inputs in its documented range"));
}

TEST(FaultPairDomains, AreThoseOfThePublicDocuments) {
  const std::pair<uint8_t, const char*> ranges[] = {
      {NEURON_ACT_LOG, "in [2^-64, 2^64]"},
      {NEURON_ACT_SIN, "in [-pi, pi]"},
      {NEURON_ACT_ARCTAN, "in [-pi/2, pi/2]"},
      {NEURON_ACT_SQRT, "in [2^-116, 2^118]"},
      {NEURON_ACT_RSQRT, "in [2^-87, 2^97]"},
      {NEURON_ACT_RECIPROCAL, "of a magnitude in [2^-42, 2^42]"},
      {NEURON_ACT_EXP, "in the range of the loaded table"}};
  for (const auto& [function, range] : ranges) {
    LoadedSample sample;
    isa::Instruction activation;
    activation.opcode = NEURON_OP_ACTIVATE;
    activation.act.function = function;
    std::array<std::byte, NEURON_INSTRUCTION_BYTES> bytes;
    isa::encode(activation, bytes);
    auto& image = const_cast<EngineImage&>(sample.loaded->image(NEURON_ENGINE_PE));
    std::copy(bytes.begin(), bytes.end(), image.code.begin());
    const std::string text = describe_pair(*sample.loaded, NEURON_ENGINE_PE, 0, NEURON_FAULT_DOMAIN,
                                           {kPlace, 0, 0, true});
    EXPECT_THAT(text, ::testing::EndsWith(std::string("expected inputs ") + range));
    EXPECT_THAT(text, HasSubstr(isa::activation_name(function)));
  }
}

}  // namespace
}  // namespace neuron::runtime
