// SPDX-License-Identifier: Apache-2.0
//
// A snapshot for programs: --format json, version 2 of the schema (tools/schemas/), and the fields
// that --query selects. Callers: neuron-ls. Thread-safe: values. Fails only for a field that does
// not exist.
#ifndef TOOLS_NEURON_LS_VIEW_DOCUMENT_H
#define TOOLS_NEURON_LS_VIEW_DOCUMENT_H

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "tools/common/format.h"
#include "tools/neuron-ls/view/matrix.h"
#include "tools/telemetry/snapshot.h"

namespace neuron::ls {

// What is wrong with a device that is not healthy, "; " between the reasons; else empty.
std::string illness_of(const telemetry::Device& device);
// A line for each such device, four at most; empty if all are healthy.
std::string format_illnesses(const telemetry::Snapshot& snapshot);

// The whole snapshot.
boost::json::object make_document(const telemetry::Snapshot& snapshot,
                                  const std::vector<Measured>& measured);

// One record a device; `fields` empty: the usual ones. False, with a sentence in `error`, if a
// field does not exist.
bool query_devices(const telemetry::Snapshot& snapshot, const std::vector<std::string>& fields,
                   tools::Records& records, std::string& error);

// "neuron_device bdf ...": the names that --query knows.
std::vector<std::string> query_fields();

}  // namespace neuron::ls

#endif
