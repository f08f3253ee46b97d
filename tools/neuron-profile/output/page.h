// SPDX-License-Identifier: Apache-2.0
//
// A profile as one page for a browser, which needs no server and no network: timeline, critical
// path, tables. Callers: neuron-profile. Fails as the profile or the sink does. Slices of a long
// execution that lie closer together than can be seen are joined.
#ifndef TOOLS_NEURON_PROFILE_OUTPUT_PAGE_H
#define TOOLS_NEURON_PROFILE_OUTPUT_PAGE_H

#include "tools/neuron-profile/sink/sink.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {

Result<void> write_page(Profile& profile, uint32_t part, size_t execution, Sink& sink);

}  // namespace neuron::profile

#endif
