// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/collective_json.h"

#include <boost/json.hpp>

namespace neuron::tools {

namespace json = boost::json;

bool reduces(ccom_operation_t operation) {
  return operation == CCOM_ALL_REDUCE || operation == CCOM_REDUCE_SCATTER ||
         operation == CCOM_REDUCE || operation == CCOM_REDUCE_SCATTER_V;
}

json::object collective_json(const neff::Collective& c, const std::string& input,
                             const std::string& output) {
  json::object entry;
  entry["operation"] = neff::collective_name(c.operation);
  entry["stream"] = c.stream;
  if (c.operation != CCOM_BARRIER) {
    entry["type"] = neff::collective_type_name(c.type);
    const auto numbers = [&](const char* key, const std::vector<uint64_t>& values) {
      if (!values.empty()) entry[key] = json::array(values.begin(), values.end());
    };
    if (c.operation <= CCOM_BARRIER) entry["count"] = c.count;
    numbers("counts", c.counts);
    numbers("displacements", c.displacements);
    numbers("receive_displacements", c.receive_displacements);
    const auto side = [&](const std::string& key, const std::string& variable, uint64_t offset,
                          const neff::RowsOfSbuf& rows) {
      entry[key] = variable;
      if (offset != 0) entry[key + "_offset"] = offset;
      if (!rows.present()) return;
      entry[key + "_row_bytes"] = rows.row_bytes;
      entry[key + "_partitions"] = rows.partitions;
    };
    side("input", input, c.input_offset, c.input_rows);
    side("output", output, c.output_offset, c.output_rows);
  }
  if (reduces(c.operation)) entry["reduction"] = neff::collective_reduction_name(c.reduction);
  if (c.algorithm != CCOM_ALGORITHM_AUTO) {
    entry["algorithm"] = neff::collective_algorithm_name(c.algorithm);
  }
  if (c.root != 0) entry["root"] = c.root;
  if (!c.groups.empty()) {
    json::array groups;
    for (const auto& group : c.groups) groups.emplace_back(json::array(group.begin(), group.end()));
    entry["replica_groups"] = std::move(groups);
  }
  if (!c.pairs.empty()) {
    json::array pairs;
    for (const ccom_pair_t& pair : c.pairs) {
      pairs.emplace_back(json::array{pair.source, pair.target});
    }
    entry["pairs"] = std::move(pairs);
  }
  if (c.semaphore) {
    entry["semaphore"] = *c.semaphore;
    entry["semaphore_add"] = c.semaphore_add;
  }
  return entry;
}

}  // namespace neuron::tools
