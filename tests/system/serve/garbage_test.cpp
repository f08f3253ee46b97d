// SPDX-License-Identifier: Apache-2.0
// What clients, disks, pipes and devices do wrong, and that the rest goes on rightly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <boost/json.hpp>
#include <cmath>
#include <functional>
#include <numeric>
#include <thread>

#include "tests/system/serve/served.h"

namespace neuron::serve_test {
namespace {

using test::eventually;
using test::write_file;
using ::testing::HasSubstr;
using ::testing::Not;

std::string request_for(const std::vector<Row>& rows) {
  const std::string body = binary(rows);
  return "POST " + std::string(kInfer) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
         "application/octet-stream\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

void expect_right(const Served& served, size_t count = 2) {
  const std::vector<Row> rows = random_rows(count, 77);
  const Answer answer = served.infer(rows);
  EXPECT_EQ(answer.status, 200u) << answer.body;
  EXPECT_EQ(verdict(answer, Truth::get().of(rows)), "");
}

// A server on a socket of this test, because nobody can read what it prints.
class Mute {
 public:
  // `outputs`: where the shell sends them, for example ">/dev/full".
  explicit Mute(const std::string& outputs) {
    std::filesystem::copy_file(kDigits, folder_.path("digits.neff"));
    process_ = listening_.serve(
        "--batched digits --models " + folder_.path() + " --control " + folder_.path("control"),
        folder_.path("log"), outputs);
  }
  Client client() const { return Client(listening_.port()); }
  Answer reload() const { return Client(folder_.path("control")).post("/v1/reload", ""); }
  const std::string& models() const { return folder_.path(); }
  test::Process& process() { return *process_; }
  void expect_right() const {
    EXPECT_TRUE(eventually([&] { return client().get("/readyz").status == 200; }));
    const std::vector<Row> rows = random_rows(3, 5);
    const Answer answer = client().post(kInfer, binary(rows), "application/octet-stream");
    EXPECT_EQ(answer.status, 200u) << answer.body;
    EXPECT_EQ(verdict(answer, Truth::get().of(rows)), "");
  }

 private:
  test::Folder folder_;
  Listening listening_;
  std::unique_ptr<test::Process> process_;
};

TEST(Garbage, ABatchedModelThatTheFolderDoesNotHaveIsNamedAtTheStart) {
  Served served({"--batched", "nosuch"}, {}, false);
  EXPECT_NE(served.ending(), 0);
  EXPECT_THAT(served.log(), HasSubstr("--batched names the model nosuch, and "));
}

TEST(Garbage, ANeffThatIsCutOffAnywhereLeavesWhatWasLoaded) {
  const Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  const std::string whole = test::read_file(kDigits);
  for (const size_t length :
       {size_t{0}, size_t{1}, size_t{511}, size_t{1023}, size_t{1024}, size_t{1025},
        whole.size() / 4, whole.size() / 2, whole.size() - 2000}) {
    write_file(served.models + "/digits.neff", whole.substr(0, length));
    const Answer reloaded = served.reload();
    EXPECT_EQ(reloaded.status, 500u) << length << ": " << reloaded.body;
    EXPECT_THAT(reloaded.body, HasSubstr("\"digits\":\"failed: loading " + served.models));
    expect_right(served);
  }
  write_file(served.models + "/digits.neff", whole);
  EXPECT_THAT(served.reload().body, HasSubstr("\"digits\":\"replaced\""));
  expect_right(served);
  EXPECT_EQ(served.metric("http_responses_total{code=\"500\"}"), 9);
}

TEST(Garbage, AnExecutionThatFailsIsToldOnceWithItsModel) {
  const Served served({}, {{"NEURON_FAIL_ON_NAN", "1"}});
  ASSERT_NE(served.port(), 0) << served.log();
  std::vector<Row> rows = random_rows(1, 1);
  rows[0][0] = std::nanf("");
  EXPECT_EQ(served.infer(rows).status, 500u);
  EXPECT_THAT(served.log(), HasSubstr("neuron-serve: model digits: an execution for 1 request "
                                      "failed: executing the model on core 0: nrt_execute: "));
  EXPECT_THAT(served.log(), Not(HasSubstr("ERROR NRT")));
  expect_right(served);
}

TEST(Garbage, AFileThatIsNoNeffIsToldOnceAtTheStart) {
  const test::Folder folder;
  folder.write("models/bad.neff", "no NEFF");
  const Served served(folder.path("models"), {}, {});
  EXPECT_EQ(served.port(), 0);
  const std::string log = served.log();
  EXPECT_THAT(log, HasSubstr("model bad cannot be loaded: loading "));
  EXPECT_EQ(log.find("a NEFF begins with"), log.rfind("a NEFF begins with")) << log;
}

TEST(Garbage, ADiskThatWasFullDuringTheCopyIsAReloadThatFailsAndWorksWhenRepeated) {
  const Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  // The shell's limit of what a file may hold ends the copy as a full disk does.
  const std::string copy = "cp " + kDigits + " " + served.models + "/digits.neff 2>/dev/null";
  EXPECT_NE(test::shell("trap '' XFSZ; ulimit -f 20; " + copy).ending, 0);
  ASSERT_EQ(std::filesystem::file_size(served.models + "/digits.neff") % 512, 0u);
  EXPECT_EQ(served.reload().status, 500u);
  expect_right(served);
  EXPECT_EQ(test::shell(copy).ending, 0);
  EXPECT_EQ(served.reload().status, 200u);
  expect_right(served);
}

TEST(Garbage, WhatCannotBeSaidOnAFullDiskIsNotSaidAndTheRestGoesOn) {
  Mute mute(">/dev/full 2>/dev/full");
  mute.expect_right();
  write_file(mute.models() + "/digits.neff", "cut off");
  EXPECT_EQ(mute.reload().status, 500u);
  mute.expect_right();
  EXPECT_EQ(mute.process().stop(), 0);
}

TEST(Garbage, PipesThatNobodyReadsDoNotEndTheServer) {
  int unread[2];
  ASSERT_EQ(::pipe(unread), 0);
  Mute mute(">&" + std::to_string(unread[1]) + " 2>&1");
  ::close(unread[0]);
  ::close(unread[1]);
  mute.expect_right();
  mute.process().signal(SIGHUP);
  mute.expect_right();
  EXPECT_EQ(mute.process().stop(), 0);
}

TEST(Garbage, ClientsThatGoInTheMiddleHarmNobody) {
  const Served served({"--latency-budget", "20ms"});
  ASSERT_NE(served.port(), 0) << served.log();
  const std::string whole = request_for(random_rows(4, 3));
  for (int i = 0; i < 60; ++i) {
    Client client = served.client();
    // Behind every part of the request, and behind all of it, before the answer.
    const size_t length = i % 3 == 0 ? whole.size() : whole.size() * i / 60;
    EXPECT_TRUE(client.send(whole.substr(0, length)));
    if (i % 2 == 0) client.reset();
  }
  expect_right(served);
  EXPECT_TRUE(eventually([&] { return served.metric("connections") == 1; })) << served.log();
  EXPECT_EQ(served.metric("queue_rows{model=\"digits\"}"), 0);
}

TEST(Garbage, AClientThatDoesNotReadItsAnswersIsClosedAndOthersDoNotWaitForIt) {
  const Served served({"--client-timeout", "300ms"});
  ASSERT_NE(served.port(), 0) << served.log();
  Client greedy = served.client();
  std::string requests;
  for (int i = 0; i < 2'000; ++i) requests += "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_TRUE(greedy.send(requests));
  expect_right(served);
  EXPECT_TRUE(eventually([&] { return served.metric("connections") == 1; })) << served.log();
  EXPECT_LT(served.metric("http_responses_total{code=\"200\"}"), 2'000);
  expect_right(served);
}

TEST(Garbage, AThousandConnectionsAreAllAnsweredRightly) {
  constexpr int kClients = 1'000;
  rlimit limit = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, 4'096));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  // It waits for as long as a thousand answers may take a busy machine.
  const Served served({"--queue-limit", "2000", "--request-timeout", "60s"});
  ASSERT_NE(served.port(), 0) << served.log();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Client>(served.port()));
    ASSERT_TRUE(clients.back()->connected());
  }
  const std::vector<Row> rows = random_rows(kClients, 21);
  const std::vector<Probabilities> truth = Truth::get().of(rows);
  for (int i = 0; i < kClients; ++i) EXPECT_TRUE(clients[i]->send(request_for({rows[i]})));
  int right = 0;
  for (int i = 0; i < kClients; ++i) {
    const Answer answer = clients[i]->receive();
    EXPECT_EQ(answer.status, 200u) << answer.body;
    const std::string wrong = verdict(answer, std::vector<Probabilities>{truth[i]}, truth);
    EXPECT_EQ(wrong, "") << i;
    right += wrong.empty();
  }
  EXPECT_EQ(right, kClients);
  EXPECT_EQ(served.metric("rows_total{model=\"digits\",core=\"0\"}"), kClients);
  EXPECT_LT(served.metric("batches_total{model=\"digits\",core=\"0\"}"), kClients);
}

TEST(Garbage, ADrainUnderLoadAnswersWhatItReadAndBreaksOffNoAnswer) {
  Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  constexpr int kClients = 8;
  std::atomic<int> right{0};
  std::vector<std::string> wrong(kClients);
  const std::vector<Row> rows = random_rows(3, 6);
  const std::vector<Probabilities> truth = Truth::get().of(rows);
  std::vector<std::thread> threads;
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      Client client = served.client();
      // bounded: until the server closes the connection
      while (wrong[c].empty() && client.send(request_for(rows))) {
        const Answer answer = client.receive();
        if (answer.status == 0) {
          if (client.pending() != 0) wrong[c] = "a part of an answer";
          return;
        }
        wrong[c] = verdict(answer, truth);
        ++right;
        if (answer.header("Connection") == "close") return;
      }
    });
  }
  EXPECT_TRUE(eventually([&] { return right > 50; })) << served.log();
  served.process().signal(SIGTERM);
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
  EXPECT_EQ(served.ending(), 0) << served.log();
  EXPECT_THAT(served.log(), Not(HasSubstr("did not finish in time")));
}

TEST(Garbage, AnEndThatComesWhileModelsAreReplacedIsOne) {
  for (int round = 0; round < 4; ++round) {
    Served served;
    ASSERT_NE(served.port(), 0) << served.log();
    std::filesystem::last_write_time(served.models + "/digits.neff",
                                     std::filesystem::file_time_type::clock::now());
    served.process().signal(SIGHUP);
    ::usleep(static_cast<useconds_t>(round) * 3'000);
    served.process().signal(SIGTERM);
    EXPECT_TRUE(eventually([&] { return served.process().ended(); })) << served.log();
    EXPECT_EQ(served.ending(), 0) << served.log();
  }
}

TEST(Garbage, TwoModelsOnTwoCoresAreAskedAtOnceAndOneThatIsBrokenIsAlone) {
  const test::Folder folder;
  std::filesystem::copy_file(kDigits, folder.path("digits.neff"));
  std::filesystem::copy_file(test::built("neff/tensor_add.neff"), folder.path("add.neff"));
  const Served served(folder, {"--batched", "digits"}, {});
  ASSERT_NE(served.port(), 0) << served.log();
  const auto add = boost::json::parse(served.get("/v1/models/add").body);
  const auto& shape = add.at("inputs").at(0).at("shape");
  const size_t items = shape.at(0).to_number<size_t>() * shape.at(1).to_number<size_t>();
  const auto digits = boost::json::parse(served.get("/v1/models/digits").body);
  EXPECT_NE(add.at("cores"), digits.at("cores"));
  std::vector<float> operands(2 * items);
  for (size_t i = 0; i < operands.size(); ++i) operands[i] = static_cast<float>(i % 251) + 0.5F;
  std::vector<float> sums(items);
  for (size_t i = 0; i < items; ++i) sums[i] = operands[i] + operands[items + i];
  const auto bytes = [](const std::vector<float>& of) {
    return std::string(reinterpret_cast<const char*>(of.data()), of.size() * sizeof(float));
  };
  constexpr int kTimes = 10;
  int added = 0;
  std::thread adder([&] {
    Client client = served.client();
    for (int i = 0; i < kTimes; ++i) {
      const Answer answer =
          client.post("/v1/models/add/infer", bytes(operands), "application/octet-stream");
      added += answer.status == 200 && answer.body == bytes(sums);
    }
  });
  for (int i = 0; i < kTimes; ++i) expect_right(served, 5);
  adder.join();
  EXPECT_EQ(added, kTimes);
  EXPECT_EQ(served.metric("rows_total{model=\"digits\",core=\"" +
                          boost::json::serialize(digits.at("cores").at(0)) + "\"}"),
            kTimes * 5);
  EXPECT_EQ(served.metric("latency_seconds_count{model=\"add\"}"), kTimes);
  write_file(folder.path() + "/add.neff", "broken");
  EXPECT_EQ(served.reload().status, 500u);
  expect_right(served);
  std::filesystem::remove(folder.path() + "/add.neff");
  EXPECT_EQ(served.reload().status, 200u);
  EXPECT_EQ(served.client().post("/v1/models/add/infer", "", "application/octet-stream").status,
            404u);
  expect_right(served);
}

// The smallest bound of the histogram that so many of all requests did not exceed; seconds.
double quantile(const Served& served, double part) {
  const double count = served.metric("latency_seconds_count{model=\"digits\"}");
  for (const char* bound : {"0.0005", "0.001", "0.002", "0.003", "0.005", "0.01", "0.025", "0.05",
                            "0.1", "0.25", "0.5", "1"}) {
    const double below =
        served.metric("latency_seconds_bucket{model=\"digits\",le=\"" + std::string(bound) + "\"}");
    EXPECT_GE(below, 0) << bound;
    if (below >= part * count) return std::stod(bound);
  }
  return INFINITY;
}

TEST(Garbage, TheMetricsKnowTheLatencyOfTheSlowestOfAHundred) {
  const Served served({"--latency-budget", "400ms", "--request-timeout", "60s"});
  ASSERT_NE(served.port(), 0) << served.log();
  Client client = served.client();
  std::vector<double> seconds;
  const auto ask = [&](size_t count) {
    const auto start = test::Clock::now();
    EXPECT_EQ(client.post(kInfer, binary(random_rows(count, 1)), "application/octet-stream").status,
              200u);
    seconds.push_back(std::chrono::duration<double>(test::Clock::now() - start).count());
  };
  for (int i = 0; i < 97; ++i) ask(1);
  // A crowd came before these, and each waits for as large a one: a tenth of the budget.
  for (int i = 0; i < 3; ++i) {
    ask(100);
    ask(1);
    EXPECT_GE(seconds.back(), 0.04);
  }
  std::sort(seconds.begin(), seconds.end());
  EXPECT_EQ(served.metric("latency_seconds_count{model=\"digits\"}"), 103);
  EXPECT_EQ(served.metric("latency_seconds_bucket{model=\"digits\",le=\"+Inf\"}"), 103);
  // What the server says lies within what its client saw, and bounds of the histogram.
  EXPECT_LE(served.metric("latency_seconds_sum{model=\"digits\"}"),
            std::accumulate(seconds.begin(), seconds.end(), 0.0));
  EXPECT_GE(quantile(served, 0.99), 0.05);
  EXPECT_LE(quantile(served, 0.5), std::max(2.5 * seconds[51], 0.0005));
}

class Recovery : public testing::Test {
 protected:
  Recovery() {
    std::filesystem::create_directory(models());
    copy("digits.neff");
  }
  std::string models() const { return folder_.path("models"); }
  void copy(const std::string& from) const {
    std::filesystem::copy_file(test::built("neff/" + from), models() + "/digits.neff",
                               std::filesystem::copy_options::overwrite_existing);
  }
  std::unique_ptr<Served> serve() const {
    return std::make_unique<Served>(models(), test::Words{"--batched", "digits"},
                                    test::Environment{{"NEURON_EMULATOR", daemon_.emulator()}});
  }
  void kill(const Served& served) {
    daemon_.process().kill();
    EXPECT_TRUE(served.wait_for("/readyz", 503)) << served.log();
  }
  void restart(const Served& served) {
    daemon_.restart();
    EXPECT_TRUE(served.wait_for("/readyz", 200)) << served.log();
  }

  const test::Folder folder_;
  test::Daemon daemon_{folder_};
};

TEST_F(Recovery, TakesTheFileAsItIsThenWhoseBatchesAreOthers) {
  const auto served = serve();
  ASSERT_NE(served->port(), 0) << served->log();
  expect_right(*served, 100);
  kill(*served);
  copy("digits_serving.neff");
  restart(*served);
  expect_right(*served, 32);
  EXPECT_EQ(served->infer(random_rows(100, 1)).status, 400u);
  kill(*served);
  copy("digits.neff");
  restart(*served);
  expect_right(*served, 100);
}

TEST_F(Recovery, SaysWhichModelDidNotComeBackAndServesItWhenItsFileIsThere) {
  const auto served = serve();
  ASSERT_NE(served->port(), 0) << served->log();
  std::filesystem::copy_file(models() + "/digits.neff", models() + "/other.neff");
  EXPECT_EQ(served->reload().status, 200u);
  kill(*served);
  std::filesystem::rename(models() + "/digits.neff", models() + "/away");
  restart(*served);
  EXPECT_EQ(served->get("/v1/models/other").status, 200u);
  const Answer gone = served->infer(random_rows(1, 1));
  EXPECT_EQ(gone.status, 503u);
  EXPECT_THAT(gone.body, HasSubstr("digits.neff"));
  // The very file that it was.
  std::filesystem::rename(models() + "/away", models() + "/digits.neff");
  EXPECT_EQ(served->reload().status, 200u);
  expect_right(*served);
}

TEST_F(Recovery, AReloadWithoutADeviceIsRefusedAtOnce) {
  const auto served = serve();
  ASSERT_NE(served->port(), 0) << served->log();
  kill(*served);
  const Answer refused = served->reload();
  EXPECT_EQ(refused.status, 503u);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  served->process().signal(SIGHUP);
  restart(*served);
  EXPECT_EQ(served->reload().status, 200u);
  expect_right(*served);
}

}  // namespace
}  // namespace neuron::serve_test
