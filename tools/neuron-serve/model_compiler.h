// SPDX-License-Identifier: Apache-2.0
//
// From an ONNX file to NEFFs, one for each batch size, by neuron-compile as a process of its own:
// a compiler that fails, hangs or needs too much memory ends alone.
//
// Concept: a result is kept in a folder under a name that is a hash of all that it comes from: the
// compiler, its arguments, the model and the files that the model names. So it is compiled once,
// whatever the model's file is called, and a result is never stale. Results are moved into place
// whole; several servers of one user may share the folder, and may empty it. A result of another
// user is none. A compiler for which there is no memory is what the kernel ends first.
// Callers: the host's thread. Owns the process. Fails: with the compiler's sentences.
#ifndef TOOLS_NEURON_SERVE_MODEL_COMPILER_H
#define TOOLS_NEURON_SERVE_MODEL_COMPILER_H

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tools/neuron-serve/model_settings.h"

namespace neuron::serve {

class ModelCompiler {
 public:
  // `folder` "": CACHE_DIRECTORY, XDG_CACHE_HOME/neuron-serve or HOME/.cache/neuron-serve.
  // `stopped` is asked ten times a second. `told` hears how it goes on.
  ModelCompiler(const std::string& folder, std::chrono::microseconds limit,
                std::function<bool()> stopped, std::function<void(const std::string&)> told);

  // For instances such as "trn1.2xlarge". `neffs` has a file for each batch size, in their order.
  // False: `error` has a sentence.
  bool compile(const std::string& key, const std::string& model, const ModelSettings& settings,
               const std::string& instance_type, std::vector<std::string>& neffs,
               std::string& error);

 private:
  bool prepare(std::string& error);
  std::string run(const std::string& what, const std::vector<std::string>& command);

  const std::string folder_;
  const std::chrono::microseconds limit_;
  const std::function<bool()> stopped_;
  const std::function<void(const std::string&)> told_;
};

}  // namespace neuron::serve

#endif
