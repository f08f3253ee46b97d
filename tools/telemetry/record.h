// SPDX-License-Identifier: Apache-2.0
//
// A snapshot as one line of JSON, and back: the format of neuron-top's recordings.
//
// Callers: operator tools, any thread; no state. The line names the schema "neuron-snapshot" and
// its version; a reader accepts lines with missing or additional fields. Fails: from_record() names
// the wrong field and its record.
#ifndef TOOLS_TELEMETRY_RECORD_H
#define TOOLS_TELEMETRY_RECORD_H

#include <string_view>

#include "tools/telemetry/snapshot.h"

namespace neuron::telemetry {

inline constexpr unsigned kRecordVersion = 1;

// Without a newline.
std::string to_record(const Snapshot& snapshot);
bool from_record(std::string_view line, Snapshot& snapshot, std::string& error);

}  // namespace neuron::telemetry

#endif
