// SPDX-License-Identifier: Apache-2.0
//
// One line of assembly as tokens. Callers: cursor.h. Thread-safe: no; copies are independent, which
// is how a parser looks ahead. Borrows the line. Cannot fail: what is no token is one of kind
// kOther, and the end comes again and again.
#ifndef TOOLS_ASSEMBLER_LEXER_H_
#define TOOLS_ASSEMBLER_LEXER_H_

#include <cstdint>
#include <string_view>

namespace neuron::assembler {

struct Token {
  enum Kind : std::uint8_t {
    kEnd,     // of the line, or a comment
    kName,    // letters, digits, "_", "." and "$"; does not begin with a digit
    kNumber,  // 12, 0x1F, 1.5e-3; without sign
    kString,  // "..." with its quotes
    kMark,    // punctuation, the longest that fits
    kOther,
  };
  Kind kind = kEnd;
  std::string_view text;
  std::uint32_t column = 1;
};

class Lexer {
 public:
  explicit Lexer(std::string_view line) : line_(line) {}

  Token next();
  // Everything up to a blank, comma, bracket or comment, whatever it is made of.
  Token word();
  // What is left of the line, comment and all.
  std::string_view rest() const { return line_.substr(at_); }

 private:
  void skip_blanks();
  Token take(Token::Kind kind, std::size_t length);
  std::size_t number_length() const;

  std::string_view line_;
  std::size_t at_ = 0;
};

}  // namespace neuron::assembler

#endif  // TOOLS_ASSEMBLER_LEXER_H_
