// SPDX-License-Identifier: Apache-2.0
//
// The kernels that come with the project, each as a function that writes its NEFF.
//
// Callers: the program neuron-kernels, tests, benchmarks. Thread-safe: no state. Each call with the
// same arguments gives the same bytes. Fails with a sentence: a shape that the kernel does not
// take, a missing weight file, a tile that does not fit.
#ifndef TOOLS_COMPILER_KERNELS_KERNELS_H
#define TOOLS_COMPILER_KERNELS_KERNELS_H

#include <cstdint>
#include <string>
#include <vector>

#include "hw/isa.h"
#include "runtime/base/error.h"

namespace neuron::kernels {

using Neff = runtime::Result<std::vector<uint8_t>>;

// All five engines return at once; no inputs, no outputs.
Neff empty();

// result [m, n] = transpose(lhs_t [k, m]) * rhs [k, n]; f32, bf16, f16, f8e4 or f8e5, the sums in
// f32. m and k are multiples of 128, n of 512. Loads, products and stores overlap.
struct MatmulShape {
  uint64_t m = 0, k = 0, n = 0;
};
Neff matmul(const std::string& name, uint8_t dtype, const MatmulShape& shape);

// The same, written as its simpler forms: one tile (m, k up to 128, n up to 512), operands loaded
// for each tile, the stationary ones once for each row of tiles, blocks of 512 x 1024.
enum class MatmulForm : uint8_t { kBasic, kTiled, kHoisted, kBlocked };
Neff matmul_form(const std::string& name, uint8_t dtype, const MatmulShape& shape, MatmulForm form);

// The same of bf16 or f16, both matrices quantised on the device to block-scaled `codes`, f8e4fnx4
// or f8e5x4; the result is of `dtype`. A scale belongs to 32 rows of K of one column. m is a
// multiple of 128, k and n of 512; the moving matrix must fit into SBUF. Generation 4.
Neff mx_matmul(const std::string& name, uint8_t dtype, const MatmulShape& shape,
               uint8_t codes = NEURON_DTYPE_F8E4FNX4, uint8_t generation = 4);

// The same with structured sparsity, bf16 or f16: of each D rows of K, a column of the stationary
// matrix has S that are not 0, by a ratio NEURON_SPARSE_* (hw/isa.h). Inputs: the compressed
// "weights" [k S / D, m], their "positions" among the D rows, u16 with four columns each
// [k S / D, m / 4], and rhs [k, n]. m is a multiple of 128, k of 128 D / S, n of 512; the moving
// matrix must fit into SBUF. Generations 3 and 4.
struct SparseShape {
  uint64_t m = 0, k = 0, n = 0;
  uint8_t ratio = NEURON_SPARSE_4_OF_8;
};
Neff sparse_matmul(const std::string& name, uint8_t dtype, const SparseShape& shape,
                   uint8_t generation = 3);

// sum [rows, columns] = a + b.
Neff tensor_add(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns);

// y [rows, columns] of each row or element of x; f32 or bf16, computed in f32.
Neff softmax(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns);
Neff gelu(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns);
// (x - mean) / sqrt(variance + kNormEpsilon) * weight [columns] + bias [columns].
Neff layer_norm(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns);
// x / sqrt(mean of squares + kNormEpsilon) * weight [columns].
Neff rms_norm(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns);
inline constexpr float kNormEpsilon = 1e-5F;
// rms_norm of f32 or bf16, quantised: y [rows, columns + 4] of f8e4, the last four bytes of a row
// its scale in f32: a code times the scale is the result. The scale is the row's greatest
// magnitude, or kQuantSmallest if that is more, divided by kQuantGreatest. columns is a multiple
// of 4. Generations 3 and 4.
Neff rms_norm_quant(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns,
                    uint8_t generation = 3);
inline constexpr float kQuantGreatest = 240, kQuantSmallest = 1e-10F;

// y [columns, rows] = transpose of x [rows, columns]. PE: 2 or 4 bytes; DVE: multiples of 32.
enum class TransposeBy : uint8_t { kPe, kDve, kDma };
Neff transpose(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns,
               TransposeBy by);

// Means of windows of x [channels, height * width].
struct PoolShape {
  uint32_t channels = 0, height = 0, width = 0, window = 0;
};
Neff average_pool(const std::string& name, uint8_t dtype, const PoolShape& shape);

// y [rows, columns] = the running sum along each row of x; f32 or bf16, summed in f32.
Neff cumulative_sum(const std::string& name, uint8_t dtype, uint64_t rows, uint64_t columns);

// Rotary position embedding of x [head_size, batch, heads, sequence] with cos and sin
// [head_size / 2, batch, sequence]: of each pair of numbers (a, b) of a head,
// a cos - b sin and b cos + a sin. A pair is two neighbours if `interleaved`, else a number of the
// first and one of the second half.
struct RopeShape {
  uint64_t head_size = 0, batch = 0, heads = 0, sequence = 0;
  bool interleaved = false;
};
Neff rope(const std::string& name, uint8_t dtype, const RopeShape& shape);

// y [heads, sequence, head_size] = softmax(q^T k / sqrt(head_size)) v of each head; q and k [heads,
// head_size, sequence], v as y. Causal: a query meets the keys up to its own position. Keys come in
// blocks of up to `block`, with more than one of them by online softmax. Packed: v is [heads, 128,
// sequence / 128 * head_size], the positions p, p + 128, p + 256 ... of a head behind each other,
// so that a partition's part of it is one row of HBM, and q is loaded once for each head; the
// results are the same. With kv_heads, k and v have so many heads, each of which heads / kv_heads
// neighbours of q share. With a window, a multiple of 128, a causal query meets only the last
// `window` keys, its own included. With log_sums, the output "log_sums", f32 [heads, sequence, 1],
// has the logarithm of the sum of exponentials of each query.
struct AttentionShape {
  uint64_t heads = 0, sequence = 0, head_size = 0;
  bool causal = false;
  uint64_t block = 1024;
  bool packed = false;
  uint64_t kv_heads = 0;  // 0: heads
  uint64_t window = 0;    // 0: none
  bool log_sums = false;
};
Neff attention(const std::string& name, uint8_t dtype, const AttentionShape& shape,
               uint8_t generation = 2);

// The gradients dq [heads, head_size, sequence], dk [kv_heads, head_size, sequence] and dv
// [kv_heads, sequence, head_size] of that, from q, k, v, y, its gradient dy (as y) and log_sums,
// f32 or bf16; of the shape, `block`, `packed` and `log_sums` are not looked at. k and v of a head,
// and q and dy of all heads that share it, must fit into SBUF.
Neff attention_backward(const std::string& name, uint8_t dtype, const AttentionShape& shape,
                        uint8_t generation = 2);

// The router of a mixture of experts: for each token the `chosen` experts of the greatest logits,
// greatest first and of equal ones the first, as "experts", u32 [tokens, chosen], and their
// "weights", f32 [tokens, chosen], from x_t [inputs, tokens] and w [inputs, experts], f32 or bf16:
// the softmax over all experts, or over those that are chosen (normalised). inputs is a multiple of
// 128, experts 8 to 512, chosen up to 64.
struct RouterShape {
  uint64_t tokens = 0, inputs = 0;
  uint32_t experts = 0, chosen = 0;
  bool normalised = true;
};
Neff router_top_k(const std::string& name, uint8_t dtype, const RouterShape& shape,
                  uint8_t generation = 2);

// A mixture of experts without dropped tokens: y [tokens, inputs], row t the sum over the places of
// token t of affinities [t, e] (silu(x_t gate_e) * (x_t up_e)) down_e. Places come in `blocks` of
// 128, each of one expert: "tokens", u32 [blocks, 128], has a token only once in a block, and
// `tokens` where there is none; "experts", u32 [blocks], the expert. x [tokens, inputs], gate_up
// [experts, inputs, 2 hidden] (gate first) and down [experts, hidden, inputs] are f32 or bf16, the
// affinities f32 [tokens, experts]. inputs and hidden are multiples of 128. Weights are inputs,
// which each execution first copies, because only what does not move can be fetched by an address
// from a register; or, given here, constants of the file.
inline constexpr uint32_t kMoePlaces = 128;
struct MoeShape {
  uint64_t tokens = 0, inputs = 0, hidden = 0, experts = 0;
  uint32_t blocks = 0;
};
struct MoeWeights {
  std::vector<uint8_t> gate_up, down;  // As the inputs would be
};
Neff moe(const std::string& name, uint8_t dtype, const MoeShape& shape,
         const MoeWeights* weights = nullptr, uint8_t generation = 2);

// Mamba-2's state-space duality: for each head of each sequence, with the state [states,
// head_size],
//   state[t] = exp(delta[t] a) state[t - 1] + delta[t] b[t] x[t],   y[t] = c[t] state[t],
// of x and y [batch, heads, sequence, head_size], b and c [batch, sequence, states], f32 or bf16,
// delta [batch, heads, sequence] and a [heads] (not positive), f32. In chunks of 128 positions,
// which are products. sequence is a multiple of 128; up to 128 heads and states, head_size up to
// 512.
struct SsdShape {
  uint64_t batch = 0, heads = 0, sequence = 0, head_size = 0, states = 0;
};
Neff ssd(const std::string& name, uint8_t dtype, const SsdShape& shape, uint8_t generation = 2);

// The selective scan of Mamba, f32: y [channels, sequence] of delta and u, as y, a [channels,
// states], b and c [states, sequence]. Versions 1 and 2 (loops over states outside, inside) take up
// to 1024 positions, 3 (in pieces with a carry) multiples of 512.
struct MambaShape {
  uint64_t channels = 0, sequence = 0, states = 0;
};
Neff mamba(const std::string& name, const MambaShape& shape, unsigned version);

// y [images, outputs, h, w] = maxima of windows of the convolution of x [images, inputs, height,
// width] with filter [k, k, inputs, outputs], without padding, plus bias [outputs] (f32).
struct ConvolutionShape {
  uint32_t images = 0, inputs = 0, outputs = 0, height = 0, width = 0;
  uint32_t filter = 0, window = 1;
};
Neff convolution(const std::string& name, uint8_t dtype, const ConvolutionShape& shape);

// y = gelu(x [rows, inputs] w1 + b1) w2 + b2; x, w1, w2 and y f32 or bf16, the biases f32.
struct MlpShape {
  uint64_t rows = 0, inputs = 0, hidden = 0, outputs = 0;
};
Neff gelu_mlp(const std::string& name, uint8_t dtype, const MlpShape& shape);

// probabilities [batch, 10] of the digits x [batch, 64], f32; up to 128 at a time.
inline constexpr uint32_t kDigitsBatch = 120;
struct DigitsWeights {
  std::vector<float> w1;  // [64, 128]
  std::vector<float> b1;  // [128]
  std::vector<float> w2;  // [128, 10]
  std::vector<float> b2;  // [10]
};
runtime::Result<DigitsWeights> read_digits_weights(const std::string& directory);
Neff digits(const DigitsWeights& weights, uint32_t batch = kDigitsBatch);

// One step of training that classifier by gradient descent, on a batch of digits x with one-hot
// labels `wanted`: outputs the loss and probabilities before the update, and w1_next, w2_next,
// b2_next, which may be the tensors of w1 [65, 128] (its last row is the bias), w2 [128, 10] and b2
// [1, 10] themselves. Rate 0 leaves them unchanged. `stochastic`: the update rounds stochastically.
inline constexpr uint32_t kDigitsTrainingBatch = 120;
Neff digits_training(const std::string& name, uint8_t dtype, bool stochastic);
// The parts of that step, in f32, for training on several cores. Computes the gradients of w1, w2
// and b2, one behind the other, for `rows` digits of a batch of kDigitsTrainingBatch. They are the
// output "gradients"; with `accumulate`, input "sum" plus them is the output "sum_next".
Neff digits_gradients(const std::string& name, uint32_t rows, bool accumulate);
// The whole step for ranks that have `rows` digits each of such a batch: the gradients of all ranks
// are summed before the update. Loaded with nrt_load_collectives.
Neff digits_parallel(const std::string& name, uint32_t rows);
// The update alone: inputs "gradients", "rate", w1, w2 and b2, outputs w1_next, w2_next, b2_next.
Neff digits_update(const std::string& name);

// The names of the kernels in build/neff, of all generations, and of the large ones, which are
// written on request only; `data` is the folder of the digits' weights.
std::vector<std::string> names();
std::vector<std::string> large_names();
// What a kernel of these names was written for: 2 (trn1, inf2), 3 (trn2) or 4 (trn3); 0: unknown.
uint8_t generation_of(const std::string& name);
Neff build(const std::string& name, const std::string& data);

}  // namespace neuron::kernels

#endif
