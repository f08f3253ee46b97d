// SPDX-License-Identifier: Apache-2.0
//
// The files that an ONNX model is made of: its own, and those that it names for its weights.
//
// Concept: a model comes from somewhere, and may name whatever it likes. No name leaves the model's
// folder, only regular files are read, each of them once and in pieces, and there is an end to the
// names that are looked at.
// Callers: the host's thread, tests. Thread-safe: no state. Fails: with a sentence.
#ifndef TOOLS_NEURON_SERVE_MODEL_SOURCES_H
#define TOOLS_NEURON_SERVE_MODEL_SOURCES_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>

#include "driver/base/sha256.h"

namespace neuron::serve {

constexpr size_t kMostFilesOfModel = 1u << 16;

// Names that a model gives to files of its own with weights, each once; one more than
// kMostFilesOfModel if there are too many.
std::set<std::string> files_of_model(std::span<const uint8_t> model);

// Of which files of weights a model is made now, to see whether they were replaced: their inodes,
// sizes and times as one number. 0: it names none, or cannot be read.
uint64_t weights_identity(const std::string& model);

// A hash of the content of the compiler, of the model and of all files that it names. `stopped` is
// asked for each megabyte. False: `error` has a sentence.
bool hash_sources(const std::string& compiler, const std::string& model,
                  const std::function<bool()>& stopped, base::Sha256::Digest& digest,
                  std::string& error);

}  // namespace neuron::serve

#endif
