// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/settled.h"

#include <algorithm>

#include "driver/base/backoff.h"

namespace neuron::telemetry {
namespace {

constexpr std::chrono::milliseconds kPause{20};

bool any_resetting(const Snapshot& snapshot, const std::vector<int>& devices) {
  return std::any_of(snapshot.devices.begin(), snapshot.devices.end(), [&](const Device& device) {
    const bool meant =
        devices.empty() ||
        std::find(devices.begin(), devices.end(), static_cast<int>(device.index)) != devices.end();
    return meant && device.state == DeviceState::kResetting;
  });
}

}  // namespace

Snapshot take_settled(Source& source, const Wanted& wanted, std::chrono::milliseconds per_device,
                      const std::vector<int>& devices,
                      std::chrono::steady_clock::time_point deadline) {
  base::Backoff backoff({0, 0, kPause, kPause});
  Snapshot snapshot = source.take(wanted, per_device);
  while (any_resetting(snapshot, devices) && std::chrono::steady_clock::now() < deadline) {
    backoff.wait();
    snapshot = source.take(wanted, per_device);
  }
  return snapshot;
}

}  // namespace neuron::telemetry
