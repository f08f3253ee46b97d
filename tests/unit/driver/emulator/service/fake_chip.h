// SPDX-License-Identifier: Apache-2.0
// A chip for tests of the service: registers in a map, a DMA interpreter of thirty lines that
// checks ring ids, and switches that make it fail. HBM is the real one, small.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_SERVICE_FAKE_CHIP_H
#define TESTS_UNIT_DRIVER_EMULATOR_SERVICE_FAKE_CHIP_H

#include <cstring>
#include <map>
#include <mutex>

#include "driver/emulator/chip/chip.h"
#include "driver/emulator/chip/hbm.h"
#include "driver/emulator/service/instance.h"
#include "driver/emulator/service/session.h"
#include "hw/udma.h"

namespace neuron::service {

// What a test wants the next chips to do, and what they saw.
struct FakeBehaviour {
  bool reset_never_finishes = false;
  bool lose_markers = false;
  uint64_t hbm_bytes = uint64_t{16} << 30;
  uint64_t ring_id_errors = 0;
  uint64_t doorbells = 0;
  uint64_t packets = 0;
  std::vector<uint64_t> writes;  // offsets, in order, when `record`
  bool record = false;
  std::function<chip::RunResult()> run;       // of run_group
  std::function<void(uint64_t)> before_read;  // of the register at an offset
};

class FakeChip final : public chip::Chip {
 public:
  FakeChip(const chip::ChipConfig& config, chip::HostMemory& host, FakeBehaviour& behaviour)
      : config_(config), host_(host), behaviour_(behaviour) {
    config_.hbm_bytes_each = behaviour.hbm_bytes;
    std::string error;
    hbm_ = chip::Hbm::create(config_.hbm_count, config_.hbm_bytes_each, -1, chip::host_placement(),
                             error);
  }

  uint32_t read_register(uint64_t offset) override {
    if (behaviour_.before_read) behaviour_.before_read(offset);
    const std::lock_guard lock(mutex_);
    if (offset == NEURON_V2_MISC_RAM + NEURON_FW_ROUTING_ID) return config_.routing_id;
    const uint64_t in_half = offset % NEURON_UDMA_S2M;
    if (offset >= NEURON_V2_APB && offset < NEURON_V2_MISC_RAM && in_half == NEURON_UDMA_STATE &&
        !registers_.count(offset)) {
      return NEURON_UDMA_STATE_NORMAL;
    }
    return registers_[offset];
  }

  void write_register(uint64_t offset, uint32_t value, bool) override {
    const std::lock_guard lock(mutex_);
    if (behaviour_.record) behaviour_.writes.push_back(offset);
    if (is_semaphore_alias(offset, value)) return;
    registers_[offset] = value;
    if (offset == NEURON_V2_MISC_RAM + NEURON_FW_TRIGGER && !behaviour_.reset_never_finishes) {
      registers_[NEURON_V2_MISC_RAM + NEURON_FW_RESET] = 0;
    }
    for (unsigned engine = 0; engine < NEURON_V2_DMA_ENGINES; ++engine) {
      if (offset - NEURON_V2_UDMA(engine) < NEURON_UDMA_SIZE) {
        udma(engine, static_cast<uint32_t>(offset - NEURON_V2_UDMA(engine)), value);
      }
    }
  }

  chip::RunResult run_group(unsigned, std::chrono::steady_clock::time_point) override {
    return behaviour_.run ? behaviour_.run() : chip::RunResult::kQuiescent;
  }
  chip::Bus& bus() override { return bus_; }
  chip::Hbm& hbm() override { return *hbm_; }
  const chip::ChipConfig& config() const override { return config_; }
  void reset(uint32_t) override {}
  std::string describe_core(unsigned core) override { return "core " + std::to_string(core); }

 private:
  bool is_semaphore_alias(uint64_t offset, uint32_t value) {
    for (unsigned core = 0; core < config_.cores; ++core) {
      const uint64_t base = NEURON_V2_CORE_WINDOW(core) + NEURON_CORE_SEMAPHORES;
      const uint64_t inside = offset - base;
      if (inside < NEURON_SEM_BLOCK_READ || inside >= NEURON_SEM_BLOCK_SIZE) continue;
      uint32_t& cell = registers_[base + NEURON_SEM_BLOCK_READ + inside % 0x400];
      if (inside >= NEURON_SEM_BLOCK_DEC) {
        cell -= value;
      } else if (inside >= NEURON_SEM_BLOCK_INC) {
        cell += value;
      } else {
        cell = value;
      }
      return true;
    }
    return false;
  }

  std::byte* memory(uint64_t address, size_t length) {
    if ((address & NEURON_V2_ROUTE_MASK) == NEURON_V2_HOST_BASE) {
      return host_.translate(address & ~NEURON_V2_HOST_BASE, length);
    }
    return hbm_->direct(address, length);
  }

  struct Side {
    uint32_t index = 0;
    uint32_t ring_id = 1;
    uint32_t pending = 0;
  };

  void udma(unsigned engine, uint32_t offset, uint32_t value) {
    const uint64_t unit = NEURON_V2_UDMA(engine);
    const uint32_t half = offset & NEURON_UDMA_S2M;
    const uint32_t inside = offset & (NEURON_UDMA_S2M - 1);
    if (inside == NEURON_UDMA_CHANGE_STATE && value == 1) {
      registers_[unit + half + NEURON_UDMA_STATE] = NEURON_UDMA_STATE_NORMAL;
    }
    if (inside < 0x1000 || inside >= 0x11000) return;
    const unsigned queue = inside / 0x1000 - 1;
    Side& side = sides_[{engine, queue, half != 0}];
    const uint32_t reg = inside & 0xFFF;
    if (reg == (half ? NEURON_UDMAQ_S2M_SW_CONTROL : NEURON_UDMAQ_M2S_SW_CONTROL)) side = {};
    if (reg != NEURON_UDMAQ_TAIL_INC) return;
    ++behaviour_.doorbells;
    side.pending += value;
    Side& from = sides_[{engine, queue, false}];
    Side& to = sides_[{engine, queue, true}];
    while (from.pending && to.pending && transfer(unit, queue, from, to)) {
    }
  }

  std::byte* next(uint64_t unit, unsigned queue, bool s2m, Side& side) {
    const uint64_t base = unit + NEURON_UDMA_QUEUE(s2m ? NEURON_UDMA_S2M : NEURON_UDMA_M2S, queue);
    const uint64_t ring = uint64_t{registers_[base + NEURON_UDMAQ_BASE_HI]} << 32 |
                          registers_[base + NEURON_UDMAQ_BASE_LO];
    std::byte* descriptor = memory(ring + uint64_t{side.index} * NEURON_DESC_BYTES, 16);
    if (!descriptor) return nullptr;
    uint32_t control = 0;
    std::memcpy(&control, descriptor, 4);
    if ((control >> NEURON_DESC_RING_ID_SHIFT & 3) != side.ring_id) ++behaviour_.ring_id_errors;
    --side.pending;
    if (++side.index == registers_[base + NEURON_UDMAQ_LENGTH]) {
      side.index = 0;
      side.ring_id = (side.ring_id + 1) & 3;
    }
    return descriptor;
  }

  bool transfer(uint64_t unit, unsigned queue, Side& from, Side& to) {
    const std::byte* source = next(unit, queue, false, from);
    const std::byte* destination = next(unit, queue, true, to);
    uint32_t control[2] = {};
    uint64_t address[2] = {};
    if (source && destination) {
      std::memcpy(&control[0], source, 4);
      std::memcpy(&control[1], destination, 4);
      std::memcpy(&address[0], source + 8, 8);
      std::memcpy(&address[1], destination + 8, 8);
    }
    const size_t length = (control[0] & 0xFFFF) ? control[0] & 0xFFFF : 0x10000;
    std::byte* in = memory(address[0], length);
    std::byte* out = memory(address[1], length);
    if (!in || !out) {
      registers_[unit + NEURON_UDMA_STATE] = NEURON_UDMA_STATE_ABORT;
      return false;
    }
    ++behaviour_.packets;
    if (!(behaviour_.lose_markers && length == 4)) std::memmove(out, in, length);
    return true;
  }

  chip::ChipConfig config_;
  chip::HostMemory& host_;
  FakeBehaviour& behaviour_;
  chip::Bus bus_;
  std::unique_ptr<chip::Hbm> hbm_;
  std::mutex mutex_;
  std::map<uint64_t, uint32_t> registers_;
  std::map<std::tuple<unsigned, unsigned, bool>, Side> sides_;
};

// An instance of fake chips with one full session of device 0, of process 100.
class ServiceTest : public ::testing::Test {
 protected:
  static constexpr int32_t kPid = 100;

  void SetUp() override { start("trn1.2xlarge", 0); }
  void start(const char* profile, uint64_t limit) {
    start(profile, limit,
          [this](const chip::ChipConfig& config, chip::HostMemory& host, std::string&) {
            return std::make_unique<FakeChip>(config, host, behaviour_);
          });
  }
  // With chips of `factory`: core::create_chip makes those that compute.
  void start(const char* profile, uint64_t limit, const ChipFactory& factory) {
    int error = 0;
    instance_ = Instance::create(profile, {.all = limit}, factory, error);
    ASSERT_NE(instance_, nullptr) << error << ": " << last_error();
    session_ = open(0, O_RDWR, kPid);
  }
  Session* open(unsigned device, int flags, int32_t pid) {
    Session* session = nullptr;
    const int error = instance_->open(device, flags, pid, &session);
    EXPECT_EQ(error, 0) << last_error();
    return session;
  }
  Device& device() { return *instance_->device_if_probed(0); }
  DeviceMemory& memory() { return device().memory(); }

  // Memory of HBM 0 or of the host, by the newest allocation call.
  uint64_t allocate(uint64_t size, bool host = false, uint32_t category = 9, uint32_t hbm = 0,
                    Session* session = nullptr) {
    __u64 handle = 0;
    neuron_ioctl_mem_alloc_v2_mem_type64 request = {};
    request.size = size;
    request.host_memory = host;
    request.dram_channel = hbm;
    request.nc_id = hbm;
    request.mem_type = category;
    request.mem_handle = &handle;
    const int error =
        (session ? session : session_)->ioctl(NEURON_IOCTL_MEM_ALLOC_V2MT64, &request);
    EXPECT_EQ(error, 0) << last_error();
    return handle;
  }
  int free_handle(uint64_t handle) {
    neuron_ioctl_mem_free request = {handle};
    return session_->ioctl(NEURON_IOCTL_MEM_FREE, &request);
  }
  int buffer_copy(uint64_t handle, void* buffer, uint64_t size, uint64_t offset, bool to_device) {
    neuron_ioctl_mem_buf_copy64 request = {handle, buffer, size, offset, to_device};
    return session_->ioctl(NEURON_IOCTL_MEM_BUF_COPY64, &request);
  }
  neuron_ioctl_mem_get_extended_info info(uint64_t handle) {
    neuron_ioctl_mem_get_extended_info found = {};
    found.mem_handle = handle;
    EXPECT_EQ(session_->ioctl(NEURON_IOCTL_MEM_GET_EXTENDED_INFO, &found), 0) << last_error();
    return found;
  }

  FakeBehaviour behaviour_;
  std::unique_ptr<Instance> instance_;
  Session* session_ = nullptr;
};

inline std::vector<uint8_t> random_bytes(size_t size, uint32_t seed) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) {
    seed = seed * 1664525 + 1013904223;
    byte = static_cast<uint8_t>(seed >> 24);
  }
  return bytes;
}

}  // namespace neuron::service

#endif
