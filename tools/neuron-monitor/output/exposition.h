// SPDX-License-Identifier: Apache-2.0
//
// Metrics as families of samples with labels, the common form for Prometheus and OTLP. Callers:
// MetricFamilies makes it, prometheus.cpp and otlp.cpp format it. Values. Cannot fail.
#ifndef TOOLS_NEURON_MONITOR_OUTPUT_EXPOSITION_H
#define TOOLS_NEURON_MONITOR_OUTPUT_EXPOSITION_H

#include <chrono>
#include <string>
#include <vector>

#include "tools/common/prometheus_text.h"

namespace neuron::monitor {

using tools::Labels;

struct Sample {
  Labels labels;
  double value = 0;
  double created = 0;  // of a counter: seconds since 1970 when it was zero
};

struct Family {
  const char* name;  // of Prometheus; a counter's without "_total"
  const char* otlp;  // null: Prometheus only
  const char* unit;  // of OTLP: "1", "By", "s", "{event}"
  bool counter;
  const char* help;
  std::vector<Sample> samples = {};
};

struct Exposition {
  std::chrono::system_clock::time_point at;
  Labels instance;  // on every sample of Prometheus; attributes of the resource of OTLP
  std::vector<Family> families;
};

// The text format of Prometheus, or OpenMetrics.
std::string format_prometheus(const Exposition& exposition, bool openmetrics);

// The body of a request to an OTLP collector, in JSON.
std::string format_otlp(const Exposition& exposition);

}  // namespace neuron::monitor

#endif
