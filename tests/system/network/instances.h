// SPDX-License-Identifier: Apache-2.0
// Two instances of a test: a network namespace each, with a neuron-emulatord of trn1.32xlarge whose
// ranks are processes in that namespace. The switch of the lab joins them.
//
// Callers: one thread. Owns: the namespaces, the daemons, the processes of its jobs as long as
// these are there. Fails: failure() is a sentence; what a rank fails with is a line of its own.
#ifndef TESTS_SYSTEM_NETWORK_INSTANCES_H
#define TESTS_SYSTEM_NETWORK_INSTANCES_H

#include <memory>
#include <string>
#include <vector>

#include "tests/support/daemon.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/system/network/lab.h"

namespace neuron::network {

class Instances {
 public:
  static constexpr uint32_t kCount = 2;
  // `each`: ranks of an instance, on its cores from the first on.
  explicit Instances(uint32_t each);

  const std::string& failure() const { return lab_.failure(); }
  Lab& lab() { return lab_; }
  uint32_t ranks() const { return kCount * each_; }
  uint32_t instance_of(uint32_t rank) const { return rank / each_; }
  test::Daemon& daemon(uint32_t instance) { return *daemons_[instance]; }

  // nccom-test with a process for each rank, and these arguments.
  test::Words nccom_test(const test::Words& arguments) const;
  // What it needs in its environment; libccom takes the network from `provider`.
  test::Environment environment(const std::string& provider) const;
  // A multi-rank (tests/multi/rank.cpp) that meets the others at `port` of the first instance.
  std::unique_ptr<test::Process> start_rank(uint32_t rank, uint32_t port,
                                            test::Environment environment) const;
  // Whether all processes have left the devices.
  bool are_free() const;

 private:
  const uint32_t each_;
  const test::Folder folder_;
  Lab lab_;
  std::vector<std::unique_ptr<test::Daemon>> daemons_;
};

// The ranks of one job, each told by lines what to do.
class DeviceJob {
 public:
  DeviceJob(const Instances& instances, uint32_t port, const test::Environment& environment);

  uint32_t size() const { return static_cast<uint32_t>(ranks_.size()); }
  test::Process& operator[](uint32_t rank) { return *ranks_[rank]; }
  void say(const std::string& words) {
    for (const auto& rank : ranks_) rank->say(words);
  }
  // A line of each rank.
  std::vector<std::string> lines();
  std::vector<std::string> ask(const std::string& words) {
    say(words);
    return lines();
  }
  std::vector<std::string> all_say(const std::string& words) const {
    return std::vector<std::string>(ranks_.size(), words);
  }
  // What every rank says when a sum has all numbers.
  std::string sum() const;

 private:
  std::vector<std::unique_ptr<test::Process>> ranks_;
};

}  // namespace neuron::network

#endif
