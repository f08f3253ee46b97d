// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/engine_binary_writer.h"

#include <map>
#include <string>
#include <string_view>

#include "driver/base/crc32c.h"
#include "driver/base/little_endian.h"

namespace neuron::tools {

using runtime::fail;
using runtime::Result;

namespace {

// Every string once, NUL terminated; offset 0 is the empty one.
class StringTable {
 public:
  uint32_t add(const std::string& text) {
    const auto [place, added] = offsets_.try_emplace(text, static_cast<uint32_t>(bytes_.size()));
    if (added) bytes_.insert(bytes_.end(), text.c_str(), text.c_str() + text.size() + 1);
    return place->second;
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_{0};
  std::map<std::string, uint32_t> offsets_{{"", 0}};
};

template <class T>
void append(std::vector<uint8_t>& out, T value) {
  const size_t at = out.size();
  out.resize(at + sizeof(T));
  base::store_little(out.data() + at, value);
}

}  // namespace

Result<std::vector<uint8_t>> write_engine_binary(const neff::EngineProgram& program) {
  if (program.code.size() % NEURON_INSTRUCTION_BYTES != 0 ||
      program.instructions() > NEURON_PROGRAM_MAX) {
    return fail(NRT_INVALID,
                "engine {}: {} bytes of code; give whole instructions of {} bytes, at most {}",
                neff::engine_name(program.engine), program.code.size(), NEURON_INSTRUCTION_BYTES,
                NEURON_PROGRAM_MAX);
  }
  StringTable strings;
  std::vector<uint8_t> entries;
  for (const neff::ProgramEntry& entry : program.entries) {
    append(entries, strings.add(entry.name));
    append(entries, entry.pc);
    append(entries, entry.length);
    append(entries, entry.kind);
  }
  std::vector<uint8_t> relocations;
  for (const neff::Relocation& relocation : program.relocations) {
    append(relocations, relocation.pc);
    append(relocations, relocation.field);
    append(relocations, relocation.kind);
    append(relocations, relocation.width);
    append(relocations, strings.add(relocation.symbol));
    append(relocations, uint32_t{0});
    append(relocations, relocation.addend);
  }
  std::vector<uint8_t> lines;
  for (const neff::SourceLine& line : program.lines) {
    append(lines, line.debug);
    append(lines, strings.add(line.file));
    append(lines, line.line);
    append(lines, line.column);
    append(lines, uint16_t{0});
  }

  std::vector<uint8_t> file(NEURON_BIN_HEADER_BYTES, 0);
  auto put_section = [&file](size_t offset_field, const std::vector<uint8_t>& bytes, size_t count,
                             size_t alignment) {
    file.resize((file.size() + alignment - 1) / alignment * alignment, 0);
    base::store_little(file.data() + offset_field, static_cast<uint32_t>(file.size()));
    base::store_little(file.data() + offset_field + 4, static_cast<uint32_t>(count));
    file.insert(file.end(), bytes.begin(), bytes.end());
  };
  put_section(NEURON_BIN_OFF_CODE_OFF, program.code, program.instructions(),
              NEURON_INSTRUCTION_BYTES);
  put_section(NEURON_BIN_OFF_ENTRY_OFF, entries, program.entries.size(), 8);
  put_section(NEURON_BIN_OFF_RELOC_OFF, relocations, program.relocations.size(), 8);
  put_section(NEURON_BIN_OFF_STRING_OFF, strings.bytes(), strings.bytes().size(), 8);
  put_section(NEURON_BIN_OFF_LINE_OFF, lines, program.lines.size(), 8);
  if (file.size() > UINT32_MAX) {
    return fail(NRT_INVALID, "engine {}: a binary of {} bytes; offsets have 32 bits",
                neff::engine_name(program.engine), file.size());
  }

  uint8_t* header = file.data();
  for (int i = 0; i < 8; ++i) header[i] = static_cast<uint8_t>(NEURON_BIN_MAGIC[i]);
  base::store_little<uint16_t>(header + NEURON_BIN_OFF_VERSION, 1);
  base::store_little<uint16_t>(header + NEURON_BIN_OFF_HEADER_SIZE, NEURON_BIN_HEADER_BYTES);
  header[NEURON_BIN_OFF_ENGINE] = program.engine;
  header[NEURON_BIN_OFF_GENERATION] = program.generation;
  const neff::Bytes all(file);
  base::store_little(header + NEURON_BIN_OFF_CRC,
                     base::crc32c(all.subspan(NEURON_BIN_HEADER_BYTES)));
  base::store_little(header + NEURON_BIN_OFF_HEADER_CRC,
                     base::crc32c(all.first(NEURON_BIN_OFF_HEADER_CRC)));
  return file;
}

}  // namespace neuron::tools
