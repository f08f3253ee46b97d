// SPDX-License-Identifier: Apache-2.0
//
// What the file beside a model says of it: {"batched": true, "batch_sizes": [1, 8, 32], ...}.
// Callers: the host's thread, tests. Thread-safe: values. Fails: with a sentence that names the
// file, the field and what is expected.
#ifndef TOOLS_NEURON_SERVE_MODEL_SETTINGS_H
#define TOOLS_NEURON_SERVE_MODEL_SETTINGS_H

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace neuron::serve {

struct ModelSettings {
  bool batched = false;  // the rows of the model are independent of each other
  bool warm_up = true;   // executed once with zeros before it is served

  // Of models that are compiled here.
  std::vector<uint32_t> batch_sizes = {};  // ascending; empty: 1
  // Shapes of inputs; a first size of 0 stands for the batch size.
  std::map<std::string, std::vector<uint32_t>> shapes = {};
  std::map<std::string, uint32_t> dimensions = {};  // by the name that the model gives them
  // Values of inputs that become part of the program, as neuron-compile reads them: "3", "[1, 2]".
  std::map<std::string, std::string> constants = {};
  std::string auto_cast = "none";  // or "bf16", "fp16"

  // Arguments for neuron-compile, for one batch size.
  std::vector<std::string> compile_arguments(uint32_t batch) const;
};

// `text` is what the file `path` holds. False: `error` has a sentence.
bool read_settings(std::string_view text, const std::string& path, ModelSettings& settings,
                   std::string& error);

}  // namespace neuron::serve

#endif
