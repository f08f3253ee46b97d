// SPDX-License-Identifier: Apache-2.0
//
// The end of a program's output: if the reader does not get all of it (a closed standard output, a
// full disk), the exit status must say so.
// Callers: main() of each program. Thread-safe: as stdio is. Fails: false, with a sentence on
// stderr; without one if the reader has closed the pipe, because it knows.
#ifndef TOOLS_COMMON_OUTPUT_H
#define TOOLS_COMMON_OUTPUT_H

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace neuron::tools {

// To be called after the last print. True: all output was written. `why`: the errno of a print that
// failed before.
inline bool finish_output(const char* program, int why = 0) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return true;
  if (errno != 0) why = errno;
  if (why == EPIPE) return false;
  std::fprintf(stderr, "%s: cannot write to standard output%s%s\n", program, why ? ": " : "",
               why ? std::strerror(why) : "");
  return false;
}

inline bool print_output(const char* program, const std::string& text) {
  errno = 0;
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  return finish_output(program, whole ? 0 : errno);
}

}  // namespace neuron::tools

#endif
