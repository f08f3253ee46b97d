// SPDX-License-Identifier: Apache-2.0
// Names of operations, element types, reductions and algorithms, as they stand on command lines, in
// JSON and in tables. Callers: all of nccom-test, its tests. Thread-safe: constants. Fails: null,
// or a sentence that lists the known names.
#ifndef TOOLS_NCCOM_TEST_INPUT_OPERATION_H
#define TOOLS_NCCOM_TEST_INPUT_OPERATION_H

#include <ccom/ccom.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "ccom/base/error.h"
#include "tools/common/bus_factor.h"

namespace neuron::nccom {

using ccom::Result;
using tools::bus_factor;

ccom::Result<ccom_operation_t> find_operation(std::string_view name);  // or alias
bool is_operation(std::string_view name);
const char* operation_name(ccom_operation_t operation);

ccom::Result<ccom_type_t> find_type(std::string_view name);
const char* type_name(ccom_type_t type);
uint64_t type_size(ccom_type_t type);
bool is_floating(ccom_type_t type);

ccom::Result<ccom_reduction_t> find_reduction(std::string_view name);
const char* reduction_name(ccom_reduction_t reduction);

ccom::Result<ccom_algorithm_t> find_algorithm(std::string_view name);
std::string algorithm_names();  // "auto, ring, ...", as a user gives them
const char* algorithm_name(ccom_algorithm_t algorithm);

bool reduces(ccom_operation_t operation);
bool has_root(ccom_operation_t operation);
bool takes_pairs(ccom_operation_t operation);
bool has_variable_counts(ccom_operation_t operation);

}  // namespace neuron::nccom

#endif
