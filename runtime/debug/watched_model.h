// SPDX-License-Identifier: Apache-2.0
//
// A model of the C interface whose executions a debugger watches.
//
// Callers: neuron-debug, which has the runtime linked in. Thread-safe: no; executions are watched
// in the thread that makes them. Holds the session open and the model loaded; destroy it before
// nrt_unload. Fails: NRT_INVALID_HANDLE for a model that is none.
#ifndef RUNTIME_DEBUG_WATCHED_MODEL_H
#define RUNTIME_DEBUG_WATCHED_MODEL_H

#include <nrt/nrt.h>

#include <memory>

#include "runtime/device/launch_debugger.h"
#include "runtime/model/loaded_model.h"
#include "runtime/session/lifecycle.h"
#include "runtime/session/pin.h"

namespace neuron::debug {

class WatchedModel {
 public:
  static runtime::Result<std::unique_ptr<WatchedModel>> of(nrt_model_t* model) {
    std::unique_ptr<WatchedModel> watched(new WatchedModel);
    if (!watched->use_) return watched->use_.error();
    NEURON_TRY(loaded, runtime::pin<runtime::LoadedModel>(*watched->use_, model,
                                                          runtime::HandleKind::kModel, "model"));
    watched->model_ = std::make_unique<runtime::Pin<runtime::LoadedModel>>(std::move(loaded));
    return watched;
  }
  ~WatchedModel() {
    if (model_ != nullptr) watch(nullptr);
  }
  WatchedModel(const WatchedModel&) = delete;
  WatchedModel& operator=(const WatchedModel&) = delete;

  const runtime::LoadedModel& model() const { return **model_; }
  // From the next execution on; null: nobody.
  void watch(runtime::LaunchDebugger* debugger) { model().core().debugger = debugger; }

 private:
  WatchedModel() = default;

  runtime::SessionUse use_;
  std::unique_ptr<runtime::Pin<runtime::LoadedModel>> model_;
};

}  // namespace neuron::debug

#endif
