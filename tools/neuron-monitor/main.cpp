// SPDX-License-Identifier: Apache-2.0
// neuron-monitor: reports on devices, processes and the host, one a line. Configuration file and
// names are those of the original. Also serves Prometheus and pushes to OTLP.
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "tools/common/command_line.h"
#include "tools/neuron-monitor/loop/monitor.h"
#include "tools/neuron-monitor/manual.h"
#include "tools/neuron-monitor/serve/endpoint.h"

namespace {

using namespace neuron::monitor;

int complain(const std::string& sentence, int status) {
  std::fprintf(stderr, "neuron-monitor: %s\n", sentence.c_str());
  return status;
}

// The signals that end the program. They are blocked, and received while the program sleeps.
sigset_t ending_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGHUP);
  return set;
}

bool sleep_until(SteadyTime until) {
  static const sigset_t ending = ending_signals();
  // bounded: by `until`
  do {
    const auto rest = std::max<Duration>(until - std::chrono::steady_clock::now(), Duration(0));
    const timespec time = {static_cast<time_t>(rest.count() / 1'000'000'000),
                           static_cast<long>(rest.count() % 1'000'000'000)};
    if (::sigtimedwait(&ending, nullptr, &time) > 0) return false;
  } while (std::chrono::steady_clock::now() < until);
  return true;
}

constexpr std::chrono::seconds kLastPush{10};

struct Arguments {
  std::string configuration;
  LoopOptions loop;
  ExporterOptions exporter;
  bool check = false, no_instance_info = false, no_stream = false;
};

int run(const Configuration& configuration, const Arguments& arguments) {
  MetricFamilies board(arguments.loop.style.instance_info);
  std::unique_ptr<Exporter> exporter;
  if (!arguments.exporter.prometheus.empty() || !arguments.exporter.otlp.empty()) {
    std::string error;
    exporter = Exporter::start(arguments.exporter, board, error);
    if (!exporter) return complain(error, neuron::tools::kFailed);
    if (arguments.loop.verbosity >= 1 && exporter->port() != 0) {
      const std::string& address = arguments.exporter.prometheus;
      complain("serving http://" + address.substr(0, address.rfind(':')) + ":" +
                   std::to_string(exporter->port()) + "/metrics",
               0);
    }
  }
  std::optional<Stream> stream;
  if (!arguments.no_stream) stream.emplace(STDOUT_FILENO);
  const auto source = neuron::telemetry::open_host_source();
  Monitor monitor(configuration, *source,
                  {stream ? &*stream : nullptr, exporter ? &board : nullptr, exporter.get()},
                  arguments.loop, sleep_until);
  const End end = monitor.run();
  if (end == End::kStopped && stream && stream->failure() == 0) {
    stream->finish(std::chrono::milliseconds(500));
  }
  // Nobody makes up for the only report.
  if (arguments.loop.once && exporter && !exporter->pushed(kLastPush)) {
    return complain("the report was not pushed to " + arguments.exporter.otlp,
                    neuron::tools::kFailed);
  }
  return end == End::kStreamFailed ? neuron::tools::kFailed : neuron::tools::kDone;
}

// The parser's sentence that refuses an option's value; empty: the value is good.
template <typename Parser>
auto refused_by(Parser parse) {
  return [parse](const std::string& text) {
    std::string error;
    return parse(text, error) ? std::string() : error;
  };
}

}  // namespace

int main(int argc, char** argv) {
  neuron::tools::CommandLine line(manual());
  Arguments arguments;
  bool pretty = false;
  line.option("-c,--config-file", arguments.configuration, "what to report, and how often")
      .value_name("FILE");
  line.option("--verbose", arguments.loop.verbosity,
              "to standard error: 1 what goes wrong, 2 processes, 3 reports, 4 times")
      .between(0, 4)
      .with_default();
  line.flag("--check-config", arguments.check, "say what is wrong with the configuration, and end");
  line.flag("--once", arguments.loop.once, "write one report and end");
  line.flag("--pretty", pretty, "reports over several lines");
  line.flag("--no-instance-info", arguments.no_instance_info,
            "leave the instance's names and numbers empty");
  line.option("--prometheus", arguments.exporter.prometheus,
              "serve /metrics and /healthz at this address, such as :8000")
      .value_name("ADDRESS:PORT")
      .judged_by(refused_by(parse_endpoint));
  line.option("--otlp", arguments.exporter.otlp,
              "push to this OTLP collector (HTTP, JSON), such as http://127.0.0.1:4318")
      .value_name("URL")
      .judged_by(refused_by(parse_url));
  line.flag("--no-stream", arguments.no_stream, "write no reports to standard output");
  if (const auto status = line.parse(argc, argv)) return *status;
  arguments.loop.style = {pretty, !arguments.no_instance_info};
  if (arguments.no_stream && arguments.loop.once) {
    return complain("--once writes a report: it cannot go with --no-stream",
                    neuron::tools::kWrongUsage);
  }
  if (arguments.no_stream && arguments.exporter.prometheus.empty() &&
      arguments.exporter.otlp.empty() && !arguments.check) {
    return complain("--no-stream needs --prometheus or --otlp: there would be nothing to do",
                    neuron::tools::kWrongUsage);
  }

  Configuration configuration = default_configuration();
  if (!arguments.configuration.empty()) {
    std::string error;
    auto read = read_configuration(arguments.configuration, error);
    if (!read) return complain(error, neuron::tools::kWrongUsage);
    configuration = std::move(*read);
  }
  for (const std::string& warning : configuration.warnings) complain(warning, 0);
  if (arguments.check) {
    return configuration.warnings.empty() ? neuron::tools::kDone : neuron::tools::kFailed;
  }

  ::signal(SIGPIPE, SIG_IGN);
  const sigset_t ending = ending_signals();
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  return run(configuration, arguments);
}
