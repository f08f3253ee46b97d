// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/message/json_reader.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <charconv>

#include "tools/neuron-serve/message/elements.h"

namespace neuron::serve {

bool JsonReader::fail(std::string message) {
  error_ = {std::move(message), field_, at_};
  return false;
}

void JsonReader::skip_space() {
  while (at_ < text_.size() &&
         (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
    ++at_;
  }
}

std::string JsonReader::found() const {
  if (at_ >= text_.size()) return "the end of the text";
  const char c = text_[at_];
  if (c > ' ' && c < 127) return std::string("'") + c + "'";
  return "byte " + std::to_string(static_cast<unsigned char>(c));
}

bool JsonReader::take(char wanted, const char* where) {
  skip_space();
  if (at_ < text_.size() && text_[at_] == wanted) {
    ++at_;
    return true;
  }
  return fail(std::string("expected '") + wanted + "' " + where + ", found " + found());
}

bool JsonReader::next_is(char wanted) {
  skip_space();
  return at_ < text_.size() && text_[at_] == wanted;
}

// Names have no escapes; a string that has some is no name.
bool JsonReader::take_name(std::string_view& name) {
  if (!take('"', "before a name")) return false;
  const size_t end = text_.find_first_of("\"\\", at_);
  if (end == std::string_view::npos || text_[end] != '"') {
    return fail("expected a name that ends with '\"' and has no escapes");
  }
  name = text_.substr(at_, end - at_);
  at_ = end + 1;
  return take(':', "behind a name");
}

bool JsonReader::take_string(std::string& value) {
  skip_space();
  const size_t start = at_;
  if (!take('"', "before a string")) return false;
  while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
  if (at_ >= text_.size()) {
    at_ = start;
    return fail("a string that does not end");
  }
  const std::string_view quoted = text_.substr(start, ++at_ - start);
  boost::system::error_code code;
  const auto string = boost::json::parse(quoted, code);
  if (code) {
    at_ = start;
    return fail("a string that is none: " + code.message());
  }
  value = string.get_string();
  return true;
}

bool JsonReader::take_whole(uint64_t& number) {
  skip_space();
  const auto [end, code] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
  if (code != std::errc()) return fail("expected a whole number, found " + found());
  at_ = static_cast<size_t>(end - text_.data());
  return true;
}

bool JsonReader::take_bool(bool& value) {
  skip_space();
  for (const bool candidate : {false, true}) {
    const std::string_view word = candidate ? "true" : "false";
    if (!text_.substr(at_).starts_with(word)) continue;
    value = candidate;
    at_ += word.size();
    return true;
  }
  return fail("expected true or false, found " + found());
}

bool JsonReader::take_end() {
  skip_space();
  return at_ == text_.size() || fail("expected the end of the text, found " + found());
}

bool JsonReader::skip_value() {
  skip_space();
  size_t depth = 0;
  do {
    skip_space();
    if (at_ >= text_.size()) return fail("expected a value, found the end of the text");
    const char c = text_[at_];
    if (c == '"') {
      std::string unused;
      if (!take_string(unused)) return false;
    } else if (c == '[' || c == '{') {
      ++depth;
      ++at_;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return fail("expected a value, found " + found());
      --depth;
      ++at_;
    } else if (c == ',' || c == ':') {
      if (depth == 0) return fail("expected a value, found " + found());
      ++at_;
    } else {
      const size_t end = text_.find_first_of(",:]}[{\" \t\r\n", at_);
      at_ = std::min(end, text_.size());
    }
  } while (depth > 0);
  return true;
}

bool JsonReader::take_object(const char* what, const std::function<bool(std::string_view)>& value) {
  if (!take('{', (std::string("before ") + what).c_str())) return false;
  if (!next_is('}')) {
    do {
      std::string_view name;
      if (!take_name(name) || !value(name)) return false;
    } while (next_is(',') && ++at_);
  }
  return take('}', (std::string("behind ") + what).c_str());
}

bool JsonReader::take_array(const char* what, const std::function<bool()>& element) {
  if (!take('[', (std::string("before ") + what).c_str())) return false;
  if (!next_is(']')) {
    do {
      if (!element()) return false;
    } while (next_is(',') && ++at_);
  }
  return take(']', (std::string("behind ") + what).c_str());
}

bool JsonReader::take_numbers(const TensorSpec& spec, size_t most_bytes,
                              std::vector<size_t>& extents, std::string& bytes) {
  if (!has_numbers(spec.dtype)) {
    return fail(std::string("numbers of type ") + dtype_name(spec.dtype) +
                " have no form in JSON; send them as binary data");
  }
  size_t found[kDeepest];
  for (size_t& extent : found) extent = SIZE_MAX;
  if (!take_list(spec, most_bytes, 0, found, bytes)) return false;
  for (size_t depth = 0; depth < kDeepest && found[depth] != SIZE_MAX; ++depth) {
    extents.push_back(found[depth]);
  }
  return true;
}

bool JsonReader::take_element(const TensorSpec& spec, std::string& bytes) {
  const std::string_view rest = text_.substr(at_);
  // Truth values are bytes.
  if (spec.dtype == NRT_DTYPE_UINT8 && (rest.starts_with("true") || rest.starts_with("false"))) {
    bytes += rest[0] == 't' ? '\1' : '\0';
    at_ += rest[0] == 't' ? 4 : 5;
    return true;
  }
  const size_t length = append_element(rest, spec.dtype, bytes);
  if (length == 0) {
    // The number as it stands, or the first letter of what is none.
    constexpr size_t kShown = 40;
    const size_t digits =
        std::min(rest.find_first_not_of("0123456789+-.eE"), std::min(rest.size(), kShown));
    return fail("expected a number that " + std::string(dtype_name(spec.dtype)) +
                " can hold, found " +
                (digits == 0 ? found() : "'" + std::string(rest.substr(0, digits)) + "'"));
  }
  at_ += length;
  return true;
}

bool JsonReader::take_list(const TensorSpec& spec, size_t most, size_t depth, size_t* extents,
                           std::string& bytes) {
  if (depth == kDeepest) return fail("lists are nested more than 8 deep");
  if (!take('[', "before a list of numbers")) return false;
  size_t count = 0;
  if (!next_is(']')) {
    do {
      skip_space();
      if (next_is('[')) {
        if (count > 0 && extents[depth + 1 < kDeepest ? depth + 1 : depth] == SIZE_MAX) {
          return fail("expected a number, found a list");
        }
        if (!take_list(spec, most, depth + 1, extents, bytes)) return false;
      } else {
        const size_t start = at_;
        if (!take_element(spec, bytes)) return false;
        if (depth + 1 < kDeepest && extents[depth + 1] != SIZE_MAX) {
          at_ = start;
          return fail("expected a list, found a number");
        }
      }
      ++count;
      if (bytes.size() > most) {
        return fail("more than " + std::to_string(most / spec.item_bytes) +
                    " numbers, which is all that the model takes at once");
      }
    } while (next_is(',') && ++at_);
  }
  if (extents[depth] != SIZE_MAX && extents[depth] != count) {
    return fail("a list of " + std::to_string(count) + " elements; those before it have " +
                std::to_string(extents[depth]));
  }
  extents[depth] = count;
  return take(']', "behind a list");
}

bool JsonReader::find_input(const ModelSpec& model, std::string_view name, size_t& index) {
  std::string names;
  for (index = 0; index < model.inputs.size(); ++index) {
    if (model.inputs[index].name == name) return true;
    names += (names.empty() ? "" : ", ") + model.inputs[index].name;
  }
  return fail("the model has no such input; it has " + names);
}

std::string JsonReader::join(const std::vector<size_t>& extents) {
  std::string text;
  for (const size_t extent : extents) {
    text += (text.empty() ? "" : ", ") + std::to_string(extent);
  }
  return text;
}

}  // namespace neuron::serve
