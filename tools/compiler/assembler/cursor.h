// SPDX-License-Identifier: Apache-2.0
//
// Reads one line token by token and keeps the first error. After an error every call returns a
// harmless default and the line seems to be at its end, so a parser needs no branch after every
// step. Callers: the parsers of this folder. Thread-safe: no. Borrows the line's text.
// Fails: error(), with column, what was found and what was expected.
#ifndef TOOLS_COMPILER_ASSEMBLER_CURSOR_H
#define TOOLS_COMPILER_ASSEMBLER_CURSOR_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/compiler/assembler/diagnostic.h"
#include "tools/compiler/assembler/lexer.h"

namespace neuron::assembler {

// Names of numbers (.equ).
using Constants = std::map<std::string, uint64_t, std::less<>>;

class Cursor {
 public:
  Cursor(std::string_view line, uint32_t number, const Constants* constants = nullptr)
      : lexer_(line), ahead_(lexer_), number_(number), constants_(constants) {
    token_ = ahead_.next();
  }

  bool ok() const { return !error_; }
  const std::optional<Diagnostic>& error() const { return error_; }
  uint32_t line() const { return number_; }

  const Token& peek() const { return token_; }
  Token peek_second() const {
    Lexer copy = ahead_;
    return error_ ? Token() : copy.next();
  }
  Token next();
  // The text up to a blank, comma or bracket, from the token that peek() shows.
  Token word();
  // From the token that peek() shows to the end of the line.
  std::string_view rest() const { return lexer_.rest(); }

  bool at_end() const { return token_.kind == Token::kEnd; }
  bool is(std::string_view text) const {
    return token_.kind != Token::kString && token_.kind != Token::kEnd && token_.text == text;
  }
  bool accept(std::string_view text);
  void expect(std::string_view text);
  void expect_end();

  // A name, or a string (then anything may be in it).
  std::string name(std::string_view what);
  std::string string(std::string_view what);
  // Optional sign, then a whole number.
  int64_t integer(std::string_view what, int64_t minimum, int64_t maximum);
  uint64_t address(std::string_view what);
  // "r5"
  uint8_t reg();
  bool at_register() const;
  // "[1, 2, 3]"
  std::vector<uint64_t> numbers(std::string_view what, size_t most, uint64_t minimum,
                                uint64_t maximum);

  void expected(std::string_view what) { expected_at(token_, what); }
  void expected_at(const Token& token, std::string_view what);
  void fail(uint32_t column, std::string message);

 private:
  // The number that the token is or names.
  bool value_of(const Token& token, uint64_t& value) const;

  Lexer lexer_;  // Before token_
  Lexer ahead_;  // Behind it
  Token token_;
  uint32_t number_;
  const Constants* constants_;
  std::optional<Diagnostic> error_;
};

// Parses a whole number, decimal or 0x...; false if the text is not one or does not fit.
bool parse_unsigned(std::string_view text, uint64_t& value);

}  // namespace neuron::assembler

#endif
