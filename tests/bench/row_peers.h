// SPDX-License-Identifier: Apache-2.0
// What the row benchmarks compare with: softmax, layer norm and GELU of a bf16 matrix, written with
// AVX-512 and glibc's vector math library, in place of a compiler's or a framework's kernel; and
// the softmax of attention, whose columns come in blocks.
//
// One thread, no allocation. columns is a multiple of 32, at most 8192; of blocks and of their
// sums, a multiple of 16. Only on processors with AVX-512; row_peers_available() says whether.
#ifndef TESTS_BENCH_ROW_PEERS_H
#define TESTS_BENCH_ROW_PEERS_H

#include <cstddef>
#include <cstdint>

namespace neuron::bench {

bool row_peers_available();
void softmax_rows(const uint16_t* in, uint16_t* out, size_t rows, size_t columns);
void layernorm_rows(const uint16_t* in, const float* gamma, const float* beta, uint16_t* out,
                    size_t rows, size_t columns);
void gelu_rows(const uint16_t* in, uint16_t* out, size_t rows, size_t columns);

// What the rows of a softmax have met so far: the greatest scaled score, the sum of exponentials
// and `size` sums weighted by them, all relative to that score.
struct RunningRows {
  float* maxima;
  float* totals;
  float* sums;  // [rows, size]
  size_t size;
};
// Row r meets the first `visible` + r of these columns, as far as there are so many.
struct ScoreBlock {
  const float* scores;  // [rows, columns]
  size_t rows, columns, visible;
  float scale;
};
// Writes the weights of a block, bf16 [rows, columns], 0 where a row does not meet a column, and
// makes all that was before relative to the new greatest score. `first`: nothing was before.
void softmax_block(const ScoreBlock& block, bool first, const RunningRows& running,
                   uint16_t* weights);
// The quotients of sums and totals, bf16 [rows, size].
void finish_rows(const RunningRows& running, size_t rows, uint16_t* out);

}  // namespace neuron::bench

#endif
