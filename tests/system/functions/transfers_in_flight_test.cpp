// SPDX-License-Identifier: Apache-2.0
// Programs by hand whose functions return while their transfers are still moving, which no builder
// writes: the next call of a function on the same queue must not disturb them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nrt/nrt_profile.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "tests/support/setting.h"
#include "tests/system/api/program_file.h"
#include "tools/execution/session.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::test {
namespace {

using execution::Model;
using execution::Tensor;
using ::testing::HasSubstr;

constexpr uint8_t kSp = NEURON_ENGINE_SP;
constexpr uint8_t kDone = 20;
constexpr uint32_t kFunctions = 20, kBlock = 40000, kBytes = kFunctions * kBlock;

// Function f copies block f of x to y. Every third calls the one before it between two halves of
// its own block. Main calls the others of `order` at once, and waits at the end.
class Copies {
 public:
  Copies() {
    const std::string shape = "[" + std::to_string(kBytes) + "]";
    file.input("x", "uint8", shape, kBytes);
    file.output("y", "uint8", shape, kBytes);
    file.queue("q", R"("type": "data", "num_queues": 2)");
    file.semaphore("done", kDone);
  }

  void main(const std::vector<uint32_t>& order) {
    for (const uint32_t f : order) file.call(kSp, name(f));
    uint16_t halves = 0;
    for (const uint32_t f : order) halves += nested(f) ? 4 : 2;
    file.wait(kSp, kDone, static_cast<uint16_t>(2 * halves));
    file.end_main(kSp);
    for (uint32_t f = 0; f < kFunctions; ++f) {
      file.begin_function(kSp, name(f));
      half(f, 0);
      if (nested(f)) file.call(kSp, name(f - 1));
      half(f, 1);
      file.end_function(kSp);
    }
  }

  ProgramFile file;

 private:
  static bool nested(uint32_t f) { return f % 3 == 2; }
  static std::string name(uint32_t f) { return "f" + std::to_string(f); }

  // Both halves have the numbers 0 and 1 in every function.
  void half(uint32_t f, uint32_t which) {
    const std::string at = std::to_string(f * kBlock + which * kBlock / 2);
    const std::string size = std::to_string(kBlock / 2);
    file.transfer(kSp, (which == 0 ? R"("function_start": ")" + name(f) + "\", " : "") +
                           R"("id": )" + std::to_string(which) +
                           R"(, "queue": "q", "semaphore": )" + std::to_string(kDone) +
                           R"(, "desc": {"from": "x", "from_off": )" + at + R"(, "from_sizes": [)" +
                           size + R"(], "from_steps": [1], "to": "y",)" + R"("to_off": )" + at +
                           R"(, "to_sizes": [)" + size + R"(], "to_steps": [1]})");
    file.trigger(kSp, which);
  }
};

std::vector<uint8_t> pattern(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(kBytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

class TransfersInFlight : public ::testing::Test {
 protected:
  void SetUp() override {
    auto session = execution::Session::open(1);
    ASSERT_TRUE(session) << session.error().sentence;
    session_ = std::move(*session);
  }

 private:
  Setting emulator_{"NEURON_EMULATOR", "trn1.2xlarge"};
  Setting quiet_{"NEURON_RT_LOG_LEVEL", "QUIET"};
  std::unique_ptr<execution::Session> session_;
};

std::vector<uint32_t> all_by(uint32_t step) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < kFunctions; ++i) order.push_back(i * step % kFunctions);
  return order;
}

TEST_F(TransfersInFlight, ArriveWhateverIsCalledMeanwhile) {
  for (const uint32_t step : {1u, 7u, 19u}) {
    Copies copies;
    copies.main(all_by(step));
    const auto model = Model::load(copies.file.pack(), 0);
    ASSERT_TRUE(model) << model.error().sentence;
    const auto& ports = (*model)->ports();
    ASSERT_TRUE(ports[0].write(pattern(step)));
    const auto report = (*model)->execute();
    ASSERT_TRUE(report) << report.error().sentence;
    const auto found = ports[1].read();
    ASSERT_TRUE(found) << found.error().sentence;
    EXPECT_TRUE(*found == pattern(step)) << "every " << step;
  }
}

// The rings lie elsewhere for each of them.
TEST_F(TransfersInFlight, GoToTheTensorsOfTheirExecution) {
  Copies copies;
  copies.main(all_by(3));
  const auto model = Model::load(copies.file.pack(), 0);
  ASSERT_TRUE(model) << model.error().sentence;
  struct Set {
    std::vector<Tensor> tensors;
    nrt_tensor_set_t* sets[2] = {nullptr, nullptr};
    ~Set() {
      for (nrt_tensor_set_t*& set : sets) nrt_destroy_tensor_set(&set);
    }
  };
  std::array<Set, 3> all;
  for (Set& one : all) {
    for (const size_t which : {size_t{0}, size_t{1}}) {
      auto tensor = Tensor::allocate(0, kBytes);
      ASSERT_TRUE(tensor) << tensor.error().sentence;
      one.tensors.push_back(std::move(*tensor));
      ASSERT_EQ(nrt_allocate_tensor_set(&one.sets[which]), NRT_SUCCESS);
      ASSERT_EQ(nrt_add_tensor_to_tensor_set(one.sets[which], which == 0 ? "x" : "y",
                                             one.tensors[which].get()),
                NRT_SUCCESS);
    }
  }
  std::vector<uint8_t> found(kBytes);
  for (uint32_t round = 0; round < 7; ++round) {
    const Set& set = all[round * 2 % all.size()];
    const std::vector<uint8_t> bytes = pattern(100 + round);
    ASSERT_EQ(nrt_tensor_write(set.tensors[0].get(), bytes.data(), 0, kBytes), NRT_SUCCESS);
    ASSERT_EQ(nrt_execute((*model)->handle(), set.sets[0], set.sets[1]), NRT_SUCCESS)
        << nrt_open_last_error();
    ASSERT_EQ(nrt_tensor_read(set.tensors[1].get(), found.data(), 0, kBytes), NRT_SUCCESS);
    EXPECT_TRUE(found == bytes) << "round " << round;
  }
}

// Bytes of all transfers of an execution, those of semaphores' words included.
class Bytes : public profile::Visitor {
 public:
  void transfer(const profile::TransferEvent& event) override { sum += event.bytes; }
  uint64_t sum = 0;
};

TEST_F(TransfersInFlight, AreAllInAProfile) {
  const std::string path = ::testing::TempDir() + "functions.ntff";
  Copies copies;
  copies.main(all_by(1));
  const auto model = Model::load(copies.file.pack(), 0);
  ASSERT_TRUE(model) << model.error().sentence;
  ASSERT_EQ(nrt_profile_start((*model)->handle(), path.c_str()), NRT_SUCCESS)
      << nrt_open_last_error();
  const auto report = (*model)->execute();
  EXPECT_TRUE(report) << report.error().sentence;
  ASSERT_EQ(nrt_profile_stop(path.c_str()), NRT_SUCCESS) << nrt_open_last_error();
  auto profile = profile::Profile::open(path);
  ASSERT_TRUE(profile) << profile.error().sentence;
  EXPECT_EQ(profile->lost(), 0u);
  Bytes bytes;
  ASSERT_TRUE(profile->visit(0, 0, bytes));
  // Every third function copies the block of another one, too.
  constexpr uint64_t kCopied = (kFunctions + kFunctions / 3) * kBlock;
  EXPECT_GE(bytes.sum, kCopied);
  EXPECT_LT(bytes.sum, kCopied + 2000);
  std::filesystem::remove(path);
}

TEST_F(TransfersInFlight, NeedTwoRegistersThatTheProgramDoesNotUse) {
  for (const uint32_t used : {62u, 63u}) {
    Copies copies;
    for (uint32_t number = 0; number < used; ++number) {
      isa::Instruction& move = copies.file.add(kSp, NEURON_OP_MOV);
      move.flow.rd = static_cast<uint8_t>(number);
      move.scalar0 = {.value = number, .kind = NEURON_SCALAR_IMMEDIATE, .dtype = NEURON_DTYPE_U32};
    }
    copies.main(all_by(1));
    const auto model = Model::load(copies.file.pack(), 0);
    if (used == 62) {
      EXPECT_TRUE(model) << model.error().sentence;
      continue;
    }
    ASSERT_FALSE(model);
    EXPECT_THAT(model.error().sentence, HasSubstr("functions of engine SP share DMA queues"));
    EXPECT_THAT(model.error().sentence, HasSubstr("it uses 63 of 64"));
  }
}

}  // namespace
}  // namespace neuron::test
