// SPDX-License-Identifier: Apache-2.0
// Which bytes of a partition an access pattern touches, as cells of the shadow (strict mode).
//
// Patterns that are one run are computed each time. Other patterns are drawn once into a map of the
// partition and cached by their shape, so a repeated instruction costs a comparison. Callers:
// StrictMode, by the holder of the core. Owns the map and the cache; a returned span is valid until
// the next call. Fails: std::bad_alloc only; patterns that leave the partition must have been
// refused.
#ifndef DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_FOOTPRINT_H
#define DRIVER_EMULATOR_NEURONCORE_STRICT_STRICT_FOOTPRINT_H

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "driver/emulator/neuroncore/strict/strict_shadow.h"
#include "driver/isa/instruction.h"

namespace neuron::core {

class StrictFootprint {
 public:
  std::span<const StrictSegment> of(const isa::Operand& operand);
  // Elements of `bytes` bytes at offsets, in elements, from `base` on.
  std::span<const StrictSegment> of_offsets(unsigned space, uint64_t base, unsigned bytes,
                                            std::span<const uint32_t> offsets);
  std::span<const StrictSegment> of_bytes(unsigned space, uint64_t first, uint64_t bytes);

 private:
  struct Shape {
    uint32_t base = 0;
    uint8_t space = 0, dtype = 0, ndim = 0;
    std::array<uint16_t, 4> size{};
    std::array<int16_t, 4> step{};
    bool operator==(const Shape&) const = default;
  };
  struct Known {
    Shape shape;
    std::vector<StrictSegment> segments;
  };
  static constexpr size_t kKnown = 256;
  static constexpr unsigned kMapWords = StrictShadow::kSbufColumns;

  void draw(const isa::Operand& operand, std::vector<StrictSegment>& segments);
  void begin_map();
  void mark(uint64_t first, uint64_t bytes);
  void end_map(unsigned space, std::vector<StrictSegment>& segments);

  std::array<StrictSegment, 3> run_;
  std::vector<Known> known_;
  std::vector<StrictSegment> scattered_;
  std::vector<uint64_t> map_;
  unsigned lowest_ = 0, highest_ = 0;  // words of the map that are set
  bool given_up_ = false;              // the map has words of a drawing that was given up
};

}  // namespace neuron::core

#endif
