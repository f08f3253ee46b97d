// SPDX-License-Identifier: Apache-2.0
//
// The state between nrt_init and nrt_close: devices, owned cores, handles.
// Callers: the C interface, through SessionUse, which keeps the session from being closed
// meanwhile. Thread-safe: const functions; handles and maps by themselves. Owns everything of the
// process on its devices; closing frees all of it. Fails: open() with NRT_FAILURE when there is no
// device, or when a core is held; the sentence names the holder.
#ifndef RUNTIME_SESSION_SESSION_H
#define RUNTIME_SESSION_SESSION_H

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "driver/base/deadline.h"
#include "nrt/nrt_types.h"
#include "runtime/device/core.h"
#include "runtime/observe/system_trace.h"
#include "runtime/session/configuration.h"
#include "runtime/session/handle_table.h"
#include "runtime/session/part_slot.h"
#include "runtime/tensor/completion.h"
#include "runtime/tensor/mapping_table.h"
#include "runtime/tensor/storage.h"

namespace neuron::runtime {

// The caller of nrt_init, for operator tools.
struct Caller {
  nrt_framework_type_t framework = NRT_FRAMEWORK_TYPE_NO_FW;
  std::string framework_version;
  std::string abstraction_version;
};

class Session {
 public:
  static Result<std::unique_ptr<Session>> open(const Configuration& configuration,
                                               const Caller& caller);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const Configuration& configuration() const { return configuration_; }
  // Physical cores of each virtual one.
  uint32_t logical_cores() const { return logical_cores_; }
  uint32_t core_count() const { return static_cast<uint32_t>(cores_.size()); }
  // `vnc`: number of a virtual core as callers count them. NRT_INVALID if this process has no such
  // core.
  Result<Core*> core(int64_t vnc) const;
  // The core with the fewest models.
  Core& least_loaded_core() const;
  // The number of a virtual core among all of the host, whichever of them this process has.
  uint32_t number_on_host(const Core& core) const;
  // The number by which callers count the core in whose memory the storage is; 0 for memory of the
  // host alone.
  uint32_t core_of(const Storage& storage) const;
  // An open device by its number on the host; null if this process has no core of it.
  Device* device(int index) const;
  std::vector<Device*> devices() const;

  // Destroyed in reverse: handles (with their memory) before cores before devices.
 private:
  Session(const Configuration& configuration, uint32_t logical_cores)
      : configuration_(configuration), logical_cores_(logical_cores) {}
  Result<void> claim(const std::vector<int>& indexes, uint32_t per_device);
  Result<void> claim_pairs(uint32_t count, uint32_t total);
  Result<void> claim_range(uint32_t count, uint32_t first, uint32_t last, uint32_t total);
  Result<Device*> open_device(int index);
  Result<void> prepare(uint32_t per_device);
  Result<void> open_datastore(Device& device, const Caller& caller);
  bool is_claimed(const Device& device, uint32_t core, uint32_t per_device);
  std::string holders() const;

  Configuration configuration_;
  const uint32_t logical_cores_;
  uint32_t per_device_ = 0;  // physical cores
  std::vector<std::unique_ptr<Device>> devices_;
  // Bit n stands for core n. Counted, as the driver does, from the first device that this process
  // sees. (A container may see only /dev/neuron4 and later.)
  std::vector<uint64_t> claimed_;
  int first_device_ = 0;
  struct Datastore {
    Device* device;
    void* data;
    size_t size;
  };
  std::vector<Datastore> datastores_;
  std::vector<std::unique_ptr<Core>> cores_;

 public:
  CompletionHub completion_hub;
  SystemTrace system_trace;
  std::atomic<uint32_t> core_dumps{0};  // that were begun
  MappingTable mappings;
  // Increases whenever a tensor that a set refers to is freed or changes its memory. The thread
  // that changes a tensor adds with release; the executor loads with acquire and then matches the
  // sets again.
  std::atomic<uint64_t> tensor_epoch{0};
  // Parts of the folders above, destroyed in this order: asynchronous queues before everything
  // else; what the collectives folders remember after the handles, before the cores.
  PartSlot async;
  PartSlot send_receive;
  PartSlot debug;
  PartSlot inspection;
  PartSlot continuous;
  PartSlot profiles;
  HandleTable handles;
  PartSlot host_collectives;
  PartSlot collectives;
};

// Facts about the host that are known before nrt_init.
struct HostCores {
  uint32_t devices = 0;
  uint32_t per_device = 0;
  uint32_t architecture = 0;
  uint32_t revision = 0;
  uint32_t logical = 1;  // physical cores of a virtual one
  // Virtual cores.
  uint32_t total() const { return devices * per_device / logical; }
};
Result<HostCores> host_cores();
// The cores that a session with this environment has, or would have.
Result<uint32_t> visible_core_count(const HostCores& host, const CoreSelection& selection);

}  // namespace neuron::runtime

#endif
