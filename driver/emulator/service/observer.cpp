// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/observer.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "driver/base/backoff.h"
#include "driver/base/pci_address.h"
#include "driver/emulator/chip/chip_faults.h"
#include "driver/emulator/service/attributes.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/instance.h"
#include "uapi/neuron_observe.h"

namespace neuron::service {
namespace {

constexpr std::chrono::milliseconds kSoon{20};

static_assert(NDL_OBSERVED_CORES >= ND_MAX_CORES);
static_assert(NDL_OBSERVED_LINKS >= profiles::kMaxNeighbours);

void describe_profile(const Instance& instance, unsigned index, ndl_observation_t& out) {
  const profiles::Profile& profile = instance.profile();
  const profiles::ChipPlace& place = profile.places[index];
  out.architecture = profile.architecture;
  out.revision = profile.revision;
  out.cores = profile.cores;
  out.pci_domain = place.domain;
  out.pci_bus = place.bus;
  out.pci_slot = place.slot;
  out.pci_function = place.function;
  out.numa_node = place.numa_node;
  out.emulated = 1;
  out.connected_count = place.neighbour_count;
  std::copy_n(place.neighbours, place.neighbour_count, out.connected);
  out.link_bytes_per_second = profile.link_bytes_per_second;
  out.memory_bytes = profile.hbm_stacks * profile.hbm_stack_bytes;
  for (uint32_t core = 0; core < profile.cores; ++core) {
    out.logical[instance.physical_core(index, core)] = static_cast<uint8_t>(core);
  }
}

void describe_faults(Instance& instance, unsigned index, Device* device, ndl_observation_t& out) {
  out.fault_count = static_cast<uint32_t>(instance.faults().waiting(index).size());
  const profiles::ChipPlace& place = instance.profile().places[index];
  // Those to other nodes have no bit, as the neighbours that a device tells are of its own node.
  for (const auto& [a, b] : instance.faults().links_down()) {
    if (a.node) continue;
    for (unsigned i = 0; i < place.neighbour_count; ++i) {
      const unsigned other = place.neighbours[i];
      if ((a.device == index && b.device == other) || (b.device == index && a.device == other)) {
        out.links_down |= 1u << i;
      }
    }
  }
  if (!device) return;
  const chip::FaultStatus faults = device->chip().faults().status();
  out.fault_count += static_cast<uint32_t>(faults.armed.size());
  if (faults.off) out.state = NDL_DEVICE_OFF;
  for (size_t core = 0; core < faults.hung.size() && core < NDL_OBSERVED_CORES; ++core) {
    out.hung_engines[core] = faults.hung[core];
  }
}

// The holder's entry, made if there is room; else null.
ndl_holder_t* holder_entry(ndl_observation_t& out, int32_t pid, const nd_holder& who) {
  for (uint32_t i = 0; i < std::min<uint32_t>(out.holder_count, NDL_OBSERVED_HOLDERS); ++i) {
    if (out.holders[i].pid == pid) return &out.holders[i];
  }
  if (out.holder_count++ >= NDL_OBSERVED_HOLDERS) return nullptr;
  ndl_holder_t& entry = out.holders[out.holder_count - 1];
  entry.pid = pid;
  entry.since = who.since;
  static_assert(sizeof(entry.command) == sizeof(who.command));
  std::memcpy(entry.command, who.command, sizeof(who.command));
  return &entry;
}

void describe_claims(Instance& instance, unsigned index, ndl_observation_t& out) {
  const uint32_t cores = instance.profile().cores;
  const std::lock_guard lock(instance.claims_mutex);
  for (uint32_t core = 0; core < cores; ++core) {
    const nd_claim* claim = nd_claims_at(&instance.claims, index * cores + core);
    if (!claim) continue;
    if (ndl_holder_t* entry = holder_entry(out, claim->owner, claim->who)) {
      entry->cores |= uint64_t{1} << instance.physical_core(index, core);
    }
  }
}

using Clock = std::chrono::steady_clock;

std::unique_lock<std::mutex> lock_by(std::mutex& mutex, Clock::time_point deadline) {
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock && Clock::now() < deadline) {
    base::sleep_for(std::chrono::microseconds(200));
    lock = std::unique_lock(mutex, std::try_to_lock);
  }
  return lock;
}

void describe_tables(Device& device, Clock::time_point deadline, ndl_observation_t& out) {
  const std::unique_lock lock = lock_by(device.mutex, deadline);
  if (!lock) {
    out.state = NDL_DEVICE_RESETTING;
    return;
  }
  if (device.statistics.reset_failed) out.state = NDL_DEVICE_INVALID;
  for (uint32_t core = 0; core < device.cores(); ++core) {
    out.resets[core] = static_cast<uint32_t>(device.statistics.reset_requests[core].total);
    out.failed_resets[core] = static_cast<uint32_t>(device.statistics.reset_failures[core].total);
  }
  for (const nd_process& process : device.processes.slot) {
    if (process.pid == 0) continue;
    if (ndl_holder_t* entry = holder_entry(out, process.pid, process.who)) {
      entry->flags |= NDL_HOLDER_ATTACHED;
    }
  }
  for (const nd_datastore& datastore : device.datastores.slot) {
    for (uint32_t i = 0; i < std::min<uint32_t>(out.holder_count, NDL_OBSERVED_HOLDERS); ++i) {
      if (datastore.pid != 0 && out.holders[i].pid == datastore.pid) {
        out.holders[i].flags |= NDL_HOLDER_RECORD;
      }
    }
  }
}

void observe_device(Instance& instance, unsigned index, Clock::time_point deadline,
                    ndl_observation_t& out) {
  out = {};
  out.size = sizeof(out);
  out.state = NDL_DEVICE_READY;
  describe_profile(instance, index, out);
  Device* device = instance.device_if_probed(index);
  if (device) describe_tables(*device, deadline, out);
  describe_claims(instance, index, out);
  describe_faults(instance, index, device, out);
  if (!device) return;
  out.memory_used = device->memory().accounting().device.total;
  for (uint32_t i = 0; i < std::min<uint32_t>(out.holder_count, NDL_OBSERVED_HOLDERS); ++i) {
    uint64_t host = 0;
    uint64_t bytes = 0;
    device->memory().usage(out.holders[i].pid, &host, &bytes);
    out.holders[i].host_bytes = host;
    out.holders[i].device_bytes = bytes;
  }
}

// The wait for devices that are being reset is as long for all of them as for one.
int observe_all(Instance& instance, std::string_view folders, uint64_t first, size_t limit,
                std::string& answer, uint64_t& next) {
  const auto deadline = Clock::now() + kSoon;
  for (auto index = static_cast<unsigned>(std::min<uint64_t>(first, UINT32_MAX));
       index < instance.device_count(); ++index) {
    ndl_observation_t observation;
    observe_device(instance, index, deadline, observation);
    const uint32_t holders = std::min<uint32_t>(observation.holder_count, NDL_OBSERVED_HOLDERS);
    std::string text;
    const Attributes attributes(instance, index);
    for (std::string_view rest = folders; !rest.empty();) {
      const std::string_view folder = rest.substr(0, rest.find(' '));
      rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
      uint64_t cut = 0;
      if (const int error = attributes.tree(folder, 0, limit, text, cut)) return error;
      if (cut != 0) return fail(-EMSGSIZE, "%zu bytes are too few for a device", limit);
    }
    const neuron_emulator_told told = {index,
                                       static_cast<uint32_t>(offsetof(ndl_observation_t, holders) +
                                                             holders * sizeof(ndl_holder_t)),
                                       static_cast<uint32_t>(text.size()), 0};
    if (answer.size() + sizeof(told) + told.observation_bytes + text.size() > limit) {
      next = index;
      return answer.empty() ? fail(-EMSGSIZE, "%zu bytes are too few for a device", limit) : 0;
    }
    answer.append(reinterpret_cast<const char*>(&told), sizeof(told));
    answer.append(reinterpret_cast<const char*>(&observation), told.observation_bytes);
    answer += text;
  }
  return 0;
}

int observe_adapter(const Instance& instance, unsigned index, std::string& answer) {
  const profiles::Profile& profile = instance.profile();
  const int nearest = profile.places[index].adapter;
  if (nearest < 0) return fail(-ENOENT, "an emulated %s has no network adapter", profile.name);
  const profiles::AdapterPlace& place = profile.adapters[nearest];
  answer = base::pci_address(place.domain, place.bus, place.slot, place.function);
  return 0;
}

// Most of the 256 KiB are zero. The other bytes go in pieces of whole lines.
int observe_datastore(Instance& instance, unsigned index, int32_t pid, uint64_t offset,
                      size_t limit, std::string& answer, uint64_t& next) {
  constexpr size_t kLine = 64;
  constexpr size_t kLongest = 4096;
  const auto none = [&] { return fail(-ENOENT, "device %u: pid %d has no datastore", index, pid); };
  Device* device = instance.device_if_probed(index);
  if (!device) return none();
  const std::unique_lock lock = lock_soon(device->mutex);
  if (!lock) return fail(-EAGAIN, "device %u is being reset", index);
  uint32_t slot = 0;
  if (nd_datastore_acquire(&device->datastores, pid, false, &slot) != 0) return none();
  const std::byte* block = device->datastore_memory[slot]->data;
  const auto blank = [&](size_t at) {
    uint64_t words[kLine / sizeof(uint64_t)];
    std::memcpy(words, block + at, kLine);
    return std::all_of(std::begin(words), std::end(words), [](uint64_t word) { return word == 0; });
  };
  size_t at = std::min<uint64_t>(offset, ND_DATASTORE_BYTES) / kLine * kLine;
  while (at < ND_DATASTORE_BYTES) {
    if (blank(at)) {
      at += kLine;
      continue;
    }
    size_t end = at + kLine;
    while (end < ND_DATASTORE_BYTES && end - at < kLongest && !blank(end)) end += kLine;
    const neuron_emulator_piece piece = {static_cast<uint32_t>(at),
                                         static_cast<uint32_t>(end - at)};
    if (answer.size() + sizeof(piece) + piece.bytes > limit) {
      next = at;
      return answer.empty() ? fail(-EMSGSIZE, "%zu bytes are too few for a datastore", limit) : 0;
    }
    answer.append(reinterpret_cast<const char*>(&piece), sizeof(piece));
    answer.append(reinterpret_cast<const char*>(block + at), piece.bytes);
    at = end;
  }
  return 0;
}

}  // namespace

std::unique_lock<std::mutex> lock_soon(std::mutex& mutex) {
  return lock_by(mutex, Clock::now() + kSoon);
}

int observe(Instance& instance, const neuron_emulator_question& question, size_t limit,
            std::string& answer, uint64_t& next) {
  answer.clear();
  next = 0;
  if (!instance.is_usable()) return instance.refuse_after_fork();
  if (question.device >= instance.device_count()) {
    return fail(-ENODEV, "an emulated %s has devices 0 to %u, found %u", instance.profile().name,
                instance.device_count() - 1, question.device);
  }
  const std::string path(question.path, ::strnlen(question.path, sizeof(question.path)));
  switch (question.kind) {
    case NEURON_EMULATOR_ASK_DEVICE: {
      ndl_observation_t observation;
      observe_device(instance, question.device, Clock::now() + kSoon, observation);
      answer.assign(reinterpret_cast<const char*>(&observation),
                    std::min(limit, sizeof(observation)));
      return 0;
    }
    case NEURON_EMULATOR_ASK_DATASTORE:
      return observe_datastore(instance, question.device, question.pid, question.offset, limit,
                               answer, next);
    case NEURON_EMULATOR_ASK_READ:
    case NEURON_EMULATOR_ASK_LIST:
    case NEURON_EMULATOR_ASK_TREE: {
      Attributes attributes(instance, question.device);
      return question.kind == NEURON_EMULATOR_ASK_READ ? attributes.read(path, answer)
             : question.kind == NEURON_EMULATOR_ASK_LIST
                 ? attributes.list(path, answer)
                 : attributes.tree(path, question.offset, limit, answer, next);
    }
    case NEURON_EMULATOR_ASK_ALL:
      return observe_all(instance, path, question.offset, limit, answer, next);
    case NEURON_EMULATOR_ASK_ADAPTER:
      return observe_adapter(instance, question.device, answer);
    case NEURON_EMULATOR_ASK_WRITE:
      return Attributes(instance, question.device)
          .write(path, {question.text, ::strnlen(question.text, sizeof(question.text))});
    default:
      return fail(-EOPNOTSUPP, "question %u about a device is unknown", question.kind);
  }
}

}  // namespace neuron::service
