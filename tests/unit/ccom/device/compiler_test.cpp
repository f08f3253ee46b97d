// SPDX-License-Identifier: Apache-2.0
#include "ccom/device/compiler.h"

#include <gtest/gtest.h>

#include "ccom/plan/planner.h"
#include "driver/isa/instruction.h"
#include "hw/isa.h"
#include "tests/unit/ccom/device/device_model.h"

namespace neuron::ccom {
namespace {

constexpr uint32_t kOneInstance = 1u << 20;  // more ranks than any test has

// `of_instance`: ranks of each instance.
Group group_of(uint32_t ranks, uint32_t of_instance = kOneInstance) {
  Group group{{}, Topology(*Topology::profile("trn1.32xlarge"), (ranks - 1) / of_instance + 1)};
  for (Rank r = 0; r < ranks; ++r) {
    Place place = group.topology.place(r % of_instance);
    place.node = r / of_instance;
    group.places.push_back(place);
  }
  return group;
}

Plan plan_of(const Request& request, uint32_t ranks, uint32_t of_instance = kOneInstance) {
  Group group = group_of(ranks, of_instance);
  CostParameters costs;
  costs.medium = Medium::kDevice;
  auto plan = Planner(group, costs).plan(request);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().sentence);
  return plan ? *plan : Plan{};
}

struct World {
  uint32_t ranks = 2;
  bool in_place = false;
  std::vector<Plan> plans;
  uint32_t of_instance = kOneInstance;

  DeviceCollective collective(const Plan& plan, Rank rank) const {
    DeviceCollective result;
    result.schedule = plan.schedule.get();
    result.window = plan.window;
    result.name = "all_reduce";
    result.rank = rank;
    for (Rank r = 0; r < ranks; ++r) {
      result.world.push_back(r);
      result.places.push_back(place_of(r, of_instance));
      result.buffers.push_back(buffers_of(r, in_place));
    }
    result.done = {{base_of(rank) + kDoneAt, 1}};
    return result;
  }

  Result<DeviceProgram> compile(Rank rank) const {
    const StreamPlace stream{
        place_of(rank, of_instance), kDoorbell, kDoorbell + 0x20000, 0x40000, 0xFFFF,
        base_of(rank) + kOneAt};
    std::vector<DeviceCollective> collectives;
    for (const Plan& plan : plans) collectives.push_back(collective(plan, rank));
    return compile_stream(stream, collectives);
  }

  std::vector<DeviceProgram> compile_all() const {
    std::vector<DeviceProgram> programs;
    for (Rank r = 0; r < ranks; ++r) {
      auto program = compile(r);
      EXPECT_TRUE(program) << (program ? "" : program.error().sentence);
      if (program) programs.push_back(std::move(*program));
    }
    return programs;
  }
};

float value_of(Rank rank, uint64_t element) {
  return static_cast<float>(rank + 1) * 0.37f + static_cast<float>(element % 1013) * 1.13f;
}

void fill(DeviceModel& model, uint32_t ranks, uint64_t count) {
  for (Rank r = 0; r < ranks; ++r) {
    auto* input = reinterpret_cast<float*>(model.memory(r) + kInputAt);
    for (uint64_t i = 0; i < count; ++i) input[i] = value_of(r, i);
  }
}

struct Case {
  ccom_algorithm_t algorithm;
  uint32_t ranks;
  uint64_t count;
  bool in_place;
  uint32_t of_instance = kOneInstance;
};

class AllReduce : public testing::TestWithParam<Case> {};

TEST_P(AllReduce, GivesTheSumOnEveryRankWhateverThePaceOfEnginesAndLeavesNothingBehind) {
  const Case& c = GetParam();
  const Request request{.operation = CCOM_ALL_REDUCE,
                        .type = CCOM_FP32,
                        .algorithm = c.algorithm,
                        .in_place = c.in_place,
                        .count = c.count};
  const World world{c.ranks, c.in_place, {plan_of(request, c.ranks, c.of_instance)}, c.of_instance};
  ASSERT_NE(world.plans[0].schedule, nullptr);
  const auto programs = world.compile_all();
  ASSERT_EQ(programs.size(), c.ranks);
  for (unsigned seed = 0; seed < 3; ++seed) {
    DeviceModel model(programs, seed, c.of_instance);
    for (uint32_t execution = 1; execution <= 2; ++execution) {
      fill(model, c.ranks, c.count);
      for (Rank r = 0; r < c.ranks; ++r) model.go(r);
      ASSERT_EQ(model.run(), "");
      ASSERT_EQ(model.check_rest(), "") << "execution " << execution;
      const uint64_t at = c.in_place ? kInputAt : kOutputAt;
      for (Rank r = 0; r < c.ranks; ++r) {
        EXPECT_EQ(model.done(r), execution);
        ASSERT_EQ(std::memcmp(model.memory(r) + at, model.memory(0) + at, c.count * 4), 0);
      }
      for (uint64_t i = 0; i < c.count; ++i) {
        float sum = value_of(0, i);
        for (Rank r = 1; r < c.ranks; ++r) sum += value_of(r, i);
        float found;
        std::memcpy(&found, model.memory(0) + at + i * 4, 4);
        if (c.algorithm == CCOM_MESH || c.algorithm == CCOM_NODE_CHAIN) {
          ASSERT_EQ(found, sum) << i;  // in the order of the ranks
        } else {
          ASSERT_NEAR(found, sum, sum * 1e-5) << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Groups, AllReduce,
    testing::Values(Case{CCOM_MESH, 2, 1000, false}, Case{CCOM_MESH, 2, 1, false},
                    Case{CCOM_MESH, 5, 4099, false}, Case{CCOM_MESH, 20, 2000, false},
                    Case{CCOM_MESH, 20, 2000, true}, Case{CCOM_MESH, 8, 20000, true},
                    Case{CCOM_RING, 2, 1000, false}, Case{CCOM_RING, 4, 40000, false},
                    Case{CCOM_RING, 8, 3001, true}));

INSTANTIATE_TEST_SUITE_P(
    GroupsOnSeveralInstances, AllReduce,
    testing::Values(Case{CCOM_MESH, 4, 1000, false, 2}, Case{CCOM_MESH, 8, 20000, true, 4},
                    Case{CCOM_RING, 8, 3001, true, 4}, Case{CCOM_RING, 6, 40000, false, 2},
                    Case{CCOM_HIERARCHICAL, 8, 20000, false, 4},
                    Case{CCOM_HIERARCHICAL, 8, 3001, true, 2},
                    Case{CCOM_TWO_D_RING, 8, 20000, false, 4}, Case{CCOM_TREE, 8, 999, false, 4},
                    Case{CCOM_NODE_CHAIN, 8, 20000, false, 4},
                    Case{CCOM_NODE_CHAIN, 8, 20000, true, 4},
                    Case{CCOM_NODE_CHAIN, 6, 3001, true, 2},  // three instances
                    Case{CCOM_NODE_CHAIN, 3, 1000, false, 1},
                    Case{CCOM_NODE_CHAIN, 8, 3, false, 4},  // a rank without a part
                    Case{CCOM_NODE_LEADERS, 8, 20000, false, 4},
                    Case{CCOM_NODE_LEADERS, 6, 3001, true, 2},  // three instances
                    Case{CCOM_NODE_LEADERS, 3, 1, false, 1}));

// What an operation without arithmetic puts where, for 4 ranks; the schedules themselves are proved
// elsewhere.
class Movement : public testing::TestWithParam<ccom_operation_t> {};

TEST_P(Movement, EveryAlgorithmPutsTheBytesWhereTheyBelongAndLeavesNothingBehind) {
  constexpr uint32_t kRanks = 4;
  constexpr uint64_t kCount = 700;
  const ccom_operation_t operation = GetParam();
  Request request{.operation = operation, .type = CCOM_FP32, .root = 2, .count = kCount};
  if (operation == CCOM_BARRIER) request.count = 0;
  if (operation == CCOM_PERMUTE) request.pairs = {{0, 3}, {3, 1}, {1, 0}};
  // On one instance, and on two of two ranks each.
  for (const uint32_t of_instance : {kOneInstance, 2u}) {
    const Group group = group_of(kRanks, of_instance);
    CostParameters costs;
    costs.medium = Medium::kDevice;
    const Planner planner(group, costs);
    const auto candidates = planner.candidates(request);
    ASSERT_FALSE(candidates.empty());
    for (const ccom_algorithm_t algorithm : candidates) {
      request.algorithm = algorithm;
      auto plan = planner.plan(request);
      ASSERT_TRUE(plan) << plan.error().sentence;
      DeviceModel model(World{kRanks, false, {*plan, *plan}, of_instance}.compile_all(), 11,
                        of_instance);
      fill(model, kRanks, kCount * kRanks);
      for (Rank r = 0; r < kRanks; ++r) {
        model.go(r);
        model.go(r);
      }
      ASSERT_EQ(model.run(), "") << algorithm;
      ASSERT_EQ(model.check_rest(), "") << algorithm;
      for (Rank r = 0; r < kRanks; ++r) {
        const auto* out = reinterpret_cast<const float*>(model.memory(r) + kOutputAt);
        EXPECT_EQ(model.done(r), 2u);
        for (uint64_t i = 0; i < kCount * kRanks; ++i) {
          const auto block = static_cast<Rank>(i / kCount);
          const uint64_t element = i % kCount;
          float wanted = out[i];
          if (operation == CCOM_ALL_GATHER || (operation == CCOM_GATHER && r == 2)) {
            wanted = value_of(block, element);
          } else if (operation == CCOM_ALL_TO_ALL) {
            wanted = value_of(block, r * kCount + element);
          } else if (block == 0 && operation == CCOM_BROADCAST) {
            wanted = value_of(2, element);
          } else if (block == 0 && operation == CCOM_SCATTER) {
            wanted = value_of(2, r * kCount + element);
          } else if (block == 0 && operation == CCOM_PERMUTE && r != 2) {
            constexpr Rank kFrom[] = {1, 3, 0, 0};
            wanted = value_of(kFrom[r], element);
          }
          ASSERT_EQ(out[i], wanted) << "algorithm " << algorithm << " rank " << r << " at " << i;
        }
      }
    }
  }
}

TEST(Compiler, LeavesWhatLiesInRowsOfSbufToTheRanksOfOneInstance) {
  const Request request{
      .operation = CCOM_ALL_REDUCE, .type = CCOM_FP32, .algorithm = CCOM_MESH, .count = 4096};
  const World world{4, false, {plan_of(request, 4, 2)}, 2};
  DeviceCollective collective = world.collective(world.plans[0], 1);
  for (RankBuffers& buffers : collective.buffers) {
    buffers.input = {kInputAt, 1024, 16, 8192};
    buffers.output = {kOutputAt, 1024, 16, 8192};
  }
  const StreamPlace stream{place_of(1, 2), kDoorbell, kDoorbell + 0x20000, 0x40000, 0xFFFF, kOneAt};
  const auto program = compile_stream(stream, {collective});
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().status, CCOM_UNSUPPORTED);
  EXPECT_NE(program.error().sentence.find("lie in rows of SBUF, which the network does not reach"),
            std::string::npos)
      << program.error().sentence;
}

INSTANTIATE_TEST_SUITE_P(Operations, Movement,
                         testing::Values(CCOM_ALL_GATHER, CCOM_ALL_TO_ALL, CCOM_BROADCAST,
                                         CCOM_GATHER, CCOM_SCATTER, CCOM_PERMUTE, CCOM_BARRIER));

TEST(Compiler, RefusesTwoRanksThatWouldShareCredits) {
  const Request request{
      .operation = CCOM_ALL_REDUCE, .type = CCOM_FP32, .algorithm = CCOM_MESH, .count = 100};
  const World world{2, false, {plan_of(request, 2)}};
  DeviceCollective collective = world.collective(world.plans[0], 0);
  collective.places[1].chip = 64;
  collective.places[1].core = 0;
  const StreamPlace stream{place_of(0), kDoorbell, kDoorbell, 0x40000, 0xFFFF, kOneAt};
  const auto program = compile_stream(stream, {collective});
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().status, CCOM_UNSUPPORTED);
}

TEST(Compiler, AddressesChipsOfOtherNodesByHowManyNodesFurtherTheyAre) {
  const auto place = [](uint32_t node, uint32_t chip) {
    return DevicePlace{find_generation(3), chip, 0, 0, 0, node};
  };
  const auto to = [](uint64_t id) { return NEURON_V3_PEER(id) | 0x2000; };
  EXPECT_EQ(routed(place(1, 5), place(1, 5), 0x2000), 0x2000u);
  EXPECT_EQ(routed(place(1, 5), place(1, 6), 0x2000), to(6));
  EXPECT_EQ(routed(place(1, 5), place(2, 5), 0x2000), to(64 + 5));
  EXPECT_EQ(routed(place(1, 5), place(0, 5), 0x2000), to(3 * 64 + 5)) << "round four nodes";
  EXPECT_EQ(routed(place(0, 5), place(3, 1), 0x2000), to(3 * 64 + 1));
}

TEST(Compiler, CountsCreditsByTheNumbersThatMembersHave) {
  const Request request{
      .operation = CCOM_ALL_REDUCE, .type = CCOM_FP32, .algorithm = CCOM_MESH, .count = 100};
  const World world{2, false, {plan_of(request, 2)}};
  DeviceCollective collective = world.collective(world.plans[0], 0);
  for (DevicePlace& place : collective.places) place.generation = find_generation(3);
  const auto compile = [&] {
    const StreamPlace stream{collective.places[0], kDoorbell, kDoorbell, 0x40000, 0xFFFF, kOneAt};
    return compile_stream(stream, {collective});
  };
  // The same chip and core, on another node.
  collective.places[1] = collective.places[0];
  collective.places[1].node = 1;
  EXPECT_FALSE(compile()) << "both have the counter of chip 0, core 0";
  collective.places[0].credit = 1;
  collective.places[1].credit = 128;
  EXPECT_TRUE(compile()) << compile().error().sentence;
  collective.places[1].credit = 129;
  const auto too_many = compile();
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().status, CCOM_UNSUPPORTED);
  EXPECT_NE(
      too_many.error().sentence.find("rank 1 is number 129 of the ranks that reach each other's "
                                     "chips, and a collective core counts credits of 128"),
      std::string::npos)
      << too_many.error().sentence;
  collective.places[1].credit = 2;
  collective.places[1].node = 4;
  EXPECT_FALSE(compile());
  collective.places[1].node = 1;
  collective.places[1].generation = find_generation(2);
  EXPECT_FALSE(compile()) << "generation 2 has no UltraServer";
}

TEST(Compiler, LetsOneRankBeACollectiveAheadOfTheOthers) {
  const Request request{
      .operation = CCOM_ALL_REDUCE, .type = CCOM_FP32, .algorithm = CCOM_MESH, .count = 100};
  const Plan plan = plan_of(request, 3);
  const World world{3, false, {plan, plan}};
  DeviceModel model(world.compile_all(), 7);
  fill(model, 3, 100);
  for (const Rank r : {0u, 0u, 1u}) model.go(r);
  ASSERT_EQ(model.run(), "");
  EXPECT_EQ(model.done(0), 0u);
  for (const Rank r : {1u, 2u, 2u}) model.go(r);
  ASSERT_EQ(model.run(), "");
  EXPECT_EQ(model.check_rest(), "");
  EXPECT_EQ(model.done(0), 2u);
}

TEST(Compiler, NamesTheCollectiveAndTheRankThatAnInstructionWaitsFor) {
  const Request request{
      .operation = CCOM_ALL_REDUCE, .type = CCOM_FP32, .algorithm = CCOM_MESH, .count = 100};
  const Plan plan = plan_of(request, 2);
  const auto programs = World{2, false, {plan, plan}}.compile_all();
  std::string all;
  for (uint32_t pc = 0; pc < programs[0].notes.size(); ++pc) {
    all += programs[0].describe(pc) + "\n";
  }
  EXPECT_NE(all.find("waits for the program to begin all_reduce (1 of 2)"), std::string::npos);
  EXPECT_NE(all.find("waits in all_reduce (2 of 2) for rank 1 to take its data"),
            std::string::npos);
  EXPECT_NE(all.find("waits in all_reduce (2 of 2) for data of rank 1"), std::string::npos);
}

// Each message of a mesh is of a part for each of the other ranks.
TEST(Compiler, NotesOfEachInstructionWhatItMovesAndForWhichRank) {
  const Request request{
      .operation = CCOM_ALL_REDUCE, .type = CCOM_FP32, .algorithm = CCOM_MESH, .count = 3000};
  const auto programs = World{3, false, {plan_of(request, 3)}}.compile_all();
  ASSERT_EQ(programs.size(), 3u);
  for (Rank rank = 0; rank < 3; ++rank) {
    const DeviceProgram& program = programs[rank];
    ASSERT_EQ(program.notes.size() * NEURON_INSTRUCTION_BYTES, program.code.size());
    std::array<uint64_t, 3> sent{};
    size_t grants = 0, done = 0;
    for (size_t pc = 0; pc < program.notes.size(); ++pc) {
      const InstructionNote& note = program.notes[pc];
      const isa::Instruction i = isa::decode(std::span(program.code)
                                                 .subspan(pc * NEURON_INSTRUCTION_BYTES)
                                                 .first<NEURON_INSTRUCTION_BYTES>());
      const bool moves = note.action == NoteAction::kSend || note.action == NoteAction::kReduce ||
                         note.action == NoteAction::kCopy;
      EXPECT_EQ(moves, i.opcode == NEURON_OP_DMA_TRIGGER) << pc;
      EXPECT_EQ(moves, note.bytes != 0) << pc;
      if (note.action == NoteAction::kSend) sent[note.target] += note.bytes;
      grants += note.action == NoteAction::kGrant;
      done += note.action == NoteAction::kDone;
    }
    for (Rank peer = 0; peer < 3; ++peer) {
      // A third for that rank to reduce, and this rank's third of the sum.
      EXPECT_EQ(sent[peer], peer == rank ? 0 : 2 * 4000u) << rank << " to " << peer;
    }
    EXPECT_GT(grants, 0u);
    EXPECT_EQ(done, 1u);
  }
}

// The metadata of the first compute packet that a rank of a group of three has.
uint64_t first_metadata(ccom_type_t type, ccom_reduction_t reduction, uint64_t& high) {
  const Request request{.operation = CCOM_ALL_REDUCE,
                        .type = type,
                        .reduction = reduction,
                        .algorithm = CCOM_MESH,
                        .count = 100};
  const auto programs = World{3, false, {plan_of(request, 3)}}.compile_all();
  for (const DescriptorRing& ring : programs[1].rings) {
    for (const Descriptor& d : ring.m2s) {
      if ((d.control & NEURON_DESC_META) == 0) continue;
      high = d.address;
      return uint64_t{d.meta} << 32;
    }
  }
  return 0;
}

TEST(Compiler, TellsDmaEnginesTypeReductionAndDivisor) {
  struct Row {
    ccom_type_t type;
    ccom_reduction_t reduction;
    uint64_t dtype, code, divisor;
  };
  for (const Row& row :
       {Row{CCOM_INT64, CCOM_ADD, NEURON_DTYPE_I64, NEURON_DMA_REDUCE_SUM, 0},
        Row{CCOM_UINT8, CCOM_PRODUCT, NEURON_DTYPE_U8, NEURON_DMA_REDUCE_PRODUCT, 0},
        Row{CCOM_BF16, CCOM_MIN, NEURON_DTYPE_BF16, NEURON_DMA_REDUCE_MIN, 0},
        Row{CCOM_FP8_E5, CCOM_MAX, NEURON_DTYPE_F8E5, NEURON_DMA_REDUCE_MAX, 0},
        Row{CCOM_FP16, CCOM_AVERAGE, NEURON_DTYPE_F16, NEURON_DMA_REDUCE_SUM, 3}}) {
    uint64_t high = ~uint64_t{0};
    const uint64_t low = first_metadata(row.type, row.reduction, high);
    EXPECT_EQ(low >> NEURON_DMA_META_OPERATION_SHIFT & 15, NEURON_DMA_REDUCE);
    EXPECT_EQ(low >> NEURON_DMA_META_FROM_SHIFT & 63, row.dtype);
    EXPECT_EQ(low >> NEURON_DMA_META_TO_SHIFT & 63, row.dtype);
    EXPECT_EQ(low >> NEURON_DMA_META_REDUCTION_SHIFT & 3, row.code);
    EXPECT_EQ(low >> NEURON_DMA_META_SOURCES_SHIFT & 15, 2u);
    EXPECT_EQ(high, row.divisor);
  }
}

}  // namespace
}  // namespace neuron::ccom
