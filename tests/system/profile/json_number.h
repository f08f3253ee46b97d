// SPDX-License-Identifier: Apache-2.0
// A number of a report, whatever kind of number JSON made of it.
//
// Callers: tests. Throws, and so fails the test, for what is no number.
#ifndef TESTS_SYSTEM_PROFILE_JSON_NUMBER_H
#define TESTS_SYSTEM_PROFILE_JSON_NUMBER_H

#include <boost/json/value.hpp>

namespace neuron::profile {

inline double number(const boost::json::value& value) { return value.to_number<double>(); }

}  // namespace neuron::profile

#endif
