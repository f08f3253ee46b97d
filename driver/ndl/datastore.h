// SPDX-License-Identifier: Apache-2.0
// A process's datastore on one device: what nds_instance_t and nds_obj_handle_t stand for.
//
// Callers: nds_* functions. Thread-safe: counters (atomic words), the list of instances and the
// lists of their objects; one object, or one instance's slots, are used by one thread at a time.
// Owns: the mapping, and private copies of objects. The layout of objects is our own
// (nrt/nds/datastore_layout.h), as no public header has one.
#ifndef DRIVER_NDL_DATASTORE_H
#define DRIVER_NDL_DATASTORE_H

#include <cstdint>
#include <memory>
#include <vector>

#include "driver/ndl/device_table.h"
#include "nrt/nds/neuron_ds.h"

// Contents of an object in this process; published by copying into its slot.
struct nds_object {
  struct nds_instance* instance = nullptr;
  int type = 0;
  unsigned slot = 0;
  union {
    struct {
      nds_model_node_info_t info;
      nds_model_node_mem_usage_info_t usage;
    } model;
    nds_process_info_t process;
    nds_process_info_ext_t process_ext;
  } content = {};
};

struct nds_instance {
  ndl_device_t* device = nullptr;
  std::weak_ptr<neuron::ndl::OpenDevice> open;
  int32_t pid = 0;  // 0: this process, the owner
  uint8_t* base = nullptr;
  size_t size = 0;
  unsigned fork_generation = 0;
  std::vector<std::unique_ptr<nds_object>> objects;  // keep_object, drop_object
};

namespace neuron::ndl {

// An open, usable instance; it keeps its device alive. Otherwise null, with the sentence recorded.
// `to_write`: also -EPERM for a datastore of another process.
struct HeldInstance {
  nds_instance* instance = nullptr;
  DevicePointer open;
  int error = 0;  // -errno
};
HeldInstance find_instance(const nds_instance* instance, bool to_write, const char* function);
// The instance of an object; null for an invalid handle.
HeldInstance find_object(nds_obj_handle_t handle, bool to_write, const char* function);

// Other threads look through the objects of all instances (find_object), so the list changes only
// here, under the lock. Returns the handle.
nds_object* keep_object(nds_instance* instance, std::unique_ptr<nds_object> object);
void drop_object(nds_instance* instance, const nds_object* object);

// Called around fork(), so that the child finds the list's lock free.
void lock_datastores_for_fork();
void unlock_datastores_after_fork(bool child);

}  // namespace neuron::ndl

#endif
