// SPDX-License-Identifier: Apache-2.0
//
// What nrt_load and nrt_load_collectives have in common. Thread-safe: no state.
#ifndef RUNTIME_API_LOADING_H
#define RUNTIME_API_LOADING_H

#include "runtime/model/loaded_model.h"
#include "runtime/session/session.h"

namespace neuron::runtime::api {

inline LoadedModel::ReadOptions read_options(const Session& session) {
  const Configuration& configuration = session.configuration();
  return {.logical_cores = session.logical_cores(),
          .allow_older_programs = configuration.allow_older_programs,
          .validate_hash = configuration.validate_hash};
}

inline Result<void> check_core_count(int32_t vnc_count) {
  if (vnc_count == -1 || vnc_count == 1) return {};
  return fail(vnc_count > 1 ? NRT_LOAD_NOT_ENOUGH_NC : NRT_INVALID,
              "vnc_count is {}; a model runs on one virtual core: give 1 or -1", vnc_count);
}

}  // namespace neuron::runtime::api

#endif
