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

int FaultBoard::check_link(unsigned a, unsigned b) {
  if (int error = check_device(a)) return error;
  if (int error = check_device(b)) return error;
  if (instance_.profile().switched && a != b) return 0;
  const profiles::ChipPlace& place = instance_.profile().places[a];
  std::string known;
  for (unsigned i = 0; i < place.neighbour_count; ++i) {
    if (place.neighbours[i] == b) return 0;
    known += (known.empty() ? "" : ", ") + std::to_string(place.neighbours[i]);
  }
  return fail(-EINVAL, "devices %u and %u have no link; device %u is linked with %s", a, b, a,
              known.empty() ? "no other" : known.c_str());
}

int FaultBoard::check(const chip::FaultSpec& spec) {
  if (spec.at == chip::FaultPoint::kLink) {
    return check_link(static_cast<unsigned>(spec.chip), static_cast<unsigned>(spec.peer));
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
      switch_link(static_cast<unsigned>(spec.chip), static_cast<unsigned>(spec.peer), false);
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
  for (const auto& [a, b] : down_) instance_.set_link(a, b, true);
  down_.clear();
  for (unsigned i = 0; i < instance_.device_count(); ++i) {
    if (Device* device = instance_.device_if_probed(i)) device->chip().faults().clear();
  }
}

int FaultBoard::set_power(unsigned index, bool on) {
  if (int error = check_device(index)) return error;
  Device* device = instance_.device_if_probed(index);
  if (!device) {
    return fail(-EAGAIN, "device %u has not been opened yet: there is no chip to switch", index);
  }
  const bool was_off = device->chip().faults().off();
  device->chip().set_power(on);
  // As after a probe: the driver sets up what a chip without power has forgotten.
  return on && was_off ? device->reset(Firmware::kWholeDevice) : 0;
}

int FaultBoard::set_link(unsigned a, unsigned b, bool up) {
  if (int error = check_link(a, b)) return error;
  const std::lock_guard lock(mutex_);
  switch_link(a, b, up);
  return 0;
}

// With the mutex held.
void FaultBoard::switch_link(unsigned a, unsigned b, bool up) {
  const std::pair<unsigned, unsigned> link = std::minmax(a, b);
  if (up) {
    down_.erase(link);
  } else {
    down_.insert(link);
  }
  instance_.set_link(a, b, up);
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

std::vector<std::pair<unsigned, unsigned>> FaultBoard::links_down() {
  const std::lock_guard lock(mutex_);
  return {down_.begin(), down_.end()};
}

}  // namespace neuron::service
