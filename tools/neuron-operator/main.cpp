// SPDX-License-Identifier: Apache-2.0
// neuron-operator: custom C++ operators, from sources to a library and to a NEFF.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "driver/base/format.h"
#include "hw/custom_operator.h"
#include "runtime/base/file.h"
#include "runtime/neff/generations.h"
#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/neuron-operator/library.h"
#include "tools/neuron-operator/manual.h"
#include "tools/neuron-operator/operator_program.h"

namespace {

namespace operators = neuron::operators;
namespace tools = neuron::tools;
using neuron::runtime::Result;

int report(const Result<void>& done) {
  if (done) return tools::kDone;
  std::fprintf(stderr, "neuron-operator: %s\n", done.error().sentence.c_str());
  return tools::kFailed;
}

Result<std::string> table_of(const std::string& library) {
  NEURON_TRY(contents, operators::ask_library(library));
  std::string text = contents.multicore ? "runs on all cores\n" : "runs on one core\n";
  for (const operators::LibraryOperator& op : contents.operators) {
    std::string parameters;
    for (const char kind : op.kinds) {
      const char* name = kind == 't'   ? "Tensor"
                         : kind == 's' ? "Scalar"
                         : kind == 'd' ? "double"
                                       : "int64_t";
      parameters += (parameters.empty() ? "" : ", ") + std::string(name);
    }
    text += op.library + "." + op.name + "(" + parameters + ")  " + op.kernel + "\n";
  }
  return text;
}

int list(const std::string& library) {
  const auto text = table_of(library);
  if (!text) return report(text.error());
  return tools::print_output("neuron-operator", *text) ? tools::kDone : tools::kFailed;
}

Result<void> write_program(operators::OperatorRequest request, const std::string& target,
                           const std::string& output) {
  request.generation = static_cast<uint8_t>(neuron::neff::generation_of(target));
  if (request.generation == 0) {
    return neuron::runtime::fail(NRT_INVALID, "found the target {}, expected trn1, trn2 or trn3",
                                 target);
  }
  NEURON_TRY(neff, operators::operator_program(request));
  return tools::write_file(output, neff);
}

}  // namespace

int main(int argc, char** argv) {
  tools::CommandLine line(operators::manual());
  const char* compiler = std::getenv("CXX");
  operators::LibrarySources sources;
  sources.compiler = compiler != nullptr && *compiler != '\0' ? compiler : "c++";
  operators::OperatorRequest request;
  std::string output, target = "trn1";
  tools::Command build = line.command("build", "compile a library of operators");
  build.option("--compute", sources.compute, "source with kernel functions; may be repeated")
      .required()
      .repeatable()
      .value_name("FILE");
  build
      .option("--shape", sources.shape,
              "source with shape functions and NEURON_LIBRARY; may be repeated")
      .required()
      .repeatable()
      .value_name("FILE");
  build.option("--flag", sources.flags, "a flag for the compiler, as in --flag=-DSTACK_SIZE=20000")
      .repeatable()
      .value_name("FLAG");
  build.option("--compiler", sources.compiler, "the compiler").value_name("PROGRAM").with_default();
  build.flag("--multicore", sources.multicore, "run the operators on all 8 cores of GpSimd");
  build.option("-o,--output", output, "library to write").required().value_name("FILE");
  tools::Command listing = line.command("list", "show the operators of a library");
  listing.option("library", request.library, "the library").required().value_name("LIBRARY");
  tools::Command program = line.command("neff", "write a NEFF of one call");
  program.option("library", request.library, "the library").required().value_name("LIBRARY");
  program.option("operator", request.name, "one of its operators").required().value_name("NAME");
  program
      .option("argument", request.arguments,
              "its arguments: tensors as f32[2,3], numbers as they are")
      .values(0, NEURON_OPERATOR_ARGUMENTS - 1)
      .value_name("ARGUMENT");
  program.option("--target", target, "the chip").with_default().value_name("TARGET");
  program.option("-o,--output", output, "NEFF to write").required().value_name("FILE");
  line.needs_command();
  if (const auto status = line.parse(argc, argv)) return *status;
  if (line.used("build")) return report(operators::build_library(sources, output));
  if (line.used("list")) return list(request.library);
  return report(write_program(request, target, output));
}
