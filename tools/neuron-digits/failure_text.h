// SPDX-License-Identifier: Apache-2.0
// Describes a failed call of the runtime in one sentence: the action, the status, and the runtime's
// own sentence; prints sentences. Callers: classifier, trainer, commands, in the thread that made
// the call, before its next call. Returns a value; cannot fail.
#ifndef TOOLS_NEURON_DIGITS_FAILURE_TEXT_H
#define TOOLS_NEURON_DIGITS_FAILURE_TEXT_H

#include <nrt/nrt.h>
#include <nrt/nrt_open.h>

#include <cstdio>
#include <string>

namespace neuron::digits {

inline std::string failure_text(const std::string& what, NRT_STATUS status) {
  const char* detail = nrt_open_last_error();
  return what + ": " + nrt_get_status_as_str(status) +
         (detail && *detail ? std::string(": ") + detail : std::string());
}

// Prints a sentence of the program on stderr; false, so that whoever fails returns it.
inline bool complain(const std::string& sentence) {
  std::fprintf(stderr, "neuron-digits: %s\n", sentence.c_str());
  return false;
}

}  // namespace neuron::digits

#endif
