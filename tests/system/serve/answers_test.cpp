// SPDX-License-Identifier: Apache-2.0
// What a working server answers: inferences in both forms, models, health, counters, reloads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json.hpp>
#include <thread>

#include "tests/system/serve/served.h"

namespace neuron::serve_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(Answers, AreThoseOfLibnrtInBothForms) {
  const Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  const std::vector<Row> rows = random_rows(7, 1);
  const std::vector<Probabilities> truth = Truth::get().of(rows);
  Client client = served.client();
  const Answer raw = client.post(kInfer, binary(rows), "application/octet-stream");
  ASSERT_EQ(raw.status, 200u) << raw.body;
  EXPECT_EQ(verdict(raw, truth), "");
  EXPECT_EQ(raw.header("X-Tensors"), "probabilities:float32:7,10");
  EXPECT_EQ(raw.header("X-Batch-Rows"), "7");
  const Answer text = client.post(kInfer, json(rows));
  ASSERT_EQ(text.status, 200u) << text.body;
  const auto value = boost::json::parse(text.body);
  const auto& found = value.at("outputs").at("probabilities").as_array();
  ASSERT_EQ(found.size(), 7u);
  for (size_t row = 0; row < 7; ++row) {
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_EQ(static_cast<float>(found[row].at(i).to_number<double>()), truth[row][i]);
    }
  }
  EXPECT_GT(value.at("timing").at("device_us").to_number<double>(), 0);
  EXPECT_EQ(value.at("timing").at("batch_rows").to_number<int>(), 7);
}

TEST(Answers, OfRequestsThatShareBatchesStayApart) {
  const Served served({"--latency-budget", "20ms"});
  ASSERT_NE(served.port(), 0) << served.log();
  constexpr int kClients = 8, kRequests = 20;
  std::vector<std::vector<std::vector<Row>>> asked(kClients);
  std::vector<std::vector<Answer>> got(kClients);
  std::vector<std::thread> threads;
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      Client client = served.client();
      for (int i = 0; i < kRequests; ++i) {
        asked[c].push_back(random_rows(1 + (c + i) % 5, c * 1000 + i));
        got[c].push_back(client.post(kInfer, binary(asked[c].back()), "application/octet-stream"));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int c = 0; c < kClients; ++c) {
    for (int i = 0; i < kRequests; ++i) {
      EXPECT_EQ(verdict(got[c][i], Truth::get().of(asked[c][i])), "") << c << ", " << i;
    }
  }
  const double batches = served.metric("batches_total{model=\"digits\",core=\"0\"}");
  EXPECT_GT(batches, 0);
  EXPECT_LT(batches, kClients * kRequests) << "no batch had two requests";
}

TEST(Answers, OfTheServingModelAreThoseOfTheOtherToTheBit) {
  const test::Folder folder;
  std::filesystem::copy_file(NEURON_BUILD_DIR "/neff/digits_serving.neff",
                             folder.path() + "/digits.neff");
  const Served served(folder, {"--batched", "digits"}, {});
  ASSERT_NE(served.port(), 0) << served.log();
  const std::vector<Row> rows = random_rows(32, 8);
  const auto answer = served.infer(rows);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(verdict(answer, Truth::get().of(rows)), "");
}

TEST(Answers, OfAWholeBatchAndOfOneRowAreTaken) {
  const Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  const auto model = boost::json::parse(served.get("/v1/models/digits").body);
  const auto batch = model.at("batch").to_number<size_t>();
  for (const size_t count : {size_t{1}, batch}) {
    const std::vector<Row> rows = random_rows(count, 3);
    const Answer answer = served.infer(rows);
    ASSERT_EQ(answer.status, 200u) << answer.body;
    EXPECT_EQ(verdict(answer, Truth::get().of(rows)), "");
  }
  const Answer more = served.infer(random_rows(batch + 1, 3));
  EXPECT_EQ(more.status, 400u);
  EXPECT_THAT(more.body, HasSubstr("1 to " + std::to_string(batch)));
}

TEST(Answers, DescribeModelsHealthAndCounters) {
  const Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  const Answer models = served.get("/v1/models");
  EXPECT_EQ(models.status, 200u);
  const auto list = boost::json::parse(models.body);
  EXPECT_EQ(list.at("state").as_string(), "ready");
  const auto& digits = list.at("models").at(0);
  EXPECT_EQ(digits.at("name").as_string(), "digits");
  EXPECT_EQ(digits.at("inputs").at(0).at("name").as_string(), "x");
  EXPECT_EQ(digits.at("inputs").at(0).at("dtype").as_string(), "float32");
  EXPECT_EQ(digits.at("inputs").at(0).at("shape").at(1).to_number<int>(), 64);
  EXPECT_EQ(served.get("/healthz").status, 200u);
  EXPECT_EQ(served.get("/readyz").status, 200u);
  EXPECT_EQ(served.get("/v1/models/nothing").status, 404u);
  EXPECT_EQ(served.get("/nothing").status, 404u);
  EXPECT_EQ(served.infer(random_rows(3, 1)).status, 200u);
  EXPECT_EQ(served.metric("rows_total{model=\"digits\",core=\"0\"}"), 3);
  EXPECT_EQ(served.metric("batches_total{model=\"digits\",core=\"0\"}"), 1);
  EXPECT_EQ(served.metric("latency_seconds_count{model=\"digits\"}"), 1);
  EXPECT_EQ(served.metric("http_responses_total{code=\"404\"}"), 2);
  EXPECT_EQ(served.metric("ready"), 1);
  const auto status = boost::json::parse(served.get("/v1/status").body);
  EXPECT_EQ(status.at("replicas").at(0).at("rows").to_number<int>(), 3);
  EXPECT_GT(status.at("replicas").at(0).at("device_us").to_number<double>(), 0);
}

TEST(Answers, ToHeadHaveTheLengthAndNoBody) {
  const Served served;
  Client client = served.client();
  const Answer head = client.ask("HEAD", "/");
  EXPECT_EQ(head.status, 200u);
  EXPECT_GT(std::stoul(head.header("Content-Length")), 1000u);
  const Answer page = client.get("/");
  EXPECT_EQ(page.status, 200u);
  EXPECT_THAT(page.header("Content-Type"), StartsWith("text/html"));
  EXPECT_THAT(page.body, HasSubstr("<canvas"));
  EXPECT_THAT(page.body, Not(HasSubstr("http://")));
  EXPECT_THAT(page.body, Not(HasSubstr("https://")));
}

TEST(Answers, ToPipelinedRequestsComeInOrder) {
  const Served served;
  Client client = served.client();
  const std::vector<Row> first = random_rows(1, 11), second = random_rows(2, 12);
  std::string requests;
  for (const auto& rows : {first, second}) {
    requests += "POST " + std::string(kInfer) +
                " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
                "Content-Length: " +
                std::to_string(rows.size() * sizeof(Row)) + "\r\n\r\n" + binary(rows);
  }
  ASSERT_TRUE(client.send(requests +
                          "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(verdict(client.receive(), Truth::get().of(first)), "");
  EXPECT_EQ(verdict(client.receive(), Truth::get().of(second)), "");
  EXPECT_EQ(client.receive().body, "alive\n");
  EXPECT_TRUE(client.closed());
}

// The server reads on while it parses what came before. Requests are equally long, so that one
// which is read from the place of another one is a right request, with a wrong answer.
TEST(Answers, AreOfTheRequestThatWasSentAfterPipelinedOnes) {
  const Served served;
  Client client = served.client();
  const auto request = [](const std::vector<Row>& rows) {
    return "POST " + std::string(kInfer) +
           " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\n"
           "Content-Length: " +
           std::to_string(rows.size() * sizeof(Row)) + "\r\n\r\n" + binary(rows);
  };
  for (uint32_t round = 0; round < 20; ++round) {
    const std::vector<Row> first = random_rows(1, 100 + round),
                           second = random_rows(1, 200 + round),
                           third = random_rows(1, 300 + round);
    ASSERT_TRUE(client.send(request(first) + request(second)));
    ASSERT_EQ(verdict(client.receive(), Truth::get().of(first)), "") << round;
    ASSERT_EQ(verdict(client.receive(), Truth::get().of(second)), "") << round;
    ASSERT_TRUE(client.send(request(third)));
    ASSERT_EQ(verdict(client.receive(), Truth::get().of(third)), "") << round;
  }
}

TEST(Answers, ComeAtOnceToALonelyClient) {
  const Served served({"--latency-budget", "10s"});
  ASSERT_NE(served.port(), 0) << served.log();
  const auto start = test::Clock::now();
  EXPECT_EQ(served.infer(random_rows(1, 1)).status, 200u);
  EXPECT_EQ(served.infer(random_rows(1, 2)).status, 200u);
  EXPECT_LT(test::Clock::now() - start, std::chrono::seconds(5));
}

TEST(Reload, ReplacesAddsAndRemovesModelsWhileTheyAreAsked) {
  Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  std::atomic<bool> end{false};
  std::atomic<bool> ended{false};
  std::atomic<int> answers{0};
  std::string wrong;  // the asker's until it has ended
  const std::vector<Row> rows = random_rows(2, 5);
  const std::vector<Probabilities> truth = Truth::get().of(rows);
  std::thread asker([&] {
    Client client = served.client();
    while (!end && wrong.empty()) {
      const Answer answer = client.post(kInfer, binary(rows), "application/octet-stream");
      wrong = verdict(answer, truth);
      ++answers;
    }
    ended = true;
  });
  Client client = served.client();
  EXPECT_THAT(served.reload().body, HasSubstr("\"digits\":\"unchanged\""));
  for (int i = 0; i < 3; ++i) {
    std::filesystem::copy_file(NEURON_BUILD_DIR "/neff/digits.neff", served.models + "/new",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::rename(served.models + "/new", served.models + "/digits.neff");
    const Answer reloaded = served.reload();
    EXPECT_EQ(reloaded.status, 200u);
    EXPECT_THAT(reloaded.body, HasSubstr("\"digits\":\"replaced\""));
  }
  std::filesystem::copy_file(NEURON_BUILD_DIR "/neff/empty.neff", served.models + "/empty.neff");
  served.process().signal(SIGHUP);
  EXPECT_TRUE(served.wait_for("/v1/models/empty", 200));
  std::filesystem::remove(served.models + "/empty.neff");
  EXPECT_THAT(served.reload().body, HasSubstr("\"empty\":\"removed\""));
  EXPECT_EQ(client.get("/v1/models/empty").status, 404u);
  const int before = answers;
  while (answers < before + 5 && !ended) ::usleep(1000);
  end = true;
  asker.join();
  EXPECT_EQ(wrong, "");
}

TEST(Reload, KeepsWhatWorksWhenTheNewFileIsBroken) {
  const Served served;
  ASSERT_NE(served.port(), 0) << served.log();
  test::write_file(served.models + "/digits.neff", "this is no NEFF");
  Client client = served.client();
  const Answer reloaded = served.reload();
  EXPECT_EQ(reloaded.status, 500u);
  EXPECT_THAT(reloaded.body, HasSubstr("failed: loading "));
  const std::vector<Row> rows = random_rows(1, 9);
  EXPECT_EQ(verdict(served.infer(rows), Truth::get().of(rows)), "");
  EXPECT_THAT(client.get("/v1/models").body, HasSubstr("\"failed\":[{\"name\":\"digits\""));
}

TEST(Reload, ServesTheOthersWhenOneFileIsBrokenFromTheStart) {
  const test::Folder folder;
  std::filesystem::copy_file(NEURON_BUILD_DIR "/neff/digits.neff", folder.path() + "/digits.neff");
  test::write_file(folder.path() + "/bad.neff", std::string(5000, 'x'));
  test::write_file(folder.path() + "/mistaken.neff", "x");
  test::write_file(folder.path() + "/mistaken.json", "{\"batch\": 3}");
  const Served served(folder, {"--batched", "digits"}, {});
  ASSERT_NE(served.port(), 0) << served.log();
  const std::vector<Row> rows = random_rows(1, 9);
  EXPECT_EQ(verdict(served.infer(rows), Truth::get().of(rows)), "");
  EXPECT_EQ(served.get("/v1/models/bad").status, 503u);
  EXPECT_THAT(served.get("/v1/models/mistaken").body, HasSubstr("field \\\"batch\\\""));
}

TEST(Reload, TakesWholeTensorsOnlyUnlessAModelSaysThatItsRowsAreIndependent) {
  const test::Folder folder;
  std::filesystem::copy_file(NEURON_BUILD_DIR "/neff/digits.neff", folder.path() + "/digits.neff");
  const Served served(folder, {}, {});
  ASSERT_NE(served.port(), 0) << served.log();
  EXPECT_EQ(served.infer(random_rows(1, 9)).status, 400u);
  const std::vector<Row> rows = random_rows(120, 9);
  EXPECT_EQ(verdict(served.infer(rows), Truth::get().of(rows)), "");
  const Answer text = served.client().post(kInfer, json(rows));
  EXPECT_EQ(text.status, 200u) << text.body;
}

}  // namespace
}  // namespace neuron::serve_test
