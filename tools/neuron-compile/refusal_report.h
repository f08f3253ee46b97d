// SPDX-License-Identifier: Apache-2.0
//
// Prints why a model is not compiled: a line for each refusal on standard error, or JSON on
// standard output.
// Callers: compile(). Fails: never. Returns the exit status that the refusals mean.
#ifndef TOOLS_NEURON_COMPILE_REFUSAL_REPORT_H
#define TOOLS_NEURON_COMPILE_REFUSAL_REPORT_H

#include <string>
#include <vector>

#include "tools/compiler/graph/refusal.h"

namespace neuron::compile {

// `codes`: in front of each sentence, the code that neuronx-cc has for it.
int report(const std::string& model, const std::vector<graph::Refusal>& refusals, bool json,
           bool codes = false);

// The JSON of the refusals, one line.
std::string refusals_json(const std::string& model, const std::vector<graph::Refusal>& refusals);

}  // namespace neuron::compile

#endif
