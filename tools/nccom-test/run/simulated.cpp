// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/simulated.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "ccom/plan/planner.h"
#include "ccom/request/layout.h"
#include "ccom/simulator/chip_costs.h"
#include "ccom/simulator/device_model.h"
#include "ccom/simulator/estimate.h"
#include "ccom/simulator/judge.h"
#include "ccom/simulator/simulator.h"
#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/run/case.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::format;
using ccom::Result;

namespace {

constexpr uint32_t kMostCores = 128;  // of an instance that devices join

struct System {
  ccom::Group group;
  ccom::CostParameters costs;
  std::string name;
  uint32_t generation = 0;
};

Result<System> make_system(const Options& options) {
  NEURON_TRY(node, ccom::Topology::profile(options.profile));
  const uint32_t of_node = node.chips * node.ranks_per_chip;
  if (options.chips != 0 && options.ranks != options.chips * node.ranks_per_chip) {
    return fail(CCOM_INVALID, "{} chips of {} have {} ranks, but -r says {}; leave one of them out",
                options.chips, node.name, options.chips * node.ranks_per_chip, options.ranks);
  }
  if (options.ranks > of_node && options.ranks % of_node != 0) {
    return fail(CCOM_INVALID,
                "{} ranks are no whole number of nodes of {} (each has {} chips, {} ranks)",
                options.ranks, node.name, node.chips, of_node);
  }
  const uint32_t nodes = (options.ranks + of_node - 1) / of_node;
  System system{{{}, ccom::Topology(node, nodes)}, {}, {}};
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    system.group.places.push_back(system.group.topology.place(rank));
  }
  system.costs.medium = ccom::Medium::kDevice;
  if (node.link.bytes_per_second > 0) {
    system.costs.local_bytes_per_second = node.link.bytes_per_second;
    system.costs.local_latency_ps = node.link.latency_ps;
  }
  if (node.nic.bytes_per_second > 0) {
    system.costs.remote_bytes_per_second = node.nic.bytes_per_second;
    system.costs.remote_latency_ps = node.nic.latency_ps;
  }
  system.generation = node.generation;
  system.name =
      format("{} x {}: {} chips, {} ranks", node.name, nodes,
             (options.ranks + node.ranks_per_chip - 1) / node.ranks_per_chip, options.ranks);
  return system;
}

// The library's group for the first replica group. The groups are alike and share no links in this
// report, so the first stands for all.
ccom::Group part_of(const System& system, const std::vector<uint32_t>& ranks) {
  ccom::Group group{{}, system.group.topology};
  for (const uint32_t rank : ranks) group.places.push_back(system.group.places[rank]);
  return group;
}

// "send=100,reduce=200": nanoseconds and GB/s.
Result<ccom::StepCosts> costs_of(const std::string& text, uint32_t generation) {
  if (text == "chips") return ccom::chip_costs(generation);
  ccom::StepCosts costs;
  if (text == "none") return costs;
  const auto wrong = [&](const std::string& item) {
    return fail(CCOM_INVALID,
                "--costs: \"{}\" cannot be read; expected chips, none, or send=NS, receive=NS, "
                "message=NS, local=NS, reduce=GB/s, copy=GB/s joined by commas",
                item);
  };
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const size_t equals = item.find('=');
    if (equals == std::string::npos) return wrong(item);
    const std::string name = item.substr(0, equals), number = item.substr(equals + 1);
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0' || !(value >= 0) || value > 1e9) return wrong(item);
    const auto time = static_cast<uint64_t>(value * 1e3);
    if (name == "send") {
      costs.send_ps = time;
    } else if (name == "receive") {
      costs.receive_ps = time;
    } else if (name == "message") {
      costs.message_ps = time;
    } else if (name == "local") {
      costs.local_ps = time;
    } else if (name == "reduce") {
      costs.reduce_bytes_per_second = value * 1e9;
    } else if (name == "copy") {
      costs.copy_bytes_per_second = value * 1e9;
    } else {
      return wrong(item);
    }
  }
  return costs;
}

Result<ccom::SimulationOptions> simulation_options(const Options& options, const System& system,
                                                   uint64_t seed) {
  ccom::SimulationOptions result;
  NEURON_TRY(costs, costs_of(options.costs, system.generation));
  result.costs = costs;
  result.sharing = options.divided ? ccom::Sharing::kDivided : ccom::Sharing::kQueued;
  result.memory = options.memory_contention;
  for (const std::string& text : options.failed) {
    NEURON_TRY(link, ccom::parse_failed_link(text, system.group.topology));
    result.failed.push_back(link);
  }
  result.threads = 2;
  result.window = options.window;
  result.seed = seed;
  result.jitter_ps = static_cast<uint64_t>(
      options.jitter *
      static_cast<double>(std::max(system.costs.local_latency_ps, system.costs.remote_latency_ps)));
  result.loads = options.heat_map;
  return result;
}

struct Sum {
  uint64_t time_ps = 0;
  std::string algorithm;
  bool evened = false;
};

std::string in_units(double value, const char* unit) {
  const char* prefix = value >= 1e9 ? " G" : value >= 1e6 ? " M" : value >= 1e3 ? " k" : " ";
  const double scale = value >= 1e9 ? 1e9 : value >= 1e6 ? 1e6 : value >= 1e3 ? 1e3 : 1;
  char text[64];
  std::snprintf(text, sizeof text, "%.3g%s%s", value / scale, prefix, unit);
  return text;
}

// Blocks of unequal sizes have no symmetry, and each rank has one for every other. Beyond this many
// steps the blocks are taken as equal, of the average size.
constexpr double kMostUnevenSteps = 5e7;

bool even_out(ccom::Request& request, uint32_t ranks) {
  if (request.counts.empty() || 1.0 * ranks * ranks <= kMostUnevenSteps ||
      ccom::even_blocks(request)) {
    return false;
  }
  uint64_t sum = 0;
  for (const uint64_t count : request.counts) sum += count;
  const uint64_t each = (sum + ranks - 1) / ranks;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    request.counts[rank] = each;
    request.displacements[rank] = rank * each;
  }
  return true;
}

struct Chosen {
  ccom::Plan plan;
  ccom::SimulationEstimate estimate;
};

// The plan of the request, if a simulation of it fits into the memory. An automatic choice has left
// out those that do not fit.
Result<Chosen> choose(const ccom::Planner& planner, const ccom::Request& request,
                      const ccom::SimulationOptions& how, uint64_t memory) {
  NEURON_TRY(first, planner.plan(request));
  NEURON_TRY(of_first, ccom::estimate(planner.group(), first, how));
  if (of_first.memory_bytes <= static_cast<double>(memory)) return Chosen{first, of_first};
  const std::string needs = format(
      "a simulation of {} by {} on {} ranks needs about {} of memory for {}, and --memory "
      "allows {}",
      operation_name(request.operation), algorithm_name(first.algorithm), planner.group().ranks(),
      in_units(of_first.memory_bytes, "B"), in_units(of_first.steps, "steps"),
      in_units(static_cast<double>(memory), "B"));
  if (!first.automatic) {
    return fail(CCOM_RESOURCE, "{}; take fewer chips, or let the planner choose the algorithm",
                needs);
  }
  return fail(CCOM_RESOURCE, "{}; take fewer chips", needs);
}

// Why the chips' own formulas cannot price the plan; empty if they can. Failed links, jitter, load
// of links and costs of steps are matters of the model of links.
std::string not_on_chips(const Options& options, const ccom::Group& group,
                         const ccom::SimulationOptions& how) {
  if (options.links_only) return "--costs, --contention and --fail are of the model of links";
  if (how.jitter_ps != 0) return "--jitter is of the model of links";
  if (how.loads) return "the load of links is of the model of links";
  if (how.window != 0) return "--window is of the model of links";
  if (group.topology.node().generation == 0) return "the chips of the profile have no prices";
  if (group.ranks() > kMostCores) {
    return format("it holds for {} ranks at most, and there are {}", kMostCores, group.ranks());
  }
  const bool one_instance =
      std::all_of(group.places.begin(), group.places.end(),
                  [&](const ccom::Place& place) { return place.node == group.places[0].node; });
  return one_instance ? "" : "the ranks are on several instances";
}

Result<uint64_t> time_on_chips(const ccom::Group& group, const ccom::Plan& plan) {
  ccom::DeviceModelOptions chips;
  chips.generation = group.topology.node().generation;
  NEURON_TRY(times, ccom::simulate_device(group, plan, chips));
  return times.time_ps;
}

Result<Sum> simulate_case(const ccom::Planner& planner, const Case& what, bool in_place, bool chips,
                          ccom::SimulationOptions how, uint64_t memory, const ShowProgress& show,
                          std::vector<LinkLoad>& loads) {
  Sum sum;
  for (const Work& work : what.works) {
    ccom::Request request = request_of(work, in_place);
    sum.evened = even_out(request, planner.group().ranks());
    if (chips) {
      request.algorithm = planner.device_default(request);
      NEURON_TRY(plan, planner.plan(request));
      NEURON_TRY(time, time_on_chips(planner.group(), plan));
      sum.time_ps += time;
      sum.algorithm = algorithm_name(plan.algorithm);
      continue;
    }
    NEURON_TRY(chosen, choose(planner, request, how, memory));
    const ccom::Plan& plan = chosen.plan;
    const double steps = std::max(1.0, chosen.estimate.steps);
    if (show) {
      how.progress = [&](const ccom::SimulationProgress& progress) {
        const double share = std::min(1.0, static_cast<double>(progress.steps) / steps);
        show(format("{} B by {}: {} % of {}", what.size, algorithm_name(plan.algorithm),
                    static_cast<int>(share * 100), in_units(steps, "steps")));
      };
    }
    NEURON_TRY(simulated, ccom::simulate(planner.group(), plan, how));
    sum.time_ps += simulated.time_ps;
    sum.algorithm = algorithm_name(plan.algorithm);
    if (how.loads) {
      loads.clear();
      for (const ccom::ResourceLoad& load : simulated.loads) {
        loads.push_back({load.name, load.bytes, load.busy});
      }
    }
  }
  return sum;
}

// The counts of an all_to_all_v are themselves a table with a row for each rank.
Result<void> check_counts(const PhaseBlock& block, uint32_t ranks, uint64_t memory) {
  constexpr double kTables = 5;  // of the case and of the request: counts and displacements
  const double bytes = kTables * sizeof(uint64_t) * ranks * ranks;
  if (block.options.operation != CCOM_ALL_TO_ALL_V || bytes <= static_cast<double>(memory)) {
    return {};
  }
  return fail(
      CCOM_RESOURCE,
      "alltoallv of {} ranks has a count for each pair of ranks: {} of memory, and --memory "
      "allows {}; take fewer chips, or alltoall",
      ranks, in_units(bytes, "B"), in_units(static_cast<double>(memory), "B"));
}

Result<void> run_block(const Options& options, const System& system, const PhaseBlock& from,
                       uint64_t seed, const ShowProgress& show, SimulatedRun& run) {
  Block block;
  block.title = from.title;
  block.operation = from.options.operation;
  block.type = from.options.type;
  block.group_ranks = static_cast<uint32_t>(from.groups.front().size());
  NEURON_TRY(how, simulation_options(options, system, seed));
  auto asked = how;
  if (show) {
    asked.progress = [&](const ccom::SimulationProgress& progress) {
      show(format("choosing an algorithm: {}",
                  in_units(static_cast<double>(progress.steps), "steps")));
    };
  }
  const ccom::Group group = part_of(system, from.groups.front());
  const std::string why_not = not_on_chips(options, group, how);
  const bool chips = why_not.empty();
  // Devices choose by predictions, and their simulation has to choose as they do.
  const ccom::Planner planner(group, system.costs,
                              chips ? ccom::Judge() : ccom::make_judge(asked, options.memory));
  if (chips) {
    run.model =
        "chips: instructions, descriptors and semaphores as on the emulated device, without the "
        "copies of a program";
  }
  NEURON_CHECK(check_counts(from, block.group_ranks, options.memory));
  if (options.chips_asked && !chips) {
    run.notes.insert(
        "--model chips is not used: " + why_not +
        "; these times are those of the model of links, and compare only with others of --model "
        "links");
  }
  for (const uint64_t size : from.sizes) {
    NEURON_TRY(what, make_case(from.options, from.pairs, size, block.group_ranks,
                               from.options.root < block.group_ranks ? from.options.root : 0));
    Row row;
    row.size = what.size;
    row.count = what.count;
    row.total_input = what.total_input;
    row.total_output = what.total_output;
    const auto sum = simulate_case(planner, what, from.options.in_place, chips, how, options.memory,
                                   show, run.loads);
    if (sum) {
      row.times_us = {static_cast<double>(sum->time_ps) * 1e-6};
      row.algorithm = sum->algorithm;
      if (sum->evened) {
        run.notes.insert(
            format("{} of {} ranks is simulated with blocks of their average size, as "
                   "unequal ones would take more than {}",
                   operation_name(block.operation), block.group_ranks,
                   in_units(kMostUnevenSteps, "steps")));
      }
    } else {
      row.failure = sum.error().sentence;
    }
    block.rows.push_back(std::move(row));
  }
  run.blocks.push_back(std::move(block));
  return {};
}

}  // namespace

Result<SimulatedRun> run_simulated(const Options& options, const Job& job, uint64_t seed,
                                   const ShowProgress& show) {
  if (options.check != Check::kNone) {
    return fail(CCOM_INVALID, "--simulate moves no data that --check could compare");
  }
  if (!options.streams.empty()) {
    return fail(CCOM_INVALID, "--simulate runs one operation at a time; leave --streams-json out");
  }
  NEURON_TRY(system, make_system(options));
  SimulatedRun run;
  run.system = system.name;
  for (const Phase& phase : job.phases) {
    for (const PhaseBlock& block : phase.blocks) {
      NEURON_CHECK(run_block(options, system, block, seed, show, run));
    }
  }
  return run;
}

}  // namespace neuron::nccom
