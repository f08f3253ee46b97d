// SPDX-License-Identifier: Apache-2.0
//
// Version of this runtime, as nrt_get_version and the datastore give it. Constants.
#ifndef RUNTIME_OBSERVE_VERSION_H
#define RUNTIME_OBSERVE_VERSION_H

namespace neuron::runtime {

// The interface is that of runtime 2.x; clients compare the major number.
inline constexpr unsigned kVersionMajor = 2;
inline constexpr unsigned kVersionMinor = 0;
inline constexpr unsigned kVersionPatch = 1;
inline constexpr unsigned kVersionMaintenance = 0;
inline constexpr const char* kRuntimeVersion = "2.0.1";

}  // namespace neuron::runtime

#endif
