// SPDX-License-Identifier: Apache-2.0
// The ring that carries the host's copies of one core: 8192 descriptors each way in host memory,
// the DMA engine that the chip has for them: one a core on generation 2, one for two on 3.
//
// Concepts: a copy becomes descriptors of at most 64 KiB, the last of a batch with a write barrier,
// then a 4-byte copy of a marker; both doorbells are rung, destination side first, and the marker
// is awaited in host memory with a deadline. Callers: any thread; a mutex serialises the copies of
// a core. Owns its rings. Fails: negative errno and a sentence with engine, queue and ring index;
// the queue is then set up anew, so that the next copy works.
#ifndef DRIVER_EMULATOR_SERVICE_COPY_RING_H
#define DRIVER_EMULATOR_SERVICE_COPY_RING_H

#include <mutex>

#include "driver/core/chip.h"
#include "driver/core/ring.h"
#include "driver/emulator/service/device_memory.h"

namespace neuron::service {

class CopyRing {
 public:
  static constexpr uint32_t kDescriptors = 8192;

  CopyRing(unsigned device, unsigned core, chip::Chip& chip, IoSpace& io);

  // Allocates the rings; once.
  int create(DeviceMemory& memory);
  // Programs the queue, after creation and after each reset.
  void restart();

  // Device addresses on both sides. `pattern` > 0: the source is that many bytes, repeated.
  int copy(uint64_t destination, uint64_t source, uint64_t size, uint32_t pattern = 0);
  // Between process memory and a device address; the transfer works on the memory itself.
  int write(uint64_t destination, const void* source, uint64_t size);
  int read(void* destination, uint64_t source, uint64_t size);
  // Fills with one byte, from a pattern of 64 KiB in host memory.
  int fill(uint64_t destination, uint8_t value, uint64_t size);
  int fill32(uint64_t destination, uint32_t value, uint64_t size);

  unsigned engine() const { return engine_; }
  unsigned queue() const { return queue_; }

 private:
  int copy_locked(uint64_t destination, uint64_t source, uint64_t size, uint32_t pattern);
  // Between process memory and the device.
  int move(std::byte* memory, uint64_t address, uint64_t size, bool to_device);
  int fill_locked(uint64_t destination, uint64_t size);
  bool is_aborted();
  int await(uint32_t packets, uint64_t destination, uint64_t source);
  int give_up();
  int report(uint64_t destination, uint64_t source, bool timed_out);
  void restart_locked();

  const unsigned device_;
  const unsigned core_;
  chip::Chip& chip_;
  const nd_chip& layout_;
  IoSpace& io_;
  uint32_t engine_ = 0;
  uint32_t queue_ = 0;
  std::mutex mutex_;
  nd_ring ring_{};
  Chunk* source_ring_ = nullptr;
  Chunk* destination_ring_ = nullptr;
  Chunk* marker_ = nullptr;   // word 0: what is copied, word 1: where it arrives
  Chunk* pattern_ = nullptr;  // 64 KiB of the byte of a fill
};

}  // namespace neuron::service

#endif
