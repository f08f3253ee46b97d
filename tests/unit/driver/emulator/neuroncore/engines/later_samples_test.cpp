// SPDX-License-Identifier: Apache-2.0
// What the checks of generations 3 and 4 accept, the units execute: every instruction that these
// generations add, with every type in every place.
#include "tests/unit/driver/emulator/neuroncore/unit_machine.h"
#include "tests/unit/driver/isa/type_probe.h"

namespace neuron::core {
namespace {

namespace samples = isa::testing;

class LaterSamples : public UnitMachine {
 protected:
  void expect_runs(const samples::Sample& sample) {
    limits_ = isa::limits_of(sample.generation);
    Instruction i = sample.instruction;
    if (i.opcode == NEURON_OP_MATMUL_MX) {
      Instruction weights = make(NEURON_OP_LDWEIGHTS_MX, {}, i.src0, i.src1);
      weights.src0.size[0] = weights.src1.size[0] = i.dst.parts;
      run(NEURON_ENGINE_PE, weights);
    }
    if (i.opcode == NEURON_OP_MATMUL_SPARSE) {
      Instruction weights = make(NEURON_OP_LDWEIGHTS_SPARSE, {}, sbuf(128, 0, i.src0.dtype, 128),
                                 sbuf(128, 0x8000, NEURON_DTYPE_U16, 32));
      weights.pe.mode = i.pe.mode;
      run(NEURON_ENGINE_PE, weights);
    }
    run(sample.engine, i);
  }
};

TEST_F(LaterSamples, EveryTypeThatTheChecksAllowIsExecuted) {
  for (unsigned p = 0; p < NEURON_PARTITIONS; ++p) {
    std::memset(memory_.sbuf(p), 0, 0x10000);
    std::memset(memory_.psum(p), 0, NEURON_PSUM_PARTITION_BYTES);
  }
  unsigned count = 0;
  for (const unsigned generation : {3U, 4U}) {
    for (const samples::Sample& sample : samples::samples_of(generation)) {
      const bool of_one_core = !isa::meets_other_core(sample.instruction.opcode);
      if (samples::first_generation_of(sample) == 2 || !of_one_core) continue;
      for (unsigned place = 0; place < samples::kPlaces; ++place) {
        for (const uint8_t type : samples::types_of(generation)) {
          for (const samples::Sample& form : samples::forms(sample, place, type)) {
            expect_runs(form);
            ++count;
          }
        }
      }
    }
  }
  EXPECT_GT(count, 250U);
}

}  // namespace
}  // namespace neuron::core
