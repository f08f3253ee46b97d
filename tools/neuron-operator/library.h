// SPDX-License-Identifier: Apache-2.0
//
// A library of custom operators: a static program, built from the user's C++ sources with the
// headers of driver/operator, that says what it holds.
//
// Callers: main(), one thread. The sources' own code runs as the caller when a library is asked,
// as it does in any program that the caller builds. A file that was not built as a library is not
// started; a library of somebody else is. Fails: NRT_INVALID with what the compiler or the library
// said.
#ifndef TOOLS_NEURON_OPERATOR_LIBRARY_H
#define TOOLS_NEURON_OPERATOR_LIBRARY_H

#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::operators {

struct LibrarySources {
  std::vector<std::string> compute;  // files with kernel functions
  std::vector<std::string> shape;    // files with shape functions and NEURON_LIBRARY
  std::vector<std::string> flags;    // of the user, for the compiler
  std::string compiler;              // "c++"
  bool multicore = false;
};

struct LibraryOperator {
  std::string name, library, kernel;
  std::string kinds;  // a letter for each argument: t, s, d, i
  bool has_kernel = true;
};

struct LibraryContents {
  bool multicore = false;
  std::vector<LibraryOperator> operators;
};

runtime::Result<void> build_library(const LibrarySources& sources, const std::string& output);
runtime::Result<LibraryContents> ask_library(const std::string& path);
// The output of an operator, such as "f32[2,3]", for arguments that are written in the same way.
runtime::Result<std::string> ask_shape(const std::string& path, const std::string& name,
                                       const std::vector<std::string>& arguments);

}  // namespace neuron::operators

#endif
