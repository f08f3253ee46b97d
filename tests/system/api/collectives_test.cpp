// SPDX-License-Identifier: Apache-2.0
//
// Collectives inside programs: ranks are threads of this process, one core each.
#include <ndl/ndl_observe.h>
#include <nrt/nec.h>
#include <nrt/nrt_async.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>
#include <tuple>

#include "tests/support/eventually.h"
#include "tests/system/api/collectives_support.h"

namespace neuron::test {
namespace {

TEST_F(Collectives, AnAllReduceOfTwoCoresOfAChipAddsInTheOrderOfTheRanks) {
  const Bytes neff = through("all_reduce", CCOM_ALL_REDUCE, 3000, 3000, {});
  on_ranks(2, [&](uint32_t rank) {
    RankModel model(neff, rank, 2);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    for (int i = 0; i < 3; ++i) {
      expect_sums(model.run(), 2);
      ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    }
  });
}

TEST_F(Collectives, AnAllReduceOfEightCoresOfFourChipsAddsInTheOrderOfTheRanks) {
  const Bytes neff = through("all_reduce", CCOM_ALL_REDUCE, 50000, 50000, {});
  on_ranks(8, [&](uint32_t rank) {
    RankModel model(neff, rank, 8);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    for (int i = 0; i < 2; ++i) {
      expect_sums(model.run(), 8);
      ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    }
  });
}

TEST_F(Collectives, TellHowTheyWerePlanned) {
  const Bytes neff = through("all_reduce", CCOM_ALL_REDUCE, 3000, 3000, {});
  on_ranks(2, [&](uint32_t rank) {
    RankModel model(neff, rank, 2);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    model.run();
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    char text[1024] = {};
    ASSERT_EQ(nrt_open_get_collective_plans(model.handle(), text, sizeof(text)), NRT_SUCCESS)
        << nrt_open_last_error();
    const std::string plan = text;
    EXPECT_THAT(plan, testing::StartsWith("all_reduce of 3000 float32 (add) by mesh with "));
    EXPECT_THAT(plan, testing::Not(testing::HasSubstr("between"))) << "there is one node";
    EXPECT_THAT(plan, testing::EndsWith(")\n"));
    ASSERT_EQ(nrt_open_get_collective_plans(model.handle(), text, 11), NRT_SUCCESS);
    EXPECT_STREQ(text, "all_reduce") << "what fits";
    EXPECT_EQ(nrt_open_get_collective_plans(model.handle(), nullptr, 0), NRT_INVALID);
  });
}

TEST_F(Collectives, ReplicaGroupsWorkAtTheSameTimeAndApart) {
  CollectiveOptions options;
  options.groups = {{0, 2}, {3, 1}};
  const Bytes neff = through("all_gather", CCOM_ALL_GATHER, 100, 200, options);
  on_ranks(4, [&](uint32_t rank) {
    RankModel model(neff, rank, 4);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    const std::vector<float> found = model.run();
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    const auto& group = options.groups[rank % 2];
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i], value_of(group[i / 100], i % 100)) << i;
    }
  });
}

TEST_F(Collectives, StreamsAndAlgorithmsGiveTheSameSums) {
  Program program("streams");
  const auto x = program.input("x", NEURON_DTYPE_F32, {2000});
  const auto y = program.output("y", NEURON_DTYPE_F32, {2000});
  const auto from = program.temporary("from", NEURON_DTYPE_F32, {2000});
  const auto to = program.temporary("to", NEURON_DTYPE_F32, {2000});
  const auto other = program.temporary("other", NEURON_DTYPE_F32, {2000});
  program.dma(Engine::kSp, from.all(), x.all());
  CollectiveOptions ring, mesh;
  ring.algorithm = CCOM_RING;
  ring.stream = 1;
  mesh.stream = 2;
  program.collective(Engine::kPool, CCOM_ALL_REDUCE, other, from, ring);
  program.collective(Engine::kSp, CCOM_ALL_REDUCE, to, from, mesh);
  program.collective(Engine::kPool, CCOM_BARRIER, {}, {}, ring);
  program.dma(Engine::kSp, y.all(), to.all());
  // The largest of equal sums is each of them.
  program.dma_compute(Engine::kSp, y.all(), {other.all(), to.all()},
                      {.operation = NEURON_DMA_MAX, .constant = -1e30F});
  const Bytes neff = bytes_of(program.build());
  on_ranks(2, [&](uint32_t rank) {
    RankModel model(neff, rank, 2);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    for (int i = 0; i < 2; ++i) {
      expect_sums(model.run(), 2);
      ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    }
  });
}

TEST_F(Collectives, RanksOfGenerationThreeAddUpAcrossChips) {
  nrt_close();
  const Setting instance("NEURON_EMULATOR", "trn2.48xlarge");
  const Setting physical("NEURON_LOGICAL_NC_CONFIG", "1");
  const Setting cores("NEURON_RT_VISIBLE_CORES", "0-9");  // of chips that a sanitizer has room for
  init();
  Program program("trn2", 3);
  const auto x = program.input("x", NEURON_DTYPE_F32, {500});
  const auto y = program.output("y", NEURON_DTYPE_F32, {500});
  const auto buffer = program.temporary("buffer", NEURON_DTYPE_F32, {500});
  program.dma(Engine::kSp, buffer.all(), x.all());
  program.collective(Engine::kPool, CCOM_ALL_REDUCE, buffer, buffer);  // in place
  program.dma(Engine::kSp, y.all(), buffer.all());
  const Bytes neff = bytes_of(program.build());
  on_ranks(10, [&](uint32_t rank) {
    RankModel model(neff, rank, 10);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    expect_sums(model.run(), 10);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
  });
  nrt_close();
}

TEST_F(Collectives, ARankThatDoesNotExecuteIsNamedByTheOneThatWaits) {
  const Setting soon("NEURON_RT_EXEC_TIMEOUT", "1");
  nrt_close();
  init();
  const Bytes neff = through("all_reduce", CCOM_ALL_REDUCE, 64, 64, {});
  std::vector<std::unique_ptr<RankModel>> models(2);
  on_ranks(2, [&](uint32_t rank) {
    models[rank] = std::make_unique<RankModel>(neff, rank, 2);
    ASSERT_EQ(models[rank]->status, NRT_SUCCESS) << models[rank]->sentence;
    ASSERT_EQ(nrt_barrier(static_cast<int>(rank), rank, 2), NRT_SUCCESS) << nrt_open_last_error();
  });
  models[0]->run();
  EXPECT_EQ(models[0]->status, NRT_EXEC_HW_ERR_COLLECTIVES);
  EXPECT_THAT(models[0]->sentence,
              HasSubstr("rank 0 waits in all_reduce of 64 float32 (add) (1 of 1) for rank 1"));
  models[0]->run();
  EXPECT_EQ(models[0]->status, NRT_EXEC_HW_ERR_COLLECTIVES);
  EXPECT_THAT(models[0]->sentence, HasSubstr("load it again"));
  models.clear();
  on_ranks(2, [&](uint32_t rank) {
    RankModel model(neff, rank, 2);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    expect_sums(model.run(), 2);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
  });
}

TEST_F(Collectives, ARankThatNeverLoadsIsNamed) {
  const Setting soon("NEURON_OPEN_COLLECTIVES_TIMEOUT", "1");
  nrt_close();
  init();
  RankModel model(through("all_reduce", CCOM_ALL_REDUCE, 64, 64, {}), 1, 3);
  ASSERT_EQ(model.status, NRT_SUCCESS) << "loading waits for no rank: " << model.sentence;
  model.run();
  EXPECT_EQ(model.status, NRT_TIMEOUT);
  EXPECT_THAT(model.sentence, HasSubstr("nrt_execute"));
  EXPECT_THAT(model.sentence, HasSubstr("ranks 0, 2 of 3 did not come"));
}

// One by one: the loads of one thread cannot wait for each other.
std::vector<std::unique_ptr<RankModel>> load_ranks(const Bytes& neff, uint32_t ranks) {
  std::vector<std::unique_ptr<RankModel>> models;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    models.push_back(std::make_unique<RankModel>(neff, rank, ranks));
    EXPECT_EQ(models[rank]->status, NRT_SUCCESS) << models[rank]->sentence;
  }
  return models;
}

TEST_F(Collectives, OneThreadLoadsAllRanksWhichMeetWhenTheyExecute) {
  const auto models = load_ranks(through("all_reduce", CCOM_ALL_REDUCE, 500, 500, {}), 4);
  for (int again = 0; again < 2; ++again) {
    on_ranks(4, [&](uint32_t rank) {
      expect_sums(models[rank]->run(), 4);
      EXPECT_EQ(models[rank]->status, NRT_SUCCESS) << models[rank]->sentence;
    });
  }
}

TEST_F(Collectives, OneThreadBuildsTheCommunicatorsOfAllRanksWhichMeetLater) {
  // A call that waited for the other ranks would end by the time limit of collectives.
  for (uint32_t rank = 0; rank < 4; ++rank) {
    ASSERT_EQ(nrt_build_global_comm(static_cast<int>(rank), rank, 4), NRT_SUCCESS)
        << nrt_open_last_error();
    ASSERT_EQ(nrt_cc_global_comm_init(rank, rank, 4), NRT_SUCCESS) << nrt_open_last_error();
  }
  on_ranks(4, [&](uint32_t rank) {
    EXPECT_EQ(nrt_barrier(static_cast<int>(rank), rank, 4), NRT_SUCCESS) << nrt_open_last_error();
  });
}

TEST_F(Collectives, OneThreadLoadsTwoRanksAndSchedulesTheExecutionsOfBoth) {
  const auto models = load_ranks(through("all_reduce", CCOM_ALL_REDUCE, 500, 500, {}), 2);
  NRT_STATUS statuses[2] = {NRT_FAILURE, NRT_FAILURE};
  nrta_seq_t requests[2] = {};
  for (uint32_t rank = 0; rank < 2; ++rank) {
    requests[rank] = models[rank]->schedule(statuses[rank]);
  }
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(eventually([&] {
      bool done = false;
      return nrta_is_completed(requests[rank], &done) != NRT_SUCCESS || done;
    }));
    EXPECT_EQ(statuses[rank], NRT_SUCCESS);
    expect_sums(models[rank]->outputs(), 2);
  }
}

// The second model is executed first; what was loaded before it meets before it.
TEST_F(Collectives, ModelsOfARankMeetInTheOrderOfLoading) {
  const auto first = load_ranks(through("first", CCOM_ALL_REDUCE, 64, 64, {}), 2);
  auto gone = load_ranks(through("gone", CCOM_ALL_REDUCE, 32, 32, {}), 2);
  const auto second = load_ranks(through("second", CCOM_ALL_REDUCE, 128, 128, {}), 2);
  gone.clear();
  on_ranks(2, [&](uint32_t rank) {
    for (const auto* models : {&second, &first}) {
      expect_sums((*models)[rank]->run(), 2);
      EXPECT_EQ((*models)[rank]->status, NRT_SUCCESS) << (*models)[rank]->sentence;
    }
  });
}

TEST_F(Collectives, ARankThatComesLateIsMetByTheNextExecution) {
  const Setting soon("NEURON_OPEN_COLLECTIVES_TIMEOUT", "1");
  nrt_close();
  init();
  const auto models = load_ranks(through("all_reduce", CCOM_ALL_REDUCE, 64, 64, {}), 2);
  models[0]->run();
  EXPECT_EQ(models[0]->status, NRT_TIMEOUT);
  EXPECT_THAT(models[0]->sentence, HasSubstr("rank 1 of 2 did not come"));
  on_ranks(2, [&](uint32_t rank) {
    expect_sums(models[rank]->run(), 2);
    EXPECT_EQ(models[rank]->status, NRT_SUCCESS) << models[rank]->sentence;
  });
}

TEST_F(Collectives, AModelWithCollectivesIsNotLoadedWithoutARank) {
  const Bytes neff = through("all_reduce", CCOM_ALL_REDUCE, 64, 64, {});
  nrt_model_t* model = nullptr;
  EXPECT_EQ(nrt_load(neff.data(), neff.size(), 0, 1, &model), NRT_INVALID);
  EXPECT_THAT(std::string(nrt_open_last_error()), HasSubstr("nrt_load_collectives"));
}

TEST_F(Collectives, RanksThatLoadDifferentProgramsAreToldBothSides) {
  const Bytes neffs[] = {through("a", CCOM_ALL_REDUCE, 64, 64, {}),
                         through("b", CCOM_ALL_REDUCE, 128, 128, {})};
  on_ranks(2, [&](uint32_t rank) {
    RankModel model(neffs[rank], rank, 2);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    model.run();
    EXPECT_EQ(model.status, NRT_INVALID);
    EXPECT_THAT(model.sentence, HasSubstr("all_reduce of 64 float32 (add)"));
    EXPECT_THAT(model.sentence, HasSubstr("all_reduce of 128 float32 (add)"));
    model.run();
    EXPECT_THAT(model.sentence, HasSubstr("could not meet when it was to be executed first"));
  });
}

TEST_F(Collectives, TheHostStartsThemOnTensorsAndOnListsOfTensors) {
  on_ranks(4, [](uint32_t rank) {
    const int vnc = static_cast<int>(rank);
    nrt_tensor_t* x = make_tensor(4000, vnc);
    nrt_tensor_t* y = make_tensor(4000, vnc);
    for (int again = 0; again < 3; ++again) {  // the second and third time it is known
      put(x, rank, 0, 1000);
      run_on_host(rank, {0, 1, 2, 3}, NRT_CC_ALLREDUCE, {x}, {y});
      expect_sums(get(y), 4);
    }
    run_on_host(rank, {0, 1, 2, 3}, NRT_CC_ALLREDUCE, {x}, {x});
    expect_sums(get(x), 4);
    nrt_tensor_t* parts[2] = {make_tensor(4000, vnc), make_tensor(4000, vnc)};
    put(x, rank, 0, 1000);
    const uint32_t other = rank ^ 1;
    std::vector<uint32_t> group = {std::min(rank, other), std::max(rank, other)};
    run_on_host(rank, group, NRT_CC_ALLGATHER, {x}, {parts[0], parts[1]});
    for (uint32_t p = 0; p < 2; ++p) {
      const std::vector<float> found = get(parts[p]);
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i], value_of(group[p], i)) << i;
      }
    }
    for (nrt_tensor_t* tensor : {x, y, parts[0], parts[1]}) nrt_tensor_free(&tensor);
  });
}

TEST_F(Collectives, TheHostIsToldWhatItsTensorsLack) {
  nrt_tensor_t* x = make_tensor(4000);
  nrt_tensor_t* y = make_tensor(2000);
  uint32_t group[] = {0};
  nrt_cc_comm_t comm{group, 0, 1, 0, 1, 0};
  nrt_tensor_list_t inputs{&x, 1}, outputs{&y, 1};
  nrt_cc_context_t* context = nullptr;
  EXPECT_EQ(nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_ADD,
                            NRT_CC_ALLREDUCE, &context),
            NRT_INVALID);
  EXPECT_THAT(std::string(nrt_open_last_error()),
              HasSubstr("has 4000 bytes of input and 2000 of output"));
  EXPECT_EQ(nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_FMA,
                            NRT_CC_ALLREDUCE, &context),
            NRT_INVALID);
  nrta_seq_t sequence = 0;
  EXPECT_EQ(nrta_cc_schedule(&context, 0, nullptr, &sequence), NRT_INVALID);
  nrt_tensor_free(&x);
  nrt_tensor_free(&y);
}

TEST_F(Collectives, TheLibraryIsToldAboutDevicesAndTheirRoutes) {
  int devices[16] = {};
  ASSERT_EQ(nec_get_device_count(devices, 16), 16);
  int places[16];
  for (int i = 0; i < 16; ++i) places[i] = 15 - i;
  ASSERT_EQ(nec_build_port_and_rid_map(0, places, devices, 16), NRT_SUCCESS);
  for (int place = 0; place < 16; ++place) {
    EXPECT_TRUE(nec_is_mla_available(0, place));
    EXPECT_EQ(nec_rid_to_mla_idx(0, nec_mla_idx_to_rid(0, place)), place);
    // A neighbour is one both ways.
    const int peer = nec_get_peer_mla_idx(0, place, 0);
    ASSERT_GE(peer, 0);
    bool back = false;
    for (int port = 0; port < 4; ++port) back |= nec_get_peer_mla_idx(0, peer, port) == place;
    EXPECT_TRUE(back) << place << " and " << peer;
  }
  EXPECT_FALSE(nec_is_mla_available(0, 16));
  EXPECT_EQ(nec_rid_to_mla_idx(0, 99), -1);
  // Each device has its own place on the bus, and one that does not exist has none.
  uint32_t domain[2] = {~0u, ~0u}, bus[2] = {~0u, ~0u};
  uint8_t slot[2] = {0xFF, 0xFF}, function[2] = {0xFF, 0xFF};
  for (int d = 0; d < 2; ++d) {
    EXPECT_EQ(nec_get_device_pci_bdf(devices[d], &domain[d], &bus[d], &slot[d], &function[d]), 0);
    EXPECT_LE(bus[d], 0xFFu);
  }
  EXPECT_NE(std::tie(domain[0], bus[0], slot[0], function[0]),
            std::tie(domain[1], bus[1], slot[1], function[1]));
  EXPECT_EQ(nec_get_device_pci_bdf(99, &domain[0], &bus[0], &slot[0], &function[0]), -1);
  int node = 7;
  EXPECT_EQ(nec_get_p2p_pod_peer_node(0, 0, 1, &node), -1) << "this host is in no UltraServer";
  EXPECT_EQ(node, 7);
  char line[] = {'a', 'b'};  // which is refused: it does not end with NUL
  nec_ndl_printk(line, sizeof(line), 0);
  EXPECT_THAT(ndl_last_error(), HasSubstr("ends with NUL"));
  uint32_t cores = 0;
  EXPECT_EQ(nec_get_virtual_core_size(&cores), NRT_SUCCESS);
  EXPECT_EQ(cores, 1U);
  uint32_t words[8] = {};
  enc_host_mem_t memory{nullptr, words, 0, sizeof(words)};
  words[1] = 5;
  words[3] = 7;
  EXPECT_EQ(nec_get_dynamic_send_size_bytes(&memory, 4, 1, 2), 20U);
  EXPECT_EQ(nec_get_dynamic_send_offset_bytes(&memory, 4, 1, 2), 28U);
  EXPECT_EQ(nec_get_dynamic_send_size_bytes(&memory, 4, 2, 2), 0U);
  nec_set_recv_size_bytes(&memory, 12, 4, 0, 2);
  EXPECT_EQ(words[6], 3U);
}

TEST_F(Collectives, HostsGatherAndMeet) {
  on_ranks(4, [&](uint32_t rank) {
    const int vnc = static_cast<int>(rank);
    EXPECT_EQ(nrt_build_global_comm(vnc, rank, 4), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(nrt_cc_global_comm_init(rank, rank, 4), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(nrt_barrier(vnc, rank, 4), NRT_SUCCESS) << nrt_open_last_error();
    const uint32_t mine[] = {rank, rank * rank};
    uint32_t all[8] = {};
    EXPECT_EQ(nrt_all_gather(vnc, rank, 4, sizeof(mine), const_cast<uint32_t*>(mine), all),
              NRT_SUCCESS)
        << nrt_open_last_error();
    for (uint32_t r = 0; r < 4; ++r) {
      EXPECT_EQ(all[2 * r], r);
      EXPECT_EQ(all[2 * r + 1], r * r);
    }
  });
}

TEST_F(Collectives, ABarrierHoldsEachRankUntilTheLastOneHasCome) {
  std::atomic<uint32_t> arrived = 0;
  on_ranks(4, [&](uint32_t rank) {
    const int vnc = static_cast<int>(rank);
    ASSERT_EQ(nrt_build_global_comm(vnc, rank, 4), NRT_SUCCESS) << nrt_open_last_error();
    if (rank == 3) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ++arrived;
    EXPECT_EQ(nrt_barrier(vnc, rank, 4), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(arrived.load(), 4u);
  });
}

TEST_F(Collectives, AWorldRefusesARankBeyondItsEnd) {
  EXPECT_EQ(nrt_build_global_comm(0, 4, 4), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("nrt_build_global_comm"));
  EXPECT_EQ(nrt_cc_global_comm_init(0, 4, 4), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("nrt_cc_global_comm_init"));
}

// In a process of its own, which has not loaded libccom yet.
TEST_F(Collectives, TheProgramKeepsItsSignals) {
  nrt_close();
  const auto gathers = [&] {
    const auto interrupt = [](int) {};
    std::signal(SIGINT, interrupt);
    std::signal(SIGTERM, SIG_IGN);
    init();
    uint8_t mine = 1, all = 0;
    if (nrt_all_gather(0, 0, 1, 1, &mine, &all) != NRT_SUCCESS) std::exit(2);
    const bool kept =
        std::signal(SIGINT, SIG_DFL) == +interrupt && std::signal(SIGTERM, SIG_DFL) == SIG_IGN;
    std::exit(kept ? 0 : 1);
  };
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(gathers(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace neuron::test
