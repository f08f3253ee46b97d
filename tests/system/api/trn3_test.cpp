// SPDX-License-Identifier: Apache-2.0
// Chips of generation 4: what the runtime says of them, the room of their SBUF, and collectives
// through their switch.
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/system/api/support.h"
#include "tools/compiler/program_builder/program.h"

namespace neuron::test {
namespace {

class Trn3 : public ::testing::Test {
 protected:
  Trn3()
      : emulator_("NEURON_EMULATOR", "trn3pd98.3xlarge"), quiet_("NEURON_RT_LOG_LEVEL", "QUIET") {}
  void TearDown() override { nrt_close(); }
  static void init() {
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  }

 private:
  Setting emulator_;
  Setting quiet_;
};

// y = x + 1 on one tile of `columns` f32 in every partition, for a virtual core of one physical
// core.
kernels::Neff one_tile(uint8_t generation, uint32_t columns) {
  builder::Program program("one_tile", generation);
  const builder::Buffer x = program.input("x", NEURON_DTYPE_F32, {NEURON_PARTITIONS, columns});
  const builder::Buffer y = program.output("y", NEURON_DTYPE_F32, {NEURON_PARTITIONS, columns});
  const builder::Tile tile =
      program.sbuf("the whole tile", NEURON_PARTITIONS, columns, NEURON_DTYPE_F32);
  program.dma(builder::Engine::kSp, tile.all(), x.all());
  program.tensor_scalar(builder::Engine::kDve, tile.all(), tile.all(), NEURON_ALU_ADD, 1.0F);
  program.dma(builder::Engine::kSp, y.all(), tile.all());
  return program.build();
}

TEST_F(Trn3, IsNamedWithItsHalfOfAStackAndItsVirtualCores) {
  init();
  nrt_instance_info_t info{};
  ASSERT_EQ(nrt_get_instance_info(&info, sizeof info), NRT_SUCCESS);
  EXPECT_EQ(info.family, static_cast<unsigned>(NRT_INSTANCE_TRN3PDS98));
  EXPECT_EQ(info.size, static_cast<unsigned>(NRT_INSTANCE_SIZE_3XL));
  EXPECT_STREQ(info.arch_name, "Trn3");
  uint32_t cores = 0;
  ASSERT_EQ(nrt_get_total_vnc_count(&cores), NRT_SUCCESS);
  EXPECT_EQ(cores, 4u) << "virtual cores of two physical ones";
  nrt_vnc_memory_stats_t stats{};
  size_t size = 0;
  ASSERT_EQ(nrt_get_vnc_memory_stats(3, &stats, sizeof stats, &size), NRT_SUCCESS);
  EXPECT_EQ(stats.bytes_limit, uint64_t{36} << 30);
}

// Public sources name two ids and no difference.
TEST_F(Trn3, OfTheSecondPciIdIsBroughtUpAsThatOfTheFirstOne) {
  const std::string first = "0x7564", second = "0x7565";
  std::string text = read_file(source("driver/profiles/trn3pd98.3xlarge.json"));
  const size_t at = text.find(first);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, first.size(), second);
  const Folder folder;
  const std::string profile = folder.write("second.json", text);
  // Behind the time and the name of the instance type, which is the file's.
  const auto listed = [](const std::string& emulator) {
    const test::Run run =
        test::run({built("bin/neuron-ls"), "--format", "json"}, {{"NEURON_EMULATOR", emulator}});
    EXPECT_EQ(run.ending, 0) << run.output;
    const size_t devices = run.output.find("\"neuron_devices\"");
    return devices == std::string::npos ? run.output : run.output.substr(devices);
  };
  const std::string found = listed(profile);
  EXPECT_EQ(found, listed("trn3pd98.3xlarge"));
  EXPECT_THAT(found, HasSubstr("\"name\": \"Trainium3\""));

  const Setting other("NEURON_EMULATOR", profile.c_str());
  const Setting one("NEURON_LOGICAL_NC_CONFIG", "1");
  init();
  nrt_instance_info_t info{};
  ASSERT_EQ(nrt_get_instance_info(&info, sizeof info), NRT_SUCCESS);
  EXPECT_STREQ(info.arch_name, "Trn3");
  uint32_t cores = 0;
  ASSERT_EQ(nrt_get_total_nc_count(&cores), NRT_SUCCESS);
  EXPECT_EQ(cores, 8u);
  Loaded model(bytes_of(one_tile(4, 64)), 7);
  model.fill("x", 2);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_EQ(model.floats("y"), std::vector<float>(NEURON_PARTITIONS * 64, 3.0F));
}

TEST_F(Trn3, KeepsATileOf240KibibytesInEachPartitionWhichTrn2Cannot) {
  constexpr uint32_t kColumns = 240 * 1024 / sizeof(float);
  const auto refused = one_tile(3, kColumns);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().sentence, HasSubstr("229376")) << "bytes of a partition of trn2";

  const Setting one("NEURON_LOGICAL_NC_CONFIG", "1");
  init();
  for (const int core : {0, 7}) {
    Loaded model(bytes_of(one_tile(4, kColumns)), core);
    model.fill("x", 2);
    ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
    EXPECT_EQ(model.floats("y"), std::vector<float>(NEURON_PARTITIONS * kColumns, 3.0F));
  }
}

TEST_F(Trn3, RefusesAProgramOfTrn3OnTrn2) {
  const Setting older_chip("NEURON_EMULATOR", "trn2.3xlarge");
  const Setting one("NEURON_LOGICAL_NC_CONFIG", "1");
  init();
  const Bytes neff = bytes_of(one_tile(4, 16));
  nrt_model_t* model = nullptr;
  EXPECT_EQ(nrt_load(neff.data(), neff.size(), 0, 1, &model), NRT_UNSUPPORTED_NEFF_VERSION);
  EXPECT_THAT(nrt_open_last_error(), HasSubstr("built for trn3"));
}

// The product of a matrix with itself in block-scaled f8: columns are groups of four elements of
// 128 partitions. The values need two bits of a mantissa, so that nothing is rounded anywhere.
TEST_F(Trn3, MultipliesBlockScaledMatricesExactlyWhereNothingIsRounded) {
  constexpr uint32_t kColumns = 128, kGroup = 4;
  builder::Program program("block_scaled", 4);
  const builder::Buffer x =
      program.input("x", NEURON_DTYPE_F32, {NEURON_PARTITIONS, kColumns * kGroup});
  const builder::Buffer y = program.output("y", NEURON_DTYPE_F32, {kColumns, kColumns});
  const auto tile = [&](const char* name, uint32_t columns, uint8_t dtype) {
    return program.sbuf(name, NEURON_PARTITIONS, columns, dtype);
  };
  const builder::Tile wide = tile("wide", kColumns * kGroup, NEURON_DTYPE_F32);
  const builder::Tile narrow = tile("narrow", kColumns * kGroup, NEURON_DTYPE_BF16);
  const builder::Tile codes = tile("codes", kColumns, NEURON_DTYPE_F8E4FNX4);
  const builder::Tile scales = tile("scales", kColumns, NEURON_DTYPE_U8);
  const builder::Tile result = tile("result", kColumns, NEURON_DTYPE_F32);
  const builder::Tile sums = program.psum("sums", kColumns, kColumns);
  program.dma(builder::Engine::kSp, wide.all(), x.all());
  program.tensor_copy(builder::Engine::kDve, narrow.all(), wide.all());
  const builder::ScaledAccess scaled{codes.all(), scales.all(), 0};
  program.quantize_mx(scaled, narrow.all());
  program.matmul_mx(sums.all(), scaled, scaled);
  program.tensor_copy(builder::Engine::kDve, result.all(), sums.all());
  program.dma(builder::Engine::kSp, y.all(), result.all());

  const Setting one("NEURON_LOGICAL_NC_CONFIG", "1");
  init();
  Loaded model(bytes_of(program.build()), 3);
  std::vector<float> values(NEURON_PARTITIONS * kColumns * kGroup);
  constexpr float kValues[] = {0.5F, -1.0F, 1.5F, 2.0F, -0.75F, 0.0F, 3.0F};
  for (size_t i = 0; i < values.size(); ++i) values[i] = kValues[(i * 5 + i / 97) % 7];
  ASSERT_EQ(nrt_tensor_write(model.tensors["x"], values.data(), 0, values.size() * sizeof(float)),
            NRT_SUCCESS);
  ASSERT_EQ(model.run(), NRT_SUCCESS) << nrt_open_last_error();
  const std::vector<float> found = model.floats("y");
  for (uint32_t i = 0; i < kColumns; ++i) {
    for (uint32_t j = 0; j < kColumns; ++j) {
      double sum = 0;
      for (uint32_t p = 0; p < NEURON_PARTITIONS; ++p) {
        const float* row = values.data() + size_t{p} * kColumns * kGroup;
        for (uint32_t k = 0; k < kGroup; ++k) {
          sum += double{row[i * kGroup + k]} * row[j * kGroup + k];
        }
      }
      ASSERT_EQ(found[i * kColumns + j], sum) << i << ", " << j;
    }
  }
}

}  // namespace
}  // namespace neuron::test
