// SPDX-License-Identifier: Apache-2.0
#include "tools/common/json_text.h"

#include <charconv>
#include <cmath>
#include <cstdint>

#include "driver/base/json_text.h"

namespace neuron::tools {
namespace {

namespace json = boost::json;

template <class T>
std::string number(T value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

// Writes whole numbers without an exponent: some readers take a number with one for text.
std::string real(double value) {
  constexpr double kExact = 9007199254740992.0;
  if (!std::isfinite(value)) return "null";
  if (value == std::trunc(value) && std::abs(value) < kExact) {
    return number(static_cast<int64_t>(value));
  }
  return number(value);
}

class Writer {
 public:
  explicit Writer(unsigned indent) : indent_(indent) {}

  void put(const json::value& value, unsigned depth) {
    switch (value.kind()) {
      case json::kind::null:
        text += "null";
        break;
      case json::kind::bool_:
        text += value.get_bool() ? "true" : "false";
        break;
      case json::kind::int64:
        text += number(value.get_int64());
        break;
      case json::kind::uint64:
        text += number(value.get_uint64());
        break;
      case json::kind::double_:
        text += real(value.get_double());
        break;
      case json::kind::string:
        text += base::json_string(value.get_string());
        break;
      case json::kind::array:
        put_array(value.get_array(), depth);
        break;
      case json::kind::object:
        put_object(value.get_object(), depth);
        break;
    }
  }

  std::string text;

 private:
  void put_array(const json::array& array, unsigned depth) {
    text += '[';
    bool first = true;
    for (const json::value& element : array) {
      separate(first, depth + 1);
      put(element, depth + 1);
      first = false;
    }
    if (!first) new_line(depth);
    text += ']';
  }
  void put_object(const json::object& object, unsigned depth) {
    text += '{';
    bool first = true;
    for (const json::key_value_pair& member : object) {
      separate(first, depth + 1);
      text += base::json_string(member.key()) + (indent_ ? ": " : ":");
      put(member.value(), depth + 1);
      first = false;
    }
    if (!first) new_line(depth);
    text += '}';
  }
  void separate(bool first, unsigned depth) {
    if (!first) text += ',';
    new_line(depth);
  }
  void new_line(unsigned depth) {
    if (indent_ == 0) return;
    text += '\n';
    text.append(size_t{depth} * indent_, ' ');
  }

  unsigned indent_;
};

}  // namespace

std::string json_text(const json::value& value, unsigned indent) {
  Writer writer(indent);
  writer.put(value, 0);
  return std::move(writer.text);
}

}  // namespace neuron::tools
