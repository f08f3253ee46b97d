// SPDX-License-Identifier: Apache-2.0
// Variables of the original that change what engines compute or what an operator sees.
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>

#include "tests/support/files.h"
#include "tests/system/api/support.h"

namespace neuron::test {
namespace {

class EnvironmentEffects : public RuntimeTest {
 protected:
  // 1 and a quarter of the step to the next bf16, added in each of 2048 elements.
  static Bytes sums() {
    Loaded add(bytes_of(kernels::tensor_add("add", NEURON_DTYPE_BF16, 128, 16)));
    for (const auto& [name, bits] :
         {std::pair<const char*, uint16_t>{"a", 0x3F80}, {"b", 0x3B00}}) {
      const std::vector<uint16_t> values(128 * 16, bits);
      EXPECT_EQ(nrt_tensor_write(add.tensors[name], values.data(), 0, 2 * values.size()),
                NRT_SUCCESS)
          << name << nrt_open_last_error();
    }
    EXPECT_EQ(add.run(), NRT_SUCCESS) << nrt_open_last_error();
    for (const auto& [name, tensor] : add.tensors) {
      if (name != "a" && name != "b") return contents(tensor);
    }
    return {};
  }
  Bytes sums_with(const char* rounding, const char* seed) {
    nrt_close();
    const Setting how("NEURON_RT_STOCHASTIC_ROUNDING_EN", rounding);
    const Setting from("NEURON_RT_STOCHASTIC_ROUNDING_SEED", seed);
    init();
    return sums();
  }
  static size_t rounded_up(const Bytes& bytes) {
    size_t count = 0;
    for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
      const unsigned value = bytes[i] | bytes[i + 1] << 8;
      EXPECT_TRUE(value == 0x3F80 || value == 0x3F81) << value;
      count += value == 0x3F81;
    }
    return count;
  }
};

TEST_F(EnvironmentEffects, RoundingIsStochasticIfItIsAskedForAndTheSeedDecides) {
  EXPECT_EQ(rounded_up(sums_with(nullptr, nullptr)), 0u);
  EXPECT_EQ(rounded_up(sums_with("0", "5")), 0u);
  const Bytes five = sums_with("1", "5");
  EXPECT_GT(rounded_up(five), 400u) << "a quarter of 2048";
  EXPECT_LT(rounded_up(five), 624u);
  EXPECT_EQ(sums_with("true", "5"), five);
  EXPECT_NE(sums_with("1", "6"), five);
  nrt_close();
  const Setting wrong("NEURON_RT_STOCHASTIC_ROUNDING_SEED", "many");
  EXPECT_EQ(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_INVALID);
}

TEST_F(EnvironmentEffects, AVariableThatNobodyReadsIsToldOnceUnlessTheLogIsToBeQuiet) {
  const auto told = [&](const char* level) {
    nrt_close();
    const Setting chosen("NEURON_RT_LOG_LEVEL", level);
    testing::internal::CaptureStderr();
    init();
    return testing::internal::GetCapturedStderr();
  };
  const Setting quiet("NEURON_RT_VISIBLE_CORE", "0");
  EXPECT_EQ(told("ERROR"), "");
  const Setting shown("NEURON_EMULATOR_STRIKT", "0");
  EXPECT_THAT(told(nullptr), HasSubstr("is NEURON_EMULATOR_STRICT meant?"));
  EXPECT_EQ(told(nullptr), "") << "once in a process";
}

TEST_F(EnvironmentEffects, LostEventsAreToldByDefault) {
  nrt_close();
  const Setting level("NEURON_RT_LOG_LEVEL", nullptr);
  init();
  Loaded add(small_add());
  nrt_sys_trace_config_t* config = nullptr;
  ASSERT_EQ(nrt_sys_trace_config_allocate(&config), NRT_SUCCESS);
  nrt_sys_trace_config_set_max_events_per_nc(config, 2);
  ASSERT_EQ(nrt_sys_trace_start(config), NRT_SUCCESS);
  nrt_sys_trace_config_free(config);
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  testing::internal::CaptureStderr();
  ASSERT_EQ(nrt_sys_trace_stop(), NRT_SUCCESS);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::ContainsRegex("the system trace lacks [0-9]+ events, the oldest"));

  const Folder folder;
  {
    const Setting enable("NEURON_RT_INSPECT_ENABLE", "1");
    const Setting into("NEURON_RT_INSPECT_OUTPUT_DIR", folder.path("out").c_str());
    const Setting most("NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC", "2");
    ASSERT_EQ(nrt_inspect_begin(), NRT_SUCCESS) << nrt_open_last_error();
  }
  ASSERT_EQ(add.run(), NRT_SUCCESS);
  testing::internal::CaptureStderr();
  ASSERT_EQ(nrt_inspect_stop(), NRT_SUCCESS) << nrt_open_last_error();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::ContainsRegex("the system profile below .* lacks [0-9]+ events"));
}

}  // namespace
}  // namespace neuron::test
