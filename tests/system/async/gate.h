// SPDX-License-Identifier: Apache-2.0
//
// Holds the turn of cores, so that executions pile up in their queues until the gate opens.
// Callers: tests of this folder, one thread, between nrt_init and nrt_close.
#ifndef TESTS_SYSTEM_ASYNC_GATE_H
#define TESTS_SYSTEM_ASYNC_GATE_H

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "runtime/device/core_turn.h"
#include "runtime/session/lifecycle.h"
#include "tests/support/files.h"
#include "tests/system/api/async_support.h"
#include "tests/system/api/support.h"

namespace neuron::test {

// The emulator is not beside this program.
inline const int kLibrary =
    setenv("NEURON_EMULATOR_LIBRARY", built("lib/libneuron-emulator.so.1").c_str(), 0);

class Gate {
 public:
  explicit Gate(std::initializer_list<int> cores) {
    runtime::SessionUse use;
    for (const int core : cores) {
      auto turn = runtime::CoreTurn::take(**use->core(core));
      EXPECT_TRUE(turn.has_value());
      turns_.push_back(std::make_unique<runtime::CoreTurn>(std::move(*turn)));
    }
  }
  void open() { turns_.clear(); }

  // Returns when a request stands before the gate of this core. Until then nrt_close may end all
  // requests unbegun, and free the core whose turn the gate has.
  static void wait_for_a_request(int core) {
    runtime::SessionUse use;
    while (!(*use->core(core))->turn.has_waiters()) std::this_thread::yield();
  }

 private:
  std::vector<std::unique_ptr<runtime::CoreTurn>> turns_;
};

inline NRT_STATUS schedule(Loaded& loaded, Status* status, nrta_seq_t* seq = nullptr) {
  return nrta_execute_schedule(loaded.model, loaded.inputs, loaded.outputs, 0,
                               status == nullptr ? nullptr : &status->word, seq);
}

}  // namespace neuron::test

#endif
