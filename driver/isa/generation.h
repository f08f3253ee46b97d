// SPDX-License-Identifier: Apache-2.0
// What one generation of the chip executes, and how fast: one row for each generation.
//
// `Limits` is what checks need, `Timing` what costs need. A new generation needs one more row here,
// and code where it really differs. Constants, no state; cannot fail: a generation without a row
// has the row before it.
#ifndef DRIVER_ISA_GENERATION_H
#define DRIVER_ISA_GENERATION_H

#include <cstdint>

#include "hw/isa.h"

namespace neuron::isa {

using ModelTime = uint64_t;  // picoseconds

// Sizes, and what instructions may ask for. The defaults are generation 2.
struct Limits {
  uint8_t generation = 2;
  uint32_t sbuf_partition_bytes = NEURON_V2_SBUF_PARTITION_BYTES;
  uint32_t psum_partition_bytes = NEURON_PSUM_PARTITION_BYTES;
  bool engines_v3 = false;              // opcodes on the engines that OpcodeInfo::engines_v3 adds
  bool activate_any_bias = false;       // activate takes any bias, not only tile pointers
  bool small_tiles = false;             // the PE divides into tiles of 32 x 32
  bool double_row = false;              // the PE multiplies two rows of f8 at a time
  bool psum_bf16 = false;               // the PE writes and accumulates bf16, over all banks
  bool native_int64 = false;            // Pool computes on 64-bit integers
  uint32_t pe_max_n = NEURON_PE_MAX_N;  // columns of a moving matrix into f32
  uint32_t pe_max_n_bf16 = NEURON_PE_MAX_N;  // into bf16
  bool vector_xorwow = false;  // Vector draws its random bits from XORWOW states, as Pool does
  bool dma_generators = false;
  bool dma_priorities = false;
  bool block_scaled_types = false;  // data types from f8e4fn on
  bool indirect_operands = false;
};

// Picoseconds for a cycle, as a fraction.
struct Clock {
  uint64_t picoseconds;
  uint64_t cycles;
  constexpr ModelTime time(uint64_t count) const { return count * picoseconds / cycles; }
};

// Each number has its source beside it: a published fact, or our own choice where nothing is
// published.
struct Timing {
  // Clocks (architecture guides).
  Clock pe, vector, others;
  // A control or flow instruction occupies its sequencer for one smallest initiation interval; the
  // guide publishes 64 cycles for small instructions. All sequencers run at the clock of the Scalar
  // engine (our choice).
  ModelTime control_interval;
  // The time of each further store of one `write`, each doorbell of a dma_trigger, and each half of
  // a descriptor pair that Pool writes: one posted write per cycle of the sequencer (our choice).
  ModelTime posted_write;
  // The time from the start of a PE instruction to the issue of the next. LoadStationary runs in
  // the background of a multiplication, so the sequencer does not wait for the array (our choice:
  // 32 PE cycles, the duration of the fastest LoadStationary).
  ModelTime pe_issue;
  // A DMA engine moves bytes at its practical rate (bandwidth guide: 17, 23, 33 GB/s), and takes
  // a descriptor for at least `dma_descriptor`. The published curve is flat below 2 KiB, so bytes
  // and descriptor pass at the same time. FITTED: 82 ns is the geometric mean of the 63 ns (mixed
  // loads and stores of 1 KiB) and the 107 ns (curve) that were measured on trn2.
  Clock dma_bytes;
  ModelTime dma_descriptor;
  bool performance_modes;  // Vector engine: 16-bit types faster (instruction reference)
  bool fast_transpose;     // PE: a 32-bit transpose in half the passes (instruction reference)
  // Vector: f8 types as fast as those of 16 bits; Scalar: types of 16 bits and f8 2 times as fast
  // (architecture guide).
  bool performance_modes_v4 = false;
  // PE: a transpose may run beside a multiplication or another transpose (architecture guide).
  bool background_transpose = false;
};

struct Generation {
  Limits limits;
  Timing timing;
};

inline constexpr Generation kGenerations[] = {
    {.limits = {},
     .timing = {.pe = {2500, 7},      // 2.8 GHz
                .vector = {6250, 7},  // 1.12 GHz
                .others = {5000, 7},  // 1.4 GHz
                .control_interval = 45'714,
                .posted_write = 714,
                .pe_issue = 11'428,
                .dma_bytes = {1000, 17},
                .dma_descriptor = 82'000,
                .performance_modes = false,
                .fast_transpose = false}},
    {.limits = {.generation = 3,
                .sbuf_partition_bytes = NEURON_V3_SBUF_PARTITION_BYTES,
                .engines_v3 = true,
                .activate_any_bias = true,
                .small_tiles = true,
                .double_row = true,
                .native_int64 = true,
                .dma_generators = true},
     .timing = {.pe = {1250, 3},      // 2.4 GHz
                .vector = {3125, 3},  // 0.96 GHz
                .others = {2500, 3},  // 1.2 GHz
                .control_interval = 53'333,
                .posted_write = 833,
                .pe_issue = 13'333,
                .dma_bytes = {1000, 23},
                .dma_descriptor = 82'000,
                .performance_modes = true,
                .fast_transpose = true}},
    // Sizes and clocks: architecture guide. Intervals in cycles: as generation 3 (choice; no others
    // are published). The rate of DMA: bandwidth guide, 33 GB/s.
    {.limits = {.generation = 4,
                .sbuf_partition_bytes = NEURON_V4_SBUF_PARTITION_BYTES,
                .engines_v3 = true,
                .activate_any_bias = true,
                .small_tiles = true,
                .double_row = true,
                .psum_bf16 = true,
                .native_int64 = true,
                .pe_max_n = NEURON_V4_PE_MAX_N,
                .pe_max_n_bf16 = NEURON_V4_PE_MAX_N_BF16,
                .vector_xorwow = true,
                .dma_generators = true,
                .dma_priorities = true,
                .block_scaled_types = true,
                .indirect_operands = true},
     .timing = {.pe = {1250, 3},      // 2.4 GHz
                .vector = {2500, 3},  // 1.2 GHz
                .others = {2500, 3},  // 1.2 GHz
                .control_interval = 53'333,
                .posted_write = 833,
                .pe_issue = 13'333,
                .dma_bytes = {1000, 33},
                .dma_descriptor = 82'000,
                .performance_modes = true,
                .fast_transpose = true,
                .performance_modes_v4 = true,
                .background_transpose = true}},
};

constexpr const Generation& generation_row(unsigned generation) {
  const Generation* found = kGenerations;
  for (const Generation& row : kGenerations) {
    if (row.limits.generation <= generation) found = &row;
  }
  return *found;
}
// The result has the number that was asked for, whether that generation has its own row or not.
constexpr Limits limits_of(unsigned generation) {
  Limits limits = generation_row(generation).limits;
  limits.generation = static_cast<uint8_t>(generation);
  return limits;
}
constexpr const Timing& timing_of(unsigned generation) { return generation_row(generation).timing; }

}  // namespace neuron::isa

#endif
