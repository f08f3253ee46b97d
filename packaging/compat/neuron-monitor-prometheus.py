#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""neuron-monitor | neuron-monitor-prometheus.py --port 8000: serves the reports of a pipe to Prometheus, at /metrics.

`neuron-monitor --prometheus` does so by itself, and has more metrics. This program is for pipes that are there already: it ends with
the pipe. Exit status 0: the pipe has ended, 1: the port cannot be had, 2: wrong usage."""
import argparse
import http.server
import sys
import threading

import neuron_monitor_metrics as metrics


def handler_of(values):
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 10  # seconds that a client may be silent

        def do_GET(self):  # noqa: N802: the name is the library's
            if self.path.split("?")[0] not in ("/", "/metrics"):
                self.send_error(404, "metrics are at /metrics")
                return
            body = values.text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Says nothing: a scrape is no news."""

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8000, help="8000 by default; 0: a free one, which standard error names")
    parser.add_argument("--address", default="", help="address to listen on; all of the host by default")
    parser.add_argument("--enable-k8s-info", action="store_true", help="labels pod, namespace and container of cores in pods")
    arguments = parser.parse_args()
    values = metrics.Metrics(arguments.enable_k8s_info)
    try:
        server = http.server.ThreadingHTTPServer((arguments.address, arguments.port), handler_of(values))
    except (OSError, OverflowError) as error:
        print(f"neuron-monitor-prometheus.py: cannot listen on port {arguments.port}: {error}", file=sys.stderr)
        return 1
    server.daemon_threads = True
    print(f"neuron-monitor-prometheus.py: metrics at port {server.server_address[1]}", file=sys.stderr, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for line in metrics.lines_of(sys.stdin):
        try:
            values.update(metrics.parse(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            print(f"neuron-monitor-prometheus.py: a line is left out: {error}", file=sys.stderr, flush=True)
    server.shutdown()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(0)
