// SPDX-License-Identifier: Apache-2.0
//
// All that is found out about one execution. Callers: views. Values. Fails as the profile does.
#ifndef TOOLS_NEURON_PROFILE_ANALYSIS_ANALYSIS_H
#define TOOLS_NEURON_PROFILE_ANALYSIS_ANALYSIS_H

#include "tools/neuron-profile/analysis/findings.h"

namespace neuron::profile {

struct Analysis {
  Summary summary;
  Timeline timeline;
  CriticalPath path;
  Findings findings;

  static Result<Analysis> of(Profile& profile, uint32_t part, size_t execution) {
    const Program& program = profile.parts()[part].program;
    NEURON_TRY(summary, summarize(profile, part, execution));
    NEURON_TRY(timeline, Timeline::read(profile, part, execution));
    CriticalPath path = critical_path(timeline, program, summary.collectives, summary.total);
    Findings findings = find_bottlenecks(program, summary, timeline, path);
    return Analysis{std::move(summary), std::move(timeline), std::move(path), std::move(findings)};
  }
};

}  // namespace neuron::profile

#endif
