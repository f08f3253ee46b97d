// SPDX-License-Identifier: Apache-2.0
// Names of engines and types in files, which nobody may change.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "runtime/neff/model.h"

namespace neuron::neff {
namespace {

TEST(NamesInFiles, OfEnginesComeBack) {
  const char* names[] = {"PE", "Activation", "Pool", "DVE", "SP", "CC"};
  for (uint8_t engine = 0; engine <= NEURON_ENGINE_CC; ++engine) {
    EXPECT_STREQ(engine_name(engine), names[engine]);
    EXPECT_EQ(engine_from_name(names[engine]), engine);
  }
  EXPECT_STREQ(engine_name(NEURON_ENGINE_CC + 1), "unknown");
  for (const char* name : {"", "pe", "CC ", "unknown"}) {
    EXPECT_EQ(engine_from_name(name), NEURON_ENGINE_HOST) << name;
  }
}

TEST(NamesInFiles, OfTypesComeBackWithTheirSizes) {
  std::set<std::string> all;
  for (uint8_t dtype = 1; dtype <= NEURON_DTYPE_F8E4FNX4; ++dtype) {
    const std::string name = dtype_name(dtype);
    EXPECT_TRUE(all.insert(name).second) << name;
    EXPECT_EQ(dtype_from_name(name), dtype) << name;
    EXPECT_GT(dtype_bytes(dtype), 0u) << name;
  }
  for (const auto& [dtype, name, bytes] : {std::tuple{NEURON_DTYPE_F32, "float32", 4u},
                                           {NEURON_DTYPE_BF16, "bfloat16", 2u},
                                           {NEURON_DTYPE_I64, "int64", 8u},
                                           {NEURON_DTYPE_U8, "uint8", 1u},
                                           {NEURON_DTYPE_F8E4FNX4, "float8e4fnx4", 4u}}) {
    EXPECT_STREQ(dtype_name(dtype), name);
    EXPECT_EQ(dtype_bytes(dtype), bytes) << name;
  }
  EXPECT_STREQ(dtype_name(NEURON_DTYPE_F8E4FNX4 + 1), "unknown");
  EXPECT_EQ(dtype_bytes(NEURON_DTYPE_F8E4FNX4 + 1), 0u);
  EXPECT_EQ(dtype_bytes(NEURON_DTYPE_NONE), 0u);
  for (const char* name : {"", "none", "unknown", "Float32"}) {
    EXPECT_EQ(dtype_from_name(name), NEURON_DTYPE_NONE) << name;
  }
}

}  // namespace
}  // namespace neuron::neff
