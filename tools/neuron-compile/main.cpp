// SPDX-License-Identifier: Apache-2.0
// neuron-compile: from a model to a NEFF.
#include <cstdio>
#include <cstdlib>

#include "tools/common/command_line.h"
#include "tools/common/output.h"
#include "tools/compiler/hlo/importer.h"
#include "tools/execution/quiet_runtime.h"
#include "tools/neuron-compile/compile.h"
#include "tools/neuron-compile/manual.h"
#include "tools/neuron-compile/neuronx_cc.h"

namespace {

using namespace neuron::compile;  // NOLINT: this file is the program
namespace lowering = neuron::lowering;
namespace tools = neuron::tools;

// A judge that reads the text into the options.
template <class Read>
tools::Judge judge(Read read) {
  return [read](const std::string& text) {
    auto result = read(text);
    return result ? std::string() : result.error().sentence;
  };
}

void declare(tools::CommandLine& line, Options& options, bool& narrow, bool& lists,
             std::vector<std::string>& shapes, std::vector<std::string>& dimensions) {
  line.option("model", options.model, "ONNX model or HLO module to compile").value_name("FILE");
  line.option("-o,--output", options.output, "NEFF to write").value_name("FILE").with_default();
  line.option("--target", options.target, "instance family: trn1, trn1n, inf2, trn2 or trn3")
      .judged_by(judge([&](const std::string& text) { return set_target(text, options.lowering); }))
      .value_name("FAMILY")
      .with_default();
  line.option("--lnc,--logical-nc-config", options.lowering.physical_cores,
              "physical cores of a virtual one; the first runs the program")
      .between(1u, 2u)
      .with_default();
  line.option("--shape", shapes, "shape of an input: x=1x3x224x224; repeatable")
      .judged_by(judge([&](const std::string& text) { return read_shape(text, options.bindings); }))
      .repeatable()
      .value_name("NAME=SHAPE");
  line.option("--dim", dimensions, "size of a dimension that has a name; repeatable")
      .judged_by(
          judge([&](const std::string& text) { return read_dimension(text, options.bindings); }))
      .repeatable()
      .value_name("NAME=SIZE");
  line.option("--batch", options.bindings.batch,
              "size of the first dimension of inputs where the model leaves it free")
      .between(1u, 1u << 30)
      .value_name("SIZE");
  line.choice(
      "--auto-cast", {"none", "matmult", "all"}, 0, [&](size_t i) { narrow = i != 0; },
      "which operands are rounded before they are multiplied; all is matmult here");
  line.choice(
      "--auto-cast-type", {"bf16", "fp16", "tf32"}, 0,
      [&](size_t i) {
        constexpr lowering::ProductType kTypes[] = {
            lowering::ProductType::kBf16, lowering::ProductType::kF16, lowering::ProductType::kF32};
        options.lowering.products = kTypes[i];
      },
      "the type that they are rounded to; tf32 is f32 here");
  line.option("-O,--optlevel", options.lowering.level,
              "0: every element-wise node is a task; 1 to 3: they are joined")
      .between(0, 3)
      .with_default();
  line.choice(
      "--framework", {"auto", "ONNX", "XLA"}, 0,
      [&](size_t i) { options.framework = static_cast<Framework>(i); },
      "what the file is; auto: .onnx is ONNX, any other name an HLO module");
  line.option("--end-at", options.bindings.end_at,
              "end the program with this value of an ONNX model; repeatable")
      .repeatable()
      .value_name("VALUE");
  line.flag("--check", options.check, "execute, and compare with the reference");
  line.choice(
      "--report", {"text", "json"}, 0, [&](size_t i) { options.json = i == 1; },
      "how refusals are printed");
  line.flag(
      "--list-operators", lists,
      "print the operators of ONNX that are known, with --framework XLA the opcodes, and end");
}

bool take_pairs(const char* option, const char* form, const std::vector<std::string>& texts,
                std::vector<std::pair<std::string, std::string>>& pairs) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      std::fprintf(stderr, "neuron-compile: %s: found '%s', expected %s\n", option, text.c_str(),
                   form);
      return false;
    }
    pairs.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  Options options;
  options.neuronx_cc = is_neuronx_cc(words);
  if (options.neuronx_cc) {
    if (const std::string problem = unsupported_stages(words); !problem.empty()) {
      std::fprintf(stderr, "neuron-compile: %s\n", problem.c_str());
      return tools::kWrongUsage;
    }
    words = from_neuronx_cc(words);
  }
  options.lowering.products = lowering::ProductType::kBf16;
  bool narrow = false, lists = false;
  std::vector<std::string> shapes, dimensions, constants, donated;
  tools::CommandLine line(manual());
  declare(line, options, narrow, lists, shapes, dimensions);
  line.option("--constant", constants,
              "value of an input that becomes part of the program: 3, [1, 2] or @FILE.npy; "
              "repeatable")
      .repeatable()
      .value_name("NAME=VALUE");
  line.option("--donate", donated,
              "the output has the memory of the input, which it overwrites: a weight and its new "
              "value; repeatable")
      .repeatable()
      .value_name("OUTPUT=INPUT");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  if (const auto status = line.parse(static_cast<int>(words.size()), pointers.data())) {
    return *status;
  }
  if (lists) {
    const bool modules = options.neuronx_cc || options.framework == Framework::kXla;
    for (const std::string& name :
         modules ? neuron::hlo::opcode_names() : neuron::onnx::operator_names()) {
      std::printf("%s\n", name.c_str());
    }
    return tools::finish_output("neuron-compile") ? tools::kDone : tools::kFailed;
  }
  if (options.model.empty()) {
    std::fprintf(stderr, "neuron-compile: give the file to compile\n");
    return tools::kWrongUsage;
  }
  const bool good = take_pairs("--constant", "NAME=VALUE", constants, options.constants) &&
                    take_pairs("--donate", "OUTPUT=INPUT", donated, options.donated);
  if (!good) return tools::kWrongUsage;
  if (!narrow) options.lowering.products = lowering::ProductType::kF32;
  // The sentence that is printed already contains what libnrt would log.
  neuron::execution::quiet_runtime("neuron-compile");
  const int status = compile(options);
  const bool printed = tools::finish_output("neuron-compile");
  return status == tools::kDone && !printed ? tools::kFailed : status;
}
