// SPDX-License-Identifier: Apache-2.0
// Names of algorithms, operations, element types and reductions: for sentences, dumps and
// CCOM_ALGORITHM. names.cpp also defines the names and sizes of the C interface.
// Thread-safe: functions of their arguments. Cannot fail: an unknown number gives "unknown", and an
// unknown name gives the count.
#ifndef CCOM_REQUEST_NAMES_H
#define CCOM_REQUEST_NAMES_H

#include <ccom/ccom.h>

#include <cstdint>
#include <string_view>

namespace neuron::ccom {

const char* algorithm_name(ccom_algorithm_t algorithm);
const char* operation_name(ccom_operation_t operation);
const char* type_name(uint32_t type);
const char* reduction_name(uint32_t reduction);
// Upper or lower case. CCOM_ALGORITHM_COUNT, CCOM_OPERATION_COUNT: no such name.
ccom_algorithm_t algorithm_named(std::string_view name);
ccom_operation_t operation_named(std::string_view name);

}  // namespace neuron::ccom

#endif
