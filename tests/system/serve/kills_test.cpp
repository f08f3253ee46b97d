// SPDX-License-Identifier: Apache-2.0
// A daemon that is killed under load, again and again: requests get 503, and no answer is wrong.
//
// NEURON_TEST_KILLS says how many kills each way of copying gets. The next daemon is started while
// the present one serves, and takes its place in the file system when that one is dead: a round
// takes as long as the server needs to come back. Every client asks another question each time, so
// that an answer to an earlier one, or to somebody else's, is seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "tests/system/serve/served.h"

namespace neuron::serve_test {
namespace {

using ::testing::HasSubstr;

constexpr int kKills = 6;
constexpr size_t kPool = 96;  // rows of each model that are asked for
constexpr size_t kWidth = 1024;
using Summand = std::array<float, kWidth>;

int kills() {
  const char* text = std::getenv("NEURON_TEST_KILLS");
  return text != nullptr ? std::atoi(text) : kKills;
}

// A row of the inputs of tensor_add; the sums are exact to the bit by definition.
struct Sums {
  std::vector<Summand> a, b, sum;
  Sums() : a(kPool), b(kPool), sum(kPool) {
    std::mt19937 random(7);
    std::uniform_real_distribution<float> number(-1000, 1000);
    for (size_t row = 0; row < kPool; ++row) {
      for (size_t i = 0; i < kWidth; ++i) {
        a[row][i] = number(random);
        b[row][i] = number(random);
        sum[row][i] = a[row][i] + b[row][i];
      }
    }
  }
};

// Clients that ask all the time, until they are told to stop or one of them got a wrong answer.
class Load {
 public:
  struct Counts {
    std::atomic<long> requests{0}, right{0}, refused{0};
    std::atomic<double> longest{0};  // seconds, of a request
  };

  // `corrupted`: the number of an answer to each client in which a bit is turned, 0: of none.
  explicit Load(const Served& served, long corrupted = 0)
      : served_(served), corrupted_(corrupted), rows_(random_rows(kPool, 11)) {
    truth_ = Truth::get().of(rows_);
    for (uint32_t client = 0; client < 2; ++client) {
      threads_.emplace_back([this, client] { ask_digits(client); });
      threads_.emplace_back([this, client] { ask_sums(client + 100); });
    }
  }
  ~Load() { stop(); }
  void stop() {
    end_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  // Until both models have answered so often more, or an answer was wrong.
  bool answered(long more) {
    const long digits = digits_.right + more, sums = sums_.right + more;
    return test::eventually(
        [&] { return (digits_.right >= digits && sums_.right >= sums) || bad_; });
  }
  long requests() const { return digits_.requests + sums_.requests; }
  long right() const { return digits_.right + sums_.right; }
  long refused() const { return digits_.refused + sums_.refused; }
  double longest() const { return std::max(digits_.longest.load(), sums_.longest.load()); }
  bool bad() const { return bad_; }
  std::string wrong() {
    const std::lock_guard lock(mutex_);
    return wrong_;
  }

 private:
  void ask_digits(uint32_t seed) {
    std::mt19937 random(seed);
    ask(digits_, "digits", random, [&](const std::vector<size_t>& chosen) {
      return std::pair(binary(pick(rows_, chosen)), [this, chosen](const Answer& answer) {
        return verdict(answer, pick(truth_, chosen), truth_);
      });
    });
  }
  void ask_sums(uint32_t seed) {
    std::mt19937 random(seed);
    ask(sums_, "add", random, [&](const std::vector<size_t>& chosen) {
      return std::pair(binary(pick(summands_.a, chosen)) + binary(pick(summands_.b, chosen)),
                       [this, chosen](const Answer& answer) {
                         return verdict(answer, pick(summands_.sum, chosen), summands_.sum);
                       });
    });
  }
  template <class Vector>
  static std::vector<Vector> pick(const std::vector<Vector>& all, const std::vector<size_t>& some) {
    std::vector<Vector> result;
    for (const size_t row : some) result.push_back(all[row]);
    return result;
  }
  template <class Question>
  void ask(Counts& counts, const char* model, std::mt19937& random, const Question& question) {
    Client client = served_.client();
    long answers = 0;
    const std::string path = std::string("/v1/models/") + model + "/infer";
    while (!end_ && !bad_) {
      std::vector<size_t> chosen(1 + random() % 4);
      for (size_t& row : chosen) row = random() % kPool;
      const auto [body, judge] = question(chosen);
      const auto asked = test::Clock::now();
      Answer answer = client.post(path, body, "application/octet-stream");
      const double seconds = std::chrono::duration<double>(test::Clock::now() - asked).count();
      if (seconds > counts.longest) counts.longest = seconds;
      ++counts.requests;
      if (answer.status == 503 && !answer.header("Retry-After").empty()) {
        ++counts.refused;
        ::usleep(1'000);
        continue;
      }
      if (++answers == corrupted_) answer.body.back() = static_cast<char>(answer.body.back() ^ 1);
      const std::string sentence = judge(answer);
      if (sentence.empty()) {
        ++counts.right;
        continue;
      }
      const std::lock_guard lock(mutex_);
      wrong_ += std::string(model) + ": " + sentence;
      bad_ = true;
    }
  }

  const Served& served_;
  const long corrupted_;
  const std::vector<Row> rows_;
  const Sums summands_;
  std::vector<Probabilities> truth_;
  std::atomic<bool> end_{false}, bad_{false};
  Counts digits_, sums_;
  std::mutex mutex_;  // wrong_
  std::string wrong_;
  std::vector<std::thread> threads_;
};

// A daemon that serves at one path, and the next one, which waits at another.
class Relay {
 public:
  Relay() {
    present_ = start();
    take_place();
    next_ = start();
  }
  std::string emulator() const { return "unix:" + path(); }
  // Kills the one that serves. `pause`: how long nobody serves.
  void kill(std::chrono::microseconds pause) {
    present_->process().kill();
    base::sleep_for(pause);
    std::swap(present_, next_);
    take_place();
    next_.reset();
  }
  void prepare() {
    if (next_ == nullptr) next_ = start();
  }

 private:
  std::string path() const { return folder_.path("device"); }
  std::unique_ptr<test::Daemon> start() {
    test::Daemon::Options options;
    options.name = "waiting" + std::to_string(++started_ % 2);
    return std::make_unique<test::Daemon>(folder_, "trn1.2xlarge", options);
  }
  void take_place() { std::filesystem::rename(present_->socket(), path()); }

  const test::Folder folder_;
  int started_ = 0;
  std::unique_ptr<test::Daemon> present_, next_;
};

// The tensors of one model fit a message, those of the other are copied in one of the two ways.
void copy_models(const test::Folder& folder) {
  std::filesystem::copy_file(kDigits, folder.path("digits.neff"));
  std::filesystem::copy_file(test::built("neff/tensor_add.neff"), folder.path("add.neff"));
}

class ManyKills : public testing::TestWithParam<const char*> {};

TEST(Kills, CountAnAnswerAsWrongInWhichOneBitWasTurnedOnTheWay) {
  const test::Folder models;
  copy_models(models);
  const Served served(models, {"--batched", "digits,add", "--request-timeout", "60s"}, {});
  ASSERT_NE(served.port(), 0) << served.log();
  Load load(served, 5);
  EXPECT_TRUE(test::eventually([&] { return load.bad(); }));
  load.stop();
  EXPECT_THAT(load.wrong(), HasSubstr("differs from element "));
  EXPECT_LT(load.right() + load.refused(), load.requests());
}

TEST(Kills, ThatMeetNoRequestAreNoticedThoughTheNextDaemonIsThereAtOnce) {
  Relay relay;
  const Served served({}, {{"NEURON_EMULATOR", relay.emulator()}});
  ASSERT_NE(served.port(), 0) << served.log();
  relay.kill(std::chrono::microseconds(0));
  EXPECT_TRUE(test::eventually([&] { return served.metric("attachments_total") == 2; }))
      << served.log();
  EXPECT_TRUE(served.wait_for("/readyz", 200)) << served.log();
  const std::vector<Row> rows = random_rows(3, 1);
  EXPECT_EQ(verdict(served.infer(rows), Truth::get().of(rows)), "");
}

TEST_P(ManyKills, UnderLoadCostAnswersAndNeverRightness) {
  const test::Folder models;
  copy_models(models);
  Relay relay;
  const Served served(
      models, {"--batched", "digits,add", "--request-timeout", "60s"},
      {{"NEURON_EMULATOR", relay.emulator()}, {"NEURON_EMULATOR_COPY", GetParam()}});
  ASSERT_NE(served.port(), 0) << served.log();
  Load load(served);
  ASSERT_TRUE(load.answered(20)) << served.log();
  std::mt19937 random(std::random_device{}());
  const auto start = test::Clock::now();
  const int wanted = kills();
  int killed = 0;
  for (; killed < wanted && !load.bad(); ++killed) {
    relay.prepare();
    // Most die while they answer, some while models are being loaded or before anybody came.
    if (random() % 8 != 0) {
      ASSERT_TRUE(load.answered(1)) << served.log();
      base::sleep_for(std::chrono::microseconds(random() % 4'000));
    } else {
      base::sleep_for(std::chrono::microseconds(random() % 40'000));
    }
    relay.kill(std::chrono::microseconds(random() % 8 != 0 ? 0 : random() % 20'000));
    if (killed % 500 == 499) {
      std::printf("%d kills, %ld requests, %ld right, %ld refused\n", killed + 1, load.requests(),
                  load.right(), load.refused());
      std::fflush(stdout);
    }
  }
  EXPECT_TRUE(load.answered(20)) << served.log();
  load.stop();
  EXPECT_EQ(load.wrong(), "");
  EXPECT_EQ(load.requests(), load.right() + load.refused());
  EXPECT_GT(load.refused(), 0) << "nobody was asked while there was no device";
  // A daemon that dies before the server came to it costs no attachment.
  EXPECT_GE(served.metric("attachments_total"), 1 + killed / 2);
  std::printf(
      "copies by %s: %d kills in %.1f s, %ld requests, %ld right, %ld refused, the longest "
      "took %.2f s, %s\n",
      GetParam(), killed, std::chrono::duration<double>(test::Clock::now() - start).count(),
      load.requests(), load.right(), load.refused(), load.longest(),
      load.bad() ? "and WRONG answers" : "0 wrong answers");
}

INSTANTIATE_TEST_SUITE_P(CopiesBy, ManyKills, testing::Values("mapping", "descriptors"),
                         [](const auto& way) { return std::string(way.param); });

}  // namespace
}  // namespace neuron::serve_test
