// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/instance_key.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <string_view>

#include "driver/base/format.h"

namespace neuron::runtime {

HostFacts facts_of_this_process() {
  HostFacts facts;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  if (!std::getline(file, facts.boot) || facts.boot.empty()) {
    char name[256] = {};
    (void)::gethostname(name, sizeof(name) - 1);
    facts.boot = name;
  }
  struct stat space {};
  if (::stat("/proc/self/ns/pid", &space) == 0) facts.process_space = space.st_ino;
  facts.process = ::getpid();
  return facts;
}

uint64_t instance_key(const HostFacts& facts, const std::string& emulator) {
  constexpr std::string_view kSocket = "unix:";
  std::string name = facts.boot + "\n";
  if (emulator.starts_with(kSocket)) {
    // Paths are the same in containers whose daemons differ; the socket itself is not.
    struct stat socket {};
    const bool there = ::stat(emulator.c_str() + kSocket.size(), &socket) == 0;
    name += there ? base::format("socket {} {}", socket.st_dev, socket.st_ino) : emulator;
  } else if (!emulator.empty()) {
    name += base::format("process {} of {}", facts.process, facts.process_space);
  }
  return std::hash<std::string>()(name);
}

uint64_t process_space_key(const HostFacts& facts) {
  return std::hash<std::string>()(
      base::format("processes of {} in {}", facts.boot, facts.process_space));
}

uint64_t instance_key_of_ultra_server(uint64_t id) {
  return std::hash<std::string>()(base::format("UltraServer {:016x}", id));
}

uint64_t instance_key_of_node(uint64_t ultra_server, uint32_t node) {
  return std::hash<std::string>()(base::format("node {} of {:016x}", node, ultra_server));
}

}  // namespace neuron::runtime
