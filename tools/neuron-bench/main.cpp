// SPDX-License-Identifier: Apache-2.0
// neuron-bench: executions of a NEFF, memory and matrix products, on the device's clock and ours.
#include <cstdio>
#include <cstdlib>

#include "runtime/base/file.h"
#include "runtime/neff/container.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/execution/quiet_runtime.h"
#include "tools/neuron-bench/commands.h"
#include "tools/neuron-bench/manual.h"
#include "tools/neuron-doctor/checks/access.h"

namespace {

using namespace neuron::bench;
namespace tools = neuron::tools;

struct Arguments {
  ExecOptions exec;
  std::string warmup = "10", fill;
  MemoryOptions memory;
  MatmulOptions matmul;
  tools::Format format = tools::Format::kText;
};

void add_exec(tools::Command line, Arguments& arguments) {
  ExecOptions& exec = arguments.exec;
  line.option("file", exec.file, "NEFF to execute").required().value_name("FILE");
  line.option("-n,--work", exec.executions, "executions of each instance")
      .between(1u, 100'000'000u)
      .with_default();
  line.option("-w,--warmup", arguments.warmup, "executions before those, or none").with_default();
  line.option("-o,--output-directory", exec.directory, "write the samples there")
      .value_name("DIRECTORY");
  line.option("--fixed-nc-count", exec.fixed_cores, "cores, instead of one and all")
      .between(1u, 4096u);
  line.option("--fixed-instance-count", exec.fixed_instances, "instances on each core")
      .between(1u, 64u);
  line.flag("--enable-only-latency", exec.only_latency, "one core only");
  line.option("-f,--fill", arguments.fill, "contents of the inputs: zeros or random")
      .one_of({"zeros", "random"});
  line.flag("--run-as-cc-neff", exec.collectives, "a NEFF with collectives: a rank on each core");
  tools::add_format_option(line, arguments.format);
}

// The other cores stay free for other processes. 0: all.
unsigned cores_needed(const tools::Command& line, const Arguments& arguments) {
  if (line.used("matmul")) return 1;
  if (!line.used("exec")) return 0;
  const ExecOptions& exec = arguments.exec;
  return exec.fixed_cores != 0 ? exec.fixed_cores : (exec.only_latency ? 1 : 0);
}

neuron::bench::Result<neuron::tools::Records> run(const tools::Command& line,
                                                  const Arguments& arguments) {
  // A file that is no NEFF is known before any core is taken from others.
  if (line.used("exec")) {
    NEURON_TRY(file, tools::read_file(arguments.exec.file));
    const auto container = neuron::neff::Container::open(file);
    if (!container) return container.error().with("{}", arguments.exec.file);
  }
  NEURON_TRY(session, Session::open(cores_needed(line, arguments)));
  if (line.used("exec")) return run_exec(*session, arguments.exec);
  if (line.used("memory")) return run_memory(*session, arguments.memory);
  return run_matmul(*session, arguments.matmul);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  tools::CommandLine line(manual());
  line.needs_command();
  tools::add_format_option(line, arguments.format);
  line.options_anywhere();
  add_exec(line.command("exec", "executions of a NEFF"), arguments);
  tools::Command memory = line.command("memory", "copies between host, device and devices");
  arguments.memory.sizes = {4096, 1u << 20, 16u << 20};
  memory.option("--sizes", arguments.memory.sizes, "bytes of a copy (4KB, 1MB)")
      .bytes_with_unit()
      .between(size_t{1}, size_t{1} << 32);
  memory.option("-n,--work", arguments.memory.repetitions, "copies of each size")
      .between(1u, 1'000'000u);
  tools::add_format_option(memory, arguments.format);
  tools::Command matmul = line.command("matmul", "products of square matrices by type");
  arguments.matmul.types = {"fp32", "bf16", "fp16", "fp8_e4"};
  arguments.matmul.sizes = {512, 1024};
  matmul.option("--types", arguments.matmul.types, "types of the elements")
      .one_of({"fp32", "bf16", "fp16", "fp8_e4", "fp8_e5"});
  matmul.option("--sizes", arguments.matmul.sizes, "rows, a multiple of 512")
      .between(512u, 8192u)
      .judged_by([](const std::string& text) {
        return std::strtoul(text.c_str(), nullptr, 10) % 512 == 0
                   ? std::string()
                   : "Value " + text + " is no multiple of 512";
      });
  matmul.option("-n,--work", arguments.matmul.repetitions, "products of each size")
      .between(1u, 10'000u);
  tools::add_format_option(matmul, arguments.format);
  if (const auto status = line.parse(argc, argv)) return *status;
  if (arguments.warmup == "none") {
    arguments.exec.warmup = 0;
  } else {
    char* end = nullptr;
    const unsigned long count = std::strtoul(arguments.warmup.c_str(), &end, 10);
    if (arguments.warmup.empty() || *end != 0 || count > 1'000'000) {
      std::fprintf(stderr, "neuron-bench: --warmup: found '%s', expected a number or none\n",
                   arguments.warmup.c_str());
      return tools::kWrongUsage;
    }
    arguments.exec.warmup = static_cast<unsigned>(count);
  }
  arguments.exec.random = arguments.fill == "random";
  // The kernels are of the first generation; newer chips run them when asked to.
  ::setenv("NEURON_RT_ALLOW_LEGACY_NEFF", "1", 0);
  // The sentence that is printed already contains what libnrt would log.
  neuron::execution::quiet_runtime("neuron-bench");
  const auto records = run(line, arguments);
  if (!records) {
    std::fprintf(stderr, "neuron-bench: %s\n", records.error().sentence.c_str());
    return neuron::doctor::exit_status_of(records.error().sentence);
  }
  const tools::Style style = tools::style_of(1, tools::ColorMode::kAuto);
  return tools::print_output("neuron-bench", tools::render(*records, arguments.format, style))
             ? tools::kDone
             : tools::kFailed;
}
