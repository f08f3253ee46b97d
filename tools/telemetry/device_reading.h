// SPDX-License-Identifier: Apache-2.0
//
// One look at devices: what the driver library answers, before it is put together.
//
// Callers: the host's Source. Emulated devices, which answer from what their service knows, are
// read together by one thread; a kernel's each by a thread of its own, as each call may take its
// whole deadline. Values. Fails: `error` says what is missing; read_devices is false where the
// driver library cannot ask so.
#ifndef TOOLS_TELEMETRY_DEVICE_READING_H
#define TOOLS_TELEMETRY_DEVICE_READING_H

#include <ndl/ndl_observe.h>

#include <chrono>
#include <map>

#include "tools/telemetry/datastore_record.h"
#include "tools/telemetry/source.h"

namespace neuron::telemetry {

// Texts that never change while the device is there.
struct DeviceIdentity {
  bool known = false;
  std::string name, architecture, core_architecture, serial_number;
};

struct HolderReading {
  ndl_holder_t holder{};
  DatastoreRecord record;
};

struct DeviceReading {
  bool answered = false;
  ndl_observation_t observation{};
  DeviceIdentity identity;
  HardwareCounters hardware;
  std::optional<double> power_percent;
  std::vector<std::string> faults;
  std::vector<HolderReading> holders;
  std::string error;
};

// Of all devices, by their numbers; `known`: of earlier readings.
using DeviceReadings = std::map<int, DeviceReading>;
using DeviceIdentities = std::map<int, DeviceIdentity>;
bool read_devices(const Wanted& wanted, std::chrono::steady_clock::time_point deadline,
                  const DeviceIdentities& known, DeviceReadings& readings);

// `identity`: of an earlier reading, if there was one.
DeviceReading read_device(int index, const Wanted& wanted, uint32_t timeout_ms,
                          const DeviceIdentity& identity);

}  // namespace neuron::telemetry

#endif
