// SPDX-License-Identifier: Apache-2.0
#include "driver/operator/tcm.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>

#include "driver/operator/tcm_pool.h"

namespace {

constexpr size_t kUnit = 64;  // TCM moves as many bytes at a time
constexpr size_t kUnits = NEURON_OPERATOR_TCM_POOL / kUnit;
constexpr size_t kGuard = 1 << 20;

std::byte* pool = nullptr;
// Of each unit that a block begins with: the units of the block; 0 elsewhere.
std::array<uint16_t, kUnits> blocks;
std::array<bool, kUnits> taken;

}  // namespace

namespace neuron::operators {

void make_tcm() {
  const size_t bytes = NEURON_OPERATOR_TCM_POOL + 2 * kGuard;
  void* all = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) _exit(3);
  pool = static_cast<std::byte*>(all) + kGuard;
  if (mprotect(pool, NEURON_OPERATOR_TCM_POOL, PROT_READ | PROT_WRITE) != 0) _exit(3);
}

}  // namespace neuron::operators

namespace torch {
namespace neuron {

// The first gap that is large enough.
void* tcm_malloc(size_t nbytes) {
  if (pool == nullptr || nbytes == 0 || nbytes > NEURON_OPERATOR_TCM_POOL) return nullptr;
  const size_t units = (nbytes + kUnit - 1) / kUnit;
  size_t run = 0;
  for (size_t unit = 0; unit < kUnits; ++unit) {
    run = taken[unit] ? 0 : run + 1;
    if (run < units) continue;
    const size_t first = unit + 1 - units;
    for (size_t n = first; n <= unit; ++n) taken[n] = true;
    blocks[first] = static_cast<uint16_t>(units);
    return pool + first * kUnit;
  }
  return nullptr;
}

void tcm_free(void* pointer) {
  if (pointer == nullptr) return;
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(pointer) - pool);
  if (pool == nullptr || offset >= NEURON_OPERATOR_TCM_POOL || offset % kUnit != 0 ||
      blocks[offset / kUnit] == 0) {
    ::neuron::operators::fail(NEURON_OPERATOR_TCM, offset,
                              "tcm_free of what tcm_malloc has not given");
  }
  const size_t first = offset / kUnit;
  for (size_t n = first; n < first + blocks[first]; ++n) taken[n] = false;
  blocks[first] = 0;
}

}  // namespace neuron

void check_tcm(const void* pointer, size_t bytes) {
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(pointer) - pool);
  if (pool == nullptr || offset >= NEURON_OPERATOR_TCM_POOL) return;
  if (bytes > NEURON_OPERATOR_TCM_POOL - offset) {
    ::neuron::operators::fail(NEURON_OPERATOR_TCM, offset, "a transfer leaves the pool of TCM");
  }
}

}  // namespace torch
