// SPDX-License-Identifier: Apache-2.0
// The election of an UltraServer: who is which node, what happens when one is missing, modes.
#include "driver/emulator/service/pod.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "driver/emulator/service/error.h"
#include "tests/support/child.h"
#include "tests/support/eventually.h"
#include "tests/unit/driver/emulator/service/fake_chip.h"

namespace neuron::service {
namespace {

using ::testing::HasSubstr;

constexpr int kNotSupported = 524;

uint64_t id_of(const __u8 (&id)[256]) {
  uint64_t serial = 0;
  std::memcpy(&serial, id, sizeof(serial));
  for (size_t i = sizeof(serial); i < sizeof(id); ++i) EXPECT_EQ(id[i], 0u) << i;
  return serial;
}

neuron_ioctl_pod_status_v2 status_of(const Pod& pod, int expected = 0) {
  neuron_ioctl_pod_status_v2 status = {};
  EXPECT_EQ(pod.status(status), expected) << last_error();
  return status;
}

// Nodes of one pod; a node answers once it is there.
class Pods : public testing::Test {
 protected:
  static constexpr unsigned kNodes = 4;
  static constexpr uint64_t kSerial = 0x1122334455667700;

  void join(unsigned node, std::chrono::milliseconds timeout = Pod::kTimeout,
            uint8_t type = NEURON_POD_TYPE_P2P) {
    there_[node] = true;
    PodWiring wiring;
    wiring.type = type;
    wiring.nodes = kNodes;
    wiring.node = node;
    wiring.serial = kSerial + node;
    wiring.ask = [this](unsigned other) {
      if (slow_ && other == 0) slow_.wait(true);
      return there_[other] ? std::optional(kSerial + other - repeats_[other]) : std::nullopt;
    };
    wiring.report = [this](const std::string& sentence) {
      const std::lock_guard lock(mutex_);
      reports_.push_back(sentence);
    };
    EXPECT_EQ(pods_[node].join(std::move(wiring), timeout), 0) << last_error();
  }
  void join_all(uint8_t type = NEURON_POD_TYPE_P2P) {
    for (unsigned node = 0; node < kNodes; ++node) join(node, Pod::kTimeout, type);
    for (Pod& pod : pods_) ASSERT_TRUE(reaches(pod, NEURON_POD_E_STATE_ULTRASERVER));
  }
  static bool reaches(const Pod& pod, uint32_t state) {
    return test::eventually([&] {
      neuron_ioctl_pod_status_v2 status = {};
      (void)pod.status(status);
      return status.v1.state == state;
    });
  }
  static int control(Pod& pod, uint32_t ctrl, uint32_t mode = 0, bool marked = false,
                     uint32_t timeout = 0) {
    neuron_ioctl_pod_ctrl request = {};
    request.ctrl = ctrl;
    request.timeout = timeout;
    return pod.control(request, mode, {.session = 1, .pid = 4711, .marked = marked});
  }

  std::array<std::atomic<bool>, kNodes> there_{};
  std::array<std::atomic<unsigned>, kNodes> repeats_{};  // the node that many before it
  std::atomic<bool> slow_{false};                        // whether whoever asks node 0 waits
  std::mutex mutex_;
  std::vector<std::string> reports_;
  std::array<Pod, kNodes> pods_;
};

TEST_F(Pods, NodesHaveTheirNumbersAndOneIdWhenAllHaveCome) {
  for (unsigned node = 0; node + 1 < kNodes; ++node) join(node);
  for (unsigned node = 0; node + 1 < kNodes; ++node) {
    const auto status = status_of(pods_[node], -EBUSY);
    EXPECT_EQ(status.v1.state, static_cast<__u32>(NEURON_POD_E_STATE_IN_PROGRESS));
    EXPECT_EQ(status.v1.pod_type, NEURON_POD_TYPE_P2P);
    EXPECT_EQ(status.v1.node_id, -1);
    EXPECT_THAT(last_error(), HasSubstr("is electing"));
  }
  join(kNodes - 1);
  for (unsigned node = 0; node < kNodes; ++node) {
    ASSERT_TRUE(reaches(pods_[node], NEURON_POD_E_STATE_ULTRASERVER)) << node;
    const auto status = status_of(pods_[node]);
    EXPECT_EQ(status.v1.node_id, static_cast<int>(node));
    EXPECT_EQ(status.v1.pod_sz, kNodes);
    EXPECT_EQ(id_of(status.v1.pod_id), kSerial);
    EXPECT_EQ(status.mode, static_cast<__u32>(NEURON_ULTRASERVER_MODE_UNSET));
    EXPECT_EQ(status.modes_supported, 1u << NEURON_ULTRASERVER_MODE_X4 |
                                          1u << NEURON_ULTRASERVER_MODE_X2V |
                                          1u << NEURON_ULTRASERVER_MODE_X1);
    neuron_ioctl_pod_info info = {};
    pods_[node].info(info);
    EXPECT_EQ(info.pod_type, NEURON_POD_TYPE_P2P);
    EXPECT_EQ(info.pod_sz, kNodes);
    EXPECT_EQ(id_of(info.pod_id), kSerial);
  }
  EXPECT_TRUE(reports_.empty());
}

TEST_F(Pods, AnElectionWithoutANodeFailsNamesItAndMayBeRepeated) {
  for (const unsigned node : {0u, 1u, 3u}) join(node, std::chrono::milliseconds(100));
  for (const unsigned node : {0u, 1u, 3u}) {
    ASSERT_TRUE(reaches(pods_[node], NEURON_POD_E_STATE_FAILED)) << node;
    EXPECT_EQ(status_of(pods_[node]).v1.node_id, -1);
  }
  ASSERT_TRUE(test::eventually([&] {
    const std::lock_guard lock(mutex_);
    return reports_.size() == 3;
  }));
  for (const std::string& report : reports_) {
    EXPECT_THAT(report, HasSubstr("these did not answer node"));
    EXPECT_THAT(report, HasSubstr(": 2"));
  }
  join(2);
  for (const unsigned node : {0u, 1u, 3u}) {
    ASSERT_EQ(control(pods_[node], NEURON_NPE_POD_CTRL_REQ_POD), 0) << last_error();
  }
  for (unsigned node = 0; node < kNodes; ++node) {
    ASSERT_TRUE(reaches(pods_[node], NEURON_POD_E_STATE_ULTRASERVER)) << node;
    EXPECT_EQ(id_of(status_of(pods_[node]).v1.pod_id), kSerial);
  }
}

TEST_F(Pods, TwoNodesWithOneSerialNumberAreNotBelieved) {
  repeats_[3] = 2;
  for (const unsigned node : {1u, 2u, 3u}) there_[node] = true;
  join(0, std::chrono::milliseconds(100));
  ASSERT_TRUE(reaches(pods_[0], NEURON_POD_E_STATE_FAILED));
  ASSERT_TRUE(test::eventually([&] {
    const std::lock_guard lock(mutex_);
    return reports_.size() == 1;
  }));
  EXPECT_THAT(reports_[0], HasSubstr(": 3 (it has the serial number of node 1"));
  repeats_[3] = 0;
  ASSERT_EQ(control(pods_[0], NEURON_NPE_POD_CTRL_REQ_POD), 0) << last_error();
  EXPECT_TRUE(reaches(pods_[0], NEURON_POD_E_STATE_ULTRASERVER));
}

// Others wait for the lock of the marks meanwhile.
TEST_F(Pods, NeitherAnotherElectionNorItsEndWaitsForANodeThatIsAskedJustNow) {
  slow_ = true;
  join(1);
  for (unsigned i = 0; i < 3; ++i) {
    ASSERT_EQ(control(pods_[1], NEURON_NPE_POD_CTRL_REQ_KILL), 0) << last_error();
    EXPECT_EQ(status_of(pods_[1]).v1.state, static_cast<__u32>(NEURON_POD_E_STATE_NOT_STARTED));
    ASSERT_EQ(control(pods_[1], NEURON_NPE_POD_CTRL_REQ_POD), 0) << last_error();
    EXPECT_EQ(status_of(pods_[1], -EBUSY).v1.state,
              static_cast<__u32>(NEURON_POD_E_STATE_IN_PROGRESS));
  }
  for (auto& there : there_) there = true;
  slow_ = false;
  slow_.notify_all();
  EXPECT_TRUE(reaches(pods_[1], NEURON_POD_E_STATE_ULTRASERVER));
}

// In a child, whose limit it is: that of a user's threads, which root has not.
TEST_F(Pods, AnElectionThatGetsNoThreadFailsAndMayBeRepeated) {
  test::Child child = test::Child::forked([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 2;
    rlimit threads{};
    if (::getrlimit(RLIMIT_NPROC, &threads) != 0) return 3;
    const rlimit one{1, threads.rlim_max};
    if (::setrlimit(RLIMIT_NPROC, &one) != 0) return 4;
    Pod pod;  // ends before this process does, and its thread with it
    const auto refused = [&](int result) {
      EXPECT_EQ(result, -ENOMEM);
      EXPECT_THAT(last_error(), HasSubstr("the host gives node 2 no thread for it"));
      EXPECT_EQ(status_of(pod).v1.state, static_cast<__u32>(NEURON_POD_E_STATE_FAILED));
    };
    PodWiring wiring;
    wiring.nodes = kNodes;
    wiring.node = 2;
    wiring.ask = [](unsigned node) { return std::optional<uint64_t>(node + 1); };
    refused(pod.join(std::move(wiring)));
    refused(control(pod, NEURON_NPE_POD_CTRL_REQ_POD));
    if (::setrlimit(RLIMIT_NPROC, &threads) != 0) return 5;
    EXPECT_EQ(control(pod, NEURON_NPE_POD_CTRL_REQ_POD), 0) << last_error();
    EXPECT_TRUE(reaches(pod, NEURON_POD_E_STATE_ULTRASERVER));
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST_F(Pods, AnElectionCanBeKilledAndWaitsForNoMarkedCore) {
  join(0);
  EXPECT_EQ(control(pods_[0], NEURON_NPE_POD_CTRL_SET_MODE, NEURON_ULTRASERVER_MODE_X1), -EBUSY);
  ASSERT_EQ(control(pods_[0], NEURON_NPE_POD_CTRL_REQ_KILL), 0) << last_error();
  EXPECT_EQ(status_of(pods_[0]).v1.state, static_cast<__u32>(NEURON_POD_E_STATE_NOT_STARTED));
  EXPECT_EQ(control(pods_[0], NEURON_NPE_POD_CTRL_REQ_POD, 0, true), -EAGAIN);
  EXPECT_THAT(last_error(), HasSubstr("while cores of this node are marked"));
  EXPECT_EQ(status_of(pods_[0]).v1.state, static_cast<__u32>(NEURON_POD_E_STATE_NOT_STARTED));
  // Its timeout is in seconds.
  ASSERT_EQ(control(pods_[0], NEURON_NPE_POD_CTRL_REQ_POD, 0, false, 1), 0) << last_error();
  EXPECT_EQ(status_of(pods_[0], -EBUSY).v1.state,
            static_cast<__u32>(NEURON_POD_E_STATE_IN_PROGRESS));
  EXPECT_TRUE(reaches(pods_[0], NEURON_POD_E_STATE_FAILED));
  EXPECT_EQ(control(pods_[0], 4), -EINVAL);
}

TEST_F(Pods, AModeMakesPairsOrNodesOnTheirOwnUntilItIsCleared) {
  join_all();
  for (unsigned node = 0; node < kNodes; ++node) {
    Pod& pod = pods_[node];
    ASSERT_EQ(control(pod, NEURON_NPE_POD_CTRL_SET_MODE, NEURON_ULTRASERVER_MODE_X2V), 0)
        << last_error();
    auto status = status_of(pod);
    EXPECT_EQ(status.mode, static_cast<__u32>(NEURON_ULTRASERVER_MODE_X2V));
    EXPECT_EQ(status.v1.node_id, static_cast<int>(node % 2));
    EXPECT_EQ(status.v1.pod_sz, 2);
    EXPECT_EQ(id_of(status.v1.pod_id), kSerial + node / 2 * 2);
    EXPECT_EQ(control(pod, NEURON_NPE_POD_CTRL_SET_MODE, NEURON_ULTRASERVER_MODE_X4), -EEXIST);
    EXPECT_EQ(control(pod, NEURON_NPE_POD_CTRL_SET_MODE, NEURON_ULTRASERVER_MODE_X2V), 0);
    pod.clear_mode();
    EXPECT_EQ(status_of(pod).v1.pod_sz, kNodes);
    ASSERT_EQ(control(pod, NEURON_NPE_POD_CTRL_REQ_SINGLE_NODE), 0) << last_error();
    status = status_of(pod);
    EXPECT_EQ(status.mode, static_cast<__u32>(NEURON_ULTRASERVER_MODE_X1));
    EXPECT_EQ(status.v1.state, static_cast<__u32>(NEURON_POD_E_STATE_SINGLE_NODE));
    EXPECT_EQ(status.v1.node_id, -1);
    EXPECT_EQ(status.v1.pod_sz, 0);
    pod.clear_mode();
    EXPECT_EQ(control(pod, NEURON_NPE_POD_CTRL_SET_MODE, NEURON_ULTRASERVER_MODE_X2H),
              -kNotSupported);
    EXPECT_EQ(control(pod, NEURON_NPE_POD_CTRL_SET_MODE, 40), -kNotSupported);
  }
}

TEST_F(Pods, ASwitchHasNoPairs) {
  join_all(NEURON_POD_TYPE_SWITCH);
  const auto status = status_of(pods_[1]);
  EXPECT_EQ(status.v1.pod_type, NEURON_POD_TYPE_SWITCH);
  EXPECT_EQ(status.modes_supported,
            1u << NEURON_ULTRASERVER_MODE_X4 | 1u << NEURON_ULTRASERVER_MODE_X1);
}

// The calls of a session, on an instance that is a node.
class PodCalls : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    PodWiring wiring;
    wiring.nodes = 4;
    wiring.node = 3;
    wiring.serial = 13;
    wiring.ask = [](unsigned node) { return std::optional<uint64_t>(10 + node); };
    ASSERT_EQ(instance_->pod().join(std::move(wiring)), 0) << last_error();
  }
  neuron_ioctl_pod_status_v2 status() {
    neuron_ioctl_pod_status_v2 status = {};
    status.v1.sz = sizeof(status);
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_POD_STATUS_V2, &status), 0) << last_error();
    return status;
  }
  int set_mode(uint32_t mode) { return set_mode(session_, mode); }
  static int set_mode(Session* session, uint32_t mode) {
    neuron_ioctl_pod_ctrl_v2 control = {};
    control.v1.sz = sizeof(control);
    control.v1.ctrl = NEURON_NPE_POD_CTRL_SET_MODE;
    control.mode = mode;
    return session->ioctl(NEURON_IOCTL_POD_CTRL_V2, &control);
  }
  void elected() {
    ASSERT_TRUE(test::eventually([&] {
      neuron_ioctl_pod_status_v2 status = {};
      status.v1.sz = sizeof(status);
      return session_->ioctl(NEURON_IOCTL_POD_STATUS_V2, &status) == 0;
    }));
  }
};

TEST_F(PodCalls, TellTheUltraServerAndTheLastMarkOfACoreEndsItsMode) {
  ASSERT_TRUE(test::eventually([&] {
    neuron_ioctl_pod_status old = {};
    old.sz = sizeof(old);
    return session_->ioctl(NEURON_IOCTL_POD_STATUS, &old) == 0 && old.node_id == 3 &&
           old.sz == sizeof(old);
  }));
  EXPECT_EQ(id_of(status().v1.pod_id), 10u);
  ASSERT_EQ(set_mode(NEURON_ULTRASERVER_MODE_X2V), 0) << last_error();
  // A descriptor without marks ends nothing.
  Session* other = open(0, O_WRONLY, 777);
  ASSERT_EQ(instance_->close(other), 0);
  EXPECT_EQ(status().v1.node_id, 1);
  EXPECT_EQ(id_of(status().v1.pod_id), 12u);
  neuron_ioctl_crwl_nc_map_ext map = {2, 0, 1, 0, {}};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &map), 0) << last_error();
  neuron_ioctl_pod_ctrl elect = {};
  elect.sz = sizeof(elect);
  EXPECT_EQ(session_->ioctl(NEURON_IOCTL_POD_CTRL, &elect), -EAGAIN);
  neuron_ioctl_crwl_nc_map one = {0, 0, 0, 0, 1};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK, &one), 0);
  EXPECT_EQ(status().mode, static_cast<__u32>(NEURON_ULTRASERVER_MODE_X2V)) << "one is left";
  one.bitmap = 2;
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK, &one), 0);
  EXPECT_EQ(status().mode, static_cast<__u32>(NEURON_ULTRASERVER_MODE_UNSET));
  EXPECT_EQ(status().v1.node_id, 3);
}

TEST_F(PodCalls, AModeWithoutMarksEndsWithTheLastSessionThatHasSetIt) {
  elected();
  Session* first = open(0, O_WRONLY, 777);
  Session* second = open(0, O_RDWR, 778);
  ASSERT_EQ(set_mode(first, NEURON_ULTRASERVER_MODE_X2V), 0) << last_error();
  ASSERT_EQ(set_mode(second, NEURON_ULTRASERVER_MODE_X2V), 0) << last_error();
  EXPECT_EQ(set_mode(NEURON_ULTRASERVER_MODE_X1), -EEXIST);
  EXPECT_THAT(last_error(), HasSubstr("when the device has been closed that the mode was set "
                                      "through (pid 777, pid 778)"));
  ASSERT_EQ(instance_->close(first), 0);
  EXPECT_EQ(set_mode(NEURON_ULTRASERVER_MODE_X1), -EEXIST);
  EXPECT_THAT(last_error(), HasSubstr("(pid 778)"));
  ASSERT_EQ(instance_->close(second), 0);
  EXPECT_EQ(status().mode, static_cast<__u32>(NEURON_ULTRASERVER_MODE_UNSET));
  EXPECT_EQ(set_mode(NEURON_ULTRASERVER_MODE_X1), 0) << last_error();
}

TEST_F(PodCalls, AModeOfASessionThatHasEndedStaysAsLongAsACoreIsMarked) {
  elected();
  Session* other = open(0, O_RDWR, 777);
  ASSERT_EQ(set_mode(other, NEURON_ULTRASERVER_MODE_X2V), 0) << last_error();
  neuron_ioctl_crwl_nc_map_ext map = {1, 1, 1, 0, {}};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &map), 0) << last_error();
  ASSERT_EQ(instance_->close(other), 0);
  EXPECT_EQ(status().mode, static_cast<__u32>(NEURON_ULTRASERVER_MODE_X2V));
  EXPECT_EQ(set_mode(NEURON_ULTRASERVER_MODE_X1), -EEXIST);
  EXPECT_THAT(last_error(), HasSubstr("when no core of this node is marked any more"));
  neuron_ioctl_crwl_nc_map one = {0, 0, 0, 0, 2};
  ASSERT_EQ(session_->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK, &one), 0);
  EXPECT_EQ(status().mode, static_cast<__u32>(NEURON_ULTRASERVER_MODE_UNSET));
}

// Whoever has marked a core and then set a mode keeps it until the mark is gone.
TEST_F(PodCalls, NoElectionTakesTheModeOfAProcessThatMarksACoreAtThatMoment) {
  elected();
  Session* other = open(0, O_RDWR, 777);
  std::atomic<bool> over{false};
  // Several, so that one is held up between the decision and what follows from it.
  std::vector<std::thread> elections;
  for (unsigned i = 0; i < 4; ++i) {
    elections.emplace_back([&] {
      while (!over) {
        neuron_ioctl_pod_ctrl elect = {};
        elect.sz = sizeof(elect);
        (void)session_->ioctl(NEURON_IOCTL_POD_CTRL, &elect);
      }
    });
  }
  neuron_ioctl_crwl_nc_map one = {0, 0, 0, 0, 1};
  for (int i = 0; i < 300 && !HasFailure(); ++i) {
    neuron_ioctl_crwl_nc_map_ext map = {1, 0, 0, 0, {}};
    EXPECT_EQ(other->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &map), 0) << last_error();
    int set = 0;
    EXPECT_TRUE(test::eventually(
        [&] { return (set = set_mode(other, NEURON_ULTRASERVER_MODE_X1)) != -EBUSY; }));
    EXPECT_EQ(set, 0) << last_error();
    for (int look = 0; look < 20; ++look) {
      EXPECT_EQ(status().mode, static_cast<__u32>(NEURON_ULTRASERVER_MODE_X1)) << i;
      std::this_thread::yield();
    }
    EXPECT_EQ(other->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_UNMARK, &one), 0);
    std::this_thread::yield();
  }
  over = true;
  for (std::thread& thread : elections) thread.join();
}

TEST_F(PodCalls, TheEndOfAProcessEndsTheModeOfItsMarks) {
  Session* other = open(0, O_RDWR, 777);
  neuron_ioctl_crwl_nc_map_ext map = {1, 1, 1, 0, {}};
  ASSERT_EQ(other->ioctl(NEURON_IOCTL_CRWL_NC_RANGE_MARK_EXT0, &map), 0) << last_error();
  ASSERT_TRUE(test::eventually([&] { return set_mode(NEURON_ULTRASERVER_MODE_X1) == 0; }));
  ASSERT_EQ(instance_->close(other), 0);
  EXPECT_EQ(status().mode, static_cast<__u32>(NEURON_ULTRASERVER_MODE_UNSET));
}

}  // namespace
}  // namespace neuron::service
