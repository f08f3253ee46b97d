// SPDX-License-Identifier: Apache-2.0
#include "driver/profiles/field_reader.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/stream_parser.hpp>

#include "driver/base/format.h"

namespace neuron::profiles {

namespace json = boost::json;
using base::format;

std::string shown(const json::value& value) {
  std::string text = json::serialize(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

bool FieldReader::refuse(const std::string& what) {
  error_ = format("the {} {}: {}", kind_, where_, what);
  return false;
}

bool FieldReader::refuse_field(const std::string& field, const json::value* found,
                               const std::string& expected) {
  return refuse(format("field \"{}\" {}, expected {}", field,
                       found ? "is " + shown(*found) : "is missing", expected));
}

bool FieldReader::known(const json::object& object, const std::string& path,
                        std::initializer_list<const char*> names) {
  for (const auto& entry : object) {
    if (std::none_of(names.begin(), names.end(),
                     [&](const char* name) { return entry.key() == name; })) {
      return refuse(
          format("field \"{}{}\" is unknown; take it out", path, std::string(entry.key())));
    }
  }
  return true;
}

bool FieldReader::number(const json::object& object, const std::string& path, const char* field,
                         int64_t least, int64_t most, int64_t& out) {
  const json::value* value = object.if_contains(field);
  if (!value || !value->is_int64() || value->get_int64() < least || value->get_int64() > most) {
    return refuse_field(
        path + field, value,
        least == most ? format("{}", least) : format("a number from {} to {}", least, most));
  }
  out = value->get_int64();
  return true;
}

bool FieldReader::parse(std::string_view text, json::object& root) {
  json::error_code code;
  const json::value value = json::parse({text.data(), text.size()}, code);
  if (code) {
    json::stream_parser parser;
    const size_t good = parser.write_some(text.data(), text.size(), code);
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(good), '\n');
    error_ = format("the {} {} is no JSON: line {}, {}", kind_, where_, line,
                    code ? code.message() : "it ends too early");
    return false;
  }
  if (!value.is_object()) {
    error_ = format("the {} {} is {}, expected an object", kind_, where_, shown(value));
    return false;
  }
  root = value.get_object();
  return true;
}

bool FieldReader::section(std::string_view text, const char* name, json::object& out) {
  json::object root;
  if (!parse(text, root)) return false;
  if (!root.contains(kDevices) && !root.contains(kTopology)) {
    out = std::move(root);
    return true;
  }
  if (!known(root, "", {"name", kDevices, kTopology})) return false;
  const json::value* found = root.if_contains(name);
  if (!found || !found->is_object()) return refuse_field(name, found, "an object");
  out = found->get_object();
  if (const json::value* title = root.if_contains("name")) out["name"] = *title;
  // The chips of a host, their generation and their neighbours are listed once, in the section
  // "devices".
  const json::value* devices = root.if_contains(kDevices);
  if (std::string_view(name) != kTopology || !devices || !devices->is_object()) return true;
  const json::value* chips = devices->get_object().if_contains("chips");
  if (!chips || !chips->is_array()) return true;
  json::array neighbours;
  for (const json::value& chip : chips->get_array()) {
    const json::object* entry = chip.if_object();
    const json::value* list = entry ? entry->if_contains("neighbours") : nullptr;
    neighbours.push_back(list ? *list : json::value(nullptr));
  }
  const json::value* generation = devices->get_object().if_contains("generation");
  if (generation && !out.contains("generation")) out["generation"] = *generation;
  if (!out.contains("chips")) out["chips"] = static_cast<int64_t>(neighbours.size());
  if (!out.contains("neighbours")) out["neighbours"] = std::move(neighbours);
  return true;
}

json::object FieldReader::beside(std::string_view text, const char* name) {
  json::object root;
  if (!parse(text, root)) return {};
  const json::value* found = root.if_contains(name);
  return found && found->is_object() ? found->get_object() : json::object();
}

}  // namespace neuron::profiles
