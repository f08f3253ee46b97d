// SPDX-License-Identifier: Apache-2.0
//
// Which of the names that exist somebody meant who wrote one that does not. Callers: sentences of
// the environment, of options and of event types. Thread-safe: no state. Cannot fail.
#ifndef DRIVER_BASE_NEAREST_NAME_H
#define DRIVER_BASE_NEAREST_NAME_H

#include <span>
#include <string_view>

namespace neuron::base {

// Empty: none of the names is near.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

}  // namespace neuron::base

#endif
