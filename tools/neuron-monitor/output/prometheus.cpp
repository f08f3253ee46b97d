// SPDX-License-Identifier: Apache-2.0
// The text format of Prometheus (version 0.0.4) and OpenMetrics (1.0.0). They differ in how a
// counter's family and the time of its creation are written, and in the last line.
#include "tools/neuron-monitor/output/exposition.h"

namespace neuron::monitor {

std::string format_prometheus(const Exposition& exposition, bool openmetrics) {
  tools::PrometheusText text(exposition.instance);
  for (const Family& family : exposition.families) {
    const std::string name = family.name;
    if (!family.counter) {
      text.family(name, "gauge", family.help);
      for (const Sample& sample : family.samples) text.sample("", sample.labels, sample.value);
    } else if (openmetrics) {
      text.family(name, "counter", family.help);
      for (const Sample& sample : family.samples) {
        text.sample("_total", sample.labels, sample.value);
        text.sample("_created", sample.labels, sample.created);
      }
    } else {
      text.family(name + "_total", "counter", family.help);
      for (const Sample& sample : family.samples) text.sample("", sample.labels, sample.value);
      text.family(name + "_created", "gauge", family.help);
      for (const Sample& sample : family.samples) text.sample("", sample.labels, sample.created);
    }
  }
  if (openmetrics) text.line("# EOF");
  return text.take();
}

}  // namespace neuron::monitor
