// SPDX-License-Identifier: Apache-2.0
//
// One reading of devices: the answers of the driver library, before they are combined.
//
// Callers: the host's Source. One thread reads all emulated devices together, because their service
// answers from memory. A kernel's devices each have a thread of their own, because each call may
// take its whole deadline. Values. Fails: `error` says what is missing; read_devices is false if
// the driver library cannot read devices together.
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

// Reads all devices, by their numbers; `known`: identities from earlier readings.
using DeviceReadings = std::map<int, DeviceReading>;
using DeviceIdentities = std::map<int, DeviceIdentity>;
bool read_devices(const Wanted& wanted, std::chrono::steady_clock::time_point deadline,
                  const DeviceIdentities& known, DeviceReadings& readings);

// `identity`: from an earlier reading, if there was one.
DeviceReading read_device(int index, const Wanted& wanted, uint32_t timeout_ms,
                          const DeviceIdentity& identity);

}  // namespace neuron::telemetry

#endif
