// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ccom/bridged_hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>

#include "driver/base/file_descriptor.h"
#include "tests/support/process.h"

namespace neuron::bench {

BridgedHosts::BridgedHosts(uint32_t hosts)
    : hosts_(hosts), bridge_("cb" + std::to_string(getpid())) {
  // The bridge has a namespace of its own, so that this host's network stays as it is.
  ready_ = run("ip netns add " + bridge_) &&
           run("ip -n " + bridge_ + " link add bridge type bridge") &&
           run("ip -n " + bridge_ + " link set bridge up");
  for (uint32_t host = 0; ready_ && host < hosts_; ++host) {
    const std::string space = name(host), port = "p" + std::to_string(host);
    ready_ = run("ip netns add " + space) &&
             run("ip -n " + bridge_ + " link add " + port + " type veth peer name eth0 netns " +
                 space) &&
             run("ip -n " + bridge_ + " link set " + port + " master bridge up") &&
             run("ip -n " + space + " addr add " + address(host) + "/24 dev eth0") &&
             run("ip -n " + space + " link set lo up") &&
             run("ip -n " + space + " link set eth0 up");
  }
}

BridgedHosts::~BridgedHosts() {
  for (uint32_t host = 0; host < hosts_; ++host) run("ip netns del " + name(host));
  run("ip netns del " + bridge_);
}

std::string BridgedHosts::name(uint32_t host) const { return bridge_ + "h" + std::to_string(host); }

std::string BridgedHosts::address(uint32_t host) const {
  return "10.79.0." + std::to_string(host + 1);
}

bool BridgedHosts::enter(uint32_t host) const {
  const std::string path = "/var/run/netns/" + name(host);
  const base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file && setns(file.get(), CLONE_NEWNET) == 0) return true;
  std::perror(path.c_str());
  return false;
}

bool BridgedHosts::run(const std::string& command) const {
  const auto run = test::shell(command, {}, std::chrono::seconds(10));
  if (run.ending == 0) return true;
  if (ready_) return false;  // told before, or on the way out
  std::fprintf(stderr, "\"%s\" %s: %s\n", command.c_str(), run.ending.sentence().c_str(),
               run.output.c_str());
  return false;
}

}  // namespace neuron::bench
