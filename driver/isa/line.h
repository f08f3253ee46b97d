// SPDX-License-Identifier: Apache-2.0
// A line of assembly that is being put together: text, then keys that commas separate.
//
// Callers: the files of this folder that print instructions. Not shared between threads. Fails by
// bad_alloc only.
#ifndef DRIVER_ISA_LINE_H
#define DRIVER_ISA_LINE_H

#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>

#include "driver/isa/instruction.h"

namespace neuron::isa {

class Line {
 public:
  void add(const char* text) { text_ += text; }
  [[gnu::format(printf, 2, 3)]] void addf(const char* format, ...) {
    char buffer[160];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    text_ += buffer;
  }
  // Commas separate what follows the mnemonic and its first argument.
  [[gnu::format(printf, 2, 3)]] void key(const char* format, ...) {
    char buffer[160];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(buffer, sizeof buffer, format, arguments);
    va_end(arguments);
    text_ += first_ ? " " : ", ";
    text_ += buffer;
    first_ = false;
  }
  void argument() { first_ = false; }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  bool first_ = true;
};

// A float that prints without loss, anything else as its bits.
std::string scalar_value(uint32_t bits, unsigned dtype);
void print_address(Line& line, const AddressBody& body);
void print_trigger(Line& line, const DmaTriggerBody& body);
void print_generate(Line& line, const Instruction& instruction);
void print_indirect(Line& line, const Instruction& instruction);

}  // namespace neuron::isa

#endif
