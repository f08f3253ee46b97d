// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/simulated.h"

#include <algorithm>

#include "ccom/plan/planner.h"
#include "ccom/simulator/simulator.h"
#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/run/case.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::format;
using ccom::Result;

namespace {

struct System {
  ccom::Group group;
  ccom::CostParameters costs;
  std::string name;
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

ccom::Request request_of(const Work& work, bool in_place) {
  ccom::Request request;
  request.operation = work.operation;
  request.type = work.type;
  request.reduction = work.reduction;
  request.algorithm = work.algorithm;
  request.root = work.root;
  request.in_place = in_place;
  request.count = work.count;
  request.pairs = work.pairs;
  if (work.operation == CCOM_ALL_TO_ALL_V) {
    request.send_counts = work.matrix;
    request.send_displacements = work.matrix_displacements;
    request.receive_displacements.resize(work.matrix.size());
    for (uint32_t to = 0; to < work.ranks; ++to) {
      uint64_t at = 0;
      for (uint32_t from = 0; from < work.ranks; ++from) {
        request.receive_displacements[uint64_t{to} * work.ranks + from] = at;
        at += work.matrix[uint64_t{from} * work.ranks + to];
      }
    }
  } else {
    request.counts = work.counts;
    request.displacements = work.displacements;
  }
  return request;
}

ccom::SimulationOptions simulation_options(const Options& options, const System& system,
                                           uint64_t seed) {
  ccom::SimulationOptions result;
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
};

Result<Sum> simulate_case(const ccom::Planner& planner, const Case& what, bool in_place,
                          const ccom::SimulationOptions& how, std::vector<LinkLoad>& loads) {
  Sum sum;
  for (const Work& work : what.works) {
    NEURON_TRY(plan, planner.plan(request_of(work, in_place)));
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

Result<void> run_block(const Options& options, const System& system, const PhaseBlock& from,
                       uint64_t seed, SimulatedRun& run) {
  Block block;
  block.title = from.title;
  block.operation = from.options.operation;
  block.type = from.options.type;
  block.group_ranks = static_cast<uint32_t>(from.groups.front().size());
  const ccom::Planner planner(part_of(system, from.groups.front()), system.costs);
  const auto how = simulation_options(options, system, seed);
  for (const uint64_t size : from.sizes) {
    NEURON_TRY(what, make_case(from.options, from.pairs, size, block.group_ranks,
                               from.options.root < block.group_ranks ? from.options.root : 0));
    Row row;
    row.size = what.size;
    row.count = what.count;
    row.total_input = what.total_input;
    row.total_output = what.total_output;
    const auto sum = simulate_case(planner, what, from.options.in_place, how, run.loads);
    if (sum) {
      row.times_us = {static_cast<double>(sum->time_ps) * 1e-6};
      row.algorithm = sum->algorithm;
    } else {
      row.failure = sum.error().sentence;
    }
    block.rows.push_back(std::move(row));
  }
  run.blocks.push_back(std::move(block));
  return {};
}

}  // namespace

Result<SimulatedRun> run_simulated(const Options& options, const Job& job, uint64_t seed) {
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
      NEURON_CHECK(run_block(options, system, block, seed, run));
    }
  }
  return run;
}

}  // namespace neuron::nccom
