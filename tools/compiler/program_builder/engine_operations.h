// SPDX-License-Identifier: Apache-2.0
//
// The operations of the five engines: one method for each instruction. Each method drafts the
// instruction with its operands and hands it to emit().
// Callers: kernels, through Program. Thread-safe: no. Owns nothing. Fails: as emit() does; a draft
// that cannot be encoded says why.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_ENGINE_OPERATIONS_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_ENGINE_OPERATIONS_H

#include <cstdint>
#include <span>
#include <vector>

#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/draft.h"
#include "tools/compiler/program_builder/operations.h"
#include "tools/compiler/program_builder/pair_operations.h"
#include "tools/compiler/program_builder/product_operations.h"
#include "tools/compiler/program_builder/random_operations.h"

namespace neuron::builder {

struct ActivateOptions {
  ScalarArgument scale;                 // Absent: 1
  ScalarArgument bias;                  // Absent: 0; a tile
  uint8_t reduce = NEURON_REDUCE_IDLE;  // Sum of the outputs, into the accumulators
  float parameter = 0;                  // Slope of prelu
  uint8_t table_set = 0;                // 0: built in
};

// value = offset + partition * of_partition + the sum of step[d] * index[d], innermost first.
struct IndexPattern {
  std::vector<uint16_t> size;
  std::vector<int32_t> step;
  int32_t offset = 0;
  int32_t of_partition = 0;
};

// to = function((from step s0) step s1): steps as NEURON_PRE_*.
struct Activate2Options {
  uint8_t steps = NEURON_PRE_NONE;
  ScalarArgument s0, s1;                  // One for each step; reversed() ones are left operands
  uint8_t reduce_op = NEURON_ALU_BYPASS;  // Of the accumulators: add, max, min, abs_max, abs_min
  uint8_t reduce = NEURON_REDUCE_IDLE;
  float parameter = 0;
};

// The scalar of a bit operation: an integer, of whose low bits as many count as an element has, or
// one of each partition. Nothing for `not`.
struct BitArgument {
  BitArgument() = default;
  BitArgument(uint32_t number) : bits(number), is_number(true) {}  // NOLINT: reads as a number
  BitArgument(const TileAccess& tile) : access(tile) {}            // NOLINT: reads as a tile
  uint32_t bits = 0;
  bool is_number = false;
  bool reversed = false;  // The scalar is the left operand: what is shifted
  TileAccess access;
};

class EngineOperations : public ProductOperations, public RandomOperations, public PairOperations {
 public:
  // DVE and Pool.
  void tensor_tensor(Engine engine, const TileAccess& to, const TileAccess& a, uint8_t op,
                     const TileAccess& b);
  // reversed(s) makes the scalar the left operand. Of 64-bit integers (Pool, generation 3), a
  // number is a whole one of 32 bits.
  void tensor_scalar(Engine engine, const TileAccess& to, const TileAccess& from, uint8_t op0,
                     const ScalarArgument& s0, uint8_t op1 = NEURON_ALU_BYPASS,
                     const ScalarArgument& s1 = {});
  // One or two bit operations with integers.
  void tensor_scalar_bits(Engine engine, const TileAccess& to, const TileAccess& from, uint8_t op0,
                          const BitArgument& s0, uint8_t op1 = NEURON_ALU_BYPASS,
                          const BitArgument& s1 = {});
  void tensor_copy(Engine engine, const TileAccess& to, const TileAccess& from);
  void memset(Engine engine, const TileAccess& to, uint32_t bits);

  // DVE.
  // to = (a op0 s) op1 b
  void scalar_tensor_tensor(const TileAccess& to, const TileAccess& a, uint8_t op0,
                            const ScalarArgument& s, uint8_t op1, const TileAccess& b,
                            bool reverse1 = false);
  // to = from op s; the accumulators reduce it, with load_accumulate from `initial` on.
  void tensor_scalar_reduce(const TileAccess& to, const TileAccess& from, uint8_t op,
                            const ScalarArgument& s, uint8_t reduce,
                            uint8_t command = NEURON_REDUCE_RESET_ACCUMULATE,
                            const ScalarArgument& initial = {});
  // register = (from op0 s) op1 register; to = register
  void tensor_scalar_cumulative(const TileAccess& to, const TileAccess& from, uint8_t op0,
                                const ScalarArgument& s, uint8_t op1,
                                uint8_t command = NEURON_REDUCE_RESET_ACCUMULATE,
                                const ScalarArgument& initial = {});
  // Reduces over the `axes` innermost dimensions; 64-bit integers on Pool, others, too, if it is
  // named (generation 3).
  void tensor_reduce(const TileAccess& to, uint8_t op, const TileAccess& from, uint8_t axes = 1,
                     bool negate = false, Engine engine = Engine::kDve);
  // state = (a op0 state) op1 b; to = state
  void tensor_tensor_scan(const TileAccess& to, const TileAccess& a, uint8_t op0, uint8_t op1,
                          const TileAccess& b, const ScalarArgument& initial, bool reverse0 = false,
                          bool reverse1 = false);
  void reciprocal(const TileAccess& to, const TileAccess& from);
  // Copies elements where the predicate is not 0 (with invert: is 0); other elements stay.
  void copy_predicated(const TileAccess& to, const TileAccess& from, const TileAccess& predicate,
                       bool invert = false);
  void fill_predicated(const TileAccess& to, const ScalarArgument& value,
                       const TileAccess& predicate, bool invert = false);
  void bn_stats(const TileAccess& to, const TileAccess& from);  // [P, 6] of up to 512
  void bn_aggr(const TileAccess& to, const TileAccess& from);  // [P, 2] = mean, variance of [P, 3n]
  void max8(const TileAccess& to, const TileAccess& from);
  void find_index8(const TileAccess& to, const TileAccess& from, const TileAccess& values);
  void match_replace8(const TileAccess& to, const TileAccess& from, const TileAccess& values,
                      float replacement, const TileAccess& indices = {});
  // In each quadrant, row i becomes row mask[i].
  void stream_shuffle(const TileAccess& to, const TileAccess& from,
                      std::span<const uint8_t, NEURON_SHUFFLE_ROWS> mask);
  void transpose32(const TileAccess& to, const TileAccess& from);
  // Generation 3. `reduce`: the accumulators take the maximum of `to`.
  // to = from where the predicate is not 0 (with invert: is 0), else `otherwise`.
  void select_reduce(const TileAccess& to, const TileAccess& from, const TileAccess& predicate,
                     const ScalarArgument& otherwise, bool invert = false,
                     uint8_t reduce = NEURON_REDUCE_IDLE);
  // to = from where start + i op0 bound0 and start + i op1 bound1, else the lowest finite f32.
  void range_select(const TileAccess& to, const TileAccess& from, uint8_t op0,
                    const ScalarArgument& bound0, uint8_t op1, const ScalarArgument& bound1,
                    float start = 0, uint8_t reduce = NEURON_REDUCE_IDLE);
  // Generation 4. to = exp(from - maximum); the accumulators may sum it, with load_accumulate from
  // `initial` on.
  void exponential(const TileAccess& to, const TileAccess& from, const ScalarArgument& maximum = {},
                   uint8_t reduce = NEURON_REDUCE_IDLE, const ScalarArgument& initial = {});
  // bf16 or f16 to block-scaled f8: four elements become one of `to`.
  void quantize_mx(const ScaledAccess& to, const TileAccess& from);

  // Activation: to = function(from * scale + bias).
  void activate(const TileAccess& to, uint8_t function, const TileAccess& from,
                const ActivateOptions& options = {});
  void activate2(const TileAccess& to, uint8_t function, const TileAccess& from,
                 const Activate2Options& options = {});
  // Reads the accumulators of Activation or DVE as one column.
  void read_accumulator(Engine engine, const TileAccess& to, bool negate = false);

  // Pool.
  void iota(const TileAccess& to, const IndexPattern& index);
  // to = from where (index compare 0), else `otherwise`.
  void affine_select(const TileAccess& to, const TileAccess& from, const IndexPattern& index,
                     uint8_t compare, const ScalarArgument& otherwise);
  void partition_reduce(const TileAccess& to, uint8_t op, const TileAccess& from);
  void local_gather(const TileAccess& to, const TileAccess& from, const TileAccess& index,
                    uint8_t log2_elements, uint16_t valid);
  void n_gather(const TileAccess& to, const TileAccess& from, const TileAccess& index);
  void sequence_bounds(const TileAccess& to, const TileAccess& from);
  // In partitions 0, 16, ...: where `from` is not 0 (plus offset), then padding, last the count.
  void nonzero_with_count(const TileAccess& to, const TileAccess& from, int32_t offset = 0,
                          int32_t padding = -1);
  void topk(const TileAccess& values, const TileAccess& indices, const TileAccess& from, uint16_t k,
            uint32_t n);
  void custom(uint32_t number, const TileAccess& to, const TileAccess& a, const TileAccess& b = {});

 protected:
  ~EngineOperations() = default;
};

}  // namespace neuron::builder

#endif
