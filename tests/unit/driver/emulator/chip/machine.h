// SPDX-License-Identifier: Apache-2.0
// A small machine around one DMA engine, for tests: two stacks of HBM, host memory, one block of
// semaphores, one memory-less register page, and helpers that write rings as a driver would.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_CHIP_MACHINE_H
#define TESTS_UNIT_DRIVER_EMULATOR_CHIP_MACHINE_H

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/chip/host_window.h"
#include "driver/emulator/chip/sdma_wrapper.h"
#include "driver/emulator/chip/semaphores.h"
#include "driver/emulator/chip/udma_engine.h"

namespace neuron::chip {

// Device addresses, the descriptors of a ring, and what freed memory of the host is filled with.
inline constexpr uint64_t kFrom = 0x1000000, kTo = 0x2000000;
inline constexpr uint32_t kRing = 256;
inline constexpr std::byte kFreed{0xA5};

class TestHost final : public HostMemory {
 public:
  std::byte* add(uint64_t address, size_t bytes) {
    auto& memory = ranges_[address];
    memory.resize(bytes);
    return memory.data();
  }
  void remove(uint64_t address) { ranges_.erase(address); }
  std::byte* translate(uint64_t address, size_t length) override {
    auto next = ranges_.upper_bound(address);
    if (next == ranges_.begin()) return nullptr;
    --next;
    const uint64_t offset = address - next->first;
    if (offset >= next->second.size() || length > next->second.size() - offset) return nullptr;
    return next->second.data() + offset;
  }

 private:
  std::map<uint64_t, std::vector<std::byte>> ranges_;
};

class Listener final : public DmaListener, public SemaphoreListener {
 public:
  void dma_rung(unsigned engine, unsigned queue, const Access& access) override {
    rung.push_back({engine, queue, access});
  }
  void dma_faulted(const DmaFault& fault, const Access&) override { faults.push_back(fault); }
  void semaphore_changed(const SemaphoreChange& change, const Access& access) override {
    changes.push_back(change);
    times.push_back(access.time);
  }
  void semaphore_refused(neuron_fault fault, const SemaphoreChange& change,
                         const Access&) override {
    refused.push_back(fault);
    changes.push_back(change);
  }
  struct Rung {
    unsigned engine;
    unsigned queue;
    Access access;
  };
  std::vector<Rung> rung;
  std::vector<DmaFault> faults;
  std::vector<SemaphoreChange> changes;
  std::vector<ModelTime> times;
  std::vector<neuron_fault> refused;
};

struct Machine {
  static constexpr uint64_t kStack = uint64_t{64} << 20;
  static constexpr uint64_t kRingM2s = 0x100000;
  static constexpr uint64_t kRingS2m = 0x200000;
  static constexpr uint64_t kSemaphores =
      NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(0) + NEURON_CORE_SEMAPHORES;

  explicit Machine(unsigned engine_index = 0)
      : index(engine_index),
        window(host),
        hbm(Hbm::create(2, kStack, -1, host_placement(), error)),
        errors(bus),
        wrapper(bus),
        engine(engine_index, bus, errors, wrapper.notifications()) {
    for (unsigned i = 0; i < 2; ++i) {
      bus.attach(i * NEURON_V2_HBM_STRIDE, kStack, &hbm->stack(i), i == 0 ? "HBM 0" : "HBM 1");
    }
    bus.attach(NEURON_V2_HOST_BASE, NEURON_V2_HOST_SIZE, &window, "host memory");
    bus.attach(kSemaphores, NEURON_SEM_BLOCK_SIZE, &semaphores, "semaphores");
    bus.attach(base(), NEURON_UDMA_SIZE, &engine, "engine");
    bus.seal();
    engine.set_listener(&listener);
    semaphores.set_listener(&listener);
  }

  uint64_t base() const { return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_UDMA(index); }
  uint64_t queue_register(unsigned queue, bool s2m, unsigned reg) const {
    return base() + NEURON_UDMA_QUEUE(s2m ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, queue) + reg;
  }
  void write(uint64_t address, uint32_t value, Origin origin = Origin::kHost, ModelTime time = 0) {
    Access access;
    access.origin = origin;
    access.time = time;
    ASSERT_TRUE(bus.write32(address, value, access)) << std::hex << address;
  }
  uint32_t read(uint64_t address) {
    uint32_t value = 0xEEEEEEEE;
    EXPECT_TRUE(bus.read32(address, value, Access{})) << std::hex << address;
    return value;
  }
  void set(unsigned queue, bool s2m, unsigned reg, uint32_t value, Origin origin = Origin::kHost) {
    write(queue_register(queue, s2m, reg), value, origin);
  }
  uint32_t get(unsigned queue, bool s2m, unsigned reg) {
    return read(queue_register(queue, s2m, reg));
  }
  // Queue initialisation in the public driver's order.
  void init(unsigned queue, uint32_t length, uint64_t m2s = kRingM2s, uint64_t s2m = kRingS2m) {
    set(queue, false, NEURON_UDMAQ_M2S_RATE_LIMIT, 3);
    for (const bool half : {false, true}) {
      const uint64_t ring = half ? s2m : m2s;
      set(queue, half, NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RESET);
      reset(queue, half);
      set(queue, half, NEURON_UDMAQ_BASE_LO, static_cast<uint32_t>(ring));
      set(queue, half, NEURON_UDMAQ_BASE_HI, static_cast<uint32_t>(ring >> 32));
      set(queue, half, NEURON_UDMAQ_LENGTH, length);
      set(queue, half, half ? NEURON_UDMAQ_S2M_CMPL_CFG : NEURON_UDMAQ_M2S_CMPL_CFG, 0);
      set(queue, half, NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RUNNING);
    }
    // As after the START that follows the set-up of a program's queues.
    engine.accept_engine_doorbells();
  }
  void reset(unsigned queue, bool s2m, Origin origin = Origin::kHost) {
    set(queue, s2m, s2m ? NEURON_UDMAQ_S2M_SW_CONTROL : NEURON_UDMAQ_M2S_SW_CONTROL,
        NEURON_UDMAQ_SW_RESET, origin);
  }
  void descriptor(uint64_t ring, uint32_t slot, uint32_t control, uint32_t meta, uint64_t address) {
    std::byte* to = bus.direct(ring + 16 * uint64_t{slot}, 16);
    ASSERT_NE(to, nullptr);
    std::memcpy(to, &control, 4);
    std::memcpy(to + 4, &meta, 4);
    std::memcpy(to + 8, &address, 8);
  }
  void source(uint32_t slot, uint64_t address, uint32_t bytes,
              uint32_t flags = NEURON_DESC_FIRST | NEURON_DESC_LAST, uint32_t ring_id = 1,
              uint32_t meta = NEURON_META_DEFAULT) {
    descriptor(kRingM2s, slot,
               (bytes & NEURON_DESC_LENGTH_MASK) | ring_id << NEURON_DESC_RING_ID_SHIFT | flags,
               meta, address);
  }
  void destination(uint32_t slot, uint64_t address, uint32_t bytes, uint32_t flags = 0,
                   uint32_t ring_id = 1) {
    descriptor(kRingS2m, slot,
               (bytes & NEURON_DESC_LENGTH_MASK) | ring_id << NEURON_DESC_RING_ID_SHIFT | flags, 0,
               address);
  }
  void copy(uint32_t slot, uint64_t from, uint64_t to, uint32_t bytes) {
    source(slot, from, bytes);
    destination(slot, to, bytes);
  }
  void ring(unsigned queue, uint32_t s2m, uint32_t m2s, Origin origin = Origin::kHost) {
    if (s2m != 0) set(queue, true, NEURON_UDMAQ_TAIL_INC, s2m, origin);
    if (m2s != 0) set(queue, false, NEURON_UDMAQ_TAIL_INC, m2s, origin);
  }
  std::byte* memory(uint64_t address, size_t bytes = 1) { return bus.direct(address, bytes); }
  void fill(uint64_t address, size_t bytes, unsigned seed) {
    std::byte* to = bus.direct(address, bytes);
    ASSERT_NE(to, nullptr);
    for (size_t i = 0; i < bytes; ++i) {
      seed = seed * 1664525 + 1013904223;
      to[i] = std::byte(seed >> 24);
    }
  }
  bool equal(uint64_t a, uint64_t b, size_t bytes) {
    return std::memcmp(bus.direct(a, bytes), bus.direct(b, bytes), bytes) == 0;
  }

  unsigned index;
  std::string error;
  TestHost host;
  Bus bus;
  HostWindow window;
  std::unique_ptr<Hbm> hbm;
  NotificationBlock errors;
  SdmaWrapper wrapper;
  SemaphoreBlock semaphores;
  UdmaEngine engine;
  Listener listener;
};

}  // namespace neuron::chip

#endif
