// SPDX-License-Identifier: Apache-2.0
// What an observation looks like in the stream, for Prometheus and for OTLP.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/unit/tools/neuron-monitor/snapshots.h"
#include "tools/neuron-monitor/model/schedule.h"
#include "tools/neuron-monitor/output/json_report.h"
#include "tools/neuron-monitor/output/metric_families.h"
#include "tools/neuron-monitor/output/stream.h"

namespace neuron::monitor {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
namespace json = boost::json;

struct Host {
  Host() : observer(configuration()) { observer.start(shared(host_at(0))); }
  static Configuration configuration() {
    Configuration out = default_configuration();
    out.k8s_period = out.period;
    return out;
  }
  Observation see(double seconds, std::vector<telemetry::Process> processes) {
    Snapshot now = host_at(seconds);
    now.processes = std::move(processes);
    now.host.processors.resize(2);
    std::vector<size_t> all(observer.periods().size());
    std::iota(all.begin(), all.end(), 0u);
    return observer.observe(shared(std::move(now)), all);
  }
  Observer observer;
};

telemetry::Process pod_process(int pid, const char* tag) {
  telemetry::Process out = process(pid, {0, 3}, tag);
  out.pod_name = "llm-0";
  out.pod_namespace = "prod";
  out.container_name = "serve";
  out.cores[0].memory = {1, 2, 3, 4, 5};
  out.host_memory.tensors = 77;
  out.device_bytes = 1000;
  telemetry::LoadedModel model;
  model.name = "/models/\"quoted\"\n\xff.neff";
  model.uuid = std::string(32, 'a');
  model.model_id = 10001;
  model.device = 1;
  model.physical_core = 1;
  out.models = {model, model};
  return out;
}

// Whether the schema of the reports takes the document.
::testing::AssertionResult valid(const std::string& report) {
  const test::Folder folder;
  const test::Run run = test::run({test::source("tests/system/programs/validate"), "neuron-monitor",
                                   folder.write("report", report)});
  if (run.ending == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << run.output << report;
}

TEST(Report, IsOneLineThatTheSchemaTakes) {
  Host host;
  telemetry::Process app = pod_process(10, "llm");
  execute(app, 9, 2);
  const std::string report = format_report(host.see(2, {app, process(11, {1})}), {});
  EXPECT_EQ(report.find('\n'), report.size() - 1);
  EXPECT_TRUE(valid(report));
  const json::value root = json::parse(report);
  const json::value& runtime = root.at("neuron_runtime_data").at(0);
  EXPECT_EQ(runtime.at("pid"), 10);
  EXPECT_EQ(runtime.at("address"), "");
  EXPECT_EQ(runtime.at("neuron_runtime_tag"), "llm");
  const json::value& groups = runtime.at("report");
  EXPECT_EQ(groups.at("execution_stats").at("execution_summary").at("completed_with_err"), 2);
  EXPECT_EQ(groups.at("execution_stats").at("error_summary").at("hardware"), 2);
  const json::value& core = groups.at("neuroncore_counters").at("neuroncores_in_use").at("0");
  EXPECT_EQ(core.at("flops"), 9000);
  EXPECT_EQ(core.at("effective_flops"), 9000);
  EXPECT_EQ(core.at("dma_bytes"), 9 * 640);
  EXPECT_EQ(core.at("link_bytes"), 9 * 64);
  const json::value& model = groups.at("memory_used").at("loaded_models").at(0);
  EXPECT_EQ(model.at("name"), "/models/\"quoted\"\n\xef\xbf\xbd.neff");
  EXPECT_EQ(model.at("subgraphs").as_object().size(), 2u);
  EXPECT_EQ(model.at("subgraphs").at("sg_00").at("neuron_device_index"), 1);
  EXPECT_EQ(root.at("neuron_k8s_info").at("neuroncores_k8s_info").at("3").at("pod_name"), "llm-0");
  EXPECT_EQ(root.at("neuron_hardware_info").at("neuron_device_type"), "trainium1");
}

TEST(Report, HasNullLatenciesWhenNothingRanAndItsObjectsAlways) {
  Host host;
  const json::value root = json::parse(format_report(host.see(1, {process(11, {1})}), {}));
  const json::value& latencies =
      root.at("neuron_runtime_data").at(0).at("report").at("execution_stats").at("latency_stats");
  EXPECT_TRUE(latencies.at("total_latency").is_null());
  EXPECT_TRUE(latencies.at("device_latency").is_null());
  const std::string empty = format_report(Observation(), {});
  EXPECT_TRUE(valid(empty));
  for (const char* key :
       {"neuron_runtime_data", "system_data", "instance_info", "neuron_hardware_info"}) {
    EXPECT_TRUE(json::parse(empty).as_object().contains(key)) << key;
  }
}

TEST(Report, NamesPhysicalCoresOfPairs) {
  Observation of;
  of.info.core_version = "v3d";
  RuntimeObservation& runtime = of.runtimes.emplace_back();
  runtime.cores.emplace().cores[1].physical = {{2, 21.0}, {3, 63.0}};
  const std::string report = format_report(of, {});
  EXPECT_TRUE(valid(report));
  EXPECT_THAT(report, HasSubstr(R"("v3d":{"nc_v3.2":{"neuroncore_utilization":21},)"
                                R"("nc_v3.3":{"neuroncore_utilization":63}})"));
}

TEST(Report, KeepsTheInstanceToItselfWhenAsked) {
  Host host;
  const Observation of = host.see(1, {});
  EXPECT_THAT(format_report(of, {}), HasSubstr("i-0123"));
  const std::string without = format_report(of, {.instance_info = false});
  EXPECT_THAT(without, Not(HasSubstr("i-0123")));
  EXPECT_THAT(without, HasSubstr("\"instance_id\":\"\""));
}

// The observation of two devices in the middle of a ring, whose links are down as told.
Observation with_links(std::optional<std::vector<unsigned>> first,
                       std::optional<std::vector<unsigned>> second) {
  Observation of;
  of.hardware.emplace();
  for (auto& down : {first, second}) {
    DeviceHardware& device = of.hardware->devices.emplace_back();
    device.index = static_cast<unsigned>(of.hardware->devices.size() - 1);
    device.state = down ? telemetry::DeviceState::kReady : telemetry::DeviceState::kUnknown;
    device.links_down = down;
    device.healthy = down && down->empty();
    if (!down) device.error = "it does not answer";
  }
  return of;
}

TEST(Report, ListsTheLinksThatAreDownOrThatNobodyKnows) {
  const auto of_devices = [](const Observation& of) {
    const std::string report = format_report(of, {});
    EXPECT_TRUE(valid(report));
    json::array out;
    const json::value root = json::parse(report);
    for (const json::value& device :
         root.at("system_data").at("neuron_hw_counters").at("neuron_devices").as_array()) {
      out.push_back(device.at("links_down"));
    }
    return json::serialize(out);
  };
  EXPECT_EQ(of_devices(with_links({{1, 3}}, {{}})), "[[1,3],[]]");
  EXPECT_EQ(of_devices(with_links({{}}, std::nullopt)), "[[],null]");
}

TEST(Report, ThatIsPrettySaysTheSame) {
  Host host;
  const Observation of = host.see(1, {pod_process(10, "llm")});
  EXPECT_EQ(json::parse(format_report(of, {.pretty = true})), json::parse(format_report(of, {})));
}

TEST(Prometheus, HasTheNamesAndLabelsOfTheCompanion) {
  Host host;
  MetricFamilies board(true);
  telemetry::Process app = pod_process(10, "llm");
  execute(app, 9, 2);
  board.update(host.see(2, {app}));
  const std::string text = format_prometheus(board.exposition(), false);
  const std::string owner = R"(runtime_tag="llm",pod="llm-0",namespace="prod",container="serve",)";
  const std::string instance =
      R"(availability_zone="eu-1a",instance_id="i-0123",instance_name="host \"a\"",)"
      R"(instance_type="trn1.32xlarge",region="eu-1",subnet_id="sub-1"})";
  for (const std::string& line :
       {"neuroncore_utilization_ratio{neuroncore=\"3\"," + owner + instance + " 0",
        "neuroncore_memory_usage_model_code{memory_location=\"None\",neuroncore=\"0\"," + owner +
            instance + " 2",
        "neuron_runtime_memory_used_bytes{memory_location=\"neuron_device\"," + owner + instance +
            " 1000",
        "execution_errors_total{error_type=\"hardware\"," + owner + instance + " 2",
        "execution_status_total{status_type=\"completed\"," + owner + instance + " 7",
        "execution_status_created{status_type=\"completed\"," + owner + instance + " 1700000002",
        "hardware_ecc_events_total{event_type=\"mem_ecc_corrected\",neuron_device_index=\"1\"," +
            instance + " 0",
        "system_vcpu_count{" + instance + " 2"}) {
    EXPECT_THAT(text, HasSubstr("\n" + line + "\n"));
  }
  EXPECT_THAT(text, HasSubstr("# TYPE execution_status_total counter\n"));
  EXPECT_THAT(text, HasSubstr("execution_latency_seconds{percentile=\"p99\","));
  EXPECT_THAT(text, Not(HasSubstr("# EOF")));
  const std::string open = format_prometheus(board.exposition(), true);
  EXPECT_THAT(open, HasSubstr("# TYPE execution_status counter\n"));
  EXPECT_THAT(open, ::testing::EndsWith("\n# EOF\n"));
}

TEST(Prometheus, CountsLinksThatAreDownAndTellsWhichDeviceIsHealthy) {
  MetricFamilies board(false);
  board.update(with_links({{1, 3}}, {{}}));
  const std::string text = format_prometheus(board.exposition(), false);
  EXPECT_THAT(text, HasSubstr("\n# TYPE neurondevice_links_down gauge\n"
                              "neurondevice_links_down{neuron_device_index=\"0\"} 2\n"
                              "neurondevice_links_down{neuron_device_index=\"1\"} 0\n"));
  EXPECT_THAT(text,
              HasSubstr("\nneurondevice_healthy{neuron_device_index=\"0\",state=\"ready\"} 0\n"
                        "neurondevice_healthy{neuron_device_index=\"1\",state=\"ready\"} 1\n"));
  EXPECT_THAT(json::serialize(json::parse(format_otlp(board.exposition()))),
              HasSubstr("\"neuron.device.links_down\""));
  // Links are up again; of the second device nothing is known.
  board.update(with_links({{}}, std::nullopt));
  const std::string later = format_prometheus(board.exposition(), false);
  EXPECT_THAT(later, HasSubstr("\nneurondevice_links_down{neuron_device_index=\"0\"} 0\n"));
  EXPECT_THAT(later, Not(HasSubstr("neurondevice_links_down{neuron_device_index=\"1\"}")));
  EXPECT_THAT(later,
              HasSubstr("\nneurondevice_healthy{neuron_device_index=\"0\",state=\"ready\"} 1\n"));
}

TEST(Prometheus, WritesEachSampleOnce) {
  Host host;
  MetricFamilies board(false);
  board.update(host.see(1, {pod_process(10, "same"), pod_process(11, "same")}));
  const Exposition exposition = board.exposition();
  std::set<std::string> seen;
  for (const Family& family : exposition.families) {
    for (const Sample& sample : family.samples) {
      std::string key = family.name;
      for (const auto& [label, value] : sample.labels) key += std::string(label) + "=" + value;
      EXPECT_TRUE(seen.insert(key).second) << key;
    }
  }
  // What both use adds up.
  EXPECT_THAT(format_prometheus(exposition, false),
              HasSubstr("neuron_runtime_memory_used_bytes{memory_location=\"host\","
                        "runtime_tag=\"same\",pod=\"llm-0\",namespace=\"prod\","
                        "container=\"serve\"} 154\n"));
}

TEST(Prometheus, CountersGoOnWhileAnyProcessOfATagLivesAndEndWithTheLast) {
  Host host;
  MetricFamilies board(false);
  telemetry::Process first = process(10, {0}, "app"), second = process(11, {1}, "app");
  const auto completed = [&] {
    const std::string text = format_prometheus(board.exposition(), false);
    const std::string key =
        "execution_status_total{status_type=\"completed\",runtime_tag=\"app\"} ";
    const size_t at = text.find(key);
    return at == std::string::npos ? -1 : std::atoi(text.c_str() + at + key.size());
  };
  execute(first, 5);
  board.update(host.see(1, {first, second}));
  EXPECT_EQ(completed(), 5);
  execute(first, 1);
  execute(second, 10);
  board.update(host.see(2, {first, second}));
  EXPECT_EQ(completed(), 16);
  execute(second, 1);
  board.update(host.see(3, {second}));
  EXPECT_EQ(completed(), 17);
  board.update(host.see(4, {}));
  EXPECT_EQ(completed(), -1);
  EXPECT_THAT(format_prometheus(board.exposition(), false), Not(HasSubstr("\"app\"")));
}

TEST(Prometheus, EscapesWhatAProcessCallsItself) {
  Host host;
  MetricFamilies board(false);
  board.update(host.see(1, {process(10, {0}, "a\"} 1\nfake 2\t\\\x01")}));
  EXPECT_THAT(format_prometheus(board.exposition(), false),
              HasSubstr(R"(runtime_tag="a\"} 1\nfake 2 \\ "} )"));
}

TEST(Otlp, IsAnExportRequestWithCumulativeSums) {
  Host host;
  MetricFamilies board(true);
  telemetry::Process app = pod_process(10, "llm");
  execute(app, 9);
  board.update(host.see(2, {app}));
  const json::value root = json::parse(format_otlp(board.exposition()));
  const json::value& resource = root.at("resourceMetrics").at(0);
  EXPECT_EQ(resource.at("resource").at("attributes").at(0).at("value").at("stringValue"),
            "neuron-monitor");
  bool found = false;
  for (const json::value& metric : resource.at("scopeMetrics").at(0).at("metrics").as_array()) {
    EXPECT_TRUE(std::string_view(metric.at("name").as_string()).starts_with("neuron."));
    if (metric.at("name") != "neuron.runtime.execution.status") continue;
    found = true;
    EXPECT_EQ(metric.at("sum").at("aggregationTemporality"), 2);
    const json::value& point = metric.at("sum").at("dataPoints").at(0);
    EXPECT_EQ(point.at("asDouble").to_number<double>(), 9);
    EXPECT_EQ(point.at("timeUnixNano"), "1700000002000000000");
    EXPECT_THAT(json::serialize(point), HasSubstr(R"("k8s.pod.name")"));
  }
  EXPECT_TRUE(found);
}

TEST(Schedule, ReportsEarlyOnceAndThenKeepsEachBeatFromTheStart) {
  const SteadyTime start{};
  Schedule schedule({1s, 2500ms}, start);
  EXPECT_EQ(schedule.next() - start, 250ms);
  EXPECT_EQ(schedule.take_due(start + 250ms), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(schedule.next() - start, 1s);
  EXPECT_EQ(schedule.take_due(start + 1002ms), std::vector<size_t>{0});
  EXPECT_EQ(schedule.next() - start, 2s);
  // The host slept for a while: beats are left out, not made up for.
  EXPECT_EQ(schedule.take_due(start + 9100ms), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(schedule.next() - start, 10s);
  EXPECT_TRUE(schedule.take_due(start + 9500ms).empty());
}

TEST(Schedule, IsPromptForShortPeriodsAndMakesNoTinyOnes) {
  const SteadyTime start{};
  Schedule fast({20ms}, start);
  EXPECT_EQ(fast.next() - start, 20ms);
  Schedule near({260ms}, start);
  near.take_due(near.next());
  EXPECT_EQ(near.next() - start, 520ms);
}

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0); }
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) ::close(end);
    }
  }
  int ends[2];
};

TEST(Stream, HoldsUpNobodyWhenItsReaderIsSlowAndEndsAtOnce) {
  Pipe pipe;
  Stream stream(pipe.ends[1]);
  const std::string report(300'000, 'x');
  EXPECT_TRUE(stream.push(report));
  EXPECT_TRUE(stream.push(report));
  EXPECT_TRUE(stream.push(report));
  EXPECT_FALSE(stream.push(report));
  EXPECT_FALSE(stream.wait_for_room(1ms));
  EXPECT_EQ(stream.failure(), 0);
}

TEST(Stream, ArrivesWholeAndInOrder) {
  Pipe pipe;
  Stream stream(pipe.ends[1]);
  EXPECT_TRUE(stream.push("a\n"));
  EXPECT_TRUE(stream.push("b\n"));
  EXPECT_TRUE(stream.finish(5s));
  char got[8] = "";
  EXPECT_EQ(::read(pipe.ends[0], got, sizeof got), 4);
  EXPECT_STREQ(got, "a\nb\n");
}

TEST(Stream, TellsOfAReaderThatHasGoneAndOfAFullDisk) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  ::close(pipe.ends[0]);
  pipe.ends[0] = -1;
  Stream gone(pipe.ends[1]);
  EXPECT_TRUE(gone.push("a\n"));
  EXPECT_FALSE(gone.finish(5s));
  EXPECT_EQ(gone.failure(), EPIPE);
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  {
    Stream disk(full);
    EXPECT_TRUE(disk.push("a\n"));
    EXPECT_FALSE(disk.finish(5s));
    EXPECT_EQ(disk.failure(), ENOSPC);
    EXPECT_FALSE(disk.push("b\n"));
  }
  ::close(full);
}

}  // namespace
}  // namespace neuron::monitor
