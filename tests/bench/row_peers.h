// SPDX-License-Identifier: Apache-2.0
// What the row benchmarks compare with: softmax, layer norm and GELU of a bf16 matrix, written with
// AVX-512 and glibc's vector math library, in place of a compiler's or a framework's kernel.
//
// One thread, no allocation. columns is a multiple of 32, at most 8192. Only on processors with
// AVX-512; row_peers_available() says whether.
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

}  // namespace neuron::bench

#endif
