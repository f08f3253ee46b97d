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
#ifndef TOOLS_PROGRAM_BUILDER_PROGRAM_H_
#define TOOLS_PROGRAM_BUILDER_PROGRAM_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "driver/isa/instruction.h"
#include "runtime/base/error.h"
#include "tools/program_builder/access.h"
#include "tools/program_builder/on_chip_allocator.h"
#include "tools/program_builder/ordering.h"

namespace neuron::builder {

enum class Engine : std::uint8_t {
  kPe = NEURON_ENGINE_PE,
  kActivation = NEURON_ENGINE_ACTIVATION,
  kPool = NEURON_ENGINE_POOL,
  kDve = NEURON_ENGINE_DVE,
  kSp = NEURON_ENGINE_SP,
};

enum class BufferKind : std::uint8_t { kInput, kOutput, kConstant, kTemporary };

// The second operand of a scalar operation: nothing, a number, or a tile of one column.
struct ScalarArgument {
  ScalarArgument() = default;
  ScalarArgument(float number) : value(number), is_number(true) {}  // NOLINT: reads as a number
  ScalarArgument(const TileAccess& tile) : access(tile) {}          // NOLINT: reads as a tile
  float value = 0;
  bool is_number = false;
  TileAccess access;
};

struct ActivateOptions {
  ScalarArgument scale;                      // Absent: 1
  ScalarArgument bias;                       // Absent: 0; a tile
  std::uint8_t reduce = NEURON_REDUCE_IDLE;  // Sum of the outputs, into the accumulators
};

// What build() and its helpers see; not for callers.
struct BufferInfo {
  std::string name;
  BufferKind kind = BufferKind::kTemporary;
  std::uint8_t dtype = NEURON_DTYPE_NONE;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  std::vector<std::uint8_t> contents;  // Constants
};

struct Transfer {
  std::uint32_t id = 0;
  unsigned engine = 0;
  std::string queue;
  std::uint32_t slot = 0;      // DMA agent - kFirstDmaAgent
  std::uint32_t sequence = 0;  // Of the slot
  BufferAccess from, to;       // buffer kOnChip: SBUF
  static constexpr std::int32_t kOnChip = 1 << 30;
  static constexpr const char* kOnChipName = "sbuf";  // Its variable in def.json
};

struct Step {
  isa::Instruction instruction;
  std::vector<Point> waits;
  bool signals = false;  // Another agent waits for this one
  std::int32_t transfer = -1;
  std::uint32_t label = 0;  // Index of the operation's line
};

struct Label {
  std::string section;
  std::uint32_t line = 0;  // Operation in the section, from 1
};

class Program {
 public:
  explicit Program(std::string name);

  // Buffers in HBM. Names are those of the model's tensors and variables.
  Buffer input(const std::string& name, std::uint8_t dtype, std::vector<std::uint64_t> shape);
  Buffer output(const std::string& name, std::uint8_t dtype, std::vector<std::uint64_t> shape);
  Buffer temporary(const std::string& name, std::uint8_t dtype, std::vector<std::uint64_t> shape);
  Buffer constant(const std::string& name, std::uint8_t dtype, std::vector<std::uint64_t> shape,
                  std::vector<std::uint8_t> contents);

  // Tiles. Released memory is used again; operations on both tiles are ordered by what they touch.
  Tile sbuf(const std::string& name, std::uint32_t parts, std::uint32_t columns,
            std::uint8_t dtype);
  Tile psum(const std::string& name, std::uint32_t parts, std::uint32_t columns,
            std::uint8_t dtype = NEURON_DTYPE_F32);
  void release(const Tile& tile);

  // Names the operations that follow, in errors, traces and the line table.
  void section(const std::string& name);
  // The engine takes part even if it has nothing to do.
  void use(Engine engine);

  // Transfers, started by `owner`. Equal numbers of bytes on both sides.
  void dma(Engine owner, const TileAccess& to, const BufferAccess& from);
  void dma(Engine owner, const BufferAccess& to, const TileAccess& from);
  void dma(Engine owner, const BufferAccess& to, const BufferAccess& from);

  // PE: psum (+)= transpose(stationary) * moving.
  void load_weights(const TileAccess& stationary);
  void multiply(const TileAccess& psum, const TileAccess& moving, bool accumulate,
                bool swap = true);
  void matmul(const TileAccess& psum, const TileAccess& stationary, const TileAccess& moving,
              bool accumulate = false);

  // DVE and Pool.
  void tensor_tensor(Engine engine, const TileAccess& to, const TileAccess& a, std::uint8_t op,
                     const TileAccess& b);
  void tensor_scalar(Engine engine, const TileAccess& to, const TileAccess& from, std::uint8_t op0,
                     const ScalarArgument& s0, std::uint8_t op1 = NEURON_ALU_BYPASS,
                     const ScalarArgument& s1 = {});
  void tensor_reduce(const TileAccess& to, std::uint8_t op, const TileAccess& from,
                     std::uint8_t axes = 1, bool negate = false);
  void tensor_copy(Engine engine, const TileAccess& to, const TileAccess& from);
  void reciprocal(const TileAccess& to, const TileAccess& from);
  void memset(Engine engine, const TileAccess& to, std::uint32_t bits);

  // Activation: to = function(from * scale + bias).
  void activate(const TileAccess& to, std::uint8_t function, const TileAccess& from,
                const ActivateOptions& options = {});
  // The accumulators of Activation or DVE, as one column.
  void read_accumulator(Engine engine, const TileAccess& to);

  // An instruction as it is, unchecked and unordered; for programs that show what goes wrong.
  void raw(Engine engine, isa::Instruction instruction);

  bool ok() const { return !error_; }
  const std::string& name() const { return name_; }
  // The file. Ends the program: waits for all transfers, returns from every engine.
  runtime::Result<std::vector<std::uint8_t>> build();

 private:
  friend class NeffEmitter;

  Buffer add_buffer(BufferInfo info);
  Tile allocate(OnChipAllocator& allocator, std::uint8_t space, const std::string& name,
                std::uint32_t parts, std::uint32_t columns, std::uint8_t dtype);
  void fail(runtime::Error error);
  bool usable(std::initializer_list<const TileAccess*> accesses);
  isa::Operand operand(const TileAccess& access);
  isa::Scalar scalar(const ScalarArgument& argument, std::vector<Region>& reads);
  isa::Instruction make(std::uint16_t opcode, unsigned engine);
  // Checks, orders and appends.
  void emit(unsigned engine, isa::Instruction instruction, const std::vector<Region>& reads,
            const std::vector<Region>& writes);
  void transfer(unsigned engine, BufferAccess to, BufferAccess from, const Region& written,
                const Region& read);
  std::optional<BufferAccess> on_chip_side(const TileAccess& access);
  bool check_buffer_side(const BufferAccess& access, bool write);
  // What the step must wait for; the points then count as known to the engine.
  void order(unsigned engine, Step& step, std::vector<Point> points, bool own_engine_too);
  std::uint32_t take_slot(unsigned engine, Step& step);
  void finish();

  std::string name_;
  std::vector<BufferInfo> buffers_;
  OnChipAllocator sbuf_;
  OnChipAllocator psum_;
  std::array<std::vector<Step>, NEURON_CORE_ENGINES> steps_;
  std::array<bool, NEURON_CORE_ENGINES> used_{};
  std::vector<Transfer> transfers_;
  std::vector<Point> slots_;  // Last transfer of each DMA agent
  std::array<std::uint32_t, NEURON_CORE_ENGINES> next_id_{};
  Accesses accesses_;
  Knowledge knowledge_;
  std::uint64_t issue_ = 0;
  std::vector<Label> labels_;
  std::string section_ = "main";
  std::uint32_t line_ = 0;
  TileAccess weights_;  // Loaded last, to check the shape of the next matmul
  std::optional<runtime::Error> error_;
  bool finished_ = false;
};

}  // namespace neuron::builder

#endif  // TOOLS_PROGRAM_BUILDER_PROGRAM_H_
