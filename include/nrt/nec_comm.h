// SPDX-License-Identifier: Apache-2.0
// Communicators: who takes part, over which channels, with which algorithms prepared.
//
// Filled by the collectives library, read by the runtime that programs the device from them.
// Pointers to structs that are only named here (encd_*, bp_*, bananaphone) belong to one side and
// are opaque to the other. Ownership: the library owns what hangs on a communicator and frees it
// with it.
#ifndef NEC_COMM_H
#define NEC_COMM_H

#include <pthread.h>
#include <time.h>

#include "nrt/nec_mesh_event.h"
#include "nrt/nec_types.h"

struct bananaphone;
struct bp_barrier;
struct bp_handle;
struct enc_alg_mesh;
struct enc_channel_context;
struct enc_comm;
struct enc_nccl_comm_node;
struct encd_alg_hier;
struct encd_alg_mesh;
struct encd_alg_mesh_subtype;
struct encd_alg_metaring;
struct encd_comm;
struct encd_dma_channel;

// A counter shared with the device, alone on its cache line pair.
struct enc_net_host_memory_index {
  NEURON_EXTENSION_BEGIN
  union {
    volatile uint32_t index;
    char pad[NEC_CACHE_LINE_SIZE];
  };
  NEURON_EXTENSION_END
};

// Counters of a network connector: receive side or send side.
struct enc_net_host_memory {
  NEURON_EXTENSION_BEGIN
  union {
    struct {
      struct enc_net_host_memory_index post_recv[NEC_MAX_FOLD_N];
    } recv;
    struct {
      struct enc_net_host_memory_index post_send[NEC_MAX_FOLD_N];
    } send;
  };
  NEURON_EXTENSION_END
};

// Host memory that the device reaches.
typedef struct enc_host_mem {
  void *mem_handle;
  void *va;
  dma_addr_t pa;  // as the device sees it
  size_t size;
} enc_host_mem_t;

// The same, counted.
typedef struct enc_host_mem_shared {
  enc_host_mem_t mem;
  int refcnt;
} enc_host_mem_shared_t;

// One direction of a connection to another host.
struct enc_net_connector {
  int fold_n;  // transfers in flight
  enc_host_mem_t net_host_mem;
  enc_host_mem_shared_t *dynamic_input_host_mem;
  void *devmem_res;
  void *nccl_mhandle;
  void *inc_recv_sem_nccl_mhandle;
  uint32_t *inc_recv_sem_values_buffer;
  void *inc_recv_sem_values_buffer_mhandle;
  void *nccl_connector;
};

// One path of data: what is received from where and sent to where.
struct enc_channel {
  int id;
  enc_pattern_t pattern;
  struct enc_net_connector *net_recv;
  struct enc_net_connector *net_send;
  void *devmem_res;
  void *two_step_pod_mesh_devmem_res;
  void *devmem_gw_buf_res;
  void *nccl_mhandle;
  dma_addr_t gw_recv_buffer;
  dma_addr_t gw_send_buffer;
  struct enc_channel_context *ch_ctx;
  struct encd_dma_channel *drv_channel;
};

// Where a rank runs.
struct enc_peer_info {
  int neuron_dev;
  int rid;        // routing id
  int tpb_index;  // core of the device
  int pod_node_id;
};

// A communicator as one rank sees it.
struct enc_comm_info {
  int neuron_dev;
  int rank;
  int rank_n;
  int local_rank_n;
  int local_rack_rank_n;
  int node;
  int node_n;
  enc_topology_mode_t enc_topo_mode;
  bool enable_pod;
  bool use_net;
  int pod;
  int pod_n;
  int pod_node;
  int pod_node_n;
  struct enc_peer_info *peers;  // rank_n of them
};

// A ring; user_ranks lists the ranks in its order.
struct enc_ring {
  int prev;
  int next;
  int *user_ranks;
  bool duplicate;
};

// A kangaring as one rank sees it.
struct enc_kangaring {
  int vnc;
  int logical_path[256];
  int prev;
  int next;
  int port;
  int peer_rmtv;
  int peer_rmtv2;
  int peer_local;
  int next_peer_rmtv;
  bool is_primary;
  bool is_next_pcie;
  bool duplicate;
  bool pattern2;
};

// Ring algorithms of a communicator.
struct enc_alg_metaring {
  int channel_n;
  struct enc_channel channels[32];
  struct enc_ring ring_ranks[32];
  struct enc_kangaring kangaring_ranks[32];
  metaring_type_t type;
  bool one_rank_per_device;
  bool is_hybrid_ring;
  bool tokens_exchanged;
  bool deadlock_free_rank_list;
  struct enc_comm *comm;
  struct encd_alg_metaring *drv_alg;
  bool skip_send;
  bool skip_recv;
};

// One variant of a mesh, with the sizes it serves per operation type.
struct enc_alg_mesh_subtype {
  struct enc_mesh_event events[64];
  int num_events;
  struct encd_alg_mesh_subtype *drv_mesh;
  struct enc_alg_mesh *mesh;
  size_t op_max_limit[13];  // bytes, by operation type
  size_t op_min_limit[13];
  size_t op_max_limit_sbuf[13];
  size_t op_min_limit_sbuf[13];
  bool no_inplace_support;
  bool is_use_chnl_buffer;
  bool is_rdh;
  bool is_single_step_mesh;
  bool is_two_step_pod_mesh;
  bool is_latency_opt;
  bool is_bw_opt;
  bool is_rmv_dst_routing;
  uint32_t alltoall_iteration;
};

// Mesh algorithms of a communicator.
struct enc_alg_mesh {
  enc_alg_mesh_type_t mesh_type;
  NEURON_EXTENSION_BEGIN
  union {
    struct {
      uint32_t devid_to_rankid[ENC_MESH_MAX_NUM_DEVICES];
      bool is_multi_chip;
    } trn2;
    struct {
      int num_non_net_node_local_groups;
    } trn1;
    struct {
      bool root_rank;
      int num_intra_group_roots;
      int local_root_ids[ENC_MESH_MAX_NUM_DEVICES];
      int global_root_ids[ENC_MESH_MAX_NUM_DEVICES];
    } inf2;
  };
  NEURON_EXTENSION_END
  int group_id;
  int num_groups;
  struct enc_channel channel;
  struct enc_alg_mesh_subtype mesh_subtype[20];
  size_t max_chbuf_space_per_group;
  size_t max_chbuf_space_per_seng;
  size_t max_chbuf_space_per_rank;
  bool double_buffer;
  bool build_rdh;
  bool rdh_double_buffer;
  void *rdh_devmem_res;
  bool use_2dev_proxy;
  bool tokens_exchanged;
  bool use_net;
  struct enc_nccl_comm_node *nccl_comm_node;
  struct enc_comm_info *ci;
  struct enc_comm *comm;
  struct encd_alg_mesh *drv_alg;
  enc_host_mem_t alltoallv_host_input;
};

// Hierarchical algorithms: inside a host, between hosts, and both pipelined.
struct enc_alg_hier {
  struct {
    struct enc_nccl_comm_node *nccl_comm_node;
    struct enc_comm_info ci;
    struct enc_alg_metaring ring;
    struct enc_alg_metaring kangaring;
    struct enc_alg_mesh mesh;
  } intra;
  struct {
    struct enc_nccl_comm_node *nccl_comm_node;
    struct enc_comm_info ci;
    struct enc_alg_metaring ring;
    struct enc_alg_metaring rdh;
    struct enc_alg_mesh mesh;
  } inter;
  struct {
    struct {
      struct enc_nccl_comm_node *nccl_comm_node;
      struct enc_comm_info ci;
      struct enc_alg_metaring ring;
    } stage[NEC_HIER_CC_PIPELINE_STAGE_N];
  } pipeline;
  void *devmem_res;
  struct enc_comm *comm;
  struct encd_alg_hier *drv_alg;
};

// What the collectives library tells about a communicator.
typedef struct nccl_comm_info {
  uint64_t cluster_id;
  time_t epoch;
  int neuron_dev;
  int rank;
  int rank_n;
  int local_rank_n;
  int local_rack_rank_n;
  int node;
  int node_n;
  bool enable_pod;
  bool use_net;
  int pod;
  int pod_n;
  int pod_node;
  int pod_node_n;
  struct enc_peer_info *peers;
  int channel_n;
  struct enc_ring rings[32];  // channel_n of them
  int kangaring_channel_n;
  int *kangaring_paths[32];  // kangaring_channel_n of them
  int mla_cycle_n;
  int *mla_cycles[32];  // mla_cycle_n of them
} nccl_comm_info_t;

// A communicator of the collectives library with its key in the cache.
typedef struct enc_nccl_comm_node {
  void *nccl_comm;
  char *key;
  size_t key_sz;
  bool disable_graph;
  bool global_nccl_comm_node;
  int refcnt;
  uint32_t stream_id;
  uint32_t context_id;
  uint32_t num_local_participants;
  uint32_t num_local_leaders;
  uint32_t my_local_leader;
  uint32_t *local_participants;
  uint32_t *local_leaders;
  struct bp_barrier *local_barrier;
  bool intra_pod_interface;
} enc_nccl_comm_node_t;

// Latency histogram of the network proxy.
typedef struct enc_proxy_histogram_config {
  bool enable;
  size_t bucket_usecs;
  size_t num_buckets;
  size_t per_neff_warmup;
  size_t warmup;
  char output_path[128];
} enc_proxy_histogram_config_t;

// The device that a rank runs on.
typedef struct enc_neuron_device_info {
  int nec_dev_id;
  int mla_idx;
  int tpb_idx;
  int host_device_id;
  int routing_id;
  uint64_t pod_id;
  nec_pod_type_t pod_type;
  uint32_t pod_node_id;
  uint32_t virtual_server_id;
  enc_proxy_histogram_config_t histogram_config;
} enc_neuron_device_info_t;

// A communicator with all its algorithms.
struct enc_comm {
  struct enc_nccl_comm_node *nccl_comm_node;
  struct enc_comm_info ci;
  int id;
  int stream_id;
  struct enc_alg_metaring ring;
  struct enc_alg_metaring kangaring;
  struct enc_alg_metaring rdh;
  struct enc_alg_hier hier;
  struct enc_alg_mesh mesh;
  int net_conn_count;
  void *net_connector_devmem_res[24];
  int nr_channel_chunks;
  size_t chunk_size;
  struct encd_comm *drv_comm;
  char topology[1024];
};

// The communicator of all ranks, from which the others are made.
struct enc_glb_comm {
  uint32_t g_device_id;
  uint32_t g_device_cnt;
  uint32_t vtpb_idx;
  int nec_dev_id;
  int mla_idx;
  int host_device_id;
  int routing_id;
  uint32_t virtual_server_id;
  nec_pod_type_t pod_type;
  uint32_t pod_node_id;
  uint32_t pod_sz;
  uint64_t pod_id;
  const char *root_comm_id;
  bool check_sigs;
  uint32_t *rank_nodes;
  uint32_t *local_ranks;
  enc_nccl_comm_node_t nccl_comm_node;
  struct bananaphone *local_rings;
  struct bp_handle *local_peer_handles;
  uint32_t *inc_recv_sem_values_buffer;
  size_t inc_recv_sem_values_buffer_size;
  struct enc_comm comm;
  void *inter_rdh_devmem_res[4];
  void *intra_rdh_devmem_res[4];
  void *mesh_devmem_res_per_rg[96];
  void *rdh_devmem_res_per_rg[48];
  void *gateway_devmem_res[4][32];
  pthread_mutex_t gcomm_setup_mtx;
  void *proxy_queue;
  void *device_barrier_table;
};

#endif  // NEC_COMM_H
