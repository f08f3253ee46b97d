// SPDX-License-Identifier: Apache-2.0
// Compute and recode packets (hw/udma.h): decoding of their metadata, and execution.
//
// Concepts: a packet's sources are one stream of bytes. Source i is the i-th of its equal parts,
// whichever descriptors hold it. All of it (and the destination, with acc) is read before anything
// is written. README.md says how a loader cuts transfers into such packets.
// Callers: parse_packet (ComputeSpec), UdmaEngine (run_compute). Thread-safe: functions of their
// arguments. Fails: the broken rule in words for a malformed packet, DmaFault for a refused
// address, and for bytes that are no stream. Reductions from memory to memory, apart from each
// other, allocate nothing; other packets allocate two or three times, never more than 8 MiB.
#ifndef DRIVER_EMULATOR_CHIP_UDMA_COMPUTE_H
#define DRIVER_EMULATOR_CHIP_UDMA_COMPUTE_H

#include <array>
#include <cstdint>

#include "driver/emulator/chip/bus.h"
#include "driver/emulator/numerics/random.h"
#include "hw/isa.h"
#include "hw/udma.h"

namespace neuron::chip {

struct DmaFault;
struct Packet;
struct RingView;

inline constexpr uint32_t kMaxComputeSources = 16;  // with a scale each
inline constexpr uint32_t kMaxReduceSources = 64;

// Has no initial values: begin() fills it. Every Packet contains one.
struct ComputeSpec {
  uint8_t operation;  // enum neuron_dma_operation
  uint8_t from_type;
  uint8_t to_type;
  uint8_t sources;
  uint8_t reduction;  // enum neuron_dma_reduction
  bool accumulate;
  bool stochastic;
  uint16_t rows;
  uint16_t columns;
  uint32_t source_bytes;  // of each source; valid after finish()
  uint32_t result_bytes;
  std::array<uint32_t, kMaxComputeSources> scale;  // fp32 bits, per source; [0]: divisor of reduce

  // Each returns null or the broken rule. `low`, `high`: the descriptor's 64-bit words. begin()
  // takes the metadata that opens the packet, on a chip of `generation`, change() metadata behind
  // `bytes` bytes of sources. finish() is called after LAST, with `bytes` in all.
  const char* begin(uint64_t low, uint64_t high, unsigned generation);
  const char* change(uint64_t low, uint64_t high, uint32_t bytes);
  const char* finish(uint32_t bytes);

  bool recodes() const { return operation >= NEURON_DMA_COMPRESS; }
  // B += A in bf16 or fp32: one source, added to the destination, of one type.
  bool adds_one_to_destination() const {
    return operation == NEURON_DMA_ADD && accumulate && sources == 1 && from_type == to_type &&
           (to_type == NEURON_DTYPE_BF16 || to_type == NEURON_DTYPE_F32);
  }
  uint32_t elements() const;  // of the result; bytes of the source where the packet recodes
  // The number of bytes that a plain copy moves in the same time; see the cost table in README.md.
  uint64_t time_bytes(bool inside_core) const;

 private:
  const char* check_reduce(uint64_t low, uint64_t high);
  const char* check_recode(uint64_t low, uint64_t high);

  uint64_t low_;
  uint64_t high_;
  uint32_t changes_;
  std::array<uint32_t, kMaxComputeSources> change_at_;
  std::array<uint32_t, kMaxComputeSources> change_scale_;
};

// Executes a packet that parse_packet accepted. `random` serves stochastic rounding, one word per
// element. `m2s_ahead` and `s2m_ahead` say where it lies in its rings, for the fault.
DmaFault run_compute(const Bus& bus, const Packet& packet, const RingView& m2s, uint32_t m2s_ahead,
                     const RingView& s2m, uint32_t s2m_ahead, const Access& access,
                     numerics::RandomStream& random);

}  // namespace neuron::chip

#endif
