// SPDX-License-Identifier: Apache-2.0
// Fuzz target of what a chip reads from memory and takes from anybody: rings, descriptors, register
// writes, the firmware's mailbox. Nothing may crash, hang or reach memory that was not mapped.
//
// An input is a list of commands: 1 byte command, 1 byte parameter, then operands. Rings and
// addresses are bent towards what is mapped, or nothing would get past the first check.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "driver/compression/stream.h"
#include "driver/emulator/chip/firmware_ram.h"
#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/chip/host_window.h"
#include "driver/emulator/chip/sdma_wrapper.h"
#include "driver/emulator/chip/semaphores.h"
#include "driver/emulator/chip/udma_engine.h"

namespace {

using namespace neuron::chip;

constexpr uint64_t kStack = 1 << 20;
constexpr size_t kHostBytes = 0x8000;
constexpr size_t kGuard = 0x1000;

class FuzzHost final : public HostMemory {
 public:
  FuzzHost() : memory(kGuard + kHostBytes + kGuard, std::byte{0xC5}) {}
  std::byte* translate(uint64_t address, size_t length) override {
    if (address >= kHostBytes || length > kHostBytes - address) return nullptr;
    return memory.data() + kGuard + address;
  }
  bool guards_intact() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (memory[i] != std::byte{0xC5}) return false;
      if (memory[kGuard + kHostBytes + i] != std::byte{0xC5}) return false;
    }
    return true;
  }
  std::vector<std::byte> memory;
};

// Partitions as of SBUF: rows with memory, and nothing behind them.
class FuzzSbuf final : public BusTarget {
 public:
  static constexpr size_t kPartitions = 8, kRow = 512;
  FuzzSbuf() : memory_(kPartitions * (kRow + kGap), std::byte{0xC5}) {}
  std::byte* direct(uint64_t offset, size_t length) override {
    const uint64_t partition = offset / NEURON_SBUF_PARTITION_STRIDE;
    const uint64_t at = offset % NEURON_SBUF_PARTITION_STRIDE;
    if (partition >= kPartitions || at >= kRow || length > kRow - at) return nullptr;
    return memory_.data() + partition * (kRow + kGap) + at;
  }
  bool read(uint64_t offset, std::span<std::byte> out, const Access&) override {
    const std::byte* from = direct(offset, out.size());
    if (from != nullptr) std::memcpy(out.data(), from, out.size());
    return from != nullptr;
  }
  bool write(uint64_t offset, std::span<const std::byte> in, const Access&) override {
    std::byte* to = direct(offset, in.size());
    if (to != nullptr) std::memcpy(to, in.data(), in.size());
    return to != nullptr;
  }
  bool guards_intact() const {
    for (size_t p = 0; p < kPartitions; ++p) {
      for (size_t i = 0; i < kGap; ++i) {
        if (memory_[p * (kRow + kGap) + kRow + i] != std::byte{0xC5}) return false;
      }
    }
    return true;
  }

 private:
  static constexpr size_t kGap = 64;
  std::vector<std::byte> memory_;
};

struct FuzzMachine final : FirmwareResets, DmaListener, SemaphoreListener {
  FuzzMachine() : window(host), errors(bus) {
    std::string error;
    hbm = Hbm::create(2, kStack, -1, host_placement(), error);
    if (hbm == nullptr) {
      std::fprintf(stderr, "%s\n", error.c_str());
      std::abort();
    }
    for (unsigned i = 0; i < 2; ++i) {
      bus.attach(i * NEURON_V2_HBM_STRIDE, kStack, &hbm->stack(i), "HBM");
    }
    bus.attach(NEURON_V2_HOST_BASE, NEURON_V2_HOST_SIZE, &window, "host memory");
    attach(NEURON_V2_CORE_WINDOW(0), FuzzSbuf::kPartitions * NEURON_SBUF_PARTITION_STRIDE, sbuf);
    attach(NEURON_V2_CORE_WINDOW(0) + NEURON_CORE_SEMAPHORES, NEURON_SEM_BLOCK_SIZE, semaphores);
    attach(NEURON_V2_CORE_NOTIFICATION(0), NotificationBlock::kBytes, errors);
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned index = i == 0 ? 0 : 32;
      wrappers[i] = std::make_unique<SdmaWrapper>(bus);
      engines[i] = std::make_unique<UdmaEngine>(index, bus, errors, wrappers[i]->notifications());
      engines[i]->set_listener(this);
      attach(NEURON_V2_UDMA(index), NEURON_UDMA_SIZE, *engines[i]);
      attach(NEURON_V2_SDMA(index), SdmaWrapper::kBytes, *wrappers[i]);
    }
    firmware = std::make_unique<FirmwareRam>(bus, *this, FirmwareIdentity{});
    attach(NEURON_V2_MISC_RAM, FirmwareRam::kBytes, *firmware);
    semaphores.set_listener(this);
  }
  void attach(uint64_t offset, uint64_t bytes, BusTarget& target) {
    bus.attach(NEURON_V2_BAR0_DEVICE_BASE + offset, bytes, &target, "registers");
  }
  void reset_device() override {
    for (auto& engine : engines) engine->reset();
    for (auto& wrapper : wrappers) wrapper->reset();
    errors.reset();
    semaphores.reset();
  }
  void reset_cores(uint32_t) override { engines[0]->reset(); }
  void dma_rung(unsigned, unsigned, const Access&) override {}
  void dma_faulted(const DmaFault& fault, const Access&) override {
    if (fault.code == NEURON_FAULT_NONE || fault.describe().empty()) std::abort();
  }
  void semaphore_changed(const SemaphoreChange& change, const Access&) override {
    if (change.after > NEURON_SEMAPHORE_MAX) std::abort();
  }
  void semaphore_refused(neuron_fault, const SemaphoreChange& change, const Access&) override {
    if (change.before != change.after) std::abort();
  }

  FuzzHost host;
  Bus bus;
  HostWindow window;
  std::unique_ptr<Hbm> hbm;
  NotificationBlock errors;
  SemaphoreBlock semaphores;
  FuzzSbuf sbuf;
  std::unique_ptr<SdmaWrapper> wrappers[2];
  std::unique_ptr<UdmaEngine> engines[2];
  std::unique_ptr<FirmwareRam> firmware;
};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool empty() const { return left_ == 0; }
  template <typename T>
  T take() {
    T value = 0;
    const size_t bytes = left_ < sizeof value ? left_ : sizeof value;
    std::memcpy(&value, data_, bytes);
    data_ += bytes;
    left_ -= bytes;
    return value;
  }
  // Mostly inside what is mapped, or just past its end.
  uint64_t address() {
    const uint64_t raw = take<uint64_t>();
    switch (raw >> 60 & 7) {
      case 0: {
        const uint64_t partition = raw >> 16 & 15;
        return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(0) +
               partition * NEURON_SBUF_PARTITION_STRIDE + raw % (FuzzSbuf::kRow + 16);
      }
      case 1:
        return raw % (kStack + 16);
      case 2:
        return NEURON_V2_HBM_STRIDE + raw % (kStack + 16);
      case 3:
        return NEURON_V2_HOST_BASE + raw % (kHostBytes + 16);
      case 4:
        return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_CORE_WINDOW(0) + NEURON_CORE_SEMAPHORES +
               raw % NEURON_SEM_BLOCK_SIZE;
      case 5:
        return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_UDMA(0) + raw % NEURON_UDMA_SIZE;
      case 6:
        return NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_MISC_RAM + raw % FirmwareRam::kBytes;
      default:
        return raw;
    }
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

void put_descriptor(FuzzMachine& machine, uint64_t address, uint64_t low, uint64_t high) {
  std::byte* to = machine.bus.direct(address, 16);
  if (to == nullptr) return;
  std::memcpy(to, &low, 8);
  std::memcpy(to + 8, &high, 8);
}

// A compute packet that is nearly right, from `slot` of a queue's rings on.
void put_compute(FuzzMachine& machine, Input& input, uint64_t m2s, uint64_t s2m, uint32_t slot) {
  const auto put = [&](uint64_t ring, uint32_t at, uint64_t low, uint64_t high) {
    put_descriptor(machine, ring + 16 * (at & 31), low, high);
  };
  const uint32_t shape = input.take<uint32_t>();
  const uint64_t operation = shape & 7;
  const bool transposes = operation == NEURON_DMA_TRANSPOSE;
  const unsigned from = shape >> 3 & 31;
  const unsigned to = transposes && (shape & 1 << 30) == 0 ? from : shape >> 8 & 31;
  const uint32_t sources = transposes || operation == NEURON_DMA_CAST ? 0 : shape >> 13 & 15;
  uint64_t low =
      NEURON_DESC_META | NEURON_DESC_FIRST | operation << NEURON_DMA_META_OPERATION_SHIFT |
      uint64_t{from} << NEURON_DMA_META_FROM_SHIFT | uint64_t{to} << NEURON_DMA_META_TO_SHIFT |
      uint64_t{sources} << NEURON_DMA_META_SOURCES_SHIFT;
  if (sources != 0 && (shape >> 17 & 1) != 0) low |= NEURON_DMA_META_ACC;
  if (!transposes && (shape >> 18 & 1) != 0) low |= NEURON_DMA_META_STOCHASTIC;
  if ((shape >> 26 & 15) == 0) low ^= input.take<uint64_t>();
  uint64_t high = 0;
  if (transposes) {
    high = uint64_t{1 + (shape >> 19 & 7)} << NEURON_DMA_META_ROWS_SHIFT |
           uint64_t{1 + (shape >> 22 & 7)} << NEURON_DMA_META_COLUMNS_SHIFT;
  } else if (operation == NEURON_DMA_FMA || operation >= NEURON_DMA_MIN) {
    high = input.take<uint32_t>();
  }
  put(m2s, slot, low, high);
  const uint32_t pieces = 1 + (shape >> 31) + sources;
  const uint32_t bytes = input.take<uint16_t>() & 0x3FF;
  for (uint32_t n = 0; n < pieces; ++n) {
    const uint32_t meta = NEURON_META_OP_COMPUTE << NEURON_META_OP_SHIFT | 1u << 19 |
                          static_cast<uint32_t>(operation) << NEURON_META_TYPE_SHIFT;
    put(m2s, ++slot, bytes | (n + 1 == pieces ? NEURON_DESC_LAST : 0) | uint64_t{meta} << 32,
        input.address());
  }
  for (uint32_t n = 0; n < 8; ++n) put(s2m, n, 64u << (shape >> 24 & 3), input.address());
}

// A packet that compresses, or decompresses a stream that is right but for a byte now and then,
// from `slot` of a queue's rings on.
void put_recode(FuzzMachine& machine, Input& input, uint64_t m2s, uint64_t s2m, uint32_t slot) {
  const auto put = [&](uint64_t ring, uint32_t at, uint64_t low, uint64_t high) {
    put_descriptor(machine, ring + 16 * (at & 31), low, high);
  };
  const uint32_t shape = input.take<uint32_t>();
  const bool compresses = (shape & 1) != 0;
  const uint64_t operation = compresses ? NEURON_DMA_COMPRESS : NEURON_DMA_DECOMPRESS;
  const uint32_t content_bytes = 1 + (shape >> 1 & 0x3FF);
  std::vector<uint8_t> stream = neuron::compression::compress(
      std::vector<uint8_t>(content_bytes, static_cast<uint8_t>(shape >> 11)));
  if ((shape >> 19 & 3) == 0) stream[shape >> 21 & 15] ^= input.take<uint8_t>();
  const uint64_t source = 0x8000 + (shape >> 25 & 15);
  machine.bus.write(source, std::as_bytes(std::span(stream)), Access{});
  const uint64_t result = (shape >> 29 & 1) != 0 ? input.take<uint16_t>() : content_bytes;
  put(m2s, slot,
      NEURON_DESC_META | NEURON_DESC_FIRST | operation << NEURON_DMA_META_OPERATION_SHIFT, result);
  const uint32_t meta = NEURON_META_OP_RECODE << NEURON_META_OP_SHIFT | 1u << 19 |
                        static_cast<uint32_t>(operation & 7) << NEURON_META_TYPE_SHIFT;
  const uint64_t first = (shape >> 30 & 1) != 0 ? input.address() : source;
  put(m2s, ++slot, 12 | uint64_t{meta} << 32, first);
  put(m2s, ++slot, (stream.size() - 12) | NEURON_DESC_LAST | uint64_t{meta} << 32, source + 12);
  for (uint32_t n = 0; n < 8; ++n) put(s2m, n, 64u << (shape >> 23 & 3), input.address());
}

void run(FuzzMachine& machine, Input& input) {
  constexpr uint64_t kRings[] = {0x1000, NEURON_V2_HOST_BASE + 0x1000};
  const uint8_t command = input.take<uint8_t>();
  const uint8_t parameter = input.take<uint8_t>();
  const unsigned which = parameter & 1;
  const bool s2m = (parameter & 2) != 0;
  const unsigned queue = parameter >> 2 & 3;
  Access access;
  access.origin = static_cast<Origin>((parameter >> 4) % 3);
  const uint64_t base = NEURON_V2_BAR0_DEVICE_BASE + NEURON_V2_UDMA(which == 0 ? 0 : 32) +
                        NEURON_UDMA_QUEUE(s2m ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, queue);
  const uint64_t ring = kRings[parameter >> 6 & 1] + (s2m ? 0x800 : 0) + 0x1000 * queue;
  switch (command % 8) {
    case 0:  // set a queue up, both ways in one go is two commands
      machine.bus.write32(base + (s2m ? NEURON_UDMAQ_S2M_SW_CONTROL : NEURON_UDMAQ_M2S_SW_CONTROL),
                          NEURON_UDMAQ_SW_RESET, access);
      machine.bus.write32(base + NEURON_UDMAQ_BASE_LO, static_cast<uint32_t>(ring), access);
      machine.bus.write32(base + NEURON_UDMAQ_BASE_HI, static_cast<uint32_t>(ring >> 32), access);
      machine.bus.write32(base + NEURON_UDMAQ_LENGTH, 32 + (command >> 3), access);
      machine.bus.write32(base + NEURON_UDMAQ_CFG, NEURON_UDMAQ_CFG_RUNNING, access);
      break;
    case 1: {  // a descriptor
      const uint32_t slot = input.take<uint8_t>() & 63;
      uint32_t control = input.take<uint32_t>();
      const uint32_t meta = (command & 0x80) != 0 ? input.take<uint32_t>()
                            : s2m                 ? 0
                                                  : NEURON_META_DEFAULT;
      if ((command & 0x40) != 0) control |= NEURON_DESC_FIRST | NEURON_DESC_LAST;
      if ((command & 0x20) != 0) control &= ~NEURON_DESC_META;
      const uint64_t address = input.address();
      std::byte* to = machine.bus.direct(ring + 16 * slot, 16);
      if (to == nullptr) break;
      std::memcpy(to, &control, 4);
      std::memcpy(to + 4, &meta, 4);
      std::memcpy(to + 8, &address, 8);
      break;
    }
    case 2:  // a doorbell; rarely a wild one
      machine.bus.write32(base + NEURON_UDMAQ_TAIL_INC,
                          (command & 0xF8) == 0xF8 ? input.take<uint32_t>() : command >> 3, access);
      break;
    case 3: {  // the execution group takes a run
      const DmaRun next = machine.engines[which]->next_run(queue, 1 + (command >> 3));
      (void)machine.engines[which]->execute_run(queue, next.packets, access);
      break;
    }
    case 4:  // any register or memory word
      machine.bus.write32(input.address(), input.take<uint32_t>(), access);
      break;
    case 5: {
      uint32_t value;
      machine.bus.read32(input.address(), value, access);
      break;
    }
    case 6:
      machine.engines[which]->accept_engine_doorbells();
      if ((command & 0x80) != 0) {
        const uint64_t m2s = kRings[parameter >> 6 & 1] + 0x1000 * queue;
        const auto put = (parameter & 2) != 0 ? put_recode : put_compute;
        put(machine, input, m2s, m2s + 0x800, command >> 3 & 15);
      } else {  // strict mode asks who will write a byte
        (void)machine.engines[which]->pending_write(queue, input.address());
      }
      break;
    default: {  // a burst
      std::vector<std::byte> bytes(input.take<uint8_t>());
      for (std::byte& byte : bytes) byte = std::byte{input.take<uint8_t>()};
      machine.bus.write(input.address(), bytes, access);
      break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static FuzzMachine machine;
  machine.reset_device();
  Input input(data, size < 4096 ? size : 4096);
  while (!input.empty()) run(machine, input);
  if (!machine.host.guards_intact() || !machine.sbuf.guards_intact()) std::abort();
  return 0;
}
