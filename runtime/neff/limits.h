// SPDX-License-Identifier: Apache-2.0
//
// Limits on what a NEFF file may demand of the host. A genuine program stays far below each.
// Callers: the readers of this folder. Thread-safe: values. Tests and fuzzers lower them.
#ifndef RUNTIME_NEFF_LIMITS_H
#define RUNTIME_NEFF_LIMITS_H

#include <cstdint>

namespace neuron::neff {

struct Limits {
  uint64_t unpacked_bytes = 16ull << 30;  // One NeuronCore's share of HBM on trn1.
  // Above `ratio_floor_bytes`, unpacked bytes per stored byte. Deflate reaches 1032 on zeros.
  uint64_t ratio_floor_bytes = 256ull << 20;
  uint64_t expansion_ratio = 256;
  uint32_t members = 65536;
  uint32_t name_bytes = 1024;        // Of one member's path.
  uint32_t name_depth = 32;          // Directories in one path, the file included.
  uint32_t extension_bytes = 65536;  // Of one pax or GNU long-name record.
};

}  // namespace neuron::neff

#endif
