// SPDX-License-Identifier: Apache-2.0
//
// Writes an entry of the key "collectives" of def.json. A key that has its default is left out; the
// order of keys is fixed. Callers: tools/compiler/program_builder, tools/compiler/assembler.
// Thread-safe: no state. Cannot fail.
#ifndef RUNTIME_NEFF_COLLECTIVE_JSON_H
#define RUNTIME_NEFF_COLLECTIVE_JSON_H

#include <boost/json/fwd.hpp>
#include <string>

#include "runtime/neff/model.h"

namespace neuron::tools {

// `input` and `output` name the variables; a barrier uses neither.
boost::json::object collective_json(const neff::Collective& collective, const std::string& input,
                                    const std::string& output);

// True if the operation uses its reduction.
bool reduces(ccom_operation_t operation);

}  // namespace neuron::tools

#endif
