// SPDX-License-Identifier: Apache-2.0
//
// A snapshot as one line of JSON, and back: what neuron-top records and replays.
//
// Callers: operator tools, any thread; no state. The line names the schema "neuron-snapshot" and
// its version; a reader takes lines that lack fields or have more of them. Fails: from_record()
// says which field of which record is not what it should be.
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
