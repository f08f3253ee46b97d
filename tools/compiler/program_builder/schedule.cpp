// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/schedule.h"

#include <algorithm>

#include "tools/compiler/program_builder/function_rings.h"

namespace neuron::builder {

const Node* Schedule::innermost_loop() const {
  const auto loop = std::find_if(open_.rbegin(), open_.rend(),
                                 [](const Node& node) { return node.kind == Node::Kind::kLoop; });
  return loop == open_.rend() ? nullptr : &*loop;
}

uint32_t Schedule::rounds() const {
  const Node* loop = innermost_loop();
  if (loop == nullptr) return 1;
  return std::max(
      1U, loop->block.count != 0 ? indexes_.all()[loop->block.count].most : loop->block.rounds);
}

std::pair<int64_t, int64_t> Schedule::reach(int64_t advance, const Motions& motions) const {
  int64_t below = 0, above = 0;
  const auto add = [&](int64_t far) { (far < 0 ? below : above) += far; };
  const Node* loop = innermost_loop();
  for (const Motion& motion : motions) {
    if (motion.index >= indexes_.all().size()) continue;
    if (loop != nullptr && motion.index == loop->block.index) {
      advance += motion.bytes;
    } else {
      add(Indexes::distance(motion.bytes, indexes_.all()[motion.index].most));
    }
  }
  add(Indexes::distance(advance, rounds() - 1));
  return {below, above};
}

void Schedule::resolve(Motions& motions, int64_t& advance) {
  const Motions all = motions;
  motions = {};
  const Node* loop = innermost_loop();
  for (const Motion& motion : all) {
    if (!indexes_.check({motion.index, motion.program})) return;
    if (loop != nullptr && loop->block.index == motion.index) {
      advance += motion.bytes;
    } else if (indexes_.all()[motion.index].most != 0) {
      motions.add({motion.index, 0, motion.bytes});
    }
  }
}

void Schedule::resolve(Item& item) {
  for (auto* regions : {&item.reads, &item.writes}) {
    for (Region& region : *regions) {
      if (!region.motions.empty()) resolve(region.motions, region.advance);
      const auto other = memory_of_.find(region.start);
      if (region.space != Region::kHbm || other == memory_of_.end()) continue;
      region.start = other->second.first;
      region.first += other->second.second;
      region.end += other->second.second;
    }
  }
  const Node* loop = innermost_loop();
  for (Advance& advance : item.step.advances) {
    if (loop != nullptr && advance.index == loop->block.index) advance.index = 0;
  }
  std::erase_if(item.step.advances, [&](const Advance& advance) {
    return advance.index != 0 && indexes_.all()[advance.index].most == 0 && advance.first == 0;
  });
  if (item.step.transfer < 0) return;
  Transfer& transfer = placement_.parts().transfers[static_cast<size_t>(item.step.transfer)];
  resolve(transfer.to.motions, transfer.to.advance);
  for (BufferAccess& side : transfer.from) resolve(side.motions, side.advance);
  const auto fixed = [&](const BufferAccess& side) {
    return std::all_of(side.motions.begin(), side.motions.end(),
                       [&](const Motion& motion) { return indexes_.all()[motion.index].is_loop; });
  };
  if (fixed(transfer.to) && std::all_of(transfer.from.begin(), transfer.from.end(), fixed)) return;
  journal_.fail(runtime::fail(NRT_INVALID,
                              "a prepared transfer moves with a number, which only the device "
                              "knows; generate the transfer"));
}

uint32_t Schedule::name_function(const std::string& name) {
  const auto& names = function_names_;
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) {
    journal_.fail(runtime::fail(NRT_INVALID, "a function has the name \"{}\", which is {}", name,
                                name.empty() ? "empty" : "taken"));
    return 0;
  }
  function_names_.push_back(name);
  depths_.emplace_back();
  return static_cast<uint32_t>(names.size() - 1);
}

bool Schedule::can_prepare() const {
  if (placement_.in_while()) return false;
  for (size_t i = 0; i < open_.size(); ++i) {
    const Node& node = open_[i];
    const bool listed = node.kind == Node::Kind::kLoop && node.block.count == 0;
    const bool own_ring = node.kind == Node::Kind::kFunction || node.block.once;
    if (!listed && !(own_ring && i == 0)) return false;
  }
  return true;
}

void Schedule::add(Item item) {
  use(item.engine);
  if (item.step.transfer >= 0 && !can_prepare()) {
    journal_.fail(runtime::fail(NRT_INVALID,
                                "a loop whose rounds the device decides, or a branch, holds no "
                                "prepared transfer; generate the transfer, or call a function"));
    return;
  }
  if (item.step.collective >= 0 && (in_loop() || placement_.in_while())) {
    journal_.fail(
        runtime::fail(NRT_INVALID, "a loop, branch or function holds no collective; list it once"));
    return;
  }
  resolve(item);
  if (!open()) return;
  Node node;
  node.item = std::move(item);
  add(std::move(node));
}

void Schedule::add(Node node) {
  if (!open()) return;
  if (open_.empty()) return placement_.place(node);
  Node& around = open_.back();
  (around.in_otherwise ? around.otherwise : around.body).push_back(std::move(node));
}

int32_t Schedule::add_transfer(Transfer transfer) {
  transfer.id = next_id_[transfer.engine]++;
  if (!open_.empty() && open_.front().block.once) transfer.queue += kOnceSuffix;
  auto& transfers = placement_.parts().transfers;
  transfers.push_back(std::move(transfer));
  return static_cast<int32_t>(transfers.size() - 1);
}

int32_t Schedule::add_collective(CollectiveStep collective) {
  auto& collectives = placement_.parts().collectives;
  collectives.push_back(std::move(collective));
  return static_cast<int32_t>(collectives.size() - 1);
}

void Schedule::begin(Node node) {
  if (!open()) return;
  const auto loops = std::count_if(open_.begin(), open_.end(), [](const Node& around) {
    return around.kind == Node::Kind::kLoop;
  });
  if (node.kind == Node::Kind::kLoop && loops == NEURON_LOOP_LEVELS) {
    journal_.fail(
        runtime::fail(NRT_INVALID, "more than {} loops around each other", NEURON_LOOP_LEVELS));
    return;
  }
  if (node.kind == Node::Kind::kFunction) {
    if (!open_.empty() || placement_.in_while()) {
      journal_.fail(runtime::fail(NRT_INVALID,
                                  "function \"{}\" begins inside of a loop, branch or "
                                  "function",
                                  node.block.name));
      return;
    }
    placement_.expect_function();
    indexes_.known().begin_function(node.block.function);
  } else {
    indexes_.known().begin();
  }
  open_.push_back(std::move(node));
}

void Schedule::begin_otherwise() {
  if (!open() || open_.empty()) return;
  open_.back().in_otherwise = true;
  indexes_.known().begin_otherwise();
}

size_t Schedule::open_loops() const {
  return static_cast<size_t>(std::count_if(open_.begin(), open_.end(), [](const Node& node) {
    return node.kind == Node::Kind::kLoop && (node.block.count != 0 || node.block.rounds != 1);
  }));
}

void Schedule::call(uint32_t function) {
  // The runtime calls the main program.
  constexpr size_t kMostCalls = NEURON_CALL_LEVELS - 1;
  if (!open()) return;
  if (function == 0 || function > functions_.size()) {
    journal_.fail(runtime::fail(
        NRT_INVALID, "a function that was never made is called; call what function() returned"));
    return;
  }
  const std::string& name = function_names_[function];
  const bool in_function = !open_.empty() && open_.front().kind == Node::Kind::kFunction;
  const Depth inside = depths_[function];
  const size_t loops = open_loops() + inside.loops, calls = 1 + inside.calls;
  if (loops > NEURON_LOOP_LEVELS) {
    journal_.fail(runtime::fail(NRT_INVALID,
                                "function \"{}\" has {} loops around each other and is called in "
                                "{}; engines keep {}",
                                name, inside.loops, open_loops(), NEURON_LOOP_LEVELS));
    return;
  }
  if (calls > kMostCalls) {
    journal_.fail(runtime::fail(NRT_INVALID,
                                "function \"{}\" and those that it calls are {} calls inside of "
                                "each other; engines keep {}",
                                name, calls, kMostCalls));
    return;
  }
  if (const auto number = indexes_.known().call(function)) {
    journal_.fail(runtime::fail(NRT_INVALID,
                                "function \"{}\" uses number \"{}\", which has no value on every "
                                "way to this call; set it in front of branches and loops",
                                name, indexes_.all()[*number].name));
    return;
  }
  if (in_function) {
    Depth& around = depths_[open_.front().block.function];
    around.loops = std::max(around.loops, loops);
    around.calls = std::max(around.calls, calls);
  }
  Node node;
  node.kind = Node::Kind::kCall;
  node.block.function = function;
  add(std::move(node));
}

// What the body that ends has given values to, and how deep its loops are.
void Schedule::check_end(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kFunction:
      return indexes_.known().end_function();
    case Node::Kind::kLoop: {
      node.block.count != 0 ? indexes_.known().end_maybe() : indexes_.known().end_always();
      if (open_.front().kind != Node::Kind::kFunction || node.body.empty()) return;
      Depth& around = depths_[open_.front().block.function];
      around.loops = std::max(around.loops, open_loops());
      return;
    }
    case Node::Kind::kBranch:
      return node.block.once ? indexes_.known().end_always() : indexes_.known().end_branch();
    default:
      return indexes_.known().end_maybe();
  }
}

void Schedule::end() {
  if (!open() || open_.empty()) return;
  check_end(open_.back());
  Node node = std::move(open_.back());
  open_.pop_back();
  if (node.kind == Node::Kind::kLoop && node.block.index != 0) {
    indexes_.close(node.block.index);
  }
  if (node.kind == Node::Kind::kFunction) {
    functions_.push_back(std::move(node));
  } else if (!node.body.empty() || !node.otherwise.empty()) {
    add(std::move(node));
  }
}

void Schedule::loop(uint32_t rounds, const std::function<void()>& body) {
  if (!open() || rounds == 0) return;
  if (rounds > INT32_MAX) {
    journal_.fail(
        runtime::fail(NRT_INVALID, "a loop of {} rounds; registers count to 2147483647", rounds));
    return;
  }
  if (rounds == 1 && open_.empty()) return body();
  Node node;
  node.kind = Node::Kind::kLoop;
  node.block.rounds = rounds;
  node.block.index = indexes_.add({.name = "", .most = rounds - 1, .is_loop = true}).number;
  begin(std::move(node));
  body();
  end();
}

void Schedule::begin_while(const AddressField& condition) {
  if (!open()) return;
  if (open_.empty()) {
    indexes_.known().begin();
    return placement_.begin_while(condition);
  }
  Node node;
  node.kind = Node::Kind::kWhile;
  node.condition = condition;
  begin(std::move(node));
}

void Schedule::end_while() {
  if (!open()) return;
  if (!open_.empty() && open_.back().kind == Node::Kind::kWhile) return end();
  if (!open_.empty() || !placement_.in_while()) return;
  indexes_.known().end_maybe();
  placement_.end_while();
}

bool Schedule::in_while() const {
  return placement_.in_while() || std::any_of(open_.begin(), open_.end(), [](const Node& node) {
           return node.kind == Node::Kind::kWhile;
         });
}

void Schedule::finish() {
  if (finished_) return;
  if (in_while()) {
    journal_.fail(runtime::fail(NRT_INVALID, "a loop whose rounds the device decides has no end"));
    return;
  }
  for (unsigned e = 0; indexes_.has_executed() && e < NEURON_CORE_ENGINES; ++e) {
    Item item;
    item.engine = e;
    item.step.instruction.opcode = NEURON_OP_MOV;
    item.step.instruction.engines = static_cast<uint8_t>(1u << e);
    item.step.instruction.scalar0 = {1, NEURON_SCALAR_IMMEDIATE, NEURON_DTYPE_U32, 0, 0};
    item.step.registers = {indexes_.executed().number, 0, 0};
    add(std::move(item));
  }
  placement_.finish();
  const FunctionRings rings(placement_.parts(), functions_);
  if (rings.are_too_many()) {
    std::vector<uint32_t> levels;
    for (const Depth& depth : depths_) levels.push_back(static_cast<uint32_t>(depth.calls));
    rings.gather(placement_.parts().transfers, levels);
    placement_.share_semaphores(std::move(levels));
  }
  // A function calls earlier ones only, so here all callers of one come before it.
  for (auto function = functions_.rbegin(); function != functions_.rend(); ++function) {
    placement_.place_function(*function);
  }
  finished_ = true;
}

}  // namespace neuron::builder
