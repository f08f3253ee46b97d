// SPDX-License-Identifier: Apache-2.0
//
// Collectives behind a failure: of a rank, of another model of its core, of what ranks ask for.
#include <nrt/nrt_async.h>

#include <chrono>

#include "tests/system/api/collectives_support.h"

namespace neuron::test {
namespace {

class CollectiveFailures : public Collectives {
 protected:
  CollectiveFailures()
      : soon_("NEURON_RT_EXEC_TIMEOUT", "1"), patience_("NEURON_OPEN_COLLECTIVES_TIMEOUT", "5") {}

 private:
  Setting soon_, patience_;
};

// A collective of all ranks that the host starts on tensors of one.
class HostCall {
 public:
  void prepare(uint32_t rank, uint32_t ranks, nrt_tensor_t* from, nrt_tensor_t* to) {
    group_.clear();
    for (uint32_t r = 0; r < ranks; ++r) group_.push_back(r);
    nrt_cc_comm_t comm{group_.data(), rank, ranks, rank, ranks, rank};
    nrt_tensor_list_t inputs{&from, 1}, outputs{&to, 1};
    ASSERT_EQ(nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_ADD,
                              NRT_CC_ALLGATHER, &context_),
              NRT_SUCCESS)
        << nrt_open_last_error();
  }
  void schedule() {
    ASSERT_EQ(nrta_cc_schedule(&context_, 0, &status, &sequence_), NRT_SUCCESS)
        << nrt_open_last_error();
  }
  void wait() {
    bool done = false;
    for (int i = 0; i < 20000 && !done; ++i) {
      ASSERT_EQ(nrta_is_completed(sequence_, &done), NRT_SUCCESS);
      if (!done) std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    ASSERT_TRUE(done);
  }

  NRT_STATUS status = NRT_FAILURE;

 private:
  std::vector<uint32_t> group_;
  nrt_cc_context_t* context_ = nullptr;
  nrta_seq_t sequence_ = 0;
};

// Rank 0 has told rank 1 that it may send, and has failed. What rank 1 has of that must go when the
// ranks meet again, or it writes to a rank that has not begun.
TEST_F(CollectiveFailures, WhatAFailedRankHasAllowedIsForgottenByTheOthers) {
  HostCall calls[2];
  nrt_tensor_t *x[2], *y[2];
  for (int r = 0; r < 2; ++r) {
    x[r] = make_tensor(400, r);
    y[r] = make_tensor(800, r);
    put(x[r], static_cast<uint32_t>(r), 0, 100);
  }
  on_ranks(2, [&](uint32_t r) { calls[r].prepare(r, 2, x[r], y[r]); });
  calls[0].schedule();
  calls[0].wait();
  EXPECT_EQ(calls[0].status, NRT_EXEC_HW_ERR_COLLECTIVES);
  on_ranks(2, [&](uint32_t r) { calls[r].prepare(r, 2, x[r], y[r]); });
  const std::vector<float> mark(200, -1.0F);
  ASSERT_EQ(nrt_tensor_write(y[0], mark.data(), 0, 800), NRT_SUCCESS);
  calls[1].schedule();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(get(y[0])[100], -1.0F) << "rank 1 has written before rank 0 began";
  calls[0].schedule();
  for (HostCall& call : calls) {
    call.wait();
    EXPECT_EQ(call.status, NRT_SUCCESS);
  }
  for (int r = 0; r < 2; ++r) {
    nrt_tensor_free(&x[r]);
    nrt_tensor_free(&y[r]);
  }
}

TEST_F(CollectiveFailures, OtherModelsOfTheRanksMustBeLoadedAgainToo) {
  const Bytes first = through("first", CCOM_ALL_REDUCE, 64, 64, {});
  const Bytes second = through("second", CCOM_ALL_REDUCE, 128, 128, {});
  std::vector<std::unique_ptr<RankModel>> one(2), other(2);
  on_ranks(2, [&](uint32_t rank) {
    one[rank] = std::make_unique<RankModel>(first, rank, 2);
    other[rank] = std::make_unique<RankModel>(second, rank, 2);
    expect_sums(one[rank]->run(), 2);
    expect_sums(other[rank]->run(), 2);
  });
  one[0]->run();
  EXPECT_EQ(one[0]->status, NRT_EXEC_HW_ERR_COLLECTIVES);
  other[0]->run();
  EXPECT_EQ(other[0]->status, NRT_EXEC_HW_ERR_COLLECTIVES);
  EXPECT_THAT(other[0]->sentence, HasSubstr("load it again"));
  // Rank 1 is told when the ranks meet again.
  on_ranks(2, [&](uint32_t rank) {
    one[rank] = std::make_unique<RankModel>(first, rank, 2);
    expect_sums(one[rank]->run(), 2);
    EXPECT_EQ(one[rank]->status, NRT_SUCCESS) << one[rank]->sentence;
  });
  other[1]->run();
  EXPECT_THAT(other[1]->sentence, HasSubstr("load it again"));
  // To be told so is no failure of the core.
  on_ranks(2, [&](uint32_t rank) {
    expect_sums(one[rank]->run(), 2);
    EXPECT_EQ(one[rank]->status, NRT_SUCCESS) << one[rank]->sentence;
  });
}

TEST_F(CollectiveFailures, RanksThatMeetForDifferentThingsAreToldBothSides) {
  on_ranks(2, [&](uint32_t rank) {
    char mine = 'x', all[2];
    const NRT_STATUS status =
        rank == 0 ? nrt_barrier(0, 0, 2) : nrt_all_gather(1, 1, 2, 1, &mine, all);
    EXPECT_EQ(status, NRT_INVALID);
    EXPECT_THAT(std::string(nrt_open_last_error()), HasSubstr("is in nrt_barrier"));
    EXPECT_THAT(std::string(nrt_open_last_error()), HasSubstr("is in nrt_all_gather"));
    EXPECT_EQ(nrt_barrier(static_cast<int>(rank), rank, 2), NRT_SUCCESS) << nrt_open_last_error();
  });
}

TEST_F(CollectiveFailures, ThreadsOfARankThatLoadAtTheSameTimeTakeTurns) {
  const Bytes neff = through("same", CCOM_ALL_REDUCE, 64, 64, {});
  on_ranks(2, [&](uint32_t rank) {
    EXPECT_EQ(nrt_barrier(static_cast<int>(rank), rank, 2), NRT_SUCCESS);
    std::vector<std::unique_ptr<RankModel>> models(3);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        models[t] = std::make_unique<RankModel>(neff, rank, 2);
        EXPECT_EQ(models[t]->status, NRT_SUCCESS) << models[t]->sentence;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(nrt_barrier(static_cast<int>(rank), rank, 2), NRT_SUCCESS) << nrt_open_last_error();
  });
}

// Collectives that are remembered use cores, also at the end.
TEST_F(CollectiveFailures, PreparedCollectivesGoBeforeTheirCores) {
  for (int round = 0; round < 2; ++round) {
    on_ranks(2, [&](uint32_t rank) {
      nrt_tensor_t* x = make_tensor(400, static_cast<int>(rank));
      nrt_tensor_t* y = make_tensor(800, static_cast<int>(rank));
      HostCall call;
      call.prepare(rank, 2, x, y);
      call.schedule();
      call.wait();
      EXPECT_EQ(call.status, NRT_SUCCESS);
      nrt_tensor_free(&x);
      nrt_tensor_free(&y);
    });
    nrt_close();
    init();
  }
}

TEST_F(CollectiveFailures, RandomNumbersOfAModelDoNotDependOnCollectivesBefore) {
  Program program("random");
  const auto y = program.output("y", NEURON_DTYPE_U32, {128, 16});
  const auto tile = program.sbuf("tile", 128, 16, NEURON_DTYPE_U32);
  program.random_bits(tile.all());
  program.dma(Engine::kSp, y.all(), tile.all());
  const Bytes bytes = bytes_of(program.build());
  nrt_model_t* model = nullptr;
  ASSERT_EQ(nrt_load(bytes.data(), bytes.size(), 0, 1, &model), NRT_SUCCESS);
  const auto draw = [&] {
    nrt_tensor_set_t *in = nullptr, *out = nullptr;
    nrt_allocate_tensor_set(&in);
    nrt_allocate_tensor_set(&out);
    nrt_tensor_t* tensor = make_tensor(128 * 16 * 4, 0);
    nrt_add_tensor_to_tensor_set(out, "y", tensor);
    EXPECT_EQ(nrt_execute(model, in, out), NRT_SUCCESS) << nrt_open_last_error();
    std::vector<uint32_t> values(128 * 16);
    EXPECT_EQ(nrt_tensor_read(tensor, values.data(), 0, values.size() * 4), NRT_SUCCESS);
    nrt_destroy_tensor_set(&in);
    nrt_destroy_tensor_set(&out);
    nrt_tensor_free(&tensor);
    return values;
  };
  const auto first = draw();
  const Bytes neff = through("between", CCOM_ALL_REDUCE, 64, 64, {});
  for (int i = 0; i < 2; ++i) {
    on_ranks(2, [&](uint32_t rank) { expect_sums(RankModel(neff, rank, 2).run(), 2); });
    EXPECT_TRUE(draw() == first) << i;
  }
  nrt_unload(model);
}

// Without the time limit of the tests above: it is not what ends the wait.
TEST_F(Collectives, ARankThatFailsIsNamedWithItsReasonByThoseThatWaitForIt) {
  const Bytes good = through("good", CCOM_ALL_REDUCE, 64, 64, {});
  Program program("bad");
  const auto x = program.input("x", NEURON_DTYPE_F32, {64});
  const auto y = program.output("y", NEURON_DTYPE_F32, {64});
  const auto from = program.temporary("from", NEURON_DTYPE_F32, {64});
  const auto to = program.temporary("to", NEURON_DTYPE_F32, {64});
  const auto tile = program.sbuf("tile", 1, 64, NEURON_DTYPE_F32);
  program.dma(Engine::kSp, from.all(), tile.all());  // which nothing has written
  program.dma(Engine::kSp, from.all(), x.all());
  program.collective(Engine::kPool, CCOM_ALL_REDUCE, to, from, {});
  program.dma(Engine::kSp, y.all(), to.all());
  const Bytes bad = bytes_of(program.build());
  const auto begin = std::chrono::steady_clock::now();
  on_ranks(3, [&](uint32_t rank) {
    RankModel model(rank == 1 ? bad : good, rank, 3);
    ASSERT_EQ(model.status, NRT_SUCCESS) << model.sentence;
    model.run();
    EXPECT_NE(model.status, NRT_SUCCESS);
    EXPECT_THAT(model.sentence, HasSubstr("model 'bad' failed on device 0 core 1"));
    if (rank == 1) return;
    EXPECT_EQ(model.status, NRT_EXEC_HW_ERR_COLLECTIVES);
    EXPECT_THAT(model.sentence, HasSubstr("rank 1 has failed (model 'bad'"));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
  // All have been told; the next load begins anew.
  on_ranks(3, [&](uint32_t rank) {
    RankModel model(good, rank, 3);
    expect_sums(model.run(), 3);
    EXPECT_EQ(model.status, NRT_SUCCESS) << model.sentence;
  });
}

}  // namespace
}  // namespace neuron::test
