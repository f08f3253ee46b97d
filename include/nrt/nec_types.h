// SPDX-License-Identifier: Apache-2.0
// Limits, enumerations and small types of the seam between the runtime and the collectives library.
//
// Both sides are built from the same numbers; nothing here has behaviour. A "device" is a chip, a
// rank is one participating core, a pod is an UltraServer.
#ifndef NEC_TYPES_H
#define NEC_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "uapi/neuron_abi.h"

#define NEC_MAX_CHANNELS 32
#define NEC_MAX_NR_CHANNEL_CHUNKS 32
#define NEC_MAX_FOLD_N 16  // concurrent transfers of one network connector
#define NEC_MAX_COMM_N 12  // replica groups of one model
#define NEC_MAX_NET_BUFFERS (2 * NEC_MAX_COMM_N)
#define NEC_CACHE_LINE_SIZE 128
#define NEC_MAX_STREAM_N 4
#define NEC_HIER_CC_PIPELINE_STAGE_N (3)
#define NCCL_NET_NEURON_MAX_REQUESTS 128

// Values that stand for no, or no ordinary, peer.
#define NEC_NET_CONNECTOR_RANK -1
#define NEC_NET_MLA_DEV -1
#define NEC_POD_MLA_DEV -2
#define NEC_UNKNOWN_RANK -3
#define NEC_UNKNOWN_MLA_DEV -3

// A kangaring visits the cores of a device through one of them.
#define NEC_KANGARING_MAX_NUM_RANKS (256)
#define KANGARING_NUM_SENG_PER_DEV (4)
#define KANGARING_NUM_TPB_PER_DEV (8)
#define KANGARING_MAX_SECONDARIES (3)

#define ENC_MESH_MAX_NUM_EVENTS 64
#define ENC_MAX_OP_TYPES (13)
#define ENC_MAX_MESH_SUBTYPES (20)
#define ENC_MESH_MAX_NUM_DEVICES (128)
#define ENC_PROXY_HISTOGRAM_OUTPUT_PATH_LENGTH_MAX (128)

#define KiB (1024)
#define MiB (1024 * KiB)
#define GiB (1024 * MiB)

// Address as a device sees it.
typedef uint64_t dma_addr_t;

// Ends of a connection.
typedef enum ofi_comm_type {
  NET_SEND_COMM = 0,
  NET_RECV_COMM = 1,
  NET_RECV_LISTEN_COMM = 2,
  LOCAL_RECV_COMM = 3,
  LOCAL_SEND_COMM = 4,
} ofi_comm_type_t;

// Communicators of a hierarchical operation: inside a host, and between hosts.
enum enc_comm_type {
  H_COMM_INTRA_ID = 0,
  H_COMM_INTER_ID = 1,
  H_COMM_MAX_ID = 2,
};

// Kind of UltraServer.
typedef enum nec_pod_type {
  NEC_POD_TYPE_NONE = 0,
  NEC_POD_TYPE_P2P = 1,
  NEC_POD_TYPE_SWITCH = 2,
  NEC_POD_TYPE_INVALID = 3,
} nec_pod_type_t;

// Shape in which a channel moves data.
typedef enum enc_pattern {
  ENC_PATTERN_RING = 0,
  ENC_PATTERN_MESH = 1,
  ENC_PATTERN_INVALID = 2,
} enc_pattern_t;

// How hosts are connected.
typedef enum enc_net_connectivity {
  ENC_CONNECTIVITY_MESH = 0,
  ENC_CONNECTIVITY_RDH = 1,
  ENC_CONNECTIVITY_DEFAULT = 2,
} enc_net_connectivity_t;

// How the devices of a communicator lie in the torus.
typedef enum enc_topology_mode {
  ENC_TOPO_NULL = 0,
  ENC_TOPO_4_DEVS_IN_ROW = 1,
  ENC_TOPO_4_DEVS_IN_COLUMN = 2,
} enc_topology_mode_t;

// Sub-engines of a device: pairs of cores.
enum SEngine {
  S0 = 0,
  S1 = 1,
  S2 = 2,
  S3 = 3,
  SENGS_PER_DIE = 2,
  SENGS_PER_MLA = 4,
};

// Kinds of ring.
typedef enum metaring_type {
  RING = 0,
  KANGARING = 1,  // a ring over primaries that take neighbours along
  SINGLE_CYCLE_RING = 2,
  RDH = 3,  // recursive doubling and halving
  INVALID_METARING = 4,
} metaring_type_t;

// Kinds of mesh.
typedef enum enc_alg_mesh_type {
  ENC_ALG_FULL_MESH = 0,
  ENC_ALG_GROUPED_MESH = 1,
  ENC_ALG_MESH_TRN2 = 2,
  ENC_ALG_MESH_SWITCH = 3,
  ENC_ALG_MESH_INVALID = 4,
} enc_alg_mesh_type_t;

// What an entry of a network queue means.
typedef enum net_addr_mark {
  NET_TRANSFER = 0,
  NET_OP_COMPLETE = 1,
  EXEC_COMPLETE = 2,
} net_addr_mark_t;

#endif  // NEC_TYPES_H
