// SPDX-License-Identifier: Apache-2.0
// Claims a device, resets it and waits for it, through the driver library.
#include <ndl/ndl.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "tools/device_checks/workers.h"

namespace neuron::checks {
namespace {

constexpr uint32_t kObserveMs = 2000, kAttributeMs = 120000;

// Claims end with the process, however it ends.
class Claim {
 public:
  // Claims all cores of a device, numbered as the host does. Returns 0 or the error.
  int take(int device, uint32_t cores) {
    int indexes[MAX_NEURON_DEVICE_COUNT];
    const int count = ndl_available_devices(indexes, MAX_NEURON_DEVICE_COUNT);
    if (count <= 0) return -ENODEV;
    const auto first = static_cast<uint32_t>(device - indexes[0]) * cores;
    return ndl_crwl_nc_range_mark(cores, first, first + cores - 1, nullptr, bitmap_.data(),
                                  bitmap_.size() * sizeof bitmap_[0]);
  }
  ~Claim() { ndl_crwl_nc_range_unmark(bitmap_.data(), bitmap_.size() * sizeof bitmap_[0]); }

 private:
  std::vector<uint64_t> bitmap_ =
      std::vector<uint64_t>(NBM_NR_ENT(MAX_NEURON_DEVICE_COUNT * MAX_NC_PER_DEVICE, uint64_t));
};

int reset_cores(int device) {
  uint32_t request = 0;
  if (const int error = ndl_reset_ncs(device, static_cast<int>(NEURON_NC_MAP_DEVICE), &request)) {
    return error;
  }
  uint8_t done = 0;
  if (const int error = ndl_ready_ncs(device, request, &done)) return error;
  return done == 1 ? 0 : 1;
}

}  // namespace

void reset_device(const Part& part) {
  Finding finding;
  finding.check = "device.reset";
  finding.device = part.device;
  finding.expected = "a reset that the driver carries out";
  const auto step = [&](const char* what) {
    finding.found = what;
    tell_step(finding);
  };
  const auto end = [&](Verdict verdict, const std::string& found) {
    finding.verdict = verdict;
    finding.found = found;
    tell_finding(finding);
  };
  step("claiming its cores");
  ndl_observation_t seen{};
  seen.size = sizeof seen;
  if (ndl_observe_device(part.device, kObserveMs, &seen) != 0) {
    return end(Verdict::kFail, ndl_last_error());
  }
  Claim claim;
  if (!part.force) {
    const int claimed = claim.take(part.device, std::max(seen.cores, 1u));
    if (claimed == -EBUSY) return end(Verdict::kSkip, ndl_last_error());
    // A driver without claims has no claim that could be in the way.
    if (claimed == -EPERM || claimed == -EACCES || claimed == -ENODEV) {
      return end(Verdict::kFail, ndl_last_error());
    }
  }
  step("opening it");
  ndl_device_t* device = nullptr;
  if (const int error = ndl_open_device(part.device, nullptr, &device)) {
    const std::string sentence = ndl_last_error();
    if (error != -EINVAL) return end(Verdict::kFail, sentence);
    // After a failed reset the driver refuses all opens; the driver's own reset is then requested.
    step("asking the driver for its own reset");
    if (ndl_write_attribute(part.device, "reset", "1\n", kAttributeMs) != 0) {
      return end(Verdict::kFail, sentence + "; " + ndl_last_error());
    }
    return end(Verdict::kPass, "asked for");
  }
  step("waiting for the driver");
  const int error = reset_cores(part.device);
  const std::string sentence = error < 0 ? ndl_last_error()
                                         : "the driver says that the reset has failed; its log "
                                           "has more";
  ndl_close_device(device);
  error == 0 ? end(Verdict::kPass, "done") : end(Verdict::kFail, sentence);
}

}  // namespace neuron::checks
