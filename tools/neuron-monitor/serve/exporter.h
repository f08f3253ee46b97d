// SPDX-License-Identifier: Apache-2.0
//
// The thread for the network: scrapes of Prometheus and pushes to an OTLP collector.
//
// Concepts: it reads the MetricFamilies whenever it likes; the loop that measures never waits for
// it. Callers: the monitor's loop. Owns: the thread, its sockets. Borrows: the MetricFamilies and
// the clock of the last report. Fails: start() with a sentence (an address in use, a malformed
// URL); later errors of a collector are sentences on stderr; those of a client are ignored.
#ifndef TOOLS_NEURON_MONITOR_SERVE_EXPORTER_H
#define TOOLS_NEURON_MONITOR_SERVE_EXPORTER_H

#include <chrono>
#include <memory>
#include <string>

#include "tools/neuron-monitor/output/metric_families.h"

namespace neuron::monitor {

struct ExporterOptions {
  std::string prometheus;  // ADDRESS:PORT; empty: none
  std::string otlp;        // URL; empty: none
  // After a longer time without an update, /healthz reports a hang.
  std::chrono::milliseconds longest_silence{30'000};
};

class Exporter {
 public:
  // Fails: null, and a sentence in `error`.
  static std::unique_ptr<Exporter> start(const ExporterOptions& options,
                                         const MetricFamilies& board, std::string& error);
  virtual ~Exporter() = default;

  // The board has changed.
  virtual void notify() = 0;
  // Waits at most `patience` for the first push since the last notify(). False: the collector has
  // not taken the values; the reason is on standard error, unless the time was over. True at once
  // if nothing is pushed.
  virtual bool pushed(std::chrono::milliseconds patience) = 0;
  // The port that the exporter listens on; useful if the options say "0".
  virtual unsigned short port() const = 0;
};

}  // namespace neuron::monitor

#endif
