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
#include <string>
#include <vector>

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
    firmware = std::make_unique<FirmwareRam>(bus, *this, 0, 0);
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
      case 0:
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
  if (!machine.host.guards_intact()) std::abort();
  return 0;
}
