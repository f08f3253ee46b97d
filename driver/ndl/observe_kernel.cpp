// SPDX-License-Identifier: Apache-2.0
#include "driver/ndl/observe_kernel.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "driver/base/pci_address.h"
#include "driver/ndl/architecture.h"
#include "driver/ndl/device_table.h"
#include "driver/ndl/error.h"
#include "driver/ndl/nearest_adapter.h"
#include "ndl/emulator.h"
#include "ndl/ndl_device.h"
#include "ndl/ndl_observe.h"
#include "nrt/nds/datastore_layout.h"
#include "uapi/neuron_ioctl.h"

namespace neuron::ndl {
namespace {

constexpr char kClass[] = "/sys/class/neuron_device";

std::string folder_of(unsigned device) {
  return std::string(kClass) + "/neuron" + std::to_string(device);
}

int read_text(const std::string& path, std::string& text) {
  constexpr size_t kMostBytes = 65536;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return fail(-errno, "%s cannot be read: %s", path.c_str(), std::strerror(errno));
  char buffer[4096];
  ssize_t length = 0;
  while (text.size() < kMostBytes && (length = ::read(file, buffer, sizeof(buffer))) > 0) {
    text.append(buffer, static_cast<size_t>(length));
  }
  const int error = length < 0 ? errno : 0;
  ::close(file);
  return error ? fail(-error, "%s cannot be read: %s", path.c_str(), std::strerror(error)) : 0;
}

uint64_t read_number(const std::string& path) {
  std::string text;
  return read_text(path, text) == 0 ? std::strtoull(text.c_str(), nullptr, 10) : 0;
}

// Lists a folder of attributes, without the entries that every kernel object has.
std::vector<std::pair<std::string, bool>> entries(const std::string& folder) {
  std::vector<std::pair<std::string, bool>> found;
  DIR* opened = ::opendir(folder.c_str());
  if (opened == nullptr) return found;
  while (const dirent* entry = ::readdir(opened)) {
    const std::string name = entry->d_name;
    struct stat status;
    if (name[0] == '.' || ::lstat((folder + "/" + name).c_str(), &status) != 0) continue;
    if (S_ISLNK(status.st_mode) || name == "dev" || name == "uevent" || name == "power") {
      // Two folders have this name; the wanted one is below stats/.
      if (name != "power" || !folder.ends_with("/stats")) continue;
    }
    found.emplace_back(name, S_ISDIR(status.st_mode));
  }
  ::closedir(opened);
  std::sort(found.begin(), found.end());
  return found;
}

void add_tree(const std::string& top, const std::string& path, std::string& answer) {
  for (const auto& [name, is_folder] : entries(path.empty() ? top : top + "/" + path)) {
    const std::string inside = path.empty() ? name : path + "/" + name;
    if (is_folder) {
      add_tree(top, inside, answer);
      continue;
    }
    std::string text;
    if (read_text(top + "/" + inside, text) != 0) continue;  // only root may read it
    while (!text.empty() && text.back() == '\n') text.pop_back();
    std::replace(text.begin(), text.end(), '\n', ' ');
    answer += inside + " " + text + "\n";
  }
}

int observe_attribute(const neuron_emulator_question& question, std::string path,
                      std::string& answer) {
  while (!path.empty() && path.back() == '/') path.pop_back();
  if (path.starts_with("/") || ("/" + path + "/").find("/../") != std::string::npos) {
    return fail(-EINVAL, "%s is no path inside a device's tree of attributes", path.c_str());
  }
  const std::string top = folder_of(question.device);
  const std::string file = path.empty() ? top : top + "/" + path;
  if (question.kind == NEURON_EMULATOR_ASK_READ) return read_text(file, answer);
  if (question.kind == NEURON_EMULATOR_ASK_WRITE) {
    const int opened = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
    const size_t length = ::strnlen(question.text, sizeof(question.text));
    const bool written =
        opened >= 0 && ::write(opened, question.text, length) == static_cast<ssize_t>(length);
    const int error = errno;
    if (opened >= 0) ::close(opened);
    return written ? 0
                   : fail(-error, "%s cannot be written: %s", file.c_str(), std::strerror(error));
  }
  struct stat status;
  if (::stat(file.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return fail(-ENOENT, "%s is no folder of attributes", file.c_str());
  }
  if (question.kind == NEURON_EMULATOR_ASK_TREE) {
    add_tree(top, path, answer);
    return 0;
  }
  for (const auto& [name, is_folder] : entries(file)) answer += name + (is_folder ? "/\n" : "\n");
  return 0;
}

// Asks for what the driver tells only processes that have the device open.
void ask_attached(Port& port, ndl_observation_t& out, unsigned index) {
  std::unique_ptr<DevicePort> device;
  int result = port.open(static_cast<int>(index), O_RDWR, device);
  neuron_ioctl_device_info info = {};
  if (result == 0) result = device->ioctl(NEURON_IOCTL_DEVICE_INFO, &info);
  if (result != 0) {
    out.holders_error = -result;
    return;
  }
  out.connected_count = std::min<uint32_t>(info.connected_device_count, NDL_OBSERVED_LINKS);
  for (uint32_t i = 0; i < out.connected_count; ++i) {
    out.connected[i] = static_cast<uint8_t>(info.connected_devices[i]);
  }
  constexpr uint16_t kEntries = NEURON_MAX_PROCESS_PER_DEVICE;
  std::vector<std::byte> room(sizeof(neuron_ioctl_get_apps_info) +
                              kEntries * sizeof(neuron_app_info));
  auto* apps = reinterpret_cast<neuron_ioctl_get_apps_info*>(room.data());
  apps->apps_info_flags = APP_INFO_ALL;
  apps->capacity = kEntries;
  result = device->ioctl(NEURON_IOCTL_DEVICE_GET_ALL_APPS_INFO, apps);
  if (result != 0) {
    out.holders_error = -result;
    return;
  }
  for (uint32_t i = 0; i < std::min<uint32_t>(apps->size, kEntries); ++i) {
    const neuron_app_info& app = apps->app_data[i];
    neuron_ioctl_neuron_ds_info record = {};
    record.pid = app.pid;
    const bool has_record = device->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &record) == 0;
    // This process is listed because it asks.
    if (app.pid == ::getpid() && !has_record) continue;
    ndl_holder_t& holder = out.holders[out.holder_count++];
    holder.pid = app.pid;
    holder.flags = NDL_HOLDER_ATTACHED | (has_record ? NDL_HOLDER_RECORD : 0);
    holder.cores = app.nc_lock_map;
    holder.host_bytes = app.host_mem_size;
    holder.device_bytes = app.device_mem_size;
  }
}

// Fills in the logical number of each physical core of the device; lists of processes use it.
void number_cores(ndl_observation_t& out, unsigned index) {
  for (uint32_t core = 0; core < out.cores; ++core) out.logical[core] = static_cast<uint8_t>(core);
  if (!architecture_of(out.architecture).maps_cores) return;
  constexpr uint32_t kEntries = 128;
  std::vector<std::byte> room(sizeof(neuron_ioctl_nc_map) +
                              kEntries * sizeof(neuron_ioctl_nc_map_entry));
  auto* map = reinterpret_cast<neuron_ioctl_nc_map*>(room.data());
  if (ndl_get_logical_to_physical_nc_map(map, kEntries,
                                         static_cast<enum neuron_ioctl_nc_mapping_type>(0)) != 0) {
    return;
  }
  const uint32_t first = index * out.cores;
  for (uint32_t i = first; i < std::min(map->num_entries, kEntries) && i < first + out.cores; ++i) {
    if (map->mappings[i].device_nc_idx < out.cores) {
      out.logical[map->mappings[i].device_nc_idx] = static_cast<uint8_t>(i - first);
    }
  }
}

// The module of this project answers through the control device, without attaching the process. Any
// other driver returns EINVAL.
int ask_driver(uint32_t kind, unsigned index, int32_t pid, void* answer, size_t& size) {
  neuron_ioctl_observe question = {};
  question.kind = kind;
  question.device = index;
  question.pid = pid;
  question.answer = reinterpret_cast<uintptr_t>(answer);
  question.size = size;
  const int result =
      DeviceTable::instance().ask(NEURON_IOCTL_OBSERVE, &question, "observing a device");
  size = std::min<size_t>(size, question.size);
  return result;
}

int observe_device(Port& port, const std::string& nodes, unsigned index, std::string& answer) {
  ndl_observation_t out = {};
  size_t told_bytes = sizeof(out);
  if (ask_driver(NEURON_EMULATOR_ASK_DEVICE, index, 0, &out, told_bytes) == 0 &&
      told_bytes == sizeof(out)) {
    answer.assign(reinterpret_cast<const char*>(&out), sizeof(out));
    return 0;
  }
  out = {};
  out.size = sizeof(out);
  out.numa_node = -1;
  out.state = NDL_DEVICE_UNKNOWN;
  const std::string node = nodes + "/neuron" + std::to_string(index);
  if (::access(node.c_str(), F_OK) != 0) return fail(-ENODEV, "%s does not exist", node.c_str());
  if (const int result = ndl_get_board_info(&out.architecture, &out.revision); result != 0) {
    return result;
  }
  uint8_t slot = 0, function = 0;
  if (ndl_get_device_bdf_ext(static_cast<int>(index), &out.pci_domain, &out.pci_bus, &slot,
                             &function) == 0) {
    out.pci_slot = slot;
    out.pci_function = function;
  }
  const Architecture& usual = architecture_of(out.architecture);
  const std::string top = folder_of(index);
  const auto told = static_cast<uint32_t>(read_number(top + "/core_count"));
  out.cores = told != 0 && told <= NDL_OBSERVED_CORES ? told : usual.cores;
  out.memory_bytes = usual.memory_bytes;
  for (uint32_t core = 0; core < out.cores; ++core) {
    const std::string stats = top + "/neuron_core" + std::to_string(core) + "/stats/";
    out.memory_used += read_number(stats + "memory_usage/device_mem/total");
    out.resets[core] =
        static_cast<uint32_t>(read_number(stats + "other_info/reset_req_count/total"));
    out.failed_resets[core] =
        static_cast<uint32_t>(read_number(stats + "other_info/reset_fail_count/total"));
  }
  number_cores(out, index);
  std::string state;
  if (read_text(top + "/reset", state) == 0 && state[0] >= '0' && state[0] <= '2') {
    out.state = static_cast<uint32_t>(state[0] - '0');
  }
  // An open would wait for the reset to end.
  if (out.state == NDL_DEVICE_RESETTING) {
    out.holders_error = EAGAIN;
  } else {
    ask_attached(port, out, index);
  }
  if (out.state == NDL_DEVICE_UNKNOWN && out.holders_error == 0) out.state = NDL_DEVICE_READY;
  answer.assign(reinterpret_cast<const char*>(&out), sizeof(out));
  return 0;
}

int observe_datastore(Port& port, const neuron_emulator_question& question, std::string& answer) {
  if (question.pid == 0) return fail(-EINVAL, "a datastore belongs to a process, found pid 0");
  const auto none = [&] {
    return fail(-ENOENT, "device %u: pid %d has no datastore", question.device, question.pid);
  };
  std::string told(NDS_BLOCK_BYTES, '\0');
  size_t told_bytes = told.size();
  int result = ask_driver(NEURON_EMULATOR_ASK_DATASTORE, question.device, question.pid, told.data(),
                          told_bytes);
  if (result == -ENOENT) return none();
  if (result == 0) {
    const neuron_emulator_piece piece = {0, static_cast<uint32_t>(told_bytes)};
    answer.assign(reinterpret_cast<const char*>(&piece), sizeof(piece));
    answer.append(told, 0, told_bytes);
    return 0;
  }
  std::unique_ptr<DevicePort> device;
  if ((result = port.open(static_cast<int>(question.device), O_RDWR, device)) != 0) return result;
  neuron_ioctl_neuron_ds_info info = {};
  info.pid = question.pid;
  if (device->ioctl(NEURON_IOCTL_ACQUIRE_NEURON_DS, &info) != 0) return none();
  void* block = nullptr;
  const size_t bytes = info.size;
  if ((result = device->map(bytes, PROT_READ, info.mmap_offset, &block)) != 0) return result;
  const neuron_emulator_piece piece = {0, static_cast<uint32_t>(bytes)};
  answer.assign(reinterpret_cast<const char*>(&piece), sizeof(piece));
  answer.append(static_cast<const char*>(block), bytes);
  (void)device->unmap(block, bytes);
  return 0;
}

int observe_adapter(unsigned index, std::string& answer) {
  uint32_t domain = 0, bus = 0;
  uint8_t slot = 0, function = 0;
  const int result =
      ndl_get_device_bdf_ext(static_cast<int>(index), &domain, &bus, &slot, &function);
  if (result != 0) return result;
  return nearest_adapter("/sys", base::pci_address(domain, bus, slot, function), index, answer);
}

}  // namespace

int observe_kernel(Port& port, const std::string& nodes, const neuron_emulator_question& question,
                   std::string& answer) {
  switch (question.kind) {
    case NEURON_EMULATOR_ASK_DEVICE:
      return observe_device(port, nodes, question.device, answer);
    case NEURON_EMULATOR_ASK_DATASTORE:
      return observe_datastore(port, question, answer);
    case NEURON_EMULATOR_ASK_READ:
    case NEURON_EMULATOR_ASK_LIST:
    case NEURON_EMULATOR_ASK_TREE:
    case NEURON_EMULATOR_ASK_WRITE:
      return observe_attribute(question, question.path, answer);
    case NEURON_EMULATOR_ASK_ADAPTER:
      return observe_adapter(question.device, answer);
    default:
      return fail(-EOPNOTSUPP, "question %u about a device is unknown", question.kind);
  }
}

}  // namespace neuron::ndl
