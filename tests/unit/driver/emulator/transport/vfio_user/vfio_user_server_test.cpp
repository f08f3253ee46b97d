// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/transport/vfio_user/vfio_user_server.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <filesystem>
#include <mutex>

#include "driver/emulator/chip/hbm.h"
#include "tests/support/files.h"
#include "tests/unit/driver/emulator/transport/vfio_user/vfio_user_client.h"

namespace neuron::transport {
namespace {

using testing::HasSubstr;
using testing::Not;

class VfioUserServerTest : public testing::Test {
 protected:
  VfioUserServerTest() {
    options.folder = folder.path();
    options.workers = 1;
    options.log = [this](const std::string& sentence) {
      const std::lock_guard guard(mutex_);
      log_ += sentence + "\n";
    };
  }
  ~VfioUserServerTest() override { server.reset(); }
  void start() {
    server = VfioUserServer::create(options, error);
    ASSERT_NE(server, nullptr) << error;
  }
  std::string path(unsigned index) const {
    return folder.path("nd" + std::to_string(index) + ".sock");
  }
  std::unique_ptr<VfioUserClient> connect_to(unsigned index) const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path(index).c_str());
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return std::make_unique<VfioUserClient>(socket);
  }
  std::string log() {
    const std::lock_guard guard(mutex_);
    return log_;
  }

  const test::Folder folder;
  std::string error;
  VfioUserOptions options;
  std::unique_ptr<VfioUserServer> server;

 private:
  std::mutex mutex_;
  std::string log_;
};

TEST_F(VfioUserServerTest, ServesEachFunctionAtASocketOfItsOwn) {
  options.functions = 3;
  start();
  for (unsigned i = 0; i < 3; ++i) {
    auto client = connect_to(i);
    ASSERT_EQ(client->agree().error(), 0u);
    EXPECT_EQ(client->reg(NEURON_V2_MISC_RAM + NEURON_FW_ROUTING_ID),
              (std::vector<uint32_t>{0, 2, 6})[i]);
  }
  struct stat status = {};
  ASSERT_EQ(stat(path(0).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(VfioUserServerTest, BuildsTheChipAnewForTheNextClient) {
  start();
  auto first = connect_to(0);
  ASSERT_EQ(first->agree().error(), 0u);
  first->put<uint32_t>(4, 0x1000, 0x5EC2E7);
  first->set_reg(NEURON_V2_MISC_RAM + 0x100, 1);
  first.reset();
  auto second = connect_to(0);
  ASSERT_EQ(second->agree().error(), 0u);
  EXPECT_EQ(second->get<uint32_t>(4, 0x1000), 0u);
  EXPECT_EQ(second->reg(NEURON_V2_MISC_RAM + 0x100), 0u);
}

TEST_F(VfioUserServerTest, TurnsASecondClientAway) {
  start();
  auto first = connect_to(0);
  ASSERT_EQ(first->agree().error(), 0u);
  auto second = connect_to(0);
  EXPECT_FALSE(second->receive().arrived);
  EXPECT_EQ(first->get<uint32_t>(7, 0), 0x71641D0Fu);
  EXPECT_THAT(log(), HasSubstr("nd0: a second client is turned away"));
}

TEST_F(VfioUserServerTest, TakesAClientInPlaceOfOneThatWentBeforeItsTurn) {
  start();
  for (int i = 0; i < 20; ++i) (void)connect_to(0);
  auto client = connect_to(0);
  EXPECT_EQ(client->agree().error(), 0u);
}

TEST_F(VfioUserServerTest, PreparesEveryChipThatItBuilds) {
  // The server outlives this function, and builds a chip when the last client has gone.
  const auto built = std::make_shared<std::atomic<unsigned>>(0);
  options.prepare = [built](unsigned, chip::Chip&) { ++*built; };
  start();
  EXPECT_EQ(*built, 1u);
  {
    auto client = connect_to(0);
    ASSERT_EQ(client->agree().error(), 0u);
  }
  auto next = connect_to(0);
  ASSERT_EQ(next->agree().error(), 0u);
  EXPECT_EQ(*built, 2u);
}

TEST_F(VfioUserServerTest, TellsWhatTheLastClientDid) {
  start();
  {
    auto client = connect_to(0);
    ASSERT_EQ(client->agree().error(), 0u);
    (void)client->reg(NEURON_V2_MISC_RAM + NEURON_FW_ROUTING_ID);
  }
  auto next = connect_to(0);
  ASSERT_EQ(next->agree().error(), 0u);
  next.reset();
  server->stop();
  EXPECT_THAT(log(), HasSubstr("1 register accesses before the first doorbell"));
  EXPECT_THAT(server->statistics(), HasSubstr("nd0: "));
}

// As when a virtual machine is killed in the middle of its work: whoever finds memory that was
// written to behind its owner's back sees what the device wrote last.
TEST_F(VfioUserServerTest, TellsTheLastWritesIntoTheMemoryOfAGuestThatIsKilledAndOfNoOther) {
  constexpr size_t kTarget = 0x80000;
  start();
  GuestRam ram(1 << 20);
  for (const bool gives_up : {true, false}) {
    auto client = connect_to(0);
    ASSERT_EQ(client->agree().error(), 0u);
    ASSERT_EQ(client->map(0, 1 << 20, ram.file()).error(), 0u);
    client->enable();
    client->init_queue(0x10000, 0x20000, 64);
    for (unsigned i = 0; i < 2; ++i) {
      write_copy(ram, 0x10000, 0x20000, i, NEURON_V2_HOST_BASE | 0x40000,
                 NEURON_V2_HOST_BASE | (kTarget + i * 0x1000), 0x800);
    }
    client->set_reg(VfioUserClient::queue(true) + NEURON_UDMAQ_TAIL_INC, 2);
    client->set_reg(VfioUserClient::queue(false) + NEURON_UDMAQ_TAIL_INC, 2);
    ASSERT_EQ(client->reg(VfioUserClient::queue(true) + NEURON_UDMAQ_HEAD) & 0xFFFF, 2u);
    // A guest that shuts down takes the bus away from its devices.
    if (gives_up) client->put<uint16_t>(wire::kConfigRegion, 4, 0x2);
    client.reset();
    // Served when the one before has been cleared away.
    ASSERT_EQ(connect_to(0)->agree().error(), 0u);
    if (gives_up) {
      EXPECT_THAT(log(), Not(HasSubstr("the guest has gone")));
    }
  }
  server->stop();
  EXPECT_THAT(log(), HasSubstr("nd0: the guest has gone without giving the device up; the last "
                               "writes into its memory:"));
  EXPECT_THAT(log(),
              testing::ContainsRegex("nd0: [0-9:.]+ 0x80000 2048 bytes, copy, DMA engine 32 queue "
                                     "0, S2M descriptor 0, [0-9]+ us behind its doorbell"));
  EXPECT_THAT(log(), testing::ContainsRegex("0x81000 2048 bytes, .*S2M descriptor 1, "));
}

TEST_F(VfioUserServerTest, LetsOthersUseTheChip) {
  start();
  unsigned cores = 0;
  server->with_chip(0, [&](chip::Chip& chip) { cores = chip.config().cores; });
  server->with_chip(7, [&](chip::Chip&) { cores = 99; });
  EXPECT_EQ(cores, 2u);
}

TEST_F(VfioUserServerTest, RemovesItsSocketsAndEndsConnectionsWhenItStops) {
  start();
  auto client = connect_to(0);
  ASSERT_EQ(client->agree().error(), 0u);
  server->stop();
  EXPECT_FALSE(client->receive().arrived);
  server.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(VfioUserServerTest, ReplacesASocketThatNobodyServesAndRefusesALiveOne) {
  {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path(0).c_str());
    const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(bind(dead, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(dead);
  }
  start();
  EXPECT_EQ(VfioUserServer::create(options, error), nullptr);
  EXPECT_THAT(error, HasSubstr("another process serves " + path(0)));
  auto client = connect_to(0);
  EXPECT_EQ(client->agree().error(), 0u);
}

// As with a daemon that is stopped: its socket takes connections until its queue is full.
TEST_F(VfioUserServerTest, TakesAServerThatDoesNotAcceptForALiveOne) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path(0).c_str());
  const auto* at = reinterpret_cast<sockaddr*>(&address);
  const int stopped = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(stopped, at, sizeof address), 0);
  ASSERT_EQ(listen(stopped, 0), 0);
  const int first = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  ASSERT_EQ(connect(first, at, sizeof address), 0);
  EXPECT_EQ(VfioUserServer::create(options, error), nullptr);
  EXPECT_THAT(error, HasSubstr("another process serves " + path(0)));
  close(first);
  close(stopped);
  unlink(path(0).c_str());
}

TEST_F(VfioUserServerTest, SaysWhatIsWrongWithItsOptions) {
  options.functions = 65;
  EXPECT_EQ(VfioUserServer::create(options, error), nullptr);
  EXPECT_THAT(error, HasSubstr("65 functions"));
  options.functions = 1;
  options.folder = folder.path(std::string(120, 'x'));
  EXPECT_EQ(VfioUserServer::create(options, error), nullptr);
  EXPECT_THAT(error, HasSubstr("choose a shorter folder"));
  options.folder = folder.path("none");
  EXPECT_EQ(VfioUserServer::create(options, error), nullptr);
  EXPECT_THAT(error, HasSubstr("No such file"));
  options.folder = folder.path();
  options.pci_device = 1;
  EXPECT_EQ(VfioUserServer::create(options, error), nullptr);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace neuron::transport
