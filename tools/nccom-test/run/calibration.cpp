// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/run/calibration.h"

#include <algorithm>
#include <cstdlib>

#include "ccom/plan/calibration.h"
#include "ccom/plan/cost_fit.h"
#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::format;
using ccom::Result;

namespace {

struct Measured {
  ccom_operation_t operation;
  ccom_algorithm_t algorithm;
};

// Operations that every group can do, whatever its shape.
constexpr Measured kMeasured[] = {
    {CCOM_ALL_GATHER, CCOM_RING},     {CCOM_ALL_GATHER, CCOM_MESH},
    {CCOM_ALL_REDUCE, CCOM_RING},     {CCOM_ALL_REDUCE, CCOM_MESH},
    {CCOM_ALL_REDUCE, CCOM_TREE},     {CCOM_REDUCE_SCATTER, CCOM_RING},
    {CCOM_REDUCE_SCATTER, CCOM_MESH}, {CCOM_BROADCAST, CCOM_TREE},
    {CCOM_ALL_TO_ALL, CCOM_MESH},     {CCOM_ALL_TO_ALL, CCOM_PAIRWISE},
};

// Median over ranks and iterations, so that a disturbed one does not count.
double seconds_of(const Row& row) { return percentile(row.times_us, 50) * 1e-6; }

// The ranks as the library places them.
Result<ccom::Group> group_of(const Options& options, Backend backend) {
  if (backend == Backend::kDevice) {
    const char* variable = std::getenv("NEURON_EMULATOR");
    const std::string_view emulated = variable == nullptr ? "" : variable;
    NEURON_TRY(profile, ccom::Topology::profile(emulated.starts_with("trn3")   ? "trn3s.48xlarge"
                                                : emulated.starts_with("trn2") ? "trn2.48xlarge"
                                                                               : "trn1.32xlarge"));
    const uint32_t of_node = profile.chips * profile.ranks_per_chip;
    if (options.ranks > of_node) {
      return fail(CCOM_UNSUPPORTED,
                  "--calibrate: devices join the {} cores of one instance, not {}", of_node,
                  options.ranks);
    }
    ccom::Group group{{}, ccom::Topology(profile, 1)};
    for (uint32_t rank = 0; rank < options.ranks; ++rank) {
      group.places.push_back(group.topology.place(rank));
    }
    return group;
  }
  NEURON_TRY(profile, ccom::Topology::profile("host"));
  const uint32_t of_node = std::max(1u, options.ranks / std::max(1u, options.nodes));
  profile.ranks_per_chip = std::max(profile.ranks_per_chip, of_node);
  ccom::Group group{{}, ccom::Topology(profile, std::max(1u, options.nodes))};
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    group.places.push_back({rank / of_node, 0, rank % of_node, 0});
  }
  return group;
}

}  // namespace

std::vector<BlockOptions> calibration_blocks(const Options& options) {
  std::vector<BlockOptions> blocks;
  for (const Measured& measured : kMeasured) {
    BlockOptions block = options.block;
    block.operation = measured.operation;
    block.algorithm = measured.algorithm;
    block.reduction = CCOM_ADD;
    block.root = 0;
    blocks.push_back(block);
  }
  return blocks;
}

Result<std::string> calibrate(const Options& options, Backend backend,
                              const std::vector<Block>& blocks) {
  std::vector<ccom::Observation> observations;
  std::string refused;
  for (size_t b = 0; b < blocks.size() && b < std::size(kMeasured); ++b) {
    for (const Row& row : blocks[b].rows) {
      if (!row.failure.empty() && refused.empty()) refused = row.failure;
      if (!row.failure.empty() || row.times_us.empty()) continue;
      ccom::Observation o;
      o.algorithm = kMeasured[b].algorithm;
      o.request.operation = kMeasured[b].operation;
      o.request.type = blocks[b].type;
      // A row counts all data gathered, scattered or exchanged; a call counts one rank's part.
      const bool whole =
          kMeasured[b].operation != CCOM_ALL_REDUCE && kMeasured[b].operation != CCOM_BROADCAST;
      o.request.count = whole ? row.count / options.ranks : row.count;
      o.seconds = seconds_of(row);
      observations.push_back(o);
    }
  }
  NEURON_TRY(group, group_of(options, backend));
  const auto medium =
      backend == Backend::kDevice ? ccom::Medium::kDevice : ccom::Medium::kHostMemory;
  auto fitted = ccom::fit_costs(group, medium, observations);
  if (!fitted) {
    return refused.empty() ? fitted.error() : fitted.error().with("after \"{}\"", refused);
  }
  NEURON_CHECK(ccom::save_calibration(options.calibration, fitted->costs));
  return format(
      "calibration of the {} in {}: {}\n"
      "{} measurements; the model is off by {:.0f} % in the median (built-in prices: {:.0f} %)\n"
      "give it to all ranks of a job: CCOM_CALIBRATION={}\n",
      backend_name(backend), options.calibration, ccom::describe(fitted->costs),
      observations.size(), fitted->error * 100, fitted->before * 100, options.calibration);
}

}  // namespace neuron::nccom
