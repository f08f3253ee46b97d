// SPDX-License-Identifier: Apache-2.0
// neuron-nki: lowers the trace of an NKI kernel to a NEFF; its other commands are those of the
// Python package nki, which this program starts.
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "driver/isa/instruction.h"
#include "runtime/base/file.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/compiler/nki/lowering.h"
#include "tools/neuron-nki/manual.h"

namespace {

namespace json = boost::json;
namespace nki = neuron::nki;
namespace tools = neuron::tools;

struct PythonCommand {
  const char* name;
  const char* description;
};
constexpr PythonCommand kOfPython[] = {
    {"run", "trace a kernel, execute it, print values, time and use of the engines"},
    {"compile", "trace a kernel and write its NEFF"},
    {"bench", "model time of a kernel over several shapes"},
    {"check", "compare every intermediate value with an interpretation in float64"},
    {"lint", "name what Amazon's compiler would refuse in a file"},
    {"corpus", "run every kernel of a folder with its own reference, and print a table"}};

// Where the package lies: beside this program in the build tree and in an installation. Empty: it
// cannot be said.
std::string package_folder() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return (program.parent_path().parent_path() / "share" / "neuron" / "python").string();
}

// Becomes the interpreter; returns only if there is none.
int start_python(int argc, char** argv) {
  const char* wanted = std::getenv("NEURON_NKI_PYTHON");
  const std::string interpreter = wanted != nullptr ? wanted : "/usr/bin/python3";
  std::string path = package_folder();
  if (path.empty()) {
    std::fprintf(stderr,
                 "neuron-nki: /proc/self/exe cannot be read, so the folder of the Python package "
                 "is not known; mount /proc\n");
    return tools::kFailed;
  }
  if (const char* before = std::getenv("PYTHONPATH"); before != nullptr && *before != 0) {
    path += ":" + std::string(before);
  }
  ::setenv("PYTHONPATH", path.c_str(), 1);
  // Python's compiled files do not belong into the folder of an installation; they go where the
  // lowered kernels go.
  const char* cache = std::getenv("NEURON_NKI_CACHE");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache == 0) {
    ::setenv("PYTHONDONTWRITEBYTECODE", "1", 0);
  } else if (cache != nullptr) {
    ::setenv("PYTHONPYCACHEPREFIX", (std::string(cache) + "/python").c_str(), 0);
  } else if (home != nullptr && *home != 0) {
    ::setenv("PYTHONPYCACHEPREFIX", (std::string(home) + "/.cache/neuron-nki/python").c_str(), 0);
  }
  // -P: a folder or file "nki" or "numpy" where the caller stands is not this package.
  std::vector<std::string> words = {interpreter, "-P", "-m", "nki.tool"};
  words.insert(words.end(), argv + 1, argv + argc);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(interpreter.c_str(), arguments.data());
  std::fprintf(stderr,
               "neuron-nki: %s cannot be started: %s; NEURON_NKI_PYTHON names another one\n",
               interpreter.c_str(), std::strerror(errno));
  return tools::kFailed;
}

std::string report_text(const nki::Lowered& lowered) {
  json::array lines;
  for (const nki::LineCost& line : lowered.lines) {
    lines.push_back(json::object{{"file", line.file},
                                 {"line", line.line},
                                 {"engine", neuron::isa::engine_name(line.engine)},
                                 {"instructions", line.instructions},
                                 {"ps", line.picoseconds}});
  }
  json::array tiles;
  for (const nki::TilePlace& tile : lowered.tiles) {
    tiles.push_back(json::array{tile.name, tile.file, tile.line, tile.psum, tile.start, tile.parts,
                                tile.base, tile.bytes});
  }
  return json::serialize(json::object{{"lines", std::move(lines)},
                                      {"tiles", std::move(tiles)},
                                      {"transfers", lowered.transfers},
                                      {"transferred_bytes", lowered.transferred_bytes},
                                      {"first_wait", lowered.first_wait}}) +
         "\n";
}

neuron::runtime::Result<void> lower(const std::string& trace, const std::string& output,
                                    const std::string& report,
                                    const nki::LoweringOptions& options) {
  NEURON_TRY(text, tools::read_file(trace));
  auto lowered = nki::lower({reinterpret_cast<const char*>(text.data()), text.size()}, options);
  if (!lowered) {
    neuron::runtime::Error error = lowered.error();
    // What is said of the kernel has its own file and line.
    if (error.sentence.starts_with("line ")) error.sentence = trace + ": " + error.sentence;
    return error;
  }
  NEURON_CHECK(tools::write_file(output, lowered->neff));
  if (report.empty()) return {};
  const std::string shown = report_text(*lowered);
  return tools::write_file(report, {reinterpret_cast<const uint8_t*>(shown.data()), shown.size()});
}

}  // namespace

int main(int argc, char** argv) {
  for (const PythonCommand& command : kOfPython) {
    if (argc > 1 && std::strcmp(argv[1], command.name) == 0) return start_python(argc, argv);
  }
  tools::CommandLine line(nki::manual());
  std::string trace, output, report;
  nki::LoweringOptions options;
  tools::Command lowering = line.command("lower", "turn a trace into a NEFF");
  lowering.option("trace", trace, "trace to read").required().value_name("FILE");
  lowering.option("-o,--output", output, "NEFF to write").required().value_name("FILE");
  lowering.option("--report", report, "also write what each line of Python costs, as JSON")
      .value_name("FILE");
  lowering.option("--logical-nc-config", options.physical_cores, "physical cores of a virtual one")
      .between(1u, 2u)
      .with_default();
  for (const PythonCommand& command : kOfPython) line.command(command.name, command.description);
  line.needs_command();
  if (const auto status = line.parse(argc, argv)) return *status;
  const auto done = lower(trace, output, report, options);
  if (done) return tools::kDone;
  std::fprintf(stderr, "neuron-nki: %s\n", done.error().sentence.c_str());
  return tools::kFailed;
}
