// SPDX-License-Identifier: Apache-2.0
//
// Elements of tensors as numbers in text, both ways.
// Callers: infer_json. Thread-safe: no state. Little endian, as devices have them. Floating-point
// text is rounded to the type (to the nearest, ties to even; to 16 bits through a double); numbers
// that a type cannot hold are refused. Fails: false, nothing was appended.
#ifndef TOOLS_NEURON_SERVE_MESSAGE_ELEMENTS_H
#define TOOLS_NEURON_SERVE_MESSAGE_ELEMENTS_H

#include <nrt/nrt.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace neuron::serve {

// Whether the type has numbers in JSON at all; float8 has not.
bool has_numbers(nrt_dtype_t dtype);

// Reads a number at the start of `text` and appends its bytes; the characters it took, 0 if there
// is none that the type can hold.
size_t append_element(std::string_view text, nrt_dtype_t dtype, std::string& bytes);

// Appends the shortest text that reads back as the same element, "null" for NaN and infinities.
void append_text(const char* element, nrt_dtype_t dtype, std::string& text);

}  // namespace neuron::serve

#endif
