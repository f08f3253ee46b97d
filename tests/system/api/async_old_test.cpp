// SPDX-License-Identifier: Apache-2.0
// The older epoch of the asynchronous interface: error trackers and completion handles, bound to
// the symbol versions that programs of that time have.
#define NRT_ASYNC_VERSION 2
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <nrt/nrt_async.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/system/api/async_support.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

class AsyncOld : public RuntimeTest {};

TEST_F(AsyncOld, TrackersCollectErrors) {
  Loaded bad(bytes_of(kernels::bad_address()));
  Loaded add(small_add());
  nrta_error_tracker_t* tracker = nullptr;
  ASSERT_EQ(nrta_error_tracker_create(0, &tracker), NRT_SUCCESS) << nrt_open_last_error();
  nrta_seq_t failed[2], good;
  for (nrta_seq_t& seq : failed) {
    ASSERT_EQ(nrta_execute_schedule(bad.model, bad.inputs, bad.outputs, 0, tracker, &seq),
              NRT_SUCCESS);
  }
  ASSERT_EQ(nrta_execute_schedule(add.model, add.inputs, add.outputs, 0, tracker, &good),
            NRT_SUCCESS);
  ASSERT_TRUE(finish(good));
  const nrta_error_t* list = nullptr;
  size_t count = 0;
  ASSERT_EQ(nrta_error_tracker_get_list(tracker, &list, &count), NRT_SUCCESS);
  ASSERT_EQ(count, 2u);
  const uint64_t status = static_cast<uint64_t>(bad.run());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(list[i].seq_id, failed[i]);
    EXPECT_EQ(list[i].error_code, status);
  }
  ASSERT_EQ(nrta_error_tracker_get_list(tracker, &list, &count), NRT_SUCCESS);
  EXPECT_EQ(count, 0u) << "only what is new";
  nrta_error_tracker_destroy(tracker);
  EXPECT_EQ(nrta_error_tracker_get_list(tracker, &list, &count), NRT_INVALID_HANDLE);
  EXPECT_EQ(nrta_error_tracker_create(2, &tracker), NRT_INVALID) << "there is no core 2";
  nrta_error_tracker_destroy(nullptr);
}

TEST_F(AsyncOld, EveryCallTakesATrackerAndNoStatusWord) {
  nrt_tensor_t* from = make_tensor(100);
  nrt_tensor_t* to = make_tensor(100);
  Bytes bytes = pattern(100), back(100);
  nrta_error_tracker_t* tracker = nullptr;
  ASSERT_EQ(nrta_error_tracker_create(0, &tracker), NRT_SUCCESS);
  nrta_seq_t seq = 0;
  ASSERT_EQ(nrta_tensor_write(from, bytes.data(), 0, 100, 0, tracker, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  ASSERT_EQ(nrta_tensor_copy(from, 0, to, 0, 100, 0, nullptr, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  ASSERT_EQ(nrta_tensor_read(back.data(), to, 0, 100, 0, tracker, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  EXPECT_EQ(back, bytes);
  nrta_seq_t last = 0;
  ASSERT_EQ(nrta_get_sequence(0, NRTA_XU_TENSOR_READ, 0, &last), NRT_SUCCESS);
  EXPECT_EQ(last, seq);
  NRT_STATUS word = kUnwritten;
  auto* no_tracker = reinterpret_cast<nrta_error_tracker_t*>(&word);
  EXPECT_EQ(nrta_tensor_read(back.data(), to, 0, 100, 0, no_tracker, &seq), NRT_INVALID_HANDLE)
      << "a status word would be the newer epoch's";
  EXPECT_EQ(word, kUnwritten);
  nrta_error_tracker_destroy(tracker);
}

TEST_F(AsyncOld, CompletionHandlesBecomeReadable) {
  nrt_tensor_t* tensor = make_tensor(1 << 22);
  const Bytes bytes(1 << 22);
  nrta_seq_t seq = 0;
  ASSERT_EQ(nrta_tensor_write(tensor, bytes.data(), 0, bytes.size(), 0, nullptr, &seq),
            NRT_SUCCESS);
  int handle = -1, again = -1;
  ASSERT_EQ(nrta_get_completion_handle(seq, &handle), NRT_SUCCESS) << nrt_open_last_error();
  pollfd readable{handle, POLLIN, 0};
  EXPECT_EQ(poll(&readable, 1, 20'000), 1);
  bool done = false;
  ASSERT_EQ(nrta_is_completed(seq, &done), NRT_SUCCESS);
  EXPECT_TRUE(done);
  ASSERT_EQ(nrta_get_completion_handle(seq, &again), NRT_SUCCESS);
  readable.fd = again;
  EXPECT_EQ(poll(&readable, 1, 0), 1) << "it has completed already";
  EXPECT_EQ(nrta_get_completion_handle(seq + 1, &again), NRT_INVALID);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  int no_handle = -1;
  const NRT_STATUS status = nrta_get_completion_handle(seq, &no_handle);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status, NRT_RESOURCE);
  EXPECT_EQ(no_handle, -1);
  EXPECT_THAT(nrt_open_last_error(),
              testing::HasSubstr("making a completion handle: Too many open files"));
  close(handle);
  close(again);
}

TEST_F(AsyncOld, ClientsThatLookNamesUpGetTheirTrackerServedToo) {
  using Schedule = NRT_STATUS (*)(nrt_model_t*, const nrt_tensor_set_t*, nrt_tensor_set_t*, int,
                                  void*, nrta_seq_t*);
  const auto newest = reinterpret_cast<Schedule>(dlsym(RTLD_DEFAULT, "nrta_execute_schedule"));
  const auto older =
      reinterpret_cast<Schedule>(dlvsym(RTLD_DEFAULT, "nrta_execute_schedule", "NRT_2.0.0"));
  ASSERT_NE(newest, nullptr);
  ASSERT_NE(older, nullptr);
  EXPECT_NE(newest, older);
  EXPECT_EQ(older, reinterpret_cast<Schedule>(&nrta_execute_schedule)) << "what this file binds to";
  Loaded bad(bytes_of(kernels::bad_address()));
  nrta_error_tracker_t* tracker = nullptr;
  ASSERT_EQ(nrta_error_tracker_create(0, &tracker), NRT_SUCCESS);
  nrta_seq_t seq = 0;
  ASSERT_EQ(newest(bad.model, bad.inputs, bad.outputs, 0, tracker, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  const nrta_error_t* list = nullptr;
  size_t count = 0;
  ASSERT_EQ(nrta_error_tracker_get_list(tracker, &list, &count), NRT_SUCCESS);
  ASSERT_EQ(count, 1u);
  EXPECT_EQ(list[0].seq_id, seq);
  nrta_error_tracker_destroy(tracker);
}

TEST_F(AsyncOld, CollectivesOfOneRankCopyAndTellTheirTracker) {
  nrt_tensor_t* x = nullptr;
  nrt_tensor_t* y = nullptr;
  for (nrt_tensor_t** tensor : {&x, &y}) {
    ASSERT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 4000, "t", tensor), NRT_SUCCESS)
        << nrt_open_last_error();
  }
  std::vector<float> values(1000), found(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  ASSERT_EQ(nrt_tensor_write(x, values.data(), 0, 4000), NRT_SUCCESS);
  nrta_error_tracker_t* tracker = nullptr;
  ASSERT_EQ(nrta_error_tracker_create(0, &tracker), NRT_SUCCESS) << nrt_open_last_error();
  uint32_t group[] = {0};
  nrt_cc_comm_t comm{group, 0, 1, 0, 1, 0};
  nrt_tensor_list_t inputs{&x, 1}, outputs{&y, 1};
  nrt_cc_context_t* context = nullptr;
  ASSERT_EQ(nrta_cc_prepare(&comm, &inputs, &outputs, NRT_DTYPE_FLOAT32, NRT_OP_ADD,
                            NRT_CC_ALLREDUCE, &context),
            NRT_SUCCESS)
      << nrt_open_last_error();
  nrta_seq_t sequence = 0;
  ASSERT_EQ(nrta_cc_schedule(&context, 0, tracker, &sequence), NRT_SUCCESS)
      << nrt_open_last_error();
  EXPECT_EQ(context, nullptr);
  ASSERT_TRUE(finish(sequence));
  ASSERT_EQ(nrt_tensor_read(y, found.data(), 0, 4000), NRT_SUCCESS);
  EXPECT_EQ(found, values);
  const nrta_error_t* list = nullptr;
  size_t count = 1;
  ASSERT_EQ(nrta_error_tracker_get_list(tracker, &list, &count), NRT_SUCCESS);
  EXPECT_EQ(count, 0u);
  nrta_error_tracker_destroy(tracker);
  nrt_tensor_free(&x);
  nrt_tensor_free(&y);
}

}  // namespace
}  // namespace neuron::test
