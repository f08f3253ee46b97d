// SPDX-License-Identifier: Apache-2.0
// What tracing costs: executions with a system trace that nobody reads, and with a profile that is
// being written, against the same executions without. Both sides take turns on one model.
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>
#include <unistd.h>

#include <memory>

#include "tests/bench/ratio.h"
#include "tests/bench/session.h"
#include "tests/support/files.h"

namespace neuron::bench {
namespace {

struct Work {
  const char* name;
  const char* neff;
  int executions;
};
constexpr Work kEmpty = {"launch", "empty.neff", 20000};
constexpr Work kMatmul = {"matmul", "matmul_f32_1024.neff", 10};
constexpr Work kDigits = {"digits", "digits.neff", 40};

bool start_system_trace() {
  nrt_sys_trace_config_t* options = nullptr;
  if (nrt_sys_trace_config_allocate(&options) != NRT_SUCCESS) return false;
  const bool started = nrt_sys_trace_start(options) == NRT_SUCCESS;
  nrt_sys_trace_config_free(options);
  return started;
}

// Executions a second; below 0: one failed.
double rate(Session& session, int executions) {
  const double start = now_seconds();
  for (int n = 0; n < executions; ++n) {
    if (session.execute() != NRT_SUCCESS) return -1;
  }
  return executions / (now_seconds() - start);
}

Ratio with_trace(const Work& work, bool profile) {
  Ratio ratio{.name = std::string(profile ? "trace-on-" : "trace-idle-") + work.name,
              .peer_name = "the same without a trace",
              .unit = "executions per second",
              .goal = profile ? 0.7 : 0.95};
  auto session = std::make_shared<Session>(work.neff);
  ratio.error = session->error();
  const auto folder = std::make_shared<test::Folder>();
  ratio.ours = [=] {
    const std::string file = folder->path("p.ntff");
    if (!start_system_trace()) return -1.0;
    if (profile && nrt_profile_start(session->model(), file.c_str()) != NRT_SUCCESS) return -1.0;
    const double result = rate(*session, work.executions);
    if (profile && nrt_profile_stop(file.c_str()) != NRT_SUCCESS) return -1.0;
    if (nrt_sys_trace_stop() != NRT_SUCCESS) return -1.0;
    return result;
  };
  ratio.peer = [=] { return rate(*session, work.executions); };
  return ratio;
}

}  // namespace

std::vector<Ratio> trace_idle() { return {with_trace(kEmpty, false), with_trace(kMatmul, false)}; }
std::vector<Ratio> trace_on() { return {with_trace(kEmpty, true), with_trace(kDigits, true)}; }

}  // namespace neuron::bench
