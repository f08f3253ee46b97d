// SPDX-License-Identifier: Apache-2.0
// The same calls give the same answers on every host of the chip: here in the process and in a
// daemon; the guest of the virtual machine compares its trace with the same file.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace neuron {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class Hosts : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/neuron-hosts-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override {
    if (daemon_ > 0) {
      kill(daemon_, SIGTERM);
      waitpid(daemon_, nullptr, 0);
    }
    std::error_code ignored;
    for (const char* name : {"/trace", "/socket", "/socket.control"})
      unlink((folder_ + name).c_str());
    EXPECT_EQ(rmdir(folder_.c_str()), 0) << folder_ << " is not empty";
  }

  pid_t start(const std::vector<std::string>& command, const std::string& emulator, int output) {
    const pid_t child = fork();
    if (child != 0) return child;
    setenv("NEURON_EMULATOR", emulator.c_str(), 1);
    setenv("NEURON_EMULATOR_LIBRARY", NEURON_BUILD_DIR "/lib/libneuron-emulator.so.1", 1);
    if (output >= 0) dup2(output, STDOUT_FILENO);
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execv(arguments[0], arguments.data());
    _exit(127);
  }

  std::string trace(const std::string& emulator) {
    const std::string file = folder_ + "/trace";
    const int output = open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    const pid_t child = start({NEURON_BUILD_DIR "/tests/ioctl-trace"}, emulator, output);
    close(output);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "ioctl-trace on " << emulator;
    return content(file);
  }

  std::string start_daemon(const std::string& profile) {
    const std::string socket = folder_ + "/socket";
    daemon_ =
        start({NEURON_BUILD_DIR "/bin/neuron-emulatord", "--profile", profile, "--socket", socket},
              "", -1);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (access(socket.c_str(), F_OK) != 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return "unix:" + socket;
  }

  const std::string expected_ =
      content(NEURON_SOURCE_DIR "/tests/differential/hosts/ioctl_trace.txt");
  std::string folder_;
  pid_t daemon_ = -1;
};

TEST_F(Hosts, AnEmbeddedDeviceAnswersAsTheTraceSays) {
  ASSERT_FALSE(expected_.empty());
  EXPECT_EQ(trace("trn1.2xlarge"), expected_);
}

TEST_F(Hosts, ASharedDeviceAnswersAsTheTraceSays) {
  EXPECT_EQ(trace(start_daemon("trn1.2xlarge")), expected_);
}

}  // namespace
}  // namespace neuron
