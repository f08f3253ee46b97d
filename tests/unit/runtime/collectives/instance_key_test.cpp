// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/instance_key.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/files.h"

namespace neuron::runtime {
namespace {

const HostFacts kHere{.boot = "one", .process_space = 7, .process = 1};

HostFacts with_boot(const char* boot) {
  HostFacts facts = kHere;
  facts.boot = boot;
  return facts;
}

TEST(InstanceKey, OfTheDriversDevicesIsTheHostsWhateverItsProcess) {
  HostFacts other = kHere;
  other.process = 2;
  other.process_space = 8;  // another container of the host
  EXPECT_EQ(instance_key(kHere, ""), instance_key(other, ""));
  EXPECT_NE(instance_key(kHere, ""), instance_key(with_boot("two"), ""))
      << "two hosts may have one name";
}

TEST(InstanceKey, OfDevicesInAProcessIsItsOwn) {
  const std::string emulator = "trn1.2xlarge";
  HostFacts process = kHere, container = kHere;
  process.process = 2;
  container.process_space = 8;  // its first process is number 1, too
  EXPECT_EQ(instance_key(kHere, emulator), instance_key(kHere, "trn1.32xlarge"));
  EXPECT_NE(instance_key(kHere, emulator), instance_key(kHere, ""));
  EXPECT_NE(instance_key(kHere, emulator), instance_key(process, emulator));
  EXPECT_NE(instance_key(kHere, emulator), instance_key(container, emulator));
  EXPECT_NE(instance_key(kHere, emulator), instance_key(with_boot("two"), emulator));
}

TEST(InstanceKey, OfADaemonsDevicesIsItsSocketWhateverTheProcessAndThePath) {
  const test::Folder folder;
  const std::string path = folder.write("socket", ""), other = folder.path() + "/other";
  ASSERT_EQ(::symlink(path.c_str(), other.c_str()), 0);
  HostFacts process = kHere;
  process.process = 2;
  EXPECT_EQ(instance_key(kHere, "unix:" + path), instance_key(process, "unix:" + other));
  EXPECT_NE(instance_key(kHere, "unix:" + path), instance_key(kHere, ""));
  EXPECT_NE(instance_key(kHere, "unix:" + path), instance_key(with_boot("two"), "unix:" + path));
}

TEST(InstanceKey, OfAnUltraServerIsItsIdOnWhicheverHost) {
  EXPECT_EQ(instance_key_of_ultra_server(7), instance_key_of_ultra_server(7));
  EXPECT_NE(instance_key_of_ultra_server(7), instance_key_of_ultra_server(8));
  EXPECT_NE(instance_key_of_ultra_server(7), instance_key(kHere, ""));
  EXPECT_EQ(instance_key_of_node(7, 1), instance_key_of_node(7, 1));
  EXPECT_NE(instance_key_of_node(7, 1), instance_key_of_node(7, 2));
  EXPECT_NE(instance_key_of_node(7, 1), instance_key_of_node(8, 1));
}

TEST(InstanceKey, OfThisProcessIsTheSameEachTime) {
  EXPECT_FALSE(facts_of_this_process().boot.empty());
  EXPECT_EQ(facts_of_this_process().process, ::getpid());
  EXPECT_EQ(instance_key(facts_of_this_process(), "x"), instance_key(facts_of_this_process(), "x"));
}

}  // namespace
}  // namespace neuron::runtime
