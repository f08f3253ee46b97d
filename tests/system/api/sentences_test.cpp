// SPDX-License-Identifier: Apache-2.0
// What an operator reads when something fails: complete sentences, whatever names are in them.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/child.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

using ::testing::AllOf;
using ::testing::Not;

class Sentences : public RuntimeTest {
 protected:
  static std::string failure_of(const Bytes& neff) {
    Loaded model(neff);
    EXPECT_NE(model.run(), NRT_SUCCESS);
    return nrt_open_last_error();
  }
  static std::string init_failure() {
    nrt_close();
    EXPECT_NE(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS);
    return nrt_open_last_error();
  }
};

TEST_F(Sentences, DeadlockSaysFirstWhoWaitsAndThatNobodySignalsIt) {
  const std::string text = failure_of(bytes_of(kernels::deadlock()));
  EXPECT_THAT(text, HasSubstr("model 'deadlock' cannot finish on device 0 core 0: PE pc 1"));
  EXPECT_THAT(text,
              HasSubstr("waits for semaphore 200 >= 1, which is 0, and nobody will signal it; "
                        "nothing on the core can advance any more"));
  EXPECT_THAT(text, HasSubstr("3 of 4 have finished"));
  EXPECT_THAT(text, HasSubstr("or correct the wait"));
}

TEST_F(Sentences, TimeLimitNamesBothSettingsAndTheInstructionThatRan) {
  nrt_close();
  Setting limit("NEURON_OPEN_MODEL_TIME_LIMIT_US", "50");
  init();
  const std::string text = failure_of(bytes_of(kernels::endless_loop()));
  EXPECT_THAT(text, HasSubstr("50 us (NEURON_OPEN_MODEL_TIME_LIMIT_US"));
  EXPECT_THAT(text, HasSubstr("NEURON_RT_EXEC_TIMEOUT"));
  EXPECT_THAT(text, HasSubstr("Pool pc 1"));
  EXPECT_THAT(text, Not(HasSubstr("between two executions")));
}

TEST_F(Sentences, FaultOfARegisterValueTellsTheRuleAsTheLoadTimeCheckDoes) {
  const std::string text = failure_of(bytes_of(kernels::bad_partition_register()));
  EXPECT_THAT(text, AllOf(HasSubstr("device 0 core 0"), HasSubstr("DVE pc 2"), HasSubstr("memset"),
                          HasSubstr("rule R1, operand dst (byte 0x22 of the instruction)")));
  EXPECT_THAT(text, HasSubstr("found 0x8, expected: up to 32 partitions must start at 0, 32, 64 or "
                              "96; "));
  EXPECT_THAT(text, HasSubstr("move the tile"));
  EXPECT_THAT(text, Not(HasSubstr("engines=")));
}

TEST_F(Sentences, MatmulWithoutWeightsSaysWhichWereExpected) {
  EXPECT_THAT(failure_of(bytes_of(kernels::no_weights())),
              HasSubstr("found no loaded weights, expected weights of 128 partitions and 128 "
                        "columns"));
}

TEST_F(Sentences, UnmappedAddressSaysWhatIsMappedNearIt) {
  EXPECT_THAT(
      failure_of(bytes_of(kernels::bad_address())),
      HasSubstr("4 bytes to device address 0xf00000000, expected an address that is mapped; "
                "the nearest are HBM 0, which ends at 0x3ffffffff, and HBM 1, which starts "
                "at 0x1000000000"));
}

TEST_F(Sentences, RefusedProgramSaysWhatToDo) {
  const Bytes neff = bytes_of(kernels::bad_partition());
  nrt_model_t* model = nullptr;
  EXPECT_EQ(nrt_load(neff.data(), neff.size(), 0, 1, &model), NRT_INVALID);
  EXPECT_THAT(
      nrt_open_last_error(),
      HasSubstr("expected: up to 32 partitions must start at 0, 32, 64 or 96; move the tile"));
}

TEST_F(Sentences, NamesWithControlCharactersComeOutEscaped) {
  nrt_tensor_t* tensor = make_tensor(64, 0, NRT_TENSOR_PLACEMENT_DEVICE, "a\n\x1b[31mred");
  uint8_t byte = 0;
  EXPECT_EQ(nrt_tensor_read(tensor, &byte, 64, 1), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("'a\\x0a\\x1b[31mred'"));
  nrt_tensor_set_t* set = nullptr;
  ASSERT_EQ(nrt_allocate_tensor_set(&set), NRT_SUCCESS);
  EXPECT_EQ(nrt_get_tensor_from_tensor_set(set, "b\x9b", &tensor), NRT_FAILURE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("'b\\x9b'"));
  const std::string profile = "no\x1bsuch";
  Setting emulator("NEURON_EMULATOR", profile.c_str());
  EXPECT_THAT(init_failure(), AllOf(HasSubstr("no\\x1bsuch"), Not(HasSubstr("\x1b"))));
}

TEST_F(Sentences, SizesComeWithTheNameOfTheirTensor) {
  nrt_tensor_t* tensor = nullptr;
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 0, "w", &tensor), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("tensor 'w' was asked for with 0 bytes"));
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_VIRTUAL, -1, 1ull << 62, "w", &tensor),
            NRT_RESOURCE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("for tensor 'w'"));
  EXPECT_EQ(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 33ull << 30, "w", &tensor),
            NRT_RESOURCE);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("HBM for tensor 'w'"));
}

TEST_F(Sentences, TensorWithoutStorageIsCalledEmptyByAnExecution) {
  Loaded model(small_add());
  nrt_tensor_t* empty = nullptr;
  ASSERT_EQ(nrt_tensor_allocate_empty("e", &empty), NRT_SUCCESS);
  ASSERT_EQ(nrt_add_tensor_to_tensor_set(model.inputs, "a", empty), NRT_SUCCESS);
  EXPECT_EQ(model.run(), NRT_INVALID);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("is empty; attach a buffer of 8192 bytes first"));
}

TEST_F(Sentences, SettingsAreNamedAsTheyWereGiven) {
  {
    Setting size("NEURON_RT_VIRTUAL_CORE_SIZE", "2");
    EXPECT_THAT(init_failure(), HasSubstr("NEURON_RT_VIRTUAL_CORE_SIZE=2"));
  }
  {
    Setting visible("NEURON_RT_VISIBLE_CORES", "abc");
    EXPECT_THAT(init_failure(), AllOf(HasSubstr("one core (0) or cores in a row (0-1 or 0,1)"),
                                      HasSubstr("this host has cores 0-1")));
  }
}

TEST_F(Sentences, MissingDeviceIsSaidOnce) {
  if (access("/dev/neuron0", F_OK) == 0) GTEST_SKIP() << "this host has a device";
  Setting none("NEURON_EMULATOR", nullptr);
  const std::string text = init_failure();
  const size_t first = text.find("no Neuron device");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("no Neuron device", first + 1), std::string::npos) << text;
}

TEST_F(Sentences, MemoryOfTheDeviceStaysOffClosedStandardStreams) {
  nrt_close();
  Child child = Child::forked([&] {
    for (int fd = 0; fd < 3; ++fd) close(fd);
    if (nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") != NRT_SUCCESS) return 10;
    nrt_tensor_t* tensor = nullptr;
    if (nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 64, "t", &tensor)) return 11;
    for (int fd = 0; fd < 3; ++fd) {
      if (fcntl(fd, F_GETFD) >= 0) return fd + 1;
    }
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Sentences, EightThreadsOnOneCoreNeverSeeADeadlockOfAnEmptyModel) {
  const Bytes neff = bytes_of(kernels::empty());
  std::atomic<int> failed{0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      Loaded model(neff);
      while (std::chrono::steady_clock::now() < end) {
        if (model.run() == NRT_SUCCESS) continue;
        ++failed;
        ADD_FAILURE() << nrt_open_last_error();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace neuron::test
