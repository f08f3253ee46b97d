// SPDX-License-Identifier: Apache-2.0
// The profiles of driver/profiles as topologies, with the errors of libccom.
//
// Callers: Topology::profile, tests, programs that list the profiles. Thread-safe: functions of
// their arguments. Fails: CCOM_INVALID with the file, the field, its value and the expected one.
#ifndef CCOM_TOPOLOGY_PROFILE_H
#define CCOM_TOPOLOGY_PROFILE_H

#include <string>
#include <string_view>
#include <vector>

#include "ccom/topology/topology.h"

namespace neuron::ccom {

std::vector<std::string> profile_names();
// `where` names the text in sentences.
Result<NodeProfile> parse_profile(std::string_view text, const std::string& where);
// Checks that the parts fit together: neighbours are mutual, rings follow links and share none.
Result<void> check_profile(const NodeProfile& profile, const std::string& where);

}  // namespace neuron::ccom

#endif
