// SPDX-License-Identifier: Apache-2.0
// Programs whose transfers compress and decompress, and files whose constants are compressed.
#include <random>

#include "driver/compression/stream.h"
#include "hw/udma.h"
#include "tests/system/api/program_file.h"
#include "tests/system/api/support.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::test {
namespace {

using builder::Engine;

constexpr uint32_t kCompressedParts = 64, kCompressedColumns = 500;
constexpr builder::ComputeOptions kCompress{.operation = NEURON_DMA_COMPRESS};
constexpr builder::ComputeOptions kDecompress{.operation = NEURON_DMA_DECOMPRESS};

class Compressed : public RuntimeTest {};

std::vector<float> weights() {
  std::vector<float> values(size_t{kCompressedParts} * kCompressedColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 37) / 4;
  return values;
}
Bytes bytes_of_floats(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// y = the content of `stream` + 1, which a transfer decompresses into a tile.
kernels::Neff add_one_to(const Bytes& stream, uint8_t generation = 2) {
  builder::Program program("decompressed", generation);
  const builder::Buffer packed =
      program.constant("packed", NEURON_DTYPE_U8, {stream.size()}, stream);
  const builder::Buffer y =
      program.output("y", NEURON_DTYPE_F32, {kCompressedParts, kCompressedColumns});
  const builder::Tile tile =
      program.sbuf("weights", kCompressedParts, kCompressedColumns, NEURON_DTYPE_F32);
  program.dma_compute(Engine::kSp, tile.all(), {packed.all()}, kDecompress);
  program.tensor_scalar(Engine::kDve, tile.all(), tile.all(), NEURON_ALU_ADD, 1.0F);
  program.dma(Engine::kSp, y.all(), tile.all());
  return program.build();
}

TEST_F(Compressed, ConstantsOfAProgramComeDecompressedIntoATile) {
  const std::vector<float> expected = weights();
  const Bytes stream = compression::compress(bytes_of_floats(expected));
  EXPECT_LT(stream.size(), expected.size()) << "less than a byte for each element";
  Loaded model(bytes_of(add_one_to(stream)));
  for (int execution = 0; execution < 2; ++execution) {
    ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
    const std::vector<float> found = model.floats("y");
    for (size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], expected[i] + 1) << i;
  }
}

TEST_F(Compressed, TensorsAreCompressedAndComeBackWithoutLoss) {
  constexpr uint64_t kBytes = 100'000, kRoom = kBytes + NEURON_STREAM_HEADER_BYTES;
  builder::Program program("there_and_back");
  const builder::Buffer x = program.input("x", NEURON_DTYPE_U8, {kBytes});
  const builder::Buffer stream = program.output("stream", NEURON_DTYPE_U8, {kRoom});
  const builder::Buffer packed = program.temporary("packed", NEURON_DTYPE_U8, {kRoom});
  const builder::Buffer y = program.output("y", NEURON_DTYPE_U8, {kBytes});
  program.dma_compute(Engine::kSp, packed.all(), {x.all()}, kCompress);
  program.dma(Engine::kSp, stream.all(), packed.all());
  program.dma_compute(Engine::kActivation, y.all(), {packed.all()}, kDecompress);
  Loaded model(bytes_of(program.build()));
  std::mt19937 random(3);
  for (const uint32_t values : {1u, 3u, 256u}) {
    Bytes content(kBytes);
    for (uint8_t& byte : content) byte = static_cast<uint8_t>(random() % values);
    ASSERT_EQ(nrt_tensor_write(model.tensors["x"], content.data(), 0, content.size()), NRT_SUCCESS);
    ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(contents(model.tensors["y"]), content);
    Bytes expected = compression::compress(content);
    expected.resize(kRoom);
    EXPECT_EQ(contents(model.tensors["stream"]), expected);
  }
}

TEST_F(Compressed, ABrokenStreamEndsTheExecutionWithItsQueueDescriptorAndByte) {
  Bytes stream = compression::compress(bytes_of_floats(weights()));
  stream[NEURON_STREAM_OFF_MAGIC] ^= 1;
  Loaded model(bytes_of(add_one_to(stream)));
  EXPECT_EQ(model.run(), NRT_EXEC_HW_ERR_DMA_ABORT);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("DMA_STREAM"));
  EXPECT_THAT(nrt_open_last_error(),
              ::testing::ContainsRegex("DMA engine 0 queue [0-9]+ ring index [0-9]+: found byte 0 "
                                       "of the stream at fault"));
}

TEST_F(Compressed, StrictModeStopsACompressionOfBytesThatNothingWrote) {
  builder::Program program("never_written");
  const builder::Buffer y = program.output("y", NEURON_DTYPE_U8, {4 * 64 + 16});
  const builder::Tile tile = program.sbuf("tile", 4, 64, NEURON_DTYPE_U8);
  program.dma_compute(Engine::kSp, y.all(), {tile.all()}, kCompress);
  Loaded model(bytes_of(program.build()));
  EXPECT_NE(model.run(), NRT_SUCCESS);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("UNINITIALISED"));
}

TEST_F(Compressed, TransferOfMoreRunsThanAPacketHasIsRefusedWhenTheModelIsLoaded) {
  builder::Program program("rows");
  const Bytes stream = compression::compress(Bytes(128 * 64));
  const builder::Buffer packed =
      program.constant("packed", NEURON_DTYPE_U8, {stream.size()}, stream);
  const builder::Buffer y = program.output("y", NEURON_DTYPE_U8, {128, 64});
  const builder::Tile tile = program.sbuf("tile", 128, 64, NEURON_DTYPE_U8);
  program.dma_compute(Engine::kSp, tile.all(), {packed.all()}, kDecompress);
  program.dma(Engine::kSp, y.all(), tile.all());
  const Bytes neff = bytes_of(program.build());
  nrt_model_t* model = nullptr;
  EXPECT_EQ(nrt_load(neff.data(), neff.size(), 0, 1, &model), NRT_RESOURCE);
  EXPECT_THAT(nrt_open_last_error(),
              HasSubstr("at most 1048575 bytes in 64 contiguous runs on each side"));
}

// y = x + a constant of `bytes` bytes; its file has it compressed or as it is.
kernels::Neff add_constant(bool compress, const std::vector<float>& constant) {
  builder::Program program("stored");
  const builder::Buffer w = program.constant(
      "w", NEURON_DTYPE_F32, {kCompressedParts, kCompressedColumns}, bytes_of_floats(constant));
  const builder::Buffer x =
      program.input("x", NEURON_DTYPE_F32, {kCompressedParts, kCompressedColumns});
  const builder::Buffer y =
      program.output("y", NEURON_DTYPE_F32, {kCompressedParts, kCompressedColumns});
  const builder::Tile a = program.sbuf("a", kCompressedParts, kCompressedColumns, NEURON_DTYPE_F32);
  const builder::Tile b = program.sbuf("b", kCompressedParts, kCompressedColumns, NEURON_DTYPE_F32);
  program.dma(Engine::kSp, a.all(), w.all());
  program.dma(Engine::kSp, b.all(), x.all());
  program.tensor_tensor(Engine::kDve, a.all(), a.all(), NEURON_ALU_ADD, b.all());
  program.dma(Engine::kSp, y.all(), a.all());
  return program.build(compress ? builder::ConstantStorage::kCompressed
                                : builder::ConstantStorage::kPlain);
}

TEST_F(Compressed, AFileWithCompressedConstantsGivesTheSameBitsAndTimes) {
  const std::vector<float> constant = weights();
  std::vector<float> found[2];
  uint64_t time[2] = {};
  for (const bool compress : {false, true}) {
    Loaded model(bytes_of(add_constant(compress, constant)));
    model.fill("x", 0.5F);
    nrt_open_execution_report_t report{};
    report.size = sizeof report;
    ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
    ASSERT_EQ(nrt_open_get_execution_report(model.model, &report), NRT_SUCCESS);
    found[compress] = model.floats("y");
    time[compress] = report.device_ps;
  }
  EXPECT_EQ(found[1], found[0]);
  EXPECT_EQ(found[1][5], constant[5] + 0.5F);
  EXPECT_EQ(time[1], time[0]);
}

// Streams of several lengths, behind something else in their file.
ProgramFile with_streams(const Bytes& file, uint64_t size, uint64_t offset) {
  ProgramFile program;
  program.output("y", "uint8", "[" + std::to_string(size) + "]", size);
  program.variable("w", R"("type": "file", "encoding": "streams", "file_name": "w.dat", "size": )" +
                            std::to_string(size) + R"(, "file_offset": )" + std::to_string(offset));
  program.member("sg00/w.dat",
                 std::string_view(reinterpret_cast<const char*>(file.data()), file.size()));
  program.queue("q", R"("type": "data", "num_queues": 16)");
  program.semaphore("done", 20);
  program.transfer(NEURON_ENGINE_SP,
                   R"("id": 1, "queue": "q", "semaphore": 20, "desc": {"from": "w", "to": "y"})");
  program.trigger(NEURON_ENGINE_SP, 1);
  program.wait(NEURON_ENGINE_SP, 20, 16);
  program.end_main(NEURON_ENGINE_SP);
  return program;
}

TEST_F(Compressed, AConstantMayBeSeveralStreamsAnywhereInAFile) {
  Bytes content, file(7, 0xEE);
  for (const size_t bytes : {1u, 70'000u, 3u, 1024u}) {
    const Bytes part = pattern(bytes, static_cast<uint8_t>(bytes));
    const Bytes stream = compression::compress(part);
    content.insert(content.end(), part.begin(), part.end());
    file.insert(file.end(), stream.begin(), stream.end());
  }
  file.insert(file.end(), 9, 0xEE);
  Loaded model(with_streams(file, content.size(), 7).pack());
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(contents(model.tensors["y"]), content);
}

TEST_F(Compressed, ABrokenConstantIsRefusedWithItsFileAndByte) {
  const auto refusal = [](const Bytes& file, uint64_t size) {
    const Bytes neff = with_streams(file, size, 0).pack();
    nrt_model_t* model = nullptr;
    EXPECT_EQ(nrt_load(neff.data(), neff.size(), 0, 1, &model), NRT_INVALID);
    return std::string(nrt_open_last_error());
  };
  const Bytes stream = compression::compress(pattern(600));
  Bytes twice = stream;
  twice.insert(twice.end(), stream.begin(), stream.end());
  Bytes turned = twice;
  turned.back() ^= 1;
  EXPECT_THAT(refusal(turned, 1200), HasSubstr("constant 'w', sg00/w.dat, byte "));
  EXPECT_THAT(refusal(turned, 1200), HasSubstr("the file is damaged"));
  EXPECT_THAT(refusal(twice, 1199),
              HasSubstr("var.w.size: found 1199, but the streams of sg00/w.dat end behind 1200"));
  EXPECT_THAT(refusal(twice, 1201), HasSubstr("the stream ends inside its header of 16 bytes"));
  twice.pop_back();
  EXPECT_THAT(refusal(twice, 1200), HasSubstr("the file ends inside a stream of"));
  EXPECT_THAT(refusal(Bytes(64, 1), 64), HasSubstr("they do not begin with its magic number"));
}

}  // namespace
}  // namespace neuron::test
