// SPDX-License-Identifier: Apache-2.0
// All that neuron-monitor says of one host, to the letter: report, Prometheus, OpenMetrics, OTLP.
#include "tests/unit/tools/golden.h"

#include <numeric>

#include "tests/unit/tools/rich_host.h"
#include "tools/neuron-monitor/model/observer.h"
#include "tools/neuron-monitor/output/json_report.h"
#include "tools/neuron-monitor/output/metric_families.h"

namespace neuron::monitor {
namespace {

using testing::expect_golden;
using testing::rich_host;

Observation observation(Observer& observer, uint64_t rounds) {
  std::vector<size_t> all(observer.periods().size());
  std::iota(all.begin(), all.end(), 0u);
  return observer.observe(std::make_shared<const telemetry::Snapshot>(rich_host(rounds)), all);
}

struct Observed {
  Observer observer;
  explicit Observed() : observer(configuration()) {
    observer.start(std::make_shared<const telemetry::Snapshot>(rich_host()));
  }
  static Configuration configuration() {
    Configuration out = default_configuration();
    out.k8s_period = out.period;
    return out;
  }
};

TEST(MonitorOutput, OfAReportIsAsBefore) {
  Observed observed;
  const Observation seen = observation(observed.observer, 2);
  expect_golden("monitor_report.json", format_report(seen, {.pretty = true}));
  expect_golden("monitor_report_line.json",
                format_report(seen, {.pretty = false, .instance_info = false}));
}

TEST(MonitorOutput, OfMetricsIsAsBefore) {
  Observed observed;
  MetricFamilies board(true), anonymous(false);
  for (const uint64_t rounds : {1u, 3u}) {
    const Observation seen = observation(observed.observer, rounds);
    board.update(seen);
    anonymous.update(seen);
  }
  expect_golden("monitor_prometheus.txt", format_prometheus(board.exposition(), false));
  expect_golden("monitor_openmetrics.txt", format_prometheus(anonymous.exposition(), true));
  expect_golden("monitor_otlp.json", format_otlp(board.exposition()));
}

}  // namespace
}  // namespace neuron::monitor
