// SPDX-License-Identifier: Apache-2.0
// How the server starts and ends, under a service manager and without one, and how it survives the
// death of its device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/system/serve/served.h"

namespace neuron::serve_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What a service manager listens on.
class Notifications {
 public:
  explicit Notifications(const test::Folder& folder) : path_(folder.path("notify")) {
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      ::close(fd_);
      fd_ = -1;
    }
  }
  ~Notifications() {
    if (fd_ >= 0) ::close(fd_);
  }
  const std::string& path() const { return path_; }
  // Whether as much was sent as the socket takes before somebody reads.
  bool full() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int sender = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool refused =
        ::connect(sender, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
        ::send(sender, "X=1", 3, MSG_NOSIGNAL) < 0 && errno == EAGAIN;
    ::close(sender);
    return refused;
  }
  // Whether a message comes that has this line, or these one behind the other.
  bool wait_for(const std::string& wanted) {
    const auto end = test::Clock::now() + test::kPatience;
    while (test::Clock::now() < end) {
      pollfd readable = {fd_, POLLIN, 0};
      if (::poll(&readable, 1, 1000) <= 0) continue;
      char message[4096];
      const ssize_t length = ::recv(fd_, message, sizeof(message), 0);
      if (length <= 0) continue;
      const std::string lines = "\n" + std::string(message, static_cast<size_t>(length)) + "\n";
      if (lines.find("\n" + wanted + "\n") != std::string::npos) return true;
    }
    return false;
  }

 private:
  const std::string path_;
  int fd_ = -1;
};

TEST(Life, SigtermFinishesWhatWasAskedAndEndsWith0) {
  Served served({"--latency-budget", "2s"});
  ASSERT_NE(served.port(), 0) << served.log();
  const std::vector<Row> rows = random_rows(100, 1);
  EXPECT_EQ(served.infer(rows).status, 200u);
  // The next batch waits for as large a crowd as that was.
  Client waiting = served.client(), idle = served.client();
  EXPECT_EQ(idle.get("/healthz").status, 200u);
  const std::string body = binary(random_rows(2, 2));
  waiting.send(
      "POST " + std::string(kInfer) +
      " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  test::eventually([&] { return served.metric("queue_rows{model=\"digits\"}") >= 2; });
  served.process().signal(SIGTERM);
  EXPECT_TRUE(idle.closed());
  const Answer answer = waiting.receive();
  EXPECT_EQ(answer.status, 200u);
  EXPECT_EQ(answer.header("Connection"), "close");
  EXPECT_EQ(verdict(answer, Truth::get().of(random_rows(2, 2))), "");
  waiting.close();
  EXPECT_EQ(served.ending(), 0) << served.log();
}

TEST(Life, DrainingEndsInTimeWhateverClientsDo) {
  Served served({"--drain-timeout", "200ms"});
  ASSERT_NE(served.port(), 0) << served.log();
  Client stuck = served.client();
  stuck.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n");
  EXPECT_EQ(served.get("/healthz").status, 200u);
  served.process().signal(SIGTERM);
  EXPECT_EQ(served.ending(), 0);
  EXPECT_THAT(served.log(), HasSubstr("did not finish in time"));
}

TEST(Life, TheServiceManagerIsToldAndItsSocketIsUsed) {
  const test::Folder folder;
  Notifications notifications(folder);
  Served served({}, {{"NOTIFY_SOCKET", notifications.path()}, {"WATCHDOG_USEC", "100000"}});
  ASSERT_NE(served.port(), 0) << served.log();
  EXPECT_TRUE(notifications.wait_for("READY=1"));
  EXPECT_TRUE(notifications.wait_for("WATCHDOG=1"));
  served.process().signal(SIGTERM);
  EXPECT_TRUE(notifications.wait_for("STOPPING=1"));
  EXPECT_EQ(served.ending(), 0);
}

TEST(Life, AServiceManagerThatReadsNothingKeepsNoClientWaitingAndIsToldTheLastState) {
  const test::Folder folder;
  Notifications notifications(folder);
  Served served({"--drain-timeout", "5s"},
                {{"NOTIFY_SOCKET", notifications.path()}, {"WATCHDOG_USEC", "2000"}});
  ASSERT_NE(served.port(), 0) << served.log();
  Client stuck = served.client();
  stuck.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n");
  EXPECT_TRUE(test::eventually([&] { return notifications.full(); }));
  // Several periods after the one in which there was no room.
  for (int i = 0; i < 100; ++i) EXPECT_EQ(served.get("/healthz").status, 200u);
  // There is no room for what is said now. It comes when there is, in one message.
  served.process().signal(SIGTERM);
  EXPECT_TRUE(test::eventually(
      [&] { return served.log().find("finishing 1 connection") != std::string::npos; }));
  EXPECT_TRUE(notifications.wait_for("STOPPING=1\nSTATUS=finishing what was asked"));
}

TEST(Life, APassedSocketIsServed) {
  const test::Folder folder;
  std::filesystem::copy_file(kDigits, folder.path("digits.neff"));
  Listening listening;
  const auto process =
      listening.serve("--listen 127.0.0.1:1 --models " + folder.path(), folder.path("log"));
  // Connections wait in the socket's queue until the server takes them.
  Client client(listening.port());
  EXPECT_EQ(client.get("/healthz").status, 200u) << folder.read("log");
  EXPECT_EQ(process->line(), "http://127.0.0.1:" + std::to_string(listening.port()) + "/");
}

TEST(Life, WithoutADeviceOrModelsItSaysSoAndEndsWith1) {
  const test::Folder folder;
  for (const auto& [emulator, sentence] : std::map<std::string, std::string>{
           {"unix:/nowhere/socket", "/nowhere/socket"}, {"trn1.2xlarge", "ends with .neff"}}) {
    test::Process process(
        {test::built("bin/neuron-serve"), "--models", folder.path(), "--listen", "127.0.0.1:0"},
        {{"NEURON_EMULATOR", emulator}}, folder.path("log"));
    EXPECT_EQ(process.wait(), 1);
    EXPECT_THAT(folder.read("log"), HasSubstr(sentence));
  }
  test::Process usage({test::built("bin/neuron-serve"), "--listen", "here"}, {},
                      folder.path("usage"));
  EXPECT_EQ(usage.wait(), 2);
}

TEST(Life, OptionsComeFromTheEnvironmentAndAFileToo) {
  const test::Folder folder;
  folder.write("config", "max-body = 1000\nlatency-budget = \"7ms\"\n");
  const Served served({"--config", folder.path("config")}, {{"NEURON_SERVE_MAX_HEADER", "500"}});
  ASSERT_NE(served.port(), 0) << served.log();
  EXPECT_EQ(served.client().post(kInfer, std::string(1001, ' ')).status, 413u);
  EXPECT_EQ(served.client().ask("GET", "/", "", "X: " + std::string(600, 'x') + "\r\n").status,
            431u);
}

TEST(Life, AMistakenConfigurationIsRefused) {
  const test::Folder folder;
  for (const char* text :
       {"max-bodies = 1000\n", "max-body = many\n", "latency-budget = \"-1\"\n"}) {
    folder.write("config", text);
    test::Process process({test::built("bin/neuron-serve"), "--models", folder.path(), "--config",
                           folder.path("config")},
                          {}, folder.path("log"));
    EXPECT_EQ(process.wait(), 2) << text;
  }
}

TEST(Life, AServerThatCannotStartSaysWhyInOneLineAndBidsNoFarewell) {
  Served served({"--cores", "9"}, {}, false);
  EXPECT_EQ(served.ending(), 1);
  const std::string log = served.log();
  EXPECT_THAT(log, HasSubstr("--cores names core 9"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
}

TEST(Life, CoresThatAreNotNamedStayFreeForOtherProcesses) {
  const test::Folder folder;
  test::Daemon daemon(folder);
  const Served served({"--cores", "1"}, {{"NEURON_EMULATOR", daemon.emulator()}});
  ASSERT_NE(served.port(), 0) << served.log() << daemon.log();
  test::Worker other(folder, daemon.emulator(), 0, "tensor_add.neff");
  EXPECT_EQ(other.line(), "ready") << other.log();
  EXPECT_EQ(served.infer({Row{}}).status, 200u);
  // It counts the core as --cores does, although the runtime counts it as 0.
  EXPECT_THAT(served.get("/v1/status").body, HasSubstr("\"core\":1,"));
}

// Several clients ask for all the time that a daemon lives, dies and lives again.
TEST(Life, ADaemonThatIsKilledUnderLoadCostsAnswersAndNeverRightness) {
  const test::Folder folder;
  test::Daemon daemon(folder);
  const Served served({}, {{"NEURON_EMULATOR", daemon.emulator()}});
  ASSERT_NE(served.port(), 0) << served.log() << daemon.log();
  constexpr int kClients = 4;
  std::atomic<bool> end{false};
  std::atomic<int> right{0}, refused{0};
  std::vector<std::string> wrong(kClients);
  std::vector<std::vector<Row>> rows(kClients);
  std::vector<std::vector<Probabilities>> truth(kClients);
  for (int c = 0; c < kClients; ++c) {
    rows[c] = random_rows(1 + c, c);
    truth[c] = Truth::get().of(rows[c]);
  }
  std::vector<std::thread> threads;
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      Client client = served.client();
      while (!end && wrong[c].empty()) {
        const Answer answer = client.post(kInfer, binary(rows[c]), "application/octet-stream");
        if (answer.status == 503 && !answer.header("Retry-After").empty()) {
          ++refused;
          ::usleep(2'000);
        } else {
          wrong[c] = verdict(answer, truth[c]);
          ++right;
        }
      }
    });
  }
  const auto more = [&](std::atomic<int>& count) {
    const int before = count;
    return test::eventually([&] { return count >= before + 20; });
  };
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(more(right)) << served.log();
    daemon.process().kill();
    EXPECT_TRUE(more(refused)) << served.log();
    EXPECT_EQ(served.get("/readyz").status, 503u);
    EXPECT_EQ(served.get("/healthz").status, 200u);
    daemon.restart();
    EXPECT_TRUE(served.wait_for("/readyz", 200)) << served.log();
  }
  EXPECT_TRUE(more(right));
  end = true;
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
  EXPECT_EQ(served.metric("attachments_total"), 4);
}

TEST(Life, ADaemonThatDiesWhileNobodyAsksIsNoticed) {
  const test::Folder folder;
  test::Daemon daemon(folder);
  const Served served({}, {{"NEURON_EMULATOR", daemon.emulator()}});
  ASSERT_NE(served.port(), 0) << served.log() << daemon.log();
  EXPECT_EQ(served.infer(random_rows(1, 1)).status, 200u);
  daemon.process().kill();
  EXPECT_TRUE(served.wait_for("/readyz", 503)) << served.log();
  daemon.restart();
  EXPECT_TRUE(served.wait_for("/readyz", 200)) << served.log();
  const std::vector<Row> rows = random_rows(3, 1);
  EXPECT_EQ(verdict(served.infer(rows), Truth::get().of(rows)), "");
  // What was tried in between is not told each time.
  const std::string log = served.log();
  EXPECT_THAT(log, HasSubstr("the device was lost"));
  EXPECT_THAT(log, HasSubstr("the device is back after"));
  EXPECT_THAT(log, Not(HasSubstr("ERROR")));
}

}  // namespace
}  // namespace neuron::serve_test
