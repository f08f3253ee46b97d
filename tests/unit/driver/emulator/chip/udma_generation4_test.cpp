// SPDX-License-Identifier: Apache-2.0
// What packets of generation 4 may say, and what its SBUF adds itself: classes of service, B += A.
#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/driver/emulator/chip/machine.h"

namespace neuron::chip {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kM2s = 0x10000, kS2m = 0x20000, kSourceAt = 0x100000, kHbm = 0x200000;
constexpr uint32_t kCompute = NEURON_META_OP_COMPUTE << NEURON_META_OP_SHIFT | 1u << 19 | 3u;

uint32_t meta_class(unsigned service_class) { return service_class << NEURON_META_CLASS_SHIFT; }

// Descriptors in memory of a chip of a generation, read as a queue reads them.
class PacketsOf {
 public:
  explicit PacketsOf(const ChipLayout& layout)
      : bus_(layout), hbm_(Hbm::create(1, Machine::kStack, -1, host_placement(), error_)) {
    bus_.attach(0, Machine::kStack, &hbm_->stack(0), "HBM 0");
    bus_.seal();
  }
  void source(uint32_t control, uint32_t meta, uint64_t address) {
    put(kM2s, m2s_++, {control | 1u << NEURON_DESC_RING_ID_SHIFT, meta, address});
  }
  void result(uint64_t address, uint32_t bytes) {
    put(kS2m, s2m_++, {bytes | 1u << NEURON_DESC_RING_ID_SHIFT, 0, address});
  }
  Parse parse() {
    const RingView m2s{kM2s, 64, 0, m2s_}, s2m{kS2m, 64, 0, s2m_};
    fault = {};
    return parse_packet(bus_, m2s, 0, s2m, 0, packet, fault);
  }
  // The packet's time in bytes of plain copies.
  uint64_t time(uint64_t least = 0) {
    EXPECT_EQ(parse(), Parse::kComplete) << fault.rule;
    return packet.time_bytes(bus_.layout(), least);
  }
  const ChipLayout& layout() const { return bus_.layout(); }

  Packet packet;
  DmaFault fault;

 private:
  void put(uint64_t ring, uint32_t slot, const Descriptor& d) {
    std::memcpy(bus_.direct(ring + 16 * uint64_t{slot}, 16), &d, 16);
  }

  std::string error_;
  Bus bus_;
  std::unique_ptr<Hbm> hbm_;
  uint32_t m2s_ = 0, s2m_ = 0;
};

TEST(UdmaClasses, AreInTheDescriptorThatOpensAPacket) {
  PacketsOf four(kLayoutV4);
  four.source(64 | NEURON_DESC_FIRST, NEURON_META_DEFAULT | meta_class(2), kSourceAt);
  four.source(64 | NEURON_DESC_LAST, NEURON_META_DEFAULT, kSourceAt + 64);
  four.result(kHbm, 128);
  ASSERT_EQ(four.parse(), Parse::kComplete) << four.fault.rule;
  EXPECT_EQ(four.packet.service_class(), 2U);

  PacketsOf computes(kLayoutV4);
  computes.source(NEURON_DESC_META | NEURON_DESC_FIRST,
                  NEURON_DMA_ADD | NEURON_DTYPE_F32 << 4 | NEURON_DTYPE_F32 << 10 | meta_class(3),
                  0);
  computes.source(64 | NEURON_DESC_LAST, kCompute | NEURON_DMA_ADD << NEURON_META_TYPE_SHIFT,
                  kSourceAt);
  computes.result(kHbm, 64);
  ASSERT_EQ(computes.parse(), Parse::kComplete) << computes.fault.rule;
  EXPECT_EQ(computes.packet.service_class(), 3U);
}

TEST(UdmaClasses, AreRefusedInOtherDescriptorsAndByOtherGenerations) {
  PacketsOf four(kLayoutV4);
  four.source(64 | NEURON_DESC_FIRST, NEURON_META_DEFAULT, kSourceAt);
  four.source(64 | NEURON_DESC_LAST, NEURON_META_DEFAULT | meta_class(1), kSourceAt + 64);
  four.result(kHbm, 128);
  EXPECT_EQ(four.parse(), Parse::kFault);
  EXPECT_EQ(four.fault.code, NEURON_FAULT_DMA_DESC);
  EXPECT_THAT(four.fault.rule, HasSubstr("class of service"));
  for (const ChipLayout* layout : {&kLayoutV2, &kLayoutV3}) {
    PacketsOf copies(*layout);
    copies.source(64 | NEURON_DESC_FIRST | NEURON_DESC_LAST, NEURON_META_DEFAULT | meta_class(1),
                  kSourceAt);
    copies.result(kHbm, 64);
    EXPECT_EQ(copies.parse(), Parse::kFault);
    EXPECT_THAT(copies.fault.rule, HasSubstr("needs generation 4"));
    PacketsOf computes(*layout);
    computes.source(NEURON_DESC_META | NEURON_DESC_FIRST,
                    NEURON_DMA_ADD | NEURON_DTYPE_F32 << 4 | NEURON_DTYPE_F32 << 10 | meta_class(1),
                    0);
    computes.source(64 | NEURON_DESC_LAST, kCompute | NEURON_DMA_ADD << NEURON_META_TYPE_SHIFT,
                    kSourceAt);
    computes.result(kHbm, 64);
    EXPECT_EQ(computes.parse(), Parse::kFault);
    EXPECT_THAT(computes.fault.rule, HasSubstr("reserved bit"));
  }
}

struct Sum {
  unsigned operation = NEURON_DMA_ADD;
  unsigned from = NEURON_DTYPE_BF16, to = NEURON_DTYPE_BF16;
  bool accumulate = true;
  unsigned sources = 1;
  bool routed = false;
};

// The time of a packet that adds 4096 bytes to what lies at `offset` of the window of core 1, or in
// HBM.
uint64_t time_of(const ChipLayout& layout, const Sum& sum, uint64_t offset, bool in_core = true) {
  PacketsOf packets(layout);
  const uint32_t constant = sum.operation == NEURON_DMA_MAX ? 0xFF800000u : 0;
  packets.source(NEURON_DESC_META | NEURON_DESC_FIRST,
                 sum.operation | sum.from << 4 | sum.to << 10 | (sum.accumulate ? 1u << 16 : 0) |
                     (sum.sources - 1) << 17,
                 sum.operation == NEURON_DMA_FMA ? 0x3F800000u : constant);
  packets.source(4096 | NEURON_DESC_LAST, kCompute | sum.operation << NEURON_META_TYPE_SHIFT,
                 kSourceAt);
  const uint64_t window = layout.device_of(layout.core_windows + NEURON_V2_CORE_WINDOW_SIZE);
  const uint64_t to = in_core ? window + offset : kHbm;
  packets.result(to | (sum.routed ? layout.routed_bits & ~(layout.routed_bits - 1) : 0), 8192);
  return packets.time();
}

TEST(SbufReadAddWrite, TakesTheTimeOfACopyOnGeneration4) {
  for (const unsigned type : {NEURON_DTYPE_BF16, NEURON_DTYPE_F32}) {
    const Sum sum{.from = type, .to = type};
    EXPECT_EQ(time_of(kLayoutV4, sum, 0x1000), 4096U) << type;
    EXPECT_EQ(time_of(kLayoutV3, sum, 0x1000), 2 * 2 * 4096U) << "half the rate of what is read";
    EXPECT_EQ(time_of(kLayoutV2, sum, 0x1000), 2 * 2 * 4096U);
  }
}

TEST(SbufReadAddWrite, OtherFormsKeepTheRateOfTheDmasOwnCompute) {
  const uint64_t own = time_of(kLayoutV3, {}, 0x1000);
  EXPECT_EQ(time_of(kLayoutV4, {}, NEURON_CORE_PSUM), own);
  EXPECT_EQ(time_of(kLayoutV4, {}, 0, false), own) << "HBM";
  EXPECT_EQ(time_of(kLayoutV4, {.from = NEURON_DTYPE_F16, .to = NEURON_DTYPE_F16}, 0), own);
  EXPECT_EQ(time_of(kLayoutV4, {.operation = NEURON_DMA_MAX}, 0), own);
  EXPECT_EQ(time_of(kLayoutV4, {.operation = NEURON_DMA_FMA}, 0), own);
  EXPECT_EQ(time_of(kLayoutV4, {.routed = true}, 0x1000), own) << "of another chip";
  const Sum widens{.to = NEURON_DTYPE_F32};
  EXPECT_EQ(time_of(kLayoutV4, widens, 0), time_of(kLayoutV3, widens, 0));
  const Sum two{.sources = 2};
  EXPECT_EQ(time_of(kLayoutV4, two, 0), time_of(kLayoutV3, two, 0));
  const Sum writes{.accumulate = false};
  EXPECT_EQ(time_of(kLayoutV4, writes, 0), time_of(kLayoutV3, writes, 0));
}

TEST(SbufReadAddWrite, ADescriptorTakesAsLongAsOneOfACopy) {
  PacketsOf sums(kLayoutV4);
  sums.source(NEURON_DESC_META | NEURON_DESC_FIRST,
              NEURON_DMA_ADD | NEURON_DTYPE_F32 << 4 | NEURON_DTYPE_F32 << 10 | 1u << 16, 0);
  for (unsigned n = 0; n < 4; ++n) {
    sums.source(64 | (n == 3 ? NEURON_DESC_LAST : 0),
                kCompute | NEURON_DMA_ADD << NEURON_META_TYPE_SHIFT, kSourceAt + n * 64);
  }
  sums.result(sums.layout().device_of(sums.layout().core_windows), 256);
  EXPECT_EQ(sums.time(1000), 4000U) << "metadata takes no time";
}

}  // namespace
}  // namespace neuron::chip
