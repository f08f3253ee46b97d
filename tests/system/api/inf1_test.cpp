// SPDX-License-Identifier: Apache-2.0
// Inferentia1: devices, memory and names are there, programs are not.
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

class Inf1 : public ::testing::Test {
 protected:
  Inf1() : emulator_("NEURON_EMULATOR", "inf1.6xlarge"), quiet_("NEURON_RT_LOG_LEVEL", "QUIET") {}
  void SetUp() override {
    ASSERT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_SUCCESS) << nrt_open_last_error();
  }
  void TearDown() override { nrt_close(); }

 private:
  Setting emulator_;
  Setting quiet_;
};

TEST_F(Inf1, IsNamedWithFourCoresAChipAndEightGibibytes) {
  nrt_instance_info_t info{};
  ASSERT_EQ(nrt_get_instance_info(&info, sizeof info), NRT_SUCCESS);
  EXPECT_EQ(info.family, static_cast<unsigned>(NRT_INSTANCE_INF1));
  EXPECT_EQ(info.size, static_cast<unsigned>(NRT_INSTANCE_SIZE_6XL));
  EXPECT_STREQ(info.arch_name, "Inf1");
  uint32_t cores = 0;
  ASSERT_EQ(nrt_get_total_vnc_count(&cores), NRT_SUCCESS);
  EXPECT_EQ(cores, 16u);
  nrt_vnc_memory_stats_t stats{};
  size_t size = 0;
  ASSERT_EQ(nrt_get_vnc_memory_stats(3, &stats, sizeof stats, &size), NRT_SUCCESS);
  EXPECT_EQ(stats.bytes_limit, uint64_t{4} << 30) << "of the memory that the core shares";
}

TEST_F(Inf1, KeepsTensorsOfEveryCore) {
  for (int core = 0; core < 16; ++core) {
    nrt_tensor_t* tensor = make_tensor(100'000, core);
    const Bytes written = pattern(100'000, static_cast<uint8_t>(core));
    ASSERT_EQ(nrt_tensor_write(tensor, written.data(), 0, written.size()), NRT_SUCCESS)
        << nrt_open_last_error();
    Bytes read(written.size());
    ASSERT_EQ(nrt_tensor_read(tensor, read.data(), 0, read.size()), NRT_SUCCESS);
    EXPECT_EQ(read, written) << core;
    nrt_tensor_free(&tensor);
  }
}

TEST_F(Inf1, RefusesEveryNeffAsItsInstructionSetIsNotPublic) {
  for (const Bytes& file : {small_add(), Bytes(4096, 0x5A)}) {
    nrt_model_t* model = nullptr;
    EXPECT_EQ(nrt_load(file.data(), file.size(), 0, 1, &model), NRT_UNSUPPORTED_NEFF_VERSION);
    EXPECT_EQ(model, nullptr);
    EXPECT_STREQ(nrt_open_last_error(),
                 "nrt_load: device 0 is an Inferentia1, whose instruction set is not public: no "
                 "program can be made or loaded for it here; use another instance type, such as "
                 "NEURON_EMULATOR=trn1.2xlarge");
  }
}

}  // namespace
}  // namespace neuron::test
