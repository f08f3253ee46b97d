// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-compile/neuronx_cc.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "driver/base/format.h"

namespace neuron::compile {
namespace {

// For the stages of that compiler, which are not ours.
constexpr std::string_view kInside[] = {"--internal-",
                                        "--tensorizer-options",
                                        "--hlo2tensorizer-options",
                                        "--tensorizer-",
                                        "--hlo-",
                                        "--penguin-",
                                        "--walrus-"};
// Flags and options that change numbers or speed there; here they change nothing.
constexpr std::string_view kFlags[] = {"--enable-mixed-precision-accumulation",
                                       "--enable-saturate-infinity",
                                       "--enable-fast-context-switch",
                                       "--enable-fast-loading-neuron-binaries",
                                       "--fast-math",
                                       "--native-int64",
                                       "--implicit-integer-downcast",
                                       "--retry_failed_compilation"};
constexpr std::string_view kOptions[] = {"--distribution-strategy",
                                         "--dump",
                                         "--num-parallel-jobs",
                                         "--model-type",
                                         "--logfile",
                                         "--verbose"};

// "--name" of "--name=value".
std::string_view name_of(std::string_view word) { return word.substr(0, word.find('=')); }

template <size_t kCount>
bool has(const std::string_view (&names)[kCount], std::string_view word) {
  return std::find(std::begin(names), std::end(names), name_of(word)) != std::end(names);
}

bool is_inside(std::string_view word) {
  return std::any_of(std::begin(kInside), std::end(kInside),
                     [&](std::string_view start) { return word.starts_with(start); });
}

}  // namespace

bool is_neuronx_cc(const std::vector<std::string>& words) {
  const std::string program = words[0].substr(words[0].rfind('/') + 1);
  return program == "neuronx-cc" ||
         (words.size() > 1 && (words[1] == "compile" || words[1] == "list-operators"));
}

std::string unsupported_stages(const std::vector<std::string>& words) {
  // Stages may be words of their own or one; of several lists the last one counts.
  std::optional<std::string> list;
  for (size_t at = 0; at < words.size(); ++at) {
    if (name_of(words[at]) != "--pipeline") continue;
    const size_t value = words[at].find('=');
    list = value == std::string::npos ? "" : words[at].substr(value + 1);
    while (at + 1 < words.size() && !words[at + 1].starts_with('-')) {
      *list += (list->empty() ? "" : " ") + words[++at];
    }
  }
  if (!list || (" " + *list + " ").find(" compile ") != std::string::npos) return "";
  return base::format(
      "[NCC_EARG001] --pipeline has '{}', expected a list with 'compile': other stages of that "
      "compiler, and what they write, do not exist here",
      *list);
}

std::vector<std::string> from_neuronx_cc(const std::vector<std::string>& words) {
  std::vector<std::string> ours = {words[0]};
  size_t at = 1;
  if (words.size() > 1 && words[1] == "list-operators") ours.emplace_back("--list-operators");
  if (words.size() > 1 && (words[1] == "compile" || words[1] == "list-operators")) ++at;
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    const bool joined = word.find('=') != std::string::npos;
    if (is_inside(word) || has(kFlags, word)) continue;
    if (has(kOptions, word)) {
      if (!joined) ++at;  // its value
      continue;
    }
    // A list of stages, up to the next option.
    if (name_of(word) == "--pipeline") {
      while (at + 1 < words.size() && !words[at + 1].starts_with('-')) ++at;
      continue;
    }
    ours.push_back(word.starts_with("-lnc") ? "-" + word : word);
  }
  return ours;
}

const char* neuronx_cc_code(const graph::Refusal& refusal) {
  switch (refusal.kind) {
    case graph::RefusalClass::kOperator:
      return refusal.operator_name == "custom-call" ? "NCC_EHCA005" : "NCC_EUOC002";
    case graph::RefusalClass::kMemory:
      return "NCC_EOOM001";
    case graph::RefusalClass::kShape:
    case graph::RefusalClass::kBinding:
      return "NCC_EMOD025";
    case graph::RefusalClass::kStrings:
    case graph::RefusalClass::kRandom:
    case graph::RefusalClass::kGradient:
      return "NCC_EUOC002";
    default:
      return "";
  }
}

}  // namespace neuron::compile
