// SPDX-License-Identifier: Apache-2.0
#include "tools/telemetry/device_reading.h"

#include <nrt/nds/datastore_layout.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "tools/telemetry/generation.h"
#include "tools/telemetry/lines.h"
#include "tools/telemetry/proc.h"

namespace neuron::telemetry {
namespace {

constexpr size_t kMostText = 64u << 10;
constexpr char kHardware[] = "stats/hardware/ stats/power/";

using Clock = std::chrono::steady_clock;

// Calls `use` with path and value of each line.
template <class Use>
void each_attribute(std::string_view text, Use&& use) {
  each_line(text, [&](std::string_view line) {
    const size_t space = std::min(line.find(' '), line.size());
    use(line.substr(0, space), line.substr(std::min(space + 1, line.size())));
  });
}

// "path value", a line for each attribute below a folder; empty where there is none.
std::string attributes_below(int device, const char* folder, uint32_t timeout_ms) {
  std::string text(kMostText, '\0');
  const ssize_t length = ndl_read_attribute(device, folder, timeout_ms, text.data(), text.size());
  text.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
  return text;
}

// "POWER_STATUS_VALID,<seconds>,<min>,<max>,<average>"
std::optional<double> average_power(std::string_view text) {
  if (!text.starts_with("POWER_STATUS_VALID,")) return std::nullopt;
  const size_t comma = text.rfind(',');
  const std::string average(text.substr(comma + 1));
  return std::strtod(average.c_str(), nullptr);
}

DeviceIdentity identity_of(std::string_view lines, const ndl_observation_t& seen) {
  DeviceIdentity identity;
  each_attribute(lines, [&](std::string_view path, std::string_view value) {
    if (!path.starts_with("info/")) return;
    const std::string text = presentable(std::string(value));
    if (path.ends_with("serial_number")) identity.serial_number = text;
    if (path.ends_with("arch_type")) identity.architecture = text;
    if (path.ends_with("device_name")) identity.name = text;
  });
  identity.known = !identity.name.empty();
  // A driver without these attributes still says which generation it is.
  const Generation& generation = generation_of(seen.architecture);
  if (identity.name.empty()) identity.name = generation.device_name;
  if (identity.architecture.empty()) identity.architecture = generation.architecture;
  identity.core_architecture = "NCv" + std::to_string(seen.architecture);
  return identity;
}

void read_hardware(std::string_view lines, DeviceReading& reading) {
  each_attribute(lines, [&](std::string_view path, std::string_view value) {
    HardwareCounters& hardware = reading.hardware;
    if (path.ends_with("/sram_ecc_corrected")) hardware.sram_ecc_corrected = number(value);
    if (path.ends_with("/sram_ecc_uncorrected")) hardware.sram_ecc_uncorrected = number(value);
    if (path.ends_with("/mem_ecc_corrected")) hardware.mem_ecc_corrected = number(value);
    if (path.ends_with("/mem_ecc_uncorrected")) hardware.mem_ecc_uncorrected = number(value);
    if (path.ends_with("/mem_ecc_repairable_uncorrected")) {
      hardware.mem_ecc_repairable_uncorrected = number(value);
    }
    if (path.ends_with("power/utilization")) reading.power_percent = average_power(value);
  });
}

std::vector<std::string> read_faults(int device, uint32_t timeout_ms) {
  std::vector<std::string> lines;
  std::vector<char> buffer(kMostText);
  const ssize_t length =
      ndl_read_attribute(device, "emulator/faults", timeout_ms, buffer.data(), buffer.size());
  std::string line;
  for (ssize_t i = 0; i < length; ++i) {
    if (buffer[static_cast<size_t>(i)] != '\n') {
      line += buffer[static_cast<size_t>(i)];
      continue;
    }
    lines.push_back(presentable(line));
    line.clear();
  }
  return lines;
}

DatastoreRecord read_record(int device, const ndl_observation_t& seen, const ndl_holder_t& holder,
                            uint32_t timeout_ms) {
  DatastoreRecord record;
  if ((holder.flags & NDL_HOLDER_RECORD) == 0) return record;
  std::vector<std::byte> block(NDS_BLOCK_BYTES);
  const ssize_t bytes =
      ndl_observe_datastore(device, holder.pid, timeout_ms, block.data(), block.size());
  // It may have ended since it was listed.
  if (bytes == -ENOENT) return record;
  if (bytes < 0) {
    record.error = std::string("its counters cannot be read: ") + ndl_last_error();
    return record;
  }
  return read_datastore({block.data(), static_cast<size_t>(bytes)}, seen.cores);
}

// Bounds numbers from outside, so that they cannot lead past an array.
void bound(ndl_observation_t& seen) {
  seen.cores = std::min<uint32_t>(seen.cores, NDL_OBSERVED_CORES);
  seen.connected_count = std::min<uint32_t>(seen.connected_count, NDL_OBSERVED_LINKS);
  seen.holder_count = std::min<uint32_t>(seen.holder_count, NDL_OBSERVED_HOLDERS);
}

// Reads what is asked for after the observation; `left`: the milliseconds that are left.
template <class Left>
void read_rest(int index, const Wanted& wanted, Left&& left, DeviceReading& reading) {
  const ndl_observation_t& seen = reading.observation;
  if (wanted.hardware && seen.fault_count != 0) reading.faults = read_faults(index, left());
  if (!wanted.processes) return;
  for (uint32_t i = 0; i < seen.holder_count; ++i) {
    reading.holders.push_back({seen.holders[i], read_record(index, seen, seen.holders[i], left())});
  }
}

// The driver library's answers about devices, one after another.
struct Told {
  const Wanted& wanted;
  const DeviceIdentities& known;
  DeviceReadings& readings;
};

void take_down(void* context, int index, const ndl_observation_t* observation,
               const char* attributes) {
  const auto& told = *static_cast<const Told*>(context);
  DeviceReading& reading = told.readings[index];
  reading.answered = true;
  reading.observation = *observation;
  bound(reading.observation);
  const auto known = told.known.find(index);
  reading.identity = known != told.known.end() && known->second.known
                         ? known->second
                         : identity_of(attributes, reading.observation);
  if (told.wanted.hardware) read_hardware(attributes, reading);
}

}  // namespace

bool read_devices(const Wanted& wanted, Clock::time_point deadline, const DeviceIdentities& known,
                  DeviceReadings& readings) {
  const auto left = [deadline] {
    const auto rest =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    return static_cast<uint32_t>(std::max<int64_t>(rest.count(), 1));
  };
  std::string folders;
  if (known.empty()) folders += "info/";
  if (wanted.hardware) folders += folders.empty() ? kHardware : " " + std::string(kHardware);
  Told told{wanted, known, readings};
  if (ndl_observe_devices(folders.c_str(), left(), take_down, &told) != 0) return false;
  for (auto& [index, reading] : readings) read_rest(index, wanted, left, reading);
  return true;
}

DeviceReading read_device(int index, const Wanted& wanted, uint32_t timeout_ms,
                          const DeviceIdentity& identity) {
  DeviceReading reading;
  ndl_observation_t& seen = reading.observation;
  seen.size = sizeof(seen);
  if (ndl_observe_device(index, timeout_ms, &seen) != 0) {
    reading.error = ndl_last_error();
    return reading;
  }
  reading.answered = true;
  bound(seen);
  reading.identity =
      identity.known ? identity : identity_of(attributes_below(index, "info/", timeout_ms), seen);
  if (seen.holders_error != 0) {
    reading.error =
        seen.holders_error == EBUSY
            ? "who uses it is not known: 16 processes have it open already, and the driver tells "
              "only one that opens it"
        : seen.holders_error == EACCES || seen.holders_error == EPERM
            ? "who uses it is not known: this user may not open it; join the group that owns "
              "/dev/neuron" +
                  std::to_string(index)
            : std::string("who uses it is not known: ") + std::strerror(seen.holders_error);
  }
  if (wanted.hardware) {
    read_hardware(attributes_below(index, "stats/hardware/", timeout_ms), reading);
    read_hardware(attributes_below(index, "stats/power/", timeout_ms), reading);
  }
  read_rest(
      index, wanted, [timeout_ms] { return timeout_ms; }, reading);
  return reading;
}

}  // namespace neuron::telemetry
