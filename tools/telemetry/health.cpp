// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/health.h"

#include <algorithm>
#include <cstdint>

#include "driver/base/format.h"

namespace neuron::telemetry {
namespace {

constexpr const char* kReplace =
    "stop using the device; if it comes back after a reset, replace the instance";
constexpr const char* kReset = "reset it: neuron-reset, or neuron-emulatorctl reset of a daemon";

std::string counted(uint64_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

void add_hardware(const HardwareCounters& counters, std::vector<Ailment>& out) {
  if (counters.sram_ecc_uncorrected != 0) {
    out.push_back(
        {counted(counters.sram_ecc_uncorrected, "uncorrectable SRAM error"), kReplace, true});
  }
  if (counters.mem_ecc_uncorrected != 0) {
    out.push_back(
        {counted(counters.mem_ecc_uncorrected, "uncorrectable memory error"), kReplace, true});
  }
  if (counters.mem_ecc_repairable_uncorrected != 0) {
    out.push_back({counted(counters.mem_ecc_repairable_uncorrected, "repairable memory error"),
                   "reload the driver, or reset the device: it repairs the memory", true});
  }
  if (counters.mem_ecc_corrected != 0) {
    out.push_back({counted(counters.mem_ecc_corrected, "corrected memory error"),
                   "nothing now; watch whether they grow", false});
  }
  if (counters.sram_ecc_corrected != 0) {
    out.push_back({counted(counters.sram_ecc_corrected, "corrected SRAM error"),
                   "nothing now; watch whether they grow", false});
  }
}

}  // namespace

std::vector<Ailment> ailments(const Device& device) {
  std::vector<Ailment> out;
  switch (device.state) {
    case DeviceState::kReady:
    case DeviceState::kUnknown:
      break;
    case DeviceState::kResetting:
      out.push_back({"it is being reset", "wait some seconds and look again", true});
      break;
    case DeviceState::kInvalid:
      out.push_back({"its last reset failed", kReset, true});
      break;
    case DeviceState::kOff:
      out.push_back(
          {"it does not answer: every register reads all ones",
           base::format("reboot the host; of an emulated one: neuron-emulatorctl power on {}",
                        device.index),
           true});
      break;
  }
  if (!device.error.empty()) out.push_back({device.error, kReset, true});
  add_hardware(device.hardware, out);
  for (const Core& core : device.cores) {
    std::string engines;
    for (const std::string& engine : core.hung_engines) {
      engines += (engines.empty() ? "" : ", ") + engine;
    }
    if (!engines.empty()) {
      out.push_back({"core " + std::to_string(core.physical_core) + ": " + engines +
                         (core.hung_engines.size() == 1 ? " hangs" : " hang"),
                     kReset, true});
    }
    if (core.failed_resets != 0) {
      out.push_back({"core " + std::to_string(core.physical_core) + ": " +
                         counted(core.failed_resets, "failed reset"),
                     kReset, false});
    }
  }
  for (const Link& link : device.links) {
    if (!link.up) {
      out.push_back(
          {"the link to device " + std::to_string(link.device) + " is down",
           base::format("reset both devices; of emulated ones: neuron-emulatorctl link up {} {}",
                        std::min(device.index, link.device), std::max(device.index, link.device)),
           true});
    }
  }
  for (const std::string& fault : device.faults) {
    out.push_back({"planted fault: " + fault, "neuron-emulatorctl clear", false});
  }
  return out;
}

bool is_healthy(const Device& device) {
  const std::vector<Ailment> all = ailments(device);
  return std::none_of(all.begin(), all.end(), [](const Ailment& one) { return one.fatal; });
}

std::optional<std::vector<unsigned>> links_down(const Device& device) {
  if (device.links.empty() && !device.error.empty()) return std::nullopt;
  std::vector<unsigned> out;
  for (const Link& link : device.links) {
    if (!link.up) out.push_back(link.device);
  }
  return out;
}

}  // namespace neuron::telemetry
