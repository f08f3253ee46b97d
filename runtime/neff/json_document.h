// SPDX-License-Identifier: Apache-2.0
//
// Parses a JSON member of a NEFF: strict JSON, UTF-8, bounded depth and size, no key twice.
// Callers: the readers of this folder only (the header is heavy). Thread-safe: const calls.
// Owns its values. Fails with NRT_INVALID and "member: line, column: what".
#ifndef RUNTIME_NEFF_JSON_DOCUMENT_H
#define RUNTIME_NEFF_JSON_DOCUMENT_H

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/neff/container.h"

namespace neuron::neff {

struct JsonLimits {
  uint32_t bytes = 256u << 20;
  uint32_t depth = 32;
  uint32_t values = 32u << 20;  // Each costs memory, however short its text is.
};

runtime::Result<boost::json::value> parse_json(Bytes text, std::string_view member,
                                               const JsonLimits& limits);

// Reads the member `name`, whose outermost value must be an object.
runtime::Result<boost::json::value> read_json_object(const Container& container,
                                                     std::string_view name,
                                                     const JsonLimits& limits);

}  // namespace neuron::neff

#endif
