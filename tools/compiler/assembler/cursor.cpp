// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/cursor.h"

#include <charconv>

#include "driver/base/format.h"
#include "runtime/neff/text.h"
#include "tools/compiler/assembler/names.h"

namespace neuron::assembler {

bool parse_unsigned(std::string_view text, uint64_t& value) {
  int base = 10;
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  const char* end = text.data() + text.size();
  const auto [at, status] = std::from_chars(text.data(), end, value, base);
  return status == std::errc() && at == end && !text.empty();
}

bool Cursor::value_of(const Token& token, uint64_t& value) const {
  if (token.kind == Token::kNumber) return parse_unsigned(token.text, value);
  if (token.kind != Token::kName || constants_ == nullptr) return false;
  const auto found = constants_->find(token.text);
  if (found == constants_->end()) return false;
  value = found->second;
  return true;
}

Token Cursor::next() {
  if (error_) return Token();
  const Token token = token_;
  lexer_ = ahead_;
  token_ = ahead_.next();
  return token;
}

Token Cursor::word() {
  if (error_) return Token();
  const Token token = lexer_.word();
  ahead_ = lexer_;
  token_ = ahead_.next();
  return token;
}

bool Cursor::accept(std::string_view text) {
  if (!is(text)) return false;
  next();
  return true;
}

void Cursor::expect(std::string_view text) {
  if (!accept(text)) expected(base::format("\"{}\"", text));
}

void Cursor::expect_end() {
  if (!at_end()) expected("the end of the line");
}

std::string Cursor::name(std::string_view what) {
  if (token_.kind == Token::kString) return string(what);
  if (token_.kind != Token::kName) {
    expected(what);
    return {};
  }
  return std::string(next().text);
}

std::string Cursor::string(std::string_view what) {
  if (token_.kind != Token::kString) {
    expected(what);
    return {};
  }
  const Token token = next();
  auto text = unquoted(token.text);
  if (!text) {
    fail(token.column, base::format("found {}, expected a string with the escapes \\\\ \\\" \\n "
                                    "\\t \\xNN only",
                                    neff::printable(token.text)));
    return {};
  }
  return std::move(*text);
}

int64_t Cursor::integer(std::string_view what, int64_t minimum, int64_t maximum) {
  const Token first = token_;
  const bool negative = is("-");
  if (negative || is("+")) next();
  uint64_t value = 0;
  if (error_) return minimum;
  if (!value_of(token_, value) || value > static_cast<uint64_t>(INT64_MAX)) {
    expected(what);
    return minimum;
  }
  next();
  const int64_t number = negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
  if (number < minimum || number > maximum) {
    fail(first.column,
         base::format("found {}, expected {} from {} to {}", number, what, minimum, maximum));
    return minimum;
  }
  return number;
}

uint64_t Cursor::address(std::string_view what) {
  uint64_t value = 0;
  if (!value_of(token_, value)) {
    expected(what);
    return 0;
  }
  next();
  return value;
}

bool Cursor::at_register() const {
  uint64_t number = 0;
  return token_.kind == Token::kName && token_.text.size() > 1 && token_.text[0] == 'r' &&
         token_.text[1] >= '0' && token_.text[1] <= '9' &&
         parse_unsigned(token_.text.substr(1), number);
}

uint8_t Cursor::reg() {
  uint64_t number = 64;
  if (at_register()) parse_unsigned(token_.text.substr(1), number);
  if (number > 63) {
    expected("a register, r0 to r63");
    return 0;
  }
  next();
  return static_cast<uint8_t>(number);
}

std::vector<uint64_t> Cursor::numbers(std::string_view what, size_t most, uint64_t minimum,
                                      uint64_t maximum) {
  std::vector<uint64_t> values;
  expect("[");
  while (ok() && !is("]")) {
    if (values.size() == most) {
      expected(base::format("\"]\": at most {} numbers stand here", most));
      break;
    }
    const Token at = token_;
    const uint64_t value = address(what);
    if (ok() && (value < minimum || value > maximum)) {
      fail(at.column,
           base::format("found {}, expected {} from {} to {}", value, what, minimum, maximum));
    }
    values.push_back(value);
    if (!accept(",")) break;
  }
  expect("]");
  return values;
}

void Cursor::expected_at(const Token& token, std::string_view what) {
  const std::string found = token.kind == Token::kEnd
                                ? std::string("the end of the line")
                                : base::format("\"{}\"", neff::printable(token.text));
  fail(token.column, base::format("found {}, expected {}", found, what));
}

void Cursor::fail(uint32_t column, std::string message) {
  if (error_) return;
  error_ = Diagnostic{number_, column, std::move(message)};
  token_ = Token{Token::kEnd, {}, column};
}

}  // namespace neuron::assembler
