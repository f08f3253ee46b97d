// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/environment_table.h"

#include <algorithm>

#include "driver/base/nearest_name.h"
#include "runtime/base/error.h"

namespace neuron::runtime {
namespace {

constexpr std::string_view kDevice = "DEVICES AND CORES", kExecution = "EXECUTION", kLog = "LOG",
                           kCollectives = "COLLECTIVES", kInspect = "PROFILING",
                           kEmulator = "EMULATED DEVICES", kNoEffect = "WITHOUT EFFECT";

constexpr EnvironmentVariable kTable[] = {
    {"NEURON_EMULATOR", "a profile such as trn1.2xlarge, or unix:PATH",
     "the device of this process: an emulated one of its own, or that of the neuron-emulatord at "
     "PATH; unset: /dev/neuron* of a kernel driver",
     kDevice},
    {"NEURON_RT_VISIBLE_CORES", "0, 0-3 or 0,1",
     "the cores that the process owns; it beats NEURON_RT_NUM_CORES", kDevice},
    {"NEURON_RT_NUM_CORES", "a number (0: all)", "how many free cores the process owns", kDevice},
    {"NEURON_LOGICAL_NC_CONFIG", "1, 2 (2 on trn2 and trn3, 1 elsewhere)",
     "physical cores of each core that is counted; a NEFF must be built for the same", kDevice},
    {"NEURON_RT_VIRTUAL_CORE_SIZE", "1, 2", "an older name of NEURON_LOGICAL_NC_CONFIG", kDevice},
    {"NEURON_RT_RESET_CORES", "0, 1 (1)", "reset the cores in nrt_init", kDevice},
    {"NEURON_PROCESS_TAG", "text (the process id)", "what operator tools call this process",
     kDevice},
    {"NEURON_RT_EXEC_TIMEOUT", "seconds (600)", "how long one execution may take", kExecution},
    {"NEURON_OPEN_MODEL_TIME_LIMIT_US", "microseconds (no limit)",
     "how much model time one execution may take", kExecution},
    {"NEURON_OPEN_ASYNC_QUEUE_DEPTH", "a number (1024)",
     "requests that an asynchronous queue holds", kExecution},
    {"NEURON_RT_VALIDATE_HASH", "0, 1 (0)", "compare the hash of a NEFF when it is loaded",
     kExecution},
    {"NEURON_RT_ALLOW_LEGACY_NEFF", "0, 1 (0)",
     "run a NEFF of trn1 on trn2, together with NEURON_LOGICAL_NC_CONFIG=1", kExecution},
    {"NEURON_FAIL_ON_NAN", "0, 1 (0)", "an instruction that makes a NaN fails the execution",
     kExecution},
    {"NEURON_RT_NUMERICAL_ERRORS_VERBOSITY", "critical",
     "critical does what NEURON_FAIL_ON_NAN=1 does; no other value changes anything", kExecution},
    {"NEURON_RT_STOCHASTIC_ROUNDING_EN", "0, 1 (0)",
     "instructions that do not say how they round do it stochastically, and so do the transfers "
     "that they describe; transfers of which the program has the descriptors round to nearest",
     kExecution},
    {"NEURON_RT_STOCHASTIC_ROUNDING_SEED", "a number (0)",
     "the seed of stochastic rounding, and of the random numbers of programs that set none",
     kExecution},
    {"NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS", "a number (0)",
     "implicitly asynchronous execution, which was removed: a value above 0 gives a warning",
     kExecution},
    {"NEURON_RT_DEBUG_STREAM_BUFFER_SIZE", "a number (65536)",
     "events of a debug stream that wait for its client; further ones are dropped", kExecution},
    {"NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY",
     "a folder with %d %c %p %t %l %i (/tmp/neuron-core-dump/dt-%d-cid-%c)",
     "where core dumps of failed executions go, if there is a program that takes them: time, "
     "cluster, process, thread, number of the dump and instance are filled in; set to nothing "
     "together with NEURON_RT_S3_CORE_DUMP_PREFIX: no core dumps",
     kExecution},
    {"NEURON_RT_S3_CORE_DUMP_PREFIX", "text with the same letters",
     "handed to the program that takes core dumps, as --s3-output-prefix", kExecution},
    {"NEURON_OPEN_DUMP_PROGRAM", "a file (/opt/aws/neuron/bin/neuron-dump)",
     "the program that takes core dumps; without an executable one there are none", kExecution},
    {"NEURON_RT_LOG_LEVEL", "ERROR, WARN, INFO, DEBUG, TRACE, QUIET (ERROR)",
     "what is logged; unset, warnings that an operator has to know of are shown as well", kLog},
    {"NEURON_RT_LOG_LEVEL_NRT", "as NEURON_RT_LOG_LEVEL",
     "what is logged of the interface and sessions", kLog},
    {"NEURON_RT_LOG_LEVEL_NMGR", "as NEURON_RT_LOG_LEVEL",
     "what is logged of files, models and executions", kLog},
    {"NEURON_RT_LOG_LEVEL_TDRV", "as NEURON_RT_LOG_LEVEL",
     "what is logged of devices, memory and rings", kLog},
    {"NEURON_OPEN_PROGRAM_TELLS", "0, 1 (0)",
     "1: the program prints the sentences of calls that fail, and of variables that nothing reads, "
     "itself; they are not logged on the console as well. Warnings and what only the log tells are",
     kLog},
    {"NEURON_RT_LOG_LOCATION", "console, syslog (console)", "where the log goes", kLog},
    {"NEURON_RT_LOG_LOCATION_NRT", "console, syslog, a file",
     "where the log of the interface and sessions goes", kLog},
    {"NEURON_RT_LOG_LOCATION_NMGR", "console, syslog, a file",
     "where the log of files, models and executions goes", kLog},
    {"NEURON_RT_LOG_LOCATION_TDRV", "console, syslog, a file",
     "where the log of devices, memory and rings goes", kLog},
    {"NEURON_RT_ROOT_COMM_ID", "ADDRESS:PORT",
     "where ranks of several processes meet; unset: all ranks are in this process", kCollectives},
    {"NEURON_OPEN_COLLECTIVES_TIMEOUT", "seconds (60)",
     "how long ranks wait for each other to meet", kCollectives},
    {"NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED", "0, 1 (0)",
     "allow nrt_async_sendrecv_*, transfers between tensors of two cores that the hosts make",
     kCollectives},
    {"NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT", "a port (45645)",
     "where cores listen for these transfers: core n of the host at this TCP port plus n, open to "
     "whoever reaches it",
     kCollectives},
    {"NEURON_CCOM_LIBRARY", "a file", "libccom.so.1, if it is not beside libnrt.so.1",
     kCollectives},
    {"CCOM_SECRET", "a text (derived from the root's address)",
     "what all ranks of a job share; without it strangers who reach the root may join",
     kCollectives},
    {"CCOM_REQUIRE_SECRET", "0, 1 (0)",
     "refuse a job without a secret, unless its root is a loopback address", kCollectives},
    {"CCOM_TLS", "0, 1, or a file (0)",
     "1: neuron/ccom-tls.so encrypts the connections over which ranks come together, by "
     "CCOM_SECRET; "
     "a file: another plug-in does",
     kCollectives},
    {"CCOM_TIMEOUT_MS", "milliseconds (60000)",
     "the time for joining, and for an operation without progress", kCollectives},
    {"CCOM_HEARTBEAT_MS", "milliseconds; 0: never (900)",
     "the silence after which a neighbour on another host is dead", kCollectives},
    {"CCOM_MEMORY", "bytes; K, M, G or T may follow (1G)", "address space of ccom_mem_alloc()",
     kCollectives},
    {"CCOM_SHARED_MEMORY", "0, 1 (1)", "0: every rank acts as if on a host of its own",
     kCollectives},
    {"CCOM_ORDER", "rank, fast (rank)",
     "rank: the same bits for every algorithm in shared memory; fast: the order of the algorithm",
     kCollectives},
    {"CCOM_PROVIDERS", "stream, or names of libfabric", "providers, in order of preference",
     kCollectives},
    {"CCOM_TOPOLOGY", "a profile, or a file", "what joins the ranks; unset: one node per host",
     kCollectives},
    {"CCOM_ALGORITHM", "NAME, or OPERATION=NAME;...",
     "the algorithm of operations; unset: the quickest", kCollectives},
    {"CCOM_GROUPING", "a number of ranks",
     "so many ranks, behind one another, are a group of hierarchical algorithms on devices",
     kCollectives},
    {"CCOM_CALIBRATION", "a file", "measured prices, which nccom-test --calibrate writes",
     kCollectives},
    {"CCOM_DUMP_PATH", "a folder, or FILE.json",
     "each rank writes its dump there after a failure of a communicator, as ccom-RANK-PID.json; a "
     "missing folder is made; FILE.json means FILE-RANK-PID.json",
     kCollectives},
    {"CCOM_ROUGH_SEED", "a number", "the seed of the provider rough+tcp, which is for tests",
     kCollectives},
    {"NEURON_OPEN_PROFILE_FILES", "a count; 0: all (0)",
     "how many profiles of a core nrt_profile_continuous_save() leaves in a folder; the oldest go",
     kInspect},
    {"NEURON_RT_INSPECT_ENABLE", "0, 1 (0)",
     "nrt_init begins an inspect session, nrt_close ends it", kInspect},
    {"NEURON_RT_INSPECT_OUTPUT_DIR", "a folder (./output)", "where inspect sessions write",
     kInspect},
    {"NEURON_RT_INSPECT_SYSTEM_PROFILE", "0, 1 (1)", "record calls and executions", kInspect},
    {"NEURON_RT_INSPECT_DEVICE_PROFILE", "0, 1, model, session (0)",
     "profile the first execution by nrt_execute of each model on a core (1, model), or everything "
     "that the core executes from then on (session), with a file for each turn of a model",
     kInspect},
    {"NEURON_RT_INSPECT_ON_FAIL", "0, 1 (0)", "an execution that fails leaves its profile",
     kInspect},
    {"NEURON_RT_INSPECT_CPU_UTIL", "0, 1 (1)", "sample the processors of the host once a second",
     kInspect},
    {"NEURON_RT_INSPECT_HOST_MEMORY", "0, 1 (1)", "sample the memory of the host once a second",
     kInspect},
    {"NEURON_RT_INSPECT_EVENT_FILTER_NC", "0,2-4 (all)", "cores that are recorded", kInspect},
    {"NEURON_RT_INSPECT_EVENT_FILTER_TYPE", "names, hardware, software, ^name (all)",
     "events that are recorded; ^ leaves one out", kInspect},
    {"NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC", "a number (1000000)",
     "events that are kept of each core; older ones are dropped and counted", kInspect},
    {"NEURON_EMULATOR_FAULTS", "a file", "faults that emulated devices shall have", kEmulator},
    {"NEURON_EMULATOR_MEMORY_LIMIT", "bytes", "host memory that emulated HBM may take", kEmulator},
    {"NEURON_EMULATOR_LIBRARY", "a file",
     "libneuron-emulator.so.1, if it is not beside libnrt.so.1", kEmulator},
    {"NEURON_EMULATOR_SIMD", "scalar, avx2, avx512, avx512bf16, amx",
     "the code path of the arithmetic; all give the same bits", kEmulator},
    {"NEURON_EMULATOR_COPY", "a code path", "how large copies are made; for measurements",
     kEmulator},
    {"NEURON_EMULATOR_STRICT", "0, 1 (1)",
     "trap reads of memory that nothing wrote, races, and inputs outside a function's range",
     kEmulator},
    {"NEURON_EMULATOR_KNOWN_LAUNCHES", "0, 1 (1)",
     "execute what a launch begins with as one step, if the core has done the same before; for "
     "tests",
     kEmulator},
    {"NEURON_EMULATOR_CUSTOM_OPERATORS", "0, 1 (0)",
     "run custom C++ operators, which are code for the host that a NEFF carries, each call in a "
     "process without rights",
     kEmulator},
    {"NEURON_EMULATOR_CUSTOM_OPERATOR_SECONDS", "1 to 600 (5)",
     "how long a call of a custom operator may take on all cores of GpSimd together, in the host's "
     "time",
     kEmulator},
    {"NEURON_RT_GPSIMD_STDOUT_QUEUE_SIZE_BYTES", "0 to 131072 (0)",
     "not 0: what custom operators print with printf is shown on standard error when each call has "
     "ended",
     kEmulator},
    {"NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY", "", "", kNoEffect,
     "threads of this runtime run where the system puts them"},
    {"NEURON_RT_MULTI_INSTANCE_SHARED_WEIGHTS", "", "", kNoEffect,
     "each loaded model has weights of its own"},
    {"NEURON_RT_DEBUG_MEMLOG_MAX_SIZE", "", "", kNoEffect, "no log of allocations is kept"},
    {"NEURON_RT_DEBUG_OUTPUT_DIR", "", "", kNoEffect,
     "events of a debug stream go to the client that opened it, and to no folder"},
    {"NEURON_RT_ENABLE_DEVICE_MEMORY_OOM_LOG", "", "", kNoEffect,
     "an allocation that fails is told in one sentence; there is no long report"},
    {"NEURON_RT_ENABLE_DGE_NOTIFICATIONS", "", "", kNoEffect,
     "a profile has the transfers of descriptors that engines generate in any case, as all others: "
     "an event for each packet, or for a few that move together, and it names the instruction"},
    {"NEURON_RT_CONTIGUOUS_SCRATCHPAD", "", "", kNoEffect,
     "the scratchpad of a core is one piece in any case"},
    {"NEURON_RT_LOG_LEVEL_KMGR", "", "", kNoEffect, "no part of this runtime has this name"},
    {"NEURON_RT_LOG_LOCATION_KMGR", "", "", kNoEffect, "no part of this runtime has this name"},
    {"NEURON_RT_PROFILE_BUF_EVENT_MB", "", "", kNoEffect,
     "the rings of a profile have one size and are read while the core runs"},
    {"NEURON_RT_PROFILE_BUF_DMA_MB", "", "", kNoEffect,
     "the rings of a profile have one size and are read while the core runs"},
    {"NEURON_RT_PROFILE_BUF_THROTTLE_MB", "", "", kNoEffect,
     "the rings of a profile have one size and are read while the core runs"},
    {"NEURON_RT_PROFILE_BUF_CC_CORE_INSTRUCTION_MB", "", "", kNoEffect,
     "the rings of a profile have one size and are read while the core runs"},
    {"NEURON_RT_PROFILE_BUF_CC_CORE_EVENT_MB", "", "", kNoEffect,
     "the rings of a profile have one size and are read while the core runs"},
    {"NEURON_RT_DBG_DUMP_INPUTS_ON_ERR", "", "", kNoEffect,
     "core dumps say what registers say, and have no tensors"},
    {"NEURON_RT_DBG_DMA_PACKETIZATION_SIZE", "", "", kNoEffect,
     "descriptors have the sizes that the program gives them"},
    {"NEURON_RT_DBG_CC_DMA_PACKET_SIZE", "", "", kNoEffect,
     "libccom.so.1 chooses the sizes of transfers"},
    {"NEURON_RT_DBG_INTRA_RDH_CHANNEL_BUFFER_SIZE", "", "", kNoEffect,
     "libccom.so.1 chooses the sizes of its buffers"},
    {"NEURON_RT_DBG_NDET_FLUSH_USEC", "", "", kNoEffect, "this log does not exist here"},
    {"NEURON_RT_DBG_NDET_LOG_LOCATION", "", "", kNoEffect, "this log does not exist here"},
    {"NEURON_RT_DBG_NDET_NUM_ENTRIES", "", "", kNoEffect, "this log does not exist here"},
    {"NEURON_RT_ONE_THREAD_PER_CORE", "", "", kNoEffect,
     "threads of this runtime run where the system puts them"},
    {"NEURON_RT_RANKS_PER_NETWORK_PROXY", "", "", kNoEffect,
     "one thread of the process serves the network proxies of all its ranks"},
    {"NEURON_RT_ULTRASERVER_MODE", "", "", kNoEffect, "the driver says which devices there are"},
    {"NEURON_RT_ULTRASERVER_SERVER_ID", "", "", kNoEffect,
     "the driver says which devices there are"},
    {"NEURON_RT_ULTRASERVER_NODE_ID", "", "", kNoEffect, "the driver says which devices there are"},
    {"NEURON_RT_INSPECT_PRECACHE_ENABLE", "", "", kNoEffect,
     "an inspect session records from nrt_init on; no cache of graphs comes before"},
    {"NEURON_RT_INSPECT_DURATION_NSEC", "", "", kNoEffect,
     "the original does not have it any more"},
    {"NEURON_RT_INSPECT_START_OFFSET_NSEC", "", "", kNoEffect,
     "the original does not have it any more"},
};

std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '-' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::span<const EnvironmentVariable> environment_table() { return kTable; }

const EnvironmentVariable* find_variable(std::string_view name) {
  for (const EnvironmentVariable& variable : kTable) {
    if (name == variable.name) return &variable;
  }
  return nullptr;
}

std::vector<std::string> unknown_variables(const char* const* environment) {
  constexpr std::string_view kOurs[] = {"NEURON_RT_", "NEURON_OPEN_", "NEURON_EMULATOR_", "CCOM_"};
  std::vector<std::string_view> names;
  for (const EnvironmentVariable& variable : kTable) names.push_back(variable.name);
  std::vector<std::string> sentences;
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    std::string_view name(*environment);
    name = name.substr(0, name.find('='));
    const bool ours = std::any_of(std::begin(kOurs), std::end(kOurs),
                                  [&](std::string_view begin) { return name.starts_with(begin); });
    if (find_variable(name) != nullptr) continue;
    // Of other families there are variables that others read: only what is very like one is named.
    const std::string_view nearest =
        ours ? base::nearest_name(name, names)
             : base::nearest_name(name, names, {.most = 2, .written = 1, .known = 1});
    if (!ours && nearest.empty()) continue;
    sentences.push_back(format("no part of this runtime reads the environment variable {}{}",
                               escaped(name),
                               nearest.empty() ? "; neuron-environment(7) lists those that it reads"
                                               : "; is " + std::string(nearest) + " meant?"));
  }
  return sentences;
}

std::string environment_page(std::string_view version) {
  std::string page = format(
      ".TH NEURON\\-ENVIRONMENT 7 \"\" \"neuron\\-open\\-runtime {}\" \"\"\n.SH NAME\n"
      "neuron\\-environment \\- environment variables of the Neuron runtime\n.SH DESCRIPTION\n"
      "nrt_init() reads these variables of a program that uses libnrt.so.1. A variable that begins "
      "with NEURON_RT_, NEURON_OPEN_, NEURON_EMULATOR_ or CCOM_ and is not among them, or one that "
      "differs from one of them in two letters at most, gives a warning in the log, once in a "
      "process, with the nearest name; NEURON_RT_LOG_LEVEL=ERROR silences it.\n",
      roff(version));
  std::string_view group;
  for (const EnvironmentVariable& variable : kTable) {
    if (variable.group != group) {
      group = variable.group;
      page += format(".SH {}\n", group);
      if (group == kNoEffect) {
        page += "The original documents these; here they are accepted and change nothing.\n";
      }
    }
    page += format(".TP\n.B {}\n", roff(variable.name));
    if (variable.values.empty()) {
      page += format("{}.\n", roff(variable.why_not));
      continue;
    }
    page += format("{}: {}.\n", roff(variable.values), roff(variable.meaning));
  }
  return page + ".SH SEE ALSO\n.BR neuron\\-profile (1),\n.BR neuron\\-emulatord (8)\n";
}

}  // namespace neuron::runtime
