// SPDX-License-Identifier: Apache-2.0
// Checks of a snapshot alone; nothing is attached.
#include <algorithm>

#include "driver/profiles/topology.h"
#include "tools/neuron-precheck/checks.h"
#include "tools/telemetry/generation.h"

namespace neuron::precheck {
namespace {

using checks::Repair;
using telemetry::Device;
using telemetry::DeviceState;

class StateCheck {
 public:
  StateCheck(const Device& device, Findings& findings) : device_(device), findings_(findings) {}

  void state() {
    if (device_.state == DeviceState::kOff) {
      return (void)add("device.state", Verdict::kFail,
                       "device " + std::to_string(device_.index) +
                           " does not answer: every register reads all ones",
                       "ready", Action::kReboot);
    }
    if (device_.state == DeviceState::kInvalid) {
      return (void)add("device.state", Verdict::kFail, "its last reset failed", "ready",
                       Action::kDriverReload);
    }
    if (device_.state == DeviceState::kResetting) {
      return (void)add("device.state", Verdict::kFail, "it has been in a reset for seconds",
                       "ready", Action::kNone);
    }
    if (!device_.error.empty()) {
      return (void)add("device.state", Verdict::kFail, device_.error, "an answer",
                       Action::kResetDevice);
    }
    add("device.state", Verdict::kPass, telemetry::name(device_.state), {}, Action::kNone);
  }

  void engines() {
    for (const telemetry::Core& core : device_.cores) {
      for (const std::string& engine : core.hung_engines) {
        Finding& finding = add("engine.state", Verdict::kFail, engine + " has stopped issuing",
                               "an engine that is idle or works", Action::kResetDevice);
        finding.core = static_cast<int>(core.physical_core);
        finding.engine = engine;
      }
    }
  }

  void counters() {
    const telemetry::HardwareCounters& c = device_.hardware;
    // If repairable errors have no counter of their own, this one includes errors that a reset has
    // since repaired.
    const bool tells = telemetry::generation_of_cores(device_.core_architecture).tells_repairable;
    const auto count = [&](uint64_t number, const char* what, const char* engine, Verdict verdict,
                           Action action, Repair repair = Repair::kNone) {
      if (number == 0) return;
      Finding& finding =
          add("device.errors", verdict,
              std::to_string(number) + " " + what + " before this check began", "0", action);
      finding.engine = engine;
      finding.repair = repair;
    };
    count(c.mem_ecc_uncorrected, "uncorrectable errors", "HBM", Verdict::kFail,
          tells ? Action::kReplaceInstance : Action::kResetDevice,
          tells ? Repair::kImpossible : Repair::kUnknown);
    count(c.mem_ecc_repairable_uncorrected, "repairable errors", "HBM", Verdict::kFail,
          Action::kDriverReload);
    count(c.sram_ecc_uncorrected, "uncorrectable errors", "SRAM", Verdict::kFail,
          Action::kReplaceInstance);
    count(c.mem_ecc_corrected, "corrected errors", "HBM", Verdict::kWarn, Action::kNone);
    count(c.sram_ecc_corrected, "corrected errors", "SRAM", Verdict::kWarn, Action::kNone);
  }

  // `expected`: the neighbours that the instance type has; null if it is not known.
  void links(const std::vector<uint32_t>* expected) {
    std::vector<uint32_t> found;
    bool whole = true;
    for (const telemetry::Link& link : device_.links) {
      found.push_back(link.device);
      if (link.up) continue;
      whole = false;
      add("device.links", Verdict::kFail,
          "the link to device " + std::to_string(link.device) +
              " is down (what neuron-emulatorctl took down, its link up brings back)",
          "up", Action::kResetDevice)
          .engine = "link to " + std::to_string(link.device);
    }
    if (expected != nullptr) {
      std::vector<uint32_t> wanted = *expected;
      std::sort(wanted.begin(), wanted.end());
      std::sort(found.begin(), found.end());
      if (found != wanted) {
        whole = false;
        add("device.links", Verdict::kFail, "links to " + list(found), "links to " + list(wanted),
            Action::kReboot);
      }
    }
    if (whole && !device_.links.empty()) {
      add("device.links", Verdict::kPass,
          "links to " + list(found) + " are up" +
              (expected != nullptr ? ", as the type has them" : ""),
          {}, Action::kNone);
    }
  }

  void busy() {
    for (const telemetry::Core& core : device_.cores) {
      if (core.holder == 0) continue;
      add("core.busy", Verdict::kSkip, "held by pid " + std::to_string(core.holder), "a free core",
          Action::kNone)
          .core = static_cast<int>(core.physical_core);
    }
  }

 private:
  static std::string list(const std::vector<uint32_t>& numbers) {
    std::string text;
    for (const uint32_t number : numbers) {
      text += (text.empty() ? "" : ", ") + std::to_string(number);
    }
    return text.empty() ? "none" : text;
  }
  Finding& add(const char* check, Verdict verdict, std::string found, std::string expected,
               Action action) {
    Finding finding;
    finding.check = check;
    finding.verdict = verdict;
    finding.device = static_cast<int>(device_.index);
    finding.found = std::move(found);
    finding.expected = std::move(expected);
    finding.action = action;
    findings_.push_back(std::move(finding));
    return findings_.back();
  }
  const Device& device_;
  Findings& findings_;
};

void check_versions(const telemetry::Snapshot& snapshot, Findings& findings) {
  Finding finding;
  finding.check = "host.versions";
  finding.found = "driver " + snapshot.versions.driver + " (" + snapshot.versions.backend +
                  "), runtime " + snapshot.versions.runtime;
  if (snapshot.versions.driver.empty()) {
    finding.verdict = Verdict::kWarn;
    finding.expected = "a driver that tells its version";
    finding.action = Action::kDriverReload;
  }
  findings.push_back(finding);
}

}  // namespace

bool is_wanted(const telemetry::Device& device, const std::vector<int>& devices) {
  return devices.empty() ||
         std::find(devices.begin(), devices.end(), static_cast<int>(device.index)) != devices.end();
}

void check_state(const telemetry::Snapshot& snapshot, const std::vector<int>& devices,
                 Findings& findings) {
  check_versions(snapshot, findings);
  profiles::NodeProfile profile;
  std::string unknown;
  const bool whole = profiles::load_topology(snapshot.instance.type, profile, unknown) &&
                     profile.neighbours.size() == snapshot.devices.size();
  for (const Device& device : snapshot.devices) {
    if (!is_wanted(device, devices)) continue;
    StateCheck check(device, findings);
    check.state();
    check.engines();
    check.counters();
    check.links(whole ? &profile.neighbours[device.index] : nullptr);
    check.busy();
  }
}

}  // namespace neuron::precheck
