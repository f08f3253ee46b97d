// SPDX-License-Identifier: Apache-2.0
// Prices of the cost model, from measurements, from a file, from the topology, or by default.
//
// CCOM_CALIBRATION names the file. It is JSON: {"version": 1, "host": {...}, "device": {...}} with
// the fields of CostParameters as numbers. Callers: communicators, nccom-test. Thread-safe:
// functions of their arguments. Fails: a sentence with file and field.
#ifndef CCOM_PLAN_CALIBRATION_H
#define CCOM_PLAN_CALIBRATION_H

#include <string>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/plan/planner.h"

namespace neuron::ccom {

// Fills in every price that is 0, from the links of the topology or with a default.
CostParameters complete_costs(const CostParameters& costs, const Topology& topology);

// The same with prices of the provider that carries messages between hosts ("stream on 10.0.0.1"),
// where no price was given.
CostParameters network_costs(const CostParameters& costs, const std::string& provider);

// Prices of the medium; fields that the file leaves out stay 0.
Result<CostParameters> load_calibration(const std::string& file, Medium medium);
// Prices of the medium from CCOM_CALIBRATION; all 0 without it.
Result<CostParameters> calibration_of_environment(Medium medium);
// Writes the file anew and keeps the prices of the other medium.
Result<void> save_calibration(const std::string& file, const CostParameters& costs);

// "local_latency_ps=300000 step_ps=12"; "built-in" when all are 0.
std::string describe(const CostParameters& costs);
// Both media of CCOM_CALIBRATION; ranks compare the text, since they must have the same prices.
Result<std::string> describe_calibration_of_environment();

// The measured time of a message or a reduction of this size.
struct Sample {
  uint64_t bytes = 0;
  double seconds = 0;
};
struct Fitted {
  uint64_t latency_ps = 0;
  double bytes_per_second = 0;
};
// The line latency + bytes / rate with the least relative error. Fails if there are fewer than two
// sizes.
Result<Fitted> fit(const std::vector<Sample>& samples);

}  // namespace neuron::ccom

#endif
