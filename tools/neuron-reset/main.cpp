// SPDX-License-Identifier: Apache-2.0
// neuron-reset: resets devices, reports each state as it is reached, and verifies that they work.
#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "tools/common/command_line.h"
#include "tools/common/format.h"
#include "tools/common/output.h"
#include "tools/common/time_text.h"
#include "tools/neuron-doctor/checks/access.h"
#include "tools/neuron-reset/machine/device_subject.h"
#include "tools/neuron-reset/manual.h"

namespace neuron::reset {
namespace {

constexpr const char* kProgram = "neuron-reset";
constexpr std::chrono::milliseconds kLook{5000};

tools::Records records_of(const std::vector<Event>& events) {
  tools::Records records;
  records.schema = kProgram;
  records.list = "states";
  records.columns = {
      {"device", "DEVICE"},           {"state", "STATE"},  {"end", "END"}, {"at", "AT"},
      {"elapsed_seconds", "ELAPSED"}, {"detail", "DETAIL"}};
  boost::json::array ends;
  for (const Event& event : events) {
    const std::string detail = tools::printable(event.detail);
    std::vector<boost::json::value> row;
    row.emplace_back(event.device);
    row.emplace_back(name(event.state));
    row.emplace_back(is_end(event.state));
    row.emplace_back(tools::utc_text(event.at));
    row.emplace_back(std::round(event.elapsed_seconds * 1000) / 1000);
    row.push_back(detail.empty() ? boost::json::value(nullptr) : boost::json::value(detail));
    records.rows.push_back(std::move(row));
    if (is_end(event.state)) {
      ends.push_back(boost::json::object{{"device", event.device}, {"end", name(event.state)}});
    }
  }
  records.about = {{"devices", std::move(ends)}};
  return records;
}

// Prints states: from several threads, a line at a time.
class Reporter {
 public:
  explicit Reporter(tools::Format format) : format_(format) {
    if (format_ == tools::Format::kCsv) print(render(records_of({}), format_, {}));
  }

  void tell(const Event& event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(event);
    switch (format_) {
      case tools::Format::kText:
        print("device " + std::to_string(event.device) + ": " + name(event.state) +
              (event.detail.empty() ? "" : ": " + tools::printable(event.detail)) + "\n");
        break;
      case tools::Format::kNdjson:
        print(render(records_of({event}), format_, {}));
        break;
      case tools::Format::kCsv: {
        const std::string text = render(records_of({event}), format_, {});
        print(text.substr(text.find('\n') + 1));
        break;
      }
      case tools::Format::kJson:
        break;
    }
  }

  // False if a line could not be written.
  bool finish() {
    if (format_ == tools::Format::kJson) print(render(records_of(events_), format_, {}));
    return written_;
  }

 private:
  // After the first failed write nothing more is printed; the reset goes on.
  void print(const std::string& text) {
    if (written_) written_ = tools::print_output(kProgram, text);
  }

  const tools::Format format_;
  std::mutex mutex_;
  std::vector<Event> events_;
  bool written_ = true;
};

struct Options {
  std::vector<int> devices;
  bool all = false;
  bool force = false;
  unsigned timeout_s = 180;
  tools::Format format = tools::Format::kText;
};

std::vector<State> reset_all(const Options& options, Reporter& reporter) {
  std::vector<State> ends(options.devices.size(), State::kFailed);
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  const size_t side_by_side =
      std::max<size_t>(1, std::min<size_t>({ends.size(), 16, std::thread::hardware_concurrency()}));
  for (size_t i = 0; i < side_by_side; ++i) {
    threads.emplace_back([&] {
      // Relaxed: the threads share nothing else that it orders; join() follows.
      for (size_t at = next.fetch_add(1, std::memory_order_relaxed); at < ends.size();
           at = next.fetch_add(1, std::memory_order_relaxed)) {
        DeviceSubject subject(options.devices[at]);
        const Plan plan{options.devices[at], options.force,
                        std::chrono::seconds(options.timeout_s)};
        ends[at] = run(subject, plan, [&](const Event& event) { reporter.tell(event); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

int reset_devices(Options options) {
  telemetry::Wanted wanted;
  wanted.processes = wanted.hardware = wanted.host = wanted.instance = false;
  const telemetry::Snapshot snapshot = telemetry::open_host_source()->take(wanted, kLook);
  if (snapshot.devices.empty()) return doctor::explain_no_device(kProgram, snapshot.error);
  if (options.all) {
    for (const telemetry::Device& device : snapshot.devices) {
      options.devices.push_back(static_cast<int>(device.index));
    }
  }
  if (snapshot.versions.backend == "embedded") {
    std::fprintf(stderr,
                 "%s: NEURON_EMULATOR names devices of this process alone: nobody else sees them "
                 "reset\n",
                 kProgram);
  }
  Reporter reporter(options.format);
  const std::vector<State> ends = reset_all(options, reporter);
  const int status = exit_status(ends);
  return reporter.finish() ? status : tools::kFailed;
}

}  // namespace
}  // namespace neuron::reset

int main(int argc, char** argv) {
  using namespace neuron::reset;
  namespace tools = neuron::tools;
  tools::CommandLine line(manual());
  Options options;
  neuron::checks::WorkerOptions worker;
  const tools::Option devices =
      line.option("-d,--device", options.devices, "these devices").between(0, 63);
  line.flag("--all", options.all, "all devices").excludes(devices);
  line.flag("--force", options.force, "also if somebody holds the device");
  line.option("--timeout", options.timeout_s, "seconds after which a device is given up")
      .between(1u, 3600u)
      .with_default();
  tools::add_format_option(line, options.format);
  add_worker_options(line, worker);
  if (const auto status = line.parse(argc, argv)) return *status;
  setenv("NEURON_RT_LOG_LEVEL_NRT", "QUIET", 0);
  if (!worker.kind.empty()) return work(worker);
  if (!options.all && options.devices.empty()) {
    std::fprintf(stderr, "neuron-reset: say which device: --device N or --all\n");
    return tools::kWrongUsage;
  }
  std::sort(options.devices.begin(), options.devices.end());
  options.devices.erase(std::unique(options.devices.begin(), options.devices.end()),
                        options.devices.end());
  // A reader that goes away must not leave a device half reset.
  std::signal(SIGPIPE, SIG_IGN);
  return reset_devices(std::move(options));
}
