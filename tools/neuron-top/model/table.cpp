// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-top/model/table.h"

#include <boost/json/array.hpp>

namespace neuron::top {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;
using tools::Unit;

template <typename Number>
array numbers(const std::vector<Number>& of) {
  array list;
  for (const Number number : of) list.push_back(number);
  return list;
}

array texts(const std::vector<std::string>& words) {
  array list;
  for (const std::string& word : words) list.emplace_back(word);
  return list;
}

array processes(const View& view) {
  array list;
  for (const ProcessRow& row : view.processes) {
    list.push_back(object{{"pid", row.pid},
                          {"user", row.user},
                          {"tag", row.tag},
                          {"cores", row.cores},
                          {"utilization_percent", row.activity.busy * 100},
                          {"executions_per_second", row.activity.executions},
                          {"errors", row.activity.errors},
                          {"device_memory_bytes", row.device_bytes},
                          {"host_memory_bytes", row.host_bytes},
                          {"processor_percent", row.processors * 100},
                          {"container", row.where},
                          {"command", row.command}});
  }
  return list;
}

}  // namespace

tools::Records build_records(const View& view, const telemetry::Snapshot& now,
                             const Interval& interval) {
  tools::Records records;
  records.schema = "neuron-top";
  records.list = "cores";
  records.columns = {{"time_seconds", "TIME"},
                     {"neuron_device", "DEVICE"},
                     {"neuroncore", "CORE"},
                     {"utilization_percent", "UTILIZATION", Unit::kPercent},
                     {"flops_per_second", "FLOPS"},
                     {"pe_percent", "PE", Unit::kPercent},
                     {"act_percent", "ACT", Unit::kPercent},
                     {"pool_percent", "POOL", Unit::kPercent},
                     {"dve_percent", "DVE", Unit::kPercent},
                     {"sp_percent", "SP", Unit::kPercent},
                     {"collectives_percent", "CC", Unit::kPercent},
                     {"dma_bytes_per_second", "DMA", Unit::kBytesPerSecond},
                     {"link_bytes_per_second", "LINKS", Unit::kBytesPerSecond},
                     {"executions_per_second", "EXEC/s"},
                     {"errors", "ERRORS"},
                     {"memory_used_bytes", "MEMORY", Unit::kBytes},
                     {"pids", "PIDS"},
                     {"hung_engines", "HUNG"},
                     {"links_down", "LINKS DOWN"}};
  // The time is in each record too, because a stream has nothing but records.
  const double time = std::chrono::duration<double>(now.at.time_since_epoch()).count();
  for (const DeviceRow& device : view.devices) {
    for (const CoreCell& cell : device.cores) {
      std::vector<value> row{time, device.device, cell.logical_core, cell.activity.busy * 100,
                             cell.activity.flops};
      for (const double share : cell.activity.engines) row.emplace_back(share * 100);
      row.emplace_back(cell.activity.collectives * 100);
      row.emplace_back(cell.activity.dma_bytes);
      row.emplace_back(cell.activity.link_bytes);
      row.emplace_back(cell.activity.executions);
      row.emplace_back(cell.activity.errors);
      row.emplace_back(cell.memory_bytes);
      row.emplace_back(numbers(cell.pids));
      row.emplace_back(texts(cell.hung_engines));
      row.emplace_back(device.links_down ? value(numbers(*device.links_down)) : value(nullptr));
      records.rows.push_back(std::move(row));
    }
  }
  records.about = {{"time_seconds", time},
                   {"interval_seconds", interval.seconds},
                   {"instance_type", now.instance.type},
                   {"instance_id", now.instance.id},
                   {"processes", processes(view)},
                   {"notes", texts(view.notes)}};
  return records;
}

}  // namespace neuron::top
