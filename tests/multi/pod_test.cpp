// SPDX-License-Identifier: Apache-2.0
// UltraServers of several daemons: each is a node, and tells its clients which.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstring>
#include <memory>
#include <set>

#include "tests/multi/device_client.h"
#include "tests/support/daemon.h"
#include "tests/support/eventually.h"

namespace neuron::multi {
namespace {

using test::Daemon;
using test::Folder;
using ::testing::HasSubstr;

constexpr unsigned kNodes = 4;

std::unique_ptr<Daemon> node_of(const Folder& folder, unsigned node,
                                const std::string& profile = "trn2-ultraserver") {
  return std::make_unique<Daemon>(
      folder, profile,
      Daemon::Options{.name = "host-" + std::to_string(node),
                      .before = {},
                      .arguments = {"--pod", folder.path(), "--pod-node", std::to_string(node)}});
}

struct Status {
  int result = -1;
  neuron_ioctl_pod_status_v2 is = {};

  uint64_t id() const {
    uint64_t id = 0;
    std::memcpy(&id, is.v1.pod_id, sizeof(id));
    return id;
  }
};

Status status_of(const Daemon& daemon) {
  Status status;
  status.is.v1.sz = sizeof(status.is);
  if (const auto client = DeviceClient::open(daemon.socket())) {
    status.result = client->port().ioctl(NEURON_IOCTL_POD_STATUS_V2, &status.is);
  }
  return status;
}

bool joins(const Daemon& daemon) {
  return test::eventually([&] {
    const Status status = status_of(daemon);
    return status.result == 0 && status.is.v1.state == NEURON_POD_E_STATE_ULTRASERVER;
  });
}

TEST(UltraServers, OfFourDaemonsAgreeOnNodesAndIdAndAnotherElectionFindsANodeThatCameBack) {
  const Folder folder;
  std::array<std::unique_ptr<Daemon>, kNodes> daemons;
  for (unsigned node = 1; node < kNodes; ++node) daemons[node] = node_of(folder, node);
  const Status before = status_of(*daemons[1]);
  EXPECT_EQ(before.result, -EBUSY) << "node 0 is not there";
  EXPECT_EQ(before.is.v1.state, static_cast<__u32>(NEURON_POD_E_STATE_IN_PROGRESS));
  daemons[0] = node_of(folder, 0);
  std::set<uint64_t> ids;
  for (unsigned node = 0; node < kNodes; ++node) {
    ASSERT_TRUE(joins(*daemons[node])) << daemons[node]->log();
    const Status status = status_of(*daemons[node]);
    EXPECT_EQ(status.is.v1.node_id, static_cast<int>(node));
    EXPECT_EQ(status.is.v1.pod_sz, kNodes);
    EXPECT_EQ(status.is.v1.pod_type, NEURON_POD_TYPE_P2P);
    ids.insert(status.id());
  }
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_NE(*ids.begin(), 0u);
  // Its serial number is another one now, and with it the id of the UltraServer.
  daemons[0]->restart();
  ASSERT_TRUE(joins(*daemons[0])) << daemons[0]->log();
  EXPECT_NE(status_of(*daemons[0]).id(), *ids.begin());
  EXPECT_EQ(status_of(*daemons[2]).id(), *ids.begin()) << "as it was elected";
  const auto client = DeviceClient::open(daemons[2]->socket());
  neuron_ioctl_pod_ctrl_v2 elect = {};
  elect.v1.sz = sizeof(elect);
  elect.v1.ctrl = NEURON_NPE_POD_CTRL_REQ_POD;
  ASSERT_EQ(client->port().ioctl(NEURON_IOCTL_POD_CTRL_V2, &elect), 0);
  ASSERT_TRUE(joins(*daemons[2]));
  EXPECT_EQ(status_of(*daemons[2]).id(), status_of(*daemons[0]).id());
}

TEST(UltraServers, ADaemonThatIsNoNodeOfOneSaysSo) {
  const Folder folder;
  const auto refused = [&](const std::string& options) {
    return test::shell(test::built("bin/neuron-emulatord") + " --socket " + folder.path("socket") +
                       " " + options + " 2>&1");
  };
  const std::string pod = "--pod " + folder.path();
  auto run = refused("--profile trn2.48xlarge --pod-node 0 " + pod);
  EXPECT_EQ(run.ending, 1);
  EXPECT_THAT(run.output, HasSubstr("trn2.48xlarge is no node of an UltraServer"));
  run = refused("--profile trn2-ultraserver --pod-node 4 " + pod);
  EXPECT_EQ(run.ending, 1);
  EXPECT_THAT(run.output, HasSubstr("has nodes 0 to 3"));
  run = refused("--profile trn2-ultraserver " + pod);
  EXPECT_EQ(run.ending, 2);
  EXPECT_THAT(run.output, HasSubstr("--pod-node"));
  const auto first = node_of(folder, 1);
  run = refused("--profile trn2-ultraserver --pod-node 1 " + pod);
  EXPECT_EQ(run.ending, 1);
  EXPECT_THAT(run.output, HasSubstr("is served already"));
}

}  // namespace
}  // namespace neuron::multi
