// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/job.h"

#include <algorithm>
#include <numeric>

#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/run/calibration.h"
#include "tools/nccom-test/run/case.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::format;
using ccom::Result;

namespace {

// Pairs of world ranks as pairs of ranks of the groups; all groups must have the same ones.
Result<PairConfig> within_groups(const PairConfig& pairs, const GroupConfig& groups) {
  std::vector<PairConfig> of_group(groups.size());
  for (const ccom_pair_t& pair : pairs) {
    uint32_t from_group = 0, from = 0, to_group = 0, to = 0;
    if (!place_in(groups, pair.source, from_group, from) ||
        !place_in(groups, pair.target, to_group, to) || from_group != to_group) {
      return fail(CCOM_INVALID, "the pair {} -> {} does not lie within one replica group",
                  pair.source, pair.target);
    }
    of_group[from_group].push_back({from, to});
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    if (of_group[g].size() != of_group[0].size()) {
      return fail(CCOM_INVALID, "replica group {} has {} pairs, the first one {}", g,
                  of_group[g].size(), of_group[0].size());
    }
    for (size_t i = 0; i < of_group[g].size(); ++i) {
      if (of_group[g][i].source != of_group[0][i].source ||
          of_group[g][i].target != of_group[0][i].target) {
        return fail(CCOM_INVALID, "replica group {} has other pairs than the first one", g);
      }
    }
  }
  return of_group.front();
}

PairConfig default_pairs(ccom_operation_t operation, uint32_t ranks) {
  PairConfig pairs;
  if (operation == CCOM_SEND_RECEIVE && ranks > 1) pairs.push_back({0, 1});
  for (uint32_t i = 0; operation == CCOM_PERMUTE && i < ranks; ++i) {
    pairs.push_back({i, (i + 1) % ranks});
  }
  return pairs;
}

Result<void> check_block(const PhaseBlock& block, const Options& options) {
  const BlockOptions& o = block.options;
  const char* name = operation_name(o.operation);
  const auto ranks = static_cast<uint32_t>(block.groups.front().size());
  if (takes_pairs(o.operation) && block.pairs.empty()) {
    return fail(CCOM_INVALID, "{} needs a pair of ranks; there is {} rank", name, ranks);
  }
  if (o.operation == CCOM_SEND_RECEIVE && block.pairs.size() > 1) {
    return fail(CCOM_INVALID,
                "sendrecv takes one source and target, {} are given; permute takes several",
                block.pairs.size());
  }
  if (has_root(o.operation) && o.root >= ranks) {
    return fail(CCOM_INVALID, "{}: root {} is not in a group of {} ranks", name, o.root, ranks);
  }
  if (!o.metadata.empty()) {
    if (!has_variable_counts(o.operation)) {
      return fail(CCOM_INVALID,
                  "--variable-size-op-metadata is for alltoallv, all_gatherv and reduce_scatterv, "
                  "not for {}",
                  name);
    }
    if (block.groups.size() > 1 && o.metadata.size() > 1) {
      return fail(CCOM_INVALID, "metadata of each rank and replica groups do not go together");
    }
  }
  if (o.coalesced.size() > 1 && has_variable_counts(o.operation)) {
    return fail(CCOM_INVALID, "{} cannot be coalesced", name);
  }
  if (options.shared_output && o.coalesced.size() < 2) {
    return fail(CCOM_INVALID, "--shared-output-buff needs --coalesced-cc-size-ratio");
  }
  if (options.shared_output && options.check != Check::kNone) {
    return fail(CCOM_INVALID,
                "--shared-output-buff leaves only the last of several results; leave --check out");
  }
  return {};
}

Result<PhaseBlock> make_block(const BlockOptions& block, const GroupConfig& groups,
                              const PairConfig& pairs, const Options& options) {
  PhaseBlock result;
  result.options = block;
  result.groups = groups;
  const auto ranks = static_cast<uint32_t>(groups.front().size());
  if (takes_pairs(block.operation)) {
    if (pairs.empty()) {
      result.pairs = default_pairs(block.operation, ranks);
    } else {
      NEURON_TRY(own, within_groups(pairs, groups));
      result.pairs = own;
    }
  }
  NEURON_TRY(sizes, sizes_of(block.sweep));
  // Sizes that are rounded up to the same one are one row. A case of every pair of very many ranks
  // is not made only to ask.
  const bool asks = options.profile.empty() && !has_variable_counts(block.operation);
  uint64_t last = 0;
  for (const uint64_t size : sizes) {
    uint64_t rounded = size;
    if (asks) {
      if (const auto made = make_case(block, result.pairs, size, ranks, 0)) rounded = made->size;
    }
    if (result.sizes.empty() || rounded != last) result.sizes.push_back(size);
    last = rounded;
  }
  // Only one size: a barrier has no data, and metadata fix the sizes.
  if (block.operation == CCOM_BARRIER) result.sizes = {0};
  if (!block.metadata.empty()) result.sizes.resize(1);
  NEURON_CHECK(check_block(result, options));
  return result;
}

GroupConfig all_ranks(uint32_t ranks) {
  Group group(ranks);
  std::iota(group.begin(), group.end(), 0u);
  return {group};
}

Result<void> add_phases(Job& job, const BlockOptions& block, const Options& options) {
  std::vector<GroupConfig> groups = block.group_configs;
  if (groups.empty()) groups.push_back(all_ranks(options.ranks));
  std::vector<PairConfig> pairs = block.pair_configs;
  if (pairs.empty() || !takes_pairs(block.operation)) pairs.assign(1, {});
  for (size_t g = 0; g < groups.size(); ++g) {
    for (size_t p = 0; p < pairs.size(); ++p) {
      NEURON_TRY(made, make_block(block, groups[g], pairs[p], options));
      if (options.operations.size() > 1) made.title = operation_name(block.operation);
      if (groups.size() > 1) {
        made.title += format("{}replica groups {}", made.title.empty() ? "" : ", ", g);
      }
      if (pairs.size() > 1) made.title += format("{}pairs {}", made.title.empty() ? "" : ", ", p);
      job.phases.push_back({{made}, false});
    }
  }
  return {};
}

Result<void> add_heat_map(Job& job, const Options& options) {
  if (options.ranks < 2) return fail(CCOM_INVALID, "--heat-map needs two ranks or more");
  if (options.ranks > 128) {
    return fail(CCOM_INVALID, "--heat-map sends between all pairs; {} ranks are more than 128",
                options.ranks);
  }
  BlockOptions block = options.block;
  block.operation = CCOM_SEND_RECEIVE;
  block.metadata.clear();
  block.coalesced.clear();
  block.in_place = false;
  block.algorithm = CCOM_ALGORITHM_AUTO;
  block.sweep = Sweep{block.sweep.maximum, block.sweep.maximum, {}, {}};
  for (uint32_t from = 0; from < options.ranks; ++from) {
    for (uint32_t to = 0; to < options.ranks; ++to) {
      if (from == to) continue;
      NEURON_TRY(made, make_block(block, all_ranks(options.ranks), {{from, to}}, options));
      job.phases.push_back({{made}, true});
    }
  }
  return {};
}

}  // namespace

size_t Phase::steps() const {
  size_t most = 0;
  for (const PhaseBlock& block : blocks) most = std::max(most, block.sizes.size());
  return most;
}

size_t Phase::step_of(size_t block, size_t step) const {
  return std::min(step, blocks[block].sizes.size() - 1);
}

std::string iteration_name(const Job& job, size_t iteration) {
  const size_t of_run = size_t{job.operations_before} + job.operations;
  const size_t run = iteration / of_run, operation = iteration % of_run;
  const bool measured = run >= job.runs_before && operation >= job.operations_before;
  std::string name =
      operation >= job.operations_before
          ? format("{}operation {} of {}", measured ? "measured " : "",
                   operation - job.operations_before + 1, job.operations)
          : format("warm-up operation {} of {}", operation + 1, job.operations_before);
  if (run < job.runs_before) {
    name += format(", warm-up run {} of {}", run + 1, job.runs_before);
  } else if (job.runs > 1) {
    name += format(", run {} of {}", run - job.runs_before + 1, job.runs);
  }
  return name;
}

bool place_in(const GroupConfig& groups, uint32_t rank, uint32_t& group, uint32_t& place) {
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto found = std::find(groups[g].begin(), groups[g].end(), rank);
    if (found != groups[g].end()) {
      group = static_cast<uint32_t>(g);
      place = static_cast<uint32_t>(found - groups[g].begin());
      return true;
    }
  }
  return false;
}

Result<Job> make_job(const Options& options) {
  Job job;
  job.operations = options.iterations;
  job.operations_before = options.warmup;
  job.runs = options.program_iterations.value_or(1);
  job.runs_before = options.program_warmup.value_or(0);
  if (!options.streams.empty()) {
    Phase phase;
    for (size_t s = 0; s < options.streams.size(); ++s) {
      const BlockOptions& block = options.streams[s];
      const GroupConfig groups =
          block.group_configs.empty() ? all_ranks(options.ranks) : block.group_configs.front();
      const PairConfig pairs =
          block.pair_configs.empty() ? PairConfig{} : block.pair_configs.front();
      NEURON_TRY(made, make_block(block, groups, pairs, options));
      made.stream = static_cast<uint32_t>(s);
      made.title = format("stream {}: {}", s, operation_name(block.operation));
      phase.blocks.push_back(made);
    }
    job.phases.push_back(phase);
  } else if (!options.calibration.empty()) {
    for (const BlockOptions& block : calibration_blocks(options)) {
      NEURON_CHECK(add_phases(job, block, options));
      job.phases.back().blocks.front().title =
          format("{}, {}", operation_name(block.operation), algorithm_name(block.algorithm));
    }
  } else {
    for (const ccom_operation_t operation : options.operations) {
      BlockOptions block = options.block;
      block.operation = operation;
      NEURON_CHECK(add_phases(job, block, options));
    }
  }
  if (options.heat_map && options.backend != Backend::kSimulated) {
    NEURON_CHECK(add_heat_map(job, options));
  }
  return job;
}

}  // namespace neuron::nccom
