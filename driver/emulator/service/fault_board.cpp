// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/fault_board.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdlib>

#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/instance.h"

namespace neuron::service {
namespace {

// Each event goes through all of them.
constexpr size_t kMostArmed = 4096;

Link link_of(const chip::FaultSpec& spec) {
  const auto end = [](int device, int node) {
    LinkEnd made{static_cast<unsigned>(device)};
    if (node != chip::FaultSpec::kAny) made.node = static_cast<unsigned>(node);
    return made;
  };
  return {end(spec.chip, spec.node), end(spec.peer, spec.peer_node)};
}

}  // namespace

int FaultBoard::load_environment() {
  const char* path = std::getenv("NEURON_EMULATOR_FAULTS");
  if (!path || !*path) return 0;
  std::vector<chip::FaultSpec> plan;
  std::string sentence;
  if (!chip::read_fault_plan(path, plan, sentence)) {
    return fail(-EINVAL, "NEURON_EMULATOR_FAULTS: %s", sentence.c_str());
  }
  return inject(plan);
}

void FaultBoard::built(unsigned index) {
  const std::lock_guard lock(mutex_);
  chip::ChipFaults& faults = instance_.device_if_probed(index)->chip().faults();
  std::erase_if(waiting_, [&](const Waiting& entry) {
    return entry.chip == index && faults.arm(entry.spec);
  });
}

int FaultBoard::check_device(unsigned index) {
  if (index < instance_.device_count()) return 0;
  return fail(-ENODEV, "there is no device %u; an emulated %s has devices 0 to %u", index,
              instance_.profile().name, instance_.device_count() - 1);
}

int FaultBoard::check_end(const LinkEnd& end) {
  if (int error = check_device(end.device)) return error;
  const unsigned nodes = instance_.fabric().instances();
  if (!end.node || *end.node < nodes) return 0;
  if (nodes == 1) {
    return fail(-ENODEV,
                "there is no node %u: this daemon serves one host, and no UltraServer whose nodes "
                "have links (neuron-emulatord --ultraserver does)",
                *end.node);
  }
  return fail(-ENODEV, "there is no node %u; an emulated %s has nodes 0 to %u", *end.node,
              instance_.profile().name, nodes - 1);
}

unsigned FaultBoard::number_of(const LinkEnd& end) const {
  return end.node.value_or(instance_.node()) * instance_.device_count() + end.device;
}

std::string FaultBoard::words_of(const LinkEnd& end) const {
  return std::to_string(end.device) + (end.node ? " of node " + std::to_string(*end.node) : "");
}

std::string FaultBoard::linked_with(const LinkEnd& end) const {
  const unsigned each = instance_.device_count();
  const unsigned from = number_of(end);
  const profiles::ChipPlace& place = instance_.profile().places[end.device];
  std::string known;
  for (unsigned i = 0; i < place.neighbour_count; ++i) {
    known += (known.empty() ? "" : ", ") + std::to_string(place.neighbours[i]);
  }
  for (unsigned to = 0; to < instance_.fabric().nodes(); ++to) {
    if (to / each == from / each || !instance_.fabric().has_link(from, to)) continue;
    known += (known.empty() ? "" : ", ") + words_of({to % each, to / each});
  }
  return known.empty() ? "no other" : known;
}

int FaultBoard::check_link(const Link& link) {
  if (int error = check_end(link.a)) return error;
  if (int error = check_end(link.b)) return error;
  if (instance_.fabric().has_link(number_of(link.a), number_of(link.b))) return 0;
  const std::string a = words_of(link.a);
  return fail(-EINVAL, "devices %s and %s have no link; device %s is linked with %s", a.c_str(),
              words_of(link.b).c_str(), a.c_str(), linked_with(link.a).c_str());
}

int FaultBoard::check(const chip::FaultSpec& spec) {
  if (spec.at == chip::FaultPoint::kLink) {
    return check_link(link_of(spec));
  }
  if (spec.chip != chip::FaultSpec::kAny) {
    if (int error = check_device(static_cast<unsigned>(spec.chip))) return error;
  }
  if (spec.core != chip::FaultSpec::kAny &&
      static_cast<unsigned>(spec.core) >= instance_.profile().cores) {
    return fail(-EINVAL, "a chip of an emulated %s has cores 0 to %u, the fault names %d",
                instance_.profile().name, instance_.profile().cores - 1, spec.core);
  }
  return 0;
}

int FaultBoard::inject(std::string_view text) {
  std::vector<chip::FaultSpec> plan;
  std::string sentence;
  if (!chip::parse_fault_plan(text, plan, sentence)) return fail(-EINVAL, "%s", sentence.c_str());
  if (plan.empty()) return fail(-EINVAL, "the fault plan holds no fault");
  return inject(plan);
}

int FaultBoard::inject(const std::vector<chip::FaultSpec>& plan) {
  for (const chip::FaultSpec& spec : plan) {  // all or nothing
    if (int error = check(spec)) return error;
  }
  const std::lock_guard lock(mutex_);
  size_t armed = waiting_.size();
  for (unsigned i = 0; i < instance_.device_count(); ++i) {
    if (Device* device = instance_.device_if_probed(i)) {
      armed = std::max(armed, device->chip().faults().pending());
    }
  }
  if (plan.size() > kMostArmed || armed > kMostArmed) {
    return fail(-ENOSPC,
                "%zu faults are armed and %zu more are wanted, at most %zu are kept; clear some",
                armed, plan.size(), kMostArmed);
  }
  for (const chip::FaultSpec& spec : plan) {
    if (spec.at == chip::FaultPoint::kLink) {
      switch_link(link_of(spec), false);
      continue;
    }
    for (unsigned i = 0; i < instance_.device_count(); ++i) {
      if (spec.chip != chip::FaultSpec::kAny && static_cast<unsigned>(spec.chip) != i) continue;
      if (Device* device = instance_.device_if_probed(i)) {
        device->chip().faults().arm(spec);
      } else {
        waiting_.push_back({i, spec});
      }
    }
  }
  return 0;
}

void FaultBoard::clear() {
  const std::lock_guard lock(mutex_);
  waiting_.clear();
  for (const Link& link : links_down()) switch_link(link, true);
  for (unsigned i = 0; i < instance_.device_count(); ++i) {
    if (Device* device = instance_.device_if_probed(i)) device->chip().faults().clear();
  }
}

int FaultBoard::set_power(unsigned index, bool on) {
  if (int error = check_device(index)) return error;
  Device* device = instance_.device_if_probed(index);
  if (!device) {
    return fail(
        -EAGAIN,
        "device %u has not been opened yet: there is no chip to switch; run a program on it first, "
        "such as neuron-precheck",
        index);
  }
  const bool was_off = device->chip().faults().off();
  device->chip().set_power(on);
  // As after a probe: the driver sets up what a chip without power has forgotten.
  return on && was_off ? device->reset(Firmware::kWholeDevice) : 0;
}

int FaultBoard::set_link(const Link& link, bool up) {
  if (int error = check_link(link)) return error;
  switch_link(link, up);
  return 0;
}

void FaultBoard::switch_link(const Link& link, bool up) {
  instance_.fabric().set_link(number_of(link.a), number_of(link.b), up);
}

int FaultBoard::reset(unsigned index, uint32_t core_map) {
  if (int error = check_device(index)) return error;
  if (core_map >> instance_.profile().cores) {
    return fail(-EINVAL, "device %u has cores 0 to %u, the reset names a core of map 0x%" PRIx32,
                index, instance_.profile().cores - 1, core_map);
  }
  Device* device = instance_.device_if_probed(index);
  if (!device) return 0;  // as good as reset
  if (int error = device->check_present()) return error;
  return device->reset(core_map == 0 ? Firmware::kWholeDevice : core_map);
}

std::vector<std::string> FaultBoard::waiting(unsigned index) {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> lines;
  for (const Waiting& entry : waiting_) {
    if (entry.chip == index) lines.push_back(entry.spec.text());
  }
  return lines;
}

std::vector<Link> FaultBoard::links_down() {
  const unsigned each = instance_.device_count();
  std::vector<Link> links;
  for (const auto& [a, b] : instance_.fabric().links_down()) {
    if (a / each != b / each) {
      links.push_back({{a % each, a / each}, {b % each, b / each}});
    } else if (a / each == instance_.node()) {
      links.push_back({{a % each}, {b % each}});
    }
  }
  return links;
}

}  // namespace neuron::service
