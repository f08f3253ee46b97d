// SPDX-License-Identifier: Apache-2.0
//
// Every event of an execution as JSON or CSV, written while it is read: memory does not grow with
// the profile. Times count nanoseconds from the beginning of the program's first instruction; those
// of the runtime's set-up before it are negative.
// Callers: neuron-profile. Fails as the profile or the sink does.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_DETAIL_H
#define TOOLS_NEURON_PROFILE_OUTPUT_DETAIL_H

#include "tools/neuron-profile/sink/sink.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

// "hbm+sbuf": places that a transfer reads or writes (NEURON_PLACE_*); "register" without any.
std::string places_text(unsigned places);
// Who has changed a semaphore: "Tensor", "DMA engine 3 queue 1 (a)", "collective
// core", "host".
std::string update_source_text(const Program& program, const UpdateEvent& update);

// {"summary": [...], "instruction": [...], "dma": [...], "semaphore": [...]}; with collectives also
// "collective", "cc" (instructions of CC cores) and "link" (transfers to other ranks).
Result<void> write_detail_json(Profile& profile, uint32_t part, size_t execution, Sink& sink);

// One table: "instruction", "dma", "semaphore", "collective", "cc", "link" or "path".
Result<void> write_detail_csv(Profile& profile, uint32_t part, size_t execution,
                              const std::string& name, Sink& sink);

}  // namespace neuron::profile

#endif
