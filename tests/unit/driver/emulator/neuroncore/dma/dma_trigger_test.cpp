// SPDX-License-Identifier: Apache-2.0
// DMA from programs: doorbells, +16 semaphores, drain, model time, faults.
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"
#include "tests/unit/driver/emulator/neuroncore/short_names.h"

namespace neuron::core {
namespace {

constexpr uint64_t kConstantOne =
    kData + 0x100000;  // constant 1 that transfers copy to a semaphore
constexpr uint16_t kAll = 0xFFFF;

class DmaTrigger : public CoreMachine {
 protected:
  void SetUp() override {
    CoreMachine::SetUp();
    const uint32_t one = 1;
    std::memcpy(memory(kConstantOne, 4), &one, 4);
  }
  // Queue `queue` of all 16 engines: 8 partitions each, `bytes` per partition, then the semaphore.
  void prepare(unsigned queue, bool to_sbuf, uint32_t sbuf_at, uint64_t hbm, uint32_t bytes,
               unsigned semaphore) {
    for (unsigned e = 0; e < 16; ++e) {
      set_up_queue(e, queue);
      for (unsigned r = 0; r < 8; ++r) {
        const unsigned partition = e * 8 + r;
        const uint64_t outside = hbm + partition * bytes;
        const uint64_t inside = sbuf_address(partition, sbuf_at);
        add_copy(e, queue, r, to_sbuf ? outside : inside, to_sbuf ? inside : outside, bytes,
                 r == 7);
      }
      add_copy(e, queue, 8, kConstantOne, semaphore_increment(semaphore), 4);
    }
  }
  static Instruction wait_for(unsigned semaphore, unsigned value) {
    Instruction i = inst(NEURON_OP_EVENT);
    i.wait[0] = wait_ge(semaphore, value);
    return i;
  }
};

TEST_F(DmaTrigger, MovesATensorInAndOutAndCountsSixteenPerTransfer) {
  constexpr uint32_t kBytes = 512;
  auto* words = reinterpret_cast<uint32_t*>(memory(kData, 128 * kBytes));
  for (uint32_t i = 0; i < 128 * kBytes / 4; ++i) words[i] = i * 2654435761u;
  prepare(0, true, 0x400, kData, kBytes, 20);
  prepare(1, false, 0x400, kData + 0x20000, kBytes, 21);
  load_and_run(kSp, {trigger(0, kAll, 9), wait_for(20, 16), trigger(1, kAll, 9), wait_for(21, 16),
                     inst(NEURON_OP_HALT)});
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED);
  EXPECT_EQ(semaphore(20), 16u);
  EXPECT_EQ(semaphore(21), 16u);
  EXPECT_EQ(
      std::memcmp(memory(kData, 128 * kBytes), memory(kData + 0x20000, 128 * kBytes), 128 * kBytes),
      0);
  // Two transfers: trigger, 1.3 us to the first byte, 9 descriptors per engine, whose bytes pass in
  // less time than a descriptor takes.
  const uint64_t transfer = 1'300'000 + 9 * uint64_t{82'000};
  const uint64_t instructions = 5 * 45'714 + 2 * 32 * 714;
  // A descriptor's time is counted in whole bytes: up to 59 ps each less.
  EXPECT_GT(time(), 2 * (transfer - 9 * 59));
  EXPECT_LT(time(), 2 * transfer + instructions + 2 * 50'000);
}

TEST_F(DmaTrigger, DrainWaitsForTheEnginesOwnTransfers) {
  prepare(0, true, 0, kData, 4096, 20);
  Instruction drained = inst(NEURON_OP_NOP);
  drained.drain = true;
  Instruction sem = inst(NEURON_OP_SEM);
  sem.scalar0 = number(20);
  sem.flow.rd = 1;
  load_and_run(kSp, {trigger(0, kAll, 9), drained, sem, inst(NEURON_OP_HALT)});
  EXPECT_EQ(register_of(kSp, 1), 16u);
}

TEST_F(DmaTrigger, SharesAnEngineBetweenQueuesInTurn) {
  // One engine, two queues of 8 packets: served in turn, both end about when both are done.
  for (unsigned queue = 0; queue < 2; ++queue) {
    set_up_queue(0, queue);
    for (unsigned r = 0; r < 8; ++r) {
      add_copy(0, queue, r, kData + r * 4096, sbuf_address(r, queue * 0x2000), 4096, r == 7);
    }
    add_copy(0, queue, 8, kConstantOne, semaphore_increment(20 + queue), 4);
  }
  Instruction when = inst(NEURON_OP_TIME);
  Instruction first = when;
  first.wait[0] = wait_ge(20, 1);
  first.flow.rd = 2;
  Instruction second = when;
  second.wait[0] = wait_ge(21, 1);
  second.flow.rd = 4;
  load_and_run(kSp, {trigger(0, 1, 9), trigger(1, 1, 9), first, second, inst(NEURON_OP_HALT)});
  const uint64_t packet = 50'000 + 4096ull * 10'000 / 272;
  EXPECT_GT(register_of(kSp, 2), 1'300'000 + 15 * packet);
  EXPECT_LT(register_of(kSp, 4) - register_of(kSp, 2), packet + 200'000);
}

TEST_F(DmaTrigger, ReplaysARingThatTheProgramRewinds) {
  prepare(0, true, 0, kData, 64, 20);
  const uint64_t m2s = NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_UDMA(0) +
                       NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 0) + NEURON_UDMAQ_M2S_SW_CONTROL;
  const uint64_t s2m = NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_UDMA(0) +
                       NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, 0) + NEURON_UDMAQ_S2M_SW_CONTROL;
  load_and_run(kSp, {loop(1, 0, 5, 1, 4), write_word(m2s, NEURON_UDMAQ_SW_RESET, 16, 0x40000),
                     write_word(s2m, NEURON_UDMAQ_SW_RESET, 16, 0x40000), trigger(0, kAll, 9),
                     inst(NEURON_OP_DRAIN), inst(NEURON_OP_HALT)});
  EXPECT_EQ(state(kSp), NEURON_STATE_HALTED) << chip_->describe_core(0);
  EXPECT_EQ(semaphore(20), 80u);
}

TEST_F(DmaTrigger, GivesTheSameTimesOnEveryRun) {
  prepare(0, true, 0, kData, 1024, 20);
  std::vector<uint64_t> times;
  for (int n = 0; n < 3; ++n) {
    set_core(NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_SET + 4 * 20, 0);
    for (unsigned e = 0; e < 16; ++e) {
      set_core(
          NEURON_V2_UDMA(e) + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, 0) + NEURON_UDMAQ_M2S_SW_CONTROL,
          NEURON_UDMAQ_SW_RESET);
      set_core(
          NEURON_V2_UDMA(e) + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, 0) + NEURON_UDMAQ_S2M_SW_CONTROL,
          NEURON_UDMAQ_SW_RESET);
      set_up_queue(e, 0);
    }
    load_and_run(kSp, {trigger(0, kAll, 9), wait_for(20, 16), inst(NEURON_OP_HALT)});
    ASSERT_EQ(state(kSp), NEURON_STATE_HALTED) << chip_->describe_core(0);
    times.push_back(time());
  }
  EXPECT_EQ(times[0], times[1]);
  EXPECT_EQ(times[0], times[2]);
}

TEST_F(DmaTrigger, ADescriptorThatPointsNowhereStopsTheProgramThatRangIt) {
  prepare(0, true, 0, kData, 64, 20);
  add_copy(3, 0, 2, 0xABCDEF0000, sbuf_address(0, 0), 64);
  set_up_ring(NEURON_NQ_SLOT_ERROR, kErrors);
  load_and_run(kSp,
               {inst(NEURON_OP_NOP), trigger(0, kAll, 9), wait_for(20, 16), inst(NEURON_OP_HALT)});
  EXPECT_EQ(state(kSp), NEURON_STATE_FAULT);
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_DMA_BUS});
  EXPECT_EQ(get(kSp, NEURON_ENG_EXC_PC), 1u) << "the trigger, not the wait behind it";
  EXPECT_EQ(get(kSp, NEURON_ENG_EXC_ADDR_LO), 0xCDEF0000u);
  EXPECT_EQ(get(kSp, NEURON_ENG_EXC_INFO), 3u << 8);
  EXPECT_EQ(record(kSp).status, unsigned{NEURON_FAULT_DMA_BUS});
  EXPECT_NE(core_register(NEURON_CORE_CONTROL + NEURON_CORE_FAULTS) & 1u << 8, 0u);
}

TEST_F(DmaTrigger, ADoorbellOutsideTheChipIsABusFault) {
  Instruction bad = trigger(0, 1, 1);
  bad.trigger.s2m = 0xABCDEF0000;
  load_and_run(kSp, {bad, inst(NEURON_OP_HALT)});
  EXPECT_EQ(fault(kSp), unsigned{NEURON_FAULT_BUS});
}

}  // namespace
}  // namespace neuron::core
