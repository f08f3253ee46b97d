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

namespace neuron::builder {

enum class Engine : uint8_t {
  kPe = NEURON_ENGINE_PE,
  kActivation = NEURON_ENGINE_ACTIVATION,
  kPool = NEURON_ENGINE_POOL,
  kDve = NEURON_ENGINE_DVE,
  kSp = NEURON_ENGINE_SP,
};

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

class EngineOperations {
 public:
  // PE: psum (+)= transpose(stationary) * moving.
  void load_weights(const TileAccess& stationary);
  void multiply(const TileAccess& psum, const TileAccess& moving, bool accumulate,
                bool swap = true);
  void matmul(const TileAccess& psum, const TileAccess& stationary, const TileAccess& moving,
              bool accumulate = false);
  void transpose(const TileAccess& psum, const TileAccess& from);

  // DVE and Pool.
  void tensor_tensor(Engine engine, const TileAccess& to, const TileAccess& a, uint8_t op,
                     const TileAccess& b);
  // reversed(s) makes the scalar the left operand.
  void tensor_scalar(Engine engine, const TileAccess& to, const TileAccess& from, uint8_t op0,
                     const ScalarArgument& s0, uint8_t op1 = NEURON_ALU_BYPASS,
                     const ScalarArgument& s1 = {});
  // A bit operation with an integer.
  void tensor_scalar_bits(Engine engine, const TileAccess& to, const TileAccess& from, uint8_t op,
                          uint32_t bits);
  void tensor_copy(Engine engine, const TileAccess& to, const TileAccess& from);
  void memset(Engine engine, const TileAccess& to, uint32_t bits);

  // DVE.
  // to = (a op0 s) op1 b
  void scalar_tensor_tensor(const TileAccess& to, const TileAccess& a, uint8_t op0,
                            const ScalarArgument& s, uint8_t op1, const TileAccess& b,
                            bool reverse1 = false);
  // to = from op s; the accumulators reduce it.
  void tensor_scalar_reduce(const TileAccess& to, const TileAccess& from, uint8_t op,
                            const ScalarArgument& s, uint8_t reduce,
                            uint8_t command = NEURON_REDUCE_RESET_ACCUMULATE);
  // register = (from op0 s) op1 register; to = register
  void tensor_scalar_cumulative(const TileAccess& to, const TileAccess& from, uint8_t op0,
                                const ScalarArgument& s, uint8_t op1,
                                uint8_t command = NEURON_REDUCE_RESET_ACCUMULATE,
                                const ScalarArgument& initial = {});
  // Reduces over the `axes` innermost dimensions.
  void tensor_reduce(const TileAccess& to, uint8_t op, const TileAccess& from, uint8_t axes = 1,
                     bool negate = false);
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
  void dropout(const TileAccess& to, const TileAccess& from, const ScalarArgument& probability,
               bool keep = false);
  void random_bits(const TileAccess& to);
  void set_random_seed(const TileAccess& seed);

  // Activation: to = function(from * scale + bias).
  void activate(const TileAccess& to, uint8_t function, const TileAccess& from,
                const ActivateOptions& options = {});
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
  void topk(const TileAccess& values, const TileAccess& indices, const TileAccess& from, uint16_t k,
            uint32_t n);
  void custom(uint32_t number, const TileAccess& to, const TileAccess& a, const TileAccess& b = {});

 protected:
  ~EngineOperations() = default;

 private:
  // Checks the instruction and appends it to its engine's stream.
  virtual void emit(Draft draft) = 0;

  TileAccess weights_;  // Loaded last, to check the shape of the next matmul
};

}  // namespace neuron::builder

#endif
