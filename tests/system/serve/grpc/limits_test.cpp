// SPDX-License-Identifier: Apache-2.0
// Clients of gRPC that send garbage, are too many, too slow, killed, or there when the server ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <random>
#include <thread>

#include "tests/system/serve/grpc/rpc_client.h"

namespace neuron::serve_test {
namespace {

using test::eventually;
using ::testing::HasSubstr;

const char* const kWaiting = "queue_rows{model=\"digits\"}";

// A whole call up to its message, on stream 1.
std::string beginning(const std::string& method = "ModelInfer") {
  return kPreface + frame(kSettings, 0, 0, "") + call_headers(method);
}

// The most that the process has had.
long resident_kilobytes(pid_t process) {
  const std::string status = test::read_file("/proc/" + std::to_string(process) + "/status");
  const size_t at = status.find("VmHWM:");
  return at == std::string::npos ? 0 : std::stol(status.substr(at + 6));
}

TEST(GrpcLimits, GarbageInEveryPlaceHarmsNobody) {
  const RpcServed served({"--client-timeout", "2s"});
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  std::mt19937 random(7);
  const auto noise = [&](size_t length) {
    std::string bytes(length, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  };
  const std::string whole =
      beginning() + frame(kData, kEndStream, 1, message(digits_request(1, noise(256))));
  std::vector<std::string> attacks = {
      "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
      noise(1000),
      kPreface + noise(1000),
      // A frame of 16 MiB, of which nothing comes; streams that nobody opened; a table of 4 GiB.
      kPreface + big_endian(0xFFFFFF, 3) + std::string("\0\0\0\0\0\1", 6),
      kPreface + frame(kSettings, 0, 0, "") + frame(kData, kEndStream, 9, "x"),
      kPreface + frame(kSettings, 0, 0, std::string("\0\1\xff\xff\xff\xff", 6)),
      kPreface + frame(kSettings, 0, 0, "") + frame(kHeaders, kEndHeaders, 1, noise(200)),
      kPreface + frame(kSettings, 0, 0, "") + frame(kHeaders, kEndHeaders, 1, ""),
      // Messages that are none, that say they are long, that say they are compressed.
      beginning() + frame(kData, kEndStream, 1, message(noise(300))),
      beginning() + frame(kData, kEndStream, 1, ""),
      beginning() + frame(kData, kEndStream, 1, std::string("\0\xff\xff\xff\xff", 5) + "x"),
      beginning() + frame(kData, kEndStream, 1, std::string("\1\0\0\0\4", 5) + "abcd"),
      beginning() + frame(kData, kEndStream, 1, message("") + message("")),
      beginning("ModelMetadata") + frame(kData, kEndStream, 1, message(noise(50))),
  };
  for (int i = 0; i < 200; ++i) {
    std::string damaged = whole;
    for (int n = 0; n < 3; ++n) damaged[random() % damaged.size()] = static_cast<char>(random());
    attacks.push_back(damaged.substr(0, i % 2 == 0 ? damaged.size() : random() % damaged.size()));
  }
  std::vector<std::unique_ptr<Client>> clients;
  for (const std::string& bytes : attacks) {
    clients.push_back(std::make_unique<Client>(served.rpc_port()));
    clients.back()->send(bytes);
    if (clients.size() % 3 == 0) clients.back()->reset();
  }
  RpcClient client(served);
  EXPECT_EQ(client.verdict_of(random_rows(3, 4)), "");
  clients.clear();
  EXPECT_TRUE(eventually([&] { return served.metric("grpc_calls") == 0; }));
  EXPECT_EQ(served.metric("held_bytes"), 0);
  EXPECT_EQ(served.metric(kWaiting), 0);
  EXPECT_EQ(client.verdict_of(random_rows(120, 4)), "");
  EXPECT_EQ(served.log(), "neuron-serve: model digits loaded: batch 120, 1 core\n");
}

TEST(GrpcLimits, AClientThatIsKilledOrCancelsFreesItsPlaceAtOnce) {
  const RpcServed served(
      {"--queue-limit", "120", "--latency-budget", "600s", "--request-timeout", "600s"});
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  const std::vector<Row> rows = random_rows(60, 4);
  // Batches have 120 rows, and nothing starts before: one of them makes the next crowd large.
  Client killed(served.rpc_port());
  RpcClient client(served);
  EXPECT_EQ(client.verdict_of(random_rows(120, 1)), "");
  const std::string request = message(digits_request(60, binary(rows)));
  killed.send(beginning() + frame(kData, 0, 1, request.substr(0, 10'000)) +
              frame(kData, kEndStream, 1, request.substr(10'000)));
  ASSERT_TRUE(eventually([&] { return served.metric(kWaiting) == 60; })) << served.log();
  killed.reset();
  EXPECT_TRUE(eventually([&] { return served.metric(kWaiting) == 0; }));
  RpcClient::Context context;
  grpc::Status status;
  std::thread waiting([&] {
    inference::ModelInferResponse response;
    status = client.stub().ModelInfer(&context, RpcClient::request(rows), &response);
  });
  EXPECT_TRUE(eventually([&] { return served.metric(kWaiting) == 60; }));
  context.TryCancel();
  waiting.join();
  EXPECT_EQ(status.error_code(), grpc::CANCELLED);
  EXPECT_TRUE(eventually([&] { return served.metric(kWaiting) == 0; }));
  EXPECT_TRUE(eventually([&] { return served.metric("held_bytes") == 0; }));
  EXPECT_EQ(served.metric("withdrawn_total"), 2);
}

TEST(GrpcLimits, AFullQueueRefusesAtOnceAndAnswersTheOthersRightly) {
  const RpcServed served({"--queue-limit", "120", "--latency-budget", "1s"});
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  const std::vector<Row> rows = random_rows(60, 4);
  (void)Truth::get().of(rows);
  std::vector<std::string> verdicts(24);
  std::vector<std::thread> threads;
  for (std::string& verdict : verdicts) {
    threads.emplace_back([&verdict, &served, &rows] {
      RpcClient client(served);
      inference::ModelInferResponse response;
      const grpc::Status status = client.infer(RpcClient::request(rows), response);
      verdict = status.ok() ? response.raw_output_contents(0)
                            : std::to_string(status.error_code()) + status.error_message();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string right = binary(Truth::get().of(rows));
  const auto done = std::count(verdicts.begin(), verdicts.end(), right);
  EXPECT_GE(done, 2);
  for (const std::string& verdict : verdicts) {
    if (verdict == right) continue;
    EXPECT_EQ(verdict,
              std::to_string(grpc::UNAVAILABLE) + "as many requests wait for this model as may");
  }
  EXPECT_EQ(served.metric(kWaiting), 0);
}

TEST(GrpcLimits, MessagesWaitForRoomAndSlowOnesLoseIt) {
  // Room for two messages of the largest size.
  const RpcServed served(
      {"--max-body", "100000", "--max-held", "250000", "--client-timeout", "700ms"});
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 2; ++i) {
    slow.push_back(std::make_unique<Client>(served.rpc_port()));
    slow.back()->send(beginning() + frame(kData, 0, 1, std::string("\0\0\0\1\0", 5)));
  }
  ASSERT_TRUE(eventually([&] { return served.metric("held_bytes") == 200'000; }));
  RpcClient client(served);
  EXPECT_EQ(client.verdict_of(random_rows(3, 2)), "");
  // The first two were told, and hold nothing any more.
  for (const auto& one : slow) {
    EXPECT_THAT(receive_until(*one, "did not arrive in time"), HasSubstr("--client-timeout"));
  }
  EXPECT_TRUE(eventually([&] { return served.metric("held_bytes") == 0; }));
  EXPECT_EQ(served.metric("grpc_responses_total{code=\"4\"}"), 2);
}

TEST(GrpcLimits, OneCallTooManyIsRefused) {
  const RpcServed served({"--max-connections", "2"});
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 2; ++i) {
    idle.push_back(std::make_unique<Client>(served.rpc_port()));
    idle.back()->send(beginning());
  }
  ASSERT_TRUE(eventually([&] { return served.metric("grpc_calls") == 2; }));
  RpcClient client(served);
  inference::ModelInferResponse response;
  const grpc::Status status = client.infer(RpcClient::request(random_rows(1, 1)), response);
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("as many calls as it takes"));
  idle.clear();
  ASSERT_TRUE(eventually([&] { return served.metric("grpc_calls") == 0; }));
  EXPECT_EQ(client.verdict_of(random_rows(1, 1)), "");
}

TEST(GrpcLimits, ConnectionsBeyondTheLimitAreClosedAndTheOthersGoOn) {
  const RpcServed served({"--max-connections", "2"});
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 100; ++i) idle.push_back(std::make_unique<Client>(served.rpc_port()));
  EXPECT_TRUE(eventually([&] { return served.metric("grpc_connections") == 66; }));
  // The last one was told nothing, and is over.
  EXPECT_EQ(receive_until(*idle.back(), "anything"), "");
  EXPECT_EQ(served.infer(random_rows(1, 1)).status, 200u);
  idle.clear();
  EXPECT_TRUE(eventually([&] { return served.metric("grpc_connections") == 0; }));
  EXPECT_EQ(RpcClient(served).verdict_of(random_rows(3, 1)), "");
}

TEST(GrpcLimits, AServerThatHadNoDescriptorLeftHearsClientsAgain) {
  RpcServed served;
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  EXPECT_EQ(RpcClient(served).verdict_of(random_rows(3, 1)), "");
  size_t open = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           "/proc/" + std::to_string(served.process().pid()) + "/fd")) {
    open += entry.path().empty() ? 0 : 1;
  }
  rlimit limited = {};
  ASSERT_EQ(::prlimit(served.process().pid(), RLIMIT_NOFILE, nullptr, &limited), 0);
  limited.rlim_cur = open + 8;
  ASSERT_EQ(::prlimit(served.process().pid(), RLIMIT_NOFILE, &limited, nullptr), 0);
  {
    std::vector<std::unique_ptr<Client>> many;
    for (int i = 0; i < 40; ++i) many.push_back(std::make_unique<Client>(served.rpc_port()));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  EXPECT_TRUE(eventually([&] { return RpcClient(served).verdict_of(random_rows(3, 1)).empty(); }));
}

TEST(GrpcLimits, AServerWithoutRoomStillSaysThatItLives) {
  const RpcServed served(
      {"--max-body", "100000", "--max-held", "100000", "--client-timeout", "60s"});
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  Client slow(served.rpc_port());
  slow.send(beginning() + frame(kData, 0, 1, std::string("\0\0\0\1\0", 5)));
  ASSERT_TRUE(eventually([&] { return served.metric("held_bytes") == 100'000; }));
  RpcClient client(served);
  RpcClient::Context context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  inference::ServerLiveResponse live;
  const grpc::Status status = client.stub().ServerLive(&context, {}, &live);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(live.live());
}

TEST(GrpcLimits, AMessageThatBecomesMuchLargerIsRefusedBeforeItIsParsed) {
  RpcServed served({"--max-body", "4000000", "--max-held", "40000000"});
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  RpcClient client(served);
  EXPECT_EQ(client.verdict_of(random_rows(3, 1)), "");
  const long before = resident_kilobytes(served.process().pid());
  // A million tensors without a field, of two bytes each.
  inference::ModelInferRequest request;
  request.set_model_name("digits");
  for (int i = 0; i < 1'000'000; ++i) request.add_inputs();
  inference::ModelInferResponse response;
  const grpc::Status status = client.infer(request, response);
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--max-held"));
  EXPECT_LT(resident_kilobytes(served.process().pid()) - before, 40'000);
  EXPECT_EQ(client.verdict_of(random_rows(3, 1)), "");
}

TEST(GrpcLimits, ADeadlineOfTheClientIsTheRequestsToo) {
  const RpcServed served({"--latency-budget", "600s", "--request-timeout", "600s"});
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  RpcClient client(served);
  EXPECT_EQ(client.verdict_of(random_rows(120, 1)), "");
  RpcClient::Context context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  inference::ModelInferResponse response;
  EXPECT_EQ(client.stub()
                .ModelInfer(&context, RpcClient::request(random_rows(1, 1)), &response)
                .error_code(),
            grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(eventually([&] { return served.metric(kWaiting) == 0; }));
}

TEST(GrpcLimits, AServerThatEndsAnswersWhatItAccepted) {
  RpcServed served({"--latency-budget", "8s", "--request-timeout", "600s"});
  ASSERT_NE(served.rpc_port(), 0) << served.log();
  RpcClient client(served);
  EXPECT_EQ(client.verdict_of(random_rows(120, 1)), "");
  const std::vector<Row> rows = random_rows(60, 2);
  (void)Truth::get().of(rows);
  std::string first = "not asked";
  std::thread waiting([&] {
    RpcClient one(served);
    first = one.verdict_of(rows);
  });
  EXPECT_TRUE(eventually([&] { return served.metric(kWaiting) == 60; }));
  served.process().signal(SIGTERM);
  EXPECT_TRUE(
      eventually([&] { return served.log().find("finishing 1 connection") != std::string::npos; }));
  // A call after that is refused, until the process is gone.
  inference::ModelInferResponse response;
  EXPECT_EQ(client.infer(RpcClient::request(random_rows(60, 3)), response).error_code(),
            grpc::UNAVAILABLE);
  waiting.join();
  EXPECT_EQ(first, "");
  EXPECT_EQ(served.ending(), 0) << served.log();
}

}  // namespace
}  // namespace neuron::serve_test
