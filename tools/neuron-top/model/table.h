// SPDX-License-Identifier: Apache-2.0
//
// The data of the screen as records for programs: one for each logical core.
// Callers: main(). Values. Cannot fail.
#ifndef TOOLS_NEURON_TOP_MODEL_TABLE_H
#define TOOLS_NEURON_TOP_MODEL_TABLE_H

#include "tools/common/format.h"
#include "tools/neuron-top/model/view.h"

namespace neuron::top {

tools::Records build_records(const View& view, const telemetry::Snapshot& now,
                             const Interval& interval);

}  // namespace neuron::top

#endif
