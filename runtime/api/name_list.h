// SPDX-License-Identifier: Apache-2.0
//
// Arrays of names that callers of the C interface free. Thread-safe: pure. Fails: NRT_RESOURCE.
#ifndef RUNTIME_API_NAME_LIST_H
#define RUNTIME_API_NAME_LIST_H

#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::runtime::api {

inline void free_names(const char** names, size_t count) {
  if (names == nullptr) return;
  // The list ends with a null, whatever count a caller gives.
  for (size_t n = 0; n < count && names[n] != nullptr; ++n) {
    std::free(const_cast<char*>(names[n]));
  }
  std::free(names);
}

inline Result<void> give_names(const std::vector<const char*>& names, const char*** out,
                               size_t* count) {
  if (out == nullptr) return null_argument("the array of names");
  if (count == nullptr) return null_argument("count");
  auto** list = static_cast<const char**>(std::calloc(names.size() + 1, sizeof(const char*)));
  for (size_t n = 0; list != nullptr && n < names.size(); ++n) {
    list[n] = ::strdup(names[n]);
    if (list[n] != nullptr) continue;
    free_names(list, n);
    list = nullptr;
  }
  if (list == nullptr) return fail(NRT_RESOURCE, "no memory for {} names", names.size());
  *out = list;
  *count = names.size();
  return {};
}

}  // namespace neuron::runtime::api

#endif
