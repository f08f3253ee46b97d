// SPDX-License-Identifier: Apache-2.0
// Asynchronous queues: what is scheduled happens once, in order, and says how it ended.
#include <nrt/nrt_async.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/api/async_support.h"
#include "tests/api/support.h"

namespace neuron::test {
namespace {

class Async : public RuntimeTest {};

TEST_F(Async, WritesExecutesAndReads) {
  Loaded add(small_add());
  const std::vector<float> a(128 * 16, 1.5f), b(128 * 16, 2.0f);
  std::vector<float> sum(128 * 16);
  const std::size_t bytes = a.size() * sizeof(float);
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

}  // namespace
}  // namespace neuron::test
