// SPDX-License-Identifier: Apache-2.0
// Asynchronous queues: what is scheduled happens once, in order, and says how it ended.
#include <fcntl.h>
#include <nrt/nrt_async.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/support/files.h"
#include "tests/system/api/async_support.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

class Async : public RuntimeTest {};

TEST_F(Async, WritesExecutesAndReads) {
  Loaded add(small_add());
  const std::vector<float> a(128 * 16, 1.5f), b(128 * 16, 2.0f);
  std::vector<float> sum(128 * 16);
  const size_t bytes = a.size() * sizeof(float);
  Status first, second, third, fourth;
  nrta_seq_t seq[4];
  ASSERT_EQ(nrta_tensor_write(add.tensors["a"], a.data(), 0, bytes, 0, &first.word, &seq[0]),
            NRT_SUCCESS)
      << nrt_open_last_error();
  ASSERT_EQ(nrta_tensor_write(add.tensors["b"], b.data(), 0, bytes, 0, &second.word, &seq[1]),
            NRT_SUCCESS);
  EXPECT_EQ(seq[1], seq[0] + 1) << "one queue counts on";
  ASSERT_TRUE(finish(seq[1]));
  EXPECT_EQ(first.word, NRT_SUCCESS) << "first in, first out";
  ASSERT_EQ(nrta_execute_schedule(add.model, add.inputs, add.outputs, 0, &third.word, &seq[2]),
            NRT_SUCCESS)
      << nrt_open_last_error();
  ASSERT_TRUE(finish(seq[2]));
  EXPECT_EQ(third.word, NRT_SUCCESS);
  ASSERT_EQ(nrta_tensor_read(sum.data(), add.tensors["sum"], 0, bytes, 0, &fourth.word, &seq[3]),
            NRT_SUCCESS);
  ASSERT_TRUE(finish(seq[3]));
  EXPECT_EQ(fourth.word, NRT_SUCCESS);
  EXPECT_EQ(sum, std::vector<float>(128 * 16, 3.5f));
  nrta_seq_t last = 0;
  ASSERT_EQ(nrta_get_sequence(0, NRTA_XU_COMPUTE, 0, &last), NRT_SUCCESS);
  EXPECT_EQ(last, seq[2]);
}

TEST_F(Async, CopiesBetweenTensorsInEitherQueue) {
  nrt_tensor_t* from = make_tensor(5000);
  nrt_tensor_t* to = make_tensor(5000);
  const Bytes bytes = pattern(5000);
  ASSERT_EQ(nrt_tensor_write(from, bytes.data(), 0, 5000), NRT_SUCCESS);
  nrta_seq_t seq[2];
  Status status[2];
  for (int queue = 0; queue < 2; ++queue) {
    ASSERT_EQ(nrta_tensor_copy(from, queue * 2500, to, queue * 2500, 2500, queue,
                               &status[queue].word, &seq[queue]),
              NRT_SUCCESS)
        << nrt_open_last_error();
  }
  EXPECT_NE(NRTA_SEQ_GET_XU_ID(seq[0]), NRTA_SEQ_GET_XU_ID(seq[1]));
  for (int queue = 0; queue < 2; ++queue) {
    ASSERT_TRUE(finish(seq[queue]));
    EXPECT_EQ(status[queue].word, NRT_SUCCESS);
  }
  EXPECT_EQ(contents(to), bytes);
}

TEST_F(Async, WritesNoStatusWhenNothingWasScheduled) {
  nrt_tensor_t* tensor = make_tensor(100);
  char byte = 0;
  Status status;
  nrta_seq_t seq = 12345;
  EXPECT_EQ(nrta_tensor_write(tensor, &byte, 100, 1, 0, &status.word, &seq), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("does not fit"));
  EXPECT_EQ(nrta_tensor_write(tensor, &byte, 0, 1, 2, &status.word, &seq), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("writes of a core have queues 0 and 1"));
  EXPECT_EQ(nrta_tensor_read(nullptr, tensor, 0, 1, 0, &status.word, &seq), NRT_INVALID);
  EXPECT_EQ(nrta_tensor_read(&byte, nullptr, 0, 1, 0, &status.word, &seq), NRT_INVALID);
  EXPECT_EQ(nrta_tensor_copy(tensor, 0, tensor, 10, 50, 0, &status.word, &seq), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("overlap"));
  Loaded add(small_add());
  EXPECT_EQ(nrta_execute_schedule(add.model, add.inputs, add.outputs, 1, &status.word, &seq),
            NRT_INVALID);
  EXPECT_EQ(nrta_execute_schedule(add.model, add.outputs, add.inputs, 0, &status.word, &seq),
            NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("the input set has none"));
  EXPECT_EQ(status.word, kUnwritten);
  EXPECT_EQ(seq, 12345u);
}

TEST_F(Async, TakesNoStatusWordAndNoSequence) {
  nrt_tensor_t* tensor = make_tensor(100);
  const Bytes bytes = pattern(100);
  ASSERT_EQ(nrta_tensor_write(tensor, bytes.data(), 0, 100, 1, nullptr, nullptr), NRT_SUCCESS);
  nrta_seq_t seq = 0;
  ASSERT_EQ(nrta_tensor_write(tensor, bytes.data(), 0, 0, 1, nullptr, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  EXPECT_EQ(contents(tensor), bytes);
}

TEST_F(Async, KnowsNoRequestsThatWereNeverMade) {
  nrt_tensor_t* tensor = make_tensor(100);
  char byte = 0;
  nrta_seq_t seq = 0;
  ASSERT_EQ(nrta_tensor_write(tensor, &byte, 0, 1, 0, nullptr, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  bool done = false;
  for (const nrta_seq_t wrong : {seq + 1, seq - 1, nrta_seq_t{0}, ~nrta_seq_t{0},
                                 seq ^ nrta_seq_t{1} << 48, seq | nrta_seq_t{1} << 63}) {
    EXPECT_EQ(nrta_is_completed(wrong, &done), NRT_INVALID) << std::hex << wrong;
    EXPECT_FALSE(done);
  }
  EXPECT_EQ(nrta_is_completed(seq, nullptr), NRT_INVALID);
  nrta_seq_t last = 0;
  EXPECT_EQ(nrta_get_sequence(2, NRTA_XU_COMPUTE, 0, &last), NRT_INVALID);
  EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_TYPE_NUM, 0, &last), NRT_INVALID);
  EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_COMPUTE, 1, &last), NRT_INVALID);
  EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_COLLECTIVES, 1, &last), NRT_INVALID);
  nrt_close();
  EXPECT_EQ(nrta_is_completed(seq, &done), NRT_CLOSED);
  init();
  EXPECT_EQ(nrta_is_completed(seq, &done), NRT_INVALID) << "of a session that was closed";
  tensor = make_tensor(100);
  nrta_seq_t later = 0;
  ASSERT_EQ(nrta_tensor_write(tensor, &byte, 0, 1, 0, nullptr, &later), NRT_SUCCESS);
  EXPECT_GT(later, seq);
  EXPECT_TRUE(finish(later));
}

TEST_F(Async, TellsAFaultInItsStatusAndGoesOn) {
  Loaded bad(bytes_of(kernels::bad_address()));
  Loaded add(small_add());
  add.fill("a", 1);
  add.fill("b", 2);
  Status failed, good[2];
  nrta_seq_t seq = 0;
  auto schedule = [&](Loaded& loaded, Status& status) {
    ASSERT_EQ(
        nrta_execute_schedule(loaded.model, loaded.inputs, loaded.outputs, 0, &status.word, &seq),
        NRT_SUCCESS);
  };
  schedule(add, good[0]);
  schedule(bad, failed);
  schedule(add, good[1]);
  ASSERT_TRUE(finish(seq));
  EXPECT_EQ(good[0].word, NRT_SUCCESS);
  EXPECT_NE(failed.word, NRT_SUCCESS);
  EXPECT_NE(failed.word, kUnwritten);
  EXPECT_EQ(failed.word, bad.run()) << "the status of the same execution without a queue";
  EXPECT_EQ(good[1].word, NRT_SUCCESS);
  EXPECT_EQ(add.floats("sum")[3], 3);
}

TEST_F(Async, ExecutesInOrderWithWhatWasScheduledBefore) {
  Loaded add(small_add());
  Status status[300];
  for (Status& each : status) {
    ASSERT_EQ(nrta_execute_schedule(add.model, add.inputs, add.outputs, 0, &each.word, nullptr),
              NRT_SUCCESS);
  }
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  for (const Status& each : status) EXPECT_EQ(each.load(), NRT_SUCCESS);
  nrt_open_execution_report_t report{};
  report.size = sizeof(report);
  ASSERT_EQ(nrt_open_get_execution_report(add.model, &report), NRT_SUCCESS);
  EXPECT_EQ(report.exec_id, 301u) << "executions that are launched together are counted singly";
  EXPECT_EQ(nrt_tensor_check_output_completion(add.tensors["sum"], 0, 301), NRT_SUCCESS);
}

TEST_F(Async, GivesTheSameModelTimeWithAndWithoutQueues) {
  Loaded softmax(small_softmax());
  softmax.fill("x", 0.5f);
  ASSERT_EQ(softmax.run(), NRT_SUCCESS);
  ASSERT_EQ(softmax.run(), NRT_SUCCESS);
  nrt_open_execution_report_t report{};
  report.size = sizeof(report);
  ASSERT_EQ(nrt_open_get_execution_report(softmax.model, &report), NRT_SUCCESS);
  nrta_seq_t seq = 0;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(
        nrta_execute_schedule(softmax.model, softmax.inputs, softmax.outputs, 0, nullptr, &seq),
        NRT_SUCCESS);
  }
  ASSERT_TRUE(finish(seq));
  nrt_open_queue_report_t queue{};
  queue.size = sizeof(queue);
  ASSERT_EQ(nrt_open_get_queue_report(0, NRTA_XU_COMPUTE, 0, &queue), NRT_SUCCESS);
  EXPECT_EQ(queue.completed, 100u);
  EXPECT_EQ(queue.failed, 0u);
  EXPECT_EQ(queue.busy_ps, 100 * report.device_ps);
  EXPECT_EQ(queue.end_ps, queue.busy_ps) << "one behind the other, from 0";
}

nrt_open_queue_report_t report_of(nrta_xu_t type) {
  nrt_open_queue_report_t queue{};
  queue.size = sizeof(queue);
  EXPECT_EQ(nrt_open_get_queue_report(0, type, 0, &queue), NRT_SUCCESS);
  return queue;
}

TEST_F(Async, WhatTheSequenceOfAQueueTellsIsBeforeWhatIsScheduledThen) {
  nrt_tensor_t* tensor = make_tensor(1 << 20);
  const Bytes bytes = pattern(1 << 20);
  Bytes back(1 << 20);
  nrta_seq_t write = 0, read = 0, last = 0;
  // Nothing has completed, so nothing is known.
  ASSERT_EQ(nrta_get_sequence(0, NRTA_XU_TENSOR_WRITE, 0, &last), NRT_SUCCESS);
  ASSERT_EQ(nrta_tensor_write(tensor, bytes.data(), 0, 1 << 20, 0, nullptr, &write), NRT_SUCCESS);
  ASSERT_EQ(nrta_tensor_read(back.data(), tensor, 0, 1 << 20, 0, nullptr, &read), NRT_SUCCESS);
  while (report_of(NRTA_XU_TENSOR_WRITE).completed == 0) std::this_thread::yield();
  while (report_of(NRTA_XU_TENSOR_READ).completed == 0) std::this_thread::yield();
  EXPECT_EQ(report_of(NRTA_XU_TENSOR_READ).start_ps, 0u);
  ASSERT_EQ(nrta_get_sequence(0, NRTA_XU_TENSOR_WRITE, 0, &last), NRT_SUCCESS);
  EXPECT_EQ(last, write);
  const uint64_t end = report_of(NRTA_XU_TENSOR_WRITE).end_ps;
  ASSERT_EQ(nrta_tensor_copy(tensor, 0, make_tensor(1 << 20), 0, 1 << 20, 0, nullptr, &read),
            NRT_SUCCESS);
  ASSERT_TRUE(finish(read));
  EXPECT_EQ(report_of(NRTA_XU_TENSOR_OP).start_ps, end);
}

TEST_F(Async, QueuesOverlapInModelTime) {
  nrt_tensor_t* tensor = make_tensor(1 << 20);
  const Bytes bytes = pattern(1 << 20);
  Bytes back(1 << 20);
  // 16 descriptors of 64 KiB at 27.2 GB/s.
  const uint64_t cost = 1'300'000 + 16 * 50'000 + (1ull << 20) * 625 / 17;
  const auto report = report_of;
  nrta_seq_t write[2], read;
  for (nrta_seq_t& seq : write) {
    ASSERT_EQ(nrta_tensor_write(tensor, bytes.data(), 0, 1 << 20, 0, nullptr, &seq), NRT_SUCCESS);
  }
  ASSERT_EQ(nrta_tensor_read(back.data(), tensor, 0, 1 << 20, 0, nullptr, &read), NRT_SUCCESS);
  ASSERT_TRUE(finish(write[1]));
  while (report(NRTA_XU_TENSOR_READ).completed == 0) std::this_thread::yield();
  EXPECT_EQ(report(NRTA_XU_TENSOR_WRITE).start_ps, cost);
  EXPECT_EQ(report(NRTA_XU_TENSOR_WRITE).end_ps, 2 * cost);
  EXPECT_EQ(report(NRTA_XU_TENSOR_READ).start_ps, 0u) << "beside the first write";
  EXPECT_EQ(report(NRTA_XU_TENSOR_READ).end_ps, cost);
  // Scheduled by somebody who knows that the writes are done.
  ASSERT_EQ(nrta_tensor_read(back.data(), tensor, 0, 1 << 20, 0, nullptr, &read), NRT_SUCCESS);
  ASSERT_TRUE(finish(read));
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(report(NRTA_XU_TENSOR_READ).start_ps, 2 * cost);
  EXPECT_EQ(report(NRTA_XU_TENSOR_READ).busy_ps, 2 * cost);
}

uint64_t count_of(int event) {
  uint64_t value = 0;
  return read(event, &value, sizeof(value)) == sizeof(value) ? value : 0;
}

TEST_F(Async, SignalsAnEventWhenARequestCompletes) {
  nrt_tensor_t* tensor = make_tensor(1 << 22);
  const Bytes bytes(1 << 22);
  const int event = eventfd(0, EFD_NONBLOCK);
  nrta_seq_t seq = 0;
  ASSERT_EQ(nrta_tensor_write(tensor, bytes.data(), 0, bytes.size(), 0, nullptr, &seq),
            NRT_SUCCESS);
  ASSERT_EQ(nrta_event_register_seq_id_completion(seq, event), NRT_SUCCESS)
      << nrt_open_last_error();
  pollfd readable{event, POLLIN, 0};
  ASSERT_EQ(poll(&readable, 1, 20'000), 1);
  EXPECT_EQ(count_of(event), 1u);
  bool done = false;
  ASSERT_EQ(nrta_is_completed(seq, &done), NRT_SUCCESS);
  EXPECT_TRUE(done);
  ASSERT_EQ(nrta_event_register_seq_id_completion(seq, event), NRT_SUCCESS);
  EXPECT_EQ(count_of(event), 1u) << "signalled at once, because it has completed";
  EXPECT_EQ(nrta_event_register_seq_id_completion(seq, -1), NRT_SUCCESS);
  EXPECT_EQ(nrta_event_register_seq_id_completion(seq, -2), NRT_INVALID);
  EXPECT_EQ(nrta_event_register_seq_id_completion(seq + 1, event), NRT_INVALID);
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  EXPECT_EQ(nrta_event_register_seq_id_completion(seq, pipes[1]), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("no eventfd"));
  const Folder folder;
  const std::string name = folder.path("eventfd");
  const int file = open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  EXPECT_EQ(nrta_event_register_seq_id_completion(seq, file), NRT_INVALID) << "only named so";
  close(file);
  close(pipes[0]);
  close(pipes[1]);
  EXPECT_EQ(nrta_event_register_seq_id_completion(seq, pipes[1]), NRT_INVALID) << "closed";
  close(event);
}

TEST_F(Async, CountsTheCompletionsOfAQueueInAnEvent) {
  nrt_tensor_t* tensor = make_tensor(64);
  char byte = 0;
  const int event = eventfd(0, EFD_NONBLOCK);
  nrta_seq_t seq = 0;
  ASSERT_EQ(nrta_tensor_read(&byte, tensor, 0, 1, 0, nullptr, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  ASSERT_EQ(nrta_event_register_xu_completion(0, NRTA_XU_TENSOR_READ, 0, event), NRT_SUCCESS)
      << nrt_open_last_error();
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(nrta_tensor_read(&byte, tensor, 0, 1, 0, nullptr, &seq), NRT_SUCCESS);
  }
  uint64_t seen = 0;
  while (seen < 50) {
    pollfd readable{event, POLLIN, 0};
    ASSERT_EQ(poll(&readable, 1, 20'000), 1) << seen;
    seen += count_of(event);
  }
  EXPECT_EQ(seen, 50u);
  ASSERT_EQ(nrta_event_register_xu_completion(0, NRTA_XU_TENSOR_READ, 0, -1), NRT_SUCCESS);
  ASSERT_EQ(nrta_tensor_read(&byte, tensor, 0, 1, 0, nullptr, &seq), NRT_SUCCESS);
  ASSERT_TRUE(finish(seq));
  EXPECT_EQ(count_of(event), 0u);
  EXPECT_EQ(nrta_event_register_xu_completion(0, NRTA_XU_TENSOR_READ, 2, event), NRT_INVALID);
  close(event);
}

TEST_F(Async, NeedsAnOpenRuntime) {
  nrt_close();
  bool done = false;
  nrta_seq_t seq = 0;
  EXPECT_EQ(nrta_is_completed(1, &done), NRT_CLOSED);
  EXPECT_EQ(nrta_get_sequence(0, NRTA_XU_COMPUTE, 0, &seq), NRT_CLOSED);
}

TEST_F(Async, RefusesADepthThatIsNoNumber) {
  nrt_close();
  const Setting depth("NEURON_OPEN_ASYNC_QUEUE_DEPTH", "many");
  EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("NEURON_OPEN_ASYNC_QUEUE_DEPTH"));
}

}  // namespace
}  // namespace neuron::test
