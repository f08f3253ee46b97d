// SPDX-License-Identifier: Apache-2.0
// Starts the ranks: threads of this process, or processes here and on other hosts, which are this
// program again with --worker.
//
// Concepts: a worker process reads one line from its standard input, the secret of the job, and
// ends when that input closes. So it does not outlive the process that started it, even through a
// remote shell. It writes messages to its standard output. Callers: main. Owns: its threads and
// children; only those are ever signalled. Fails with a sentence; later failures go to the
// collector, by rank.
#ifndef TOOLS_NCCOM_TEST_RUN_LAUNCHER_H
#define TOOLS_NCCOM_TEST_RUN_LAUNCHER_H

#include <memory>

#include "tools/nccom-test/input/options.h"
#include "tools/nccom-test/run/collector.h"
#include "tools/nccom-test/run/rank_run.h"

namespace neuron::nccom {

struct RunContext {
  const Options* options = nullptr;
  const Job* job = nullptr;
  uint64_t seed = 0;
  Backend backend = Backend::kHost;
};

// The ranks of a run while it is under way. The destructor ends what is left.
class Team {
 public:
  virtual ~Team() = default;
  // Moves messages to the collector until there is news, at most until `until`.
  virtual void poll(Collector& collector, Collector::Clock::time_point until) = 0;
  // Ends everything; true: nothing is left running.
  virtual bool stop(std::chrono::milliseconds patience) = 0;
};

ccom::Result<std::unique_ptr<Team>> start_threads(const RunContext& context, Collector& collector);
ccom::Result<std::unique_ptr<Team>> start_processes(const RunContext& context);

// Main of a worker process: its ranks in threads, messages to standard output. The exit status.
int run_worker(const RunContext& context);
// The same with a secret that is known already.
int run_worker(const RunContext& context, const std::string& secret);

// Takes the whole lines out of `text`: messages go to the collector, all else is shown on standard
// error as of the process `name`.
void put_lines(std::string& text, const std::string& name, Collector& collector);

// Words of a command, as a shell would split them; {host} is replaced.
std::vector<std::string> split_command(const std::string& command, const std::string& host);

}  // namespace neuron::nccom

#endif
