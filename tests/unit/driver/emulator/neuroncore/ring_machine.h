// SPDX-License-Identifier: Apache-2.0
// Cores that pass data round in a ring with their CC cores, for tests: every member has a chip (or
// a core) of its own, a resident SP program and a resident program of CC core 0.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_RING_MACHINE_H
#define TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_RING_MACHINE_H

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "driver/emulator/chip/fabric.h"
#include "driver/emulator/neuroncore/chip_factory.h"
#include "tests/unit/driver/emulator/neuroncore/core_machine.h"

namespace neuron::core {

inline Instruction cc(Instruction i) {
  i.engines = 1 << NEURON_ENGINE_CC;
  return i;
}
inline Instruction wait_and_take(unsigned semaphore, unsigned count = 1) {
  Instruction i = inst(NEURON_OP_EVENT);
  i.wait[0] = wait_ge(semaphore, count);
  i.update[0] = update(NEURON_UPDATE_SUB, semaphore, false, count);
  return i;
}

class RingMachine {
 public:
  static constexpr unsigned kArrived = 16;  // of the CC core: a block has come
  static constexpr uint32_t kLength = 64;   // descriptors of a ring
  static constexpr uint64_t kOne = 0x1200000;
  static constexpr uint64_t kFrom = 0x2000000;
  static constexpr uint64_t kTo = 0x2800000;
  // Of each member: code, records and rings of core c lie c * kCoreStride higher.
  static constexpr uint64_t kCoreStride = 0x400000;

  struct Member {
    chip::Chip* chip = nullptr;
    unsigned core = 0;
    uint64_t base = 0;  // by which others reach it
  };

  // `chips` of one core each in a ring of links, or one chip with `cores` cores.
  RingMachine(unsigned chips, unsigned cores, chip::LinkTiming timing, unsigned workers = 1) {
    std::vector<chip::FabricNode> nodes;
    for (unsigned n = 0; n < chips; ++n) {
      nodes.push_back({n, {}});
      const unsigned next = (n + 1) % chips;
      const unsigned before = (n + chips - 1) % chips;
      if (next != n) nodes[n].neighbours.push_back(next);
      if (before != next) nodes[n].neighbours.push_back(before);
    }
    fabric_ = std::make_unique<chip::Fabric>(nodes, timing);
    for (unsigned n = 0; n < chips; ++n) {
      chip::ChipConfig config;
      config.index = config.routing_id = n;
      config.hbm_bytes_each = 64u << 20;
      config.workers = workers;
      config.fabric = fabric_.get();
      std::string error;
      chips_.push_back(core::create_chip(config, host_, error));
      for (unsigned c = 0; c < cores; ++c) {
        members_.push_back({chips_.back().get(), c, NEURON_V2_PEER(n)});
      }
    }
  }
  ~RingMachine() {
    for (unsigned n = 0; n < chips_.size(); ++n) fabric_->detach(n);
    for (auto& chip : chips_) chip->reset(0);
  }

  // Programs that pass `blocks` blocks of `bytes` on to the next member at each launch. While the
  // CC core works, SP executes `busy` instructions.
  void load(unsigned blocks, uint32_t bytes, unsigned busy = 0, unsigned queue = 15) {
    for (unsigned n = 0; n < members_.size(); ++n) {
      const Member& me = members_[n];
      const Member& next = members_[(n + 1) % members_.size()];
      put_word(me, kOne, 1);
      std::vector<Instruction> sp = {wait_and_take(NEURON_SEM_LAUNCH)};
      Instruction ask = write_word(topsp(me, 0) + NEURON_SEM_BLOCK_INC, 1);
      ask.opcode = NEURON_OP_CC_TRIGGER;
      sp.push_back(ask);
      if (busy != 0) {
        sp.push_back(loop(0, 0, busy, 1, 1));
        sp.push_back(inst(NEURON_OP_NOP));
      }
      sp.push_back(wait_and_take(NEURON_SEM_CC_DONE(0)));
      Instruction complete = inst(NEURON_OP_COMPLETE);
      sp.push_back(complete);
      sp.push_back(branch(-static_cast<int>(sp.size())));

      std::vector<Instruction> pass = {wait_and_take(NEURON_CC_SEM_GO)};
      if (blocks != 0) {
        pass.push_back(loop(0, 0, blocks, 1, 2));
        Instruction push = CoreTrigger::trigger(queue, 1, 2);
        const uint64_t engine = NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_UDMA(me.core * 16);
        push.trigger.m2s =
            engine + NEURON_UDMA_QUEUE(NEURON_UDMA_M2S, queue) + NEURON_UDMAQ_TAIL_INC;
        push.trigger.s2m =
            engine + NEURON_UDMA_QUEUE(NEURON_UDMA_S2M, queue) + NEURON_UDMAQ_TAIL_INC;
        pass.push_back(push);
        pass.push_back(wait_and_take(kArrived));
      }
      pass.push_back(write_word(semaphore_inc(me, NEURON_SEM_CC_DONE(0)), 1));
      pass.push_back(branch(-static_cast<int>(pass.size())));
      for (Instruction& i : pass) i = cc(i);

      rings(me, next, bytes, queue);
      start(me, core_window(me) + NEURON_CORE_ENGINE(NEURON_ENGINE_SP), 0, sp);
      start(me, topsp(me, 0) + NEURON_CC_ENGINE, 1, pass);
    }
    for (const Member& me : members_) (void)run(me);
  }

  void launch(const Member& me, bool inline_run = true) {
    me.chip->write_register(NEURON_V2_CORE_WINDOW(me.core) + NEURON_CORE_SEMAPHORES +
                                NEURON_SEM_BLOCK_INC + 4 * NEURON_SEM_LAUNCH,
                            1, inline_run);
  }
  chip::RunResult run(const Member& me, int milliseconds = 5000) {
    return me.chip->run_group(
        me.core, std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds));
  }
  neuron_completion_record record(const Member& me) {
    neuron_completion_record r;
    std::memcpy(&r, memory(me, record_at(me), sizeof r), sizeof r);
    return r;
  }
  unsigned completions(const Member& me) {
    auto* r = reinterpret_cast<neuron_completion_record*>(memory(me, record_at(me), 64));
    return std::atomic_ref<unsigned>(r->sequence).load(std::memory_order_acquire);
  }
  std::byte* memory(const Member& me, uint64_t address, size_t bytes) {
    return me.chip->hbm().direct(address, bytes);
  }
  void put_word(const Member& me, uint64_t address, uint32_t value) {
    std::memcpy(memory(me, address, 4), &value, 4);
  }
  static uint64_t core_window(const Member& me) {
    return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(me.core);
  }
  static uint64_t semaphore_inc(const Member& me, unsigned index) {
    return core_window(me) + NEURON_CORE_SEMAPHORES + NEURON_SEM_BLOCK_INC + 4 * index;
  }
  static uint64_t topsp(const Member& me, unsigned k) {
    return NEURON_V2_BAR0_DEVICE_BASE +
           NEURON_V2_TOPSP_WINDOW(me.core * NEURON_V2_TOPSPS_PER_CORE + k);
  }
  static uint64_t data_from(const Member& me) { return kFrom + me.core * kCoreStride; }
  static uint64_t data_to(const Member& me) { return kTo + me.core * kCoreStride; }
  static uint64_t record_at(const Member& me) { return kDone + me.core * kCoreStride; }

  // One 64-byte write, as a driver's DMA makes it.
  void start(const Member& me, uint64_t block, unsigned number,
             const std::vector<Instruction>& program) {
    const uint64_t code = kCode + me.core * kCoreStride + number * 0x10000;
    place_at(memory(me, code, program.size() * NEURON_INSTRUCTION_BYTES), program,
             number == 0 ? NEURON_ENGINE_SP : NEURON_ENGINE_CC, 2);
    std::array<uint32_t, 16> words{};
    words[NEURON_ENG_PROG_LO / 4] = static_cast<uint32_t>(code);
    words[NEURON_ENG_PROG_COUNT / 4] = static_cast<uint32_t>(program.size());
    words[NEURON_ENG_PREFETCH / 4] = 32;
    words[NEURON_ENG_DONE_LO / 4] = number == 0 ? static_cast<uint32_t>(record_at(me)) : 0;
    words[NEURON_ENG_CONTROL / 4] = NEURON_CMD_START;
    const auto bytes = std::as_bytes(std::span(words));
    ASSERT_TRUE(me.chip->bus().write(block, bytes, {}));
  }
  uint32_t cc_register(const Member& me, unsigned k, uint32_t at) {
    return me.chip->read_register(NEURON_V2_TOPSP_WINDOW(me.core * 3 + k) + NEURON_CC_ENGINE + at);
  }

  chip::Fabric& fabric() { return *fabric_; }
  const std::vector<Member>& members() const { return members_; }

 private:
  struct CoreTrigger : CoreMachine {
    using CoreMachine::trigger;
  };

  // A data block and a count for who gets it, again and again.
  void rings(const Member& me, const Member& next, uint32_t bytes, unsigned queue) {
    const uint64_t base = kRings + me.core * kCoreStride;
    for (const bool s2m : {false, true}) {
      const uint64_t ring = base + (s2m ? 0x1000 : 0);
      for (uint32_t n = 0; n < kLength; ++n) {
        const bool data = n % 2 == 0;
        const uint64_t address =
            !s2m ? (data ? data_from(me) : kOne)
                 : next.base + (data ? data_to(next)
                                     : topsp(next, 0) + NEURON_SEM_BLOCK_INC + 4 * kArrived);
        const uint32_t length = data ? bytes & NEURON_DESC_LENGTH_MASK : 4;
        const uint32_t words[4] = {length | NEURON_DESC_FIRST | NEURON_DESC_LAST | 1u << 24,
                                   s2m ? 0 : NEURON_META_DEFAULT, static_cast<uint32_t>(address),
                                   static_cast<uint32_t>(address >> 32)};
        std::memcpy(memory(me, ring + n * 16, 16), words, 16);
      }
      const uint64_t q = NEURON_V2_UDMA(me.core * 16) +
                         NEURON_UDMA_QUEUE(s2m ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, queue);
      me.chip->write_register(q + NEURON_UDMAQ_BASE_LO, static_cast<uint32_t>(ring));
      me.chip->write_register(q + NEURON_UDMAQ_LENGTH, kLength);
      me.chip->write_register(q + NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RUNNING);
    }
  }

  NoHostMemory host_;
  std::unique_ptr<chip::Fabric> fabric_;
  std::vector<std::unique_ptr<chip::Chip>> chips_;
  std::vector<Member> members_;
};

}  // namespace neuron::core

#endif
