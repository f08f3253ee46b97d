// SPDX-License-Identifier: Apache-2.0
#include "ccom/topology/profile.h"

#include "driver/profiles/topology.h"

namespace neuron::ccom {

std::vector<std::string> profile_names() { return profiles::topology_names(); }

Result<NodeProfile> parse_profile(std::string_view text, const std::string& where) {
  NodeProfile profile;
  std::string error;
  if (!profiles::parse_topology(text, where, profile, error)) return Error(CCOM_INVALID, error);
  return profile;
}

Result<void> check_profile(const NodeProfile& profile, const std::string& where) {
  std::string error;
  if (!profiles::check_topology(profile, where, error)) return Error(CCOM_INVALID, error);
  return {};
}

Result<NodeProfile> Topology::profile(const std::string& name_or_file) {
  NodeProfile profile;
  std::string error;
  if (!profiles::load_topology(name_or_file, profile, error)) return Error(CCOM_INVALID, error);
  return profile;
}

}  // namespace neuron::ccom
