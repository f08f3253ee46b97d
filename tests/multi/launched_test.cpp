// SPDX-License-Identifier: Apache-2.0
// nccom-test in processes that a launcher has started: who may join the job, and who may lead it.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <thread>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "tests/support/files.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"

namespace neuron::multi {
namespace {

using test::Process;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSecret = "of-this-job-alone";

// A job of two processes with the variables of Open MPI.
class LaunchedJob : public testing::Test {
 protected:
  // Two neighbouring ports, of which the leader takes the second.
  LaunchedJob() : port_(test::free_port(2)) {}

  std::unique_ptr<Process> start(int process, const std::string& secret) const {
    return std::make_unique<Process>(
        test::Words{test::built("bin/nccom-test"), "--backend", "host", "-b", "1K", "-e", "4K",
                    "-d", "fp32", "--check", "random", "--seed", "7", "-n", "5",
                    "--non-interactive", "allr"},
        test::Environment{{"OMPI_COMM_WORLD_RANK", std::to_string(process)},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                          {"NEURON_RT_ROOT_COMM_ID", "127.0.0.1:" + std::to_string(port_)},
                          {"CCOM_SECRET", secret}});
  }

  static base::FileDescriptor listener_on(uint16_t port) {
    base::FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const sockaddr_in address = loopback(port);
    if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listener.get(), 8) != 0) {
      listener.reset();
    }
    return listener;
  }

  base::FileDescriptor connect() const {
    const auto end = base::Deadline::after(std::chrono::seconds(20));
    const sockaddr_in address = loopback(static_cast<uint16_t>(port_ + 1));
    while (!end.expired()) {
      base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
          0) {
        return socket;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return base::FileDescriptor();
  }

  // What comes until the other side is silent for a second, or closes.
  static std::string hear(int socket) {
    const timeval patience{1, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    std::string text;
    char buffer[4096];
    for (ssize_t got = 0; (got = ::recv(socket, buffer, sizeof(buffer), 0)) > 0;) {
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }
  static void say(int socket, const std::string& text) {
    EXPECT_EQ(::send(socket, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }

  uint16_t port_ = 0;

 private:
  static sockaddr_in loopback(uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    return address;
  }
};

TEST_F(LaunchedJob, IsDoneAlthoughStrangersFillThePortOfItsLeader) {
  const auto leader = start(0, kSecret);
  std::vector<base::FileDescriptor> silent;
  for (int n = 0; n < 300; ++n) silent.push_back(connect());
  for (const char* words : {"1 0123456789abcdef fedcba\n", "4294967295 a b\n", "\n", "1 \n"}) {
    const base::FileDescriptor stranger = connect();
    ASSERT_TRUE(stranger);
    say(stranger.get(), words);
    EXPECT_THAT(hear(stranger.get()), Not(HasSubstr("host"))) << "settings for " << words;
  }
  const auto worker = start(1, kSecret);
  EXPECT_THAT(leader->rest(), HasSubstr("Avg bus bandwidth"));
  EXPECT_EQ(leader->wait(), 0);
  EXPECT_EQ(worker->wait(), 0);
}

TEST_F(LaunchedJob, TakesNoSettingsFromALeaderThatDoesNotKnowItsSecret) {
  const base::FileDescriptor listener = listener_on(static_cast<uint16_t>(port_ + 1));
  ASSERT_TRUE(listener);
  const auto worker = start(1, kSecret);
  const base::FileDescriptor met(::accept(listener.get(), nullptr, nullptr));
  ASSERT_TRUE(met);
  say(met.get(), "nccom-test 1 00112233445566778899aabbccddeeff\n");
  const std::string answer = hear(met.get());
  EXPECT_THAT(answer, HasSubstr("1 "));
  say(met.get(), std::string(64, 'a') + " 7 host 00 unix:/tmp/another\n");
  EXPECT_THAT(worker->rest(), HasSubstr("does not know the secret of this job"));
  EXPECT_EQ(worker->wait(), 1);
}

TEST_F(LaunchedJob, TakesAnAnswerOnlyToTheChallengeOfItsConnection) {
  base::FileDescriptor listener = listener_on(static_cast<uint16_t>(port_ + 1));
  ASSERT_TRUE(listener);
  const auto worker = start(1, kSecret);
  const base::FileDescriptor met(::accept(listener.get(), nullptr, nullptr));
  ASSERT_TRUE(met);
  say(met.get(), "nccom-test 1 00112233445566778899aabbccddeeff\n");
  const std::string heard = hear(met.get());
  EXPECT_THAT(heard, Not(HasSubstr(kSecret)));
  worker->kill();
  listener.reset();
  const auto leader = start(0, kSecret);
  const base::FileDescriptor stranger = connect();
  ASSERT_TRUE(stranger);
  say(stranger.get(), heard);
  EXPECT_THAT(hear(stranger.get()), Not(HasSubstr("host"))) << "the settings of the job";
  leader->kill();
}

}  // namespace
}  // namespace neuron::multi
