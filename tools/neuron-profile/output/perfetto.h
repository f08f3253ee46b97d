// SPDX-License-Identifier: Apache-2.0
//
// A profile as a trace of Perfetto (ui.perfetto.dev), written while it is read.
//
// Tracks: engines, the runtime's set-up of each, DMA queues by engine, semaphores as counters, and
// the host's executions. Flows lead from an instruction to the transfers that it triggered. Clocks:
// events of the device have a clock of their own, number 64, nanoseconds since the doorbell; a
// snapshot at the doorbell of the execution pairs it with the host's real time, in which the host's
// track is. Callers: neuron-profile. Fails as the profile or the sink does.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_PERFETTO_H
#define TOOLS_NEURON_PROFILE_OUTPUT_PERFETTO_H

#include "tools/neuron-profile/sink/sink.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

Result<void> write_perfetto(Profile& profile, uint32_t part, size_t execution, Sink& sink);

}  // namespace neuron::profile

#endif
