// SPDX-License-Identifier: Apache-2.0
// neuron-run: a NEFF on arrays of NumPy, without a line of C.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/execution/quiet_runtime.h"
#include "tools/neuron-doctor/checks/access.h"
#include "tools/neuron-run/manual.h"
#include "tools/neuron-run/run.h"

namespace {

using namespace neuron::run;  // NOLINT: this file is the program
namespace tools = neuron::tools;

std::string judge_binding(const std::string& text) {
  const size_t equals = text.find('=');
  return equals != std::string::npos && equals > 0 && equals + 1 < text.size()
             ? std::string()
             : "found '" + text + "', expected NAME=FILE, such as x=x.npy";
}

std::vector<Binding> bindings(const std::vector<std::string>& texts) {
  std::vector<Binding> list;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    list.push_back({text.substr(0, equals), text.substr(equals + 1)});
  }
  return list;
}

// A tensor that has two files, or a file that has two tensors; empty if there is none.
std::string twice(const char* option, const std::vector<Binding>& list, bool files) {
  for (size_t i = 0; i < list.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (list[i].name == list[j].name) {
        return std::string(option) + ": " + list[i].name + " is given twice, as " + list[j].file +
               " and " + list[i].file;
      }
      if (files && list[i].file == list[j].file && list[i].file.rfind("/dev/", 0) != 0) {
        return std::string(option) + ": " + list[i].file + " would hold both " + list[j].name +
               " and " + list[i].name;
      }
    }
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  Wishes wishes;
  std::vector<std::string> inputs, outputs;
  tools::Format format = tools::Format::kText;
  tools::CommandLine line(manual());
  line.option("file", wishes.model, "NEFF to execute").required().value_name("FILE");
  line.option("-i,--input", inputs, "input NAME is the array in FILE (.npy); repeatable")
      .judged_by(judge_binding)
      .repeatable()
      .value_name("NAME=FILE");
  line.option("-o,--output", outputs, "write output NAME to FILE (.npy); repeatable")
      .judged_by(judge_binding)
      .repeatable()
      .value_name("NAME=FILE");
  line.flag("--random", wishes.random, "make up the inputs that have no file");
  line.option("--seed", wishes.seed, "what made-up inputs depend on").with_default();
  line.option("--repeat", wishes.executions, "executions").between(1u, 100'000'000u).with_default();
  tools::add_format_option(line, format);
  if (const auto status = line.parse(argc, argv)) return *status;
  wishes.inputs = bindings(inputs);
  wishes.outputs = bindings(outputs);
  const std::string wrong_input = twice("--input", wishes.inputs, false);
  const std::string wrong =
      wrong_input.empty() ? twice("--output", wishes.outputs, true) : wrong_input;
  if (!wrong.empty()) {
    std::fprintf(stderr, "neuron-run: %s\n", wrong.c_str());
    return tools::kWrongUsage;
  }
  // The sentence that is printed already contains what libnrt would log.
  neuron::execution::quiet_runtime("neuron-run");
  const auto records = run(wishes);
  if (!records) {
    std::fprintf(stderr, "neuron-run: %s\n", records.error().sentence.c_str());
    return neuron::doctor::exit_status_of(records.error().sentence);
  }
  const tools::Style style = tools::style_of(1, tools::ColorMode::kAuto);
  return tools::print_output("neuron-run", tools::render(*records, format, style)) ? tools::kDone
                                                                                   : tools::kFailed;
}
