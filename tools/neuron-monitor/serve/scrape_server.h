// SPDX-License-Identifier: Apache-2.0
//
// Answers GET /metrics (Prometheus or OpenMetrics, as the client accepts) and GET /healthz.
//
// Callers: Exporter, on its thread. Owns: the listening socket; each connection lives as long as
// its client and its deadlines let it. Borrows: the io_context and the page source.
// Fails: listen() with a sentence. A client that is slow, silent, too large or one too many loses
// only its own connection.
#ifndef TOOLS_NEURON_MONITOR_SERVE_SCRAPE_SERVER_H
#define TOOLS_NEURON_MONITOR_SERVE_SCRAPE_SERVER_H

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "tools/neuron-monitor/serve/endpoint.h"

namespace neuron::monitor {

struct Pages {
  // The metrics as they are now; null: nothing has been measured yet.
  std::function<std::shared_ptr<const std::string>(bool openmetrics)> metrics;
  // Empty: healthy; else why not.
  std::function<std::string()> trouble;
};

class ScrapeServer {
 public:
  virtual ~ScrapeServer() = default;
  virtual unsigned short port() const = 0;

  static std::unique_ptr<ScrapeServer> listen(boost::asio::io_context& context,
                                              const Endpoint& endpoint, Pages pages,
                                              std::string& error);
};

}  // namespace neuron::monitor

#endif
