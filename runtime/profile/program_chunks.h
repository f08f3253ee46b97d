// SPDX-License-Identifier: Apache-2.0
//
// What a reader of a profile must know of a loaded model: its chunks of kinds kModel, kCode, kLines
// and kPackets. Callers: ModelProfile, holding the turn of the core. Fails as the file does.
#ifndef RUNTIME_PROFILE_PROGRAM_CHUNKS_H
#define RUNTIME_PROFILE_PROGRAM_CHUNKS_H

#include "runtime/model/loaded_model.h"
#include "runtime/ntff/trace_file.h"

namespace neuron::runtime {

// `part`: 0, or 1 for the part on the second physical core of the virtual core `vnc`.
Result<void> write_program(ntff::TraceFileWriter& file, uint32_t part, const LoadedModel& model,
                           uint32_t vnc);

// The number that pairs a profile with its NEFF.
uint64_t model_hash(const LoadedModel& model);

}  // namespace neuron::runtime

#endif
