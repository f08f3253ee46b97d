// SPDX-License-Identifier: Apache-2.0
// Objects of a datastore: process information and loaded models.
//
// nrt/nds/datastore_layout.h says where they lie: one slot for the process information, one for its
// long form, the rest for models.
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "driver/ndl/datastore.h"
#include "driver/ndl/guard.h"
#include "nrt/nds/datastore_layout.h"

using neuron::ndl::drop_object;
using neuron::ndl::fail;
using neuron::ndl::find_instance;
using neuron::ndl::find_object;
using neuron::ndl::guarded;
using neuron::ndl::HeldInstance;
using neuron::ndl::keep_object;

namespace {

nds_slot_t* slot_of(const nds_instance& instance, int type, unsigned slot) {
  const size_t offset = type == OBJECT_TYPE_PROCESS_INFO ? NDS_SLOT_PROCESS
                        : type == OBJECT_TYPE_PROCESS_INFO_EXT
                            ? NDS_SLOT_PROCESS_EXT
                            : NDS_SLOT_MODELS + slot * NDS_SLOT_MODEL_STRIDE;
  return reinterpret_cast<nds_slot_t*>(instance.base + offset);
}

unsigned slots_of(int type) {
  return type == OBJECT_TYPE_MODEL_NODE_INFO ? NDS_SLOT_MODEL_COUNT : 1;
}

// The bytes of an object as they lie in its slot.
size_t bytes_of(const nds_object& object, nds_model_bytes_t* model, const void** bytes) {
  switch (object.type) {
    case OBJECT_TYPE_PROCESS_INFO:
      *bytes = &object.content.process;
      return sizeof(object.content.process);
    case OBJECT_TYPE_PROCESS_INFO_EXT:
      *bytes = &object.content.process_ext;
      return sizeof(object.content.process_ext);
    default:
      *model = {object.content.model.info, {}, object.content.model.usage};
      *bytes = model;
      return sizeof(*model);
  }
}

// Copies a published slot into an object; false if it is not published or the owner kept writing.
bool read_slot(const nds_instance& instance, unsigned slot, nds_object* object) {
  constexpr int kTries = 100;
  const nds_slot_t* from = slot_of(instance, object->type, slot);
  nds_model_bytes_t model = {};
  const void* unused = nullptr;
  const size_t size = bytes_of(*object, &model, &unused);
  union {
    nds_model_bytes_t model;
    nds_process_info_t process;
    nds_process_info_ext_t process_ext;
  } copy;
  for (int i = 0; i < kTries; ++i) {
    // Acquire: pairs with the release store of an even number in nds_obj_commit.
    const uint32_t before = __atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&from->state, __ATOMIC_RELAXED) != NDS_SLOT_PUBLISHED) return false;
    if (before % 2 != 0) continue;
    std::memcpy(&copy, from + 1, size);
    // The copy must not be moved behind the second look at the number.
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&from->sequence, __ATOMIC_RELAXED) != before) continue;
    object->slot = slot;
    switch (object->type) {
      case OBJECT_TYPE_PROCESS_INFO:
        object->content.process = copy.process;
        break;
      case OBJECT_TYPE_PROCESS_INFO_EXT:
        object->content.process_ext = copy.process_ext;
        break;
      default:
        object->content.model.info = copy.model.info;
        object->content.model.usage = copy.model.usage;
    }
    return true;
  }
  return false;
}

std::unique_ptr<nds_object> new_object(nds_instance* instance, int type, unsigned slot) {
  auto object = std::make_unique<nds_object>();
  object->instance = instance;
  object->type = type;
  object->slot = slot;
  return object;
}

nds_obj_handle_t read_single(nds_instance_t* inst, int type, const char* function) {
  nds_obj_handle_t handle = nullptr;
  guarded(function, [&] {
    const HeldInstance held = find_instance(inst, false, function);
    if (held.instance == nullptr) return held.error;
    auto object = new_object(held.instance, type, 0);
    if (!read_slot(*held.instance, 0, object.get())) {
      return fail(-ENOENT, "%s: the process has published none", function);
    }
    handle = keep_object(held.instance, std::move(object));
    return 0;
  });
  return handle;
}

nds_object* content(nds_obj_handle_t handle, int type, const char* function) {
  const HeldInstance held = find_object(handle, false, function);
  auto* object = static_cast<nds_object*>(handle);
  if (held.instance == nullptr) return nullptr;
  if (object->type != type) {
    fail(-EINVAL, "%s: the object is of kind %d, not %d", function, object->type, type);
    return nullptr;
  }
  return object;
}

}  // namespace

nds_obj_handle_t nds_obj_new(nds_instance_t* inst, int type) {
  nds_obj_handle_t handle = nullptr;
  guarded("nds_obj_new", [&] {
    const HeldInstance held = find_instance(inst, true, "nds_obj_new");
    if (held.instance == nullptr) return held.error;
    if (type < OBJECT_TYPE_MODEL_NODE_INFO || type > OBJECT_TYPE_PROCESS_INFO_EXT) {
      return fail(-EINVAL, "nds_obj_new: there is no kind %d of object", type);
    }
    for (unsigned slot = 0; slot < slots_of(type); ++slot) {
      nds_slot_t* to = slot_of(*held.instance, type, slot);
      if (to->state != NDS_SLOT_FREE) continue;
      handle = keep_object(held.instance, new_object(held.instance, type, slot));
      to->state = NDS_SLOT_TAKEN;
      return 0;
    }
    return fail(-ENOSPC, "nds_obj_new: all %u objects of kind %d are in use", slots_of(type), type);
  });
  return handle;
}

int nds_obj_commit(nds_obj_handle_t obj) {
  return guarded("nds_obj_commit", [&] {
    const HeldInstance held = find_object(obj, true, "nds_obj_commit");
    if (held.instance == nullptr) return held.error;
    const auto& object = *static_cast<const nds_object*>(obj);
    nds_slot_t* to = slot_of(*held.instance, object.type, object.slot);
    nds_model_bytes_t model = {};
    const void* bytes = nullptr;
    const size_t size = bytes_of(object, &model, &bytes);
    // The number is odd while the bytes change. The fence keeps their stores after the odd number;
    // the release store of the even number keeps them before it. Pairs with read_slot.
    __atomic_store_n(&to->sequence, to->sequence + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    std::memcpy(to + 1, bytes, size);
    __atomic_store_n(&to->state, uint32_t{NDS_SLOT_PUBLISHED}, __ATOMIC_RELAXED);
    __atomic_store_n(&to->sequence, to->sequence + 1, __ATOMIC_RELEASE);
    return 0;
  });
}

int nds_obj_delete(nds_obj_handle_t obj) {
  return guarded("nds_obj_delete", [&] {
    const HeldInstance held = find_object(obj, false, "nds_obj_delete");
    if (held.instance == nullptr) return held.error;
    const auto* object = static_cast<const nds_object*>(obj);
    if (held.instance->pid == 0) {
      nds_slot_t* slot = slot_of(*held.instance, object->type, object->slot);
      // A reader in the middle of a copy sees that the number has changed.
      __atomic_store_n(&slot->state, uint32_t{NDS_SLOT_FREE}, __ATOMIC_RELAXED);
      __atomic_store_n(&slot->sequence, slot->sequence + 2, __ATOMIC_RELEASE);
    }
    drop_object(held.instance, object);
    return 0;
  });
}

nds_model_node_info_t* nds_obj_handle_to_model_node_info(nds_obj_handle_t obj) {
  nds_object* object =
      content(obj, OBJECT_TYPE_MODEL_NODE_INFO, "nds_obj_handle_to_model_node_info");
  return object == nullptr ? nullptr : &object->content.model.info;
}

nds_model_node_mem_usage_info_t* nds_obj_handle_to_model_node_mem_usage(nds_obj_handle_t obj) {
  nds_object* object =
      content(obj, OBJECT_TYPE_MODEL_NODE_INFO, "nds_obj_handle_to_model_node_mem_usage");
  return object == nullptr ? nullptr : &object->content.model.usage;
}

nds_process_info_t* nds_obj_handle_to_process_info(nds_obj_handle_t obj) {
  nds_object* object = content(obj, OBJECT_TYPE_PROCESS_INFO, "nds_obj_handle_to_process_info");
  return object == nullptr ? nullptr : &object->content.process;
}

nds_process_info_ext_t* nds_obj_handle_to_process_info_ext(nds_obj_handle_t obj) {
  nds_object* object =
      content(obj, OBJECT_TYPE_PROCESS_INFO_EXT, "nds_obj_handle_to_process_info_ext");
  return object == nullptr ? nullptr : &object->content.process_ext;
}

int nds_read_all_model_nodes(nds_instance_t* inst, nds_obj_handle_t** models, size_t* count) {
  return guarded("nds_read_all_model_nodes", [&] {
    if (models == nullptr || count == nullptr) {
      return fail(-EINVAL, "nds_read_all_model_nodes: models or count is null");
    }
    const HeldInstance held = find_instance(inst, false, "nds_read_all_model_nodes");
    if (held.instance == nullptr) return held.error;
    auto* handles =
        static_cast<nds_obj_handle_t*>(std::calloc(NDS_SLOT_MODEL_COUNT, sizeof(nds_obj_handle_t)));
    if (handles == nullptr) return fail(-ENOMEM, "nds_read_all_model_nodes: out of memory");
    size_t found = 0;
    try {
      for (unsigned slot = 0; slot < NDS_SLOT_MODEL_COUNT; ++slot) {
        auto object = new_object(held.instance, OBJECT_TYPE_MODEL_NODE_INFO, slot);
        if (!read_slot(*held.instance, slot, object.get())) continue;
        handles[found] = keep_object(held.instance, std::move(object));
        ++found;
      }
    } catch (...) {
      std::free(handles);
      throw;
    }
    *models = handles;
    *count = found;
    return 0;
  });
}

nds_obj_handle_t nds_read_process_info(nds_instance_t* inst) {
  return read_single(inst, OBJECT_TYPE_PROCESS_INFO, "nds_read_process_info");
}

nds_obj_handle_t nds_read_process_info_ext(nds_instance_t* inst) {
  return read_single(inst, OBJECT_TYPE_PROCESS_INFO_EXT, "nds_read_process_info_ext");
}
