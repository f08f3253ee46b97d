// SPDX-License-Identifier: Apache-2.0
//
// Models and what became of them, as JSON.
// Callers: the network thread; reload_json any. Thread-safe: no state. Does not fail.
#ifndef TOOLS_NEURON_SERVE_MODEL_JSON_H
#define TOOLS_NEURON_SERVE_MODEL_JSON_H

#include <string>

#include "tools/neuron-serve/model_host.h"

namespace neuron::serve {

void append_model(const Model& model, bool ready, std::string& text);
std::string models_json(const Catalog& catalog);
std::string reload_json(const ReloadReport& report);
const char* state_name(State state);

}  // namespace neuron::serve

#endif
