// SPDX-License-Identifier: Apache-2.0
//
// JSON as programs read it: members in the order given, numbers in their shortest form, strings
// that are UTF-8 whatever went in. Callers: programs of tools/. Thread-safe: no state.
// Cannot fail: a number that JSON cannot express (infinity) becomes null.
#ifndef TOOLS_COMMON_JSON_TEXT_H
#define TOOLS_COMMON_JSON_TEXT_H

#include <boost/json/value.hpp>
#include <string>

namespace neuron::tools {

// One line without an end if `indent` is 0; else members below each other.
std::string json_text(const boost::json::value& value, unsigned indent = 0);

}  // namespace neuron::tools

#endif
