// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-compile/refusal_report.h"

#include <boost/json.hpp>
#include <cstdio>

#include "driver/base/format.h"
#include "tools/neuron-compile/compile.h"
#include "tools/neuron-compile/neuronx_cc.h"

namespace neuron::compile {

std::string refusals_json(const std::string& model, const std::vector<graph::Refusal>& refusals) {
  boost::json::array list;
  for (const graph::Refusal& refusal : refusals) {
    boost::json::array inputs;
    for (const std::string& input : refusal.inputs) inputs.emplace_back(base::escaped(input));
    list.push_back({{"class", graph::class_name(refusal.kind)},
                    {"node", base::escaped(refusal.node)},
                    {"operator", base::escaped(refusal.operator_name)},
                    {"sentence", refusal.sentence},
                    {"inputs", std::move(inputs)}});
  }
  return boost::json::serialize(
      boost::json::object({{"model", base::escaped(model)}, {"refusals", std::move(list)}}));
}

int report(const std::string& model, const std::vector<graph::Refusal>& refusals, bool json,
           bool codes) {
  bool valid = true;
  for (const graph::Refusal& refusal : refusals) {
    valid = valid && refusal.kind != graph::RefusalClass::kInvalid;
    if (json) continue;
    const std::string code = codes ? neuronx_cc_code(refusal) : "";
    std::fprintf(stderr, "%s%s: %s\n", code.empty() ? "" : ("[" + code + "] ").c_str(),
                 model.c_str(), refusal.text().c_str());
  }
  if (json) std::printf("%s\n", refusals_json(model, refusals).c_str());
  return valid ? kNotSupported : kNotAModel;
}

}  // namespace neuron::compile
