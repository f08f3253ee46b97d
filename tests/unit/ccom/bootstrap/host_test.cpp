// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/host.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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
    process_ = fork();
    if (process_ == 0) {
      close(ends[0]);
      char byte;
      (void)!read(ends[1], &byte, 1);
      _exit(status);
    }
    close(ends[1]);
    socket_ = ends[0];
  }
  ~Child() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    close(socket_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t process() const { return process_; }
  void finish() { EXPECT_EQ(send(socket_, "x", 1, MSG_NOSIGNAL), 1); }
  // Until its end is closed, which the system does before the process is a zombie.
  void wait_for_close() {
    char byte;
    while (read(socket_, &byte, 1) > 0) {  // bounded: it sends nothing
    }
  }

 private:
  pid_t process_ = -1;
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
  int status = 0;
  ASSERT_EQ(waitpid(child.process(), &status, WUNTRACED), child.process());
  EXPECT_EQ(exit_reason(child.process()), "");
  kill(child.process(), SIGCONT);
  ASSERT_EQ(waitpid(child.process(), &status, WCONTINUED), child.process());
  EXPECT_EQ(exit_reason(child.process()), "");
}

TEST(ExitReason, IsNothingForOneThatIsNotThere) { EXPECT_EQ(exit_reason(-1), ""); }

}  // namespace
}  // namespace neuron::ccom
