// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/generations.h"

#include <gtest/gtest.h>

#include "hw/address_map.h"

namespace neuron::neff {
namespace {

TEST(Generations, EachTargetOfAFileIsOneOfAGeneration) {
  for (const auto& [target, generation] : {std::pair{"trn1", 2u},
                                           {"trn1n", 2u},
                                           {"inf2", 2u},
                                           {"trn2", 3u},
                                           {"trn2u", 3u},
                                           {"trn2n", 3u},
                                           {"trn3", 4u},
                                           {"trn3u", 4u},
                                           {"", 0u},
                                           {"inf1", 0u},
                                           {"trn", 0u},
                                           {"trn11", 0u}}) {
    EXPECT_EQ(generation_of(target), generation) << target;
  }
}

TEST(Generations, AreCalledAsTheirInstancesAre) {
  EXPECT_EQ(known_generations(), "2, 3 or 4");
  EXPECT_STREQ(generation_words(2), "trn1 or inf2");
  EXPECT_STREQ(generation_words(3), "trn2");
  EXPECT_STREQ(generation_words(4), "trn3");
  EXPECT_STREQ(generation_words(1), "an unknown device");
  EXPECT_STREQ(generation_words(5), "an unknown device");
}

TEST(Generations, APartitionHasWhatItsGenerationHasAndAnUnknownOneNoLimit) {
  EXPECT_EQ(sbuf_partition_bytes(2), 192u << 10);
  EXPECT_EQ(sbuf_partition_bytes(3), 224u << 10);
  EXPECT_EQ(sbuf_partition_bytes(4), 256u << 10);
  EXPECT_EQ(sbuf_partition_bytes(9), uint64_t{NEURON_SBUF_PARTITION_STRIDE});
  EXPECT_EQ(find_generation(3)->number, 3u);
  EXPECT_EQ(find_generation(0), nullptr);
}

}  // namespace
}  // namespace neuron::neff
