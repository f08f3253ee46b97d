// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-monitor/configuration/json_tree.h"

#include <cstdint>

namespace neuron::monitor {
namespace {

constexpr int kMostLevels = 64;

// Recursive descent; the first error ends it.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {
    if (text_.substr(0, 3) == "\xef\xbb\xbf") at_ = 3;  // a byte order mark
  }

  bool document(JsonNode& node) {
    skip_space();
    if (at_end()) return complain("the file is empty; expected an object: {...}");
    if (!value(node, 0)) return false;
    skip_space();
    return at_end() || complain("text goes on after the end of the document");
  }
  const std::string& error() const { return error_; }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }

  void advance() {
    const auto byte = static_cast<unsigned char>(text_[at_++]);
    if (byte == '\n') {
      ++line_;
      column_ = 1;
    } else if ((byte & 0xc0) != 0x80) {  // bytes inside a UTF-8 character do not count
      ++column_;
    }
  }

  void skip_space() {
    while (!at_end() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) {
      advance();
    }
  }

  bool complain(std::string_view sentence) { return complain(line_, column_, sentence); }
  bool complain(unsigned line, unsigned column, std::string_view sentence) {
    error_ = std::to_string(line) + ":" + std::to_string(column) + ": " + std::string(sentence);
    return false;
  }
  std::string found() const {
    if (at_end()) return "the end of the file";
    const auto byte = static_cast<unsigned char>(peek());
    if (byte < 0x20 || byte >= 0x7f) return "byte " + std::to_string(byte);
    return std::string("'") + peek() + "'";
  }

  bool value(JsonNode& node, int level) {
    if (level > kMostLevels) return complain("values are nested more than 64 levels deep");
    skip_space();
    node.line = line_;
    node.column = column_;
    switch (peek()) {
      case '{':
        return object(node, level);
      case '[':
        return array(node, level);
      case '"':
        node.kind = JsonNode::Kind::kString;
        return string(node.text);
      case 't':
        node.kind = JsonNode::Kind::kBoolean;
        node.boolean = true;
        return word("true");
      case 'f':
        node.kind = JsonNode::Kind::kBoolean;
        return word("false");
      case 'n':
        return word("null");
      default:
        return number(node);
    }
  }

  bool word(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) {
      return complain("expected " + std::string(expected));
    }
    for (size_t i = 0; i < expected.size(); ++i) advance();
    return true;
  }

  bool number(JsonNode& node) {
    node.kind = JsonNode::Kind::kNumber;
    const size_t start = at_;
    const auto digits = [&] {
      size_t count = 0;
      for (; peek() >= '0' && peek() <= '9'; ++count) advance();
      return count;
    };
    if (peek() == '-') advance();
    const size_t first = at_;
    const size_t whole = digits();
    if (whole == 0) return complain("expected a value, found " + found());
    if (whole > 1 && text_[first] == '0') return complain("a number must not begin with 0");
    if (peek() == '.') {
      advance();
      if (digits() == 0) return complain("a digit must follow the decimal point");
    }
    if (peek() == 'e' || peek() == 'E') {
      advance();
      if (peek() == '+' || peek() == '-') advance();
      if (digits() == 0) return complain("a digit must follow the exponent");
    }
    node.text = text_.substr(start, at_ - start);
    return true;
  }

  bool hex(uint32_t& code) {
    code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return complain("expected four hexadecimal digits, found " + found());
      code = code * 16 + static_cast<uint32_t>(digit);
      advance();
    }
    return true;
  }

  static void append(std::string& out, uint32_t code) {
    if (code < 0x80) {
      out += static_cast<char>(code);
      return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static constexpr unsigned kLead[] = {0, 0xc0, 0xe0, 0xf0};
    out += static_cast<char>(kLead[more] | (code >> (6 * more)));
    for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3f));
  }

  bool escape(std::string& out) {
    const char c = peek();
    static constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    if (const size_t found_at = kNames.find(c); c != '\0' && found_at != std::string_view::npos) {
      out += kValues[found_at];
      advance();
      return true;
    }
    if (c != 'u') return complain("unknown escape: a backslash, then " + found());
    advance();
    uint32_t code = 0, low = 0;
    if (!hex(code)) return false;
    if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
      advance();
      advance();
      if (!hex(low)) return false;
      if (low < 0xdc00 || low >= 0xe000) return complain("half of a pair of \\u escapes");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xd800 && code < 0xe000) {
      return complain("half of a pair of \\u escapes");
    }
    append(out, code);
    return true;
  }

  bool string(std::string& out) {
    const unsigned line = line_, column = column_;
    advance();
    while (!at_end() && peek() != '"') {
      if (static_cast<unsigned char>(peek()) < 0x20) {
        return complain(peek() == '\n' ? "a string ends with its line; a quote is missing"
                                       : "a control character stands in a string");
      }
      if (peek() == '\\') {
        advance();
        if (!escape(out)) return false;
      } else {
        out += peek();
        advance();
      }
    }
    if (at_end()) return complain(line, column, "this string has no end; a quote is missing");
    advance();
    return true;
  }

  bool array(JsonNode& node, int level) {
    node.kind = JsonNode::Kind::kArray;
    advance();
    skip_space();
    if (peek() == ']') return advance(), true;
    do {
      if (!value(node.elements.emplace_back(), level + 1)) return false;
      skip_space();
      if (peek() == ']') return advance(), true;
    } while (comma(']', node));
    return false;
  }

  bool object(JsonNode& node, int level) {
    node.kind = JsonNode::Kind::kObject;
    advance();
    skip_space();
    if (peek() == '}') return advance(), true;
    do {
      skip_space();
      if (peek() != '"') return complain("expected a key in quotes, found " + found());
      JsonNode::Member& member = node.members.emplace_back();
      member.line = line_;
      member.column = column_;
      if (!string(member.key)) return false;
      for (const JsonNode::Member& other : node.members) {
        if (&other != &member && other.key == member.key) {
          return complain(
              member.line, member.column,
              "\"" + member.key + "\" is there twice, first in line " + std::to_string(other.line));
        }
      }
      skip_space();
      if (peek() != ':') return complain("expected ':' after the key, found " + found());
      advance();
      if (!value(member.value, level + 1)) return false;
      skip_space();
      if (peek() == '}') return advance(), true;
    } while (comma('}', node));
    return false;
  }

  bool comma(char end, const JsonNode& node) {
    if (at_end()) {
      return complain(node.line, node.column,
                      std::string("this has no end; a '") + end + "' is missing");
    }
    if (peek() != ',') {
      return complain(std::string("expected ',' or '") + end + "', found " + found());
    }
    const unsigned line = line_, column = column_;
    advance();
    skip_space();
    if (peek() == end) return complain(line, column, "a comma follows the last value");
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  unsigned line_ = 1, column_ = 1;
  std::string error_;
};

}  // namespace

std::string JsonNode::description() const {
  switch (kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBoolean:
      return boolean ? "true" : "false";
    case Kind::kNumber:
      return "the number " + text;
    case Kind::kString:
      return "the string \"" + text + "\"";
    case Kind::kArray:
      return "an array";
    case Kind::kObject:
      return "an object";
  }
  return "something else";
}

std::optional<JsonNode> parse_json(std::string_view text, std::string& error) {
  Parser parser(text);
  JsonNode node;
  if (parser.document(node)) return node;
  error = parser.error();
  return std::nullopt;
}

}  // namespace neuron::monitor
