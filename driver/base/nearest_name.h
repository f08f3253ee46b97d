// SPDX-License-Identifier: Apache-2.0
//
// Which of the names that exist somebody meant who wrote one that does not. Callers: sentences of
// the environment, of options and commands and of event types. Thread-safe: no state. Cannot fail.
#ifndef DRIVER_BASE_NEAREST_NAME_H
#define DRIVER_BASE_NEAREST_NAME_H

#include <cstddef>
#include <span>
#include <string_view>

namespace neuron::base {

// How many letters may be changed, added, taken away, or swapped with the next one: `most`, and no
// more than one in so many letters of the name that was written, or of the one that exists.
struct Nearness {
  size_t most = 6;
  size_t written = 2;
  size_t known = 1;
};

// Empty: none of the names is near. Of two that are as near it is the first.
std::string_view nearest_name(std::string_view name, std::span<const std::string_view> names,
                              const Nearness& nearness = {});

}  // namespace neuron::base

#endif
