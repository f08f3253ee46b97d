// SPDX-License-Identifier: Apache-2.0
//
// Whether bytes of a file are text, and how to show them. Callers: readers of this folder, tools.
// Thread-safe: no state. Cannot fail.
#ifndef RUNTIME_NEFF_TEXT_H
#define RUNTIME_NEFF_TEXT_H

#include <string>
#include <string_view>

#include "driver/base/utf8.h"

namespace neuron::neff {

using base::is_utf8;

// For messages: shows control characters, quotes and bytes that are not UTF-8 as \xNN; at most 200
// bytes.
std::string printable(std::string_view text);

}  // namespace neuron::neff

#endif
