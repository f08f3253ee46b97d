// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-ls/inventory.h"

#include <ndl/ndl.h>
#include <nrt/nds/neuron_ds.h>
#include <nrt/nrt_open.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "runtime/neff/text.h"

namespace neuron::ls {
namespace {

constexpr uint8_t kGenerationV2 = 2;
constexpr unsigned kCoresV3 = 8;
constexpr uint64_t kGiB = 1ull << 30;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string command_line(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  while (!text.empty() && text.back() == '\0') text.pop_back();
  // A process writes there what it likes: no control sequence may reach the terminal, and JSON must
  // stay UTF-8.
  const bool utf8 = neff::is_utf8(text);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) c = ' ';
    if (byte == 0x7F || (byte >= 0x80 && !utf8)) c = '?';
  }
  return text;
}

// Version that the process's runtime has written into its datastore; "NA" without one.
std::string runtime_version(ndl_device_t* device, int pid) {
  nds_instance_t* datastore = nullptr;
  if (nds_open(device, pid, &datastore) != 0) return "NA";
  uint64_t packed = 0;
  const int status = nds_get_nd_counter(datastore, NDS_ND_COUNTER_RUNTIME_VERSION, &packed);
  nds_close(datastore);
  if (status != 0 || packed == 0) return "NA";
  nmetric_version_t version;
  version.all = packed;
  return std::to_string(version.major_ver) + "." + std::to_string(version.minor_ver) + "." +
         std::to_string(version.build_num);
}

void add_processes(ndl_device_t* device, bool all, Device& out) {
  struct neuron_app_info* apps = nullptr;
  size_t count = 0;
  if (ndl_get_all_apps_info(device, &apps, &count, APP_INFO_PID_NC_LOCK_INFO) != 0) return;
  for (size_t i = 0; i < count; ++i) {
    const int pid = apps[i].pid;
    Process process{pid, command_line(pid), pid == getpid() ? "NA" : runtime_version(device, pid)};
    if (!all && (process.pid == getpid() || process.runtime_version == "NA")) continue;
    out.processes.push_back(std::move(process));
  }
  std::free(apps);
}

// The host may have a device of its own at the PCI address of an emulated one: it is not asked.
void add_place(bool emulated, Device& device) {
  uint32_t domain = 0, bus = 0;
  uint8_t slot = 0, function = 0;
  if (ndl_get_device_bdf_ext(device.index, &domain, &bus, &slot, &function) != 0) return;
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bus, slot, function);
  device.bdf = text;
  if (emulated) return;
  const std::string folder = "/sys/bus/pci/devices/" + device.bdf;
  const std::string node = first_line(folder + "/numa_node");
  if (!node.empty()) device.numa_node = std::atoi(node.c_str());
  device.cpu_affinity = first_line(folder + "/local_cpulist");
}

// Physical cores of a core as the runtime of this environment counts them.
unsigned logical_size(unsigned devices) {
  uint32_t cores = 0;
  const bool known = nrt_get_total_vnc_count(&cores) == NRT_SUCCESS && cores != 0;
  return known && cores >= devices * kCoresV3 ? 1 : 2;
}

// The library's own sentence, which an nrt function keeps; without the name of that function.
std::string why_no_device() {
  // What the library would log is printed by the caller.
  setenv("NEURON_RT_LOG_LEVEL_NRT", "QUIET", 1);
  uint32_t cores = 0;
  if (nrt_get_total_nc_count(&cores) == NRT_SUCCESS) return "there is no Neuron device";
  std::string sentence = nrt_open_last_error();
  const size_t name = sentence.find(": ");
  if (name != std::string::npos) sentence.erase(0, name + 2);
  return sentence;
}

}  // namespace

Inventory discover(bool all_processes, std::string& error) {
  Inventory inventory;
  const char* emulator = std::getenv("NEURON_EMULATOR");
  const bool emulated = emulator && *emulator;
  int indexes[MAX_NEURON_DEVICE_COUNT];
  const int count = ndl_available_devices(indexes, MAX_NEURON_DEVICE_COUNT);
  if (count <= 0) {
    error = why_no_device();
    return inventory;
  }
  char type[256] = "";
  if (nrt_open_get_instance_type(type, sizeof(type)) == NRT_SUCCESS) inventory.instance_type = type;
  if (!emulated) inventory.instance_id = first_line("/sys/devices/virtual/dmi/id/board_asset_tag");
  const std::string online = first_line("/sys/devices/system/cpu/online");
  unsigned first_core = 0;
  for (int i = 0; i < count; ++i) {
    ndl_device_init_param_t parameters{};
    ndl_device_t* opened = nullptr;
    if (ndl_open_device(indexes[i], &parameters, &opened) != 0) {
      error +=
          "device " + std::to_string(indexes[i]) + " cannot be opened; is it held or being reset? ";
      continue;
    }
    Device device;
    device.index = indexes[i];
    if (opened->device_type == kGenerationV2) {
      device.cores = 2;
    } else {
      device.logical_size = logical_size(static_cast<unsigned>(count));
      device.cores = kCoresV3 / device.logical_size;
    }
    device.memory_bytes = opened->device_type == kGenerationV2 ? 32 * kGiB : 96 * kGiB;
    device.first_core = first_core;
    first_core += device.cores;
    device.connected.assign(opened->connected_devices,
                            opened->connected_devices + opened->connected_device_count);
    add_place(emulated, device);
    if (device.cpu_affinity.empty()) device.cpu_affinity = online;
    add_processes(opened, all_processes, device);
    ndl_close_device(opened);
    inventory.devices.push_back(std::move(device));
  }
  return inventory;
}

}  // namespace neuron::ls
