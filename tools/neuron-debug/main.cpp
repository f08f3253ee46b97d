// SPDX-License-Identifier: Apache-2.0
// neuron-debug: a NEFF under control, instruction by instruction.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>

#include "runtime/base/file.h"
#include "runtime/neff/npy_file.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/execution/session.h"
#include "tools/neuron-debug/debugger.h"
#include "tools/neuron-debug/manual.h"
#include "tools/neuron-doctor/checks/access.h"
#include "tools/neuron-run/arrays.h"

namespace {

using namespace neuron::debug;  // NOLINT: this file is the program
namespace execution = neuron::execution;
namespace runtime = neuron::runtime;
namespace tools = neuron::tools;
using runtime::fail;

struct Wishes {
  std::string neff, script;
  std::vector<std::string> inputs;
  bool break_on_nan = false;
};

// Inputs without a file are made up, as neuron-run --random does.
Result<void> write_inputs(const execution::Model& model, const std::vector<std::string>& pairs) {
  std::map<std::string, std::string> files;
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos) return fail(NRT_INVALID, "'{}' is not NAME=FILE", pair);
    files[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  for (const execution::Port& port : model.ports()) {
    if (!port.input) continue;
    const neuron::run::Form form{port.name, port.dtype, port.shape, port.bytes};
    const auto file = files.find(port.name);
    if (file == files.end()) {
      NEURON_CHECK(port.write(neuron::run::random_bytes(form, 0)));
      continue;
    }
    NEURON_TRY(array, tools::read_npy_file(file->second));
    if (auto fits = neuron::run::check_fits(array, form); !fits) {
      return fits.error().with("{}", file->second);
    }
    NEURON_CHECK(port.write(array.data));
    files.erase(file);
  }
  if (files.empty()) return {};
  return fail(NRT_INVALID, "the NEFF has no input {}", files.begin()->first);
}

// A folder can be opened, and is empty to who reads lines.
Result<void> open_script(const std::string& path, std::ifstream& script) {
  if (path.empty()) return {};
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) {
    return runtime::fail_with_errno(NRT_INVALID, errno, "cannot read the commands in '{}'", path);
  }
  if (S_ISDIR(status.st_mode)) {
    return fail(NRT_INVALID, "'{}' is a folder; expected a file of commands", path);
  }
  script.open(path);
  if (!script) {
    return runtime::fail_with_errno(NRT_INVALID, errno, "cannot read the commands in '{}'", path);
  }
  return {};
}

// `unwritten`: the errno value of output that failed.
Result<bool> debug(const Wishes& wishes, std::ifstream& script, int& unwritten) {
  NEURON_TRY(bytes, tools::read_file(wishes.neff));
  NEURON_TRY(session, execution::Session::open(1));
  auto loaded = execution::Model::load(bytes, 0);
  if (!loaded) return loaded.error().with("{}", wishes.neff);
  const auto model = std::move(*loaded);
  NEURON_CHECK(write_inputs(*model, wishes.inputs));
  NEURON_TRY(watched, WatchedModel::of(model->handle()));
  std::istream& commands = wishes.script.empty() ? std::cin : script;
  size_t number = 0;  // of the line that was read last
  const bool asks = wishes.script.empty() && ::isatty(0) != 0;
  Debugger debugger(watched->model(), {.execute = [&]() -> Result<void> {
                                         NEURON_CHECK(model->execute());
                                         return {};
                                       },
                                       .next = [&]() -> std::optional<std::string> {
                                         if (asks) std::cout << "(neuron) " << std::flush;
                                         std::string line;
                                         if (!std::getline(commands, line)) return std::nullopt;
                                         ++number;
                                         return line;
                                       },
                                       .place = [&]() -> std::string {
                                         if (wishes.script.empty()) return "";
                                         return wishes.script + ":" + std::to_string(number) + ": ";
                                       },
                                       .out = std::cout,
                                       .break_on_nan = wishes.break_on_nan});
  watched->watch(&debugger);
  const bool good = debugger.run();
  watched->watch(nullptr);
  unwritten = debugger.output_error();
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  Wishes wishes;
  tools::CommandLine line(manual());
  line.option("file", wishes.neff, "NEFF to execute").required().value_name("NEFF");
  line.option("-x,--command-file", wishes.script, "commands, one a line; # begins a comment")
      .value_name("FILE");
  line.option("-i,--input", wishes.inputs, "input NAME is the array in FILE (.npy); repeatable")
      .repeatable()
      .value_name("NAME=FILE");
  line.flag("--break-on-nan", wishes.break_on_nan,
            "run stops in front of the instruction that makes the first NaN");
  if (const auto status = line.parse(argc, argv)) return *status;
  // The sentence that is printed already contains what libnrt would log.
  ::setenv("NEURON_RT_LOG_LEVEL", "QUIET", 0);
  // Whoever looks at a core takes time.
  ::setenv("NEURON_RT_EXEC_TIMEOUT", "86400", 1);
  // In strict mode a tile that is looked at was read by the host, and who writes it next races.
  ::setenv("NEURON_EMULATOR_STRICT", "0", 0);
  if (wishes.break_on_nan) ::setenv("NEURON_FAIL_ON_NAN", "1", 1);
  std::ifstream script;
  if (const auto opened = open_script(wishes.script, script); !opened) {
    std::fprintf(stderr, "neuron-debug: %s\n", opened.error().sentence.c_str());
    return tools::kWrongUsage;
  }
  int unwritten = 0;
  const auto good = debug(wishes, script, unwritten);
  const bool printed = tools::finish_output("neuron-debug", unwritten);
  if (good) return *good && printed ? tools::kDone : tools::kFailed;
  std::fprintf(stderr, "neuron-debug: %s\n", good.error().sentence.c_str());
  return neuron::doctor::exit_status_of(good.error().sentence);
}
