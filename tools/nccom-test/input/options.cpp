// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/input/options.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "ccom/topology/topology.h"
#include "tools/common/command_line.h"
#include "tools/common/format.h"
#include "tools/nccom-test/input/byte_rate.h"
#include "tools/nccom-test/input/manual.h"
#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::Result;

namespace {

constexpr uint32_t kMostRanks = 1u << 20;

// Options as text, before they are interpreted.
struct Raw {
  std::vector<std::string> operations;
  std::string minimum = "32M", maximum = "32M", step, datatype = "uint8", check, reduction = "add";
  std::string algorithm = "auto", ratio, metadata, hosts_file, input_shape, output_shape;
  std::string groups, pairs, streams, backend = "auto", expected, tolerance = "5%", heat_map;
  std::string worker, setup_script, job, pin_mode, memory = "2G", model = "chips";
  std::string contention = "links";
  double factor = 0;
  uint32_t data_parallel = 0, vcpus = 0, collector_port = 0;
  std::string collector_host;
  std::vector<std::string> statistics;
  bool slurm = false, slurm_same_path = false;
  uint64_t seed = 0;
  uint32_t program_iterations = 0, program_warmup = 0;
};

void declare_work(tools::Command& line, Options& o, Raw& raw) {
  line.option("operation", raw.operations,
              "all_reduce|allr, all_gather|allg, reduce_scatter|redsct, alltoall, sendrecv, "
              "permute, broadcast, reduce, gather, scatter, barrier, all_gatherv|allgv, "
              "reduce_scatterv, alltoallv; several run one after another");
  line.option("-r,--nworkers", o.ranks, "ranks in all");
  line.option("-N,--nnodes", o.nodes,
              "nodes, each a host of its own (--hosts); the ranks are divided evenly among them")
      .last_wins();
  line.option("-b,--minbytes", raw.minimum, "first size of the sweep; suffixes K M G, of 1024");
  line.option("-e,--maxbytes", raw.maximum, "last size of the sweep");
  line.option("-i,--stepbytes", raw.step, "from size to size; default: a tenth of the range");
  line.option("-f,--stepfactor", raw.factor, "factor from size to size, instead of a step");
  line.option("-n,--iters", o.iterations, "measured operations of each size")
      .between(1u, 1'000'000u);
  line.option("-w,--warmup_iters", o.warmup, "operations before the measured ones")
      .between(0u, 1'000'000u);
  line.option("-I,--neff_iters", raw.program_iterations,
              "measured runs of a program of (warmup_iters + iters) operations")
      .between(1u, 1'000'000u);
  line.option("-W,--neff_warmup_iters", raw.program_warmup, "runs of the program before these")
      .between(0u, 1'000'000u);
  line.option("-d,--datatype", raw.datatype,
              "uint8 int8 fp8 uint16 int16 fp16 bf16 uint32 int32 fp32, and fp8e3 fp8e5 uint64 "
              "int64");
  line.option("--reduction", raw.reduction, "add, min, max, product, average");
  line.option("--algorithm", raw.algorithm,
              "what the library is to use: " + algorithm_names() + "; auto: its choice");
  line.option("--root", o.block.root, "of broadcast, reduce, gather, scatter");
  line.flag("--in-place", o.block.in_place, "input and output share memory");
  line.option("-c,--check", raw.check,
              "compare the result of every operation with that of the host: random, all_ones")
      .values(0, 1)
      .with_default("random");
  line.option("--seed", raw.seed, "of random data; default: the time, and it is printed")
      .last_wins();
  line.flag("--unique-buff", o.unique_buffers, "buffers of its own for each operation");
  line.option("--coalesced-cc-size-ratio", raw.ratio,
              "several operations at once whose sizes have this ratio, as in [1,2,1]");
  line.flag("--shared-output-buff", o.shared_output, "one output for coalesced operations");
  line.option("--variable-size-op-metadata", raw.metadata,
              "JSON file with counts and displacements for alltoallv, all_gatherv: {\"metadata\": "
              "[{\"send_counts\": [...], ...}]}, see the manual");
  line.option("--data-parallel-dimension", raw.data_parallel,
              "groups of consecutive ranks that work side by side")
      .between(1u, kMostRanks);
  line.option("--custom-replica-groups", raw.groups,
              "JSON file with groups of ranks: {\"replica_groups\": [[[0,1],[2,3]]]}");
  line.option(
      "--custom-src-target-pairs", raw.pairs,
      "JSON file with pairs for permute, sendrecv: {\"src_target_pairs\": [[[0,1],[1,0]]]}");
  line.option("--streams-json", raw.streams,
              "JSON file with operations that run concurrently: {\"streams\": [{\"operation\": "
              "\"allr\", \"maxbytes\": \"1M\"}]}");
}

void declare_place(tools::Command& line, Options& o, Raw& raw) {
  line.option("--backend", raw.backend, "device, host or network; default: what is there")
      .last_wins();
  line.flag("--processes", o.processes, "one process for each rank instead of threads of one");
  line.option("-s,--hosts", o.hosts, "hosts of the nodes, in order");
  line.option("--hosts-file", raw.hosts_file, "file with the hosts, one a line; also ~/hosts");
  line.option("--launch-command", o.launch,
              "starts a process on {host}; default: \"ssh -o BatchMode=yes {host}\"");
  line.option("--root-comm-id", o.root, "ADDRESS:PORT of rank 0; default: NEURON_RT_ROOT_COMM_ID")
      .last_wins();
  line.option("--mpi-log-dir,--log-dir", o.log_folder, "folder for the output of each process");
  line.option("--timeout", o.timeout_ms,
              "milliseconds that one operation may take, or another step")
      .between(10u, 86'400'000u);
  line.option("--providers", o.providers, "libfabric providers in order of preference");
  line.flag(
      "--no-shared-memory", o.no_shared_memory,
      "send through the network between ranks of one host, too; algorithms still take them for "
      "ranks of one node");
  line.flag("--fast-order", o.fast_order, "reduce in the order of the algorithm, not of the ranks");
  line.option("--vcpu-pin-mode", raw.pin_mode, "none, or linear: rank i on processor i")
      .one_of({"none", "linear"});
  line.flag("-S,--slurm-mode", raw.slurm, "start processes with srun");
  line.option("-u,--slurm-vcpus-per-node", raw.vcpus, "processors of each node, for srun");
  line.option("--slurm-setup-script", raw.setup_script,
              "read by a shell before the program starts");
  line.option("--slurm-job-id", raw.job, "allocation to use");
  line.flag("--slurm-use-head-node-neuron-bench", raw.slurm_same_path,
            "the program of this path on every node");
  line.option("--data-collector-port", raw.collector_port,
              "accepted; results come through the pipes of the processes");
  line.option("--data-collector-host", raw.collector_host, "likewise");
  line.flag("--sb2sb", o.on_chip, "from state buffer to state buffer");
  line.option("--input-shape", raw.input_shape,
              "of --sb2sb: [step0,step1][n0,n1], 0 free, 1 partition");
  line.option("--output-shape", raw.output_shape, "likewise");
  line.option("--cc-dim", o.cc_dimension, "dimension along which --sb2sb gathers or scatters")
      .between(0u, 1u);
  line.option("--simulate", o.profile,
              "in model time on this system: profile (trn1.32xlarge, ...) or file");
  line.option("--chips", o.chips, "chips of the simulated system; ranks follow")
      .between(1u, 1u << 30);
  line.option("--window", o.window, "messages on their way to a peer, simulated; 0: the planner's");
  line.option("--jitter", o.jitter, "relative spread of simulated latencies").between(0.0, 10.0);
  line.option(
          "--model", raw.model,
          "of the simulation. chips: ranks of one instance pay every instruction, descriptor and "
          "semaphore as the emulated chip does; links: only links and the options below")
      .one_of({"chips", "links"})
      .with_default("chips");
  line.option("--costs", o.costs,
              "of steps, simulated: chips (the formulas of the chip), none, or some of send=NS, "
              "receive=NS, message=NS, local=NS, reduce=GB/s, copy=GB/s, joined by commas");
  line.option("--contention", raw.contention,
              "simulated: links (messages queue for them), memory (for HBM and DMA of chips, too), "
              "none (each flow has a fixed part)")
      .one_of({"links", "memory", "none"})
      .with_default("links");
  line.option(
      "--fail", o.failed,
      "links and NICs that have failed, simulated: NODE/CHIP-CHIP or NODE/nicNUMBER; several "
      "values one behind the other. Messages go around a link, while an emulated device refuses to "
      "send over one that has failed; what a NIC had to send goes to the next one that works");
  line.option("--memory", raw.memory,
              "that a simulation may take; an algorithm that needs more is refused at once")
      .with_default("2G");
  line.option("--worker", raw.worker).hidden();
}

void declare_output(tools::Command& line, Options& o, Raw& raw) {
  line.flag("--non-interactive", o.quiet, "no progress on standard error");
  line.option("--report-to-json-file", o.json, "write results, settings and versions there");
  line.option("--json", o.json, "the same; - is standard output, without the table");
  line.option("--csv", o.csv, "results as comma-separated values; - is standard output");
  tools::add_format_option(line, o.format);
  line.option("-t,--stats", raw.statistics, "columns of time: avg min max p50 p99 p99.9 ...");
  line.flag("--show-algorithm", o.show_algorithm,
            "column with the algorithm; of devices on several hosts also with what joins these: "
            "mesh/NeuronLink, mesh/network");
  line.flag("--show-input-output-size", o.show_totals,
            "columns with the bytes of a rank's buffers");
  line.flag("--gib", o.gibibytes, "bandwidths in GiB/s, 2^30, instead of GB/s, 10^9");
  line.flag("--debug", o.debug, "say what is started, and keep logs");
  line.option("--compare", o.compare,
              "an earlier JSON report; slower is a failure. With --simulate: a measured run, whose "
              "times are printed beside the simulated ones");
  line.option("--tolerance", raw.tolerance,
              "of --compare, as in 5%; simulated times have none unless it is given");
  line.option("--expected", raw.expected,
              "average bus bandwidth that must be reached: 12, 12GiB/s, 96Gbps");
  line.option("--heat-map", raw.heat_map,
              "send between all pairs of ranks (simulated: load of links); FILE is JSON, - text")
      .values(0, 1)
      .with_default("-");
  line.option("--calibrate", o.calibration,
              "measure operations and algorithms, and write prices for CCOM_CALIBRATION there");
  line.flag("--dry-run", o.dry_run, "what would run, and how many bytes; nothing is run");
  line.option("--dump-dir", o.dump_folder, "folder for buffers of a failed check");
}

Result<Statistic> parse_statistic(const std::string& name) {
  if (name == "avg" || name == "min" || name == "max") return Statistic{name, -1};
  if (name.size() > 1 && name[0] == 'p') {
    char* end = nullptr;
    const double value = std::strtod(name.c_str() + 1, &end);
    if (*end == '\0' && value >= 0 && value <= 100) return Statistic{name, value};
  }
  return fail(CCOM_INVALID, "--stats {}: give avg, min, max, or pN with N from 0 to 100", name);
}

Result<double> parse_fraction(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  if (end == text.c_str() || !(value >= 0) || value > 1e6 || (unit != "%" && !unit.empty())) {
    return fail(CCOM_INVALID, "--tolerance \"{}\": give a share as in 5% or 0.05", text);
  }
  return unit == "%" ? value / 100 : value;
}

Result<OnChipShape> parse_shape(const std::string& name, const std::string& text) {
  OnChipShape shape;
  int used = 0;
  if (std::sscanf(text.c_str(), "[%u,%u][%u,%u]%n", &shape.step[0], &shape.step[1], &shape.count[0],
                  &shape.count[1], &used) != 4 ||
      static_cast<size_t>(used) != text.size()) {
    return fail(CCOM_INVALID, "{} \"{}\": expected [step0,step1][n0,n1], as in [1,1][512,128]",
                name, text);
  }
  return shape;
}

// "-t avg p50 allr", "--fail 0/0-1 allr" and "-s n1 n2 allr": the operation behind the values of an
// option is none of them. A host may be called as an operation is, if another word is the
// operation.
void take_operations_behind(Raw& raw, std::vector<std::string>& values) {
  size_t first = values.size();
  while (first != 0 && is_operation(values[first - 1])) --first;
  raw.operations.insert(raw.operations.begin(), values.begin() + static_cast<ptrdiff_t>(first),
                        values.end());
  values.resize(first);
}

void find_operations(Options& o, Raw& raw) {
  // "-c allr" means "-c" and "allr".
  if (is_operation(raw.check)) {
    raw.operations.insert(raw.operations.begin(), raw.check);
    raw.check = "random";
  }
  take_operations_behind(raw, raw.statistics);
  take_operations_behind(raw, o.failed);
  if (raw.operations.empty() && raw.streams.empty()) take_operations_behind(raw, o.hosts);
}

Result<void> read_work(Options& o, Raw& raw, const tools::Command& line) {
  find_operations(o, raw);
  for (const std::string& name : raw.operations) {
    NEURON_TRY(operation, find_operation(name));
    o.operations.push_back(operation);
  }
  NEURON_TRY(type, find_type(raw.datatype));
  o.block.type = type;
  NEURON_TRY(reduction, find_reduction(raw.reduction));
  o.block.reduction = reduction;
  NEURON_TRY(algorithm, find_algorithm(raw.algorithm));
  o.block.algorithm = algorithm;
  NEURON_TRY(minimum, parse_byte_size(raw.minimum));
  NEURON_TRY(maximum, parse_byte_size(raw.maximum));
  o.block.sweep.minimum = minimum;
  // "-b 64M" alone is one size, also above the default of the other end.
  o.block.sweep.maximum = line.given("--maxbytes") ? maximum : std::max(minimum, maximum);
  if (!raw.step.empty()) {
    NEURON_TRY(step, parse_byte_size(raw.step));
    o.block.sweep.step = step;
  }
  if (raw.factor != 0 || line.given("--stepfactor")) o.block.sweep.factor = raw.factor;
  NEURON_CHECK([&]() -> Result<void> {
    NEURON_TRY(sizes, sizes_of(o.block.sweep));
    return {};
  }());
  if (raw.check == "random") {
    o.check = Check::kRandom;
  } else if (raw.check == "all_ones") {
    o.check = Check::kAllOnes;
  } else if (!raw.check.empty()) {
    return fail(CCOM_INVALID, "--check {}: give random or all_ones", raw.check);
  }
  if (!raw.ratio.empty()) {
    NEURON_TRY(ratio, parse_ratio(raw.ratio));
    o.block.coalesced = ratio;
  }
  for (const std::string& name : raw.statistics) {
    std::istringstream words(name);
    for (std::string word; std::getline(words, word, ',');) {
      NEURON_TRY(statistic, parse_statistic(word));
      o.statistics.push_back(statistic);
    }
  }
  if (o.statistics.empty()) o.statistics.push_back({"avg", -1});
  return {};
}

Result<void> read_files(Options& o, const Raw& raw) {
  if (!raw.groups.empty() && raw.data_parallel != 0) {
    return fail(CCOM_INVALID,
                "--custom-replica-groups and --data-parallel-dimension both divide the ranks; give "
                "one of them");
  }
  if (!raw.groups.empty()) {
    NEURON_TRY(text, read_text(raw.groups));
    NEURON_TRY(configs, parse_replica_groups(text, raw.groups, o.ranks));
    o.block.group_configs = configs;
  }
  if (raw.data_parallel != 0) {
    if (o.ranks % raw.data_parallel != 0) {
      return fail(CCOM_INVALID, "--data-parallel-dimension {} does not divide {} ranks",
                  raw.data_parallel, o.ranks);
    }
    const uint32_t width = o.ranks / raw.data_parallel;
    GroupConfig config(raw.data_parallel);
    for (uint32_t rank = 0; rank < o.ranks; ++rank) config[rank / width].push_back(rank);
    o.block.group_configs = {config};
  }
  if (!raw.pairs.empty()) {
    NEURON_TRY(text, read_text(raw.pairs));
    NEURON_TRY(configs, parse_pairs(text, raw.pairs, o.ranks));
    o.block.pair_configs = configs;
  }
  if (!raw.metadata.empty()) {
    NEURON_TRY(text, read_text(raw.metadata));
    NEURON_TRY(entries, parse_metadata(text, raw.metadata, o.ranks));
    o.block.metadata = entries;
  }
  if (!o.operations.empty()) o.block.operation = o.operations.front();
  if (!raw.streams.empty()) {
    NEURON_TRY(text, read_text(raw.streams));
    NEURON_TRY(streams, parse_streams(text, raw.streams, o.block, o.ranks));
    o.streams = streams;
  }
  return {};
}

// Ranks and nodes follow from what mpirun or srun has started, unless the user says otherwise.
Result<void> read_launcher(Options& o, const Raw& raw, const tools::Command& line) {
  if (!raw.worker.empty() || !o.hosts.empty() || !o.profile.empty()) return {};
  const auto found = tools::read_launched([](const char* name) { return std::getenv(name); });
  if (!found) return fail(CCOM_INVALID, "{}", found.error().sentence);
  const std::optional<tools::Launched>& launched = *found;
  if (!launched) return {};
  o.launched = launched;
  if (o.launched->job.empty()) o.launched->job = std::to_string(getppid());
  if (o.processes) {
    return fail(CCOM_INVALID, "{} has started the processes; leave out the option for that",
                launched->launcher);
  }
  if (o.ranks == 0) o.ranks = launched->processes;
  if (!line.given("--nnodes")) o.nodes = launched->nodes;
  if (o.ranks % launched->processes != 0) {
    return fail(CCOM_INVALID, "{} ranks cannot be divided evenly among the {} processes of {}",
                o.ranks, launched->processes, launched->launcher);
  }
  return {};
}

Result<void> read_hosts(Options& o, const Raw& raw) {
  if (o.launched) {
    if (o.ranks % o.nodes != 0) {
      return fail(CCOM_INVALID, "{} ranks cannot be divided evenly among {} nodes", o.ranks,
                  o.nodes);
    }
    return {};
  }
  std::string file = raw.hosts_file;
  if (o.hosts.empty() && file.empty() && o.nodes > 1 && !o.worker) {
    const char* home = std::getenv("HOME");
    if (home != nullptr) {
      file = std::string(home) + "/hosts";
      if (!read_text(file)) file.clear();
    }
  }
  if (o.hosts.empty() && !file.empty()) {
    NEURON_TRY(text, read_text(file));
    o.hosts = parse_hosts(text);
  }
  if (!o.hosts.empty() && o.nodes == 1) o.nodes = static_cast<uint32_t>(o.hosts.size());
  if (!o.worker && o.nodes > 1 && o.hosts.size() < o.nodes && o.profile.empty()) {
    return fail(CCOM_INVALID, "{} nodes need {} hosts, but {} {} given; name them with --hosts",
                o.nodes, o.nodes, o.hosts.size(), o.hosts.size() == 1 ? "is" : "are");
  }
  if (o.ranks % o.nodes != 0) {
    return fail(CCOM_INVALID, "{} ranks cannot be divided evenly among {} nodes", o.ranks, o.nodes);
  }
  if (raw.slurm && o.launch.empty()) {
    o.launch = "srun --overlap --nodes 1 --ntasks 1 --nodelist {host}";
    if (raw.vcpus != 0) o.launch += " --cpus-per-task " + std::to_string(raw.vcpus);
    if (!raw.job.empty()) o.launch += " --jobid " + raw.job;
  } else if (o.launch.empty()) {
    o.launch = "ssh -o BatchMode=yes {host}";
  }
  if (!raw.setup_script.empty() && raw.setup_script != "default") {
    o.launch += " sh -c '. " + raw.setup_script + "; exec \"$@\"' sh";
  }
  return {};
}

Result<void> read_place(Options& o, const Raw& raw, const tools::Command& line) {
  static constexpr const char* kNames[] = {"auto", "device", "host", "network", "simulated"};
  bool known = false;
  for (size_t i = 0; i < 4; ++i) {
    if (raw.backend == kNames[i]) {
      o.backend = static_cast<Backend>(i);
      known = true;
    }
  }
  if (!known) {
    return fail(CCOM_INVALID, "--backend {}: give device, host or network", raw.backend);
  }
  if (!o.profile.empty()) o.backend = Backend::kSimulated;
  if (o.profile.empty() && (o.chips != 0 || o.window != 0 || o.jitter != 0)) {
    return fail(CCOM_INVALID, "--chips, --window and --jitter belong to --simulate PROFILE");
  }
  for (const char* option : {"--costs", "--contention", "--fail", "--model", "--memory"}) {
    if (o.profile.empty() && line.given(option)) {
      return fail(CCOM_INVALID, "{} belongs to --simulate PROFILE", option);
    }
  }
  NEURON_TRY(memory, parse_byte_size(raw.memory));
  o.memory = memory;
  o.chips_asked = line.given("--model") && raw.model == "chips";
  // What the model of chips does not have is a matter of the model of links.
  o.links_only = raw.model == "links" || line.given("--costs") || line.given("--contention") ||
                 !o.failed.empty();
  o.divided = raw.contention == "none";
  o.memory_contention = raw.contention == "memory";
  if (!raw.worker.empty()) {
    WorkerPart part;
    if (std::sscanf(raw.worker.c_str(), "%u,%u", &part.first, &part.count) != 2 ||
        part.count == 0 || part.first >= o.ranks || part.count > o.ranks - part.first) {
      return fail(CCOM_INVALID, "--worker {}: expected FIRST,COUNT among {} ranks", raw.worker,
                  o.ranks);
    }
    o.worker = part;
  }
  if (o.root.empty()) {
    if (const char* root = std::getenv("NEURON_RT_ROOT_COMM_ID")) o.root = root;
  }
  if (o.root.empty() && o.launched) {
    const auto root = tools::root_of(*o.launched);
    if (!root) return fail(CCOM_INVALID, "{}", root.error().sentence);
    o.root = *root;
  }
  o.pin = raw.pin_mode == "linear";
  if (!raw.input_shape.empty()) {
    NEURON_TRY(shape, parse_shape("--input-shape", raw.input_shape));
    o.input_shape = shape;
  }
  if (!raw.output_shape.empty()) {
    NEURON_TRY(shape, parse_shape("--output-shape", raw.output_shape));
    o.output_shape = shape;
  }
  if (!o.on_chip && (o.input_shape || o.output_shape)) {
    return fail(CCOM_INVALID, "--input-shape and --output-shape belong to --sb2sb");
  }
  if (!o.on_chip && o.cc_dimension != 0) {
    return fail(CCOM_INVALID, "--cc-dim belongs to --sb2sb");
  }
  if (o.on_chip && o.shared_output) {
    return fail(CCOM_INVALID,
                "--sb2sb and --shared-output-buff exclude each other: tiles are used "
                "again by the next operation");
  }
  return read_hosts(o, raw);
}

Result<void> check_ranks(const Options& o, const Raw& raw) {
  if (o.operations.empty() && raw.streams.empty() && !o.heat_map && o.calibration.empty()) {
    if (is_operation(o.compare)) {
      return fail(CCOM_INVALID,
                  "--compare takes the file of an earlier JSON report; it was given {}, and no "
                  "operation is left: give --compare FILE {}",
                  o.compare, o.compare);
    }
    return fail(CCOM_INVALID, "which operation? For example: nccom-test all_reduce -r 2");
  }
  if (o.ranks == 0) {
    return fail(CCOM_INVALID, "{}",
                o.profile.empty() ? "how many ranks? Give -r (--nworkers)"
                                  : "how many chips? Give --chips, or ranks with -r");
  }
  if (o.nodes == 0) return fail(CCOM_INVALID, "--nnodes is 0");
  if (o.ranks > kMostRanks) {
    return fail(CCOM_INVALID, "{} ranks are more than {}", o.ranks, kMostRanks);
  }
  return {};
}

// The model determines what --calibrate measures; only sizes may be given.
Result<void> read_calibration(const Options& o, Raw& raw, const tools::Command& line) {
  if (o.calibration.empty()) return {};
  if (!raw.operations.empty() || !raw.streams.empty() || line.given("--heat-map") ||
      !raw.metadata.empty() || !raw.groups.empty() || raw.data_parallel != 0 ||
      line.given("--algorithm") || line.given("--coalesced-cc-size-ratio") || o.block.in_place) {
    return fail(CCOM_INVALID,
                "--calibrate chooses operations, algorithms and groups itself; give only ranks, "
                "sizes, iterations, the data type and where to run");
  }
  if (!o.profile.empty()) {
    return fail(CCOM_INVALID,
                "--calibrate measures; --simulate computes from prices that are known");
  }
  if (!line.given("--minbytes")) raw.minimum = "1K";
  if (!line.given("--maxbytes")) raw.maximum = "4M";
  if (raw.step.empty() && raw.factor == 0) raw.factor = 4;
  if (!line.given("--datatype")) raw.datatype = "fp32";
  return {};
}

Result<void> read(Options& o, Raw& raw, const tools::Command& line) {
  NEURON_CHECK(read_calibration(o, raw, line));
  NEURON_CHECK(read_work(o, raw, line));
  o.heat_map = line.given("--heat-map");
  if (is_operation(raw.heat_map)) {  // "--heat-map allr"
    NEURON_TRY(operation, find_operation(raw.heat_map));
    o.operations.insert(o.operations.begin(), operation);
    raw.heat_map.clear();
  }
  o.heat_map_file = raw.heat_map;
  if (line.given("--seed")) o.seed = raw.seed;
  if (line.given("--neff_iters")) o.program_iterations = raw.program_iterations;
  if (line.given("--neff_warmup_iters")) o.program_warmup = raw.program_warmup;
  // The number of chips of a simulated system gives its number of ranks, unless --ranks does.
  if (!o.profile.empty() && o.ranks == 0 && o.chips != 0) {
    NEURON_TRY(node, ccom::Topology::profile(o.profile));
    o.ranks = o.chips * node.ranks_per_chip;
  }
  NEURON_CHECK(read_launcher(o, raw, line));
  NEURON_CHECK(check_ranks(o, raw));
  if (o.block.root >= o.ranks) {
    return fail(CCOM_INVALID, "--root {} is no rank; there are {}", o.block.root, o.ranks);
  }
  if (o.format != tools::Format::kText && (o.json == "-" || o.csv == "-")) {
    return fail(CCOM_INVALID,
                "--format and {} - both choose what is on standard output; leave out one of them",
                o.json == "-" ? "--json" : "--csv");
  }
  NEURON_CHECK(read_files(o, raw));
  NEURON_CHECK(read_place(o, raw, line));
  NEURON_TRY(tolerance, parse_fraction(raw.tolerance));
  o.tolerance = tolerance;
  o.tolerance_given = line.given("--tolerance");
  if (!raw.expected.empty()) {
    NEURON_TRY(expected, parse_byte_rate(raw.expected, o.gibibytes));
    o.expected = expected;
  }
  return {};
}

}  // namespace

bool prints_for_programs(const Options& options) {
  return options.json == "-" || options.csv == "-" || options.format != tools::Format::kText;
}

const char* backend_name(Backend backend) {
  switch (backend) {
    case Backend::kDevice:
      return "device";
    case Backend::kHost:
      return "host";
    case Backend::kNetwork:
      return "network";
    case Backend::kSimulated:
      return "simulated";
    default:
      return "auto";
  }
}

Result<Options> parse_options(const std::vector<std::string>& arguments, Usage& usage) {
  tools::CommandLine line(manual());
  Options options;
  Raw raw;
  declare_work(line, options, raw);
  declare_place(line, options, raw);
  declare_output(line, options, raw);
  options.arguments = arguments;
  if (const auto answer = line.read(arguments)) {
    usage = {answer->status, answer->out + answer->error};
    return fail(CCOM_INVALID, "{}", usage.text);
  }
  usage.status = 2;
  NEURON_CHECK(read(options, raw, line));
  usage.status = 0;
  return options;
}

}  // namespace neuron::nccom
