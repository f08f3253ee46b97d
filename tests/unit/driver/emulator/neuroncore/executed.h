// SPDX-License-Identifier: Apache-2.0
// What each test of this program has had executed: every opcode with engine, generation and the
// types of its operands. engines/coverage_claims_test.cpp holds the claims of the coverage page
// against it. The machines of this folder note what they place in programs or hand to a unit.
//
// Callers: tests, from any thread.
#ifndef TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_EXECUTED_H
#define TESTS_UNIT_DRIVER_EMULATOR_NEURONCORE_EXECUTED_H

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>

#include "driver/isa/instruction.h"

namespace neuron::core {

class Executed {
 public:
  // As of type_probe.h; kNoPlace: the instruction as such.
  enum Place : unsigned { kDst, kSrc0, kSrc1, kFrom, kTo, kNoPlace };
  // One instruction with one type in one place.
  struct Cell {
    unsigned opcode, generation, engine, place, type;
  };

  static Executed& all() {
    static Executed instance;
    return instance;
  }

  void note(const isa::Instruction& i, unsigned engine, unsigned generation) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Cells* cells = cells_of_this_test();
    if (cells == nullptr) return;
    const auto add = [&](unsigned place, unsigned type) {
      cells->insert(key({i.opcode, generation, engine, place, type}));
    };
    add(kNoPlace, 0);
    if (i.opcode >= NEURON_OP_DMA_GENERATE && i.opcode <= NEURON_OP_DMA_SCATTER) {
      add(kFrom, i.dma.from_type);
      add(kTo, i.dma.to_type);
      return;
    }
    if (i.dst.present()) add(kDst, i.dst.dtype);
    if (i.src0.present()) add(kSrc0, i.src0.dtype);
    if (i.src1.present()) add(kSrc1, i.src1.dtype);
  }

  // `test` is "Suite.Test", whatever its parameters.
  bool has(const std::string& test, const Cell& cell) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = tests_.find(test);
    return found != tests_.end() && found->second.contains(key(cell));
  }

  // "Suite.Test" of "Generations/Suite" and "Test/0".
  static std::string name_of(const ::testing::TestInfo& test) {
    const std::string suite = test.test_suite_name(), name = test.name();
    const size_t prefix = suite.find('/');
    return suite.substr(prefix == std::string::npos ? 0 : prefix + 1) + "." +
           name.substr(0, name.find('/'));
  }

 private:
  using Cells = std::unordered_set<uint64_t>;

  static uint64_t key(const Cell& c) {
    return uint64_t{c.opcode} << 32 | c.generation << 24 | c.engine << 16 | c.place << 8 | c.type;
  }
  Cells* cells_of_this_test() {
    const ::testing::TestInfo* now = ::testing::UnitTest::GetInstance()->current_test_info();
    if (now == nullptr) return nullptr;
    if (now != test_) {
      test_ = now;
      cells_ = &tests_[name_of(*now)];
    }
    return cells_;
  }

  std::mutex mutex_;
  std::map<std::string, Cells> tests_;
  const ::testing::TestInfo* test_ = nullptr;  // whose cells `cells_` is
  Cells* cells_ = nullptr;
};

}  // namespace neuron::core

#endif
