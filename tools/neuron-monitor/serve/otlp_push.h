// SPDX-License-Identifier: Apache-2.0
//
// Pushes metrics to an OTLP collector (HTTP, JSON): one request at a time, the newest values only.
//
// Concepts: counters are cumulative, so the next push makes up for one that did not arrive. After a
// failure it waits 1, 2, 4 ... 60 s; a body that the collector refuses for good is dropped.
// Callers: Exporter, on its thread. Owns: a connection that is kept between pushes. Borrows: the
// io_context, the body source. Fails: never to the caller; one sentence on stderr when pushes begin
// to fail and one when they arrive again.
#ifndef TOOLS_NEURON_MONITOR_SERVE_OTLP_PUSH_H
#define TOOLS_NEURON_MONITOR_SERVE_OTLP_PUSH_H

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "tools/neuron-monitor/serve/endpoint.h"

namespace neuron::monitor {

class OtlpPush {
 public:
  virtual ~OtlpPush() = default;
  // To be called when there are new values.
  virtual void notify() = 0;

  // `told` hears of the end of each attempt: whether the collector has taken the values.
  static std::unique_ptr<OtlpPush> create(boost::asio::io_context& context, Url url,
                                          std::function<std::string()> body,
                                          std::function<void(bool arrived)> told);
};

}  // namespace neuron::monitor

#endif
