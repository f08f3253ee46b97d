// SPDX-License-Identifier: Apache-2.0
//
// A JSON document in which every value knows its line and column, so that an error in a
// configuration points at its place.
// Callers: the configuration reader. Thread-safe: values. Owns: its texts.
// Fails: nothing returned and "line:column: sentence" for text that is no JSON, for more than 64
// levels, and for a key that an object has twice.
#ifndef TOOLS_NEURON_MONITOR_CONFIGURATION_JSON_TREE_H
#define TOOLS_NEURON_MONITOR_CONFIGURATION_JSON_TREE_H

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace neuron::monitor {

struct JsonNode {
  enum class Kind { kNull, kBoolean, kNumber, kString, kArray, kObject };
  struct Member;

  Kind kind = Kind::kNull;
  unsigned line = 1, column = 1;  // of its first character; columns count characters, from 1
  bool boolean = false;
  std::string text;  // of a string, without escapes; of a number, as it was spelled
  std::vector<JsonNode> elements;
  std::vector<Member> members;  // in the file's order

  // "an object", "the string \"5s\"": for sentences.
  std::string description() const;
};

struct JsonNode::Member {
  std::string key;
  unsigned line = 1, column = 1;
  JsonNode value;
};

// `error` becomes "line:column: sentence".
std::optional<JsonNode> parse_json(std::string_view text, std::string& error);

}  // namespace neuron::monitor

#endif
