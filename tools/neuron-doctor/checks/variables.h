// SPDX-License-Identifier: Apache-2.0
//
// Names of the environment variables that this project or the software around it reads.
// Callers: neuron-doctor. Thread-safe: constants. Cannot fail.
#ifndef TOOLS_NEURON_DOCTOR_CHECKS_VARIABLES_H
#define TOOLS_NEURON_DOCTOR_CHECKS_VARIABLES_H

#include <string>
#include <string_view>

namespace neuron::doctor {

// True if its prefix shows that it is meant for Neuron software.
bool is_ours(std::string_view name);
bool is_known_variable(std::string_view name);
// The most similar known variable if it differs by at most three letters; else empty.
std::string similar_variable(std::string_view name);

}  // namespace neuron::doctor

#endif
