// SPDX-License-Identifier: Apache-2.0
//
// What a reader of a profile must know of the CC cores of a model: its chunks of kinds kStream,
// kNotes and kWaits. Ranks may meet at the first execution only, so these chunks may lie behind
// others.
// Callers: ModelProfile, ContinuousProfile, holding the turn of the core. Fails as the file does.
#ifndef RUNTIME_PROFILE_STREAM_CHUNKS_H
#define RUNTIME_PROFILE_STREAM_CHUNKS_H

#include "runtime/model/loaded_model.h"
#include "runtime/ntff/trace_file.h"

namespace neuron::runtime {

// False: the model has no collectives, or its ranks have not met yet.
Result<bool> write_streams(ntff::TraceFileWriter& file, uint32_t part, const LoadedModel& model);

}  // namespace neuron::runtime

#endif
