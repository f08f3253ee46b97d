// SPDX-License-Identifier: Apache-2.0
// Several processes and one daemon: same bits as embedded, and every kind of death.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>
#include <random>
#include <utility>

#include "driver/ndl/error.h"
#include "driver/ndl/port_backends.h"
#include "hw/address_map.h"
#include "hw/control.h"
#include "tests/multi/device_client.h"
#include "tests/multi/long_work.h"
#include "tests/multi/observer.h"
#include "tests/support/daemon.h"
#include "uapi/neuron_observe.h"

namespace neuron::multi {
namespace {

using test::Clock;
using test::Daemon;
using test::Folder;
using test::Worker;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const char* const kDigits = "digits.neff";
const char* const kEmpty = "empty.neff";

// Milliseconds until `condition` holds; a second and more is as good as never.
template <typename Condition>
double milliseconds_until(Condition condition) {
  const auto start = Clock::now();
  test::eventually(condition, std::chrono::seconds(2), std::chrono::microseconds(500));
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

TEST(SharedDevice, TwoProcessesOnTheirOwnCoresGiveTheBitsOfAnEmbeddedDevice) {
  const Folder folder;
  Worker alone(folder, "trn1.2xlarge", 0, kDigits);
  ASSERT_EQ(alone.line(), "ready") << alone.log();
  const std::string expected = alone.ask("hash");
  const Daemon daemon(folder);
  Worker first(folder, daemon.emulator(), 0, kDigits),
      second(folder, daemon.emulator(), 1, kDigits);
  ASSERT_EQ(first.line(), "ready") << first.log();
  ASSERT_EQ(second.line(), "ready") << second.log();
  first.process().say("hash");
  second.process().say("hash");
  EXPECT_EQ(first.line(), expected);
  EXPECT_EQ(second.line(), expected);
}

TEST(SharedDevice, CopiesThroughTheMappingAndThroughDescriptorsBringTheSameBytes) {
  const Folder folder;
  const Daemon daemon(folder);
  for (const char* way : {"mapping", "descriptors"}) {
    Worker worker(folder, daemon.emulator(), 0, kEmpty, {{"NEURON_EMULATOR_COPY", way}});
    ASSERT_EQ(worker.line(), "ready") << worker.log();
    EXPECT_GT(std::atof(worker.ask("copy 1").c_str()), 0) << way << worker.log();
  }
}

// The ring of posted writes has 32 entries.
TEST(SharedDevice, RegistersAreWrittenInTheOrderInWhichTheyWerePostedAndARefusalIsTold) {
  constexpr uint64_t kSemaphores = NEURON_V2_CORE_WINDOW(0) + NEURON_CORE_SEMAPHORES;
  constexpr uint64_t kCell = 9 * 4;
  const Folder folder;
  Daemon daemon(folder);
  const auto client = DeviceClient::open(daemon.socket());
  ASSERT_NE(client, nullptr);
  ndl::DevicePort& port = client->port();
  neuron_ioctl_device_info info = {};
  ASSERT_EQ(port.ioctl(NEURON_IOCTL_DEVICE_INFO, &info), 0) << ndl::last_error();
  const uint64_t block = info.bar_address[0] + kSemaphores;
  const uint64_t set = block + NEURON_SEM_BLOCK_SET + kCell;
  const uint64_t increment = block + NEURON_SEM_BLOCK_INC + kCell;
  const uint64_t trigger = info.bar_address[0] + NEURON_V2_MISC_RAM + NEURON_FW_TRIGGER;
  const auto reads = [&](uint32_t wanted) {
    return test::eventually([&] {
      uint32_t value = 0;
      return port.read_register(kSemaphores + NEURON_SEM_BLOCK_READ + kCell, &value) == 0 &&
             value == wanted;
    });
  };
  using Writes = std::vector<ndl::DevicePort::RegisterWrite>;
  for (uint32_t i = 1; i <= 100; ++i) {
    ASSERT_EQ(port.post_registers(Writes{{set, 1000}, {set, i}, {increment, 2}}), 0)
        << ndl::last_error();
  }
  EXPECT_TRUE(reads(102)) << "the last ones were written last";
  EXPECT_EQ(port.check_posted(), 0);
  ASSERT_EQ(port.post_registers(Writes{{increment, 1}, {trigger, 1}}), 0);
  ASSERT_TRUE(test::eventually([&] { return port.check_posted() == -EINVAL; }));
  EXPECT_THAT(ndl::last_error(), HasSubstr("has refused 1 posted writes of registers"));
  EXPECT_EQ(port.check_posted(), 0) << "it is told once";
  ASSERT_EQ(port.post_registers(Writes{{increment, 5}}), 0) << ndl::last_error();
  EXPECT_TRUE(reads(107)) << "nothing of the refused ones was written";
  EXPECT_EQ(port.post_registers(Writes{}), -EINVAL);
  daemon.process().kill();
  uint32_t value = 0;
  EXPECT_EQ(port.read_register(kSemaphores + NEURON_SEM_BLOCK_READ + kCell, &value), -ENODEV);
  EXPECT_EQ(port.post_registers(Writes{{increment, 1}}), -ENODEV);
}

TEST(SharedDevice, TheDaemonTellsTheAdapterThatItsProfileNames) {
  const Folder folder;
  const Daemon daemon(folder, "trn1.32xlarge");
  const auto port = ndl::shared_port(daemon.socket(), "");
  ASSERT_NE(port, nullptr) << daemon.log();
  neuron_emulator_question question = {};
  question.kind = NEURON_EMULATOR_ASK_ADAPTER;
  question.device = 12;
  std::string answer;
  uint64_t next = 0;
  ASSERT_EQ(port->observe(question, 5000, answer, next), 0) << daemon.log();
  EXPECT_EQ(answer, "0000:10:19.0");
}

TEST(SharedDevice, ABufferThatTheProcessDoesNotHaveIsAnsweredByAStatus) {
  const Folder folder;
  const Daemon daemon(folder);
  for (const char* way : {"mapping", "descriptors"}) {
    Worker worker(folder, daemon.emulator(), 0, kEmpty, {{"NEURON_EMULATOR_COPY", way}});
    ASSERT_EQ(worker.line(), "ready") << worker.log();
    EXPECT_EQ(worker.ask("wild"), "2 2 2 2 ") << worker.log();
    EXPECT_GT(std::atof(worker.ask("copy 1").c_str()), 0) << way << worker.log();
  }
}

TEST(SharedDevice, ASecondDaemonIsRefusedAndAStaleSocketIsReplaced) {
  const Folder folder;
  auto first = std::make_unique<Daemon>(folder);
  {
    Daemon second(folder);
    EXPECT_EQ(second.process().wait(), 1);
    EXPECT_THAT(second.log(), HasSubstr("is served already; stop that daemon"));
  }
  first->process().kill();
  EXPECT_TRUE(std::filesystem::exists(first->socket()));
  Daemon third(folder);
  Worker worker(folder, third.emulator(), 0, kEmpty);
  EXPECT_EQ(worker.line(), "ready") << worker.log() << third.log();
  worker.process().close_input();
  worker.process().wait();
  EXPECT_EQ(third.process().stop(), 0);
  EXPECT_FALSE(std::filesystem::exists(third.socket()));
}

TEST(SharedDevice, ADaemonThatIsKilledDuringLaunchesIsReportedAndWorksAgainAfterAnewStart) {
  const Folder folder;
  Daemon daemon(folder);
  Worker worker(folder, daemon.emulator(), 0, kDigits);
  ASSERT_EQ(worker.line(), "ready") << worker.log();
  const std::string expected = worker.ask("hash");
  worker.process().say("forever");
  ::usleep(20'000);
  daemon.process().signal(SIGKILL);
  const auto killed = Clock::now();
  EXPECT_THAT(worker.line(), StartsWith("failed"));
  EXPECT_LT(Clock::now() - killed, std::chrono::seconds(2));
  EXPECT_THAT(worker.log(), HasSubstr("is gone; restart it and call nrt_close and nrt_init"));
  EXPECT_THAT(worker.log(), HasSubstr("cannot be used until the runtime is closed and initialised "
                                      "again, for the same reason"));
  EXPECT_THAT(worker.ask("hash"), StartsWith("failed"));
  daemon.restart();
  ASSERT_EQ(worker.ask("reopen"), "ready") << worker.log();
  EXPECT_EQ(worker.ask("hash"), expected);
}

TEST(SharedDevice, PrivateDaemonsInParallelDoNotSeeEachOther) {
  const Folder folder;
  std::vector<std::unique_ptr<Daemon>> daemons;
  std::vector<std::unique_ptr<Worker>> workers;
  for (int i = 0; i < 8; ++i) {
    daemons.push_back(std::make_unique<Daemon>(
        folder, "trn1.2xlarge", Daemon::Options{.name = "socket" + std::to_string(i)}));
  }
  // All claim the same core, which only works on devices of their own.
  for (const auto& daemon : daemons) {
    workers.push_back(std::make_unique<Worker>(folder, daemon->emulator(), 0, kDigits));
  }
  std::string expected;
  for (const auto& worker : workers) {
    ASSERT_EQ(worker->line(), "ready") << worker->log();
    const std::string found = worker->ask("hash");
    if (expected.empty()) expected = found;
    EXPECT_EQ(found, expected);
  }
}

TEST(SharedDevice, AClientKilledAtAnyPointLeavesNothingBehindAfterASecond) {
  const char* text = std::getenv("NEURON_TEST_KILLS");
  const int kills = text != nullptr ? std::atoi(text) : 20;
  const Folder folder;
  const Daemon daemon(folder);
  Observer observer(daemon);
  ASSERT_TRUE(observer.valid());
  {
    // A first client, so that what the device keeps for itself is there.
    Worker worker(folder, daemon.emulator(), 0, kDigits);
    ASSERT_EQ(worker.line(), "ready") << worker.log();
    worker.process().close_input();
    worker.process().wait();
  }
  ASSERT_LT(milliseconds_until([&] { return observer.others() == 0; }), 1000);
  const uint64_t before = observer.allocations();
  std::mt19937 random(20261121);
  for (int i = 0; i < kills; ++i) {
    Worker worker(folder, daemon.emulator(), static_cast<int>(random() % 2), kDigits);
    // From before its first call to in the midst of launches.
    if (random() % 2 != 0) {
      ASSERT_EQ(worker.line(), "ready") << "kill " << i << ": " << worker.log();
      worker.process().say("forever");
    }
    ::usleep(random() % 30'000);
    worker.process().kill();
    const double took = milliseconds_until([&] { return observer.is_free(before); });
    ASSERT_LT(took, 1000) << "kill " << i << ": " << observer.others() << " processes, "
                          << observer.allocations() << " allocations instead of " << before
                          << daemon.log();
  }
  // And the device still works.
  Worker worker(folder, daemon.emulator(), 0, kDigits);
  EXPECT_EQ(worker.line(), "ready") << worker.log() << daemon.log();
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".log") files.push_back(entry.path().filename());
  }
  EXPECT_LE(files.size(), 2u) << "besides the daemon's own sockets";
}

class ClientKilledDuring : public ::testing::TestWithParam<LongWork> {};

TEST_P(ClientKilledDuring, LeavesNothingBehindAfterASecond) {
  constexpr int kKills = 4;
  const Folder folder;
  const Daemon daemon(folder);
  Observer observer(daemon);
  ASSERT_TRUE(observer.valid());
  const uint64_t before = observer.allocations();
  std::mt19937 random(20261123);
  for (int i = 0; i < kKills; ++i) {
    const std::unique_ptr<Working> work = GetParam().start(daemon);
    EXPECT_TRUE(work->began()) << "its work has not begun: " << daemon.log();
    ::usleep(20'000 + random() % 100'000);
    ASSERT_FALSE(work->failed()) << "its work has failed: " << daemon.log();
    const double took = milliseconds_until([&, killed = false]() mutable {
      if (!std::exchange(killed, true)) work->kill();
      return observer.is_free(before);
    });
    EXPECT_LT(took, 1000) << "kill " << i << ": " << observer.others() << " processes, "
                          << observer.allocations() << " allocations instead of " << before
                          << daemon.log();
  }
}

INSTANTIATE_TEST_SUITE_P(SharedDevice, ClientKilledDuring,
                         ::testing::ValuesIn(long_works().begin(), long_works().end()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace neuron::multi
