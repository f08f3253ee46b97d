// SPDX-License-Identifier: Apache-2.0
//
// Members of the JSON objects in a profile. A member that is missing or of another type counts as
// 0, empty or false, so that a file of another version is read as far as it can be. Names are
// escaped here, once for all who print them: they come from a file. Thread-safe: pure. Cannot fail.
#ifndef TOOLS_NEURON_PROFILE_TRACE_JSON_FIELDS_H
#define TOOLS_NEURON_PROFILE_TRACE_JSON_FIELDS_H

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::profile {

inline uint64_t number_in(const boost::json::object& object, std::string_view key) {
  const boost::json::value* value = object.if_contains(key);
  if (value == nullptr) return 0;
  if (const uint64_t* u = value->if_uint64()) return *u;
  const int64_t* i = value->if_int64();
  return i == nullptr || *i < 0 ? 0 : static_cast<uint64_t>(*i);
}

inline std::string text_in(const boost::json::object& object, std::string_view key) {
  const boost::json::value* value = object.if_contains(key);
  const boost::json::string* string = value != nullptr ? value->if_string() : nullptr;
  return string != nullptr ? runtime::escaped({string->data(), string->size()}) : std::string();
}

inline bool truth_in(const boost::json::object& object, std::string_view key) {
  const boost::json::value* value = object.if_contains(key);
  const bool* boolean = value != nullptr ? value->if_bool() : nullptr;
  return boolean != nullptr && *boolean;
}

// Empty if there is none.
inline const boost::json::array& list_in(const boost::json::object& object, std::string_view key) {
  static const boost::json::array kEmpty;
  const boost::json::value* value = object.if_contains(key);
  const boost::json::array* list = value != nullptr ? value->if_array() : nullptr;
  return list != nullptr ? *list : kEmpty;
}

// The numbers of a list; others are left out.
inline std::vector<uint64_t> numbers_in(const boost::json::object& object, std::string_view key) {
  std::vector<uint64_t> numbers;
  for (const boost::json::value& item : list_in(object, key)) {
    if (const int64_t* number = item.if_int64(); number != nullptr && *number >= 0) {
      numbers.push_back(static_cast<uint64_t>(*number));
    }
  }
  return numbers;
}

// Calls `use` with each object of a list.
template <class Use>
void each_in(const boost::json::object& object, std::string_view key, Use&& use) {
  for (const boost::json::value& item : list_in(object, key)) {
    if (const boost::json::object* entry = item.if_object()) use(*entry);
  }
}

}  // namespace neuron::profile

#endif
