// SPDX-License-Identifier: Apache-2.0
//
// Makes a specification of the Container Device Interface (CDI): what a container engine adds to a
// container that asks for a device. Callers: main() and tests. Thread-safe: values and pure
// functions. Owns nothing. Fails with NRT_INVALID and a sentence that names the word at fault.
#ifndef TOOLS_NEURON_CDI_SPECIFICATION_H
#define TOOLS_NEURON_CDI_SPECIFICATION_H

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "tools/common/format.h"

namespace neuron::cdi {

struct HostDevice {
  unsigned index = 0;       // of /dev/neuronN
  unsigned first_core = 0;  // as NEURON_RT_VISIBLE_CORES counts on the host
  unsigned cores = 0;
};

struct Mount {
  std::string host_path, container_path;
};

struct Wishes {
  std::string kind = "aws.amazon.com/neuron";
  std::vector<HostDevice> devices;
  // First and last index of devices that can be asked for by one name.
  std::vector<std::pair<unsigned, unsigned>> groups;
  std::string socket;         // of a neuron-emulatord, instead of device nodes; empty: device nodes
  std::vector<Mount> mounts;  // for every container, read-only
  std::vector<std::string> environment;  // "NAME=value", for every container
  std::optional<uint32_t> group_id;
};

// Names: neuronN for a device, neuronNcoreK for one core of it, neuronA-B for a group, all.
runtime::Result<boost::json::object> make_specification(const Wishes& wishes);

// The names of a specification, with the nodes and the variables that each gives a container.
tools::Records names_in(const boost::json::object& specification);

// "A-B" of an option.
runtime::Result<std::pair<unsigned, unsigned>> parse_group(const std::string& text);

}  // namespace neuron::cdi

#endif
