// SPDX-License-Identifier: Apache-2.0
// The loop with a source and a clock of the test's.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <boost/json/parse.hpp>

#include "tests/unit/tools/neuron-monitor/snapshots.h"
#include "tools/neuron-monitor/loop/monitor.h"

namespace neuron::monitor {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

// One process, which has executed once more at each look.
class CountingSource : public telemetry::Source {
 public:
  telemetry::Snapshot take(const telemetry::Wanted& wanted, std::chrono::milliseconds) override {
    telemetry::Snapshot out = host_at(++looks);
    out.monotonic = std::chrono::steady_clock::now();
    execute(app_, 1);
    if (wanted.processes) {
      out.processes = {app_};
      out.processes[0].command = std::string(text_bytes, 'x');
      out.processes[0].tag = std::string(text_bytes, 't');
    }
    return out;
  }
  int looks = 0;
  size_t text_bytes = 1;

 private:
  telemetry::Process app_ = process(10, {0});
};

Configuration executions(const char* period) {
  std::string error;
  const auto out = parse_configuration(
      std::string(
          R"({"neuron_runtimes": [{"metrics": [{"type": "execution_stats"}]}], "period": ")") +
          period + "\"}",
      "c", error);
  EXPECT_TRUE(out) << error;
  return *out;
}

// Lets the loop run that often, at the times it asks for.
Monitor::Sleep times(int count) {
  return [count](SteadyTime until) mutable {
    std::this_thread::sleep_until(until);
    return count-- > 0;
  };
}

std::string everything(int descriptor) {
  std::string out;
  char buffer[65536];
  pollfd readable = {descriptor, POLLIN, 0};
  while (::poll(&readable, 1, 0) == 1) {
    const ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got <= 0) break;
    out.append(buffer, static_cast<size_t>(got));
  }
  return out;
}

int64_t completed(const std::string& line) {
  return json::parse(line)
      .at("neuron_runtime_data")
      .at(0)
      .at("report")
      .at("execution_stats")
      .at("execution_summary")
      .at("completed")
      .as_int64();
}

struct LoopPipe {
  LoopPipe() { EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0); }
  ~LoopPipe() {
    for (const int end : ends) ::close(end);
  }
  int ends[2];
};

TEST(Monitor, WritesOneReportEachTimeSomethingIsDue) {
  LoopPipe pipe;
  Stream stream(pipe.ends[1]);
  CountingSource source;
  Monitor monitor(executions("10ms"), source, {&stream, nullptr, nullptr}, {}, times(3));
  EXPECT_EQ(monitor.run(), End::kStopped);
  EXPECT_TRUE(stream.finish(5s));
  const std::string text = everything(pipe.ends[0]);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(completed(text.substr(0, text.find('\n'))), 1);
}

TEST(Monitor, ThatRunsOnceEndsAfterAReport) {
  LoopPipe pipe;
  Stream stream(pipe.ends[1]);
  CountingSource source;
  Monitor monitor(executions("10ms"), source, {&stream, nullptr, nullptr},
                  {.style = {}, .once = true}, times(100));
  EXPECT_EQ(monitor.run(), End::kStopped);
  EXPECT_EQ(source.looks, 2);
}

TEST(Monitor, ReportsTheHardwareWhenNothingElseIsAskedFor) {
  std::string error;
  LoopPipe pipe;
  Stream stream(pipe.ends[1]);
  CountingSource source;
  Monitor monitor(*parse_configuration(R"({"period": "10ms"})", "c", error), source,
                  {&stream, nullptr, nullptr}, {}, times(2));
  monitor.run();
  EXPECT_TRUE(stream.finish(5s));
  EXPECT_THAT(everything(pipe.ends[0]), ::testing::HasSubstr("\"neuron_device_count\":2"));
}

TEST(Monitor, LosesNothingWhenItsOnlyReaderIsSlow) {
  LoopPipe pipe;
  Stream stream(pipe.ends[1]);
  CountingSource source;
  source.text_bytes = Stream::kMostBytes / 4;
  std::string text;
  int looks_when_full = 0, rounds = 0;
  const auto read_late = [&](SteadyTime) {
    // Nobody reads until the loop has stopped to look.
    if (++rounds == 12) looks_when_full = source.looks;
    if (rounds > 12) {
      EXPECT_TRUE(stream.failure() == 0);
      text += everything(pipe.ends[0]);
    }
    std::this_thread::sleep_for(10ms);
    return source.looks < looks_when_full + 6 || rounds < 20;
  };
  Monitor monitor(executions("10ms"), source, {&stream, nullptr, nullptr}, {}, read_late);
  EXPECT_EQ(monitor.run(), End::kStopped);
  EXPECT_LT(looks_when_full, 12);
  const auto end = std::chrono::steady_clock::now() + 5s;
  while (!stream.finish(5ms) && std::chrono::steady_clock::now() < end) {
    text += everything(pipe.ends[0]);
  }
  text += everything(pipe.ends[0]);
  int64_t sum = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t line_end = text.find('\n', at);
    ASSERT_NE(line_end, std::string::npos);
    sum += completed(text.substr(at, line_end - at));
    at = line_end + 1;
  }
  EXPECT_EQ(sum, source.looks - 1);
}

TEST(Monitor, ServesItsExportersWhenTheStreamHasNoReaderLeft) {
  ::signal(SIGPIPE, SIG_IGN);
  const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  {
    Stream stream(full);
    CountingSource source;
    MetricFamilies board(false);
    ::testing::internal::CaptureStderr();
    Monitor monitor(executions("10ms"), source, {&stream, &board, nullptr}, {}, times(4));
    EXPECT_EQ(monitor.run(), End::kStopped);
    EXPECT_EQ(board.version(), 4u);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                ::testing::HasSubstr("No space left on device; the last line may be cut; metrics "
                                     "are served without the stream"));
  }
  {
    Stream stream(full);
    CountingSource source;
    ::testing::internal::CaptureStderr();
    Monitor monitor(executions("10ms"), source, {&stream, nullptr, nullptr}, {}, times(100));
    EXPECT_EQ(monitor.run(), End::kStreamFailed);
    ::testing::internal::GetCapturedStderr();
  }
  ::close(full);
}

}  // namespace
}  // namespace neuron::monitor
