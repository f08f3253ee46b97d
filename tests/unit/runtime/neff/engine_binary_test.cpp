// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/engine_binary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "driver/base/crc32c.h"
#include "tests/unit/runtime/neff/sample_program.h"

namespace neuron::neff {
namespace {

using test::Buffer;
using test::must;
using testing::HasSubstr;

Buffer sample() { return must(tools::write_engine_binary(test::sample_engine(NEURON_ENGINE_SP))); }

void fix_crcs(Buffer& file) {
  base::store_little(file.data() + NEURON_BIN_OFF_CRC,
                     base::crc32c(Bytes(file).subspan(NEURON_BIN_HEADER_BYTES)));
  base::store_little(file.data() + NEURON_BIN_OFF_HEADER_CRC,
                     base::crc32c(Bytes(file).first(NEURON_BIN_OFF_HEADER_CRC)));
}

void expect_binary_refused(Buffer file, const std::string& sentence,
                           NRT_STATUS status = NRT_INVALID, bool fix = true) {
  if (fix) fix_crcs(file);
  const auto program = read_engine_binary(file, "SP.bin");
  ASSERT_FALSE(program) << "accepted, expected: " << sentence;
  EXPECT_EQ(program.error().status, status) << program.error().sentence;
  EXPECT_THAT(program.error().sentence, HasSubstr(sentence));
  EXPECT_THAT(program.error().sentence, testing::StartsWith("SP.bin: "));
}

template <class T>
Buffer with(size_t offset, T value) {
  Buffer file = sample();
  base::store_little(file.data() + offset, value);
  return file;
}

uint32_t section(size_t field) { return base::load_little<uint32_t>(sample().data() + field); }

TEST(EngineBinary, GivesBackWhatWasWritten) {
  const EngineProgram written = test::sample_engine(NEURON_ENGINE_SP);
  const auto read = read_engine_binary(sample(), "SP.bin");
  ASSERT_TRUE(read) << read.error().sentence;
  EXPECT_EQ(read->engine, NEURON_ENGINE_SP);
  EXPECT_EQ(read->generation, 2);
  EXPECT_EQ(read->code, written.code);
  ASSERT_EQ(read->entries.size(), 2u);
  EXPECT_EQ(read->main, 0u);
  EXPECT_EQ(read->entries[1].name, "late");
  EXPECT_EQ(read->entries[1].pc, 3u);
  EXPECT_EQ(read->entries[1].kind, NEURON_ENTRY_FUNCTION);
  ASSERT_EQ(read->relocations.size(), written.relocations.size());
  for (size_t i = 0; i < written.relocations.size(); ++i) {
    EXPECT_EQ(read->relocations[i].symbol, written.relocations[i].symbol);
    EXPECT_EQ(read->relocations[i].pc, written.relocations[i].pc);
    EXPECT_EQ(read->relocations[i].field, written.relocations[i].field);
    EXPECT_EQ(read->relocations[i].addend, written.relocations[i].addend);
  }
  ASSERT_EQ(read->lines.size(), 2u);
  EXPECT_EQ(read->lines[1].debug, 5u);
  EXPECT_EQ(read->lines[0].column, 2);
  EXPECT_EQ(read->lines[1].file, "kernel.py");
}

TEST(EngineBinary, RefusesForeignMagicAndVersion) {
  expect_binary_refused({}, "no program in the open encoding", NRT_UNSUPPORTED_NEFF_VERSION, false);
  expect_binary_refused(with<uint8_t>(0, 0x88), "its first bytes are not the magic",
                        NRT_UNSUPPORTED_NEFF_VERSION);
  expect_binary_refused(with<uint16_t>(NEURON_BIN_OFF_VERSION, 2), "engine binary of version 2",
                        NRT_UNSUPPORTED_NEFF_VERSION);
  expect_binary_refused(with<uint16_t>(NEURON_BIN_OFF_FLAGS, 1), "offset 0xe: flags are 0x1",
                        NRT_UNSUPPORTED_NEFF_VERSION);
  expect_binary_refused(with<uint8_t>(NEURON_BIN_OFF_ENGINE, 6),
                        "offset 0xc: engine is 6, expected 0 to 5");
}

TEST(EngineBinary, RefusesDamageThatTheChecksumsShow) {
  expect_binary_refused(with<uint32_t>(NEURON_BIN_OFF_CODE_COUNT, 3), "CRC of the header is",
                        NRT_INVALID, false);
  expect_binary_refused(with<uint8_t>(200, 1), "offset 0x38: CRC of the sections is", NRT_INVALID,
                        false);
  Buffer file = sample();
  file.resize(40);
  expect_binary_refused(file, "40 bytes, the header of an engine binary has 64", NRT_INVALID,
                        false);
}

TEST(EngineBinary, RefusesSectionsThatOverlapOrLeaveTheFile) {
  expect_binary_refused(with<uint32_t>(NEURON_BIN_OFF_CODE_COUNT, 1000),
                        "the code section has 1000 records at 0x80");
  expect_binary_refused(with<uint32_t>(NEURON_BIN_OFF_CODE_COUNT, UINT32_MAX),
                        "ends behind the file");
  expect_binary_refused(with<uint32_t>(NEURON_BIN_OFF_CODE_OFF, 0),
                        "the code section begins at 0x0, inside what precedes it");
  expect_binary_refused(with<uint32_t>(NEURON_BIN_OFF_CODE_OFF, 64),
                        "4 instructions at 0x40, expected 1 to 16777216");
  expect_binary_refused(with<uint32_t>(NEURON_BIN_OFF_CODE_COUNT, 0), "0 instructions at 0x80");
  expect_binary_refused(with<uint32_t>(NEURON_BIN_OFF_ENTRY_OFF, 256),
                        "the entry section begins at 0x100, inside");
  expect_binary_refused(with<uint32_t>(NEURON_BIN_OFF_STRING_OFF, UINT32_MAX),
                        "the string section has");
  Buffer longer = sample();
  longer.push_back(0);
  expect_binary_refused(longer, "1 bytes follow the last section");
}

TEST(EngineBinary, RefusesBadEntries) {
  const uint32_t at = section(NEURON_BIN_OFF_ENTRY_OFF);
  expect_binary_refused(with<uint32_t>(at, 0xFFFF),
                        "string offset is 0xffff, the string table has");
  expect_binary_refused(with<uint32_t>(at + 4, 4),
                        "entry \"main\" has 3 instructions at 4, the code has 4");
  expect_binary_refused(with<uint32_t>(at + 8, UINT32_MAX),
                        "entry \"main\" has 4294967295 instructions at 0");
  expect_binary_refused(with<uint32_t>(at + 12, 3), "entry \"main\" is of kind 3, expected 0 to 2");
  expect_binary_refused(with<uint32_t>(at + 12, 2), "no main entry");
  expect_binary_refused(with<uint32_t>(at + 16 + 12, 0), "entry \"late\" is a second main entry");
}

TEST(EngineBinary, RefusesBadRelocations) {
  const uint32_t at = section(NEURON_BIN_OFF_RELOC_OFF);
  expect_binary_refused(with<uint32_t>(at, 4),
                        "relocation of \"loaded\": pc is 4, expected an instruction");
  expect_binary_refused(with<uint16_t>(at + 4, 128),
                        "field is 128, expected a field of the instruction");
  expect_binary_refused(with<uint8_t>(at + 6, 9), "kind is 9, expected 1 to 8");
  expect_binary_refused(with<uint8_t>(at + 7, 8), "width is 8, expected 1");
  expect_binary_refused(with<uint32_t>(at + 12, 1),
                        "reserved bytes of a relocation are 0x1, expected 0");
  expect_binary_refused(with<int64_t>(at + 16, 1), "addend is 1, expected 0");
  expect_binary_refused(with<uint16_t>(at + 24 + 4, 0x28),
                        "field is 40, expected 32, the begin of the body");
  expect_binary_refused(with<uint8_t>(section(NEURON_BIN_OFF_CODE_OFF) + 8, 1),
                        "the code at its place is 1, expected 0");
  expect_binary_refused(with<uint16_t>(at + 48 + 4, 121),
                        "relocation of \"scratch\": field is 121");
  Buffer twice = with<uint32_t>(at + 48, 0);
  expect_binary_refused(twice, "writes byte 32 of instruction 0, which another relocation writes");
}

TEST(EngineBinary, RefusesBadStringsAndLines) {
  const uint32_t strings = section(NEURON_BIN_OFF_STRING_OFF);
  const uint32_t size = section(NEURON_BIN_OFF_STRING_SIZE);
  const uint32_t at = section(NEURON_BIN_OFF_LINE_OFF);
  expect_binary_refused(with<uint8_t>(strings + size - 1, 'x'),
                        "the string table does not end with a NUL");
  expect_binary_refused(with<uint8_t>(strings + 1, 0xFF), "the string \"\\xffain\" is not UTF-8");
  expect_binary_refused(with<uint32_t>(at + 16, 1), "debug id 1 follows 1, expected ascending ids");
  expect_binary_refused(with<uint16_t>(at + 14, 1), "reserved bytes of a line are 0x1, expected 0");
  EngineProgram program = test::sample_engine(NEURON_ENGINE_SP);
  program.entries[1].name = std::string(5000, 'n');
  expect_binary_refused(must(tools::write_engine_binary(program)),
                        "a string has more than 4096 bytes");
}

TEST(EngineBinary, RefusesEveryBitFlipAndEveryPrefix) {
  const Buffer file = sample();
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    Buffer flipped = file;
    flipped[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
    ASSERT_FALSE(read_engine_binary(flipped, "SP.bin")) << "bit " << bit;
  }
  for (size_t size = 0; size < file.size(); ++size) {
    ASSERT_FALSE(read_engine_binary(Bytes(file).first(size), "SP.bin")) << size << " bytes";
  }
}

TEST(EngineBinary, AQueueIsInDmaControlOfThreeInstructionsOnly) {
  std::vector<uint8_t> code(2 * NEURON_INSTRUCTION_BYTES);
  Relocation relocation;
  relocation.pc = 1;
  relocation.kind = NEURON_RELOC_QUEUE;
  relocation.width = 1;
  relocation.field = NEURON_RELOC_QUEUE_CTL;
  const auto with_opcode = [&](uint16_t opcode) {
    code[NEURON_INSTRUCTION_BYTES] = static_cast<uint8_t>(opcode);
    code[NEURON_INSTRUCTION_BYTES + 1] = static_cast<uint8_t>(opcode >> 8);
    return is_dma_control(relocation, code);
  };
  EXPECT_TRUE(with_opcode(NEURON_OP_DMA_GENERATE));
  EXPECT_TRUE(with_opcode(NEURON_OP_DMA_GATHER));
  EXPECT_TRUE(with_opcode(NEURON_OP_DMA_SCATTER));
  EXPECT_FALSE(with_opcode(NEURON_OP_DMA_TRIGGER));
  EXPECT_FALSE(with_opcode(NEURON_OP_NOP));
  with_opcode(NEURON_OP_DMA_GATHER);
  Relocation other = relocation;
  other.kind = NEURON_RELOC_SEMAPHORE;
  EXPECT_FALSE(is_dma_control(other, code));
  other = relocation;
  other.width = 8;
  EXPECT_FALSE(is_dma_control(other, code));
  other = relocation;
  ++other.field;
  EXPECT_FALSE(is_dma_control(other, code));
  other = relocation;
  other.pc = 0;
  EXPECT_FALSE(is_dma_control(other, code)) << "that is another instruction";
}

TEST(EngineBinaryWriter, RefusesCodeThatIsNoWholeNumberOfInstructions) {
  EngineProgram program = test::sample_engine(NEURON_ENGINE_PE);
  program.code.pop_back();
  const auto written = tools::write_engine_binary(program);
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().sentence,
              HasSubstr("engine PE: 511 bytes of code; give whole instructions of 128"));
}

}  // namespace
}  // namespace neuron::neff
