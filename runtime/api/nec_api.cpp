// SPDX-License-Identifier: Apache-2.0
//
// nec_*: what a collectives library asks of the runtime about devices, routing and versions.
//
// Thread-safe: the tables of routing have a lock. Fails as nec.h says: a status, or -1.
#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>
#include <vector>

#include "ndl/ndl.h"
#include "nrt/nec.h"
#include "runtime/api/guard.h"
#include "runtime/observe/version.h"

using namespace neuron::runtime;       // NOLINT: the C interface names no namespace
using namespace neuron::runtime::api;  // NOLINT

namespace {

// This number changes when libccom.so.1 and libnrt.so.1 must be replaced together.
constexpr uint64_t kCompatibility = 1;

// The words of a variable-size all-to-all, in elements, for each rank: size and offset of the data
// sent to it, offset and size of the data received from it.
enum class DynamicPart : unsigned { kSendSize, kSendOffset, kReceiveOffset, kReceiveSize };

volatile uint32_t* dynamic_word(enc_host_mem_t* memory, DynamicPart part, int rank, int ranks) {
  if (memory == nullptr || memory->va == nullptr || rank < 0 || rank >= ranks) return nullptr;
  const size_t index =
      static_cast<size_t>(part) * static_cast<size_t>(ranks) + static_cast<size_t>(rank);
  if ((index + 1) * sizeof(uint32_t) > memory->size) return nullptr;
  return static_cast<volatile uint32_t*>(memory->va) + index;
}

size_t dynamic_bytes(enc_host_mem_t* memory, DynamicPart part, size_t element, int rank,
                     int ranks) {
  const volatile uint32_t* word = dynamic_word(memory, part, rank, ranks);
  return word == nullptr ? 0 : size_t{*word} * element;
}

// Devices by their place in an UltraServer node, as given to nec_build_port_and_rid_map.
class RoutingTable {
 public:
  static RoutingTable& instance() {
    static RoutingTable table;
    return table;
  }

  Result<void> build(const int* places, const int* devices, int count) {
    std::array<uint32_t, 256> ids{};
    uint32_t known = 0;
    if (const int result = ndl_get_host_device_id_to_rid_map(&known, ids.data()); result != 0) {
      return fail(NRT_FAILURE, "the driver does not tell routing ids (error {})", -result);
    }
    std::vector<Entry> entries;
    for (int i = 0; i < count; ++i) {
      if (devices[i] < 0 || static_cast<uint32_t>(devices[i]) >= known) {
        return fail(NRT_INVALID, "host_device_ids[{}] is {}; this host has devices 0 to {}", i,
                    devices[i], known - 1);
      }
      entries.push_back({places[i], devices[i], static_cast<int>(ids[devices[i]])});
    }
    const std::lock_guard lock(mutex_);
    entries_ = std::move(entries);
    return {};
  }

  struct Entry {
    int place = 0;
    int device = 0;
    int routing_id = 0;
  };
  template <class Wanted>
  Entry find(Wanted wanted) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(entries_.begin(), entries_.end(), wanted);
    return found == entries_.end() ? Entry{-1, -1, -1} : *found;
  }

 private:
  std::mutex mutex_;  // entries_
  std::vector<Entry> entries_;
};

}  // namespace

NRT_EXPORT void nec_inc_semaphore(volatile uint32_t* sem_inc_addr, uint32_t val) {
  // A store to the increment alias adds.
  if (sem_inc_addr != nullptr) *sem_inc_addr = val;
}

NRT_EXPORT size_t nec_get_dynamic_send_size_bytes(enc_host_mem_t* dyn_input, size_t data_type_sz,
                                                  int dst_rank, int rank_n) {
  return dynamic_bytes(dyn_input, DynamicPart::kSendSize, data_type_sz, dst_rank, rank_n);
}
NRT_EXPORT size_t nec_get_dynamic_send_offset_bytes(enc_host_mem_t* dyn_input, size_t data_type_sz,
                                                    int dst_rank, int rank_n) {
  return dynamic_bytes(dyn_input, DynamicPart::kSendOffset, data_type_sz, dst_rank, rank_n);
}
NRT_EXPORT size_t nec_get_dynamic_recv_offset_bytes(enc_host_mem_t* dyn_input, size_t data_type_sz,
                                                    int src_rank, int rank_n) {
  return dynamic_bytes(dyn_input, DynamicPart::kReceiveOffset, data_type_sz, src_rank, rank_n);
}
NRT_EXPORT void nec_set_recv_size_bytes(enc_host_mem_t* dyn_input, size_t recv_size_bytes,
                                        size_t data_type_sz, int src_rank, int rank_n) {
  volatile uint32_t* word = dynamic_word(dyn_input, DynamicPart::kReceiveSize, src_rank, rank_n);
  if (word != nullptr && data_type_sz != 0) {
    *word = static_cast<uint32_t>(recv_size_bytes / data_type_sz);
  }
}

NRT_EXPORT int nec_get_device_count(int* available_devices_array, uint32_t array_size) {
  int count = -1;
  guarded("nec_get_device_count", [&](Session& session) -> Result<void> {
    count = 0;
    for (const Device* device : session.devices()) {
      if (available_devices_array != nullptr && static_cast<uint32_t>(count) < array_size) {
        available_devices_array[count] = device->index();
      }
      ++count;
    }
    return {};
  });
  return count;
}

NRT_EXPORT int nec_get_device_pci_bdf(int neuron_dev, uint32_t* domain, uint32_t* bus_num,
                                      uint8_t* pci_slot, uint8_t* dev_func) {
  return ndl_get_device_bdf_ext(neuron_dev, domain, bus_num, pci_slot, dev_func) == 0 ? 0 : -1;
}

NRT_EXPORT NRT_STATUS nec_get_virtual_core_size(uint32_t* virtual_core_size) {
  return unguarded_state("nec_get_virtual_core_size", [&]() -> Result<void> {
    if (virtual_core_size == nullptr) return null_argument("virtual_core_size");
    NEURON_TRY(host, host_cores());
    *virtual_core_size = host.logical;
    return {};
  });
}

NRT_EXPORT NRT_STATUS nec_get_version_info(nec_version_info_t* version_info) {
  return unguarded_state("nec_get_version_info", [&]() -> Result<void> {
    if (version_info == nullptr) return null_argument("version_info");
    version_info->major = kVersionMajor;
    version_info->minor = kVersionMinor;
    version_info->patch = kVersionPatch;
    version_info->maintenance = kVersionMaintenance;
    std::snprintf(version_info->git_hash, sizeof(version_info->git_hash), "open");
    version_info->compatibility_version = kCompatibility;
    return {};
  });
}

NRT_EXPORT NRT_STATUS nec_build_port_and_rid_map(int local_nec_dev_id, int* mla_indexes,
                                                 int* host_device_ids, int count) {
  (void)local_nec_dev_id;  // the tables are the same for every device of the process
  return unguarded_state("nec_build_port_and_rid_map", [&]() -> Result<void> {
    if (mla_indexes == nullptr) return null_argument("mla_indexes");
    if (host_device_ids == nullptr) return null_argument("host_device_ids");
    return RoutingTable::instance().build(mla_indexes, host_device_ids, count);
  });
}

NRT_EXPORT bool nec_is_mla_available(int local_nec_dev_id, int mla_idx) {
  return nec_mla_idx_to_rid(local_nec_dev_id, mla_idx) >= 0;
}
NRT_EXPORT int nec_mla_idx_to_rid(int local_nec_dev_id, int mla_idx) {
  (void)local_nec_dev_id;
  return RoutingTable::instance()
      .find([&](const RoutingTable::Entry& e) { return e.place == mla_idx; })
      .routing_id;
}
NRT_EXPORT int nec_rid_to_mla_idx(int local_nec_dev_id, int rid) {
  (void)local_nec_dev_id;
  return RoutingTable::instance()
      .find([&](const RoutingTable::Entry& e) { return e.routing_id == rid; })
      .place;
}

NRT_EXPORT int nec_get_peer_mla_idx(int local_nec_dev_id, int mla_idx, int port) {
  (void)local_nec_dev_id;
  RoutingTable& table = RoutingTable::instance();
  const int device =
      table.find([&](const RoutingTable::Entry& e) { return e.place == mla_idx; }).device;
  int peer = -1;
  guarded("nec_get_peer_mla_idx", [&](Session& session) -> Result<void> {
    const Device* open = session.device(device);
    if (open == nullptr || port < 0 || port >= open->ndl()->connected_device_count) {
      return fail(NRT_INVALID, "device place {} has no port {} that this process knows", mla_idx,
                  port);
    }
    const int other = open->ndl()->connected_devices[port];
    peer = table.find([&](const RoutingTable::Entry& e) { return e.device == other; }).place;
    return {};
  });
  return peer;
}

NRT_EXPORT int nec_get_p2p_pod_peer_node(uint32_t nec_dev_id, int node, uint32_t port_distance,
                                         int* peer_node) {
  (void)nec_dev_id;
  uint32_t type = 0, size = 0;
  if (peer_node == nullptr || ndl_pod_info(&type, &size) != 0) return -1;
  if (type != NEC_POD_TYPE_P2P || size == 0 || node < 0 || static_cast<uint32_t>(node) >= size) {
    return -1;
  }
  // The nodes of such an UltraServer form a ring.
  *peer_node = static_cast<int>((static_cast<uint32_t>(node) + port_distance) % size);
  return 0;
}

NRT_EXPORT NRT_STATUS nec_pod_node_can_access_peer_node(nec_pod_type_t pod_type, uint32_t local_rid,
                                                        uint32_t local_node_id, uint32_t remote_rid,
                                                        uint32_t remote_node_id,
                                                        int* can_access_peer) {
  return unguarded_state("nec_pod_node_can_access_peer_node", [&]() -> Result<void> {
    if (can_access_peer == nullptr) return null_argument("can_access_peer");
    if (local_node_id == remote_node_id) {
      *can_access_peer = 1;
    } else if (pod_type == NEC_POD_TYPE_SWITCH) {
      *can_access_peer = 1;
    } else {
      // Between nodes, links join chips of the same place.
      *can_access_peer = pod_type == NEC_POD_TYPE_P2P && local_rid == remote_rid ? 1 : 0;
    }
    return {};
  });
}

NRT_EXPORT void nec_ndl_printk(char* str, uint32_t size, uint32_t action) {
  (void)ndl_printk(str, size, action);
}
