// SPDX-License-Identifier: Apache-2.0
//
// How far the constants of a model are on the device, told to whoever loads it.
// Callers: the loader, one thread. Borrows nothing. Fails: NRT_FAILURE when the listener says no.
#ifndef RUNTIME_MODEL_LOAD_PROGRESS_H
#define RUNTIME_MODEL_LOAD_PROGRESS_H

#include <cstdint>
#include <functional>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/neff/model.h"

namespace neuron::runtime {

class LoadProgress {
 public:
  // Bytes that are there, of how many. False: the load shall end.
  using Listener = std::function<bool(uint64_t done, uint64_t total)>;
  // What is written between two calls of the listener, at most.
  static constexpr uint64_t kStep = 4u << 20;

  LoadProgress(Listener listener, const neff::Model& model) : listener_(std::move(listener)) {
    if (!listener_) return;
    for (const neff::Subgraph& subgraph : model.subgraphs) {
      for (const neff::Variable& variable : subgraph.variables) {
        if (variable.kind == neff::VariableKind::kFile) total_ += variable.size;
      }
    }
  }

  Result<void> add(uint64_t bytes) {
    if (!listener_) return {};
    done_ += bytes;
    untold_ += bytes;
    if (untold_ < kStep && done_ < total_) return {};
    untold_ = 0;
    if (listener_(done_, total_)) return {};
    return fail(NRT_FAILURE, "the caller has ended the load when {} of {} bytes were on the device",
                done_, total_);
  }

 private:
  const Listener listener_;
  uint64_t total_ = 0;
  uint64_t done_ = 0;
  uint64_t untold_ = 0;
};

}  // namespace neuron::runtime

#endif
