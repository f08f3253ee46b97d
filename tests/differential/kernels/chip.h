// SPDX-License-Identifier: Apache-2.0
// A device of one generation for this process, with strict mode on or off.
// Callers: tests of this folder, one at a time. Owns the runtime from its construction to its end.
// Fails the test with the runtime's sentence.
#ifndef TESTS_DIFFERENTIAL_KERNELS_CHIP_H
#define TESTS_DIFFERENTIAL_KERNELS_CHIP_H

#include <string>

#include "tests/differential/device_model.h"
#include "tests/support/setting.h"

namespace neuron::differential {

class Chip {
 public:
  // `cores`: physical ones of a logical core; generation 2 has one.
  Chip(unsigned generation, bool strict, unsigned cores = 1)
      : emulator_("NEURON_EMULATOR", profile_of(generation)),
        cores_("NEURON_LOGICAL_NC_CONFIG",
               generation > 2 ? std::to_string(cores).c_str() : nullptr),
        strict_("NEURON_EMULATOR_STRICT", strict ? "1" : "0"),
        ready_(succeeded(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), "nrt_init")) {}
  ~Chip() { nrt_close(); }
  Chip(const Chip&) = delete;
  Chip& operator=(const Chip&) = delete;

  bool ready() const { return ready_; }

 private:
  static const char* profile_of(unsigned generation) {
    return generation == 2 ? "trn1.2xlarge" : generation == 3 ? "trn2.3xlarge" : "trn3pd98.3xlarge";
  }
  test::Setting emulator_, cores_, strict_;
  bool ready_;
};

}  // namespace neuron::differential

#endif
