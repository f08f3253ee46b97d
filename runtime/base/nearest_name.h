// SPDX-License-Identifier: Apache-2.0
//
// Which of the names that exist somebody meant who wrote one that does not. Callers: sentences of
// the environment and of event types. Thread-safe: no state. Cannot fail.
#ifndef RUNTIME_BASE_NEAREST_NAME_H
#define RUNTIME_BASE_NEAREST_NAME_H

#include <span>
#include <string_view>

namespace neuron::runtime {

// Empty: none of the names is near.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names);

}  // namespace neuron::runtime

#endif
