// SPDX-License-Identifier: Apache-2.0
// Faults, power and links of all chips of an instance.
//
// Concepts: a plan (chip/fault_plan.h) comes from the file that NEURON_EMULATOR_FAULTS names, when
// the instance is created, or from an operator at any time. Faults of a chip that nobody has opened
// yet wait here and are armed when it is built, so that its events are counted from the first one
// after its probe. Links go down and up at once; one between nodes of an UltraServer is down for
// all nodes. Callers: Instance, and the control channel; any thread. Fails: negative errno and a
// sentence in last_error().
#ifndef DRIVER_EMULATOR_SERVICE_FAULT_BOARD_H
#define DRIVER_EMULATOR_SERVICE_FAULT_BOARD_H

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "driver/emulator/chip/fault_plan.h"

namespace neuron::service {

class Instance;

// A device at an end of a link; without a node it is one of the board's own.
struct LinkEnd {
  unsigned device = 0;
  std::optional<unsigned> node = {};

  bool operator==(const LinkEnd&) const = default;
};

struct Link {
  LinkEnd a, b;

  bool operator==(const Link&) const = default;
};

class FaultBoard {
 public:
  explicit FaultBoard(Instance& instance) : instance_(instance) {}

  int load_environment();
  // Device `index` was built; the instance holds its lock.
  void built(unsigned index);

  int inject(std::string_view text);
  int inject(const std::vector<chip::FaultSpec>& plan);
  // Forgets what is armed, heals memory, brings links up, those of links_down(). Power and hung
  // engines stay.
  void clear();
  int set_power(unsigned index, bool on);
  int set_link(const Link& link, bool up);
  // Resets cores (bit n = core n; 0: the whole device) as the firmware does for the driver.
  int reset(unsigned index, uint32_t core_map);

  // Lines of the plan for chips that are not built.
  std::vector<std::string> waiting(unsigned index);
  // Links that are down, ends ascending: those of the board's own devices, and those between nodes,
  // whose ends have nodes.
  std::vector<Link> links_down();

 private:
  int check(const chip::FaultSpec& spec);
  int check_link(const Link& link);
  int check_device(unsigned index);
  int check_end(const LinkEnd& end);
  void switch_link(const Link& link, bool up);
  // The end's number in the fabric.
  unsigned number_of(const LinkEnd& end) const;
  // The devices that a device has links with, as a sentence lists them.
  std::string linked_with(const LinkEnd& end) const;
  std::string words_of(const LinkEnd& end) const;

  Instance& instance_;
  std::mutex mutex_;
  struct Waiting {
    unsigned chip;
    chip::FaultSpec spec;
  };
  std::vector<Waiting> waiting_;
};

}  // namespace neuron::service

#endif
