// SPDX-License-Identifier: Apache-2.0
//
// Which instance type this host is: from the name of the emulated profile, from the firmware's
// product name, else from the number of devices. Thread-safe: no state. Cannot fail.
#ifndef RUNTIME_SESSION_INSTANCE_H
#define RUNTIME_SESSION_INSTANCE_H

#include <string>
#include <string_view>

#include "nrt/nrt_types.h"
#include "runtime/session/session.h"

namespace neuron::runtime {

// As the provider, or the emulated profile, spells it; "" if neither gives one.
std::string instance_type();

nrt_instance_info_t describe_instance(const HostCores& host);

// The family and size in "... trn1.2xlarge ..."; false if there are none.
bool parse_instance_type(std::string_view text, nrt_instance_info_t& info);

}  // namespace neuron::runtime

#endif
