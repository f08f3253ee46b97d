// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/dma_bounds.h"

namespace neuron::neff {
namespace {

using Wide = __int128;  // A size of 2^40 times a step of 2^63 must not wrap.

// SBUF partitions are 256 KiB apart but have fewer bytes: each run must lie in the bytes that
// exist.
std::optional<std::string> check_partitions(const DmaAccess& access, const Variable& variable,
                                            uint32_t generation) {
  const uint64_t backed = sbuf_partition_bytes(generation);
  for (uint64_t i3 = 0; i3 < access.sizes[3]; ++i3) {
    for (uint64_t i2 = 0; i2 < access.sizes[2]; ++i2) {
      for (uint64_t i1 = 0; i1 < access.sizes[1]; ++i1) {
        const uint64_t at = variable.core_offset + access.offset +
                            i1 * static_cast<uint64_t>(access.steps[1]) +
                            i2 * static_cast<uint64_t>(access.steps[2]) +
                            i3 * static_cast<uint64_t>(access.steps[3]);
        const uint64_t inside = at % NEURON_SBUF_PARTITION_STRIDE;
        if (inside > backed || access.run_bytes() > backed - inside) {
          return base::format(
              "a run of {} bytes at byte {:#x} of SBUF partition {} leaves its {:#x} bytes",
              access.run_bytes(), inside, at / NEURON_SBUF_PARTITION_STRIDE, backed);
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> check_access(const DmaAccess& access, const Variable& variable,
                                        uint32_t generation, const ModelLimits& limits,
                                        uint64_t& rows) {
  Wide runs = 1;
  Wide lowest = access.offset;
  Wide highest = access.offset;
  for (int d = 1; d < access.dimensions; ++d) {
    const Wide reach = Wide{access.steps[d]} * Wide{access.sizes[d] - 1};
    (reach < 0 ? lowest : highest) += reach;
    runs *= access.sizes[d];
    if (runs > limits.transfer_rows) {
      return base::format("more than {} contiguous runs in one transfer", limits.transfer_rows);
    }
  }
  if (runs * Wide{access.run_bytes()} > limits.transfer_bytes) {
    return base::format("more than {} bytes in one transfer", limits.transfer_bytes);
  }
  if (lowest < 0) {
    return base::format("reaches {} bytes before the variable \"{}\"",
                        static_cast<uint64_t>(-lowest), variable.name);
  }
  if (highest + Wide{access.run_bytes()} > Wide{variable.size}) {
    return base::format("reaches byte {} of the variable \"{}\", which has {}",
                        static_cast<uint64_t>(highest + access.run_bytes()), variable.name,
                        variable.size);
  }
  rows += static_cast<uint64_t>(runs);
  if (rows > limits.engine_rows) {
    return base::format("more than {} contiguous runs in the transfers of one engine",
                        limits.engine_rows);
  }
  if (variable.kind == VariableKind::kStateBuffer && variable.core_offset < NEURON_CORE_PSUM) {
    return check_partitions(access, variable, generation);
  }
  return std::nullopt;
}

}  // namespace neuron::neff
