// SPDX-License-Identifier: Apache-2.0
// The Tensor engine's product on AMX tile instructions, for inputs that are exact in bf16.
//
// Available where the processor has AMX-BF16, the system grants its state, and a product of random,
// special and tiny values gives the bits of the definition (tensor_kernel_scalar.h). This is tested
// once. Thread-safe. Cannot fail.
#ifndef DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_AMX_H
#define DRIVER_EMULATOR_NUMERICS_TENSOR_KERNEL_AMX_H

#include <cstddef>
#include <cstdint>

namespace neuron::numerics {

bool amx_available();

// As tiles::multiply_columns, on the tile registers of the calling thread.
// Only where amx_available().
void multiply_on_amx(const uint16_t* weights, int m, const uint16_t* moving, size_t columns,
                     int steps, float* c, ptrdiff_t c_stride, bool accumulate);

// Sets up the tile registers for its lifetime and releases them at the end.
class AmxScope {
 public:
  AmxScope();
  ~AmxScope();
  AmxScope(const AmxScope&) = delete;
  AmxScope& operator=(const AmxScope&) = delete;
};

}  // namespace neuron::numerics
#endif
