// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-emulatorctl/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "driver/base/file_descriptor.h"
#include "tests/support/files.h"
#include "tests/support/setting.h"

namespace neuron::emulatorctl {
namespace {

using test::Folder;
using test::Setting;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// A control channel that takes one request and gives one answer.
class Channel {
 public:
  Channel(const std::string& path, std::string answer) : answer_(std::move(answer)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    listening_ = base::FileDescriptor(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(listening_.get(), 1), 0);
    thread_ = std::thread([this] {
      const base::FileDescriptor peer(::accept(listening_.get(), nullptr, nullptr));
      if (answer_ == "nothing") return;
      request.resize(1 << 21);
      const ssize_t got = ::recv(peer.get(), request.data(), request.size(), 0);
      request.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
      EXPECT_EQ(::send(peer.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(answer_.size()));
    });
  }
  ~Channel() { done(); }
  void done() {
    if (thread_.joinable()) thread_.join();
  }
  std::string request;

 private:
  const std::string answer_;
  base::FileDescriptor listening_;
  std::thread thread_;
};

class Client : public ::testing::Test {
 protected:
  Outcome ask_for(const std::string& answer) {
    const std::string path = folder_.path("c" + std::to_string(++channels_));
    Channel channel(path, answer);
    const Outcome outcome = ask(path, request_, response_, error_);
    channel.done();
    asked_ = channel.request;
    return outcome;
  }
  static std::string answer(int error, const std::string& message) {
    control::Response response;
    response.set_error(error);
    response.set_message(message);
    return response.SerializeAsString();
  }

  Folder folder_;
  int channels_ = 0;
  control::Request request_;
  control::Response response_;
  std::string error_, asked_;
};

TEST(Path, IsBesideTheSocketThatTheEnvironmentNames) {
  EXPECT_EQ(control_path("/run/device"), "/run/device.control");
  for (const auto& [value, path] : {std::pair{"unix:/run/device", "/run/device.control"},
                                    {"trn1.2xlarge", ""},
                                    {"unix", ""},
                                    {"unit:/run/device", ""}}) {
    const Setting emulator("NEURON_EMULATOR", value);
    EXPECT_EQ(path_of_environment(), path) << value;
  }
  const Setting none("NEURON_EMULATOR", nullptr);
  EXPECT_EQ(path_of_environment(), "");
}

TEST_F(Client, HandsOverTheRequestAndGivesTheResponse) {
  request_.mutable_status();
  EXPECT_EQ(ask_for(answer(0, "fine")), Outcome::kDone);
  EXPECT_EQ(response_.message(), "fine");
  control::Request seen;
  ASSERT_TRUE(seen.ParseFromString(asked_));
  EXPECT_EQ(seen.SerializeAsString(), request_.SerializeAsString());
  EXPECT_TRUE(seen.has_status());
}

TEST_F(Client, ARefusalHasTheSentenceOfTheDaemonOrThatOfItsNumber) {
  EXPECT_EQ(ask_for(answer(EBUSY, "device 0 is in use")), Outcome::kRefused);
  EXPECT_EQ(error_, "device 0 is in use");
  EXPECT_EQ(ask_for(answer(EBUSY, "")), Outcome::kRefused);
  EXPECT_EQ(error_, std::strerror(EBUSY));
}

TEST_F(Client, ADaemonThatIsNotThereIsNamedWithWhatToDo) {
  const std::string path = folder_.path("none");
  EXPECT_EQ(ask(path, request_, response_, error_), Outcome::kNoDaemon);
  EXPECT_EQ(error_, "the control channel at " + path +
                        " cannot be reached: No such file or directory; start neuron-emulatord, or "
                        "name its socket with --socket");
  folder_.write("file", "");
  EXPECT_EQ(ask(folder_.path("file"), request_, response_, error_), Outcome::kNoDaemon);
  EXPECT_THAT(error_, HasSubstr("Connection refused; start neuron-emulatord"));
  EXPECT_EQ(ask("/proc/1/mem/x", request_, response_, error_), Outcome::kNoDaemon);
  EXPECT_THAT(error_, EndsWith("cannot be reached: Not a directory"));
}

TEST_F(Client, APathHasRoomInAnAddress) {
  const std::string longest = "/" + std::string(106, 'p');
  EXPECT_EQ(ask(longest, request_, response_, error_), Outcome::kNoDaemon);
  EXPECT_THAT(error_, HasSubstr("No such file"));
  EXPECT_EQ(ask(longest + "p", request_, response_, error_), Outcome::kNoDaemon);
  EXPECT_THAT(error_, EndsWith("has a path of over 107 characters"));
}

TEST_F(Client, AnAnswerThatIsNoneIsToldFromAClosedConnection) {
  EXPECT_EQ(ask_for("\xFF\xFF\xFF"), Outcome::kNoDaemon);
  EXPECT_THAT(error_, EndsWith("answered with 3 bytes that are no response; is it another "
                               "program's socket?"));
  EXPECT_EQ(ask_for("nothing"), Outcome::kNoDaemon);
  EXPECT_FALSE(error_.empty());
}

TEST_F(Client, ARequestHasAtMostAMebibyte) {
  request_.mutable_inject()->set_plan(std::string(1 << 20, 'f'));
  const std::string path = folder_.path("large");
  Channel channel(path, "nothing");
  EXPECT_EQ(ask(path, request_, response_, error_), Outcome::kNoDaemon);
  EXPECT_THAT(error_, HasSubstr("takes no request of " +
                                std::to_string(request_.SerializeAsString().size()) +
                                " bytes: Message too long"));
}

}  // namespace
}  // namespace neuron::emulatorctl
