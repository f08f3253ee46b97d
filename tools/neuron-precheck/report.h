// SPDX-License-Identifier: Apache-2.0
//
// Writes findings for people, scripts and build servers.
// Callers: main(). Thread-safe: no state. Cannot fail.
#ifndef TOOLS_NEURON_PRECHECK_REPORT_H
#define TOOLS_NEURON_PRECHECK_REPORT_H

#include <string>

#include "tools/common/format.h"
#include "tools/neuron-precheck/checks.h"

namespace neuron::precheck {

unsigned count(const Findings& findings, Verdict verdict);
tools::Records records_of(const Result& result, const Options& options);
std::string text_of(const Result& result, const Options& options, const tools::Style& style);
// A test suite for each device, and one of the host.
std::string junit_of(const Result& result);

}  // namespace neuron::precheck

#endif
