// SPDX-License-Identifier: Apache-2.0
// The control channel: what each message does to the devices, and what a client may do wrong.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/session.h"
#include "driver/emulator/transport/control/control.pb.h"
#include "driver/emulator/transport/control/control_handler.h"
#include "driver/emulator/transport/control/control_server.h"
#include "driver/emulator/transport/shared/listener.h"
#include "tests/support/files.h"

namespace neuron::transport {
namespace {

using ::testing::HasSubstr;

class Control : public ::testing::Test {
 protected:
  void SetUp() override {
    int error = 0;
    instance_ = service::Instance::create("trn1.32xlarge", {}, core::create_chip, error);
    ASSERT_NE(instance_, nullptr) << service::last_error();
    handler_ = std::make_unique<ControlHandler>(*instance_, "/run/s", [] { return 3u; });
    ASSERT_EQ(instance_->open(0, O_RDWR, ::getpid(), &session_), 0) << service::last_error();
  }
  control::Response ask(const control::Request& request) {
    control::Response response;
    EXPECT_TRUE(response.ParseFromString(handler_->answer(request.SerializeAsString())));
    return response;
  }
  control::Status status() {
    control::Request request;
    request.mutable_status();
    return ask(request).status();
  }
  std::unique_ptr<service::Instance> instance_;
  std::unique_ptr<ControlHandler> handler_;
  service::Session* session_ = nullptr;
};

TEST_F(Control, StatusTellsWhatIsThereAndWhoHoldsIt) {
  neuron_ioctl_crwl_nc_map_ext map = {1, 3, 3, 0, {}};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &map), 0);
  const control::Status found = status();
  EXPECT_EQ(found.profile(), "trn1.32xlarge");
  EXPECT_EQ(found.socket(), "/run/s");
  EXPECT_EQ(found.connections(), 3u);
  ASSERT_EQ(found.devices_size(), 16);
  EXPECT_EQ(found.devices(0).state(), "ready");
  EXPECT_EQ(found.devices(1).state(), "not opened");
  EXPECT_EQ(found.devices(1).address(), "0000:10:1d.0");
  const control::Core& core = found.devices(1).cores(1);
  EXPECT_EQ(core.host_index(), 3u);
  EXPECT_EQ(core.pid(), ::getpid());
  EXPECT_FALSE(core.command().empty());
  EXPECT_GT(core.since(), 0u);
  EXPECT_EQ(found.devices(0).cores(0).pid(), 0);
  ASSERT_EQ(found.processes_size(), 1);
  EXPECT_EQ(found.processes(0).pid(), ::getpid());
  EXPECT_FALSE(found.processes(0).control_only());
  EXPECT_EQ(found.devices(0).hbm_size(), 2);
  EXPECT_LT(found.devices(0).hbm(0).free(), found.devices(0).hbm(0).bytes());
}

TEST_F(Control, FaultsAreArmedShownAndCleared) {
  control::Request request;
  request.mutable_inject()->set_plan(R"({"at":"dma.descriptor","kind":"error","n":9})");
  EXPECT_EQ(ask(request).error(), 0);
  ASSERT_EQ(status().devices(0).faults_size(), 1);
  EXPECT_THAT(status().devices(0).faults(0), HasSubstr("\"n\":9"));
  EXPECT_EQ(status().devices(7).faults_size(), 1) << "also for chips that nobody has opened";
  request.mutable_inject()->set_plan("nonsense");
  const control::Response refused = ask(request);
  EXPECT_EQ(refused.error(), EINVAL);
  EXPECT_THAT(refused.message(), HasSubstr("line 1 of the fault plan: it is no JSON"));
  request.mutable_clear();
  EXPECT_EQ(ask(request).error(), 0);
  EXPECT_EQ(status().devices(0).faults_size(), 0);
}

TEST_F(Control, ResetsPowerAndLinksReachTheDevices) {
  control::Request request;
  request.mutable_reset()->set_device(0);
  request.mutable_reset()->add_cores(1);
  const uint64_t before = status().devices(0).cores(1).resets();
  EXPECT_EQ(ask(request).error(), 0);
  EXPECT_EQ(status().devices(0).cores(1).resets(), before + 1);
  request.mutable_reset()->set_device(16);
  EXPECT_EQ(ask(request).error(), ENODEV);
  request.mutable_reset()->set_device(0);
  request.mutable_reset()->add_cores(99);
  EXPECT_EQ(ask(request).error(), EINVAL);

  request.mutable_power()->set_device(0);
  EXPECT_EQ(ask(request).error(), 0);
  EXPECT_EQ(status().devices(0).state(), "off");
  request.mutable_power()->set_on(true);
  EXPECT_EQ(ask(request).error(), 0);
  EXPECT_EQ(status().devices(0).state(), "ready");

  request.mutable_link()->set_a(0);
  request.mutable_link()->set_b(12);
  EXPECT_EQ(ask(request).error(), 0);
  ASSERT_EQ(status().links_down_size(), 1);
  EXPECT_EQ(status().links_down(0).b(), 12u);
  request.mutable_link()->set_up(true);
  EXPECT_EQ(ask(request).error(), 0);
  EXPECT_EQ(status().links_down_size(), 0);
}

TEST_F(Control, PacketsThatAreNoRequestsAreAnsweredWithAnError) {
  for (const std::string& packet : {std::string(), std::string("\xFF\xFF\xFF", 3),
                                    std::string(100, '\x0A'), std::string(2 << 20, '\0')}) {
    control::Response response;
    ASSERT_TRUE(response.ParseFromString(handler_->answer(packet)));
    EXPECT_EQ(response.error(), EINVAL) << packet.size();
    EXPECT_FALSE(response.message().empty());
  }
}

class ControlSocket : public Control {
 protected:
  void SetUp() override {
    Control::SetUp();
    path_ = control_path(folder_.path("s"));
    std::string error;
    listener_ = Listener::open(path_, "control channel", error);
    ASSERT_NE(listener_, nullptr) << error;
    server_ = ControlServer::start(
        daemon_(), listener_->release(), [] { return 0u; }, error);
    ASSERT_NE(server_, nullptr) << error;
  }
  void TearDown() override {
    server_.reset();
    listener_.reset();
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path())) << "the socket is left";
  }
  Daemon daemon_() { return {io_, *instance_, "trn1.32xlarge", folder_.path("s")}; }
  int connect() {
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
    EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const timeval patience = {5, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
  }
  control::Response exchange(int fd, const std::string& packet) {
    EXPECT_EQ(::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(packet.size()));
    std::string bytes(kMostControlBytes, '\0');
    const ssize_t received = ::recv(fd, bytes.data(), bytes.size(), 0);
    control::Response response;
    EXPECT_GT(received, 0);
    EXPECT_TRUE(response.ParseFromArray(bytes.data(), static_cast<int>(received)));
    return response;
  }
  const test::Folder folder_;
  std::string path_;
  boost::asio::io_context io_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<ControlServer> server_;
};

TEST_F(ControlSocket, ItsFileIsTheUsersAlone) {
  struct stat status = {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(ControlSocket, SeveralClientsAskSeveralTimes) {
  control::Request request;
  request.mutable_status();
  const int first = connect();
  const int second = connect();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(exchange(first, request.SerializeAsString()).status().devices_size(), 16);
    EXPECT_EQ(exchange(second, request.SerializeAsString()).status().devices_size(), 16);
  }
  EXPECT_EQ(exchange(first, "\xFF\xFF").error(), EINVAL);
  request.mutable_clear();
  EXPECT_EQ(exchange(first, request.SerializeAsString()).error(), 0) << "an answer without news";
  request.mutable_status();
  EXPECT_EQ(exchange(first, request.SerializeAsString()).error(), 0);
  ::close(first);
  EXPECT_EQ(exchange(second, request.SerializeAsString()).error(), 0);
  ::close(second);
}

TEST_F(ControlSocket, AnAnswerThatASocketDoesNotTakeIsRefusedInASentence) {
  std::string error;
  const std::string path = control_path(folder_.path("large"));
  const std::unique_ptr<Listener> listener = Listener::open(path, "control channel", error);
  ASSERT_NE(listener, nullptr) << error;
  // Whatever the process may do, 16 MiB are more than a packet of anybody's.
  const std::unique_ptr<ControlServer> large = ControlServer::start(
      listener->release(), [](std::string_view) { return std::string(size_t{16} << 20, 'x'); },
      error);
  ASSERT_NE(large, nullptr) << error;
  path_ = path;
  const int fd = connect();
  const control::Response response = exchange(fd, "any");
  EXPECT_EQ(response.error(), EMSGSIZE);
  EXPECT_THAT(response.message(), HasSubstr("the answer has 16777216 bytes"));
  ::close(fd);
}

TEST_F(ControlSocket, ClientsThatCannotBeAnsweredForWantOfMemoryKeepNobodyOut) {
  server_.reset();
  listener_.reset();
  std::string error;
  listener_ = Listener::open(path_, "control channel", error);
  ASSERT_NE(listener_, nullptr) << error;
  server_ = ControlServer::start(
      listener_->release(),
      [](std::string_view packet) -> std::string {
        if (packet == "large") throw std::bad_alloc();
        return "answer";
      },
      error);
  ASSERT_NE(server_, nullptr) << error;
  char answer[16];
  for (int i = 0; i < 40; ++i) {
    const int fd = connect();
    ASSERT_EQ(::send(fd, "large", 5, MSG_NOSIGNAL), 5);
    EXPECT_EQ(::recv(fd, answer, sizeof(answer), 0), 0) << "client " << i << " is told at once";
    ::close(fd);
  }
  const int fd = connect();
  ASSERT_EQ(::send(fd, "small", 5, MSG_NOSIGNAL), 5);
  EXPECT_EQ(::recv(fd, answer, sizeof(answer), 0), 6);
  ::close(fd);
}

TEST_F(ControlSocket, ClientsThatLeaveInTheMiddleDisturbNobody) {
  control::Request request;
  request.mutable_status();
  const std::string packet = request.SerializeAsString();
  for (int i = 0; i < 50; ++i) {
    const int fd = connect();
    if (i % 2 != 0) {
      EXPECT_EQ(::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(packet.size()));
    }
    ::close(fd);
  }
  // More than are served at once: the rest are turned away, and there is room again afterwards.
  for (int round = 0; round < 50; ++round) {
    const int fd = connect();
    (void)::send(fd, packet.data(), packet.size(), MSG_NOSIGNAL);
    char byte = 0;
    const bool answered = ::recv(fd, &byte, 1, 0) > 0;
    ::close(fd);
    if (answered) return;
  }
  FAIL() << "nobody was served any more";
}

}  // namespace
}  // namespace neuron::transport
