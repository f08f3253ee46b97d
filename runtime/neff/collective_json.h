// SPDX-License-Identifier: Apache-2.0
//
// An entry of the key "collectives" of def.json, as the project's writers give it: a key with its
// default is left out, the order is fixed. Callers: tools/compiler/program_builder,
// tools/compiler/assembler. Thread-safe: no state. Cannot fail.
#ifndef RUNTIME_NEFF_COLLECTIVE_JSON_H
#define RUNTIME_NEFF_COLLECTIVE_JSON_H

#include <boost/json/fwd.hpp>
#include <string>

#include "runtime/neff/model.h"

namespace neuron::tools {

// Names of the variables; not used by a barrier.
boost::json::object collective_json(const neff::Collective& collective, const std::string& input,
                                    const std::string& output);

// Whether its reduction means something.
bool reduces(ccom_operation_t operation);

}  // namespace neuron::tools

#endif
