// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/json_document.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <unordered_set>
#include <vector>

#include "runtime/neff/text.h"

namespace neuron::neff {

using runtime::fail;
using runtime::Result;

namespace {

namespace json = boost::json;
using boost::json::error_code;
using boost::json::string_view;

// Builds values as boost::json::parse does, but refuses an object that has a key twice: two readers
// could take different ones and so see different programs.
class Builder {
 public:
  static constexpr size_t max_object_size = 1u << 20;
  static constexpr size_t max_array_size = 1u << 24;
  static constexpr size_t max_key_size = 4096;
  static constexpr size_t max_string_size = 1u << 20;

  explicit Builder(uint32_t most_values) : most_values_(most_values) { stack_.reset(); }

  json::value release() { return stack_.release(); }
  const std::string& refusal() const { return refusal_; }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(size_t n, error_code& ec) {
    stack_.push_array(n);
    return count(ec);
  }
  bool on_object_begin(error_code&) {
    if (open_ == keys_.size()) keys_.emplace_back();
    keys_[open_++].clear();
    return true;
  }
  bool on_object_end(size_t n, error_code& ec) {
    --open_;
    stack_.push_object(n);
    return count(ec);
  }
  bool on_string_part(string_view text, size_t, error_code&) {
    stack_.push_chars(text);
    return true;
  }
  bool on_string(string_view text, size_t, error_code& ec) {
    stack_.push_string(text);
    return count(ec);
  }
  bool on_key_part(string_view text, size_t, error_code&) {
    key_.append(text.data(), text.size());
    stack_.push_chars(text);
    return true;
  }
  bool on_key(string_view text, size_t, error_code& ec) {
    key_.append(text.data(), text.size());
    const bool added = keys_[open_ - 1].insert(key_).second;
    if (!added) return refuse("the key \"" + printable(key_) + "\" stands twice in one object", ec);
    key_.clear();
    stack_.push_key(text);
    return true;
  }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(int64_t value, string_view, error_code& ec) {
    stack_.push_int64(value);
    return count(ec);
  }
  bool on_uint64(uint64_t value, string_view, error_code& ec) {
    stack_.push_uint64(value);
    return count(ec);
  }
  bool on_double(double value, string_view, error_code& ec) {
    stack_.push_double(value);
    return count(ec);
  }
  bool on_bool(bool value, error_code& ec) {
    stack_.push_bool(value);
    return count(ec);
  }
  bool on_null(error_code& ec) {
    stack_.push_null();
    return count(ec);
  }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  bool refuse(std::string why, error_code& ec) {
    refusal_ = std::move(why);
    ec = json::error::extra_data;  // Any error stops the parser; the sentence is refusal_.
    return false;
  }
  bool count(error_code& ec) {
    if (++values_ <= most_values_) return true;
    return refuse("more than " + std::to_string(most_values_) + " values", ec);
  }

  json::value_stack stack_;
  std::vector<std::unordered_set<std::string>> keys_;  // Of the open objects; kept to reuse memory.
  size_t open_ = 0;
  std::string key_;
  uint64_t values_ = 0;
  uint64_t most_values_;
  std::string refusal_;
};

std::string position(Bytes text, size_t offset) {
  const auto end = text.begin() + static_cast<ptrdiff_t>(std::min(offset, text.size()));
  const auto line = 1 + std::count(text.begin(), end, '\n');
  auto begin = end;
  while (begin != text.begin() && *(begin - 1) != '\n') --begin;
  return "line " + std::to_string(line) + ", column " + std::to_string(end - begin + 1);
}

}  // namespace

Result<json::value> parse_json(Bytes text, std::string_view member, const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    return fail(NRT_INVALID, "{}: {} bytes of JSON, at most {} are allowed", member, text.size(),
                limits.bytes);
  }
  json::parse_options options;
  options.max_depth = limits.depth;
  json::basic_parser<Builder> parser(options, limits.values);
  error_code ec;
  const char* begin = reinterpret_cast<const char*>(text.data());
  const size_t taken = parser.write_some(false, begin, text.size(), ec);
  const std::string& refusal = parser.handler().refusal();
  if (!refusal.empty()) {
    return fail(NRT_INVALID, "{}: {}: {}", member, position(text, taken), refusal);
  }
  if (ec) {
    return fail(NRT_INVALID, "{}: {}: not valid JSON ({})", member, position(text, taken),
                ec.message());
  }
  if (taken != text.size()) {
    return fail(NRT_INVALID, "{}: {}: text follows the end of the JSON value", member,
                position(text, taken));
  }
  return parser.handler().release();
}

Result<json::value> read_json_object(const Container& container, std::string_view name,
                                     const JsonLimits& limits) {
  const Member* member = container.find(name);
  if (!member) return fail(NRT_INVALID, "the file has no member {}", name);
  NEURON_TRY(value, parse_json(member->bytes, name, limits));
  if (!value.is_object()) {
    return fail(NRT_INVALID, "{}: the outermost value is no object, expected {{...}}", name);
  }
  return std::move(value);
}

}  // namespace neuron::neff
