// SPDX-License-Identifier: Apache-2.0
//
// Option objects of the C interface: made by one call, changed by others, freed by the last. One
// thread at a time. Fails: NRT_INVALID for NULL, and for what is no object of the kind; a freed one
// is recognised as long as its memory is not used for something else.
#ifndef RUNTIME_API_OPTIONS_OBJECT_H
#define RUNTIME_API_OPTIONS_OBJECT_H

#include <new>

#include "runtime/base/error.h"

namespace neuron::runtime::api {

template <class Values, uint64_t kMark>
struct OptionsObject {
  uint64_t mark = kMark;
  Values values;

  template <class Handle>
  static Result<void> make(Handle** out) {
    if (out == nullptr) return null_argument("options");
    auto* object = new (std::nothrow) OptionsObject();
    if (object == nullptr) return fail(NRT_RESOURCE, "no memory for options");
    *out = reinterpret_cast<Handle*>(object);
    return {};
  }
  template <class Handle>
  static Result<Values*> of(Handle* handle) {
    auto* object =
        reinterpret_cast<OptionsObject*>(const_cast<std::remove_const_t<Handle>*>(handle));
    if (object == nullptr) return null_argument("options");
    if (object->mark != kMark) {
      return fail(NRT_INVALID, "options {} are none of this kind, or were freed",
                  static_cast<const void*>(handle));
    }
    return &object->values;
  }
  template <class Handle>
  static Result<void> free(Handle* handle) {
    if (handle == nullptr) return {};
    auto known = of(handle);
    if (!known) return known.error();
    auto* object = reinterpret_cast<OptionsObject*>(handle);
    object->mark = 0;
    delete object;
    return {};
  }
};

}  // namespace neuron::runtime::api

#endif
