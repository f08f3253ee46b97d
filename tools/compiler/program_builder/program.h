// SPDX-License-Identifier: Apache-2.0
//
// A program for one NeuronCore, written operation by operation: the interface for compiler back
// ends.
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
#include <string>
#include <vector>

#include "driver/base/format.h"
#include "driver/isa/instruction.h"
#include "runtime/base/error.h"
#include "tools/compiler/program_builder/access.h"
#include "tools/compiler/program_builder/buffers.h"
#include "tools/compiler/program_builder/control_flow.h"
#include "tools/compiler/program_builder/draft.h"
#include "tools/compiler/program_builder/engine_operations.h"
#include "tools/compiler/program_builder/on_chip_allocator.h"
#include "tools/compiler/program_builder/program_parts.h"
#include "tools/compiler/program_builder/schedule.h"

namespace neuron::builder {

enum class Rounding : uint8_t { kCoreMode = 0, kNearestEven = 1, kStochastic = 2 };

// One side of a transfer that computes or is generated.
struct Side {
  Side(const TileAccess& tile) : on_chip(tile) {}          // NOLINT: reads as a tile
  Side(const BufferAccess& buffer) : in_memory(buffer) {}  // NOLINT: reads as a buffer
  TileAccess on_chip;
  BufferAccess in_memory;
};

// How a file holds the constants of its program.
enum class ConstantStorage : uint8_t { kPlain, kCompressed };

struct IndirectOptions {
  bool accumulate = false;  // Adds to the destination
  bool skip = false;        // Rows out of bounds are left; else a fault
  uint64_t first = 0;       // Bytes of each row before those that move
  uint64_t row_bytes = 0;   // Bytes of each row that move; 0: the whole row
  uint64_t rows = 0;        // An index from here on is out of bounds; 0: those of the table
  uint8_t priority = 0;     // Class of service, 0 is served first; others need generation 4
};

struct CollectiveOptions {
  ccom_reduction_t reduction = CCOM_ADD;
  ccom_algorithm_t algorithm = CCOM_ALGORITHM_AUTO;
  uint32_t root = 0;                          // in the group
  std::vector<std::vector<uint32_t>> groups;  // of ranks; none: all are one
  uint32_t group_size = 0;                    // needed without groups where sizes depend on it
  std::vector<ccom_pair_t> pairs;
  uint32_t stream = 0;
  uint64_t count = 0;  // elements; 0: taken from the buffers, which in place have room for both
  // Columns of a row of tiles; 0: those of the narrower tile. A wider tile holds several tiles side
  // by side: the rows after the first ones follow in the same partitions.
  uint32_t row_columns = 0;
  // For operations whose lengths differ between ranks; as in ccom_device_collective_t.
  std::vector<uint64_t> counts, displacements, receive_displacements;
};

class Program : public EngineOperations, public Buffers {
 public:
  // `generation`: 2 (trn1, inf2), 3 (trn2) or 4 (trn3); it sets the limits, and the file names it.
  explicit Program(std::string name, uint8_t generation = 2);

  // Tiles. Released memory is used again; operations on the old and the new tile are ordered by the
  // memory they touch.
  Tile sbuf(const std::string& name, uint32_t parts, uint32_t columns, uint8_t dtype);
  Tile psum(const std::string& name, uint32_t parts, uint32_t columns,
            uint8_t dtype = NEURON_DTYPE_F32);
  void release(const Tile& tile);
  // A tile at a place that the caller chose: partition `start`, byte `base` of each partition. No
  // tile that the program places itself will lie there, but two such tiles may overlap.
  Tile tile_at(uint8_t space, const std::string& name, uint32_t start, uint32_t base,
               uint32_t parts, uint32_t columns, uint8_t dtype);

  // Names the operations that follow, in errors, traces and the line table.
  void section(const std::string& name) { schedule_.journal().section(name); }
  // The rounding mode of the operations that follow.
  void rounding(Rounding mode) { rounding_ = mode; }
  // The engine takes part even if it has nothing to do.
  void use(Engine engine) { schedule_.use(static_cast<unsigned>(engine)); }
  // The number of physical cores (1 or 2) of the virtual core. The first one runs the program, the
  // other `second`, or nothing. The two programs meet in pair_operations.h alone; all their inputs
  // have different names, and all their outputs. build() ends both; `second` must live until then.
  void physical_cores(uint32_t count, Program* second = nullptr) {
    physical_cores_ = count;
    second_ = second;
  }

  // Transfers, started by `owner`. Equal numbers of bytes on both sides.
  void dma(Engine owner, const TileAccess& to, const BufferAccess& from);
  void dma(Engine owner, const BufferAccess& to, const TileAccess& from);
  void dma(Engine owner, const BufferAccess& to, const BufferAccess& from);
  // Equal numbers of elements of up to 16 sources. NEURON_DMA_COMPRESS makes one compressed stream
  // (hw/compressed_stream.h) of all bytes of one source, with zeros behind it;
  // NEURON_DMA_DECOMPRESS takes the content, as long as `to`, of the stream that the source begins
  // with. Each side of these has at most 1048575 bytes, in at most 64 contiguous runs.
  void dma_compute(Engine owner, const Side& to, const std::vector<Side>& from,
                   const ComputeOptions& options);
  // Pool writes the descriptors itself. In HBM: constants and temporaries only.
  void dma_generate(const Side& to, const Side& from, uint8_t operation = NEURON_DMA_COPY,
                    float scale = 0, uint8_t priority = 0);
  void dma_gather(const TileAccess& to, const Buffer& rows, const TileAccess& index,
                  const IndirectOptions& options = {});
  void dma_scatter(const Buffer& rows, const TileAccess& index, const TileAccess& from,
                   const IndirectOptions& options = {});

  // A collective operation among the ranks that run this program, executed by a collective core:
  // `owner` starts it, the other engines go on. `input` and `output` are whole temporaries; the
  // operation is in place if they are the same. Collectives of a stream have one owner and run one
  // after the other. Not in loops.
  void collective(Engine owner, ccom_operation_t operation, const Buffer& output,
                  const Buffer& input, const CollectiveOptions& options = {});
  // The same on tiles in SBUF, or on a contiguous part of a temporary. Elements are in the order of
  // the rows of a tile.
  void collective(Engine owner, ccom_operation_t operation, const Side& output, const Side& input,
                  const CollectiveOptions& options = {});

  // A hardware loop: the operations that `body` lists (it is called once) happen `rounds` times.
  // Accesses that are advancing() move with each round; tiles are allocated outside. For double
  // buffering, the body works on two sets of tiles, one after the other. Loops nest: engines go
  // through an innermost loop each at its own pace, and meet at each round of a loop around
  // others. Loops with a number of rounds that the device knows, branches and functions: control().
  // One whose rounds a word decides: Schedule::begin_while, by parts().
  void loop(uint32_t rounds, const std::function<void()>& body) { schedule_.loop(rounds, body); }
  ControlFlow control() { return ControlFlow(schedule_, buffers_); }

  // The functions of table set `set` (1 to 255), which `table` holds in the form of
  // hw/activation_table.h: a constant or temporary. A device has one set at a time; `activate`
  // names it, and its functions by their numbers.
  void load_table(uint8_t set, const Buffer& table);

  // Adds an instruction unchecked and unordered; for programs that must fail.
  void raw(Engine engine, isa::Instruction instruction);

  bool ok() const { return !schedule_.journal().error(); }
  const std::string& name() const { return schedule_.journal().program(); }
  // For front ends that ask for room before they place a tile, name lines of their own sources, and
  // report on what was written.
  struct Parts {
    Schedule& schedule;
    OnChipAllocator& sbuf;
    OnChipAllocator& psum;
    OnChipAllocator& memory(uint8_t space) const {
      return space == NEURON_SPACE_PSUM ? psum : sbuf;
    }
  };
  Parts parts() { return {schedule_, sbuf_, psum_}; }
  // Returns the file. Ends the program: waits for all transfers and returns from every engine.
  // A file may store the constants compressed; its programs find the same bytes.
  runtime::Result<std::vector<uint8_t>> build(ConstantStorage constants = ConstantStorage::kPlain);

 private:
  friend class NeffEmitter;
  friend class OperatorCaller;  // custom_call.h

  Schedule& schedule_of_buffers() override { return schedule_; }
  Tile allocate(OnChipAllocator& allocator, uint8_t space, const std::string& name, uint32_t parts,
                uint32_t columns, uint8_t dtype);
  void fail(const runtime::Error& error) { schedule_.journal().fail(error); }
  void emit(Draft draft) override;
  void transfer(unsigned engine, const Side& to, const std::vector<Side>& from,
                const ComputeOptions& options);
  void generated(Draft draft, std::vector<AddressField> addresses);
  bool check_instruction(unsigned engine, const isa::Instruction& instruction);
  bool check_reach(const Draft& draft);
  std::optional<BufferAccess> memory_side(const Side& side, bool write);
  std::optional<BufferAccess> on_chip_side(const TileAccess& access);
  bool check_buffer_side(const BufferAccess& access, bool write);
  std::optional<SharedSide> shared_side(const Side& side, bool write);
  bool place_collective(CollectiveStep& entry, const SharedSide& output, const SharedSide& input,
                        const CollectiveOptions& options, uint64_t ranks);

  const isa::Limits limits_;
  std::vector<TileInfo> tiles_;
  OnChipAllocator sbuf_;
  OnChipAllocator psum_;
  Schedule schedule_;
  uint32_t physical_cores_ = 1;
  ConstantStorage constant_storage_ = ConstantStorage::kPlain;
  Program* second_ = nullptr;
  Rounding rounding_ = Rounding::kCoreMode;
};

}  // namespace neuron::builder

#endif
