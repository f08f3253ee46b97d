// SPDX-License-Identifier: Apache-2.0
// Strangers at every port on which the processes of a running job listen: the bootstrap's doors and
// the sockets of the network's provider. The job goes on, and still names who dies.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "ccom/bootstrap/host.h"
#include "driver/base/format.h"
#include "tests/unit/ccom/api/job.h"

namespace neuron::ccom {
namespace {

using std::chrono::milliseconds;

// Inodes of the sockets of a process.
std::set<std::string> sockets_of(pid_t process) {
  std::set<std::string> inodes;
  const std::string folder = format("/proc/{}/fd", process);
  DIR* opened = opendir(folder.c_str());
  while (const dirent* entry = opened != nullptr ? readdir(opened) : nullptr) {
    char target[64] = {};
    const std::string path = folder + "/" + entry->d_name;
    if (readlink(path.c_str(), target, sizeof(target) - 1) > 0 &&
        strncmp(target, "socket:[", 8) == 0) {
      inodes.insert(std::string(target + 8, strlen(target) - 9));
    }
  }
  if (opened != nullptr) closedir(opened);
  return inodes;
}

// TCP ports on which a process listens.
std::set<uint16_t> ports_of(pid_t process) {
  const std::set<std::string> own = sockets_of(process);
  std::set<uint16_t> ports;
  std::ifstream table("/proc/net/tcp");
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, local, remote, state, queues, timer, retries, user, timeout, inode;
    words >> number >> local >> remote >> state >> queues >> timer >> retries >> user >> timeout >>
        inode;
    const size_t colon = local.find(':');
    if (state == "0A" && own.count(inode) != 0 && colon != std::string::npos) {
      ports.insert(static_cast<uint16_t>(strtoul(local.c_str() + colon + 1, nullptr, 16)));
    }
  }
  return ports;
}

int connect_to(uint16_t port) {
  const int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  static_cast<void>(!connect(stranger, reinterpret_cast<sockaddr*>(&address), sizeof(address)));
  return stranger;
}

class Strangers : public testing::TestWithParam<uint32_t> {};

TEST_P(Strangers, AtEveryPortOfARunningJobDoNotDisturbIt) {
  constexpr uint32_t kSize = 3;
  constexpr size_t kStrangers = 150;  // at each port
  ASSERT_TRUE(reserve_descriptors(4000));
  Job job(kSize, 15000, run_until_it_fails, GetParam());
  Report said;
  for (uint32_t i = 0; i < kSize; ++i) {
    ASSERT_TRUE(job.hear(said, milliseconds(20000)));
    ASSERT_EQ(said.status, CCOM_SUCCESS) << said.sentence;
  }
  const std::string kWords[] = {"", "GET / HTTP/1.1\r\n\r\n", std::string(4096, '\xff'),
                                std::string(64, '\0'), "\x10"};
  std::vector<int> strangers;
  size_t ports = 0;
  for (uint32_t rank = 0; rank < kSize; ++rank) {
    for (const uint16_t port : ports_of(job.child(rank))) {
      ++ports;
      for (size_t i = 0; i < kStrangers; ++i) {
        strangers.push_back(connect_to(port));
        const std::string& words = kWords[i % std::size(kWords)];
        static_cast<void>(!send(strangers.back(), words.data(), words.size(), MSG_NOSIGNAL));
        // Every second one goes at once.
        if (i % 2 == 1) {
          close(strangers.back());
          strangers.pop_back();
        }
      }
    }
  }
  // Each rank has a door; over tcp its provider listens, too.
  EXPECT_GE(ports, GetParam() == 0 ? kSize : 2 * kSize);
  EXPECT_FALSE(job.hear(said, milliseconds(300))) << "rank " << said.rank << ": " << said.sentence;
  kill(job.child(1), SIGKILL);
  for (uint32_t i = 0; i + 1 < kSize; ++i) {
    ASSERT_TRUE(job.hear(said, milliseconds(20000))) << "a rank hangs";
    EXPECT_EQ(said.status, CCOM_RANK_DEAD) << said.sentence;
    EXPECT_NE(strstr(said.sentence, "rank 1 (host "), nullptr) << said.sentence;
    EXPECT_NE(strstr(said.sentence, "killed by signal 9"), nullptr) << said.sentence;
    EXPECT_NE(strstr(said.sentence, "all_reduce"), nullptr) << said.sentence;
  }
  for (const int stranger : strangers) close(stranger);
}

INSTANTIATE_TEST_SUITE_P(Over, Strangers, testing::Values(0u, uint32_t{CCOM_FLAG_NO_SHARED_MEMORY}),
                         [](const auto& info) {
                           return std::string(info.param == 0 ? "SharedMemory" : "Tcp");
                         });

}  // namespace
}  // namespace neuron::ccom
