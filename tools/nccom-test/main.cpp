// SPDX-License-Identifier: Apache-2.0
// nccom-test: runs collectives, measures, checks and compares them. Options and columns are those
// of the original; README.md of tools/ says what is added.
#include <ccom/ccom.h>
#include <glob.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <new>
#include <system_error>

#include "tools/common/command_line.h"
#include "tools/common/format.h"
#include "tools/common/output.h"
#include "tools/execution/quiet_runtime.h"
#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/input/options.h"
#include "tools/nccom-test/output/failure_log.h"
#include "tools/nccom-test/output/heat_map.h"
#include "tools/nccom-test/output/report.h"
#include "tools/nccom-test/output/table.h"
#include "tools/nccom-test/run/calibration.h"
#include "tools/nccom-test/run/job.h"
#include "tools/nccom-test/run/joined_team.h"
#include "tools/nccom-test/run/launcher.h"
#include "tools/nccom-test/run/simulated.h"

namespace neuron::nccom {
namespace {

using ccom::fail;
using ccom::format;
using ccom::Result;
using Clock = Collector::Clock;

constexpr size_t kBusiest = 20;

int complain(const ccom::Error& error, int status) {
  std::fprintf(stderr, "nccom-test: %s\n", error.sentence.c_str());
  return status;
}

// Any number: in a container the first device need not be 0.
bool device_is_there() {
  if (std::getenv("NEURON_EMULATOR") != nullptr) return true;
  glob_t found{};
  const bool any = glob("/dev/neuron[0-9]*", GLOB_NOSORT, nullptr, &found) == 0;
  globfree(&found);
  return any;
}

Result<Backend> choose_backend(const Options& options) {
  if (options.backend == Backend::kDevice && !device_is_there()) {
    return fail(CCOM_INVALID,
                "there is no device: load the driver, or set NEURON_EMULATOR=trn1.32xlarge");
  }
  const bool device = options.backend == Backend::kDevice ||
                      (options.backend == Backend::kAuto && device_is_there());
  if (device && options.shared_output && options.block.in_place) {
    return fail(CCOM_UNSUPPORTED,
                "--shared-output-buff and --in-place: operations that share an output have inputs "
                "of their own");
  }
  if (options.on_chip && !device) {
    return fail(CCOM_UNSUPPORTED,
                "--sb2sb: only devices have state buffers; use --backend device, and without a "
                "device NEURON_EMULATOR=trn1.32xlarge");
  }
  if (options.backend != Backend::kAuto) return options.backend;
  if (device) return Backend::kDevice;
  return options.nodes > 1 ? Backend::kNetwork : Backend::kHost;
}

struct Outcome {
  std::vector<Block> blocks;
  std::vector<PairLink> pairs;
  std::vector<LinkLoad> loads;
  uint64_t pair_bytes = 0;
  std::string system;
  std::vector<std::string> notes;  // what else the ranks said when the run had failed
  bool stuck = false;
};

// How far the run is: always on a terminal. In a log a line now and then, of runs that take long.
class Progress {
 public:
  explicit Progress(const Options& options)
      : quiet_(options.quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

  void show(const Collector& collector) {
    if (quiet_) return;
    if (terminal_) {
      std::fprintf(stderr, "\r%zu of %zu sizes", collector.completed_steps(), collector.steps());
      return;
    }
    const auto past = Clock::now() - begun_;
    if (past < next_) return;
    next_ *= 2;
    std::fprintf(
        stderr, "nccom-test: after %lld s %zu of %zu sizes are measured\n",
        static_cast<long long>(std::chrono::duration_cast<std::chrono::seconds>(past).count()),
        collector.completed_steps(), collector.steps());
  }
  void end() const {
    if (!quiet_ && terminal_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  const bool quiet_, terminal_;
  const Clock::time_point begun_ = Clock::now();
  std::chrono::seconds next_{5};
};

void show_words(const std::string& words) { std::fprintf(stderr, "\r\033[K%s", words.c_str()); }

Result<Outcome> run_ranks(const RunContext& context) {
  const Options& options = *context.options;
  Collector collector(*context.job, options.ranks);
  const bool processes = options.processes || !options.hosts.empty() || options.launched;
  NEURON_TRY(team, options.launched ? lead_launched(context, collector)
                   : processes      ? start_processes(context)
                                    : start_threads(context, collector));
  // An operation that ends is progress, also within the measurement of a size.
  // The library has the same limit for each operation and knows more about the cause, so its
  // sentence must come first.
  const auto patience =
      std::chrono::milliseconds(options.timeout_ms) +
      std::max(std::chrono::milliseconds(2000), std::chrono::milliseconds(options.timeout_ms / 4));
  Progress progress(options);
  while (collector.state() == Collector::State::kRunning) {
    team->poll(collector, Clock::now() + std::chrono::milliseconds(100));
    progress.show(collector);
    if (Clock::now() - collector.last_progress() > patience) {
      collector.give_up(format("no rank has got on for {} ms; missing: {}", patience.count(),
                               collector.missing()));
    }
  }
  if (collector.state() == Collector::State::kBroken) {
    // What the other ranks say of it a moment later, on a busy host a long one, belongs to the
    // report.
    const auto end = Clock::now() + std::chrono::milliseconds(2000);
    while (processes && !collector.all_ended() && Clock::now() < end) team->poll(collector, end);
  }
  progress.end();
  Outcome outcome;
  outcome.stuck = !team->stop(std::chrono::milliseconds(2000));
  outcome.blocks = collector.blocks();
  const auto times = collector.pair_times(outcome.pair_bytes);
  if (!times.empty()) outcome.pairs = pair_links(times, outcome.pair_bytes);
  outcome.notes = collector.notes();
  // For threads, further messages only follow from the first failure; processes may report more.
  if (processes || options.debug) {
    for (const std::string& note : outcome.notes) {
      std::fprintf(stderr, "nccom-test: %s\n", note.c_str());
    }
  }
  return outcome;
}

Facts configuration(const Options& options, Backend backend, uint64_t seed,
                    const std::string& system) {
  Facts facts;
  std::string command = "nccom-test";
  for (const std::string& word : options.arguments) command += " " + word;
  facts.emplace_back("command", command);
  facts.emplace_back("backend", backend_name(backend));
  facts.emplace_back("ranks", std::to_string(options.ranks));
  facts.emplace_back("nodes", std::to_string(options.nodes));
  std::string hosts;
  for (const std::string& host : options.hosts) hosts += (hosts.empty() ? "" : ",") + host;
  if (!hosts.empty()) facts.emplace_back("hosts", hosts);
  const std::string placement =
      options.launched    ? ccom::format("{} processes of {}", options.launched->processes,
                                         options.launched->launcher)
      : options.processes ? "one process for each rank"
                          : "threads";
  facts.emplace_back("placement", placement);
  facts.emplace_back("iterations", std::to_string(options.iterations));
  facts.emplace_back("warmup", std::to_string(options.warmup));
  facts.emplace_back("seed", std::to_string(seed));
  if (!system.empty()) facts.emplace_back("system", system);
  utsname name{};
  if (uname(&name) == 0) {
    facts.emplace_back("host", name.nodename);
    facts.emplace_back("kernel", name.release);
  }
  facts.emplace_back("libccom", ccom_version());
  char time_text[64] = "";
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::strftime(time_text, sizeof time_text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
  facts.emplace_back("time", time_text);
  return facts;
}

Result<void> show_heat_map(const Options& options, const Outcome& outcome) {
  if (!options.heat_map) return {};
  const bool simulated = outcome.pairs.empty();
  if (!options.heat_map_file.empty() && options.heat_map_file != "-") {
    return write_text(options.heat_map_file, simulated
                                                 ? loads_json(outcome.loads)
                                                 : pairs_json(outcome.pairs, outcome.pair_bytes));
  }
  const std::string text =
      simulated ? format_loads(outcome.loads, kBusiest)
                : format_pairs(outcome.pairs, options.ranks, outcome.pair_bytes, options.gibibytes);
  std::fputs(text.c_str(), prints_for_programs(options) ? stderr : stdout);
  return {};
}

// Simulated times beside those of a measured run; false: some are further apart than tolerated.
Result<bool> show_beside(const Options& options, const std::vector<Block>& blocks,
                         const std::vector<BaselineRow>& measured, FILE* out) {
  NEURON_TRY(beside,
             put_beside(blocks, measured,
                        options.tolerance_given ? std::optional(options.tolerance) : std::nullopt));
  std::fputs(beside.text.c_str(), out);
  if (beside.outside == 0) return true;
  std::fprintf(stderr, "nccom-test: %llu of %llu simulated rows are further than %.3g %% from %s\n",
               static_cast<unsigned long long>(beside.outside),
               static_cast<unsigned long long>(beside.compared), options.tolerance * 100,
               options.compare.c_str());
  return false;
}

// Compares the results with everything given; false: they do not pass.
Result<bool> judge(const Options& options, const std::vector<Block>& blocks,
                   const std::vector<BaselineRow>& baseline) {
  bool good = true;
  // If standard output is for programs, the verdict goes to standard error.
  FILE* const out = prints_for_programs(options) ? stderr : stdout;
  if (!options.compare.empty() && !options.profile.empty()) {
    NEURON_TRY(near, show_beside(options, blocks, baseline, out));
    good = near;
  } else if (!options.compare.empty()) {
    NEURON_TRY(comparison, compare(blocks, baseline, options.tolerance, options.gibibytes));
    std::fputs(comparison.text.c_str(), out);
    if (comparison.slower != 0) {
      std::fprintf(stderr,
                   "nccom-test: %llu of %llu rows are slower than %s by more than %.3g %%\n",
                   static_cast<unsigned long long>(comparison.slower),
                   static_cast<unsigned long long>(comparison.compared), options.compare.c_str(),
                   options.tolerance * 100);
      good = false;
    }
  }
  for (const Block& block : blocks) {
    const double rate = average_bus_rate(block);
    if (options.expected && rate < *options.expected) {
      std::fprintf(stderr, "nccom-test: %s reaches %.4f %s on average, expected are %.4f\n",
                   operation_name(block.operation), in_unit(rate, options.gibibytes),
                   unit(options.gibibytes), in_unit(*options.expected, options.gibibytes));
      good = false;
    }
  }
  if (const uint64_t errors = failures(blocks); errors != 0) {
    std::fprintf(out, "%llu errors found - test failed\n", static_cast<unsigned long long>(errors));
    good = false;
  }
  return good;
}

std::string formatted(const Options& options, const std::vector<Block>& blocks,
                      const Facts& facts) {
  const TableOptions how = table_options(options);
  switch (options.format) {
    case tools::Format::kJson:
      return format_report(blocks, how, facts, true);
    case tools::Format::kNdjson:
      return format_lines(blocks, how);
    case tools::Format::kCsv:
      return format_csv(blocks, how);
    case tools::Format::kText:
      break;
  }
  std::string text;
  for (const Block& block : blocks) text += format_table(block, how);
  return text;
}

// The sentence of a failure is on standard error and in a file that its row names, as the original
// has it.
void tell_failures(std::vector<Block>& blocks, const Facts& facts,
                   const std::vector<std::string>& notes) {
  for (Block& block : blocks) {
    for (Row& row : block.rows) {
      if (row.failure.empty()) continue;
      std::fprintf(stderr, "nccom-test: %s %llu B: %s\n", operation_name(block.operation),
                   static_cast<unsigned long long>(row.size), row.failure.c_str());
      const auto log = write_failure_log(block, row, facts, notes);
      if (log) row.log = *log;
      if (!log) std::fprintf(stderr, "nccom-test: %s\n", log.error().sentence.c_str());
    }
  }
}

// Empty where each rank of this host can have a processor, and where times are not the host's.
std::string waiting_ranks(const Options& options, Backend backend) {
  if (backend == Backend::kDevice || !options.profile.empty() || !options.hosts.empty()) return "";
  if (options.launched && options.nodes > 1) return "";
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return "";
  const int processors = CPU_COUNT(&allowed);
  if (options.ranks <= static_cast<uint32_t>(processors)) return "";
  return format(
      "; {} ranks share {} processor{}, so the times include how long a rank waits for its turn",
      options.ranks, processors, processors == 1 ? "" : "s");
}

// Empty where the first size of each row is the one that was asked for.
std::string rounded_size(const Options& options, const std::vector<Block>& blocks) {
  if (!options.block.metadata.empty() || !options.streams.empty()) return "";
  const uint64_t asked = options.block.sweep.minimum;
  for (const Block& block : blocks) {
    if (block.operation == CCOM_BARRIER || block.rows.empty()) continue;
    if (const uint64_t size = block.rows.front().size; size > asked) {
      return format("; {} B are rounded up to {} B, which the ranks can divide", asked, size);
    }
  }
  return "";
}

// The table is the original's, which says neither where the ranks were nor that a check passed.
void tell_what_ran(const Options& options, Backend backend, const std::vector<Block>& blocks) {
  if (options.quiet || options.format != tools::Format::kText) return;
  uint64_t compared = 0;
  for (const Block& block : blocks) {
    for (const Row& row : block.rows) compared += row.compared;
  }
  std::fprintf(stderr, "nccom-test: backend %s", backend_name(backend));
  if (compared != 0) {
    std::fprintf(stderr, "; %llu results compared, all right",
                 static_cast<unsigned long long>(compared));
  }
  std::fputs(waiting_ranks(options, backend).c_str(), stderr);
  std::fputs(rounded_size(options, blocks).c_str(), stderr);
  for (size_t i = options.nodes; i < options.hosts.size(); ++i) {
    std::fprintf(stderr, "; host %s takes no part, as --nnodes is %u", options.hosts[i].c_str(),
                 options.nodes);
  }
  std::fputc('\n', stderr);
}

Result<bool> show(const Options& options, Backend backend, uint64_t seed, Outcome& outcome,
                  const std::vector<BaselineRow>& baseline) {
  const Facts facts = configuration(options, backend, seed, outcome.system);
  tell_failures(outcome.blocks, facts, outcome.notes);
  if (options.json != "-" && options.csv != "-") {
    if (!outcome.system.empty() && options.format == tools::Format::kText) {
      std::printf("%s\n", outcome.system.c_str());
    }
    std::fputs(formatted(options, outcome.blocks, facts).c_str(), stdout);
  }
  const TableOptions how = table_options(options);
  if (!options.json.empty()) {
    NEURON_CHECK(write_text(options.json, format_report(outcome.blocks, how, facts)));
  }
  if (!options.csv.empty()) {
    NEURON_CHECK(write_text(options.csv, format_csv(outcome.blocks, how)));
  }
  NEURON_CHECK(show_heat_map(options, outcome));
  if (!options.calibration.empty()) {
    NEURON_TRY(text, calibrate(options, backend, outcome.blocks));
    std::fputs(text.c_str(), prints_for_programs(options) ? stderr : stdout);
  }
  NEURON_TRY(good, judge(options, outcome.blocks, baseline));
  if (good) tell_what_ran(options, backend, outcome.blocks);
  return good;
}

Result<void> show_plan(const Options& options, const Job& job) {
  for (const Phase& phase : job.phases) {
    for (size_t s = 0; s < phase.steps(); ++s) {
      for (size_t b = 0; b < phase.blocks.size(); ++b) {
        const PhaseBlock& block = phase.blocks[b];
        const auto ranks = static_cast<uint32_t>(block.groups.front().size());
        NEURON_TRY(what, make_case(block.options, block.pairs, block.sizes[phase.step_of(b, s)],
                                   ranks, block.options.root < ranks ? block.options.root : 0));
        const uint64_t operations = uint64_t{job.runs + job.runs_before} *
                                    (job.operations + job.operations_before) *
                                    block.options.operations_per_iteration;
        std::printf(
            "%s %s: %zu groups of %u ranks, %llu B, %llu operations, %llu B in and %llu B "
            "out of a rank\n",
            operation_name(block.options.operation), type_name(block.options.type),
            block.groups.size(), ranks, static_cast<unsigned long long>(what.size),
            static_cast<unsigned long long>(operations),
            static_cast<unsigned long long>(what.total_input),
            static_cast<unsigned long long>(what.total_output));
      }
    }
  }
  if (options.profile.empty()) {
    std::printf("%u ranks on %u nodes\n", options.ranks, options.nodes);
  } else {
    std::printf("%u ranks, simulated on %s\n", options.ranks, options.profile.c_str());
  }
  return {};
}

// Of each process that checks: it may be on a host of its own. Now, so that a folder that cannot be
// made is known before the run.
Result<void> make_dump_folder(const Options& options) {
  if (options.check == Check::kNone) return {};
  std::error_code error;
  std::filesystem::create_directories(options.dump_folder, error);
  if (error) {
    return fail(CCOM_INVALID, "--dump-dir {}: the folder cannot be made: {}", options.dump_folder,
                error.message());
  }
  if (!std::filesystem::is_directory(options.dump_folder, error)) {
    return fail(CCOM_INVALID, "--dump-dir {}: it is no folder", options.dump_folder);
  }
  return {};
}

// Before anything is measured: a run may take hours, and may write its own report to the same file.
Result<std::vector<BaselineRow>> read_baseline(const Options& options) {
  if (options.compare.empty()) return std::vector<BaselineRow>();
  NEURON_TRY(text, read_text(options.compare));
  return parse_baseline(text, options.compare);
}

uint64_t seed_of(const Options& options) {
  if (options.seed) return *options.seed;
  return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
}

int run(int argc, char** argv) {
  Usage usage;
  const auto options = parse_options(std::vector<std::string>(argv + 1, argv + argc), usage);
  if (!options) {
    if (usage.text.empty()) return complain(options.error(), tools::kWrongUsage);
    if (usage.status == 0) {
      return tools::print_output("nccom-test", usage.text) ? tools::kDone : tools::kFailed;
    }
    std::fputs(usage.text.c_str(), stderr);
    return usage.status;
  }
  // The sentence of a failure that is printed already contains what libnrt would log.
  execution::quiet_runtime("nccom-test");
  const auto job = make_job(*options);
  if (!job) return complain(job.error(), tools::kWrongUsage);
  if (options->dry_run) {
    if (const auto shown = show_plan(*options, *job); !shown) return complain(shown.error(), 2);
    return tools::finish_output("nccom-test") ? 0 : 1;
  }
  const auto backend = choose_backend(*options);
  if (!backend) return complain(backend.error(), 1);
  const uint64_t seed = seed_of(*options);
  const RunContext context{&*options, &*job, seed, *backend};
  if (const auto made = make_dump_folder(*options); !made) return complain(made.error(), 1);
  if (options->worker) return run_worker(context);
  if (options->launched && options->launched->process != 0) return join_launched(context);
  for (const std::string& file :
       {options->calibration, options->json, options->csv, options->heat_map_file}) {
    if (const auto free = check_writable(file); !free) return complain(free.error(), 1);
  }
  const auto baseline = read_baseline(*options);
  if (!baseline) return complain(baseline.error(), 1);
  if (options->check == Check::kRandom && !options->seed) {
    std::fprintf(stderr, "nccom-test: --seed %llu\n", static_cast<unsigned long long>(seed));
  }
  Outcome outcome;
  if (*backend == Backend::kSimulated) {
    const bool shows = !options->quiet && isatty(STDERR_FILENO) != 0;
    auto simulated = run_simulated(*options, *job, seed, shows ? show_words : ShowProgress());
    if (shows) std::fprintf(stderr, "\r\033[K");
    if (!simulated) return complain(simulated.error(), 1);
    for (const std::string& note : simulated->notes) {
      std::fprintf(stderr, "nccom-test: %s\n", note.c_str());
    }
    outcome.blocks = std::move(simulated->blocks);
    outcome.loads = std::move(simulated->loads);
    outcome.system = simulated->system + "; model of " + simulated->model;
  } else {
    auto ran = run_ranks(context);
    if (!ran) return complain(ran.error(), 1);
    outcome = std::move(*ran);
  }
  const auto good = show(*options, *backend, seed, outcome, *baseline);
  const bool printed = tools::finish_output("nccom-test");
  if (!good) complain(good.error(), 1);
  const int status = good && *good && printed ? 0 : 1;
  if (outcome.stuck) {
    std::fprintf(stderr, "nccom-test: a rank does not end; the process does\n");
    std::_Exit(status == 0 ? 1 : status);
  }
  return status;
}

}  // namespace
}  // namespace neuron::nccom

int main(int argc, char** argv) {
  try {
    return neuron::nccom::run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr,
                 "nccom-test: there is not enough memory for this run; take smaller sizes, fewer "
                 "ranks or chips, or another algorithm\n");
    return 1;
  }
}
