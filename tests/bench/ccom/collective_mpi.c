/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of the peers: the collectives of an MPI, on orders from a board. Built once with the
 * compiler wrapper of each library. Usage: PROGRAM BOARD. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective_board.h"

/* MPI has no bf16: an operation of the user's, as one would write it for speed. */
static void add_bf16(void *in, void *both, int *count, MPI_Datatype *type) {
  const uint16_t *a = in;
  uint16_t *b = both;
  (void)type;
  for (int i = 0; i < *count; ++i) {
    uint32_t x = (uint32_t)a[i] << 16, y = (uint32_t)b[i] << 16;
    float p, q;
    memcpy(&p, &x, 4);
    memcpy(&q, &y, 4);
    p += q;
    memcpy(&x, &p, 4);
    b[i] = (uint16_t)((x + 0x7FFF + (x >> 16 & 1)) >> 16);
  }
}

static float *input, *output;
static MPI_Datatype bf16;
static MPI_Op bf16_sum;

static int run(const struct board *board, int ranks, int turn) {
  const int elements = (int)(board->bytes / 4), block = elements / ranks;
  switch (board->operation) {
    case BOARD_ALL_REDUCE:
      if (board->bf16) {
        return MPI_Allreduce(input, output, elements * 2, bf16, bf16_sum, MPI_COMM_WORLD);
      }
      return MPI_Allreduce(input, output, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    case BOARD_REDUCE_SCATTER:
      return MPI_Reduce_scatter_block(input, output, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    case BOARD_ALL_GATHER:
      return MPI_Allgather(input, block, MPI_FLOAT, output, block, MPI_FLOAT, MPI_COMM_WORLD);
    case BOARD_ALL_TO_ALL:
      return MPI_Alltoall(input, block, MPI_FLOAT, output, block, MPI_FLOAT, MPI_COMM_WORLD);
    case BOARD_BROADCAST:
      return MPI_Bcast(output, elements, MPI_FLOAT, turn % ranks, MPI_COMM_WORLD);
    default:
      return MPI_ERR_OP;
  }
}

int main(int argc, char **argv) {
  int rank, ranks;
  uint32_t last = 0, meetings = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  struct board *board = argc == 2 ? board_map(argv[1]) : 0;
  if (!board || ranks > BOARD_MAX_RANKS) return 1;
  board_pin((uint32_t)rank);
  if (posix_memalign((void **)&input, 4096, board->most) ||
      posix_memalign((void **)&output, 4096, board->most)) {
    return 1;
  }
  MPI_Type_contiguous(2, MPI_BYTE, &bf16);
  MPI_Type_commit(&bf16);
  MPI_Op_create(add_bf16, 1, &bf16_sum);
  __atomic_add_fetch(&board->ready, 1, __ATOMIC_ACQ_REL);
  while (board_wait(board, &last) != BOARD_END) {
    board_prepare(board, (uint32_t)rank, input, output);
    /* A broadcast here sends what the root has received before: what rank 0 began with. */
    if (board->operation == BOARD_BROADCAST) memcpy(output, input, board->bytes);
    board_meet(board, (uint32_t)ranks, &meetings);
    const double begin = board_now();
    for (uint32_t i = 0; i < board->inner; ++i) {
      if (run(board, ranks, (int)i) != MPI_SUCCESS) board->failed = 1;
    }
    board->seconds[rank] = board_now() - begin;
    /* The check must not take a slower rank's processor. */
    board_meet(board, (uint32_t)ranks, &meetings);
    if (board_wrong(board, (uint32_t)rank, (uint32_t)ranks, 0, output) >= 0) {
      fprintf(stderr, "rank %d: a result is wrong\n", rank);
      board->failed = 1;
    }
    __atomic_add_fetch(&board->finished, 1, __ATOMIC_ACQ_REL);
  }
  MPI_Finalize();
  return 0;
}
