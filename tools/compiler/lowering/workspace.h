// SPDX-License-Identifier: Apache-2.0
//
// The memory that tasks of a lowered graph work with: where each value lies in HBM, and tiles of
// SBUF that go round.
//
// Concept: inside a program every element has 4 bytes, f32 or i32, so that moves need not know
// types; the border converts. Tiles are lent as registers and come back when the last holder lets
// go; the tile that has rested longest is lent next, so that neighbouring tasks do not wait for one
// another.
// Callers: the tasks. Thread-safe: no. Owns the program and the tiles. Fails: the program keeps the
// first error.
#ifndef TOOLS_COMPILER_LOWERING_WORKSPACE_H
#define TOOLS_COMPILER_LOWERING_WORKSPACE_H

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tools/compiler/graph/graph.h"
#include "tools/compiler/lowering/memory.h"
#include "tools/compiler/lowering/residents.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::lowering {

using builder::Buffer;
using builder::BufferAccess;
using builder::Engine;
using builder::Program;
using builder::Tile;
using builder::TileAccess;
using graph::Graph;
using graph::Node;
using graph::Value;

// A tile of one lane a partition and kWidth columns; shared by those that still read it.
using Register = std::shared_ptr<const Tile>;

// What lies between the regions of a move, as the bits of an element.
uint32_t fill_bits(const Node& move);

class Workspace {
 public:
  static constexpr uint32_t kWidth = 512;
  static constexpr uint64_t kMostRuns = 1 << 19;  // of bytes in one transfer
  static constexpr unsigned kRegisters = 48;
  // With values that stay in SBUF there are fewer, and the values have so many columns.
  static constexpr unsigned kFewRegisters = 16;
  static constexpr uint32_t kResidentColumns = 70 * 1024 / 4;
  // Columns of weights and padded images on their way.
  static constexpr uint32_t kStreamColumns = 64 * 1024 / 4;

  Workspace(const Graph& graph, uint8_t generation, bool resident);

  const Graph& graph;   // NOLINT: tasks read it
  Program program;      // NOLINT: tasks write it
  Memory memory;        // NOLINT: of what has its place in HBM
  std::string layer;    // NOLINT: the node of the model that is lowered
  Residents residents;  // NOLINT: tasks use it

  // Whether values stay in SBUF between tasks.
  bool resident() const { return resident_; }

  const Node& node(Value value) const { return graph.nodes[static_cast<size_t>(value)]; }
  // The type that the elements of a value have inside the program.
  static uint8_t dtype_of(graph::Type type);

  // Where the value is in HBM; a constant gets its place, and a value in SBUF is stored, when it is
  // first asked for.
  const Buffer& place(Value value);
  bool has_place(Value value) const { return places_[static_cast<size_t>(value)].present(); }
  // Tensors of the caller that have their names already.
  void declare(const std::string& name, const Buffer& output) { declared_[name] = output; }
  Buffer declared(const std::string& name) const {
    const auto found = declared_.find(name);
    return found == declared_.end() ? Buffer{} : found->second;
  }
  // The value will be made there.
  void set_destination(Value value, const Buffer& output) { destinations_[value] = output; }
  void set_place(Value value, const Buffer& buffer);
  // A new place for the value.
  const Buffer& make_place(Value value);
  Buffer temporary(uint8_t dtype, uint64_t elements);
  Buffer constant(uint8_t dtype, uint64_t elements, std::vector<uint8_t> bytes);
  // The place of the value with `columns` in a row, that generated transfers can address.
  Buffer table(Value value, uint64_t rows, uint64_t columns);
  // A name that no tensor of the model has.
  std::string unused_name(const char* kind);

  // True and the number if all elements of the constant are one number.
  bool uniform(Value value, double& number) const;

  // Whether a map that rounds to whole numbers reads the value of the node.
  bool is_rounded(const Node& made) const { return rounded_.count(&made) != 0; }

  Register lend();
  // Whether Activation should do, and does, what both engines do with equal bits: they take turns
  // by the work that they have had. Without residents, DVE does it.
  bool activation_is_idle(uint32_t columns) {
    if (!resident_) return false;
    if (activation_work_ > vector_work_) return false;
    activation_works(columns);
    return true;
  }
  // Copies elements within SBUF, real ones by whichever of the two engines has had less work.
  void copy(const TileAccess& to, const TileAccess& from);
  // Work that only this engine could do, in cycles of DVE.
  void vector_works(double cycles) { works(vector_work_, cycles + kStartOfVector); }
  // 1.4 and 1.12 GHz; a dependent instruction waits longer on Activation.
  void activation_works(double columns) {
    works(activation_work_, 0.8 * columns + kStartOfActivation);
  }
  // Whether Pool should add, and adds, what Activation has multiplied, instead of DVE doing both.
  bool pool_is_idle(uint32_t columns) {
    const double cycles = 1.6 * columns + kStartOfPool;
    if (!resident_ || pool_work_ + cycles > vector_work_ + 2 * columns + kStartOfVector) {
      return false;
    }
    works(pool_work_, cycles);
    activation_works(columns);
    return true;
  }
  // Gives registers that rest back to SBUF, for tasks that need much of it.
  void trim();
  // Takes SBUF for stream(), before a task takes what else it needs.
  void reserve_stream();
  // Room for weights of all partitions, until the holder lets go and younger ones need it.
  std::shared_ptr<const Tile> stream(uint32_t columns);
  // The oldest of it that lies where values do; false if there is none.
  bool give_back_lent();
  // Gives that room back, too.
  void trim_stream();
  void no_room(const std::string& origin);

  // Elements [first, first + parts * columns) of a buffer, row after row.
  static BufferAccess rows(const Buffer& buffer, uint64_t first, uint32_t parts, uint32_t columns);
  void load(const TileAccess& to, const BufferAccess& from);
  void store(const BufferAccess& to, const TileAccess& from);
  void copy(const BufferAccess& to, const BufferAccess& from);

  // Calls body(first, parts, columns) for pieces of `elements` that fill registers best.
  template <class Body>
  static void for_pieces(uint64_t elements, const Body& body);

 private:
  const bool resident_;
  std::vector<Buffer> places_;
  std::map<const graph::Tensor*, Buffer> elements_;  // places of constants
  std::map<Value, Buffer> destinations_;
  std::map<std::string, Buffer> declared_;
  Arena stream_;
  // Room on its way, the oldest first.
  struct Streamed {
    std::shared_ptr<const Tile> tile;
    bool lent = false;  // by the values
  };
  std::deque<Streamed> streamed_;
  std::set<int32_t> early_;  // buffers that are there before the program starts
  std::set<const Node*> rounded_;
  std::set<std::string> tensors_;  // names of inputs and outputs
  std::shared_ptr<std::deque<Tile>> resting_;
  static constexpr double kStartOfVector = 100, kStartOfActivation = 200, kStartOfPool = 400;
  // Long ago does not matter: what one engine is behind by does not wait for the other.
  static constexpr double kFarthestBehind = 8192;
  void works(double& mine, double cycles) {
    mine += cycles;
    for (double* one : {&activation_work_, &vector_work_, &pool_work_}) {
      *one = std::max(*one, mine - kFarthestBehind);
    }
  }
  double activation_work_ = 0, vector_work_ = 0, pool_work_ = 0;
  unsigned lent_ = 0;
  uint64_t names_ = 0;
  unsigned loads_ = 0;
};

template <class Body>
void Workspace::for_pieces(uint64_t elements, const Body& body) {
  constexpr uint64_t kLanes = NEURON_PARTITIONS;
  // Rows below 64 columns cost as much as those of 64.
  constexpr uint64_t kLeast = 64;
  for (uint64_t first = 0; first < elements;) {
    const uint64_t rest = elements - first;
    uint64_t columns = kWidth, parts = kLanes;
    if (rest < kLanes * kWidth) {
      columns = std::min(rest, std::max((rest + kLanes - 1) / kLanes, kLeast));
      parts = rest / columns;
    }
    body(first, static_cast<uint32_t>(parts), static_cast<uint32_t>(columns));
    first += parts * columns;
  }
}

}  // namespace neuron::lowering

#endif
