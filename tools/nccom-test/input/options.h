// SPDX-License-Identifier: Apache-2.0
// The options of a run of nccom-test: the command line, with all files it names read and checked.
// Callers: main, tests. Thread-safe: values. Fails with one sentence, before anything is started.
#ifndef TOOLS_NCCOM_TEST_INPUT_OPTIONS_H
#define TOOLS_NCCOM_TEST_INPUT_OPTIONS_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/launched/launched.h"
#include "tools/nccom-test/input/input_files.h"

namespace neuron::tools {
enum class Format;
}

namespace neuron::nccom {

enum class Backend : uint8_t { kAuto, kDevice, kHost, kNetwork, kSimulated };
enum class Check : uint8_t { kNone, kRandom, kAllOnes };

const char* backend_name(Backend backend);

// A shape of --input-shape: "[step0,step1][n0,n1]", dimension 0 free, 1 partition.
struct OnChipShape {
  uint32_t step[2] = {0, 0};
  uint32_t count[2] = {0, 0};
};

struct Statistic {
  std::string name;  // "avg", "min", "max", "p50", "p99.9"
  double percentile = -1;
};

// The part of the ranks that a started process has; empty in the starting process.
struct WorkerPart {
  uint32_t first = 0;
  uint32_t count = 0;
};

struct Options {
  std::vector<ccom_operation_t> operations;
  uint32_t ranks = 0;
  uint32_t nodes = 1;
  BlockOptions block;  // with the first operation
  std::vector<BlockOptions> streams;
  uint32_t iterations = 20;
  uint32_t warmup = 5;
  std::optional<uint32_t>
      program_iterations;  // of whole programs of iterations + warmup operations
  std::optional<uint32_t> program_warmup;
  Check check = Check::kNone;
  std::optional<uint64_t> seed;
  bool unique_buffers = false;
  bool shared_output = false;
  // Where
  Backend backend = Backend::kAuto;
  bool processes = false;
  std::vector<std::string> hosts;
  std::string launch;                       // command before the program, with {host}
  std::string root;                         // NEURON_RT_ROOT_COMM_ID
  std::optional<tools::Launched> launched;  // by mpirun or srun, without --hosts
  std::string log_folder;
  bool debug = false;
  uint32_t timeout_ms = 60000;  // of an operation, or another step of a rank
  bool pin = false;
  std::string providers;
  bool fast_order = false;
  bool no_shared_memory = false;
  // On-chip buffers
  bool on_chip = false;
  std::optional<OnChipShape> input_shape, output_shape;
  uint32_t cc_dimension = 0;
  // Simulated
  std::string profile;
  uint32_t chips = 0;
  uint32_t window = 0;
  double jitter = 0;
  bool links_only = false;              // of --model
  bool chips_asked = false;             // by --model, not by default
  std::string costs = "chips";          // of --costs
  bool divided = false;                 // of --contention
  bool memory_contention = false;       //
  std::vector<std::string> failed;      // links and NICs
  uint64_t memory = uint64_t{2} << 30;  // that a simulation may take
  // Output
  std::vector<Statistic> statistics;
  bool show_algorithm = false;
  bool show_totals = false;
  bool gibibytes = false;
  bool quiet = false;  // --non-interactive
  std::string json;    // file or "-"
  std::string csv;
  tools::Format format{};  // of standard output: the table first
  std::string compare;     // baseline
  double tolerance = 0.05;
  bool tolerance_given = false;
  std::optional<double> expected;  // bytes/s of bus bandwidth
  bool heat_map = false;
  std::string heat_map_file;  // empty or "-": text on standard output
  bool dry_run = false;
  std::string dump_folder = ".";
  std::string calibration;  // --calibrate: the file of prices to write
  std::optional<WorkerPart> worker;
  std::vector<std::string> arguments;  // as given, for the processes that are started
};

// True if standard output is for programs: everything else then goes to standard error.
bool prints_for_programs(const Options& options);

// What to print and the status to exit with, instead of a run.
struct Usage {
  int status = 0;
  std::string text;
};

// `arguments` without the program's name.
ccom::Result<Options> parse_options(const std::vector<std::string>& arguments, Usage& usage);

}  // namespace neuron::nccom

#endif
