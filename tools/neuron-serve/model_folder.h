// SPDX-License-Identifier: Apache-2.0
//
// Models in a folder: NAME.neff or NAME.onnx, with settings in NAME.json; or versions of one,
// NAME/2/model.neff or NAME/2/model.onnx, with settings in NAME/2/model.json or, for all of them,
// NAME/model.json.
// Concept: a key names one version: "NAME", or "NAME/2".
// Callers: the host's thread, tests. Thread-safe: no state. Fails: what is wrong with one model is
// a sentence in its entry; scan_models() fails if there is no folder.
#ifndef TOOLS_NEURON_SERVE_MODEL_FOLDER_H
#define TOOLS_NEURON_SERVE_MODEL_FOLDER_H

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "tools/neuron-serve/model_settings.h"

namespace neuron::serve {

// By which files a model was made, to see whether they changed.
struct FileIdentity {
  std::array<uint64_t, 9> words{};  // the last: of weights beside an ONNX file
  bool operator==(const FileIdentity&) const = default;
};

struct FoundModel {
  std::string file;  // the NEFF, or what it is compiled from
  ModelSettings settings;
  FileIdentity identity;
  std::string error;  // "": none

  bool compiled_here() const { return file.ends_with(".onnx"); }
};

// By key. `only`: the one file of the folder that counts, "" if all do. False: `error` says why the
// folder cannot be read.
bool scan_models(const std::string& folder, const std::string& only,
                 std::map<std::string, FoundModel>& models, std::string& error);

// One of these again; one that is gone has an error.
FoundModel look_at_model(const std::string& folder, const std::string& only,
                         const std::string& key);

}  // namespace neuron::serve

#endif
