// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/web.h"

// NEURON_SERVE_PAGE is the path of the file; the build knows that this object depends on it.
asm(".pushsection .rodata\n"
    ".local neuron_serve_page_begin, neuron_serve_page_end\n"
    "neuron_serve_page_begin: .incbin \"" NEURON_SERVE_PAGE
    "\"\n"
    "neuron_serve_page_end: .byte 0\n"
    ".popsection\n");

extern "C" const char neuron_serve_page_begin[];
extern "C" const char neuron_serve_page_end[];

namespace neuron::serve {

std::string_view web_page() {
  return {neuron_serve_page_begin,
          static_cast<size_t>(neuron_serve_page_end - neuron_serve_page_begin)};
}

}  // namespace neuron::serve
