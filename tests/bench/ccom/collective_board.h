/* SPDX-License-Identifier: Apache-2.0 */
/* How a group of processes is told to measure one collective, ours and the peers alike.
 *
 * Concepts: a file that the driver and all ranks of a group map. The driver writes an order and
 * counts `order` up; ranks sleep on it between orders, so that only one group uses the processors.
 * Each rank runs `inner` collectives after a meeting, writes its seconds and counts `finished` up.
 * Threads: one a process. Fails: a rank that cannot sets `failed`. */
#ifndef TESTS_BENCH_CCOM_COLLECTIVE_BOARD_H
#define TESTS_BENCH_CCOM_COLLECTIVE_BOARD_H

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BOARD_MAX_RANKS 16

enum board_operation {
  BOARD_ALL_REDUCE,
  BOARD_REDUCE_SCATTER,
  BOARD_ALL_GATHER,
  BOARD_ALL_TO_ALL,
  BOARD_BROADCAST,
  BOARD_END,
};

struct board {
  uint32_t order; /* futex */
  uint32_t finished;
  uint32_t failed;
  uint32_t ready; /* ranks that have joined */
  uint32_t meeting;
  uint32_t operation;
  uint32_t bf16;
  uint32_t inner;
  uint64_t bytes; /* of a rank's buffer; reduce-scatter, all-gather, all-to-all: of all blocks */
  uint64_t most;  /* largest `bytes` there will be */
  double seconds[BOARD_MAX_RANKS];
};

static inline struct board *board_map(const char *path) {
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return 0;
  void *at = mmap(0, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return at == MAP_FAILED ? 0 : (struct board *)at;
}

static inline void board_pin(uint32_t rank) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(rank % (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), &set);
  sched_setaffinity(0, sizeof set, &set);
}

/* All ranks of the group have come here `count` times. */
static inline void board_meet(struct board *board, uint32_t ranks, uint32_t *count) {
  uint32_t turns = 0;
  const uint32_t wanted = ++*count * ranks;
  __atomic_add_fetch(&board->meeting, 1, __ATOMIC_ACQ_REL);
  while ((int32_t)(__atomic_load_n(&board->meeting, __ATOMIC_ACQUIRE) - wanted) < 0) {
    if (ranks > 2 || ++turns > 10000) sched_yield();
  }
}

/* The next order after `last`, or BOARD_END when none comes for two minutes. */
static inline uint32_t board_wait(struct board *board, uint32_t *last) {
  const struct timespec second = {1, 0};
  for (int tries = 0; tries < 120; ++tries) {
    if (__atomic_load_n(&board->order, __ATOMIC_ACQUIRE) != *last) {
      ++*last;
      return board->operation;
    }
    syscall(SYS_futex, &board->order, FUTEX_WAIT, *last, &second, 0, 0);
  }
  return BOARD_END;
}

/* Element `i` of a rank's input: a small whole number, so that sums are exact in both types. */
static inline float board_value(uint32_t rank, uint64_t i) { return (float)(i % 7 + rank); }

static inline uint32_t board_width(const struct board *board) { return board->bf16 ? 2 : 4; }

static inline void board_put(const struct board *board, void *buffer, uint64_t i, float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  bits >>= board->bf16 ? 16 : 0; /* exact: the low half of these is zero */
  memcpy((char *)buffer + i * board_width(board), &bits, board_width(board));
}

/* What the measured repetitions leave must not be what earlier ones left. Before the meeting. */
static inline void board_prepare(const struct board *board, uint32_t rank, void *input,
                                 void *output) {
  const uint64_t elements = board->bytes / board_width(board);
  for (uint64_t i = 0; i < elements; ++i) board_put(board, input, i, board_value(rank, i));
  memset(output, 0xFF, board->bytes);
}

/* The element that is expected in the output; `root` is that of the last broadcast. */
static inline float board_expected(const struct board *board, uint32_t rank, uint32_t ranks,
                                   uint32_t root, uint64_t i) {
  const uint64_t block = board->bytes / board_width(board) / ranks;
  const uint32_t all = ranks * (ranks - 1) / 2; /* of the ranks' numbers */
  switch (board->operation) {
    case BOARD_ALL_REDUCE:
      return (float)(i % 7 * ranks + all);
    case BOARD_REDUCE_SCATTER:
      return (float)((rank * block + i) % 7 * ranks + all);
    case BOARD_ALL_GATHER:
      return board_value((uint32_t)(i / block), i % block);
    case BOARD_ALL_TO_ALL:
      return board_value((uint32_t)(i / block), rank * block + i % block);
    default:
      return board_value(root, i);
  }
}

/* Compares the whole output behind the measured repetitions; the place of the first wrong element,
 * or -1. */
static inline int64_t board_wrong(const struct board *board, uint32_t rank, uint32_t ranks,
                                  uint32_t root, const void *output) {
  const uint64_t elements = board->bytes / board_width(board), block = elements / ranks;
  uint64_t count = elements;
  if (board->operation == BOARD_REDUCE_SCATTER) count = block;
  if (board->operation == BOARD_ALL_GATHER || board->operation == BOARD_ALL_TO_ALL) {
    count = block * ranks;
  }
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t expected = 0;
    board_put(board, &expected, 0, board_expected(board, rank, ranks, root, i));
    if (memcmp((const char *)output + i * board_width(board), &expected, board_width(board)) != 0) {
      return (int64_t)i;
    }
  }
  return -1;
}

static inline double board_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

#endif
