// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what the assembler reads: text of a program, one instruction, and files for the
// disassembler. Nothing may crash or hang; what the disassembler shows of a file that it accepts
// must assemble. Text that assembles to a file must survive being shown and assembled again.
//
// An input that begins with a NEFF header is a file; one that begins with "!" an instruction; any
// other is text.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tools/compiler/assembler/assembler.h"
#include "tools/compiler/assembler/disassembler.h"
#include "tools/compiler/assembler/instruction_parser.h"

namespace {

using namespace neuron::assembler;

[[noreturn]] void complain(const char* what, const std::string& detail) {
  std::fprintf(stderr, "%s: %s\n", what, detail.c_str());
  std::abort();
}

void show_and_assemble(neuron::neff::Bytes file) {
  const auto shown = disassemble(file);
  if (!shown) return;
  AssembleOptions options;
  options.check = false;
  const Assembled again = assemble(shown->text, options);
  if (!again.ok()) complain("a disassembly does not assemble", again.errors[0].message);
}

void assemble_text(std::string_view text) {
  const Assembled result = assemble(text, {});
  for (const Diagnostic& error : result.errors) render(error, "fuzz", text);
  if (!result.ok()) return;
  const auto file = write(result.assembly);
  // The text may name members that no archive can hold.
  if (!file) return;
  const auto shown = disassemble(*file);
  if (!shown) complain("an assembled file cannot be shown", shown.error().sentence);
  if (!shown->same_file && shown->verbatim.empty()) {
    complain("an assembled file does not come back", shown->text);
  }
}

void parse_one(std::string_view text) {
  for (int engine = -1; engine < 6; ++engine) {
    Diagnostic error;
    const auto instruction = parse_instruction(text, engine, error);
    if (!instruction) render(error, "fuzz", text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMost = 1 << 16;
  if (size == 0 || size > kMost) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (size > 1024 && data[0] <= 2 && data[1] == 0) {
    show_and_assemble({data, size});
  } else if (data[0] == '!') {
    parse_one(text.substr(1));
  } else {
    assemble_text(text);
  }
  return 0;
}
