// SPDX-License-Identifier: Apache-2.0
//
// A program for one NeuronCore, written operation by operation; what a compiler back end calls.
//
// The caller names buffers in HBM, allocates tiles on the chip and lists operations in the order in
// which they must appear to happen. Program spreads them over the engines' instruction streams,
// adds the semaphore waits that this order needs, and writes a NEFF. The same calls give the same
// bytes. Thread-safe: no. Owns everything; accesses are plain values.
// Fails: the first error (capacity, a broken operand rule, a wrong shape) is kept and named with
// section and operation; later calls do nothing, and build() returns it.
#ifndef TOOLS_COMPILER_PROGRAM_BUILDER_PROGRAM_H
#define TOOLS_COMPILER_PROGRAM_BUILDER_PROGRAM_H

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "driver/base/format.h"
#include "driver/isa/instruction.h"
#include "runtime/base/error.h"
#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/draft.h"
#include "tools/compiler/program_builder/on_chip_allocator.h"
#include "tools/compiler/program_builder/ordering.h"
#include "tools/compiler/program_builder/program_parts.h"

namespace neuron::builder {

enum class Engine : uint8_t {
  kPe = NEURON_ENGINE_PE,
  kActivation = NEURON_ENGINE_ACTIVATION,
  kPool = NEURON_ENGINE_POOL,
  kDve = NEURON_ENGINE_DVE,
  kSp = NEURON_ENGINE_SP,
};

enum class Rounding : uint8_t { kCoreMode = 0, kNearestEven = 1, kStochastic = 2 };

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

// One side of a transfer that computes or is generated.
struct Side {
  Side(const TileAccess& tile) : on_chip(tile) {}          // NOLINT: reads as a tile
  Side(const BufferAccess& buffer) : in_memory(buffer) {}  // NOLINT: reads as a buffer
  TileAccess on_chip;
  BufferAccess in_memory;
};

struct IndirectOptions {
  bool accumulate = false;  // Adds to the destination
  bool skip = false;        // Rows out of bounds are left; else a fault
};

struct CollectiveOptions {
  ccom_reduction_t reduction = CCOM_ADD;
  ccom_algorithm_t algorithm = CCOM_ALGORITHM_AUTO;
  uint32_t root = 0;                          // in the group
  std::vector<std::vector<uint32_t>> groups;  // of ranks; none: all are one
  uint32_t group_size = 0;                    // needed without groups where sizes depend on it
  std::vector<ccom_pair_t> pairs;
  uint32_t stream = 0;
  uint64_t count = 0;  // elements; 0: as the buffers say, which in place have room for both
  // Columns of a row of tiles; 0: those of the narrower tile. A wider tile gets the rows that
  // follow its partitions' beside them, as several tiles.
  uint32_t row_columns = 0;
  // Of operations whose lengths differ between ranks, as ccom_device_collective_t has them.
  std::vector<uint64_t> counts, displacements, receive_displacements;
};

class Program {
 public:
  // `generation`: 2 (trn1, inf2) or 3 (trn2), for which limits hold and which the file names.
  explicit Program(std::string name, uint8_t generation = 2);

  // Buffers in HBM. Names are those of the model's tensors and variables.
  Buffer input(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape);
  Buffer output(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape);
  Buffer temporary(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape);
  Buffer constant(const std::string& name, uint8_t dtype, std::vector<uint64_t> shape,
                  std::vector<uint8_t> contents);

  // Tiles. Released memory is used again; operations on both tiles are ordered by what they touch.
  Tile sbuf(const std::string& name, uint32_t parts, uint32_t columns, uint8_t dtype);
  Tile psum(const std::string& name, uint32_t parts, uint32_t columns,
            uint8_t dtype = NEURON_DTYPE_F32);
  void release(const Tile& tile);

  // Names the operations that follow, in errors, traces and the line table.
  void section(const std::string& name);
  // How the operations that follow round what they write.
  void rounding(Rounding mode) { rounding_ = mode; }
  // The engine takes part even if it has nothing to do.
  void use(Engine engine);
  // Of a virtual core of this many physical ones (1 or 2) the first runs the program, the other
  // nothing.
  void physical_cores(uint32_t count) { physical_cores_ = count; }

  // Transfers, started by `owner`. Equal numbers of bytes on both sides.
  void dma(Engine owner, const TileAccess& to, const BufferAccess& from);
  void dma(Engine owner, const BufferAccess& to, const TileAccess& from);
  void dma(Engine owner, const BufferAccess& to, const BufferAccess& from);
  // Equal numbers of elements of up to 16 sources.
  void dma_compute(Engine owner, const Side& to, const std::vector<Side>& from,
                   const ComputeOptions& options);
  // Pool writes the descriptors itself. In HBM: constants and temporaries only.
  void dma_generate(const Side& to, const Side& from, uint8_t operation = NEURON_DMA_COPY,
                    float scale = 0);
  void dma_gather(const TileAccess& to, const Buffer& rows, const TileAccess& index,
                  const IndirectOptions& options = {});
  void dma_scatter(const Buffer& rows, const TileAccess& index, const TileAccess& from,
                   const IndirectOptions& options = {});

  // Among the ranks that run this program, as a collective core does it: `owner` starts it, the
  // others go on. `input` and `output` are temporaries, all of them; in place if they are one.
  // Collectives of a stream have one owner and come one after the other. Not in loops.
  void collective(Engine owner, ccom_operation_t operation, const Buffer& output,
                  const Buffer& input, const CollectiveOptions& options = {});
  // Of tiles in SBUF, or of a contiguous part of a temporary. Elements are in the order of the rows
  // of a tile.
  void collective(Engine owner, ccom_operation_t operation, const Side& output, const Side& input,
                  const CollectiveOptions& options = {});

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
  // Over the `axes` innermost dimensions.
  void tensor_reduce(const TileAccess& to, uint8_t op, const TileAccess& from, uint8_t axes = 1,
                     bool negate = false);
  // state = (a op0 state) op1 b; to = state
  void tensor_tensor_scan(const TileAccess& to, const TileAccess& a, uint8_t op0, uint8_t op1,
                          const TileAccess& b, const ScalarArgument& initial, bool reverse0 = false,
                          bool reverse1 = false);
  void reciprocal(const TileAccess& to, const TileAccess& from);
  // Where the predicate is not 0 (invert: is 0); other elements stay.
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
  // The accumulators of Activation or DVE, as one column.
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

  // A hardware loop: what `body` lists (it is called once) happens `rounds` times in a row.
  // Accesses that are advancing() move with each round; tiles are allocated outside. For double
  // buffering, the body works on two sets of tiles, one after the other. Loops do not nest.
  void loop(uint32_t rounds, const std::function<void()>& body);

  // An instruction as it is, unchecked and unordered; for programs that show what goes wrong.
  void raw(Engine engine, isa::Instruction instruction);

  bool ok() const { return !error_; }
  const std::string& name() const { return name_; }
  // The file. Ends the program: waits for all transfers, returns from every engine.
  runtime::Result<std::vector<uint8_t>> build();

 private:
  friend class NeffEmitter;

  // A piece of work before it has a place: an instruction, or a transfer that one starts.
  struct Item {
    unsigned engine = 0;
    Step step;
    std::vector<Region> reads, writes;
    bool moves = false;  // DMA reads and writes, not the engine
    int32_t slot = -1;
    Point point;  // Where it was placed last
  };

  Buffer add_buffer(BufferInfo info);
  Tile allocate(OnChipAllocator& allocator, uint8_t space, const std::string& name, uint32_t parts,
                uint32_t columns, uint8_t dtype);
  void fail(runtime::Error error);
  bool open() const { return !error_ && !finished_; }
  uint32_t add_label(uint32_t tile, int32_t buffer);
  // Checks and appends.
  void emit(Draft draft);
  void transfer(unsigned engine, const Side& to, const std::vector<Side>& from,
                const ComputeOptions& options);
  void generated(Draft draft, std::vector<AddressField> addresses);
  bool check_instruction(unsigned engine, const isa::Instruction& instruction);
  std::optional<BufferAccess> memory_side(const Side& side, bool write);
  std::optional<BufferAccess> on_chip_side(const TileAccess& access);
  bool check_buffer_side(const BufferAccess& access, bool write);
  std::optional<SharedSide> shared_side(const Side& side, bool write);
  bool place_collective(CollectiveStep& entry, const SharedSide& output, const SharedSide& input,
                        const CollectiveOptions& options, uint64_t ranks);
  void add(Item item);
  enum class Round : uint8_t { kOnly, kPrevious, kLast };  // Of a loop, the last two
  void place(Item& item, Round round);
  void repeat(std::vector<Item> body);
  void enter_loop(std::vector<Item>& body);
  void place_transfer(Item& item, Step& step, Round round);
  // What the step must wait for; the points then count as known to the engine.
  void order(unsigned engine, Step& step, std::vector<Point> points, bool own_engine_too);
  uint32_t take_slot(unsigned engine, Step& step);
  void finish();

  std::string name_;
  const isa::Limits limits_;
  std::vector<BufferInfo> buffers_;
  std::vector<TileInfo> tiles_;
  OnChipAllocator sbuf_;
  OnChipAllocator psum_;
  std::array<std::vector<Step>, NEURON_CORE_ENGINES> steps_;
  std::array<std::vector<StepPoint>, NEURON_CORE_ENGINES> points_;
  std::array<bool, NEURON_CORE_ENGINES> used_{};
  uint32_t physical_cores_ = 1;
  std::vector<Transfer> transfers_;
  std::vector<CollectiveStep> collectives_;
  std::vector<Slot> slots_;
  std::array<uint32_t, NEURON_CORE_ENGINES> next_id_{};
  Accesses accesses_;
  Knowledge knowledge_;
  uint64_t issue_ = 0;
  std::vector<Label> labels_;
  std::vector<LoopInfo> loops_;
  bool recording_ = false;  // Inside a loop's body
  uint32_t rounds_ = 1;     // Of that loop
  std::vector<Item> recorded_;
  std::array<size_t, NEURON_CORE_ENGINES> cursor_{};  // Next step of the loop's last round
  std::string section_ = "main";
  uint32_t line_ = 0;
  Rounding rounding_ = Rounding::kCoreMode;
  TileAccess weights_;  // Loaded last, to check the shape of the next matmul
  std::optional<runtime::Error> error_;
  bool finished_ = false;
};

}  // namespace neuron::builder

#endif
