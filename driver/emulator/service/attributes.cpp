// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/attributes.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <ctime>
#include <map>
#include <mutex>

#include "driver/core/attribute_rows.h"
#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/service/observer.h"

namespace neuron::service {
namespace {

using Field = Attribute::Field;
using Kind = Attribute::Kind;

enum Text : uint32_t {
  kReset,
  kCoreCount,
  kConnectedDevices,
  kNotifyDelay,
  kSerialNumber,
  kArchType,
  kInstanceType,
  kDeviceName,
  kCoreArchType,
  kSramCorrected,
  kSramUncorrected,
  kMemCorrected,
  kMemUncorrected,
  kMemRepairable,
  kPower,
  kTensorEngine,
  kFaults,
  kJoinedNodes,
};

struct Builder {
  std::vector<Attribute> files;

  void text(const std::string& path, Text what, uint32_t core = 0, uint16_t mode = 0644) {
    files.push_back({path, Kind::kText, Field::kTotal, core, what, mode});
  }
  void counter(const std::string& folder, Kind kind, uint32_t core, uint32_t id, bool peak) {
    files.push_back({folder + "/total", kind, Field::kTotal, core, id, 0644});
    files.push_back({folder + "/present", kind, Field::kPresent, core, id, 0644});
    if (peak) files.push_back({folder + "/peak", kind, Field::kPeak, core, id, 0644});
  }
};

void add_device(Builder& builder) {
  builder.text("reset", kReset, 0, 0600);
  builder.text("core_count", kCoreCount, 0, 0444);
  builder.text("connected_devices", kConnectedDevices, 0, 0444);
  builder.text("info/notify_delay", kNotifyDelay);
  builder.text("info/serial_number", kSerialNumber);
  builder.text("info/architecture/arch_type", kArchType);
  builder.text("info/architecture/instance_type", kInstanceType);
  builder.text("info/architecture/device_name", kDeviceName);
  for (const nd_attribute_row& row : nd_host_memory_rows) {
    builder.counter(std::string("stats/memory_usage/host_mem/") + row.name, Kind::kDeviceCategory,
                    0, row.id, true);
  }
  builder.text("stats/hardware/sram_ecc_corrected", kSramCorrected);
  builder.text("stats/hardware/sram_ecc_uncorrected", kSramUncorrected);
  builder.text("stats/hardware/mem_ecc_corrected", kMemCorrected);
  builder.text("stats/hardware/mem_ecc_uncorrected", kMemUncorrected);
  builder.text("stats/hardware/mem_ecc_repairable_uncorrected", kMemRepairable);
  builder.text("stats/power/utilization", kPower);
  // Of an emulated device only: faults that were planted and have not happened, a line each.
  builder.text("emulator/faults", kFaults, 0, 0444);
  // The nodes of the UltraServer whose chips this one reaches by addresses, with its own; 1: none.
  builder.text("emulator/joined_nodes", kJoinedNodes, 0, 0444);
}

void add_core(Builder& builder, uint32_t core) {
  const std::string top = "neuron_core" + std::to_string(core) + "/";
  builder.text(top + "info/architecture/arch_type", kCoreArchType, core);
  for (const nd_attribute_row& row : nd_result_rows) {
    builder.counter(top + "stats/status/" + row.name, Kind::kResult, core, row.id, false);
  }
  builder.counter(top + "stats/memory_usage/host_mem", Kind::kCoreHost, core, 0, true);
  builder.counter(top + "stats/memory_usage/device_mem", Kind::kCoreDevice, core, 0, true);
  for (const nd_attribute_row& row : nd_device_memory_rows) {
    builder.counter(top + "stats/memory_usage/device_mem/" + row.name, Kind::kCoreCategory, core,
                    row.id, true);
  }
  for (const nd_attribute_row& row : nd_other_rows) {
    builder.counter(top + "stats/other_info/" + row.name, Kind::kResult, core, row.id, false);
  }
  builder.counter(top + "stats/other_info/reset_req_count", Kind::kResetRequests, core, 0, false);
  builder.counter(top + "stats/other_info/reset_fail_count", Kind::kResetFailures, core, 0, false);
  builder.text(top + "stats/tensor_engine/pe_cntrs", kTensorEngine, core);
}

const std::vector<Attribute>& files_of(uint32_t cores) {
  static std::mutex mutex;
  static std::map<uint32_t, std::vector<Attribute>> known;  // its elements stay where they are
  const std::lock_guard lock(mutex);
  std::vector<Attribute>& files = known[cores];
  if (!files.empty()) return files;
  Builder builder;
  add_device(builder);
  for (uint32_t core = 0; core < cores; ++core) add_core(builder, core);
  files = std::move(builder.files);
  return files;
}

// "" or "folder/": what the paths below begin with.
std::string prefix_of(std::string_view folder) {
  while (!folder.empty() && folder.back() == '/') folder.remove_suffix(1);
  return folder.empty() ? "" : std::string(folder) + "/";
}

uint64_t& field_of(nd_counter& counter, Field field) {
  return field == Field::kTotal     ? counter.total
         : field == Field::kPresent ? counter.present
                                    : counter.peak;
}

bool is_memory(Kind kind) {
  return kind == Kind::kDeviceCategory || kind == Kind::kCoreCategory || kind == Kind::kCoreHost ||
         kind == Kind::kCoreDevice;
}

nd_counter* memory_counter(nd_accounting& accounting, const Attribute& attribute) {
  return attribute.kind == Kind::kCoreHost     ? &accounting.host
         : attribute.kind == Kind::kCoreDevice ? &accounting.device
                                               : &accounting.category[attribute.id];
}

nd_counter& statistic(Statistics& statistics, const Attribute& attribute) {
  return attribute.kind == Kind::kResult          ? statistics.results[attribute.core][attribute.id]
         : attribute.kind == Kind::kResetRequests ? statistics.reset_requests[attribute.core]
                                                  : statistics.reset_failures[attribute.core];
}

}  // namespace

Attributes::Attributes(Instance& instance, unsigned device)
    : instance_(instance), index_(device), files_(files_of(instance.profile().cores)) {}

const Attribute* Attributes::find(std::string_view path) const {
  const auto found = std::find_if(files_.begin(), files_.end(),
                                  [&](const Attribute& file) { return file.path == path; });
  return found == files_.end() ? nullptr : &*found;
}

bool Attributes::is_folder(std::string_view path) const {
  const std::string prefix = prefix_of(path);
  return std::any_of(files_.begin(), files_.end(),
                     [&](const Attribute& file) { return file.path.starts_with(prefix); });
}

int Attributes::missing(std::string_view path) const {
  if (is_folder(path)) {
    return fail(-EISDIR, "device %u: %.*s is a folder of attributes", index_,
                static_cast<int>(path.size()), path.data());
  }
  return fail(-ENOENT, "device %u has no attribute %.*s", index_, static_cast<int>(path.size()),
              path.data());
}

int Attributes::read(std::string_view path, std::string& text) const {
  const Attribute* attribute = find(path);
  return attribute ? value(*attribute, text) : missing(path);
}

int Attributes::value(const Attribute& attribute, std::string& text) const {
  if (attribute.kind == Kind::kText) return text_of(attribute, text);
  uint64_t found = 0;
  if (int error = number(attribute, found)) return error;
  text = std::to_string(found) + "\n";
  return 0;
}

int Attributes::number(const Attribute& attribute, uint64_t& out) const {
  out = 0;
  Device* device = instance_.device_if_probed(index_);
  if (!device) return 0;
  if (is_memory(attribute.kind)) {
    const bool whole = attribute.kind == Kind::kDeviceCategory;
    nd_accounting accounting =
        whole ? device->memory().accounting() : device->memory().accounting(attribute.core);
    out = field_of(*memory_counter(accounting, attribute), attribute.field);
    // The contiguous scratchpad is a shared scratchpad with a category of its own.
    if (attribute.kind == Kind::kCoreCategory &&
        attribute.id == NEURON_MEMALLOC_TYPE_SCRATCHPAD_DEVICE) {
      out += field_of(accounting.category[NEURON_MEMALLOC_TYPE_CONTIGUOUS_SCRATCHPAD_DEVICE],
                      attribute.field);
    }
    return 0;
  }
  const std::unique_lock lock = lock_soon(device->mutex);
  if (!lock) return fail(-EAGAIN, "device %u is being reset", index_);
  out = field_of(statistic(device->statistics, attribute), attribute.field);
  // A multiplication with its addition is two operations.
  if (attribute.kind == Kind::kResult && attribute.id == NDS_NC_COUNTER_MAC_COUNT) out *= 2;
  return 0;
}

int Attributes::errors_of(const Attribute& attribute, std::string& out) const {
  Device* device = instance_.device_if_probed(index_);
  chip::FaultStatus status;
  bool repairable = false;
  if (device) {
    status = device->chip().faults().status();
    repairable = device->layout().tells_repair &&
                 (device->chip().faults().ecc_word(NEURON_FW_HBM_REPAIR) & 3) == 1;
  }
  uint32_t corrected = 0;
  uint32_t uncorrected = 0;
  for (unsigned i = 1; i < chip::kEccWords; ++i) {
    corrected += status.corrected[i];
    uncorrected += status.uncorrected[i];
  }
  uint32_t count = 0;
  if (attribute.id == kSramCorrected) count = status.corrected[0];
  if (attribute.id == kSramUncorrected) count = status.uncorrected[0];
  if (attribute.id == kMemCorrected) count = corrected;
  if (attribute.id == kMemUncorrected) count = repairable ? 0 : uncorrected;
  if (attribute.id == kMemRepairable) count = repairable ? uncorrected : 0;
  out = std::to_string(count) + "\n";
  return 0;
}

int Attributes::text_of(const Attribute& attribute, std::string& out) const {
  const profiles::Profile& profile = instance_.profile();
  const profiles::ChipPlace& place = profile.places[index_];
  const nd_identity& identity = *nd_identity_of(profile.pci_device);
  Device* device = instance_.device_if_probed(index_);
  char line[128];
  switch (attribute.id) {
    case kReset: {
      bool failed = false;
      if (device) {
        const std::unique_lock lock = lock_soon(device->mutex);
        if (!lock) {
          out = "0\n";
          return 0;
        }
        failed = device->statistics.reset_failed;
      }
      out = failed ? "2\n" : "1\n";
      return 0;
    }
    case kCoreCount:
      out = std::to_string(profile.cores);
      return 0;
    case kConnectedDevices:
      for (unsigned i = 0; i < place.neighbour_count; ++i) {
        out += (i ? ", " : "") + std::to_string(place.neighbours[i]);
      }
      out += "\n";
      return 0;
    case kNotifyDelay:
      out = "-1\n";
      return 0;
    case kSerialNumber:
      std::snprintf(line, sizeof(line), "%016" PRIx64 "\n",
                    Device::serial_number(place, instance_.node()));
      out = line;
      return 0;
    case kArchType:
      out = identity.arch_type + std::string("\n");
      return 0;
    case kInstanceType:
      out = identity.instance_type + std::string("\n");
      return 0;
    case kDeviceName:
      out = identity.device_name + std::string("\n");
      return 0;
    case kCoreArchType:
      out = "NCv" + std::to_string(profile.architecture) + "\n";
      return 0;
    case kPower:
      // A chip model has no power to measure.
      std::snprintf(line, sizeof(line), "POWER_STATUS_NO_DATA,%lld,0.00,0.00,0.00\n",
                    static_cast<long long>(::time(nullptr)));
      out = line;
      return 0;
    case kFaults:
      for (const std::string& planted : instance_.faults().waiting(index_)) out += planted + "\n";
      if (device) {
        for (const std::string& planted : device->chip().faults().status().armed) {
          out += planted + "\n";
        }
      }
      return 0;
    case kJoinedNodes:
      out = std::to_string(instance_.pod().joined_nodes()) + "\n";
      return 0;
    case kTensorEngine: {
      out = "xrow_grp,mm_active,wl_active,idle\n";
      const nd_chip& layout = *nd_chip_for_device(profile.pci_device);
      for (uint32_t group = 0; group < 4; ++group) {
        uint64_t values[3] = {};
        for (uint32_t i = 0; device && i < 3; ++i) {
          const uint64_t at = nd_chip_pe_counters(&layout, attribute.core, group) + 8 * i;
          values[i] = device->chip().read_register(at) |
                      uint64_t{device->chip().read_register(at + 4)} << 32;
        }
        std::snprintf(line, sizeof(line), "%u,%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", group,
                      values[0], values[1], values[2]);
        out += line;
      }
      return 0;
    }
    default:
      return errors_of(attribute, out);
  }
}

int Attributes::write(std::string_view path, std::string_view) const {
  const Attribute* attribute = find(path);
  if (!attribute) return missing(path);
  if ((attribute->mode & 0200) == 0) {
    return fail(-EACCES, "device %u: the attribute %s can only be read", index_,
                attribute->path.c_str());
  }
  Device* device = instance_.device_if_probed(index_);
  if (!device) return 0;
  if (is_memory(attribute->kind)) {
    // Bytes in use are what they are; the two others start again.
    if (attribute->field != Field::kTotal) {
      device->memory().clear(attribute->kind != Kind::kDeviceCategory, attribute->core,
                             [&](nd_accounting& accounting) {
                               field_of(*memory_counter(accounting, *attribute), attribute->field) =
                                   0;
                             });
    }
    return 0;
  }
  if (attribute->kind == Kind::kText) {
    // Any text asks for a reset of the device, if nobody has it open.
    if (attribute->id == kReset) {
      {
        const std::unique_lock lock = lock_soon(device->mutex);
        if (!lock || nd_process_count(&device->processes) != 0) return 0;
      }
      return device->reset(Firmware::kWholeDevice);
    }
    return 0;
  }
  const std::unique_lock lock = lock_soon(device->mutex);
  if (!lock) return fail(-EAGAIN, "device %u is being reset", index_);
  field_of(statistic(device->statistics, *attribute), attribute->field) = 0;
  return 0;
}

int Attributes::list(std::string_view folder, std::string& text) const {
  const std::string prefix = prefix_of(folder);
  std::vector<std::string> names;
  for (const Attribute& file : files_) {
    if (!file.path.starts_with(prefix)) continue;
    const size_t slash = file.path.find('/', prefix.size());
    std::string name = slash == std::string::npos
                           ? file.path.substr(prefix.size())
                           : file.path.substr(prefix.size(), slash + 1 - prefix.size());
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(std::move(name));
    }
  }
  if (names.empty()) {
    return fail(-ENOENT, "device %u has no folder %.*s of attributes", index_,
                static_cast<int>(folder.size()), folder.data());
  }
  for (const std::string& name : names) text += name + "\n";
  return 0;
}

int Attributes::tree(std::string_view folder, uint64_t first, size_t limit, std::string& text,
                     uint64_t& next) const {
  const std::string prefix = prefix_of(folder);
  bool any = false;
  for (size_t i = 0; i < files_.size(); ++i) {
    const Attribute& file = files_[i];
    if (!file.path.starts_with(prefix)) continue;
    any = true;
    if (i < first) continue;
    std::string found;
    if (int error = value(file, found)) return error;
    while (!found.empty() && found.back() == '\n') found.pop_back();
    std::replace(found.begin(), found.end(), '\n', ' ');
    const std::string line = file.path + " " + found + "\n";
    if (text.size() + line.size() > limit) {
      next = i;
      return 0;
    }
    text += line;
  }
  return any ? 0
             : fail(-ENOENT, "device %u has no folder %.*s of attributes", index_,
                    static_cast<int>(folder.size()), folder.data());
}

}  // namespace neuron::service
