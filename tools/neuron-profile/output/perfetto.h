// SPDX-License-Identifier: Apache-2.0
//
// A profile as a trace of Perfetto (ui.perfetto.dev), written while it is read.
//
// Tracks: engines, the runtime's set-up of each, DMA queues by engine, semaphores as counters, and
// the host's executions. A flow is one dependency: an instruction that started a transfer, or who
// awaited whom, as in the table Flow; each has an id of its own, which the slice that it leads from
// begins and the slice that it leads to ends. The first kMostFlows are shown. Clocks: number 64
// counts nanoseconds from the program's first instruction, and number 65, for what was before it,
// from the doorbell; a snapshot pairs both with the host's real time, in which the host's track is.
// Memory: 20 bytes a flow. Callers: neuron-profile. Fails as the profile or the sink does.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_PERFETTO_H
#define TOOLS_NEURON_PROFILE_OUTPUT_PERFETTO_H

#include "tools/neuron-profile/sink/sink.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

inline constexpr size_t kMostFlows = size_t{4} << 20;

Result<void> write_perfetto(Profile& profile, uint32_t part, size_t execution, Sink& sink,
                            bool flows = true);

}  // namespace neuron::profile

#endif
