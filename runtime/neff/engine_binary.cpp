// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/engine_binary.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "driver/base/crc32c.h"
#include "driver/base/little_endian.h"
#include "runtime/neff/text.h"

namespace neuron::neff {

using runtime::fail;
using runtime::Result;

namespace {

constexpr size_t kStringBytes = 4096;

struct Section {
  const char* name;
  uint32_t field;         // Offset of its offset in the header; its count follows.
  uint32_t record_bytes;  // Of one counted record.
  uint64_t offset = 0;
  uint64_t count = 0;

  uint64_t bytes() const { return count * record_bytes; }
};

class EngineBinaryReader {
 public:
  EngineBinaryReader(Bytes file, std::string_view member, uint32_t most_instructions)
      : file_(file), member_(member), most_instructions_(most_instructions) {}

  Result<EngineProgram> read() {
    NEURON_CHECK(read_header());
    NEURON_CHECK(read_sections());
    const auto code = file_.subspan(code_.offset, code_.bytes());
    program_.code.assign(code.begin(), code.end());
    NEURON_CHECK(read_entries());
    NEURON_CHECK(read_relocations());
    NEURON_CHECK(read_lines());
    return std::move(program_);
  }

 private:
  Result<void> read_header();
  Result<void> read_sections();
  Result<void> read_entries();
  Result<void> read_relocations();
  Result<void> read_lines();
  Result<void> check_relocation(const Relocation& relocation, uint64_t at) const;

  uint32_t u32(uint64_t at) const { return base::load_little<uint32_t>(file_.data() + at); }
  uint16_t u16(uint64_t at) const { return base::load_little<uint16_t>(file_.data() + at); }

  // The string that field `at` names.
  Result<std::string> string_at(uint64_t at) const {
    const uint32_t offset = u32(at);
    if (offset >= strings_.count) {
      return fail(NRT_INVALID,
                  "{}: offset {:#x}: string offset is {:#x}, the string table has {:#x} bytes",
                  member_, at, offset, strings_.count);
    }
    const char* begin = reinterpret_cast<const char*>(file_.data() + strings_.offset + offset);
    // The table ends with a NUL, read_sections() checked. The limit keeps many records that name
    // one long string from becoming many long strings.
    std::string text(begin,
                     strnlen(begin, std::min<uint64_t>(strings_.count - offset, kStringBytes + 1)));
    if (text.size() > kStringBytes) {
      return fail(NRT_INVALID, "{}: offset {:#x}: a string has more than {} bytes", member_, at,
                  kStringBytes);
    }
    if (!is_utf8(text)) {
      return fail(NRT_INVALID, "{}: offset {:#x}: the string \"{}\" is not UTF-8", member_, at,
                  printable(text));
    }
    return text;
  }

  Bytes file_;
  std::string_view member_;
  uint32_t most_instructions_;
  EngineProgram program_;
  Section code_{"code", NEURON_BIN_OFF_CODE_OFF, NEURON_INSTRUCTION_BYTES};
  Section entries_{"entry", NEURON_BIN_OFF_ENTRY_OFF, NEURON_BIN_ENTRY_BYTES};
  Section relocations_{"relocation", NEURON_BIN_OFF_RELOC_OFF, NEURON_BIN_RELOC_BYTES};
  Section strings_{"string", NEURON_BIN_OFF_STRING_OFF, 1};
  Section lines_{"line", NEURON_BIN_OFF_LINE_OFF, NEURON_BIN_LINE_BYTES};
};

Result<void> EngineBinaryReader::read_header() {
  if (!has_engine_magic(file_)) {
    return fail(NRT_UNSUPPORTED_NEFF_VERSION,
                "{}: no program in the open encoding: its first bytes are not the magic of an "
                "engine binary; the file is damaged, or was not made by this project's tools",
                member_);
  }
  if (file_.size() < NEURON_BIN_HEADER_BYTES) {
    return fail(NRT_INVALID,
                "{}: {} bytes, the header of an engine binary has {}; the file is truncated",
                member_, file_.size(), NEURON_BIN_HEADER_BYTES);
  }
  const uint32_t header_crc = base::crc32c(file_.first(NEURON_BIN_OFF_HEADER_CRC));
  if (header_crc != u32(NEURON_BIN_OFF_HEADER_CRC)) {
    return fail(
        NRT_INVALID,
        "{}: offset {:#x}: CRC of the header is {:#010x}, computed {:#010x}; the file is damaged",
        member_, NEURON_BIN_OFF_HEADER_CRC, u32(NEURON_BIN_OFF_HEADER_CRC), header_crc);
  }
  if (u16(NEURON_BIN_OFF_VERSION) != 1 ||
      u16(NEURON_BIN_OFF_HEADER_SIZE) != NEURON_BIN_HEADER_BYTES) {
    return fail(
        NRT_UNSUPPORTED_NEFF_VERSION,
        "{}: engine binary of version {} with a header of {} bytes, supported: version 1 with {}",
        member_, u16(NEURON_BIN_OFF_VERSION), u16(NEURON_BIN_OFF_HEADER_SIZE),
        NEURON_BIN_HEADER_BYTES);
  }
  const uint32_t crc = base::crc32c(file_.subspan(NEURON_BIN_HEADER_BYTES));
  if (crc != u32(NEURON_BIN_OFF_CRC)) {
    return fail(
        NRT_INVALID,
        "{}: offset {:#x}: CRC of the sections is {:#010x}, computed {:#010x}; the file is damaged",
        member_, NEURON_BIN_OFF_CRC, u32(NEURON_BIN_OFF_CRC), crc);
  }
  program_.engine = file_[NEURON_BIN_OFF_ENGINE];
  program_.generation = file_[NEURON_BIN_OFF_GENERATION];
  if (program_.engine > NEURON_ENGINE_CC) {
    return fail(NRT_INVALID, "{}: offset {:#x}: engine is {}, expected 0 to {}", member_,
                NEURON_BIN_OFF_ENGINE, program_.engine, static_cast<int>(NEURON_ENGINE_CC));
  }
  if (u16(NEURON_BIN_OFF_FLAGS) != 0) {
    return fail(NRT_UNSUPPORTED_NEFF_VERSION, "{}: offset {:#x}: flags are {:#x}, supported: 0",
                member_, NEURON_BIN_OFF_FLAGS, u16(NEURON_BIN_OFF_FLAGS));
  }
  return {};
}

Result<void> EngineBinaryReader::read_sections() {
  uint64_t end = NEURON_BIN_HEADER_BYTES;
  for (Section* section : {&code_, &entries_, &relocations_, &strings_, &lines_}) {
    section->offset = u32(section->field);
    section->count = u32(section->field + 4);
    if (section->offset < end) {
      return fail(
          NRT_INVALID,
          "{}: offset {:#x}: the {} section begins at {:#x}, inside what precedes it (to {:#x})",
          member_, section->field, section->name, section->offset, end);
    }
    if (section->offset > file_.size() || section->bytes() > file_.size() - section->offset) {
      return fail(NRT_INVALID,
                  "{}: offset {:#x}: the {} section has {} records at {:#x} and ends behind the "
                  "file ({:#x} bytes)",
                  member_, section->field, section->name, section->count, section->offset,
                  file_.size());
    }
    end = section->offset + section->bytes();
  }
  if (end != file_.size()) {
    return fail(NRT_INVALID, "{}: {} bytes follow the last section", member_, file_.size() - end);
  }
  if (code_.offset % NEURON_INSTRUCTION_BYTES != 0 || code_.count == 0 ||
      code_.count > most_instructions_) {
    return fail(NRT_INVALID,
                "{}: offset {:#x}: {} instructions at {:#x}, expected 1 to {} at a multiple of {}",
                member_, NEURON_BIN_OFF_CODE_OFF, code_.count, code_.offset, most_instructions_,
                NEURON_INSTRUCTION_BYTES);
  }
  if (strings_.count == 0 || file_[strings_.offset + strings_.count - 1] != 0) {
    return fail(NRT_INVALID, "{}: offset {:#x}: the string table does not end with a NUL", member_,
                NEURON_BIN_OFF_STRING_OFF);
  }
  return {};
}

Result<void> EngineBinaryReader::read_entries() {
  std::optional<uint32_t> main;
  for (uint64_t i = 0; i < entries_.count; ++i) {
    const uint64_t at = entries_.offset + i * NEURON_BIN_ENTRY_BYTES;
    ProgramEntry entry;
    NEURON_TRY(name, string_at(at));
    entry.name = std::move(name);
    entry.pc = u32(at + 4);
    entry.length = u32(at + 8);
    entry.kind = u32(at + 12);
    if (entry.pc >= code_.count || entry.length > code_.count - entry.pc) {
      return fail(NRT_INVALID,
                  "{}: offset {:#x}: entry \"{}\" has {} instructions at {}, the code has {}",
                  member_, at, printable(entry.name), entry.length, entry.pc, code_.count);
    }
    if (entry.kind > NEURON_ENTRY_LABEL) {
      return fail(NRT_INVALID, "{}: offset {:#x}: entry \"{}\" is of kind {}, expected 0 to {}",
                  member_, at, printable(entry.name), entry.kind,
                  static_cast<int>(NEURON_ENTRY_LABEL));
    }
    if (entry.kind == NEURON_ENTRY_MAIN) {
      if (main) {
        return fail(NRT_INVALID, "{}: offset {:#x}: entry \"{}\" is a second main entry", member_,
                    at, printable(entry.name));
      }
      main = static_cast<uint32_t>(i);
    }
    program_.entries.push_back(std::move(entry));
  }
  if (!main) return fail(NRT_INVALID, "{}: no main entry", member_);
  program_.main = *main;
  return {};
}

Result<void> EngineBinaryReader::check_relocation(const Relocation& relocation, uint64_t at) const {
  auto refuse = [&](const char* what, auto found, const char* expected) {
    return fail(NRT_INVALID, "{}: offset {:#x}: relocation of \"{}\": {} is {}, expected {}",
                member_, at, printable(relocation.symbol), what, found, expected);
  };
  const unsigned kind = relocation.kind;
  const unsigned width = relocation.width;
  if (relocation.pc >= code_.count) {
    return refuse("pc", relocation.pc, "an instruction of the code");
  }
  const char* widths = nullptr;
  switch (kind) {
    case NEURON_RELOC_VAR_ADDR:
    case NEURON_RELOC_SEM_ADDR:
    case NEURON_RELOC_CORE:
    case NEURON_RELOC_PEER:
      if (width != 8) widths = "8";
      break;
    case NEURON_RELOC_DMA_BLOCK:
      if (width != 0) widths = "0";
      break;
    case NEURON_RELOC_QUEUE:
      if (width != 8 && width != 1) widths = "8 or 1";
      break;
    case NEURON_RELOC_SEMAPHORE:
      if (width != 1) widths = "1";
      break;
    case NEURON_RELOC_PC:
      if (width != 4) widths = "4";
      break;
    default:
      return refuse("kind", kind, "1 to 8");
  }
  if (widths) return refuse("width", width, widths);
  const uint32_t end = relocation.field + (width == 0 ? 0u : width);
  if (width == 0 && relocation.field != NEURON_DMA_TRIGGER_M2S) {
    return refuse("field", relocation.field, "32, the begin of the body");
  }
  if (end > NEURON_INSTRUCTION_BYTES) {
    return refuse("field", relocation.field, "a field of the instruction");
  }
  if (kind == NEURON_RELOC_QUEUE && width == 8 && relocation.addend != 0 &&
      relocation.addend != 1) {
    return refuse("addend", relocation.addend, "0 (M2S) or 1 (S2M)");
  }
  if ((kind == NEURON_RELOC_SEMAPHORE || width == 0) && relocation.addend != 0) {
    return refuse("addend", relocation.addend, "0");
  }
  const uint64_t first = uint64_t{relocation.pc} * NEURON_INSTRUCTION_BYTES;
  const auto code = Bytes(program_.code).subspan(first, NEURON_INSTRUCTION_BYTES);
  const uint32_t body_end = width == 0 ? NEURON_INSTRUCTION_BYTES : end;
  const unsigned bits =
      is_dma_control(relocation, program_.code) ? 0xFu << NEURON_RELOC_QUEUE_CTL_SHIFT : 0xFFu;
  for (uint32_t byte = relocation.field; byte < body_end; ++byte) {
    if ((code[byte] & bits) != 0) {
      return refuse("the code at its place", static_cast<unsigned>(code[byte]), "0");
    }
  }
  return {};
}

Result<void> EngineBinaryReader::read_relocations() {
  // If two relocations wrote the same byte, its value would depend on their order.
  std::vector<std::array<uint64_t, 2>> written;
  if (relocations_.count) written.resize(code_.count);
  for (uint64_t i = 0; i < relocations_.count; ++i) {
    const uint64_t at = relocations_.offset + i * NEURON_BIN_RELOC_BYTES;
    Relocation relocation;
    relocation.pc = u32(at);
    relocation.field = u16(at + 4);
    relocation.kind = file_[at + 6];
    relocation.width = file_[at + 7];
    NEURON_TRY(symbol, string_at(at + 8));
    relocation.symbol = std::move(symbol);
    if (u32(at + 12) != 0) {
      return fail(NRT_INVALID,
                  "{}: offset {:#x}: reserved bytes of a relocation are {:#x}, expected 0", member_,
                  at + 12, u32(at + 12));
    }
    relocation.addend = base::load_little<int64_t>(file_.data() + at + 16);
    NEURON_CHECK(check_relocation(relocation, at));
    const uint32_t end =
        relocation.width == 0 ? NEURON_INSTRUCTION_BYTES : relocation.field + relocation.width;
    for (uint32_t byte = relocation.field; byte < end; ++byte) {
      uint64_t& word = written[relocation.pc][byte / 64];
      const uint64_t bit = 1ull << (byte % 64);
      if (word & bit) {
        return fail(NRT_INVALID,
                    "{}: offset {:#x}: relocation of \"{}\" writes byte {} of instruction {}, "
                    "which another "
                    "relocation writes",
                    member_, at, printable(relocation.symbol), byte, relocation.pc);
      }
      word |= bit;
    }
    program_.relocations.push_back(std::move(relocation));
  }
  return {};
}

Result<void> EngineBinaryReader::read_lines() {
  uint32_t last = 0;
  for (uint64_t i = 0; i < lines_.count; ++i) {
    const uint64_t at = lines_.offset + i * NEURON_BIN_LINE_BYTES;
    SourceLine line;
    line.debug = u32(at);
    if (line.debug <= last) {
      return fail(NRT_INVALID,
                  "{}: offset {:#x}: debug id {} follows {}, expected ascending ids from 1",
                  member_, at, line.debug, last);
    }
    last = line.debug;
    NEURON_TRY(file, string_at(at + 4));
    line.file = std::move(file);
    line.line = u32(at + 8);
    line.column = u16(at + 12);
    if (u16(at + 14) != 0) {
      return fail(NRT_INVALID, "{}: offset {:#x}: reserved bytes of a line are {:#x}, expected 0",
                  member_, at + 14, u16(at + 14));
    }
    program_.lines.push_back(std::move(line));
  }
  return {};
}

}  // namespace

bool is_dma_control(const Relocation& relocation, Bytes code) {
  if (relocation.kind != NEURON_RELOC_QUEUE || relocation.width != 1 ||
      relocation.field != NEURON_RELOC_QUEUE_CTL) {
    return false;
  }
  const uint8_t* head = code.data() + uint64_t{relocation.pc} * NEURON_INSTRUCTION_BYTES;
  const unsigned opcode = (head[0] | head[1] << 8) & NEURON_HEAD_OPCODE_MASK;
  return opcode == NEURON_OP_DMA_GENERATE || opcode == NEURON_OP_DMA_GATHER ||
         opcode == NEURON_OP_DMA_SCATTER;
}

bool has_engine_magic(Bytes file) {
  return file.size() >= 8 && std::memcmp(file.data(), NEURON_BIN_MAGIC, 8) == 0;
}

Result<EngineProgram> read_engine_binary(Bytes file, std::string_view member,
                                         uint32_t most_instructions) {
  return EngineBinaryReader(file, member, most_instructions).read();
}

}  // namespace neuron::neff
