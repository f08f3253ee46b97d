// SPDX-License-Identifier: Apache-2.0
//
// The maps of a group on one piece of their values: as many elements as a register has.
// Callers: the tasks of maps and products. Thread-safe: no. Borrows workspace, lanes and exchange.
// Fails: the program keeps the first error.
#ifndef TOOLS_COMPILER_LOWERING_PIECE_H
#define TOOLS_COMPILER_LOWERING_PIECE_H

#include <map>
#include <optional>

#include "tools/compiler/lowering/functions.h"
#include "tools/compiler/lowering/tasks.h"

namespace neuron::lowering {

// Where a piece gets its operands and leaves its results.
class Exchange {
 public:
  virtual Lane load(Lanes& lanes, Value value) = 0;
  virtual void store(Lanes& lanes, Value value, const Lane& lane) = 0;
  // Where the value may be written at once.
  virtual TileAccess target(Value) { return {}; }

 protected:
  ~Exchange() = default;
};

class Piece {
 public:
  Piece(Workspace& work, uint32_t parts, uint32_t columns, Exchange& exchange)
      : work_(work), lanes_(work, parts, columns), exchange_(exchange) {}

  void share(bool shares) { lanes_.share(shares); }
  // The elements of a value that somebody else has made.
  void give(Value value, const TileAccess& view) {
    values_[value] = {Lane{nullptr, view.dtype, view}, false, 0};
  }
  // Computes the members, stores what is wanted elsewhere.
  void run(const MapGroup& group, const std::map<Value, size_t>& last_use);

 private:
  void compute(Value value, bool stored, bool once);
  // Of arithmetic with one number or one for each row: what it is done with, and the number.
  struct Stepped {
    Value from = graph::kNone;
    Step step;
  };
  std::optional<Stepped> stepped(const Node& node);
  std::optional<builder::ScalarArgument> scalar(Value value);
  // The node and the step that waits for it, as one instruction.
  std::optional<Pair> pair(const Node& node);
  // Whether its function and the step that waits for it are one instruction.
  bool takes_step(const Node& node) const;
  const Operand& operand(Value value);
  Lane lane(Value value);
  Lane result(const Node& node);
  Lane real_result(const Node& node, graph::Type type);
  Lane whole_result(const Node& node, graph::Type type);

  Workspace& work_;
  Lanes lanes_;
  Exchange& exchange_;
  std::map<Value, Operand> values_;
  std::map<Value, bool> written_;  // into the target
  // Members whose only reader may be one instruction with them.
  struct Waiting {
    Lane from;
    Step step;
  };
  std::map<Value, Waiting> waiting_;
};

// The member after which a value of the group is not read any more.
std::map<Value, size_t> last_uses(const Workspace& work, const MapGroup& group);

// Whether the map is one instruction on real numbers, which may also read PSUM.
bool is_simple(const Workspace& work, const Node& node);

}  // namespace neuron::lowering

#endif
