// SPDX-License-Identifier: Apache-2.0
// Faults, power and links of all chips of an instance.
//
// Concepts: a plan (chip/fault_plan.h) comes from the file that NEURON_EMULATOR_FAULTS names, when
// the instance is created, or from an operator at any time. Faults of a chip that nobody has opened
// yet wait here and are armed when it is built, so that its events are counted from the first one
// after its probe. Links go down and up at once. Callers:
// Instance, and the control channel; any thread. Fails: negative errno and a sentence in
// last_error().
#ifndef DRIVER_EMULATOR_SERVICE_FAULT_BOARD_H
#define DRIVER_EMULATOR_SERVICE_FAULT_BOARD_H

#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/emulator/chip/fault_plan.h"

namespace neuron::service {

class Instance;

class FaultBoard {
 public:
  explicit FaultBoard(Instance& instance) : instance_(instance) {}

  int load_environment();
  // Device `index` was built; the instance holds its lock.
  void built(unsigned index);

  int inject(std::string_view text);
  int inject(const std::vector<chip::FaultSpec>& plan);
  // Forgets what is armed, heals memory, brings links up. Power and hung engines stay.
  void clear();
  int set_power(unsigned index, bool on);
  int set_link(unsigned a, unsigned b, bool up);
  // Resets cores (bit n = core n; 0: the whole device) as the firmware does for the driver.
  int reset(unsigned index, uint32_t core_map);

  // Lines of the plan for chips that are not built.
  std::vector<std::string> waiting(unsigned index);
  // Links that are down, ends ascending.
  std::vector<std::pair<unsigned, unsigned>> links_down();

 private:
  int check(const chip::FaultSpec& spec);
  int check_link(unsigned a, unsigned b);
  int check_device(unsigned index);
  void switch_link(unsigned a, unsigned b, bool up);

  Instance& instance_;
  std::mutex mutex_;
  struct Waiting {
    unsigned chip;
    chip::FaultSpec spec;
  };
  std::vector<Waiting> waiting_;
  std::set<std::pair<unsigned, unsigned>> down_;
};

}  // namespace neuron::service

#endif
