// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/json_object.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "runtime/neff/text.h"

namespace neuron::neff {

namespace json = boost::json;

namespace {

constexpr size_t kMostNotes = 100;
const json::value kNull;

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }

// The value found, for a message.
std::string shown(const json::value& value) {
  switch (value.kind()) {
    case json::kind::object:
      return "an object";
    case json::kind::array:
      return "a list";
    case json::kind::string:
      return "\"" + printable(view(value.get_string())) + "\"";
    default:
      return json::serialize(value);
  }
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

}  // namespace

std::string JsonPath::text() const {
  std::string front = parent ? parent->text() : "";
  if (index) return front + "[" + std::to_string(*index) + "]";
  if (key.empty()) return front;
  return front.empty() ? printable(key) : front + "." + printable(key);
}

void Checker::set(NRT_STATUS status, const JsonPath& where, const std::string& text) {
  const std::string place = where.text();
  error_ = runtime::Error(status, member_ + (place.empty() ? "" : ": " + place) + ": " + text);
}

void Checker::note(const JsonPath& where, std::string_view text) {
  if (notes_.size() < kMostNotes) {
    const std::string place = where.text();
    notes_.push_back(member_ + (place.empty() ? "" : ": " + place) + ": " + std::string(text));
  }
}

uint64_t json_number(Checker& checker, const JsonPath& where, const json::value& value,
                     uint64_t minimum, uint64_t maximum) {
  std::optional<uint64_t> number;
  if (value.is_uint64()) number = value.get_uint64();
  if (value.is_int64() && value.get_int64() >= 0) {
    number = static_cast<uint64_t>(value.get_int64());
  }
  if (!number || *number < minimum || *number > maximum) {
    checker.fail(where, "found {}, expected a whole number from {} to {}", shown(value), minimum,
                 maximum);
    return minimum;
  }
  return *number;
}

std::string json_text(Checker& checker, const JsonPath& where, const json::value& value,
                      size_t most_bytes) {
  if (!value.is_string() || value.get_string().empty() || value.get_string().size() > most_bytes ||
      has_control(view(value.get_string()))) {
    checker.fail(where, "found {}, expected text of 1 to {} bytes without control characters",
                 shown(value), most_bytes);
    return {};
  }
  return std::string(view(value.get_string()));
}

JsonObject::JsonObject(Checker& checker, const Value& value, const JsonPath* parent,
                       std::string_view key)
    : checker_(checker), path_{parent, key, {}} {
  start(value);
}

JsonObject::JsonObject(Checker& checker, const Value& value, const JsonPath* parent, size_t index)
    : checker_(checker), path_{parent, {}, index} {
  start(value);
}

void JsonObject::start(const Value& value) {
  static const json::object kEmpty;
  object_ = value.if_object();
  if (!object_) {
    checker_.fail(path_, "found {}, expected an object", shown(value));
    object_ = &kEmpty;
  }
}

JsonObject::~JsonObject() {
  if (!checker_.ok()) return;
  if (asked_.size() == object_->size()) return;
  for (const auto& entry : *object_) {
    const std::string_view key(entry.key().data(), entry.key().size());
    if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) {
      checker_.note(at(key), "unknown key, ignored");
    }
  }
}

const json::value* JsonObject::find(std::string_view key) {
  const auto found = object_->find(json::string_view(key.data(), key.size()));
  if (found == object_->end()) return nullptr;
  const std::string_view own(found->key().data(), found->key().size());  // Outlives `key`.
  if (std::find(asked_.begin(), asked_.end(), own) == asked_.end()) asked_.push_back(own);
  return &found->value();
}

bool JsonObject::has(std::string_view key) {
  return object_->contains(json::string_view(key.data(), key.size()));
}

const json::value& JsonObject::require(std::string_view key) {
  if (const Value* value = find(key)) return *value;
  checker_.fail(path_, "the key \"{}\" is missing", key);
  return kNull;
}

uint64_t JsonObject::number(std::string_view key, uint64_t minimum, uint64_t maximum) {
  const Value& value = require(key);
  return checker_.ok() ? json_number(checker_, at(key), value, minimum, maximum) : minimum;
}

uint64_t JsonObject::number_or(std::string_view key, uint64_t fallback, uint64_t minimum,
                               uint64_t maximum) {
  const Value* value = find(key);
  return value ? json_number(checker_, at(key), *value, minimum, maximum) : fallback;
}

std::optional<uint64_t> JsonObject::optional_number(std::string_view key, uint64_t minimum,
                                                    uint64_t maximum) {
  const Value* value = find(key);
  if (!value) return std::nullopt;
  return json_number(checker_, at(key), *value, minimum, maximum);
}

std::string JsonObject::text(std::string_view key, size_t most_bytes) {
  const Value& value = require(key);
  return checker_.ok() ? json_text(checker_, at(key), value, most_bytes) : std::string();
}

std::string JsonObject::text_or(std::string_view key, std::string_view fallback,
                                size_t most_bytes) {
  const Value* value = find(key);
  return value ? json_text(checker_, at(key), *value, most_bytes) : std::string(fallback);
}

bool JsonObject::boolean_or(std::string_view key, bool fallback) {
  const Value* value = find(key);
  if (!value) return fallback;
  if (!value->is_bool()) {
    checker_.fail(at(key), "found {}, expected true or false", shown(*value));
    return fallback;
  }
  return value->get_bool();
}

const json::array* JsonObject::list(std::string_view key, size_t most) {
  const Value* value = find(key);
  if (!value) return nullptr;
  const json::array* items = value->if_array();
  if (!items) {
    checker_.fail(at(key), "found {}, expected a list", shown(*value));
    return nullptr;
  }
  if (items->size() > most) {
    checker_.fail(at(key), "found {} elements, expected at most {}", items->size(), most);
    return nullptr;
  }
  return items;
}

const json::object* JsonObject::object(std::string_view key) {
  const Value* value = find(key);
  if (!value) return nullptr;
  const json::object* found = value->if_object();
  if (!found) checker_.fail(at(key), "found {}, expected an object", shown(*value));
  return found;
}

std::vector<uint64_t> JsonObject::numbers(std::string_view key, size_t most, uint64_t minimum,
                                          uint64_t maximum) {
  std::vector<uint64_t> out;
  const JsonPath where = at(key);
  if (const json::array* items = list(key, most)) {
    for (size_t i = 0; i < items->size() && checker_.ok(); ++i) {
      out.push_back(json_number(checker_, {&where, {}, i}, (*items)[i], minimum, maximum));
    }
  }
  return out;
}

std::vector<int64_t> JsonObject::signed_numbers(std::string_view key, size_t most) {
  std::vector<int64_t> out;
  const JsonPath where = at(key);
  if (const json::array* items = list(key, most)) {
    for (size_t i = 0; i < items->size() && checker_.ok(); ++i) {
      const Value& value = (*items)[i];
      if (!value.is_int64()) {
        checker_.fail({&where, {}, i}, "found {}, expected a whole number of 64 bits",
                      shown(value));
      } else {
        out.push_back(value.get_int64());
      }
    }
  }
  return out;
}

std::vector<std::string> JsonObject::texts(std::string_view key, size_t most) {
  std::vector<std::string> out;
  const JsonPath where = at(key);
  if (const json::array* items = list(key, most)) {
    for (size_t i = 0; i < items->size() && checker_.ok(); ++i) {
      out.push_back(json_text(checker_, {&where, {}, i}, (*items)[i], 255));
    }
  }
  return out;
}

size_t JsonObject::choose(std::string_view key, const char* const* choices, size_t count,
                          size_t fallback) {
  const Value* value = fallback == count ? &require(key) : find(key);
  if (!value) return fallback;
  if (!checker_.ok()) return 0;
  std::string allowed;
  for (size_t i = 0; i < count; ++i) {
    if (value->is_string() && view(value->get_string()) == choices[i]) return i;
    allowed += (i ? ", " : "") + std::string(choices[i]);
  }
  checker_.fail(at(key), "found {}, expected one of {}", shown(*value), allowed);
  return 0;
}

}  // namespace neuron::neff
