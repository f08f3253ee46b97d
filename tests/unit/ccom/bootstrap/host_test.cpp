// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/host.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/child.h"

namespace neuron::ccom {
namespace {

using testing::HasSubstr;

// A process that does nothing, and a socket whose other end it alone holds.
class Child {
 public:
  // `status`: what it exits with as soon as a byte comes; it waits for ever without one.
  explicit Child(int status = 0) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    process_ = test::Child::forked([&] {
      close(ends[0]);
      char byte;
      (void)!read(ends[1], &byte, 1);
      return status;
    });
    close(ends[1]);
    socket_ = ends[0];
  }
  ~Child() { close(socket_); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t process() const { return process_.pid(); }
  const test::Child& state() const { return process_; }
  void finish() { EXPECT_EQ(send(socket_, "x", 1, MSG_NOSIGNAL), 1); }
  // Until its end is closed, which the system does before the process is a zombie.
  void wait_for_close() {
    char byte;
    while (read(socket_, &byte, 1) > 0) {  // bounded: it sends nothing
    }
  }

 private:
  test::Child process_;
  int socket_ = -1;
};

TEST(ExitReason, IsThereAsSoonAsTheSocketsOfAKilledProcessAreClosed) {
  for (int i = 0; i < 100; ++i) {
    Child child;
    kill(child.process(), SIGKILL);
    child.wait_for_close();
    ASSERT_THAT(exit_reason(child.process()), HasSubstr("killed by signal 9")) << i;
  }
}

TEST(ExitReason, IsTheStatusOfAProcessThatGaveUp) {
  Child child(3);
  child.finish();
  child.wait_for_close();
  EXPECT_EQ(exit_reason(child.process()), "exited with status 3");
}

TEST(ExitReason, IsNothingForOneThatRunsOrIsStopped) {
  Child child;
  EXPECT_EQ(exit_reason(child.process()), "");
  kill(child.process(), SIGSTOP);
  ASSERT_TRUE(test::eventually([&] { return child.state().stopped(); }));
  EXPECT_EQ(exit_reason(child.process()), "");
  kill(child.process(), SIGCONT);
  ASSERT_TRUE(test::eventually([&] { return child.state().continued(); }));
  EXPECT_EQ(exit_reason(child.process()), "");
}

TEST(ExitReason, IsNothingForOneThatIsNotThere) { EXPECT_EQ(exit_reason(-1), ""); }

}  // namespace
}  // namespace neuron::ccom
