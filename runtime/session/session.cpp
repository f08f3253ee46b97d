// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/session.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver/ndl/error.h"
#include "nrt/nds/neuron_ds.h"
#include "runtime/base/environment_table.h"
#include "runtime/base/log.h"
#include "runtime/device/core_reset.h"
#include "runtime/device/driver_error.h"
#include "runtime/observe/version.h"

namespace neuron::runtime {
namespace {

// Why there may be no device: "; no part of this runtime reads ...; is NEURON_EMULATOR meant?".
std::string misspelt_emulator() {
  std::string text;
  for (const std::string& sentence : unknown_variables(environ)) {
    if (sentence.ends_with("is NEURON_EMULATOR meant?")) text += "; " + sentence;
  }
  return text;
}

Result<std::vector<int>> available_devices() {
  std::string why;
  if (ndl::port(why) == nullptr) return fail(NRT_FAILURE, "{}{}", why, misspelt_emulator());
  std::vector<int> indexes(MAX_NEURON_DEVICE_COUNT);
  const int count = ndl_available_devices(indexes.data(), static_cast<int>(indexes.size()));
  if (count < 0) return driver_error(NRT_FAILURE, count, "looking for Neuron devices");
  if (count == 0) {
    return fail(NRT_FAILURE,
                "no Neuron device: load the driver so that /dev/neuron0 exists, or set "
                "NEURON_EMULATOR=trn1.2xlarge for an emulated one{}",
                misspelt_emulator());
  }
  indexes.resize(std::min<size_t>(count, indexes.size()));
  return indexes;
}

// "2.31.4" packed as the datastore wants it.
nmetric_version_t packed_version(const std::string& text) {
  nmetric_version_t version;
  version.all = 0;
  char* end = nullptr;
  version.major_ver = std::strtoul(text.c_str(), &end, 10) & 0xFF;
  if (*end == '.') version.minor_ver = std::strtoul(end + 1, &end, 10) & 0xFF;
  if (*end == '.') version.build_num = std::strtoul(end + 1, &end, 10) & 0xFFFFFFFF;
  return version;
}

}  // namespace

Result<HostCores> host_cores() {
  NEURON_TRY(indexes, available_devices());
  HostCores host;
  host.devices = static_cast<uint32_t>(indexes.size());
  if (const int result = ndl_get_board_info(&host.architecture, &host.revision); result != 0) {
    return driver_error(NRT_FAILURE, result, "asking which chip this host has");
  }
  host.per_device = cores_per_device(host.architecture);
  if (host.per_device == 0) {
    return fail(NRT_FAILURE, "the devices of this host have architecture {}, which is not known",
                host.architecture);
  }
  NEURON_TRY(wanted, read_logical_cores());
  const ChipTable* chip = find_chip_table(host.architecture);
  // Generation 2 has one size; a request for another is refused when a session is opened.
  if (chip != nullptr && chip->logical_cores > 1) {
    host.logical = wanted.size == 0 ? chip->logical_cores : wanted.size;
  }
  return host;
}

Result<uint32_t> visible_core_count(const HostCores& host, const CoreSelection& selection) {
  const uint32_t total = host.total();
  if (!selection.visible.empty()) {
    if (selection.visible.back() >= total) {
      return fail(NRT_INVALID, "NEURON_RT_VISIBLE_CORES asks for core {}; this host has cores 0-{}",
                  selection.visible.back(), total - 1);
    }
    return static_cast<uint32_t>(selection.visible.size());
  }
  if (selection.count > total) {
    return fail(NRT_INVALID, "NEURON_RT_NUM_CORES={}: this host has {} cores", selection.count,
                total);
  }
  return selection.count == 0 ? total : selection.count;
}

Result<std::unique_ptr<Session>> Session::open(const Configuration& configuration,
                                               const Caller& caller) {
  NEURON_TRY(host, host_cores());
  const ChipTable* chip = find_chip_table(host.architecture);
  if (chip != nullptr && configuration.logical_cores.size > chip->logical_cores) {
    return fail(NRT_INVALID,
                "{}={}: chips of generation {} ({}) have virtual cores "
                "of one physical core only; unset it",
                configuration.logical_cores.variable, configuration.logical_cores.size,
                chip->generation, chip->families);
  }
  NEURON_CHECK(visible_core_count(host, configuration.cores));
  NEURON_TRY(indexes, available_devices());
  std::unique_ptr<Session> session(new Session(configuration, host.logical));
  NEURON_CHECK(session->claim(indexes, host.per_device));
  NEURON_CHECK(session->prepare(host.per_device));
  for (const auto& device : session->devices_) {
    if (auto opened = session->open_datastore(*device, caller); !opened) {
      log_warning(LogComponent::kTdrv, "{}; operator tools will not see this process",
                  opened.error().sentence);
    }
  }
  return session;
}

Session::~Session() {
  async.clear();
  send_receive.clear();  // its requests keep memory of tensors
  debug.clear();
  inspection.clear();
  continuous.clear();
  profiles.clear();  // their models are handles
  handles.clear();
  host_collectives.clear();  // each uses a core and a world
  collectives.clear();
  for (auto& core : cores_) {
    core->counters.detach();
    if (core->peer) core->peer->counters.detach();
  }
  cores_.clear();
  for (const Datastore& store : datastores_) {
    store.device->record().detach();
    ndl_nds_close(store.device->ndl(), 0, store.data, store.size);
  }
  if (!claimed_.empty()) {
    ndl_crwl_nc_range_unmark(claimed_.data(), claimed_.size() * sizeof(claimed_[0]));
  }
}

uint32_t Session::core_of(const Storage& storage) const {
  if (!storage.reachable()) return 0;
  const DeviceMemory& memory = *storage.memory();
  for (const auto& core : cores_) {
    if (&core->device() != &memory.device()) continue;
    if (core->number() == memory.core()) return core->index();
    if (core->peer != nullptr && core->peer->number() == memory.core()) return core->index();
  }
  return 0;
}

Result<Device*> Session::open_device(int index) {
  if (Device* known = device(index)) return known;
  NEURON_TRY(opened, Device::open(index));
  devices_.push_back(std::move(opened));
  return devices_.back().get();
}

Result<void> Session::claim(const std::vector<int>& indexes, uint32_t per_device) {
  const uint32_t total = static_cast<uint32_t>(indexes.size()) * per_device;
  const CoreSelection& wanted = configuration_.cores;
  uint32_t count = wanted.count == 0 ? total : wanted.count * logical_cores_;
  uint32_t first = 0;
  uint32_t last = total - 1;
  if (!wanted.visible.empty()) {
    count = static_cast<uint32_t>(wanted.visible.size()) * logical_cores_;
    first = wanted.visible.front() * logical_cores_;
    last = (wanted.visible.back() + 1) * logical_cores_ - 1;
  }
  first_device_ = indexes.front();
  // A claim belongs to an open device, so a device is opened first.
  NEURON_CHECK(open_device(first_device_ + static_cast<int>(first / per_device)));
  if (logical_cores_ > 1 && last - first + 1 > count) {
    NEURON_CHECK(claim_pairs(count, total));
  } else {
    NEURON_CHECK(claim_range(count, first, last, total));
  }
  for (uint32_t core = 0; core < total; ++core) {
    if (nbitmap_test_bit(core, claimed_.data())) {
      NEURON_CHECK(open_device(first_device_ + static_cast<int>(core / per_device)));
    }
  }
  return {};
}

// The driver looks for cores in a row with any first number. A virtual core begins at a multiple of
// its size.
Result<void> Session::claim_pairs(uint32_t count, uint32_t total) {
  for (uint32_t first = 0; first + count < total; first += logical_cores_) {
    if (claim_range(count, first, first + count - 1, total)) return {};
  }
  return claim_range(count, total - count, total - 1, total);
}

Result<void> Session::claim_range(uint32_t count, uint32_t first, uint32_t last, uint32_t total) {
  std::vector<uint64_t> bitmap(NBM_NR_ENT(MAX_NEURON_DEVICE_COUNT * MAX_NC_PER_DEVICE, uint64_t));
  uint32_t longest = 0;
  const int result = ndl_crwl_nc_range_mark(count, first, last, &longest, bitmap.data(),
                                            bitmap.size() * sizeof(bitmap[0]));
  if (result == -EBUSY) {
    // A driver that records owners says which process holds a core and since when.
    const std::string sentence = ndl::last_error() == nullptr ? "" : ndl::last_error();
    const bool tells = sentence.find(" is held by pid ") != std::string::npos;
    if (tells) {
      // Appends the driver's words about the holder to the request.
      const size_t holder = sentence.find("; core ");
      const std::string who = holder == std::string::npos ? sentence : sentence.substr(holder + 2);
      if (first == last) return fail(NRT_FAILURE, "core {} is not free: {}", first, who);
      return fail(NRT_FAILURE, "no {} cores in a row are free among cores {} to {}: {}", count,
                  first, last, who);
    }
    return fail(NRT_FAILURE,
                "{} cores between core {} and core {} are wanted, but at most {} in a row are free "
                "of this host's {}; {}. Stop it, or choose other cores with "
                "NEURON_RT_VISIBLE_CORES",
                count, first, last, longest, total, holders());
  }
  if (result != 0) {
    return driver_error(NRT_FAILURE, result, "claiming {} cores between core {} and core {}", count,
                        first, last);
  }
  claimed_ = bitmap;
  return {};
}

std::string Session::holders() const {
  std::string text;
  for (const auto& device : devices_) {
    neuron_app_info* info = nullptr;
    size_t count = 0;
    if (ndl_get_all_apps_info(device->ndl(), &info, &count, APP_INFO_ALL) != 0) continue;
    for (size_t i = 0; i < count; ++i) {
      char command[64] = "";
      if (std::FILE* file = std::fopen(format("/proc/{}/comm", info[i].pid).c_str(), "re")) {
        if (std::fgets(command, sizeof(command), file) != nullptr) {
          command[std::strcspn(command, "\n")] = '\0';
        }
        std::fclose(file);
      }
      text +=
          format("{}device {} is in use by pid {}{}{}{}", text.empty() ? "" : ", ", device->index(),
                 info[i].pid, command[0] ? " (" : "", command, command[0] ? ")" : "");
    }
    std::free(info);
  }
  return text.empty() ? "the driver does not say by whom the others are held" : text;
}

bool Session::is_claimed(const Device& device, uint32_t core, uint32_t per_device) {
  const auto place = static_cast<uint32_t>(device.index() - first_device_);
  return nbitmap_test_bit(place * per_device + core, claimed_.data());
}

uint32_t Session::number_on_host(const Core& core) const {
  uint32_t counted = 0;
  while (counted + 1 < per_device_ && core.device().physical_core(counted) != core.number()) {
    ++counted;
  }
  return (static_cast<uint32_t>(core.device().index()) * per_device_ + counted) / logical_cores_;
}

Result<void> Session::prepare(uint32_t per_device) {
  per_device_ = per_device;
  if (configuration_.reset_cores) {
    for (const auto& device : devices_) {
      uint32_t map = 0;
      for (uint32_t core = 0; core < per_device; ++core) {
        if (is_claimed(*device, core, per_device)) map |= 1u << device->physical_core(core);
      }
      if (map == 0) continue;
      if (auto reset = reset_cores(*device, map, NRT_FAILURE); !reset) {
        return reset.error().with("resetting cores {:#x} of device {}", map, device->index());
      }
    }
  }
  // The time limit of two executions: the one that runs, and one that waits before this one.
  const auto limit = std::chrono::seconds(2 * configuration_.exec_timeout_s);
  std::vector<Device*> ordered = devices();
  for (Device* device : ordered) {
    for (uint32_t core = 0; core < per_device; ++core) {
      if (!is_claimed(*device, core, per_device)) continue;
      NEURON_TRY(made, Core::create(*device, device->physical_core(core), core_count(), limit));
      if (logical_cores_ > 1 && core % logical_cores_ != 0) {
        cores_.back()->peer = std::move(made);
      } else {
        cores_.push_back(std::move(made));
      }
    }
  }
  return {};
}

Result<void> Session::open_datastore(Device& device, const Caller& caller) {
  void* data = nullptr;
  size_t size = 0;
  const int result = ndl_nds_open(device.ndl(), 0, &data, &size);
  if (result != 0) {
    return driver_error(NRT_FAILURE, result, "opening the datastore of device {}", device.index());
  }
  if (size < NDS_BLOCK_BYTES) {
    ndl_nds_close(device.ndl(), 0, data, size);
    return fail(NRT_FAILURE, "the datastore of device {} has {} bytes, expected {}", device.index(),
                size, NDS_BLOCK_BYTES);
  }
  datastores_.push_back({&device, data, size});
  ProcessVersions versions;
  versions.runtime = packed_version(kRuntimeVersion).all;
  nmetric_version_t framework = packed_version(caller.framework_version);
  framework.reserved = static_cast<uint16_t>(caller.framework);
  versions.framework = framework.all;
  versions.framework_type = static_cast<int8_t>(caller.framework);
  versions.abstraction = packed_version(caller.abstraction_version).all;
  device.record().attach(data, versions, configuration_.process_tag);
  for (auto& core : cores_) {
    if (&core->device() != &device) continue;
    core->counters.attach(data, core->number());
    if (core->peer) core->peer->counters.attach(data, core->peer->number());
  }
  return {};
}

Result<Core*> Session::core(int64_t vnc) const {
  if (vnc < 0 || vnc >= core_count()) {
    return fail(NRT_INVALID, "core {} was asked for; this process has cores 0-{}", vnc,
                core_count() - 1);
  }
  return cores_[vnc].get();
}

Core& Session::least_loaded_core() const {
  return **std::min_element(cores_.begin(), cores_.end(), [](const auto& a, const auto& b) {
    return a->models.load() < b->models.load();
  });
}

Device* Session::device(int index) const {
  for (const auto& device : devices_) {
    if (device->index() == index) return device.get();
  }
  return nullptr;
}

std::vector<Device*> Session::devices() const {
  std::vector<Device*> result;
  for (const auto& device : devices_) result.push_back(device.get());
  std::sort(result.begin(), result.end(),
            [](const Device* a, const Device* b) { return a->index() < b->index(); });
  return result;
}

}  // namespace neuron::runtime
