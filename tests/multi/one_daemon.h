// SPDX-License-Identifier: Apache-2.0
// Tests with a daemon that serves an UltraServer: a socket and ranks for each node.
// Callers: tests, in one thread. Owns: the folder of the sockets; the daemon is the test's.
#ifndef TESTS_MULTI_ONE_DAEMON_H
#define TESTS_MULTI_ONE_DAEMON_H

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "tests/multi/instance_ranks.h"
#include "tests/support/daemon.h"

namespace neuron::multi {

// Two nodes of two chips, so that a test needs no more memory than it writes to.
inline constexpr const char* kSmallUltraServer = R"({
  "name": "small-ultraserver",
  "devices": {
    "pci_device": "0x7364", "revision": 1, "generation": 3, "cores": 8,
    "hbm": {"stacks": 4, "gib": 24}, "adapters": [], "link": {"hop_ns": 1500, "gb_per_second": 128},
    "chips": [
      {"routing_id": 0, "address": "0000:cc:00.0", "numa_node": -1, "neighbours": [1]},
      {"routing_id": 8, "address": "0000:b5:00.0", "numa_node": -1, "neighbours": [0]}]
  },
  "topology": {
    "generation": 3, "chips": 2, "ranks_per_chip": 8, "dma_engines": 128, "collective_cores": 16,
    "hbm_gigabytes_per_second": 2900, "dma_gigabytes_per_second": 3500,
    "on_chip": {"gigabytes_per_second": 640, "latency_ns": 500},
    "link": {"gigabytes_per_second": 128, "latency_ns": 1500}, "nics": 0,
    "pod": "peer_to_peer", "pod_nodes": 2,
    "pod_link": {"gigabytes_per_second": 64, "latency_ns": 1500},
    "neighbours": [[1], [0]], "rings": []
  }
})";

// The ranks' programs are those of one physical core.
inline const test::Environment kPhysicalCores = {{"NEURON_LOGICAL_NC_CONFIG", "1"},
                                                 {"NEURON_RT_ALLOW_LEGACY_NEFF", "1"}};
inline constexpr unsigned kEach = 4, kApart = 4;  // ranks of a node: two on each of two chips

class OneDaemon : public ::testing::Test {
 protected:
  std::string emulator(unsigned node) const {
    return "unix:" + folder_.path("host-" + std::to_string(node));
  }
  // The daemon is asked at the socket of its first node.
  std::unique_ptr<test::Daemon> serve(const std::string& profile, const test::Words& before = {}) {
    return std::make_unique<test::Daemon>(
        folder_, profile,
        test::Daemon::Options{
            .name = "host", .before = before, .arguments = {"--ultraserver"}, .answers_at = "-0"});
  }
  Ranks ranks(const std::string& algorithm = "", test::Environment extra = {}) {
    extra.insert(kPhysicalCores.begin(), kPhysicalCores.end());
    return Ranks(folder_, {emulator(0), emulator(1)}, kEach, algorithm, extra, kApart);
  }
  // neuron-emulatorctl at the socket of a node, and what it says.
  test::Run control(unsigned node, const std::string& command) const {
    return test::shell(test::built("bin/neuron-emulatorctl") + " " + command + " 2>&1",
                       {{"NEURON_EMULATOR", emulator(node)}});
  }

  const test::Folder folder_;
  const std::string profile_ = folder_.write("small.json", kSmallUltraServer);
};

}  // namespace neuron::multi

#endif
