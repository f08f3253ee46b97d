// SPDX-License-Identifier: Apache-2.0
// --check compares the result of every operation: a bit that flips in one of them is found, and the
// rank, the operation and the place are named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "tests/support/files.h"
#include "tools/nccom-test/run/host_participant.h"
#include "tools/nccom-test/run/rank_run.h"

namespace neuron::nccom {
namespace {

using ccom::Result;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What happens to the memory of results behind an operation, before anybody looks at it.
struct Damage {
  size_t iteration = SIZE_MAX;
  Slot slot;
  size_t byte = 0;
  bool stale = false;    // the bytes that the operation wrote are those of before instead
  bool onwards = false;  // behind all later iterations, too
};

// Ranks in host memory whose results are damaged behind one iteration.
class Damaged final : public Participant {
 public:
  Damaged(std::unique_ptr<Participant> inner, const Damage& damage)
      : inner_(std::move(inner)), damage_(damage) {}

  uint32_t rank() const override { return inner_->rank(); }
  Result<void> join() override { return inner_->join(); }
  Result<void> enter(const Phase& phase) override { return inner_->enter(phase); }
  Result<void> prepare(const std::vector<BlockCase>& blocks) override {
    return inner_->prepare(blocks);
  }
  size_t sets() const override { return inner_->sets(); }
  uint32_t results_of(size_t block) const override { return inner_->results_of(block); }
  Result<void> write(const Slot& slot, std::span<const std::byte> input) override {
    return inner_->write(slot, input);
  }
  Result<void> renew(const Slot& slot, std::span<const std::byte> input) override {
    return inner_->renew(slot, input);
  }
  uint32_t inputs_in_turn() const override { return inner_->inputs_in_turn(); }
  Result<std::span<const std::byte>> result(const Slot& slot) override {
    return inner_->result(slot);
  }
  Result<void> barrier() override { return inner_->barrier(); }
  bool waits_are_measured() const override { return inner_->waits_are_measured(); }
  Result<void> execute(size_t iteration, std::vector<double>& times_us) override {
    Slot slot = damage_.slot;
    slot.set = iteration % sets();
    const bool now =
        iteration == damage_.iteration || (damage_.onwards && iteration > damage_.iteration);
    NEURON_TRY(output, inner_->result(slot));
    const std::vector<std::byte> before(output.begin(), output.end());
    NEURON_CHECK(inner_->execute(iteration, times_us));
    if (!now) return {};
    auto* memory = const_cast<std::byte*>(output.data());
    if (damage_.stale) {
      std::copy(before.begin(), before.end(), memory);
    } else {
      memory[damage_.byte] ^= std::byte{0x40};
    }
    return {};
  }
  std::string algorithm(size_t block) override { return inner_->algorithm(block); }
  void abort() override { inner_->abort(); }

 private:
  const std::unique_ptr<Participant> inner_;
  const Damage damage_;
};

struct Found {
  std::vector<std::string> failures;
  std::vector<uint64_t> compared;  // of ranks that did not fail, for each block
  size_t ended = 0;
  size_t times = 0;
};

class ResultCheckTest : public ::testing::Test {
 protected:
  ResultCheckTest() {
    options_.ranks = 2;
    options_.operations = {CCOM_ALL_REDUCE};
    options_.block.type = CCOM_FP32;
    options_.block.sweep = {4096, 4096, {}, {}};
    options_.iterations = 20;
    options_.warmup = 5;
    settings_.every_result = true;
  }

  // Rank 1 is the damaged one.
  Found run(const Damage& damage) {
    const auto job = make_job(options_);
    EXPECT_TRUE(job) << job.error().sentence;
    settings_.unique_buffers = options_.unique_buffers;
    settings_.operations = job->operations + job->operations_before;
    settings_.memory_bytes = memory_needed(*job, options_.ranks, settings_);
    auto inner = make_host_participants(options_.ranks, settings_);
    EXPECT_TRUE(inner) << inner.error().sentence;
    Found found;
    std::mutex mutex;
    const Sink sink = [&](const Message& message) {
      const std::lock_guard lock(mutex);
      if (message.kind == Message::Kind::kEnd) ++found.ended;
      if (message.kind == Message::Kind::kFailed || message.kind == Message::Kind::kBroken) {
        found.failures.push_back(message.text);
      }
      if (message.kind == Message::Kind::kDone) {
        found.compared.push_back(message.compared);
        found.times = message.times_us.size();
      }
    };
    std::vector<std::thread> ranks;
    for (auto& one : *inner) {
      ranks.emplace_back([&, participant = std::move(one)]() mutable {
        const bool hit = participant->rank() == 1;
        Damaged damaged(std::move(participant), hit ? damage : Damage{});
        run_rank(damaged, *job, {Check::kRandom, 7, folder_.path()}, sink);
      });
    }
    for (std::thread& rank : ranks) rank.join();
    return found;
  }

  const test::Folder folder_;
  Options options_;
  HostSettings settings_;
};

TEST_F(ResultCheckTest, ComparesEveryOperationOfEveryRankOnce) {
  const Found found = run({});
  EXPECT_THAT(found.failures, IsEmpty());
  EXPECT_EQ(found.compared, (std::vector<uint64_t>{25, 25}));
  EXPECT_EQ(found.times, 20u);
  EXPECT_EQ(found.ended, 2u);
}

TEST_F(ResultCheckTest, ABitThatFlipsInAnyOneOperationIsFoundWhereItIs) {
  for (size_t iteration = 0; iteration < 25; ++iteration) {
    const Found found = run({iteration, {}, 1027});
    ASSERT_EQ(found.failures.size(), 1u) << iteration;
    const std::string name = iteration < 5
                                 ? "warm-up operation " + std::to_string(iteration + 1) + " of 5"
                                 : "measured operation " + std::to_string(iteration - 4) + " of 20";
    EXPECT_THAT(found.failures.front(),
                HasSubstr("rank 1, all_reduce, " + name + ": output element 256 (byte 1024) is "));
    EXPECT_THAT(found.failures.front(), HasSubstr("all_reduce-4096-rank1-{input,output,golden}"));
    EXPECT_EQ(found.ended, 2u) << "the ranks go on together";
  }
}

TEST_F(ResultCheckTest, LargeBuffersHaveOneSetThatIsLookedAtEachTime) {
  options_.block.sweep = {300000, 300000, {}, {}};
  const Found found = run({11, {}, 299999});
  ASSERT_EQ(found.failures.size(), 1u);
  EXPECT_THAT(found.failures.front(),
              HasSubstr("measured operation 7 of 20: output element 74999 (byte 299996) is "));
}

TEST_F(ResultCheckTest, BuffersOfTheirOwnAreAllCompared) {
  options_.unique_buffers = true;
  for (const size_t iteration : {0u, 6u, 24u}) {
    const Found found = run({iteration, {}, 5});
    ASSERT_EQ(found.failures.size(), 1u) << iteration;
    EXPECT_THAT(found.failures.front(), HasSubstr("output element 1 (byte 4) is "));
  }
}

TEST_F(ResultCheckTest, InPlaceEveryOperationBeginsWithItsInput) {
  options_.block.in_place = true;
  EXPECT_THAT(run({}).failures, IsEmpty());
  const Found found = run({9, {}, 8});
  ASSERT_EQ(found.failures.size(), 1u);
  EXPECT_THAT(found.failures.front(), HasSubstr("measured operation 5 of 20: output element 2 "));
}

TEST_F(ResultCheckTest, AResultThatWasNotWrittenIsNotTakenForTheOneBefore) {
  Damage stale{17, {}, 0, true};
  for (const uint64_t bytes : {4096u, 300000u}) {
    options_.block.sweep = {bytes, bytes, {}, {}};
    const Found found = run(stale);
    ASSERT_EQ(found.failures.size(), 1u) << bytes;
    EXPECT_THAT(found.failures.front(), HasSubstr("measured operation 13 of 20: output element 0"));
  }
}

TEST_F(ResultCheckTest, SeveralWrongResultsAreOneSentenceWithTheirNumber) {
  const Found found = run({.iteration = 10, .onwards = true});
  ASSERT_EQ(found.failures.size(), 1u);
  EXPECT_THAT(found.failures.front(),
              AllOf(HasSubstr("measured operation 6 of 20: output element 0 "),
                    HasSubstr("; wrong are 15 of the 25 results of this rank")));
}

TEST_F(ResultCheckTest, OperationsOfSeveralRunsAreNamedWithTheirRun) {
  options_.program_iterations = 3;
  options_.program_warmup = 1;
  options_.iterations = 2;
  options_.warmup = 1;
  const Found found = run({4, {}, 0});
  ASSERT_EQ(found.failures.size(), 1u);
  EXPECT_THAT(found.failures.front(), HasSubstr("measured operation 1 of 2, run 1 of 3: "));
  const Found before = run({1, {}, 0});
  ASSERT_EQ(before.failures.size(), 1u);
  EXPECT_THAT(before.failures.front(), HasSubstr("operation 1 of 2, warm-up run 1 of 1: "));
}

TEST_F(ResultCheckTest, RepetitionsOfAStreamAreComparedEach) {
  BlockOptions stream = options_.block;
  stream.operations_per_iteration = 3;
  options_.streams = {stream, options_.block};
  options_.operations.clear();
  const Found whole = run({});
  EXPECT_THAT(whole.failures, IsEmpty());
  EXPECT_THAT(whole.compared, ::testing::UnorderedElementsAre(75, 25, 75, 25));
  Damage middle{8, {0, 0, 0, 1}, 12};
  const Found found = run(middle);
  ASSERT_EQ(found.failures.size(), 1u);
  EXPECT_THAT(found.failures.front(),
              AllOf(HasSubstr("measured operation 4 of 20, repetition 2 of 3: "),
                    HasSubstr("output element 3 (byte 12) is ")));
  EXPECT_THAT(found.compared, ::testing::UnorderedElementsAre(25, 75, 25))
      << "the other block passes";
}

}  // namespace
}  // namespace neuron::nccom
