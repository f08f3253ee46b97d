// SPDX-License-Identifier: Apache-2.0
//
// Typed reading of a JSON object, with one place for errors.
// A Checker belongs to one member and keeps the first error. After it, every reader returns a
// harmless default, so that code which reads twenty fields needs no twenty branches: it calls ok()
// before it uses the values. When an object is closed, it notes the keys that were not read.
// Callers: readers of this folder. Thread-safe: no. Borrows the document.
#ifndef RUNTIME_NEFF_JSON_OBJECT_H
#define RUNTIME_NEFF_JSON_OBJECT_H

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"

namespace neuron::neff {

// The place of a value: a chain on the stack, turned into "dma[3].desc.from" only for a message.
struct JsonPath {
  const JsonPath* parent = nullptr;
  std::string_view key;
  std::optional<size_t> index;

  std::string text() const;
};

class Checker {
 public:
  Checker(std::string member, std::vector<std::string>& notes)
      : member_(std::move(member)), notes_(notes) {}

  bool ok() const { return !error_; }
  const std::string& member() const { return member_; }
  runtime::Result<void> result() const {
    if (error_) return *error_;
    return {};
  }

  template <class... A>
  void fail(const JsonPath& where, fmt::format_string<A...> text, A&&... arguments) {
    if (!error_) {
      set(NRT_INVALID, where, base::format_arguments(text, fmt::make_format_args(arguments...)));
    }
  }
  template <class... A>
  void unsupported(const JsonPath& where, fmt::format_string<A...> text, A&&... arguments) {
    if (!error_) {
      set(NRT_UNSUPPORTED_NEFF_VERSION, where,
          base::format_arguments(text, fmt::make_format_args(arguments...)));
    }
  }
  void note(const JsonPath& where, std::string_view text);

 private:
  void set(NRT_STATUS status, const JsonPath& where, const std::string& text);

  std::string member_;
  std::vector<std::string>& notes_;
  std::optional<runtime::Error> error_;
};

class JsonObject {
 public:
  using Value = boost::json::value;

  // If the value is not an object, that is an error and this object is empty.
  JsonObject(Checker& checker, const Value& value, const JsonPath* parent, std::string_view key);
  JsonObject(Checker& checker, const Value& value, const JsonPath* parent, size_t index);
  ~JsonObject();  // Notes the keys that were not asked for.
  JsonObject(const JsonObject&) = delete;
  JsonObject& operator=(const JsonObject&) = delete;

  const JsonPath& path() const { return path_; }
  JsonPath at(std::string_view key) const { return {&path_, key, {}}; }
  Checker& checker() const { return checker_; }

  bool has(std::string_view key);
  const Value* find(std::string_view key);
  const Value& require(std::string_view key);  // Null, after an error, if it is absent.

  uint64_t number(std::string_view key, uint64_t minimum, uint64_t maximum);
  uint64_t number_or(std::string_view key, uint64_t fallback, uint64_t minimum, uint64_t maximum);
  std::optional<uint64_t> optional_number(std::string_view key, uint64_t minimum, uint64_t maximum);
  std::string text(std::string_view key, size_t most_bytes = 255);
  std::string text_or(std::string_view key, std::string_view fallback, size_t most_bytes = 255);
  bool boolean_or(std::string_view key, bool fallback);
  // Empty if absent.
  std::vector<uint64_t> numbers(std::string_view key, size_t most, uint64_t minimum,
                                uint64_t maximum);
  std::vector<int64_t> signed_numbers(std::string_view key, size_t most);
  std::vector<std::string> texts(std::string_view key, size_t most);
  // The index in `choices` of the text.
  template <size_t N>
  size_t choice(std::string_view key, const char* const (&choices)[N]) {
    return choose(key, choices, N, N);
  }
  template <size_t N>
  size_t choice_or(std::string_view key, const char* const (&choices)[N], size_t fallback) {
    return choose(key, choices, N, fallback);
  }
  // Null if absent. Null and an error if the value is not a list or too long.
  const boost::json::array* list(std::string_view key, size_t most);
  const boost::json::object* object(std::string_view key);

 private:
  void start(const Value& value);
  size_t choose(std::string_view key, const char* const* choices, size_t count, size_t fallback);

  Checker& checker_;
  JsonPath path_;
  const boost::json::object* object_ = nullptr;
  std::vector<std::string_view> asked_;  // Keys of object_, each once.
};

// The number if the value is one in the range; else an error at `where`, and `minimum`.
uint64_t json_number(Checker& checker, const JsonPath& where, const boost::json::value& value,
                     uint64_t minimum, uint64_t maximum);
// Likewise for text of 1 to `most_bytes` bytes without control characters; else empty.
std::string json_text(Checker& checker, const JsonPath& where, const boost::json::value& value,
                      size_t most_bytes);

}  // namespace neuron::neff

#endif
