// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "driver/isa/instruction.h"
#include "hw/control.h"
#include "hw/udma.h"
#include "runtime/device/core_turn.h"
#include "tests/unit/runtime/collectives/fake_ccom.h"
#include "tests/unit/runtime/fake_device.h"

namespace neuron::runtime {
namespace {

using test::FakeCcom;
using test::FakeMachine;
using test::Setting;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What ranks tell each other about one collective, as it travels.
struct Announced {
  uint64_t input, output, scratch, count;
  uint32_t operation, type, reduction, root, stream, engines, lost;
  std::array<uint32_t, 2> input_rows, output_rows;
  uint32_t reserved;
};
static_assert(sizeof(Announced) == 80);

neff::Collective all_reduce(uint32_t stream = 0) {
  neff::Collective c;
  c.operation = CCOM_ALL_REDUCE;
  c.type = CCOM_FP32;
  c.count = 64;
  c.stream = stream;
  return c;
}

// Core 1 of a device as rank 0 of a world of two processes, whose other rank loads the same program
// on core 0, unless a test has it do something else.
class CollectivesOfAProgram : public ::testing::Test {
 protected:
  CollectivesOfAProgram() : core_(machine_.core(1)) {
    machine_.state.routing_ids = {6};
    fake_->program.code = code_.data();
    fake_->program.instructions = 2;
    fake_->run = [this](const ccom_collective_t& c) { return gather(c); };
    world_ = *World::join(*core_, 0, 2, nullptr, "10.0.0.1:99", std::chrono::seconds(5));
  }

  Result<std::unique_ptr<CollectivePrograms>> connect(
      const std::vector<neff::Collective>& operations,
      std::vector<CollectiveBuffers> buffers = {}) {
    buffers.resize(operations.size(), {0x1000, 0x2000});
    return CollectivePrograms::connect(*core_, world_, operations, buffers);
  }
  std::string refusal(const std::vector<neff::Collective>& operations) {
    const auto programs = connect(operations);
    if (programs) return "connected";
    status_ = programs.error().status;
    return programs.error().sentence;
  }
  // The other rank says of its first collective what this one says, changed.
  std::string refusal(const neff::Collective& c, std::function<void(Announced&)> change) {
    change_ = std::move(change);
    return refusal({c});
  }

  ccom_status_t gather(const ccom_collective_t& c) {
    auto* all = static_cast<std::byte*>(c.output);
    std::memcpy(all, c.input, c.count);
    std::byte* other = all + c.count;
    std::memcpy(other, c.input, c.count);
    if (c.count == sizeof(uint64_t)) {
      uint64_t bytes = 0;
      std::memcpy(&bytes, other, sizeof(bytes));
      if (bytes % sizeof(Announced) == 1 && bytes > 1 && fewer_) bytes -= sizeof(Announced);
      if (bytes == 1 && !trouble_.empty()) bytes = 1 + trouble_.size();
      std::memcpy(other, &bytes, sizeof(bytes));
      return CCOM_SUCCESS;
    }
    switch (static_cast<Occasion>(all[0])) {
      case Occasion::kJoin:
        alter<MemberPlace>(other + 1, [](MemberPlace& place) { place.core = 0; });
        break;
      case Occasion::kLoad:
        loaded_ = std::vector<std::byte>(all + 1, all + c.count);
        if (change_ && c.count > sizeof(Announced)) alter<Announced>(other + 1, change_);
        break;
      case Occasion::kReady:
        said_ = std::string(reinterpret_cast<const char*>(all) + 1, c.count - 1);
        if (!trouble_.empty()) std::memcpy(other + 1, trouble_.data(), trouble_.size());
        break;
      default:
        break;
    }
    return CCOM_SUCCESS;
  }
  template <class T>
  static void alter(std::byte* at, const std::function<void(T&)>& change) {
    T value;
    std::memcpy(&value, at, sizeof(value));
    change(value);
    std::memcpy(at, &value, sizeof(value));
  }
  Announced announced(size_t number = 0) const {
    Announced value{};
    std::memcpy(&value, loaded_.data() + number * sizeof(value), sizeof(value));
    return value;
  }
  uint64_t cc_semaphore(uint32_t k, uint32_t semaphore) const {
    return core_->place().cc_bar0(k) + NEURON_CC_SEMAPHORES + NEURON_SEM_BLOCK_SET + semaphore * 4;
  }

  const Setting emulator_{"NEURON_EMULATOR", nullptr};
  FakeCcom fake_;
  FakeMachine machine_;
  std::unique_ptr<Core> core_;
  std::shared_ptr<World> world_;
  std::array<std::byte, 2 * NEURON_INSTRUCTION_BYTES> code_{};
  std::function<void(Announced&)> change_;
  bool fewer_ = false;
  std::string trouble_, said_;
  std::vector<std::byte> loaded_;
  NRT_STATUS status_ = NRT_SUCCESS;
};

TEST_F(CollectivesOfAProgram, AStreamIsDescribedToTheLibrary) {
  neff::Collective second = all_reduce();
  second.operation = CCOM_PERMUTE;
  second.reduction = CCOM_MAX;
  second.algorithm = CCOM_MESH;
  second.root = 1;
  second.pairs = {{0, 1}, {1, 0}};
  second.semaphore = 30;
  second.semaphore_add = 4;
  second.input_rows = {.row_bytes = 256, .partitions = 8, .core_offset = 0};
  second.output_rows = {.row_bytes = 512, .partitions = 4, .core_offset = 4096};
  const auto programs = connect({all_reduce(), second});
  ASSERT_TRUE(programs) << programs.error().sentence;
  const CorePlace& place = core_->place();
  ASSERT_EQ(fake_->compiled.size(), 1u);
  const auto& stream = fake_->compiled[0];
  const ccom_device_stream_t& d = stream.description;
  EXPECT_EQ(d.size_of, sizeof(ccom_device_stream_t));
  EXPECT_EQ(d.collective_size, sizeof(ccom_device_collective_t));
  EXPECT_EQ(d.generation, 2u);
  EXPECT_EQ(d.chip, 6u);
  EXPECT_EQ(d.core, 1u);
  EXPECT_EQ(d.stride, NEURON_V2_UDMA_STRIDE);
  EXPECT_EQ(d.cc_core, place.cc_window(0));
  EXPECT_EQ(d.m2s_doorbell, place.queue_register(0, NEURON_UDMA_M2S, NEURON_DMA_QUEUE_COLLECTIVES,
                                                 NEURON_UDMAQ_TAIL_INC));
  EXPECT_EQ(d.s2m_doorbell, place.queue_register(0, NEURON_UDMA_S2M, NEURON_DMA_QUEUE_COLLECTIVES,
                                                 NEURON_UDMAQ_TAIL_INC));
  EXPECT_EQ(d.one, core_->one().address());
  EXPECT_EQ(d.engines, 0xFFFF) << "the only stream has all";
  EXPECT_EQ(d.count, 2u);
  const ccom_device_collective_t& c = stream.collectives[1];
  EXPECT_EQ(c.operation, CCOM_PERMUTE);
  EXPECT_EQ(c.type, CCOM_FP32);
  EXPECT_EQ(c.reduction, CCOM_MAX);
  EXPECT_EQ(c.algorithm, CCOM_MESH);
  EXPECT_EQ(c.root, 1u);
  EXPECT_EQ(c.rank, 0u);
  EXPECT_EQ(c.size, 2u);
  EXPECT_EQ(c.count, 64u);
  EXPECT_EQ(c.pair_count, 2u);
  EXPECT_EQ(c.counts, nullptr);
  EXPECT_EQ(c.input_layout.row_bytes, 256u);
  EXPECT_EQ(c.input_layout.rows, 8u);
  EXPECT_EQ(c.input_layout.stride, NEURON_SBUF_PARTITION_STRIDE);
  EXPECT_EQ(c.output_layout.row_bytes, 512u);
  EXPECT_EQ(stream.collectives[0].input_layout.stride, 0u) << "in HBM there are no rows";
  EXPECT_EQ(c.done[0], core_->semaphore_inc(NEURON_SEM_CC_DONE(0)));
  EXPECT_EQ(c.done_value[0], 1u);
  EXPECT_EQ(c.done[1], core_->semaphore_inc(30));
  EXPECT_EQ(c.done_value[1], 4u);
  EXPECT_EQ(stream.collectives[0].done[1], 0u);
  EXPECT_THAT(stream.names, ElementsAre("all_reduce of 64 float32 (add)", "permute of 64 float32"));
}

TEST_F(CollectivesOfAProgram, EachMemberIsWhereItsRankSaid) {
  change_ = [](Announced& other) {
    other.input = 0x7000;
    other.output = 0x8000;
    other.scratch = 0x9000;
  };
  fake_->scratch = [](uint32_t, uint64_t& bytes) {
    bytes = 100;
    return CCOM_SUCCESS;
  };
  const auto programs = connect({all_reduce()}, {{0x3000, 0x4000}});
  ASSERT_TRUE(programs) << programs.error().sentence;
  const auto& members = fake_->compiled[0].members[0];
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].world, 0u);
  EXPECT_EQ(members[0].chip, 6u);
  EXPECT_EQ(members[0].core, 1u);
  EXPECT_EQ(members[0].cc_core, core_->place().cc_window(0));
  EXPECT_EQ(members[0].input, 0x3000u);
  EXPECT_EQ(members[0].output, 0x4000u);
  EXPECT_NE(members[0].scratch, 0u);
  EXPECT_EQ(announced().scratch, members[0].scratch);
  EXPECT_EQ(members[1].world, 1u);
  EXPECT_EQ(members[1].core, 0u);
  EXPECT_EQ(members[1].cc_core, (CorePlace{core_->place().chip, 0}.cc_window(0)));
  EXPECT_EQ(members[1].input, 0x7000u);
  EXPECT_EQ(members[1].output, 0x8000u);
  EXPECT_EQ(members[1].scratch, 0x9000u);
  // When scratch is asked for, only the own buffers are known.
  EXPECT_EQ(fake_->scratched[0].members[0][0].input, 0x3000u);
  EXPECT_EQ(fake_->scratched[0].members[0][0].output, 0x4000u);
  EXPECT_EQ(fake_->scratched[0].members[0][1].input, 0u);
}

TEST_F(CollectivesOfAProgram, SeveralStreamsShareTheDmaEngines) {
  const auto programs = connect({all_reduce(2), all_reduce(0), all_reduce(2)});
  ASSERT_TRUE(programs) << programs.error().sentence;
  ASSERT_EQ(fake_->compiled.size(), 2u);
  EXPECT_EQ(fake_->compiled[0].description.engines, NEURON_V2_CC_ENGINES(0));
  EXPECT_EQ(fake_->compiled[0].description.count, 1u);
  EXPECT_EQ(fake_->compiled[1].description.engines, NEURON_V2_CC_ENGINES(2));
  EXPECT_EQ(fake_->compiled[1].description.count, 2u);
  EXPECT_EQ(fake_->compiled[1].collectives[0].done[0], core_->semaphore_inc(NEURON_SEM_CC_DONE(2)));
  EXPECT_EQ(fake_->compiled[1].description.cc_core, core_->place().cc_window(2));
  EXPECT_EQ(announced(1).stream, 0u) << "in the order of the program";
  EXPECT_EQ(announced(1).engines, 6u);
  EXPECT_EQ(announced(2).stream, 2u);
  EXPECT_EQ(announced(2).engines, 5u);
}

TEST_F(CollectivesOfAProgram, AScratchMemoryIsAsLargeAsTheLargestOfItsStream) {
  fake_->scratch = [](uint32_t number, uint64_t& bytes) {
    bytes = number == 1 ? 70000 : 10;
    return CCOM_SUCCESS;
  };
  const auto programs = connect({all_reduce(), all_reduce(), all_reduce()});
  ASSERT_TRUE(programs) << programs.error().sentence;
  const auto& allocation = machine_.state.at_address(announced(0).scratch);
  EXPECT_EQ(allocation.request.size, 70000u);
  EXPECT_EQ(announced(2).scratch, announced(0).scratch);
  fake_->scratch = nullptr;
  const auto without = connect({all_reduce()});
  ASSERT_TRUE(without);
  EXPECT_EQ(announced(0).scratch, 0u);
}

TEST_F(CollectivesOfAProgram, WhatTheLibraryRefusesIsToldWithItsReason) {
  fake_->scratch = [](uint32_t, uint64_t&) { return CCOM_UNSUPPORTED; };
  fake_->device_error = "no ring of two";
  EXPECT_EQ(refusal({all_reduce()}), "all_reduce of 64 float32 (add): no ring of two");
  EXPECT_EQ(status_, NRT_UNSUPPORTED_NEFF_VERSION);
  fake_->device_error = "";
  EXPECT_EQ(refusal({all_reduce()}), "all_reduce of 64 float32 (add): libccom gave no reason");
  fake_->scratch = nullptr;
  fake_->compile_result = CCOM_RESOURCE;
  fake_->device_error = "too long";
  EXPECT_EQ(refusal({all_reduce()}), "stream 0: too long");
  EXPECT_EQ(status_, NRT_RESOURCE);
  EXPECT_EQ(said_, "stream 0: too long") << "so that the other ranks do not wait";
}

TEST_F(CollectivesOfAProgram, ARankInTroubleEndsTheLoadingOfAll) {
  trouble_ = "no memory";
  EXPECT_EQ(refusal({all_reduce()}), "rank 1 could not make its collectives ready: no memory");
  EXPECT_EQ(status_, NRT_FAILURE);
  EXPECT_EQ(said_, std::string(trouble_.size(), '\0')) << "this one has none";
}

TEST_F(CollectivesOfAProgram, RanksThatPlanDifferentlyAreRefusedOnBothSides) {
  const char* const own[] = {"all_reduce by mesh", "all_reduce by ring"};
  fake_->program.plans = own;
  fake_->program.plan_count = 2;
  ASSERT_EQ(refusal({all_reduce(), all_reduce()}), "connected");
  trouble_ = std::string(1, '\0') + "all_reduce by mesh\nall_reduce by tree\n";
  EXPECT_EQ(
      refusal({all_reduce(), all_reduce()}),
      "collective 2: rank 0 has all_reduce by ring, rank 1 has all_reduce by tree; ranks of "
      "a group need the same program, CCOM_ALGORITHM, CCOM_GROUPING and CCOM_CALIBRATION, and "
      "are in place together");
  EXPECT_EQ(status_, NRT_INVALID);
  neff::Collective apart = all_reduce();
  apart.groups = {{0}, {1}};
  EXPECT_EQ(refusal({all_reduce(), apart}), "connected") << "groups may plan as they like";
}

TEST_F(CollectivesOfAProgram, GroupsAreOfRanksOfTheJobWithThisOne) {
  neff::Collective c = all_reduce();
  c.groups = {{1}, {1, 0}};
  const auto programs = connect({c});
  ASSERT_TRUE(programs) << programs.error().sentence;
  EXPECT_EQ(fake_->compiled[0].collectives[0].rank, 1u) << "second in its group";
  EXPECT_EQ(fake_->compiled[0].members[0][0].world, 1u);
  c.groups = {{0, 2}};
  EXPECT_EQ(
      refusal({c}),
      "all_reduce of 64 float32 (add) names rank 2 in its replica groups; the job has 2 ranks "
      "(ctx_device_count)");
  EXPECT_EQ(status_, NRT_INVALID);
  c.groups = {{1}};
  EXPECT_EQ(refusal({c}), "all_reduce of 64 float32 (add) has no replica group with rank 0");
  EXPECT_EQ(status_, NRT_INVALID);
}

TEST_F(CollectivesOfAProgram, LengthsOfTheirOwnAreOneForEachMember) {
  neff::Collective c = all_reduce();
  c.operation = CCOM_ALL_GATHER_V;
  c.counts = {3, 5};
  c.displacements = {0, 3};
  ASSERT_EQ(refusal({c}), "connected");
  EXPECT_THAT(fake_->compiled[0].counts[0], ElementsAre(3u, 5u));
  EXPECT_NE(fake_->compiled[0].collectives[0].displacements, nullptr);
  EXPECT_EQ(fake_->compiled[0].names[0], "all_gather_v of float32");
  const uint64_t hash = announced().count;
  c.displacements = {0, 4};
  ASSERT_EQ(refusal({c}), "connected");
  EXPECT_NE(announced().count, hash) << "ranks with other lengths find out";
  c.counts = {3, 5, 7};
  EXPECT_EQ(refusal({c}),
            "all_gather_v of float32 has 3 counts; its group has 2 ranks, which need 2");
  c.operation = CCOM_ALL_TO_ALL_V;
  EXPECT_EQ(refusal({c}),
            "all_to_all_v of float32 has 3 counts; its group has 2 ranks, which need 4");
  EXPECT_EQ(status_, NRT_INVALID);
  c.counts = {1, 2, 3, 4};
  c.displacements = c.receive_displacements = c.counts;
  EXPECT_EQ(refusal({c}), "connected");
  EXPECT_NE(fake_->compiled.back().collectives[0].receive_displacements, nullptr);
}

TEST_F(CollectivesOfAProgram, TheirSentencesNameWhatTheOperationHas) {
  for (const auto& [operation, words] :
       {std::pair{CCOM_BARRIER, "barrier"},
        {CCOM_ALL_GATHER, "all_gather of 64 float32"},
        {CCOM_REDUCE_SCATTER, "reduce_scatter of 64 float32 (product)"},
        {CCOM_REDUCE, "reduce of 64 float32 (product)"},
        {CCOM_ALL_REDUCE, "all_reduce of 64 float32 (product)"},
        {CCOM_BROADCAST, "broadcast of 64 float32"}}) {
    neff::Collective c = all_reduce();
    c.operation = operation;
    c.reduction = CCOM_PRODUCT;
    ASSERT_EQ(refusal({c}), "connected");
    EXPECT_EQ(fake_->compiled.back().names[0], words);
  }
  neff::Collective c = all_reduce();
  c.operation = CCOM_REDUCE_SCATTER_V;
  c.counts = {1, 2};
  c.displacements = {0, 1};
  ASSERT_EQ(refusal({c}), "connected");
  EXPECT_EQ(fake_->compiled.back().names[0], "reduce_scatter_v of float32 (add)");
}

TEST_F(CollectivesOfAProgram, RanksOfAGroupLoadTheSameProgram) {
  const neff::Collective c = all_reduce();
  EXPECT_EQ(refusal(c,
                    [](Announced& other) {
                      other.operation = CCOM_ALL_GATHER;
                      other.input_rows = {256, 8};
                      other.output_rows = {512, 4};
                      other.stream = 1;
                      other.engines = 5;
                    }),
            "collective 1: rank 0 has all_reduce of 64 float32 (add) on stream 0 (16 DMA engines), "
            "rank 1 has all_gather of 64 float32, input in SBUF as rows of 256 bytes in 8 "
            "partitions, output in SBUF as rows of 512 bytes in 4 partitions on stream 1 (5 DMA "
            "engines); ranks of a group must load the same program");
  EXPECT_EQ(status_, NRT_INVALID);
  const std::function<void(Announced&)> changes[] = {
      [](Announced& other) { other.operation = CCOM_REDUCE; },
      [](Announced& other) { other.type = CCOM_BF16; },
      [](Announced& other) { other.reduction = CCOM_MAX; },
      [](Announced& other) { other.count = 65; },
      [](Announced& other) { other.root = 1; },
      [](Announced& other) { other.stream = 1; },
      [](Announced& other) { other.engines = 6; },
      [](Announced& other) { other.input_rows[0] = 4; },
      [](Announced& other) { other.input_rows[1] = 4; },
      [](Announced& other) { other.output_rows[0] = 4; },
      [](Announced& other) { other.output_rows[1] = 4; }};
  for (const auto& change : changes) {
    EXPECT_THAT(refusal(c, change), HasSubstr("ranks of a group must load the same program"))
        << &change - changes;
  }
  EXPECT_EQ(refusal(c, [](Announced& other) { other.input = 1; }), "connected");
}

TEST_F(CollectivesOfAProgram, ARankWithFewerCollectivesIsNamed) {
  fewer_ = true;
  EXPECT_EQ(refusal({all_reduce(), all_reduce()}),
            "rank 1 has 1 collectives, rank 0 at least 2: they must load the same program");
  EXPECT_EQ(status_, NRT_INVALID);
  EXPECT_EQ(refusal({all_reduce()}),
            "rank 1 has 0 collectives, rank 0 at least 1: they must load the same program");
}

TEST_F(CollectivesOfAProgram, SemaphoresOfAnEarlierProcessAreCleared) {
  for (uint32_t k = 0; k < 3; ++k) {
    for (uint32_t s = 0; s < NEURON_SEMAPHORES; ++s) {
      machine_.state.registers[cc_semaphore(k, s)] = 9;
    }
  }
  ASSERT_EQ(refusal({all_reduce()}), "connected");
  for (uint32_t k = 0; k < 3; ++k) {
    for (uint32_t s = 0; s < NEURON_SEMAPHORES; ++s) {
      const bool reserved = s > NEURON_CC_SEM_GO && s < NEURON_CC_SEM_PROGRAM_FIRST;
      ASSERT_EQ(machine_.state.registers[cc_semaphore(k, s)], reserved ? 9u : 0u) << k << " " << s;
    }
  }
  EXPECT_EQ(core_->collectives, CollectivesState::kClean);
  // They hold credits of the other ranks from now on.
  machine_.state.registers[cc_semaphore(0, 16)] = 4;
  ASSERT_EQ(refusal({all_reduce()}), "connected");
  EXPECT_EQ(machine_.state.registers[cc_semaphore(0, 16)], 4u);
}

TEST_F(CollectivesOfAProgram, CreditsThatOneRankHasLostAreForgottenByAll) {
  const auto before = connect({all_reduce()});
  ASSERT_TRUE(before);
  EXPECT_FALSE((*before)->broken());
  EXPECT_EQ(announced().lost, 0u);
  machine_.state.registers[cc_semaphore(2, 255)] = 4;
  change_ = [](Announced& other) { other.lost = 1; };
  const auto after = connect({all_reduce()});
  ASSERT_TRUE(after);
  EXPECT_TRUE((*before)->broken()) << "it must be loaded again";
  EXPECT_FALSE((*after)->broken());
  EXPECT_EQ(machine_.state.registers[cc_semaphore(2, 255)], 0u);
  change_ = nullptr;
  (*after)->give_up("a NaN");
  EXPECT_TRUE((*after)->broken());
  EXPECT_EQ(fake_->told.back().sentence, "a NaN");
  ASSERT_EQ(refusal({all_reduce()}), "connected");
  EXPECT_EQ(announced().lost, 1u) << "this rank has lost them";
}

TEST_F(CollectivesOfAProgram, AFailureOfARankIsOneSinceTheyMet) {
  ASSERT_TRUE(world_->barrier());
  const auto programs = connect({all_reduce()});
  ASSERT_TRUE(programs);
  ccom_notice_t notice{sizeof(notice), 2, 1, "a NaN"};  // of the barrier
  fake_->notices = {notice};
  EXPECT_EQ((*programs)->failure_of_rank(), std::nullopt);
  notice.number = 3;
  fake_->notices = {notice};
  EXPECT_EQ((*programs)->failure_of_rank(), "rank 1 has failed (a NaN)");
  EXPECT_TRUE((*programs)->check_peers());
}

TEST_F(CollectivesOfAProgram, RingsAndCodeLieInDeviceMemoryBehindAPrologue) {
  std::vector<std::byte> m2s(70 * NEURON_DESC_BYTES, std::byte{1}),
      s2m(3 * NEURON_DESC_BYTES, std::byte{2});
  fake_->program.rings[0] = {m2s.data(), nullptr, 70, 0};
  fake_->program.rings[7] = {m2s.data(), s2m.data(), 1, 3};
  code_.fill(std::byte{7});
  core_->current_model = nullptr;
  const auto programs = connect({all_reduce()});
  ASSERT_TRUE(programs) << programs.error().sentence;
  ASSERT_TRUE((*programs)->start());

  ASSERT_EQ(machine_.state.queues.size(), 16u);
  const auto& memory = machine_.state.at(machine_.state.queues[0].tx_handle);
  // 70 descriptors take a ring of 80; the least ring has 32. First those of one side, then those of
  // the other.
  std::array<uint64_t, 16> places[2];
  for (uint32_t e = 0; e < 16; ++e) {
    places[0][e] = e == 0 ? 0 : 80 * NEURON_DESC_BYTES + (e - 1) * 32 * NEURON_DESC_BYTES;
    places[1][e] = (80 + 15 * 32) * NEURON_DESC_BYTES + e * 32 * NEURON_DESC_BYTES;
  }
  EXPECT_EQ(memory.request.size, (80u + 31 * 32) * NEURON_DESC_BYTES);
  for (uint32_t e = 0; e < 16; ++e) {
    const auto& queue = machine_.state.queues[e];
    EXPECT_EQ(queue.eng_id, 16 + e) << "of core 1";
    EXPECT_EQ(queue.qid, NEURON_DMA_QUEUE_COLLECTIVES);
    EXPECT_EQ(queue.tx_desc_count, e == 0 ? 80u : 32u);
    EXPECT_EQ(queue.rx_desc_count, 32u);
    EXPECT_EQ(queue.tx_handle, queue.rx_handle);
  }
  const std::byte* rings = memory.bytes.get();
  EXPECT_EQ(std::memcmp(rings, m2s.data(), m2s.size()), 0);
  EXPECT_EQ(rings[m2s.size()], std::byte{0});
  EXPECT_EQ(std::memcmp(rings + places[0][7], m2s.data(), NEURON_DESC_BYTES), 0);
  EXPECT_EQ(rings[places[0][7] + NEURON_DESC_BYTES], std::byte{0});
  EXPECT_EQ(std::memcmp(rings + places[1][7], s2m.data(), s2m.size()), 0);
  EXPECT_EQ(rings[places[1][7] + s2m.size()], std::byte{0});

  ASSERT_EQ(machine_.state.programmed.size(), 1u);
  const auto& started = machine_.state.programmed[0];
  EXPECT_EQ(started.core, 1u);
  EXPECT_EQ(started.address, core_->place().cc_window(0) + NEURON_CC_ENGINE);
  const auto word = [&](uint32_t offset) { return started.words.at(offset / 4); };
  const uint64_t code = word(NEURON_ENG_PROG_LO) | uint64_t{word(NEURON_ENG_PROG_HI)} << 32;
  EXPECT_EQ(code % 4096, 0u);
  EXPECT_EQ(word(NEURON_ENG_PROG_COUNT), 64u + 2);
  EXPECT_EQ(word(NEURON_ENG_PREFETCH), 32u);
  EXPECT_EQ(word(NEURON_ENG_CONTROL), static_cast<uint32_t>(NEURON_CMD_START));
  EXPECT_EQ(word(NEURON_ENG_DONE_LO) | uint64_t{word(NEURON_ENG_DONE_HI)} << 32,
            core_->completion_address());
  EXPECT_EQ(started.words.size(), 16u);

  const std::byte* instructions = machine_.state.bytes_at(code);
  for (uint32_t e = 0; e < 16; ++e) {
    for (uint32_t side = 0; side < 2; ++side) {
      for (uint32_t high = 0; high < 2; ++high) {
        const isa::Instruction i = isa::decode(
            isa::Bytes(instructions + (e * 4 + side * 2 + high) * NEURON_INSTRUCTION_BYTES,
                       NEURON_INSTRUCTION_BYTES));
        EXPECT_EQ(i.opcode, NEURON_OP_WRITE);
        EXPECT_EQ(i.engines, 1u << NEURON_ENGINE_CC);
        EXPECT_EQ(i.address.addr, core_->place().queue_register(
                                      e, side == 0 ? NEURON_UDMA_M2S : NEURON_UDMA_S2M,
                                      NEURON_DMA_QUEUE_COLLECTIVES,
                                      high == 0 ? NEURON_UDMAQ_BASE_LO : NEURON_UDMAQ_BASE_HI));
        EXPECT_EQ(i.scalar0.value,
                  static_cast<uint32_t>((memory.address + places[side][e]) >> 32 * high));
        EXPECT_EQ(i.scalar0.kind, NEURON_SCALAR_IMMEDIATE);
        EXPECT_EQ(i.scalar0.dtype, NEURON_DTYPE_U32);
      }
    }
  }
  EXPECT_EQ(std::memcmp(instructions + 64 * NEURON_INSTRUCTION_BYTES, code_.data(), code_.size()),
            0);
}

TEST_F(CollectivesOfAProgram, AStreamHasRingsOnItsOwnEnginesOnly) {
  const auto programs = connect({all_reduce(0), all_reduce(1)});
  ASSERT_TRUE(programs);
  ASSERT_TRUE((*programs)->start());
  ASSERT_EQ(machine_.state.queues.size(), 6u + 5);
  for (uint32_t i = 0; i < 11; ++i) EXPECT_EQ(machine_.state.queues[i].eng_id, 16 + i);
  ASSERT_EQ(machine_.state.programmed.size(), 2u);
  EXPECT_EQ(machine_.state.programmed[1].address, core_->place().cc_window(1) + NEURON_CC_ENGINE);
  EXPECT_EQ(machine_.state.programmed[1].words.at(NEURON_ENG_PROG_COUNT / 4), 5u * 4 + 2);
}

TEST_F(CollectivesOfAProgram, WhatTheDriverRefusesIsNamed) {
  auto& failing = machine_.state.failing;
  failing[NEURON_IOCTL_DMA_COPY_DESCRIPTORS64] = -EFAULT;
  EXPECT_THAT(refusal({all_reduce()}), HasSubstr("writing the DMA descriptors of collectives"));
  EXPECT_EQ(status_, NRT_HW_ERROR);
  failing.clear();
  const auto programs = connect({all_reduce(1)});
  ASSERT_TRUE(programs);
  failing[NEURON_IOCTL_DMA_QUEUE_INIT_BATCH] = -EINVAL;
  EXPECT_THAT((*programs)->start().error().sentence,
              HasSubstr("setting up the DMA queues of collectives of device 0 core 1"));
  failing.clear();
  failing[NEURON_IOCTL_PROGRAM_ENGINE_NC64] = -EINVAL;
  EXPECT_THAT((*programs)->start().error().sentence,
              HasSubstr("starting collective core 1 of device 0 core 1"));
}

TEST_F(CollectivesOfAProgram, ACoreThatIsBusyIsWaitedForNoLongerThanATurn) {
  const auto turn = CoreTurn::take(*core_);
  ASSERT_TRUE(turn);
  std::string sentence;
  std::thread other([&] { sentence = refusal({all_reduce()}); });
  other.join();
  EXPECT_THAT(sentence, HasSubstr("was busy with other executions"));
}

TEST_F(CollectivesOfAProgram, ACoreThatWaitsIsDescribed) {
  const auto programs = connect({all_reduce(0), all_reduce(1)});
  ASSERT_TRUE(programs);
  const auto set = [&](uint32_t k, uint32_t state, uint32_t pc) {
    const uint64_t block = core_->place().cc_bar0(k) + NEURON_CC_ENGINE;
    machine_.state.registers[block + NEURON_ENG_STATUS] = state;
    machine_.state.registers[block + NEURON_ENG_PC] = pc;
  };
  bool busy = false;
  set(0, NEURON_STATE_IDLE, 30);
  set(1, NEURON_STATE_RUNNING, 19);  // the prologue has 20
  EXPECT_EQ((*programs)->describe(busy), "");
  EXPECT_FALSE(busy);
  // Where an execution begins, it waits for its go.
  set(1, 0xABC0 | NEURON_STATE_WAITING, 20);
  EXPECT_EQ((*programs)->describe(busy),
            "rank 0 is at instruction 0 of its collectives on stream 1");
  EXPECT_FALSE(busy);
  set(1, NEURON_STATE_RUNNING, 20);
  (*programs)->describe(busy);
  EXPECT_TRUE(busy);
  busy = false;
  set(1, NEURON_STATE_WAITING, 21);
  set(0, NEURON_STATE_WAITING, 24 + 5);
  fake_->description = "waits for data of rank 1";
  EXPECT_EQ((*programs)->describe(busy),
            "rank 0 waits for data of rank 1; rank 0 waits for data of rank 1");
  EXPECT_TRUE(busy);
  EXPECT_THAT(fake_->described, ElementsAre(0u, 0u, 5u, 1u));
}

TEST_F(CollectivesOfAProgram, TellAProfileWhereTheirOwnInstructionsBegin) {
  const auto programs = connect({all_reduce(0), all_reduce(1)});
  ASSERT_TRUE(programs);
  const auto facts = (*programs)->facts();
  ASSERT_EQ(facts.size(), 2u);
  for (uint32_t stream = 0; stream < 2; ++stream) {
    EXPECT_EQ(facts[stream].stream, stream);
    EXPECT_EQ(facts[stream].rank, 0u);
    EXPECT_EQ(facts[stream].prologue, stream == 0 ? 24u : 20u) << "as in ACoreThatWaitsIsDescribed";
  }
}

TEST_F(CollectivesOfAProgram, ProgramsAreFreedWithTheModel) {
  {
    const auto programs = connect({all_reduce(0), all_reduce(1)});
    ASSERT_TRUE(programs);
    EXPECT_TRUE(fake_->freed.empty());
  }
  EXPECT_THAT(fake_->freed, ElementsAre(&fake_->program, &fake_->program));
  EXPECT_TRUE(machine_.state.count(NEURON_IOCTL_MEM_FREE) >= 4) << "rings and code of each";
  fake_->compile_result = CCOM_RESOURCE;
  EXPECT_NE(refusal({all_reduce()}), "connected");
  EXPECT_EQ(fake_->freed.size(), 2u) << "nothing was compiled";
}

}  // namespace
}  // namespace neuron::runtime
