// SPDX-License-Identifier: Apache-2.0
// What becomes of requests that wait: full queues, unloaded models, freed tensors, closed runtimes,
// forks, processes that end.
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tests/support/child.h"
#include "tests/system/async/gate.h"

namespace neuron::test {
namespace {

class Outstanding : public RuntimeTest {};

TEST_F(Outstanding, AFullQueueRefusesUntilOneHasCompleted) {
  nrt_close();
  const Setting depth("NEURON_OPEN_ASYNC_QUEUE_DEPTH", "4");
  init();
  Loaded add(small_add());
  Status status[5];
  nrta_seq_t seq[5] = {};
  Gate gate({0});
  for (int i = 0; i < 4; ++i) ASSERT_EQ(schedule(add, &status[i], &seq[i]), NRT_SUCCESS);
  EXPECT_EQ(schedule(add, &status[4], &seq[4]), NRT_QUEUE_FULL);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("has 4 requests outstanding"));
  EXPECT_EQ(seq[4], 0u);
  bool done = true;
  ASSERT_EQ(nrta_is_completed(seq[0], &done), NRT_SUCCESS);
  EXPECT_FALSE(done);
  EXPECT_EQ(status[0].load(), kUnwritten) << "not before it has completed";
  gate.open();
  ASSERT_TRUE(finish(seq[0]));
  ASSERT_EQ(schedule(add, &status[4], &seq[4]), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq[4]));
  for (const Status& each : status) EXPECT_EQ(each.word, NRT_SUCCESS);
}

TEST_F(Outstanding, UnloadFailsWhatHasNotBegun) {
  Loaded gone(small_add());
  Loaded stays(small_softmax());
  Status dead[3], alive;
  nrta_seq_t seq = 0;
  Gate gate({0});
  for (Status& each : dead) ASSERT_EQ(schedule(gone, &each), NRT_SUCCESS);
  ASSERT_EQ(schedule(stays, &alive, &seq), NRT_SUCCESS);
  // The worker waits for the gate with the first of them: the unload comes behind it.
  NRT_STATUS unloaded = kUnwritten;
  std::thread unload([&] { unloaded = nrt_unload(gone.model); });
  gate.open();
  unload.join();
  EXPECT_EQ(unloaded, NRT_SUCCESS);
  gone.model = nullptr;
  ASSERT_TRUE(finish(seq));
  bool failed = false;
  for (const Status& each : dead) {
    EXPECT_TRUE(each.load() == NRT_SUCCESS || each.load() == NRT_INVALID_HANDLE) << each.load();
    EXPECT_FALSE(failed && each.load() == NRT_SUCCESS) << "executed after the unload";
    failed = each.load() == NRT_INVALID_HANDLE;
  }
  EXPECT_EQ(alive.word, NRT_SUCCESS);
}

TEST_F(Outstanding, UnloadTellsInOneLineOfAllRequestsThatItEnds) {
  constexpr size_t kRequests = 500;
  nrt_close();
  const Setting depth("NEURON_OPEN_ASYNC_QUEUE_DEPTH", "1024");
  const Setting loud("NEURON_RT_LOG_LEVEL", "ERROR");
  init();
  Loaded gone(small_add());
  Loaded stays(small_softmax());
  std::vector<Status> dead(kRequests), alive(2);
  nrta_seq_t seq = 0;
  Gate gate({0});
  for (size_t i = 0; i < kRequests; ++i) {
    ASSERT_EQ(schedule(gone, &dead[i]), NRT_SUCCESS);
    if (i == kRequests / 2) {
      ASSERT_EQ(schedule(stays, &alive[0]), NRT_SUCCESS);
    }
  }
  ASSERT_EQ(schedule(stays, &alive[1], &seq), NRT_SUCCESS);
  Gate::wait_for_a_request(0);
  ::testing::internal::CaptureStderr();
  NRT_STATUS unloaded = kUnwritten;
  std::thread unload([&] { unloaded = nrt_unload(gone.model); });
  gate.open();
  unload.join();
  const bool finished = finish(seq);
  const std::string log = ::testing::internal::GetCapturedStderr();
  ASSERT_TRUE(finished);
  EXPECT_EQ(unloaded, NRT_SUCCESS);
  gone.model = nullptr;
  const auto failed = std::count_if(dead.begin(), dead.end(), [](const Status& each) {
    return each.load() == NRT_INVALID_HANDLE;
  });
  ASSERT_GT(failed, 1) << "the unload came behind the requests";
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_THAT(log, HasSubstr("was unloaded before " + std::to_string(failed) + " of its requests"));
  for (const Status& each : alive) EXPECT_EQ(each.load(), NRT_SUCCESS);
}

TEST_F(Outstanding, WorkKeepsTensorsThatAreFreedMeanwhile) {
  const uint64_t before = used_bytes();
  nrta_seq_t seq = 0;
  Bytes back(128 * 16 * 4);
  {
    Loaded add(small_add());
    ASSERT_EQ(add.run(), NRT_SUCCESS);
    add.fill("a", 1);
    add.fill("b", 2);
    nrt_tensor_t* sum = nullptr;
    ASSERT_EQ(nrt_tensor_allocate_slice(add.tensors["sum"], 0, back.size(), "kept", &sum),
              NRT_SUCCESS);
    Status status;
    Gate gate({0});
    ASSERT_EQ(schedule(add, &status, &seq), NRT_SUCCESS);
    nrt_tensor_free(&add.tensors["a"]);
    nrt_tensor_free(&add.tensors["b"]);
    // Memory that is free would be given out again.
    nrt_tensor_t* other[4];
    for (nrt_tensor_t*& tensor : other) {
      tensor = make_tensor(back.size());
      ASSERT_EQ(nrt_tensor_memset(tensor, 0, 0x42, back.size()), NRT_SUCCESS);
    }
    nrt_destroy_tensor_set(&add.inputs);
    gate.open();
    ASSERT_TRUE(finish(seq));
    EXPECT_EQ(status.word, NRT_SUCCESS);
    ASSERT_EQ(nrt_tensor_read(sum, back.data(), 0, back.size()), NRT_SUCCESS);
    float first = 0;
    std::memcpy(&first, back.data(), sizeof(first));
    EXPECT_EQ(first, 3);
    for (nrt_tensor_t*& tensor : other) nrt_tensor_free(&tensor);
    nrt_tensor_free(&sum);
  }
  EXPECT_EQ(used_bytes(), before) << "what it kept was given back";
}

TEST_F(Outstanding, ExecutionsTakeTheTensorsOfTheMomentOfScheduling) {
  Loaded add(small_add());
  add.fill("a", 1);
  add.fill("b", 2);
  nrt_tensor_t* other = make_tensor(128 * 16 * 4);
  nrta_seq_t seq = 0;
  Gate gate({0});
  ASSERT_EQ(schedule(add, nullptr, &seq), NRT_SUCCESS);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(add.outputs, "sum", other), NRT_SUCCESS);
  gate.open();
  ASSERT_TRUE(finish(seq));
  EXPECT_EQ(add.floats("sum")[9], 3);
}

TEST_F(Outstanding, CloseEndsWhatHasNotBegun) {
  Loaded add(small_add());
  Status status[100];
  const int event = eventfd(0, EFD_NONBLOCK);
  nrta_seq_t seq = 0;
  std::thread closing;
  {
    Gate gate({0});
    for (Status& each : status) ASSERT_EQ(schedule(add, &each, &seq), NRT_SUCCESS);
    ASSERT_EQ(nrta_event_register_seq_id_completion(seq, event), NRT_SUCCESS);
    Gate::wait_for_a_request(0);
    closing = std::thread([] { nrt_close(); });
    bool done = false;
    while (nrta_is_completed(seq, &done) == NRT_SUCCESS) std::this_thread::yield();
  }
  closing.join();
  add.model = nullptr;
  bool closed = false;
  for (const Status& each : status) {
    EXPECT_TRUE(each.word == NRT_SUCCESS || each.word == NRT_CLOSED) << each.word;
    EXPECT_FALSE(closed && each.word == NRT_SUCCESS) << "in order";
    closed = each.word == NRT_CLOSED;
  }
  uint64_t count = 0;
  EXPECT_EQ(read(event, &count, sizeof(count)), 8) << "who waits is told";
  close(event);
  init();
  Loaded again(small_add());
  ASSERT_EQ(schedule(again, &status[0], &seq), NRT_SUCCESS);
  EXPECT_TRUE(finish(seq));
}

TEST_F(Outstanding, AnEventThatWasTakenBackIsNotSignalled) {
  Loaded add(small_add());
  const int event = eventfd(0, EFD_NONBLOCK), reused = eventfd(0, EFD_NONBLOCK);
  nrta_seq_t seq = 0;
  Gate gate({0});
  ASSERT_EQ(schedule(add, nullptr, &seq), NRT_SUCCESS);
  ASSERT_EQ(nrta_event_register_seq_id_completion(seq, event), NRT_SUCCESS);
  ASSERT_EQ(nrta_event_register_seq_id_completion(seq, -1), NRT_SUCCESS);
  // Closed while it is registered: the number may mean something else by then.
  const int careless = eventfd(0, EFD_NONBLOCK);
  ASSERT_EQ(nrta_event_register_seq_id_completion(seq, careless), NRT_SUCCESS);
  ASSERT_EQ(dup2(reused, careless), careless);
  gate.open();
  ASSERT_TRUE(finish(seq));
  uint64_t count = 0;
  EXPECT_EQ(read(event, &count, sizeof(count)), -1);
  EXPECT_EQ(read(reused, &count, sizeof(count)), -1);
  for (const int each : {event, reused, careless}) close(each);
}

TEST_F(Outstanding, SynchronousExecutionsComeBehindThoseScheduledBefore) {
  Loaded add(small_add());
  Status status[40];
  Gate gate({0});
  for (Status& each : status) ASSERT_EQ(schedule(add, &each), NRT_SUCCESS);
  std::thread sync([&] {
    EXPECT_EQ(add.run(), NRT_SUCCESS);
    for (const Status& each : status) EXPECT_EQ(each.load(), NRT_SUCCESS);
  });
  gate.open();
  sync.join();
}

TEST_F(Outstanding, CopiesDoNotWaitForExecutions) {
  Loaded add(small_add());
  nrta_seq_t execution = 0, copy = 0;
  Gate gate({0});
  ASSERT_EQ(schedule(add, nullptr, &execution), NRT_SUCCESS);
  float value = 0;
  ASSERT_EQ(nrta_tensor_read(&value, add.tensors["a"], 0, 4, 0, nullptr, &copy), NRT_SUCCESS);
  EXPECT_TRUE(finish(copy)) << "while the execution waits for its turn";
  bool done = true;
  ASSERT_EQ(nrta_is_completed(execution, &done), NRT_SUCCESS);
  EXPECT_FALSE(done);
  gate.open();
  EXPECT_TRUE(finish(execution));
}

TEST_F(Outstanding, AForkedChildStartsAnew) {
  Loaded add(small_add());
  nrta_seq_t seq = 0;
  ASSERT_EQ(schedule(add, nullptr, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  Child child = Child::forked([&] {
    bool done = false;
    int wrong = nrta_is_completed(seq, &done) != NRT_UNINITIALIZED;
    wrong |= nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS ? 2 : 0;
    nrt_tensor_t* tensor = nullptr;
    char byte = 1;
    wrong |= nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 8, "t", &tensor) ? 4 : 0;
    wrong |= nrta_tensor_write(tensor, &byte, 0, 1, 0, nullptr, &seq) ? 8 : 0;
    wrong |= finish(seq) ? 0 : 16;
    return wrong;
  });
  EXPECT_EQ(child.wait(), 0);
  ASSERT_EQ(schedule(add, nullptr, &seq), NRT_SUCCESS);
  EXPECT_TRUE(finish(seq));
}

TEST_F(Outstanding, AProcessMayEndWithRequestsOutstanding) {
  nrt_close();
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        init();
        static Loaded* add = new Loaded(small_add());
        for (int i = 0; i < 1000; ++i) schedule(*add, nullptr);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace neuron::test
