// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/lowering/lower.h"

#include <algorithm>
#include <set>

#include "driver/isa/generation.h"
#include "hw/address_map.h"
#include "tools/compiler/lowering/broadcast.h"
#include "tools/compiler/lowering/layout_group.h"
#include "tools/compiler/lowering/piece.h"
#include "tools/compiler/lowering/product.h"
#include "tools/compiler/lowering/row_numbers.h"
#include "tools/compiler/lowering/windows.h"

namespace neuron::lowering {
namespace {

using graph::Kind;
using graph::RefusalClass;
using runtime::Result;

// Members of a group share the registers.
constexpr size_t kMostMembers = 12;

Movement movement_of(const builder::Schedule& schedule, unsigned generation) {
  // What every DMA engine takes at least for a descriptor.
  const isa::Timing& timing = isa::timing_of(generation);
  Movement moved;
  double picoseconds = 0;
  for (const builder::Transfer& transfer : schedule.transfers()) {
    const auto runs = [](const BufferAccess& access) {
      return static_cast<double>(access.bytes()) / static_cast<double>(access.size[0]);
    };
    const auto bytes = static_cast<double>(transfer.to.bytes());
    const double descriptors = std::max(runs(transfer.to), runs(transfer.from[0]));
    const double at_least = descriptors * static_cast<double>(timing.dma_descriptor);
    const double at_rate = bytes * static_cast<double>(timing.dma_bytes.picoseconds) /
                           static_cast<double>(timing.dma_bytes.cycles);
    picoseconds += std::max(at_least, at_rate);
    moved.bytes += transfer.to.bytes();
    ++moved.transfers;
  }
  moved.dma_us = picoseconds / 1e6 / NEURON_V2_DMA_ENGINES_PER_CORE;
  return moved;
}

class Lowering {
 public:
  Lowering(const Graph& graph, const Options& options)
      : graph_(graph),
        options_(options),
        work_(graph, options.generation, options.level > 0),
        needed_(graph::needed(graph)),
        placed_(graph.nodes.size(), false),
        given_(graph.nodes.size(), false),
        uses_(graph.nodes.size(), 0),
        readers_(graph.nodes.size()),
        spent_(graph.nodes.size()) {}

  Result<Lowered> run();

 private:
  void refuse(const Node& node, const std::string& sentence);
  void check();
  void check_memory();
  void count_uses();
  void plan_lifetimes();
  int64_t columns_of_value(size_t number) const;
  std::vector<int64_t> needs_of(const std::vector<size_t>& last) const;
  void plan_destinations();
  // Whether it repeats a smaller value and only maps read it, which then read the smaller one.
  bool repeats(Value value) const;
  // Windows that their readers see in the image, and what renames them: they are laid out when
  // somebody needs them all the same.
  bool waits(Value value) const;
  // Whether maps may read the move's operand in its place, and nothing else reads it.
  bool shows(Value value) const;
  bool ready(Value operand, const std::vector<Value>& members, bool shown) const;
  // Moves that a product's exit reads are made before.
  void emit_moves(const MapGroup& group);
  MapGroup group_from(size_t first, bool simple = false);
  // Whether all that reads the value, or what moves it, is done.
  bool is_spent(Value value);
  // The maps that may read the product's sums in PSUM.
  ProductExit exit_of(Value product);
  void emit(size_t number);
  void emit_outputs();

  const Graph& graph_;
  const Options& options_;
  Workspace work_;
  std::vector<bool> needed_, done_;
  std::vector<bool> placed_;  // something other than a map reads it in HBM
  std::vector<bool> given_;   // it is an output
  std::vector<size_t> uses_;
  std::vector<std::vector<size_t>> readers_;  // nodes that read it, each once, in order
  std::vector<bool> spent_;                   // what is known to be
  std::set<Value> destinations_;
  Lowered lowered_;
};

void Lowering::refuse(const Node& node, const std::string& sentence) {
  lowered_.refusals.push_back({RefusalClass::kForm, node.origin, "", sentence, {}});
}

void Lowering::check() {
  bool wide = false, doubles = false;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (!needed_[i]) continue;
    const int64_t elements = graph::elements_of(node.shape);
    if (elements == 0 && node.kind != Kind::kConstant) {
      lowered_.refusals.push_back({RefusalClass::kEmpty,
                                   node.origin,
                                   "",
                                   "a value has no elements, which has no form on the device",
                                   {}});
    }
    if ((node.kind == Kind::kGather || node.kind == Kind::kScatter) &&
        node.columns > kMostRowElements) {
      refuse(node, base::format("rows of {} elements are taken by number; at most {} are supported",
                                node.columns, kMostRowElements));
    }
    if (node.kind == Kind::kKernel) {
      const std::string problem = kernel_problem(graph_, node, options_.generation);
      if (!problem.empty()) refuse(node, problem);
    }
    if (elements >= int64_t{1} << 30) {
      refuse(node, base::format("a value of {} has over 4 GiB", graph::shape_text(node.shape)));
    }
    const bool inner = node.kind != Kind::kConstant;
    wide = wide || (inner && (node.type == graph::Type::kI64 || node.type == graph::Type::kU64));
    doubles = doubles || (inner && node.type == graph::Type::kF64);
  }
  if (wide) lowered_.notes.push_back("64-bit whole numbers are computed in 32 bits");
  if (doubles) lowered_.notes.push_back("f64 is computed in f32, also in inputs and outputs");
  if (graph_.outputs.empty()) {
    lowered_.refusals.push_back({RefusalClass::kEmpty, "", "", "the model has no outputs", {}});
  }
}

// What is in HBM is known when all tasks are written.
void Lowering::check_memory() {
  const auto bytes = [&](Value value) {
    const Node& node = work_.node(value);
    return static_cast<uint64_t>(graph::elements_of(node.shape)) * graph::type_bytes(node.type);
  };
  for (const Value input : graph_.inputs) work_.memory.tensors += bytes(input);
  for (const graph::Output& output : graph_.outputs) {
    if (output.donor == graph::kNone) work_.memory.tensors += bytes(output.value);
  }
  lowered_.memory = work_.memory;
  const uint64_t hbm = options_.hbm != 0 ? options_.hbm : hbm_of(options_.generation);
  const std::string why = excess(lowered_.memory, hbm, graph_);
  if (!why.empty()) lowered_.refusals.push_back({RefusalClass::kMemory, "", "", why, {}});
}

void Lowering::count_uses() {
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!needed_[i]) continue;
    for (const Value operand : graph_.nodes[i].operands) {
      ++uses_[static_cast<size_t>(operand)];
      std::vector<size_t>& readers = readers_[static_cast<size_t>(operand)];
      if (readers.empty() || readers.back() != i) readers.push_back(i);
      if (graph_.nodes[i].kind != Kind::kMap) placed_[static_cast<size_t>(operand)] = true;
    }
  }
  for (const graph::Output& output : graph_.outputs) {
    ++uses_[static_cast<size_t>(output.value)];
    given_[static_cast<size_t>(output.value)] = true;
    placed_[static_cast<size_t>(output.value)] = true;
  }
}

bool Lowering::repeats(Value value) const {
  return options_.level > 0 && !placed_[static_cast<size_t>(value)] && is_broadcast(graph_, value);
}

bool Lowering::waits(Value value) const {
  for (;;) {  // bounded: each round is one step up the graph
    if (!work_.resident() || work_.has_place(value) || work_.residents.has(value)) return false;
    const Node& node = work_.node(value);
    if (node.kind != Kind::kMove || node.operands.size() != 1) return false;
    if (!graph::renames(node, graph_)) break;
    value = node.operands[0];
  }
  return columns_of(graph_, value) || pool_of(graph_, value);
}

bool Lowering::shows(Value value) const {
  return work_.resident() && !placed_[static_cast<size_t>(value)] && !work_.has_place(value) &&
         !work_.residents.has(value) && !graph::renames(work_.node(value), graph_) &&
         shown_layout(work_, value).has_value();
}

bool Lowering::ready(Value operand, const std::vector<Value>& members, bool shown) const {
  const auto known = [&](Value value) {
    return done_[static_cast<size_t>(value)] || work_.node(value).kind == Kind::kConstant;
  };
  double number = 0;
  return known(operand) || work_.uniform(operand, number) ||
         std::count(members.begin(), members.end(), operand) != 0 ||
         ((repeats(operand) || (shown && shows(operand))) &&
          known(work_.node(operand).operands[0]));
}

void Lowering::emit_moves(const MapGroup& group) {
  for (const Value member : group.members) {
    for (const Value operand : work_.node(member).operands) {
      if (done_[static_cast<size_t>(operand)] && shows(operand)) emit_move(work_, operand);
    }
  }
}

// The map and those that follow it, as far as they are maps of as many elements whose operands are
// there already.
MapGroup Lowering::group_from(size_t first, bool simple) {
  MapGroup group;
  std::vector<Value> members = {static_cast<Value>(first)};
  const int64_t elements = graph::elements_of(graph_.nodes[first].shape);
  done_[first] = true;
  // What reads a member stands behind it, so in order each is looked at once.
  std::set<size_t> near(readers_[first].begin(), readers_[first].end());
  while (options_.level > 0 && !near.empty() &&
         members.size() < (simple ? kMostMembers / 2 : kMostMembers)) {
    const size_t i = *near.begin();
    near.erase(near.begin());
    const Node& node = graph_.nodes[i];
    if (done_[i] || node.kind != Kind::kMap || graph::elements_of(node.shape) != elements ||
        (simple && !is_simple(work_, node))) {
      continue;
    }
    const bool whole = std::all_of(node.operands.begin(), node.operands.end(),
                                   [&](Value operand) { return ready(operand, members, !simple); });
    if (!whole) continue;
    members.push_back(static_cast<Value>(i));
    done_[i] = true;
    near.insert(readers_[i].begin(), readers_[i].end());
  }
  for (const Value member : members) {
    size_t inside = 0;
    for (const Value other : members) {
      const auto& operands = graph_.nodes[static_cast<size_t>(other)].operands;
      inside += static_cast<size_t>(std::count(operands.begin(), operands.end(), member));
    }
    group.stored.push_back(inside < uses_[static_cast<size_t>(member)]);
  }
  std::set<Value> operands;
  for (const Value member : members) {
    const Node& node = work_.node(member);
    operands.insert(node.operands.begin(), node.operands.end());
  }
  for (Value operand : operands) {
    while (is_spent(operand)) {
      group.spent.push_back(operand);
      if (!graph::renames(work_.node(operand), graph_)) break;
      operand = work_.node(operand).operands[0];
    }
  }
  group.members = std::move(members);
  return group;
}

bool Lowering::is_spent(Value value) {
  const auto number = static_cast<size_t>(value);
  if (given_[number] || spent_[number]) return spent_[number];
  // Moves may meet again: who is spent stays so, and is not asked once more by each way to it.
  spent_[number] =
      std::all_of(readers_[number].begin(), readers_[number].end(), [&](size_t reader) {
        return done_[reader] &&
               (graph_.nodes[reader].kind != Kind::kMove || is_spent(static_cast<Value>(reader)));
      });
  return spent_[number];
}

void Lowering::emit(size_t number) {
  const auto value = static_cast<Value>(number);
  double same = 0;
  work_.layer = graph_.nodes[number].origin;
  switch (graph_.nodes[number].kind) {
    case Kind::kInput:
      return emit_input(work_, value);
    case Kind::kConstant:
      return;
    case Kind::kMap:
      return emit_maps(work_, group_from(number));
    case Kind::kMove:
      // One number in a shape is written where it is used, unless that is no map.
      if (!placed_[number] && work_.uniform(value, same)) return;
      if (repeats(value) || waits(value) || shows(value)) return;
      // Maps may have read its operand in its place.
      if (!given_[number] && std::all_of(readers_[number].begin(), readers_[number].end(),
                                         [&](size_t reader) { return done_[reader]; })) {
        return;
      }
      return emit_move(work_, value);
    case Kind::kProduct:
      if (work_.resident() && graph::is_real(graph_.nodes[number].type) &&
          options_.products == ProductType::kF32) {
        const ProductExit exit = exit_of(value);
        emit_moves(exit.group);
        return emit_resident_product(work_, value, exit);
      }
      return emit_product(work_, value, options_.products);
    case Kind::kReduce:
      return emit_reduce(work_, value);
    case Kind::kGather:
      return emit_gather(work_, value);
    case Kind::kScatter:
      return emit_scatter(work_, value);
    case Kind::kExchange:
      return emit_exchange(work_, value);
    case Kind::kKernel:
      return emit_kernel(work_, value);
  }
}

// A value stays in SBUF until its last reader; what reads a move may read its operands.
void Lowering::plan_lifetimes() {
  std::vector<size_t> last(graph_.nodes.size(), 0);
  for (const graph::Output& output : graph_.outputs) {
    last[static_cast<size_t>(output.value)] = graph_.nodes.size();
  }
  for (size_t i = graph_.nodes.size(); i-- > 0;) {
    if (!needed_[i]) continue;
    const size_t end = graph_.nodes[i].kind == Kind::kMove ? std::max(i, last[i]) : i;
    for (const Value operand : graph_.nodes[i].operands) {
      last[static_cast<size_t>(operand)] = std::max(last[static_cast<size_t>(operand)], end);
    }
  }
  std::vector<int64_t> needs = needs_of(last);
  work_.residents.plan(std::move(last), std::move(needs));
  if (work_.resident()) work_.residents.plan_numbers(row_numbers(graph_, needed_));
}

// Columns of a value, as products and those who follow them have it.
int64_t Lowering::columns_of_value(size_t number) const {
  const Node& node = graph_.nodes[number];
  const auto value = static_cast<Value>(number);
  if (node.kind == Kind::kConstant) return 0;
  if (node.kind == Kind::kMove && (columns_of(graph_, value) || pool_of(graph_, value))) return 0;
  Layout layout{1, 1, graph::elements_of(node.shape)};
  if (node.kind == Kind::kProduct) {
    layout = {node.batch, node.rows, node.columns};
  } else if (node.shape.size() > 1) {
    // Channels of images, rows of matrices.
    layout.rows = node.shape[node.shape.size() > 2 ? 1 : 0];
    layout.inner /= layout.rows;
  }
  return layout.tiles() * layout.columns();
}

// What lives at a node or behind it at once, at most.
std::vector<int64_t> Lowering::needs_of(const std::vector<size_t>& last) const {
  std::vector<int64_t> needs(graph_.nodes.size() + 1, 0);
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!needed_[i] || last[i] < i) continue;
    const int64_t columns = columns_of_value(i);
    needs[i] += columns;
    needs[std::min(last[i] + 1, graph_.nodes.size())] -= columns;
  }
  for (size_t i = 1; i < needs.size(); ++i) needs[i] += needs[i - 1];
  for (size_t i = graph_.nodes.size(); i-- > 0;) needs[i] = std::max(needs[i], needs[i + 1]);
  return needs;
}

// Values that are outputs in the form that they have inside are made there.
void Lowering::plan_destinations() {
  if (!work_.resident()) return;
  for (const graph::Output& output : graph_.outputs) {
    Value value = output.value;
    while (graph::renames(work_.node(value), graph_)) value = work_.node(value).operands[0];
    const Node& node = work_.node(value);
    // Transfers that Pool generates and other ranks reach only what the program itself has.
    const bool made = node.kind != Kind::kInput && node.kind != Kind::kConstant &&
                      node.kind != Kind::kScatter && node.kind != Kind::kExchange &&
                      node.kind != Kind::kKernel;
    // What overwrites an input has to wait until all readers of the input are through.
    const bool here = made && output.donor == graph::kNone && destinations_.insert(value).second;
    declare_output(work_, output, here ? value : graph::kNone);
  }
}

ProductExit Lowering::exit_of(Value product) {
  ProductExit exit{{}, product};
  const auto readers = [&](Value value) { return readers_[static_cast<size_t>(value)]; };
  const auto is_output = [&](Value value) { return given_[static_cast<size_t>(value)]; };
  std::vector<size_t> users = readers(exit.given);
  while (users.size() == 1 && !is_output(exit.given) &&
         graph::renames(graph_.nodes[users[0]], graph_)) {
    exit.given = static_cast<Value>(users[0]);
    users = readers(exit.given);
  }
  if (users.empty() || is_output(exit.given)) return {};
  for (const size_t user : users) {
    const Node& node = graph_.nodes[user];
    if (node.kind != Kind::kMap || done_[user] || !is_simple(work_, node)) return {};
    if (graph::elements_of(node.shape) != graph::elements_of(work_.node(product).shape)) return {};
  }
  const std::vector<bool> before = done_;
  for (Value value = product; value <= exit.given; ++value) {
    const bool between = value == exit.given || value == product;
    if (between) done_[static_cast<size_t>(value)] = true;
  }
  const bool whole =
      std::all_of(graph_.nodes[users[0]].operands.begin(), graph_.nodes[users[0]].operands.end(),
                  [&](Value operand) { return ready(operand, {}, false); });
  if (whole) exit.group = group_from(users[0], true);
  const bool all = std::all_of(users.begin(), users.end(), [&](size_t user) {
    return std::count(exit.group.members.begin(), exit.group.members.end(),
                      static_cast<Value>(user)) != 0;
  });
  if (!whole || !all) {
    done_ = before;
    return {};
  }
  // What lies between the product and its readers is made by nobody.
  for (Value value = exit.given; value != product; value = work_.node(value).operands[0]) {
    done_[static_cast<size_t>(value)] = true;
  }
  return exit;
}

// Outputs that overwrite inputs come last, and an input that is overwritten and is an output as
// well is copied before.
void Lowering::emit_outputs() {
  for (const graph::Output& output : graph_.outputs) {
    if (!work_.declared(output.name).present()) declare_output(work_, output, graph::kNone);
  }
  for (const graph::Output& output : graph_.outputs) {
    if (output.donor == graph::kNone || !work_.program.ok()) continue;
    const int32_t place = work_.place(output.value).index;
    const bool overwritten =
        std::any_of(graph_.outputs.begin(), graph_.outputs.end(), [&](const graph::Output& other) {
          return &other != &output && other.donor != graph::kNone &&
                 work_.place(other.donor).index == place;
        });
    if (!overwritten) continue;
    const Node& node = work_.node(output.value);
    const auto all = static_cast<uint32_t>(graph::elements_of(node.shape));
    const Buffer copied = work_.temporary(Workspace::dtype_of(node.type), all);
    work_.copy(Workspace::rows(copied, 0, 1, all),
               Workspace::rows(work_.place(output.value), 0, 1, all));
    work_.set_place(output.value, copied);
  }
  for (const bool donated : {false, true}) {
    for (const graph::Output& output : graph_.outputs) {
      if ((output.donor != graph::kNone) == donated) emit_output(work_, output);
    }
  }
}

Result<Lowered> Lowering::run() {
  check();
  if (!lowered_.refusals.empty()) return std::move(lowered_);
  if (options_.physical_cores > 1) work_.program.physical_cores(options_.physical_cores);
  count_uses();
  done_.assign(graph_.nodes.size(), false);
  // Inputs come first, so that the file names them in the order of the model.
  for (const Value input : graph_.inputs) {
    emit_input(work_, input);
    done_[static_cast<size_t>(input)] = true;
  }
  plan_lifetimes();
  plan_destinations();
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    if (!work_.program.ok()) break;
    if (!needed_[i]) continue;
    if (!done_[i]) {
      done_[i] = true;
      if (options_.progress) options_.progress(i, graph_.nodes.size());
      emit(i);
      ++lowered_.tasks;
    }
    work_.residents.expire(i);
  }
  emit_outputs();
  check_memory();
  if (!lowered_.refusals.empty()) return std::move(lowered_);
  NEURON_TRY(neff, work_.program.build());
  lowered_.neff = std::move(neff);
  if (options_.physical_cores == 1) {
    lowered_.predicted = builder::predict(work_.program.parts().schedule, options_.generation);
  }
  lowered_.moved = movement_of(work_.program.parts().schedule, options_.generation);
  return std::move(lowered_);
}

}  // namespace

Result<Lowered> lower(const Graph& graph, const Options& options) {
  return Lowering(graph, options).run();
}

}  // namespace neuron::lowering
