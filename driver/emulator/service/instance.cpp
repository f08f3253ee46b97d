// SPDX-License-Identifier: Apache-2.0
#include "driver/emulator/service/instance.h"

#include <fcntl.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/service/error.h"
#include "driver/emulator/service/holder.h"
#include "driver/emulator/service/session.h"

namespace neuron::service {
namespace {

// Forks between the start of the process image and here. Written by the child's only thread.
std::atomic<unsigned> forks{0};

void count_forks() {
  static const int registered =
      ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
}

std::vector<chip::FabricNode> nodes_of(const profiles::Profile& profile) {
  std::vector<chip::FabricNode> nodes(profile.chips);
  for (unsigned i = 0; i < profile.chips; ++i) {
    const profiles::ChipPlace& place = profile.places[i];
    nodes[i].routing_id = place.routing_id;
    nodes[i].neighbours.assign(place.neighbours, place.neighbours + place.neighbour_count);
  }
  return nodes;
}

}  // namespace

std::shared_ptr<chip::Fabric> Instance::fabric_of(const profiles::Profile& profile,
                                                  const chip::FabricInstances& instances) {
  return std::make_shared<chip::Fabric>(
      nodes_of(profile), chip::LinkTiming{profile.hop_ps, profile.link_bytes_per_second},
      profile.switched ? chip::FabricKind::kSwitch : chip::FabricKind::kLinks, instances);
}

std::unique_ptr<Instance> Instance::create(std::string_view name, const MemoryLimits& limits,
                                           ChipFactory factory, int& error) {
  std::string sentence;
  const profiles::Profile* profile = profiles::load_profile(name, sentence);
  if (!profile) {
    error = fail(-ENOENT, "%s", sentence.c_str());
    return nullptr;
  }
  count_forks();
  std::unique_ptr<Instance> instance(new Instance(*profile, std::move(factory)));
  InstanceWires wires;
  wires.fabric = fabric_of(*profile);
  wires.budget = std::make_shared<MemoryBudget>(
      limits, [made = instance.get()] { return made->resident_bytes(); });
  error = instance->begin(std::move(wires));
  return error ? nullptr : std::move(instance);
}

std::unique_ptr<Instance> Instance::create(const profiles::Profile& profile, InstanceWires wires,
                                           ChipFactory factory, int& error) {
  count_forks();
  std::unique_ptr<Instance> instance(new Instance(profile, std::move(factory)));
  error = instance->begin(std::move(wires));
  return error ? nullptr : std::move(instance);
}

int Instance::begin(InstanceWires wires) {
  wires_ = std::move(wires);
  if (!io_.valid() || !arena_.valid() || !own_arena_.valid()) {
    return fail(-ENOMEM,
                "no address space for host memory of an emulated %s; lift the limits of address "
                "space and of file sizes (ulimit -v, ulimit -f)",
                profile_.name);
  }
  return faults_.load_environment();
}

Instance::Instance(const profiles::Profile& profile, ChipFactory factory)
    : profile_(profile),
      factory_(std::move(factory)),
      forks_(forks.load(std::memory_order_relaxed)),
      devices_(profile.chips),
      running_(new std::atomic<Device*>[profile.chips]()) {}

Instance::~Instance() {
  if (!is_usable()) {
    // The child of a fork has neither the threads nor the mappings that destructors rely on.
    for (auto& session : sessions_) (void)session.release();
    for (auto& device : devices_) (void)device.release();
    return;
  }
  stop();
}

void Instance::stop() {
  stray_pages_.stop();
  while (!sessions_.empty()) close(sessions_.back().get());
  // Programs that still run may reach other chips: all stop before the first chip goes.
  for (unsigned i = 0; i < devices_.size(); ++i) wires_.fabric->detach(first_node() + i);
  for (auto& device : devices_) {
    if (device) device->chip().reset(0);
  }
}

bool Instance::is_usable() const { return forks.load(std::memory_order_relaxed) == forks_; }

int Instance::refuse_after_fork() const {
  return fail(-EBADF,
              "the emulated %s belongs to the parent process; a child of fork() has to close the "
              "runtime and initialise it again",
              profile_.name);
}

uint32_t Instance::physical_core(unsigned device, uint32_t core) const {
  const nd_chip& chip = *nd_chip_for_device(profile_.pci_device);
  return wires_.turned ? nd_chip_turned_core(&chip, device, core)
                       : nd_chip_physical_core(&chip, device, core);
}

bool Instance::any_core_is_marked() const {
  return std::any_of(std::begin(claims.core), std::end(claims.core),
                     [](const nd_claim& core) { return core.owner != 0; });
}

uint64_t Instance::resident_bytes() {
  uint64_t bytes = arena_.resident_bytes() + own_arena_.resident_bytes() + files_.resident_bytes();
  for (unsigned i = 0; i < profile_.chips; ++i) {
    // Pairs with the release in device(): the device is complete.
    if (Device* device = running_[i].load(std::memory_order_acquire)) {
      bytes += device->chip().hbm().resident_bytes();
    }
  }
  return bytes;
}

void Instance::drop_stray_pages() {
  // Programs may have their reasons to touch a few; the host can bear as much of each chip.
  constexpr uint64_t kMostStray = uint64_t{64} << 20;
  for (unsigned i = 0; i < profile_.chips; ++i) {
    // Pairs with the release in device(): the device is complete.
    Device* const device = running_[i].load(std::memory_order_acquire);
    if (device != nullptr) device->memory().drop_stray_pages(kMostStray);
  }
}

int Instance::device(unsigned index, Device** device) {
  if (index >= devices_.size()) {
    return fail(-ENODEV, "an emulated %s has devices 0 to %zu, found %u", profile_.name,
                devices_.size() - 1, index);
  }
  if (!devices_[index]) {
    auto built =
        std::make_unique<Device>(index, profile_, io_, arena_, own_arena_, budget(), files_);
    if (int error = built->probe(factory_, *wires_.fabric, wires_.node)) return error;
    running_[index].store(built.get(), std::memory_order_release);
    devices_[index] = std::move(built);
    faults_.built(index);
    if (files_.allowed()) stray_pages_.start([this] { drop_stray_pages(); });
  }
  *device = devices_[index].get();
  return 0;
}

Device* Instance::device_if_probed(unsigned index) {
  return index < profile_.chips ? running_[index].load(std::memory_order_acquire) : nullptr;
}

int Instance::open(unsigned index, int flags, const Client& client, Session** session) {
  if (!is_usable()) return refuse_after_fork();
  const int mode = flags & O_ACCMODE;
  if (mode != O_RDONLY && mode != O_WRONLY && mode != O_RDWR) {
    return fail(-EINVAL, "device %u: open flags 0x%x hold no access mode", index, flags);
  }
  const int32_t pid = client.pid;
  const std::lock_guard lock(mutex_);
  // The tables of a driver know processes by their pid.
  for (const auto& other : sessions_) {
    if (other->pid() == pid && other->client().process != client.process) {
      return fail(-EAGAIN,
                  "pid %d was another process, and what that held is still being freed; try again",
                  pid);
    }
  }
  Device* found = nullptr;
  if (int error = device(index, &found)) return error;
  const bool restricted = mode == O_WRONLY;
  if (int error = found->check_present()) return error;
  const nd_holder who = holder_of(pid);
  if (!restricted) {
    const std::lock_guard tables(found->mutex);
    if (!nd_process_find(&found->processes, pid) && !found->has_place_for(client)) {
      return fail(
          -EBUSY,
          "device %u: %u of its %u places for processes are taken, some by user %u, and the "
          "last %u are kept for users who have none; pid %d must wait for a process of its "
          "user to end",
          index, nd_process_count(&found->processes), ND_PROCESSES, client.user,
          Device::kPlacesForOthers, pid);
    }
    if (nd_process_attach(&found->processes, pid) != 0) {
      return fail(
          -EBUSY,
          "device %u: %u processes have it open already, the first of them %s; pid %d must "
          "wait for one",
          index, ND_PROCESSES,
          describe_holder(found->processes.slot[0].pid, found->processes.slot[0].who).c_str(), pid);
    }
    nd_process& process = *nd_process_find(&found->processes, pid);
    if (process.references == 1) {
      process.who = who;
      found->clients[&process - found->processes.slot] = client;
    }
  }
  sessions_.push_back(
      std::make_unique<Session>(*this, *found, next_session_++, client, restricted, who));
  *session = sessions_.back().get();
  return 0;
}

std::vector<Instance::SessionInfo> Instance::sessions() {
  const std::lock_guard lock(mutex_);
  std::vector<SessionInfo> found;
  for (const auto& session : sessions_) {
    found.push_back(
        {session->device_index(), session->pid(), session->restricted(), session->who()});
  }
  return found;
}

int Instance::close(Session* session) {
  if (!is_usable()) return refuse_after_fork();
  std::unique_ptr<Session> mine;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(sessions_.begin(), sessions_.end(),
                                    [&](const auto& entry) { return entry.get() == session; });
    if (found == sessions_.end()) {
      return fail(-EBADF, "this handle of an emulated %s is not open", profile_.name);
    }
    mine = std::move(*found);
    sessions_.erase(found);
  }
  mine->release();
  return 0;
}

}  // namespace neuron::service
