// SPDX-License-Identifier: Apache-2.0
//
// Option objects of the C interface: made by one call, changed by others, freed by the last.
// A handle is looked up among those that exist, and never followed: NULL, a wild pointer, an object
// of another kind and a freed one are answered by NRT_INVALID. Callers: nrt_*_config_*,
// nrt_*_options_*. Thread-safe: making, finding and freeing; the values of one object belong to one
// thread at a time. Owns the objects.
#ifndef RUNTIME_API_OPTIONS_OBJECT_H
#define RUNTIME_API_OPTIONS_OBJECT_H

#include <memory>
#include <mutex>
#include <type_traits>
#include <unordered_map>

#include "runtime/base/error.h"

namespace neuron::runtime::api {

template <class Values>
class OptionsObjects {
 public:
  template <class Handle>
  static Result<void> make(Handle** out) {
    if (out == nullptr) return null_argument("options");
    auto object = std::make_unique<Values>();
    Values* const values = object.get();
    Table& table = Table::get();
    const std::lock_guard lock(table.mutex);
    table.objects.emplace(values, std::move(object));
    *out = reinterpret_cast<Handle*>(values);
    return {};
  }
  template <class Handle>
  static Result<Values*> of(Handle* handle) {
    if (handle == nullptr) return null_argument("options");
    Table& table = Table::get();
    const std::lock_guard lock(table.mutex);
    const auto found = table.objects.find(handle);
    if (found == table.objects.end()) return none(handle);
    return found->second.get();
  }
  template <class Handle>
  static Result<void> free(Handle* handle) {
    if (handle == nullptr) return {};
    Table& table = Table::get();
    const std::lock_guard lock(table.mutex);
    if (table.objects.erase(handle) == 0) return none(handle);
    return {};
  }

 private:
  struct Table {
    std::mutex mutex;
    std::unordered_map<const void*, std::unique_ptr<Values>> objects;
    // Never destroyed: threads may still call while the process exits.
    static Table& get() {
      static auto* table = new Table;
      return *table;
    }
  };
  static Error none(const void* handle) {
    return fail(NRT_INVALID, "options {} are none of this kind, or were freed", handle);
  }
};

}  // namespace neuron::runtime::api

#endif
