// SPDX-License-Identifier: Apache-2.0
// Requests that are malformed, too large, too slow or too many: each has its status, and the
// server goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "tests/system/serve/served.h"

namespace neuron::serve_test {
namespace {

using ::testing::HasSubstr;

// One server for all that leaves it as it was.
Served& shared() {
  static Served served({"--max-body", "100000", "--max-header", "1000", "--client-timeout", "300ms",
                        "--idle-timeout", "30s"});
  return served;
}

TEST(Limits, AMalformedBodyIsToldFieldAndOffset) {
  ASSERT_NE(shared().port(), 0) << shared().log();
  const struct {
    std::string body, field;
    int offset;
    std::string message;
  } cases[] = {
      {"", "", 0, "expected '{'"},
      {"[", "", 0, "expected '{'"},
      {"{\"input\":{}}", "input", 9, "unknown field"},
      {"{\"inputs\":{\"y\":[]}}", "inputs.y", 15, "it has x"},
      {"{\"inputs\":{\"x\":[1,2,oops]}}", "inputs.x", 20, "found 'o'"},
      {"{\"inputs\":{\"x\":[1e99]}}", "inputs.x", 16, "float32 can hold, found '1e99'"},
      {"{\"inputs\":{\"x\":[nan]}}", "inputs.x", 16, "float32 can hold, found 'n'"},
      {"{\"inputs\":{\"x\":[01]}}", "inputs.x", 16, "float32 can hold"},
      {"{\"inputs\":{\"x\":[[1,2],[3]]}}", "inputs.x", 24, "a list of 1 elements"},
      {"{\"inputs\":{\"x\":[1,2]}}", "inputs.x", 15, "shape is [2]"},
      {"{\"inputs\":{\"x\":[[1],2]}}", "inputs.x", 20, "expected a list"},
      {"{\"inputs\":{\"x\":[1,[2]]}}", "inputs.x", 18, "expected a number"},
      {"{\"inputs\":{\"x\":[[[[[[[[[1]]]]]]]]]}}", "inputs.x", 23, "8 deep"},
      {"{\"inputs\":{}}", "inputs.x", 13, "missing"},
      {"{\"inputs\":{\"x\":", "inputs.x", 15, "end of the text"},
      {json({random_rows(1, 1)}) + "}", "", -1, "expected the end"},
  };
  Client client = shared().client();
  for (const auto& test : cases) {
    const Answer answer = client.post(kInfer, test.body);
    EXPECT_EQ(answer.status, 400u) << test.body;
    const auto error = boost::json::parse(answer.body).at("error").as_object();
    EXPECT_THAT(std::string(error.at("message").as_string()), HasSubstr(test.message));
    EXPECT_EQ(error.contains("field") ? std::string(error.at("field").as_string()) : "",
              test.field);
    if (test.offset >= 0) {
      EXPECT_EQ(error.at("offset").to_number<int>(), test.offset) << test.body;
    }
  }
  // The same connection still works.
  EXPECT_EQ(client.post(kInfer, json(random_rows(1, 1))).status, 200u);
}

TEST(Limits, ABinaryBodyOfAnotherSizeIsRefused) {
  Client client = shared().client();
  for (const size_t bytes : {0u, 1u, 255u, 257u}) {
    EXPECT_EQ(client.post(kInfer, std::string(bytes, '\0'), "application/octet-stream").status,
              400u);
  }
  const Answer wrong = client.post(kInfer, binary(random_rows(2, 1)), "application/octet-stream",
                                   "X-Tensors: x:float32:3,64\r\n");
  EXPECT_EQ(wrong.status, 400u);
  EXPECT_THAT(wrong.body, HasSubstr("x:float32:2,64"));
  EXPECT_EQ(client
                .post(kInfer, binary(random_rows(2, 1)), "application/octet-stream",
                      "X-Tensors: x:float32:2,64\r\n")
                .status,
            200u);
  EXPECT_EQ(client.post(kInfer, "x", "text/plain").status, 415u);
  EXPECT_EQ(client.post(kInfer, json(random_rows(1, 1)), "application/json; charset=utf-8").status,
            200u);
}

TEST(Limits, ARequestThatCouldNeverBeHeldIsTooLargeAndNotForTheTimeBeing) {
  const Served served({"--max-held", "65536"});
  ASSERT_NE(served.port(), 0) << served.log();
  // Its answer, as JSON, is counted with nine times its bytes.
  std::string body = "{\"inputs\":{\"x\":[0";
  for (int i = 1; i < 120 * 64; ++i) body += ",0";
  const Answer answer = served.client().post(kInfer, body + "]}}");
  EXPECT_EQ(answer.status, 413u) << answer.body;
  EXPECT_THAT(answer.body, HasSubstr("--max-held"));
  EXPECT_EQ(served.client().post(kInfer, json(random_rows(1, 1))).status, 200u);
}

TEST(Limits, AnExampleTakesRoomAsAnswersDo) {
  const Served served({"--max-held", "65536", "--max-body", "60000"});
  ASSERT_NE(served.port(), 0) << served.log();
  EXPECT_EQ(served.get("/v2/models/digits/example").status, 200u);
  Client holding = served.client();
  holding.send("POST " + std::string(kInfer) +
               " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n");
  ASSERT_TRUE(test::eventually([&] { return served.metric("held_bytes") >= 60000; }));
  EXPECT_EQ(served.get("/v2/models/digits/example").status, 503u);
}

TEST(Limits, OtherMethodsAreNotAllowed) {
  Client client = shared().client();
  EXPECT_EQ(client.get(kInfer).status, 405u);
  EXPECT_EQ(client.post("/healthz", "x").status, 405u);
  EXPECT_EQ(client.get("/v1/reload").status, 405u);
  EXPECT_EQ(client.ask("DELETE", "/v1/models/digits").status, 405u);
  for (const char* path : {"/v2", "/v2/health/ready", "/v2/models/digits"}) {
    for (const char* method : {"DELETE", "PUT", "POST"}) {
      EXPECT_EQ(client.ask(method, path).status, 405u) << method << ' ' << path;
    }
  }
}

TEST(Limits, ABodyThatIsTooLargeGets413BeforeItIsSent) {
  Client client = shared().client();
  client.send(
      "POST " + std::string(kInfer) +
      " HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 100001\r\n\r\n");
  const Answer answer = client.receive();
  EXPECT_EQ(answer.status, 413u);
  EXPECT_THAT(answer.body, HasSubstr("--max-body"));
  EXPECT_EQ(answer.header("Connection"), "close");
  Client chunked = shared().client();
  chunked.send("POST " + std::string(kInfer) +
               " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n" +
               std::string(0x20000, 'x') + "\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.receive().status, 413u);
  // A body of nearly that size, in chunks, is none.
  Client fits = shared().client();
  const std::string body = json(random_rows(1, 1));
  char size[16];
  std::snprintf(size, sizeof(size), "%zx\r\n", body.size());
  fits.send("POST " + std::string(kInfer) +
            " HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + size + body +
            "\r\n0\r\n\r\n");
  EXPECT_EQ(fits.receive().status, 200u);
}

TEST(Limits, AClientThatWaitsForItIsToldToContinue) {
  Client client = shared().client();
  const std::string body = json(random_rows(1, 1));
  client.send("POST " + std::string(kInfer) +
              " HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.receive(true).status, 100u);
  client.send(body);
  EXPECT_EQ(client.receive().status, 200u);
}

TEST(Limits, AHeaderThatIsTooLargeGets431) {
  EXPECT_EQ(shared().client().ask("GET", "/", "", "X: " + std::string(2000, 'x') + "\r\n").status,
            431u);
}

TEST(Limits, WhatIsNoHttpGets400) {
  Client client = shared().client();
  client.send("hello there\r\n\r\n");
  EXPECT_EQ(client.receive().status, 400u);
  EXPECT_TRUE(client.closed());
  Client length = shared().client();
  length.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: many\r\n\r\n");
  EXPECT_EQ(length.receive().status, 400u);
}

TEST(Limits, AClientThatIsTooSlowGets408AndAnIdleOneDoesNot) {
  Client idle = shared().client();
  Client header = shared().client();
  header.send("GET / HT");
  Client body = shared().client();
  body.send("POST " + std::string(kInfer) +
            " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{");
  EXPECT_EQ(header.receive().status, 408u);
  EXPECT_TRUE(header.closed());
  EXPECT_EQ(body.receive().status, 408u);
  // What comes too late is not answered a second time.
  body.send("\"inputs\"");
  EXPECT_TRUE(body.closed());
  EXPECT_EQ(idle.get("/healthz").status, 200u);
}

TEST(Limits, AnIdleConnectionIsClosedAfterItsTime) {
  const Served served({"--idle-timeout", "150ms"});
  ASSERT_NE(served.port(), 0) << served.log();
  Client client = served.client();
  EXPECT_EQ(client.get("/healthz").status, 200u);
  EXPECT_TRUE(client.closed());
}

TEST(Limits, OneConnectionTooManyGets503AndThousandDoNoHarm) {
  const Served served({"--max-connections", "3"});
  ASSERT_NE(served.port(), 0) << served.log();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(served.port()));
    EXPECT_EQ(clients.back()->get("/healthz").status, 200u);
  }
  Client fourth = served.client();
  const Answer refused = fourth.get("/healthz");
  EXPECT_EQ(refused.status, 503u);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_TRUE(fourth.closed());
  std::vector<std::unique_ptr<Client>> crowd;
  for (int i = 0; i < 1000; ++i) crowd.push_back(std::make_unique<Client>(served.port()));
  EXPECT_EQ(clients[0]->get("/healthz").status, 200u);
  crowd.clear();
  clients.clear();
  EXPECT_TRUE(served.wait_for("/healthz", 200));
}

TEST(Limits, AFullQueueRefusesAtOnceAndAnswersTheOthersRightly) {
  // Batches of 120 rows: of what is asked at a time, one batch waits and one is executed.
  const Served served({"--queue-limit", "120", "--latency-budget", "1s"});
  ASSERT_NE(served.port(), 0) << served.log();
  const std::vector<Row> rows = random_rows(60, 4);
  const std::vector<Probabilities> truth = Truth::get().of(rows);
  std::vector<std::unique_ptr<Client>> clients;
  const std::string body = binary(rows);
  for (int i = 0; i < 24; ++i) clients.push_back(std::make_unique<Client>(served.port()));
  for (const auto& client : clients) {
    client->send("POST " + std::string(kInfer) +
                 " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                 "application/octet-stream\r\nContent-Length: " +
                 std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  int done = 0, refused = 0;
  for (const auto& client : clients) {
    const Answer answer = client->receive();
    if (answer.status == 200) {
      ++done;
      EXPECT_EQ(verdict(answer, truth), "");
    } else {
      ++refused;
      EXPECT_EQ(answer.status, 503u) << answer.body;
      EXPECT_EQ(answer.header("Retry-After"), "1");
    }
  }
  EXPECT_GE(done, 2);
  EXPECT_EQ(done + refused, 24);
  EXPECT_EQ(served.infer(rows).status, 200u);
  EXPECT_EQ(served.metric("queue_rows{model=\"digits\"}"), 0);
}

TEST(Limits, AClientThatGoesWhileItsRequestWaitsFreesItsPlaceAtOnce) {
  const Served served(
      {"--queue-limit", "120", "--latency-budget", "600s", "--request-timeout", "600s"});
  ASSERT_NE(served.port(), 0) << served.log();
  // The next batch waits for as large a crowd as this one.
  ASSERT_EQ(served.infer(random_rows(120, 1)).status, 200u);
  const std::string body = binary(random_rows(100, 2));
  const auto ask = [&](Client& client) {
    return client.send("POST " + std::string(kInfer) +
                       " HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                       "application/octet-stream\r\nContent-Length: " +
                       std::to_string(body.size()) + "\r\n\r\n" + body);
  };
  const auto waiting = [&](int rows) {
    return test::eventually([&] { return served.metric("queue_rows{model=\"digits\"}") == rows; });
  };
  for (const bool rude : {false, true}) {
    Client client = served.client();
    ASSERT_TRUE(ask(client));
    EXPECT_TRUE(waiting(100));
    EXPECT_EQ(served.infer(random_rows(100, 3)).status, 503u) << "there is no place left";
    rude ? client.reset() : client.close();
    EXPECT_TRUE(waiting(0)) << "its place is taken as long as the crowd is waited for";
  }
  EXPECT_EQ(served.metric("withdrawn_total"), 2);
  EXPECT_EQ(served.metric("connections"), 1);
  EXPECT_EQ(served.metric("held_bytes"), 0);
  // One that goes on sending is there, and is answered in order.
  Client patient = served.client();
  ASSERT_TRUE(ask(patient));
  ASSERT_TRUE(patient.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_TRUE(waiting(100));
  EXPECT_EQ(served.infer(random_rows(20, 3)).status, 200u);
  EXPECT_EQ(verdict(patient.receive(), Truth::get().of(random_rows(100, 2))), "");
  EXPECT_EQ(patient.receive().body, "alive\n");
}

// A sanitizer keeps what was freed, and has memory of its own for each byte.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr size_t kSanitizers = 16;
#else
constexpr size_t kSanitizers = 1;
#endif
#else
constexpr size_t kSanitizers = 1;
#endif

// Resident memory of a process, in bytes.
size_t resident(const test::Process& process) {
  const std::string status = test::read_file("/proc/" + std::to_string(process.pid()) + "/status");
  const size_t at = status.find("VmRSS:");
  return at == std::string::npos ? 0 : std::stoul(status.substr(at + 6)) << 10;
}

TEST(Limits, BodiesOfAllClientsTogetherTakeNoMoreMemoryThanTheyMay) {
  constexpr size_t kBody = 8 << 20, kHeld = 64 << 20;
  // Under a sanitizer eight megabytes take a server seconds.
  Served served({"--max-body", std::to_string(kBody), "--max-held", std::to_string(kHeld),
                 "--client-timeout", "120s"});
  ASSERT_NE(served.port(), 0) << served.log();
  const size_t before = resident(served.process());
  ASSERT_GT(before, 0u);
  // All but the last byte of a body, from as many clients as would take five times the memory;
  // every second one does not say how much is coming.
  const std::string piece(1 << 20, ' ');
  std::vector<std::unique_ptr<Client>> clients;
  int refused = 0;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<Client>(served.port()));
    Client& client = *clients.back();
    const bool chunked = i % 2 != 0;
    client.send("POST " + std::string(kInfer) + " HTTP/1.1\r\nHost: localhost\r\n" +
                (chunked ? "Transfer-Encoding: chunked" : "Content-Length: 8388608") + "\r\n\r\n");
    for (size_t sent = 0; sent + piece.size() < kBody; sent += piece.size()) {
      // What is refused is not read to its end.
      if (!client.send(chunked ? "100000\r\n" + piece + "\r\n" : piece)) break;
    }
    // Its answer has come, or it waits for the rest.
    EXPECT_TRUE(test::eventually([&] {
      return client.readable() || served.metric("held_bytes") >= double(7 << 20) * (i + 1);
    })) << i;
    if (!client.readable()) continue;
    const Answer answer = client.receive();
    EXPECT_EQ(answer.status, 503u) << answer.body;
    EXPECT_EQ(answer.header("Retry-After"), "1");
    ++refused;
  }
  EXPECT_GE(refused, 30);
  EXPECT_LE(served.metric("held_bytes"), kHeld);
  EXPECT_LT(resident(served.process()) - before, kSanitizers * (kHeld + (32 << 20)));
  // Small requests find no room either, but whoever asks for no more than an answer does.
  EXPECT_EQ(served.get("/healthz").status, 200u);
  clients.clear();
  EXPECT_TRUE(test::eventually([&] { return served.metric("held_bytes") == 0; }));
  EXPECT_EQ(served.infer(random_rows(1, 1)).status, 200u);
}

TEST(Limits, ALongTextInJsonKeepsNobodyElseWaiting) {
  const test::Folder folder;
  std::filesystem::copy_file(kDigits, folder.path("digits.neff"));
  std::filesystem::copy_file(test::built("neff/tensor_add.neff"), folder.path("add.neff"));
  const Served served(folder, {"--max-body", "100000000", "--request-timeout", "60s"}, {});
  ASSERT_NE(served.port(), 0) << served.log();
  std::string numbers;
  for (int i = 0; i < 256 * 1024; ++i) {
    numbers +=
        (i != 0 ? "," : "") + std::string("0.12345678901234567890123456789012345678901234567");
    numbers += std::to_string(i) + "e-3";
  }
  const auto& add = boost::json::parse(served.get("/v1/models/add").body);
  std::string body = "{\"inputs\":{";
  for (const auto& input : add.at("inputs").as_array()) {
    body += (body.back() == '{' ? "\"" : ",\"") + std::string(input.at("name").as_string()) +
            "\":[" + numbers + "]";
  }
  body += "}}";
  Client client = served.client(), other = served.client();
  ASSERT_TRUE(
      client.send("POST /v1/models/add/infer HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body));
  // The text has been sent: from now on it is read, computed and answered with.
  const auto start = test::Clock::now();
  std::chrono::nanoseconds longest{0};
  while (!client.readable() && test::Clock::now() - start < test::kPatience) {
    const auto asked = test::Clock::now();
    EXPECT_EQ(other.get("/healthz").status, 200u);
    longest = std::max(longest, std::chrono::nanoseconds(test::Clock::now() - asked));
  }
  const std::chrono::nanoseconds all = test::Clock::now() - start;
  EXPECT_EQ(client.receive().status, 200u);
  EXPECT_LT(longest, all / 3) << "the longest of " << all.count() << " ns";
}

TEST(Limits, ARequestThatWaitsTooLongGets504) {
  Client client = shared().client();
  EXPECT_EQ(
      client
          .post(kInfer, json(random_rows(1, 1)), "application/json", "X-Request-Timeout-Ms: 0\r\n")
          .status,
      400u);
  const Served served({"--request-timeout", "0ms"});
  const Answer late = served.infer(random_rows(1, 1));
  EXPECT_EQ(late.status, 504u) << late.body;
  EXPECT_EQ(served.metric("batches_total{model=\"digits\",core=\"0\"}"), 0);
}

}  // namespace
}  // namespace neuron::serve_test
