// SPDX-License-Identifier: Apache-2.0
//
// What a program prints as its result: whoever reads it must get all of it, or an exit status that
// says otherwise (a closed standard output, a full disk).
// Callers: main() of each program. Thread-safe: as stdio is. Fails: false, with a sentence on
// stderr.
#ifndef TOOLS_COMMON_OUTPUT_H_
#define TOOLS_COMMON_OUTPUT_H_

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace neuron::tools {

// After the last print: did everything arrive?
inline bool finish_output(const char* program) {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return true;
  std::fprintf(stderr, "%s: cannot write to standard output%s%s\n", program, errno ? ": " : "",
               errno ? std::strerror(errno) : "");
  return false;
}

inline bool print_output(const char* program, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return finish_output(program);
}

}  // namespace neuron::tools

#endif  // TOOLS_COMMON_OUTPUT_H_
