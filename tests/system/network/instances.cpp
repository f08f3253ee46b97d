// SPDX-License-Identifier: Apache-2.0
#include "tests/system/network/instances.h"

#include <utility>

namespace neuron::network {

namespace {

test::Words in_namespace(const std::string& name) { return {"/sbin/ip", "netns", "exec", name}; }

}  // namespace

Instances::Instances(uint32_t each) : each_(each), lab_(kCount) {
  for (uint32_t instance = 0; lab_.ready() && instance < kCount; ++instance) {
    const std::string name = lab_.name(instance);
    daemons_.push_back(std::make_unique<test::Daemon>(
        folder_, "trn1.32xlarge",
        test::Daemon::Options{.name = name, .before = in_namespace(name), .arguments = {}}));
  }
}

test::Words Instances::nccom_test(const test::Words& arguments) const {
  test::Words words = {test::built("bin/nccom-test"),
                       "--backend",
                       "device",
                       "--processes",
                       "-r",
                       std::to_string(ranks()),
                       "-N",
                       std::to_string(kCount)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(
      words.end(),
      {"--root-comm-id", lab_.address(0) + ":45300", "--launch-command",
       "/sbin/ip netns exec {host} env NEURON_EMULATOR=unix:" + folder_.path("{host}"), "--hosts"});
  for (uint32_t instance = 0; instance < kCount; ++instance) words.push_back(lab_.name(instance));
  return words;
}

test::Environment Instances::environment(const std::string& provider) const {
  // Where many ranks share a few processors, one that has had no turn for a second is not dead.
  constexpr uint32_t kMany = 8;
  return {{"NEURON_EMULATOR", daemons_.front()->emulator()},
          {"NEURON_RT_LOG_LEVEL", "QUIET"},
          {"CCOM_HEARTBEAT_MS", each_ > kMany ? "4500" : "900"},
          {"CCOM_PROVIDERS", provider}};
}

std::unique_ptr<test::Process> Instances::start_rank(uint32_t rank, uint32_t port,
                                                     test::Environment environment) const {
  const uint32_t instance = instance_of(rank);
  environment["NEURON_EMULATOR"] = daemons_[instance]->emulator();
  environment["NEURON_RT_VISIBLE_CORES"] = std::to_string(rank % each_);
  environment["NEURON_RT_ROOT_COMM_ID"] = lab_.address(0) + ":" + std::to_string(port);
  test::Words words = in_namespace(lab_.name(instance));
  words.insert(words.end(),
               {test::built("tests/multi-rank"), std::to_string(rank), std::to_string(ranks())});
  return std::make_unique<test::Process>(words, environment,
                                         folder_.path("rank-" + std::to_string(rank) + ".log"));
}

bool Instances::are_free() const {
  for (const auto& daemon : daemons_) {
    const test::Run status =
        test::run({test::built("bin/neuron-emulatorctl"), "--socket", daemon->socket(), "status"});
    if (status.ending != 0 || status.output.find("process ") != std::string::npos) return false;
  }
  return true;
}

DeviceJob::DeviceJob(const Instances& instances, uint32_t port,
                     const test::Environment& environment) {
  for (uint32_t rank = 0; rank < instances.ranks(); ++rank) {
    ranks_.push_back(instances.start_rank(rank, port, environment));
  }
}

std::vector<std::string> DeviceJob::lines() {
  std::vector<std::string> lines;
  for (const auto& rank : ranks_) lines.push_back(rank->line());
  return lines;
}

std::string DeviceJob::sum() const { return "sum " + std::to_string(size() * (size() + 1) / 2); }

}  // namespace neuron::network
