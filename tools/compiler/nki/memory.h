// SPDX-License-Identifier: Apache-2.0
//
// The tiles and HBM tensors of a trace in the memory of the chip.
//
// A tile that Python dropped keeps its place until the room is needed: reusing it at once would
// make the engines wait for each other. Tensors that other ranks reach are
// temporaries, because only their addresses are known when the file is written; inputs are copied
// into them, outputs from them at the end.
// Callers: lowering and the operations of this folder. Thread-safe: no. Borrows the Program.
// Fails: resolve() returns an absent access after the program's first error, which says what did
// not fit and which tiles hold the space, with the lines that made them.
#ifndef TOOLS_COMPILER_NKI_MEMORY_H
#define TOOLS_COMPILER_NKI_MEMORY_H

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tools/compiler/nki/record.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::nki {

// Where a tile lies, or lay before another got its place.
struct TilePlace {
  std::string name;
  std::string file;
  uint32_t line = 0;
  bool psum = false;
  uint32_t start = 0, parts = 0;  // Partitions
  uint64_t base = 0, bytes = 0;   // Of each partition
};

// Of the barriers of an engine: two cores count those of each engine apart.
constexpr uint8_t barrier_semaphore(builder::Engine engine) {
  return static_cast<uint8_t>(NEURON_SEM_PAIR_FIRST + static_cast<uint8_t>(engine));
}

class Memory {
 public:
  // `suffix` goes behind the names of inputs and outputs.
  Memory(builder::Program& program, const std::vector<std::string>& files, std::string suffix)
      : program_(program), files_(files), suffix_(std::move(suffix)) {}

  // The program is one of two, of a virtual core of two physical ones. `second`: the other one is
  // the first.
  void is_of_pair(bool second) {
    pair_ = true;
    second_ = second;
  }
  // Tensors that other ranks reach, and places that tiles ask for: known before the first operation
  // is lowered.
  void reach_by_ranks(uint32_t tensor) { reached_by_ranks_.insert(tensor); }
  bool reached_by_ranks(uint32_t tensor) const { return reached_by_ranks_.count(tensor) != 0; }
  runtime::Result<void> reserve(Record& record);

  // The kernel is part of a larger program: its inputs and outputs are these buffers, in the order
  // of the trace, and names of its own buffers begin with `prefix`. Borrows nothing.
  void give(std::deque<builder::Buffer> inputs, std::deque<builder::Buffer> outputs,
            const std::string& prefix);
  // All tiles go back to the program.
  void release_all();
  runtime::Result<void> declare_tensor(Record& record);
  runtime::Result<void> declare_tile(Record& record);
  runtime::Result<void> drop_tile(Record& record);
  // Ends the tiles that are not used again, though they are not dropped yet. False: there is none.
  bool end_tiles(const std::function<bool(uint32_t)>& unused);
  // Between these, the body of a loop whose rounds the device decides: tiles from before it stay to
  // its end, because the next round needs them, and constants that it makes are its own.
  void enter_loop() { ++depth_; }
  void leave_loop();
  // True if the tile was made outside the innermost of these loops.
  bool outside_loop(const Operand& operand) const;
  // Copies outputs that were reached by index out of their temporaries.
  void finish();

  // What an operand names. The pattern's dimensions are merged where they continue each other;
  // `keep` innermost ones (before merging) stay apart from the others, and `kept` is what is left
  // of them.
  runtime::Result<builder::TileAccess> tile(const Operand& operand, size_t keep = 0,
                                            uint32_t* kept = nullptr);
  runtime::Result<builder::BufferAccess> buffer(const Operand& operand, bool write);
  runtime::Result<builder::Side> side(const Operand& operand, bool write);
  // A tensor as a table of rows of `row_elements` elements, for transfers by index.
  runtime::Result<builder::Buffer> rows(const Operand& operand, uint64_t row_elements);
  runtime::Result<builder::ScalarArgument> scalar(const ScalarOperand& operand);

  // A tile of the lowering's own, dropped by drop_own().
  runtime::Result<builder::Tile> own_tile(uint8_t space, const std::string& name, uint32_t parts,
                                          uint32_t columns, uint8_t dtype);
  void drop_own();
  // One column of all partitions that holds this number.
  runtime::Result<builder::TileAccess> constant_column(float value, uint32_t start, uint32_t parts);

  // All tiles of the trace, for messages about a place on the chip.
  std::vector<TilePlace> places() const;

  bool in_psum(const Operand& operand) const;
  // TileAccess::tile of its accesses; 0: there is none.
  uint32_t number_of(uint32_t tile) const;
  // "tile \"x\" (kernel.py:12)".
  std::string describe(uint32_t tile) const;

 private:
  struct TileState {
    builder::Tile tile;
    uint8_t space = NEURON_SPACE_ABSENT;
    uint32_t parts = 0;
    uint64_t bytes = 0;  // Of a partition
    std::string name;
    uint32_t file = 0, line = 0;
    bool placed_by_caller = false;
    bool dropped = false;
    bool ended = false;  // By end_tiles(): the trace drops it later
    uint32_t depth = 0;  // Of the loops of the device around its line
  };
  struct TensorState {
    builder::Buffer buffer;   // Where operations find it
    builder::Buffer outside;  // The input or output itself, if that is another
    bool writable = false;
    uint64_t bytes = 0;
    std::string name;
  };

  runtime::Result<builder::TileAccess> indirect_tile(const Operand& operand, uint32_t* kept);
  void begin_as_argument(const TensorState& state, uint8_t dtype,
                         const std::vector<uint64_t>& shape);
  runtime::Result<void> take_given(TensorState& state, bool reads, bool writes);
  runtime::Result<builder::Tile> place(uint8_t space, const std::string& name, uint32_t parts,
                                       uint32_t columns, uint8_t dtype);
  runtime::Result<builder::Buffer> find_tensor(const Operand& operand, bool write);
  std::string holders(uint8_t space, uint32_t parts, uint64_t wanted) const;
  std::string place_of(uint32_t file, uint32_t line) const;

  builder::Program& program_;
  const std::vector<std::string>& files_;
  std::string suffix_;
  std::map<uint32_t, TileState> tiles_;
  std::map<uint32_t, TensorState> tensors_;
  std::set<uint32_t> reached_by_ranks_;
  std::deque<builder::Tile> dropped_[3];  // By space, oldest first
  std::vector<builder::Tile> own_;
  struct Column {
    builder::Tile tile;
    uint32_t depth = 0;
  };
  std::map<uint32_t, Column> columns_;  // By the bits of the number
  uint32_t depth_ = 0;                  // Of loops of the device that are open
  std::vector<uint32_t> held_;          // Tiles that were dropped in a loop they are older than
  std::vector<TensorState> to_copy_out_;
  bool pair_ = false, second_ = false;
  bool given_ = false;  // inputs and outputs are buffers of a larger program
  std::deque<builder::Buffer> given_inputs_, given_outputs_;
  std::string prefix_;
};

}  // namespace neuron::nki

#endif
