// SPDX-License-Identifier: Apache-2.0
// Steps of mesh, all-to-all and recursive-doubling algorithms, by the event that ends them.
//
// The numbers overlap on purpose: each family continues after the common events, and the families
// have their own START and TYPE bounds.
#ifndef NEC_MESH_EVENT_H
#define NEC_MESH_EVENT_H

#include "nrt/nec_types.h"

// Event types.
typedef enum enc_mesh_event_type {
  EVT_SYNC = 0,
  EVT_GLOBAL_HNDSHK = 1,
  EVT_LOCAL_HNDSHK = 2,
  EVT_INTER_GRP_BRDCST = 3,
  EVT_FUNCTION_BARRIER_FIRST_COLL = 4,
  EVT_FUNCTION_BARRIER_LAST_COLL = 5,
  EVT_REDUCE_LOCAL_HNDSHK = 6,
  EVT_INTRA_GRP_BRDCST = 7,
  ENC_COMMON_NUM_EVENT_TYPE = 8,
  ENC_MESH_NUM_EVENT_START = 8,
  EVT_REDUCE_COPY = 8,
  EVT_REDUCE_COPY_2 = 9,
  EVT_REDUCE_WRITE = 10,
  EVT_INTER_GRP_BRDCST_2 = 11,
  EVT_LOCAL_AND_POD_GRP_BRDCST = 12,
  EVT_LOCAL_AND_POD_GRP_BRDCST_2 = 13,
  ENC_MESH_NUM_EVENT_TYPE = 14,
  ENC_A2A_NUM_EVENT_START = 14,
  EVT_LOCAL_HNDSHK_1 = 14,
  EVT_LOCAL_HNDSHK_2 = 15,
  EVT_GLOBAL_HNDSHK_1 = 16,
  EVT_INTER_GRP_BRDCST_1 = 17,
  EVT_INTRA_GRP_BRDCST_1 = 18,
  EVT_2DEV_BRDCST = 19,
  EVT_2DEV_HNDSHK = 20,
  EVT_COPY_FROM_HOST = 21,
  ENC_A2A_NUM_EVENT_TYPE = 22,
  ENC_RDH_NUM_EVENT_START = 22,
  EVT_RH_STEP_0 = 22,
  EVT_RH_STEP_1 = 23,
  EVT_RH_STEP_2 = 24,
  EVT_RH_STEP_3 = 25,
  EVT_RH_STEP_4 = 26,
  EVT_RH_STEP_5 = 27,
  EVT_RH_STEP_6 = 28,
  EVT_RH_STEP_7 = 29,
  EVT_RH_STEP_8 = 30,
  EVT_RH_STEP_9 = 31,
  EVT_RDH_LOCAL_HANDSHAKE = 31,
  EVT_RDH_AXES_HANDSHAKE = 32,
  EVT_RD_STEP_0 = 33,
  EVT_RD_STEP_1 = 34,
  EVT_RD_STEP_2 = 35,
  EVT_RD_STEP_3 = 36,
  EVT_RD_STEP_4 = 37,
  EVT_RD_STEP_5 = 38,
  EVT_RD_STEP_6 = 39,
  EVT_RDH_AXES_HANDSHAKE_2 = 40,
  EVT_1DEV_RDH_STEP_1 = 41,
  EVT_1DEV_RDH_STEP_2 = 42,
  EVT_1DEV_RD_STEP_1 = 43,
  EVT_1DEV_RD_STEP_2 = 44,
  EVT_1DEV_RH_STEP_1 = 45,
  EVT_2DEV_RD_STEP_0 = 46,
  EVT_2DEV_RD_STEP_1 = 47,
  EVT_2DEV_RD_STEP_2 = 48,
  EVT_2DEV_RD_STEP_3 = 49,
  EVT_2DEV_RD_STEP_4 = 50,
  EVT_RDH_LOCAL_PEER_HANDSHAKE = 51,
  ENC_RDH_NUM_EVENT_TYPE = 52,
} enc_mesh_event_type_t;

// Ranks that take part in one side of a step; `ranks` has ranks_n entries.
struct enc_mesh_nbr_grp {
  int *ranks;
  int ranks_n;
};

// One step: who signals whom, and what.
struct enc_mesh_event {
  struct enc_mesh_nbr_grp src_neighbor_grp;
  struct enc_mesh_nbr_grp dst_neighbor_grp;
  bool valid;
  enc_mesh_event_type_t evt_type;
};

#endif  // NEC_MESH_EVENT_H
