// SPDX-License-Identifier: Apache-2.0
// Programs of a few instructions in the place of operators: how their ends become faults. What a
// whole operator computes is in tests/system/api/custom_operator_test.cpp.
#include "driver/emulator/neuroncore/operators/operator_runner.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include "driver/base/abandonment.h"
#include "tests/support/child.h"
#include "tests/unit/driver/emulator/neuroncore/operators/operator_programs.h"

namespace neuron::core {
namespace {

// From here on this process cannot raise a limit, as processes of most users and containers cannot.
bool gave_up_raising_limits() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (syscall(SYS_capget, &header, data) != 0) return false;
  data[0].effective &= ~(1u << CAP_SYS_RESOURCE);
  data[0].permitted &= ~(1u << CAP_SYS_RESOURCE);
  return syscall(SYS_capset, &header, data) == 0;
}

constexpr uint64_t kOwnTable = 0, kOwnDescription = 0x1000, kTensor = 0x4000, kOwnImage = 0x8000;

class Memory final : public chip::BusTarget {
 public:
  bool read(uint64_t offset, std::span<std::byte> out, const chip::Access&) override {
    if (offset + out.size() > bytes.size()) return false;
    std::memcpy(out.data(), bytes.data() + offset, out.size());
    return true;
  }
  bool write(uint64_t offset, std::span<const std::byte> in, const chip::Access&) override {
    if (offset + in.size() > bytes.size()) return false;
    std::memcpy(bytes.data() + offset, in.data(), in.size());
    return true;
  }
  std::vector<std::byte> bytes = std::vector<std::byte>(1 << 16);
};

class OperatorRunnerTest : public ::testing::Test {
 protected:
  OperatorRunnerTest() {
    bus_.attach(0, memory_.bytes.size(), &memory_, "memory");
    bus_.seal();
  }
  Fault run(const std::vector<uint8_t>& image) {
    neuron_operator_description d{};
    d.magic = NEURON_OPERATOR_MAGIC;
    d.version = NEURON_OPERATOR_VERSION;
    d.arguments = 1;
    d.image_bytes = image.size();
    std::memcpy(d.name, "x", 1);
    d.argument[0].kind = NEURON_OPERATOR_TENSOR;
    d.argument[0].dtype = NEURON_DTYPE_F32;
    const uint64_t table[] = {kOwnDescription, kOwnImage, kTensor};
    std::memcpy(memory_.bytes.data() + kOwnTable, table, sizeof(table));
    std::memcpy(memory_.bytes.data() + kOwnDescription, &d, sizeof(d));
    std::memcpy(memory_.bytes.data() + kOwnImage, image.data(), image.size());
    return runner_.run(bus_, {}, kOwnTable, 2, time_);
  }
  // The failure, and the value that it tells.
  static std::pair<uint32_t, uint32_t> told(const Fault& fault) {
    EXPECT_EQ(fault.code, NEURON_FAULT_CUSTOM_OPERATOR);
    return {fault.detail, fault.info};
  }
  static std::pair<uint32_t, uint32_t> failure(neuron_operator_failure failure, uint32_t value) {
    return {failure, value};
  }

  Memory memory_;
  chip::Bus bus_;
  OperatorRunner runner_{{.allowed = true, .patience = std::chrono::seconds(1)}};
  ModelTime time_ = 0;
};

// More than `ulimit -f` allows is an error, and not the signal that the kernel sends for it.
TEST(OperatorMemory, IsRefusedWhereTheLimitOfFilesForbidsIt) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{8192, 8192};
    setrlimit(RLIMIT_FSIZE, &limit);
    OperatorMemory memory;
    _exit(memory.create("much", 1 << 20) == EFBIG && memory.create("little", 4096) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(OperatorRunnerTest, TellsThatAnImageIsNoProgram) {
  EXPECT_EQ(told(run({'h', 'e', 'l', 'l', 'o'})), failure(NEURON_OPERATOR_NOT_STARTED, ENOEXEC));
}

TEST_F(OperatorRunnerTest, TellsTheExitStatusOfAProgramWithoutAResult) {
  EXPECT_EQ(told(run(program_of(system_call(231, 3)))), failure(NEURON_OPERATOR_EXIT, 3));
  EXPECT_EQ(told(run(program_of(system_call(231, 0)))), failure(NEURON_OPERATOR_EXIT, 0));
}

TEST_F(OperatorRunnerTest, TellsTheSignalThatEndsAProgram) {
  EXPECT_EQ(told(run(program_of({0x0F, 0x0B}))), failure(NEURON_OPERATOR_SIGNAL, SIGILL));
  EXPECT_EQ(told(run(program_of({0xC6, 0x04, 0x25, 0, 0, 0, 0, 1}))),  // mov byte [0], 1
            failure(NEURON_OPERATOR_SIGNAL, SIGSEGV));
}

TEST_F(OperatorRunnerTest, TellsOfAForbiddenSystemCall) {
  for (const uint8_t number : {57 /* fork */, 62 /* kill */, 41 /* socket */, 2 /* open */}) {
    EXPECT_EQ(told(run(program_of(system_call(number, 0)))),
              failure(NEURON_OPERATOR_SYSTEM_CALL, UINT32_MAX))
        << int{number};
  }
}

TEST_F(OperatorRunnerTest, EndsAProgramThatDoesNotEnd) {
  EXPECT_EQ(told(run(program_of(endless()))), failure(NEURON_OPERATOR_TIME, 1000));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), -1);
}

TEST_F(OperatorRunnerTest, EndsAProgramForWhichNobodyWaitsAnyMore) {
  std::atomic<bool> gone = false;
  std::thread leaves([&gone] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    gone = true;
  });
  const base::Abandonment work(gone);
  EXPECT_THROW(run(program_of(endless())), base::Abandoned);
  leaves.join();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), -1);
}

TEST_F(OperatorRunnerTest, WritesTheOutputOfAProgramThatIsDone) {
  memory_.bytes[kTensor] = std::byte{7};
  EXPECT_FALSE(run(program_of(writing(85, NEURON_OPERATOR_DONE, system_call(231, 0)))));
  EXPECT_EQ(memory_.bytes[kTensor], std::byte{85});
}

TEST_F(OperatorRunnerTest, ChangesNoByteOfTheOutputAfterAFault) {
  memory_.bytes[kTensor] = std::byte{7};
  const std::vector<uint8_t> illegal = {0x0F, 0x0B};
  EXPECT_EQ(told(run(program_of(writing(85, NEURON_OPERATOR_DONE, illegal)))),
            failure(NEURON_OPERATOR_SIGNAL, SIGILL));
  EXPECT_EQ(memory_.bytes[kTensor], std::byte{7});
}

// As behind `ulimit -c 0`, or in a service with LimitCORE=0.
TEST_F(OperatorRunnerTest, RunsAProgramOfAHostWhoseOwnLimitIsLower) {
  auto child = test::Child::forked([this] {
    if (!gave_up_raising_limits()) return 2;
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0) return 3;
    memory_.bytes[kTensor] = std::byte{7};
    const Fault fault = run(program_of(writing(85, NEURON_OPERATOR_DONE, system_call(231, 0))));
    return !fault && memory_.bytes[kTensor] == std::byte{85} ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

// A host that ignores the ends of its children has the kernel take their statuses.
TEST_F(OperatorRunnerTest, TellsTheSignalAlsoToAHostThatIgnoresTheEndsOfItsChildren) {
  struct sigaction ignore {
  }, before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignore, &before);
  const auto found = told(run(program_of(writing(85, NEURON_OPERATOR_DONE, {0x0F, 0x0B}))));
  sigaction(SIGCHLD, &before, nullptr);
  EXPECT_EQ(found, failure(NEURON_OPERATOR_SIGNAL, SIGILL));
}

// Wherever it is when nobody waits any more, nothing of it is left in this process's memory.
TEST_F(OperatorRunnerTest, EndsAProgramThatHasJustBegun) {
  for (int delay = 0; delay < 60; ++delay) {
    std::atomic<bool> gone = false;
    std::thread leaves([&gone, delay] {
      std::this_thread::sleep_for(std::chrono::microseconds(20 * delay));
      gone = true;
    });
    {
      const base::Abandonment work(gone);
      EXPECT_THROW(run(program_of(endless())), base::Abandoned);
    }
    leaves.join();
    ASSERT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), -1) << delay;
  }
}

}  // namespace
}  // namespace neuron::core
