// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/assembler/lexer.h"

namespace neuron::assembler {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hexadecimal(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}
bool is_name(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }

constexpr std::string_view kMarks[] = {
    "<<", "->", "++", "--", "+=", "-=", ">=", "<=", "==", "!=", ".."};

}  // namespace

void Lexer::skip_blanks() {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) {
    ++at_;
  }
}

Token Lexer::take(Token::Kind kind, size_t length) {
  const Token token{kind, line_.substr(at_, length), static_cast<uint32_t>(at_ + 1)};
  at_ += length;
  return token;
}

size_t Lexer::number_length() const {
  size_t end = at_;
  const auto at = [&](size_t i) { return i < line_.size() ? line_[i] : '\0'; };
  if (at(end) == '0' && (at(end + 1) == 'x' || at(end + 1) == 'X')) {
    end += 2;
    while (is_hexadecimal(at(end))) ++end;
    return end - at_;
  }
  while (is_digit(at(end))) ++end;
  // ".." is a range.
  if (at(end) == '.' && at(end + 1) != '.') {
    ++end;
    while (is_digit(at(end))) ++end;
  }
  if (at(end) == 'e' || at(end) == 'E') {
    const size_t sign = at(end + 1) == '+' || at(end + 1) == '-' ? 1 : 0;
    if (is_digit(at(end + 1 + sign))) {
      end += 1 + sign;
      while (is_digit(at(end))) ++end;
    }
  }
  return end - at_;
}

Token Lexer::next() {
  skip_blanks();
  if (at_ == line_.size() || line_[at_] == '#') return take(Token::kEnd, 0);
  const char first = line_[at_];
  const char second = at_ + 1 < line_.size() ? line_[at_ + 1] : '\0';
  if (is_name_start(first) || (first == '.' && is_name_start(second))) {
    size_t end = at_ + 1;
    while (end < line_.size() && is_name(line_[end])) {
      // "0 .. r4": a range's dots belong to no name.
      if (line_[end] == '.' && end + 1 < line_.size() && line_[end + 1] == '.') break;
      ++end;
    }
    return take(Token::kName, end - at_);
  }
  if (is_digit(first)) return take(Token::kNumber, number_length());
  if (first == '"') {
    size_t end = at_ + 1;
    while (end < line_.size() && line_[end] != '"') end += line_[end] == '\\' ? 2 : 1;
    if (end >= line_.size()) return take(Token::kOther, line_.size() - at_);
    return take(Token::kString, end + 1 - at_);
  }
  for (std::string_view mark : kMarks) {
    if (line_.substr(at_).starts_with(mark)) return take(Token::kMark, mark.size());
  }
  if (std::string_view("[](){}:,=+-*/&@!<>|").find(first) != std::string_view::npos) {
    return take(Token::kMark, 1);
  }
  // The bytes of one non-ASCII character stay together.
  size_t length = 1;
  while (at_ + length < line_.size() && (line_[at_ + length] & 0xC0) == 0x80) ++length;
  return take(Token::kOther, length);
}

Token Lexer::word() {
  skip_blanks();
  const size_t end = line_.find_first_of(" \t\r,()[]{}#", at_);
  const size_t length = (end == std::string_view::npos ? line_.size() : end) - at_;
  return take(length == 0 ? Token::kEnd : Token::kOther, length);
}

}  // namespace neuron::assembler
