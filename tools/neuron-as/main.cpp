// SPDX-License-Identifier: Apache-2.0
// neuron-as: text of a program to a NEFF and back, and what an instruction means.
// Exit status: 0 done, 1 the text or file is at fault (on stderr, with the place), 2 wrong usage.
#include <cstdio>
#include <exception>
#include <string>

#include "runtime/base/file.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/compiler/assembler/assembler.h"
#include "tools/compiler/assembler/disassembler.h"
#include "tools/neuron-as/explain_command.h"
#include "tools/neuron-as/input.h"
#include "tools/neuron-as/manual.h"

namespace {

using neuron::runtime::Result;
namespace assembler = neuron::assembler;
namespace tools = neuron::tools;

struct Arguments {
  std::string input;
  std::string output;
  std::string constants;
  std::string explain;
  std::string engine;
  bool disassemble = false;
  bool debug_lines = false;
  bool no_check = false;
};

// Writes the text or the NEFF to standard output or into a file.
int deliver(const Arguments& arguments, neuron::neff::Bytes bytes) {
  if (arguments.output.empty() || arguments.output == "-") {
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return tools::print_output("neuron-as", text) ? 0 : tools::kFailed;
  }
  if (const auto done = tools::write_file(arguments.output, bytes); !done) {
    std::fprintf(stderr, "neuron-as: %s\n", neuron::base::escaped(done.error().sentence).c_str());
    return tools::kFailed;
  }
  return 0;
}

int refuse(const neuron::runtime::Error& error) {
  std::fprintf(stderr, "neuron-as: %s\n", neuron::base::escaped(error.sentence).c_str());
  return tools::kFailed;
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash + 1);
}

int assemble(const Arguments& arguments) {
  const auto source = tools::read_input(arguments.input);
  if (!source) return refuse(source.error());
  const std::string text(source->begin(), source->end());
  assembler::AssembleOptions options;
  options.file_name = arguments.input == "-" ? "standard input" : arguments.input;
  options.debug_lines = arguments.debug_lines;
  options.check = !arguments.no_check;
  // File names are relative to the text's directory.
  options.read = [&](const std::string& file) {
    return tools::read_file(file.starts_with("/") ? file : directory_of(arguments.input) + file);
  };
  const assembler::Assembled assembled = assembler::assemble(text, options);
  if (!assembled.ok()) {
    std::fputs(assembler::render(assembled.errors, options.file_name, text).c_str(), stderr);
    return tools::kFailed;
  }
  const auto members = assembler::all_members(assembled.assembly);
  if (!members) return refuse(members.error());
  const auto file = tools::write_neff(*members, assembled.assembly.options);
  return file ? deliver(arguments, *file) : refuse(file.error());
}

int disassemble(const Arguments& arguments) {
  const auto file = tools::read_input(arguments.input);
  if (!file) return refuse(file.error());
  assembler::DisassembleOptions options;
  if (!arguments.constants.empty()) {
    options.save = [&](const std::string& member,
                       neuron::neff::Bytes contents) -> Result<std::string> {
      std::string path = arguments.constants + "/" + member.substr(member.rfind('/') + 1);
      NEURON_CHECK(tools::write_file(path, contents));
      // The text names the file relative to its own directory.
      const std::string directory = directory_of(arguments.output);
      if (!directory.empty() && path.starts_with(directory)) path = path.substr(directory.size());
      return path;
    };
  }
  const auto text = assembler::disassemble(*file, options);
  if (!text) return refuse(text.error().with("{}", arguments.input));
  return deliver(arguments, tools::bytes_of(text->text));
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  tools::CommandLine line(neuron::as::manual());
  line.option("INPUT", arguments.input, "text to assemble, or with -d a NEFF; - is standard input");
  line.option("-o,--output", arguments.output,
              "where to; default: INPUT with .neff, or standard output for text; an existing "
              "file is replaced as a whole")
      .value_name("FILE");
  line.flag("-d,--disassemble", arguments.disassemble, "show a NEFF as text");
  line.option("--constants", arguments.constants,
              "with -d: write constants into this directory instead of into the text")
      .value_name("DIRECTORY");
  line.flag("-g", arguments.debug_lines,
            "give every instruction its line of the text, for messages and traces");
  line.flag("--no-check", arguments.no_check,
            "assemble instructions that break a rule, and what a loader would refuse");
  line.option("--explain", arguments.explain,
              "explain this instruction; or [SUBGRAPH/]ENGINE:PC, the address of one in INPUT")
      .value_name("INSTRUCTION");
  line.option("--engine", arguments.engine,
              "with --explain of a text: PE, Activation, Pool, DVE, SP or CC; default: the first "
              "that executes it")
      .value_name("ENGINE");
  if (const auto status = line.parse(argc, argv)) return *status;
  try {
    if (!arguments.explain.empty()) {
      return tools::explain_command(arguments.explain, arguments.engine, arguments.input);
    }
    if (arguments.input.empty()) {
      std::fputs("neuron-as: no INPUT; see neuron-as --help\n", stderr);
      return tools::kWrongUsage;
    }
    if (arguments.disassemble) return disassemble(arguments);
    if (arguments.output.empty() && arguments.input != "-") {
      std::string stem = arguments.input;
      const size_t dot = stem.rfind('.');
      if (dot != std::string::npos && dot > stem.rfind('/') + 1) stem.resize(dot);
      arguments.output = stem + ".neff";
      if (arguments.output == arguments.input) {
        std::fputs("neuron-as: the output would replace the input; give -o, or -d to show it\n",
                   stderr);
        return tools::kWrongUsage;
      }
    }
    return assemble(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "neuron-as: %s\n", error.what());
  }
  return tools::kFailed;
}
