// SPDX-License-Identifier: Apache-2.0
// Ranks of one job that are spread over instances, each a process that a test tells what to do
// (multi-rank). Callers: tests, in one thread. Owns: the processes, which it ends.
#ifndef TESTS_MULTI_INSTANCE_RANKS_H
#define TESTS_MULTI_INSTANCE_RANKS_H

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"

namespace neuron::multi {

// Ranks in processes of their own, in the order of the instances.
class Ranks {
 public:
  // `emulators`: NEURON_EMULATOR of each instance; `each`: ranks of it, `neighbours` on cores that
  // follow each other, the next ones `apart` behind the first of those.
  Ranks(const test::Folder& folder, const std::vector<std::string>& emulators, unsigned each,
        const std::string& algorithm = "", const test::Environment& extra = {}, unsigned apart = 1,
        unsigned neighbours = 1) {
    const std::string root = "127.0.0.1:" + std::to_string(test::free_port());
    const size_t all = emulators.size() * each;
    for (size_t rank = 0; rank < all; ++rank) {
      logs_.push_back(folder.path() + "/rank-" + std::to_string(rank) + ".log");
      test::Environment environment = {
          {"NEURON_EMULATOR", emulators[rank / each]},
          {"NEURON_RT_VISIBLE_CORES",
           std::to_string(rank % each / neighbours * apart + rank % each % neighbours)},
          {"NEURON_RT_ROOT_COMM_ID", root},
          {"CCOM_ALGORITHM", algorithm},
          {"NEURON_RT_LOG_LEVEL", "QUIET"},
          {"NEURON_RT_EXEC_TIMEOUT", "40"}};
      for (const auto& [name, value] : extra) environment[name] = value;
      processes_.push_back(std::make_unique<test::Process>(
          test::Words{test::built("tests/multi-rank"), std::to_string(rank), std::to_string(all)},
          environment, logs_.back()));
    }
  }
  std::vector<std::string> lines() {
    std::vector<std::string> all;
    for (const auto& process : processes_) all.push_back(process->line());
    return all;
  }
  std::vector<std::string> ask(const std::string& words) {
    for (const auto& process : processes_) process->say(words);
    return lines();
  }
  std::vector<std::string> all_say(const std::string& words) const {
    return std::vector<std::string>(processes_.size(), words);
  }
  test::Process& operator[](size_t rank) { return *processes_[rank]; }
  size_t size() const { return processes_.size(); }

 private:
  std::vector<std::unique_ptr<test::Process>> processes_;
  std::vector<std::string> logs_;
};

}  // namespace neuron::multi

#endif
