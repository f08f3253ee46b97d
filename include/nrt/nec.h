// SPDX-License-Identifier: Apache-2.0
// Collectives seam: what the collectives library asks of the runtime.
//
// Callers: libccom.so.1, which finds these functions in libnrt.so.1. Thread-safe: every function.
// NRT codes where the type says so; otherwise 0 or the value asked for, and -1 on failure. Device
// numbers count the devices of this process; mla_idx counts devices inside an UltraServer node by
// routing.
#ifndef NEC_H
#define NEC_H

#include "nrt/nec_comm.h"
#include "nrt/nec_types.h"
#include "nrt/nrt_status.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// A transfer to another rank, as the network proxy queues it.
typedef struct net_src_addr {
  uint32_t net_op_idx;
  int complete;  // set when done
  dma_addr_t dev_addr;
  void *host_addr;
  void *nccl_mhandle;
  uint32_t size;  // bytes
  net_addr_mark_t mark;
  void *proxy_histogram_tag;
  int dst_rank;
  void *dst_addr;
  void *dst_mhandle;
} net_src_addr_t;

// A transfer from another rank, as the network proxy queues it.
typedef struct net_dest_addr {
  uint32_t net_op_idx;
  int complete;  // set when done
  dma_addr_t dev_addr;
  void *host_addr;
  void *nccl_mhandle;
  uint32_t size;  // bytes
  net_addr_mark_t mark;
  int src_rank;
} net_dest_addr_t;

// How the proxy talks with the device about the transfers of one operation: semaphores to
// increment, and credits.
typedef struct net_ops_info {
  uint16_t sema_shift_offset;
  bool early_send_completion;
  bool early_recv_posting;
  volatile uint32_t *inc_send_handshake;
  volatile uint32_t *inc_send_complete;
  volatile uint32_t *inc_recv_handshake;
  volatile uint32_t *inc_recv_complete;
  uint32_t tx_entry_cnt;
  uint32_t rx_entry_cnt;
  uint32_t net_idx_loop_size;
  uint32_t initial_send_credits;
  uint32_t ending_recv_credits;
  size_t data_type_sz;
  bool is_dynamic_send_recv_sz;
  bool variable_peer;
  bool add_to_histogram;
  void *enc_channel;
} net_ops_info_t;

// Adds val to a semaphore through its mapped increment register.
void nec_inc_semaphore(volatile uint32_t *sem_inc_addr, uint32_t val);

// Sizes and offsets of a variable-size all-to-all, as the device wrote them into dyn_input; and the
// size received, for the device to read. data_type_sz: bytes of an element. Ours: dyn_input holds
// four arrays of rank_n 32-bit words, in elements: sizes to send, their offsets, offsets of what is
// received, sizes received. 0 for a rank or an array that it does not hold.
size_t nec_get_dynamic_send_size_bytes(enc_host_mem_t *dyn_input, size_t data_type_sz, int dst_rank,
                                       int rank_n);
size_t nec_get_dynamic_send_offset_bytes(enc_host_mem_t *dyn_input, size_t data_type_sz,
                                         int dst_rank, int rank_n);
size_t nec_get_dynamic_recv_offset_bytes(enc_host_mem_t *dyn_input, size_t data_type_sz,
                                         int src_rank, int rank_n);
void nec_set_recv_size_bytes(enc_host_mem_t *dyn_input, size_t recv_size_bytes, size_t data_type_sz,
                             int src_rank, int rank_n);

// Devices of this process; at most array_size numbers are written, the count is returned.
int nec_get_device_count(int *available_devices_array, uint32_t array_size);

// PCI place of a device.
int nec_get_device_pci_bdf(int neuron_dev, uint32_t *domain, uint32_t *bus_num, uint8_t *pci_slot,
                           uint8_t *dev_func);

// Physical cores of a virtual core.
NRT_STATUS nec_get_virtual_core_size(uint32_t *virtual_core_size);

// Version of the runtime, for the library to check itself against.
typedef struct nec_version_info {
  uint64_t major;
  uint64_t minor;
  uint64_t patch;
  uint64_t maintenance;
  char git_hash[16];
  uint64_t compatibility_version;  // changes when one side must follow the other
  NEURON_EXTENSION_BEGIN
  uint8_t future_fields[];
  NEURON_EXTENSION_END
} nec_version_info_t;

NRT_STATUS nec_get_version_info(nec_version_info_t *version_info);

// Topology: builds the tables of ports and routing ids from `count` devices, then answers from
// them.
NRT_STATUS nec_build_port_and_rid_map(int local_nec_dev_id, int *mla_indexes, int *host_device_ids,
                                      int count);
bool nec_is_mla_available(int local_nec_dev_id, int mla_idx);
int nec_mla_idx_to_rid(int local_nec_dev_id, int mla_idx);
int nec_rid_to_mla_idx(int local_nec_dev_id, int rid);
int nec_get_peer_mla_idx(int local_nec_dev_id, int mla_idx, int port);

// UltraServer: the node port_distance links away, and whether two devices reach each other.
int nec_get_p2p_pod_peer_node(uint32_t nec_dev_id, int node, uint32_t port_distance,
                              int *peer_node);
NRT_STATUS nec_pod_node_can_access_peer_node(nec_pod_type_t pod_type, uint32_t local_rid,
                                             uint32_t local_node_id, uint32_t remote_rid,
                                             uint32_t remote_node_id, int *can_access_peer);

// ndl_printk.
void nec_ndl_printk(char *str, uint32_t size, uint32_t action);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif  // NEC_H
