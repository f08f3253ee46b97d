// SPDX-License-Identifier: Apache-2.0
//
// One line of assembly as tokens. Callers: cursor.h. Thread-safe: no; copies are independent, which
// is how a parser looks ahead. Borrows the line. Cannot fail: unknown characters are a token of
// kind kOther; after the last token kEnd is returned each time.
#ifndef TOOLS_COMPILER_ASSEMBLER_LEXER_H
#define TOOLS_COMPILER_ASSEMBLER_LEXER_H

#include <cstdint>
#include <string_view>

namespace neuron::assembler {

struct Token {
  enum Kind : uint8_t {
    kEnd,     // of the line, or a comment
    kName,    // letters, digits, "_", "." and "$"; does not begin with a digit
    kNumber,  // 12, 0x1F, 1.5e-3; without sign
    kString,  // "..." with its quotes
    kMark,    // punctuation, the longest that fits
    kOther,
  };
  Kind kind = kEnd;
  std::string_view text;
  uint32_t column = 1;
};

class Lexer {
 public:
  explicit Lexer(std::string_view line) : line_(line) {}

  Token next();
  // Everything up to a blank, comma, bracket or comment, whatever its characters.
  Token word();
  // The rest of the line, comment included.
  std::string_view rest() const { return line_.substr(at_); }

 private:
  void skip_blanks();
  Token take(Token::Kind kind, size_t length);
  size_t number_length() const;

  std::string_view line_;
  size_t at_ = 0;
};

}  // namespace neuron::assembler

#endif
