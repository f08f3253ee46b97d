// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-emulatorctl/status_text.h"

#include <google/protobuf/util/json_util.h>

#include <ctime>

#include "driver/base/format.h"

namespace neuron::emulatorctl {
namespace {

std::string time_text(uint64_t seconds) {
  const auto when = static_cast<std::time_t>(seconds);
  std::tm parts{};
  char text[32] = "";
  if (localtime_r(&when, &parts) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  }
  return text;
}

std::string size_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return base::format("{:.{}f} {}", value, unit == 0 ? 0 : 1, kUnits[unit]);
}

// "pid 4711 (python3) since 2026-11-21 12:01:07"
std::string who(int32_t pid, const std::string& command, uint64_t since) {
  std::string text = base::format("pid {}", pid);
  if (!command.empty()) text += " (" + command + ")";
  if (since != 0) text += " since " + time_text(since);
  return text;
}

struct HbmTotals {
  uint64_t bytes = 0, free = 0, retired = 0, corrected = 0, uncorrected = 0;
};

HbmTotals totals_of(const control::Device& device) {
  HbmTotals totals;
  for (const control::Hbm& hbm : device.hbm()) {
    totals.bytes += hbm.bytes();
    totals.free += hbm.free();
    totals.retired += hbm.retired();
    totals.corrected += hbm.corrected();
    totals.uncorrected += hbm.uncorrected();
  }
  return totals;
}

std::string device_text(const control::Device& device) {
  const auto [bytes, free, retired, corrected, uncorrected] = totals_of(device);
  std::string text =
      base::format("device {} ({}): {}, {} of {} HBM free", device.index(), device.address(),
                   device.state(), size_text(free), size_text(bytes));
  if (retired != 0) text += base::format(", {} retired", size_text(retired));
  text += "\n";
  for (const control::Core& core : device.cores()) {
    std::string hung;
    for (const std::string& engine : core.hung_engines()) {
      hung += (hung.empty() ? "; HUNG: " : ", ") + engine;
    }
    if (core.pid() == 0 && hung.empty()) continue;
    text += base::format("  core {} (of the host: {}): {}{}\n", core.index(), core.host_index(),
                         core.pid() == 0 ? "free" : who(core.pid(), core.command(), core.since()),
                         hung);
  }
  if (corrected + uncorrected + device.sram_corrected() + device.sram_uncorrected() +
          device.dma_errors() !=
      0) {
    text += base::format(
        "  errors: HBM {} corrected, {} uncorrected; SRAM {} corrected, {} uncorrected; DMA {}\n",
        corrected, uncorrected, device.sram_corrected(), device.sram_uncorrected(),
        device.dma_errors());
  }
  if (device.bad_hbm_bytes() != 0) {
    text += base::format("  bad HBM: {}\n", size_text(device.bad_hbm_bytes()));
  }
  for (const std::string& fault : device.faults()) text += "  armed: " + fault + "\n";
  return text;
}

bool has_news(const control::Device& device) {
  return device.state() != "not opened" || device.faults_size() != 0;
}

}  // namespace

std::string status_text(const control::Status& status) {
  std::string text = base::format("{}: {} devices, daemon pid {} since {}, {} connections\n",
                                  status.profile(), status.devices_size(), status.pid(),
                                  time_text(status.started()), status.connections());
  int idle = 0;
  for (const control::Device& device : status.devices()) {
    if (has_news(device)) {
      text += device_text(device);
    } else {
      ++idle;
    }
  }
  if (idle != 0) text += base::format("{} devices have not been opened yet\n", idle);
  for (const control::Link& link : status.links_down()) {
    if (link.has_a_node()) {
      text += base::format("link {} of node {} - {} of node {}: down\n", link.a(), link.a_node(),
                           link.b(), link.b_node());
    } else {
      text += base::format("link {} - {}: down\n", link.a(), link.b());
    }
  }
  for (const control::Process& process : status.processes()) {
    if (process.control_only()) continue;
    text += base::format("process {}: device {}, {} of HBM, {} of host memory\n",
                         who(process.pid(), process.command(), process.since()), process.device(),
                         size_text(process.device_bytes()), size_text(process.host_bytes()));
  }
  return text;
}

std::string status_json(const control::Status& status) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(status, &text, options);
  return text + "\n";
}

std::string status_as(tools::Format format, const control::Status& status) {
  if (format == tools::Format::kText) return status_text(status);
  if (format == tools::Format::kJson) return status_json(status);
  tools::Records records;
  records.schema = "neuron-emulatorctl-status";
  records.list = "devices";
  records.columns = {{"device", "DEVICE"},
                     {"address", "ADDRESS"},
                     {"state", "STATE"},
                     {"cores", "CORES"},
                     {"cores_held", "HELD"},
                     {"cores_hung", "HUNG"},
                     {"hbm_bytes", "HBM", tools::Unit::kBytes},
                     {"hbm_free_bytes", "FREE", tools::Unit::kBytes},
                     {"hbm_retired_bytes", "RETIRED", tools::Unit::kBytes},
                     {"hbm_corrected", "CORRECTED"},
                     {"hbm_uncorrected", "UNCORRECTED"},
                     {"dma_errors", "DMA ERRORS"},
                     {"faults_armed", "FAULTS"}};
  for (const control::Device& device : status.devices()) {
    uint64_t held = 0, hung = 0;
    for (const control::Core& core : device.cores()) {
      held += core.pid() != 0;
      hung += core.hung_engines_size() != 0;
    }
    const auto [bytes, free, retired, corrected, uncorrected] = totals_of(device);
    records.rows.push_back({device.index(), boost::json::value(device.address()),
                            boost::json::value(device.state()), device.cores_size(), held, hung,
                            bytes, free, retired, corrected, uncorrected, device.dma_errors(),
                            device.faults_size()});
  }
  return tools::render(records, format, {});
}

}  // namespace neuron::emulatorctl
