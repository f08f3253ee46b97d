// SPDX-License-Identifier: Apache-2.0
// Names of algorithms and operations, for sentences and for CCOM_ALGORITHM. Thread-safe: functions
// of their arguments. Cannot fail: unknown numbers are "unknown", unknown names the count.
#ifndef CCOM_REQUEST_NAMES_H
#define CCOM_REQUEST_NAMES_H

#include <ccom/ccom.h>

#include <string_view>

namespace neuron::ccom {

const char* algorithm_name(ccom_algorithm_t algorithm);
const char* operation_name(ccom_operation_t operation);
// Upper or lower case; CCOM_ALGORITHM_COUNT, CCOM_OPERATION_COUNT: no such name.
ccom_algorithm_t algorithm_named(std::string_view name);
ccom_operation_t operation_named(std::string_view name);

}  // namespace neuron::ccom

#endif
