// SPDX-License-Identifier: Apache-2.0
// The devices of one emulated host: what the driver module is to /dev/neuron0, /dev/neuron1, ...
//
// Concepts: devices of a profile, built when first opened; host memory and I/O addresses; the
// host-wide marks of cores. A session is one open descriptor. An instance is on its own, or a node
// of an UltraServer of this process (ultra_server.h), which shares its links and its budget.
// Callers: the C interface; any thread. Owns devices and sessions. After a fork, the child's copy
// answers every call with -EBADF: a child does not inherit the device. Fails: negative errno and a
// sentence.
#ifndef DRIVER_EMULATOR_SERVICE_INSTANCE_H
#define DRIVER_EMULATOR_SERVICE_INSTANCE_H

#include <atomic>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "driver/core/claims.h"
#include "driver/emulator/service/client_log.h"
#include "driver/emulator/service/device.h"
#include "driver/emulator/service/fault_board.h"
#include "driver/emulator/service/pod.h"
#include "driver/emulator/service/stray_pages.h"

namespace neuron::service {

class Session;

// What an instance shares with the other nodes of an UltraServer of this process. Where it is on
// its own, nobody else has it.
struct InstanceWires {
  std::shared_ptr<chip::Fabric> fabric;  // outlives the chips
  std::shared_ptr<MemoryBudget> budget;
  unsigned node = 0;    // among the instances of the fabric
  bool turned = false;  // its logical cores are those of chips whose dies are turned round
};

class Instance {
 public:
  // Null with a sentence in last_error() and the code in `error`.
  static std::unique_ptr<Instance> create(std::string_view name, const MemoryLimits& limits,
                                          ChipFactory factory, int& error);
  // The same for a node of an UltraServer; `profile` is that of its fabric.
  static std::unique_ptr<Instance> create(const profiles::Profile& profile, InstanceWires wires,
                                          ChipFactory factory, int& error);
  // The links between the chips of `count` instances of a profile, `between` them those of a pod.
  static std::shared_ptr<chip::Fabric> fabric_of(const profiles::Profile& profile,
                                                 const chip::FabricInstances& instances = {});
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  unsigned device_count() const { return profile_.chips; }
  const profiles::Profile& profile() const { return profile_; }

  // Flags as for open(2). `client` is whom the session counts for. -EAGAIN while what an earlier
  // process with its pid held is being freed.
  int open(unsigned index, int flags, const Client& client, Session** session);
  // The same for this process, under a number of the caller's choice.
  int open(unsigned index, int flags, int32_t pid, Session** session) {
    return open(index, flags, Client{.pid = pid}, session);
  }
  // Frees everything the session holds, and the session.
  int close(Session* session);
  // Closes all sessions and stops all programs, which may reach chips of other nodes. Nobody opens
  // anything any more.
  void stop();

  // Sessions that are open, for operators.
  struct SessionInfo {
    unsigned device = 0;
    int32_t pid = 0;
    bool restricted = false;
    nd_holder who{};
  };
  std::vector<SessionInfo> sessions();
  FaultBoard& faults() { return faults_; }
  unsigned node() const { return wires_.node; }
  // The physical core behind a logical one of a device of this instance.
  uint32_t physical_core(unsigned device, uint32_t core) const;
  // The links of all nodes; chip `device` of a node is number node * device_count() + device.
  chip::Fabric& fabric() { return *wires_.fabric; }

  // The device if it was opened before, else null.
  Device* device_if_probed(unsigned index);
  // True in the process that created the instance.
  bool is_usable() const;
  int refuse_after_fork() const;

  MemoryBudget& budget() { return *wires_.budget; }
  // What of the budget has pages.
  uint64_t resident_bytes();
  HostArena& arena() { return arena_; }
  MemoryFiles& files() { return files_; }
  ClientLog& log() { return log_; }

  // Marks of the cores of all devices; guarded by claims_mutex.
  std::mutex claims_mutex;
  nd_claims claims{};
  // Needs claims_mutex.
  bool any_core_is_marked() const;

  Pod& pod() { return pod_; }

 private:
  Instance(const profiles::Profile& profile, ChipFactory factory);
  int begin(InstanceWires wires);
  unsigned first_node() const { return wires_.node * profile_.chips; }
  int device(unsigned index, Device** device);
  void drop_stray_pages();

  const profiles::Profile& profile_;
  const ChipFactory factory_;
  const unsigned forks_;  // forks of the process that had happened at creation
  IoSpace io_;
  HostArena arena_;
  // Rings, markers and mailboxes of the driver: in a file that no client gets.
  HostArena own_arena_{uint64_t{1} << 32};
  MemoryFiles files_;
  ClientLog log_;
  InstanceWires wires_;
  std::mutex mutex_;  // devices_ and sessions_
  std::vector<std::unique_ptr<Device>> devices_;
  // The same once they are up, for readers without the mutex.
  std::unique_ptr<std::atomic<Device*>[]> running_;
  std::vector<std::unique_ptr<Session>> sessions_;
  StrayPages stray_pages_;
  Pod pod_;
  uint64_t next_session_ = 1;
  FaultBoard faults_{*this};
};

}  // namespace neuron::service

#endif
