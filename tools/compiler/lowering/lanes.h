// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on one piece of values: each call is one instruction, or a few, on a register's lanes.
//
// A Lane holds f32 or i32 numbers. Real arithmetic is done by DVE and Activation, whole numbers by
// Pool, which alone has exact 32-bit integers. Truth values are the whole numbers 0 and 1.
// Callers: maps, reductions, the border. Thread-safe: no. Borrows the workspace. Fails: the
// program keeps the first error.
#ifndef TOOLS_COMPILER_LOWERING_LANES_H
#define TOOLS_COMPILER_LOWERING_LANES_H

#include "tools/compiler/lowering/workspace.h"

namespace neuron::lowering {

struct Lane {
  Register tile;
  uint8_t dtype = NEURON_DTYPE_F32;  // or I32, U32
  // Instead of a register: elements of a value that stays in SBUF, or of PSUM. Only read.
  TileAccess view = {};
  // Beside a view that repeats one number of each partition: these numbers.
  TileAccess column = {};

  Lane as(uint8_t other) const {
    Lane lane = *this;
    lane.dtype = other;
    return lane;
  }
};

// Real arithmetic with one number, or one of each partition: from op scalar.
struct Step {
  uint8_t op = NEURON_ALU_BYPASS;
  builder::ScalarArgument scalar;  // reversed: it is the left operand
};

// Two operations that are one instruction; each rounds its result, as two instructions would.
struct Pair {
  Lane from;
  Step first, second;
  // Instead of the second one's number: lanes, the left operand if `reversed`.
  bool with_lanes = false, reversed = false;
  Lane other;
};

class Lanes {
 public:
  Lanes(Workspace& work, uint32_t parts, uint32_t columns)
      : work_(work), parts_(parts), columns_(columns) {}

  uint32_t parts() const { return parts_; }
  uint32_t columns() const { return columns_; }
  TileAccess access(const Lane& lane) const;
  Lane fresh(uint8_t dtype);
  // Pool may do some pieces of the value: with few of them its start takes longer than it saves.
  void share(bool shares) { shares_ = shares; }
  // The next fresh lane is this part of a value instead of a register.
  void redirect(const TileAccess& target) { target_ = target; }

  Lane load(const Buffer& buffer, uint64_t first, uint8_t dtype);
  void store(const Buffer& buffer, uint64_t first, const Lane& lane);

  // Parts of rows of `pitch` elements each, from element `first` on.
  Lane load_rows(const Buffer& buffer, uint64_t first, uint64_t pitch, uint8_t dtype);
  void store_rows(const Buffer& buffer, uint64_t first, uint64_t pitch, const Lane& lane);
  // Number first + i in all of row i.
  Lane load_numbers(const Buffer& buffer, uint64_t first, uint8_t dtype);

  // Real numbers.
  Lane number(float value);
  Lane with(uint8_t op, const Lane& a, const Lane& b);
  Lane with(uint8_t op, const Lane& a, float b);
  Lane from(float a, uint8_t op, const Lane& b);  // the number is the left operand
  Lane add(const Lane& a, const Lane& b) { return with(NEURON_ALU_ADD, a, b); }
  Lane subtract(const Lane& a, const Lane& b) { return with(NEURON_ALU_SUB, a, b); }
  Lane multiply(const Lane& a, const Lane& b) { return with(NEURON_ALU_MUL, a, b); }
  // By DVE, or by Activation if that has had less work and gives the same bits.
  Lane stepped(const Lane& a, const Step& step);
  Lane paired(const Pair& pair);
  // Whether Activation can do the step in front of its function: a product, or a sum with a tile.
  static bool enters_activation(const Step& step);
  // function(a * scale) or function(a + bias); the step must enter Activation.
  Lane activate(uint8_t function, const Lane& a, const Step& before);
  Lane scaled(const Lane& a, float factor, float offset = 0);  // a * factor + offset
  Lane root(const Lane& a);                                    // NaN of negative numbers
  Lane reciprocal(const Lane& a);
  Lane activate(uint8_t function, const Lane& a);
  // Truth values of a comparison.
  Lane compare(uint8_t op, const Lane& a, const Lane& b);
  Lane compare(uint8_t op, const Lane& a, float b);

  // Whole numbers.
  Lane whole_number(int32_t value);
  Lane whole(uint8_t op, const Lane& a, const Lane& b);
  Lane whole(uint8_t op, const Lane& a, int32_t b) { return whole(op, a, whole_number(b)); }
  Lane bits(uint8_t op, const Lane& a, uint32_t b);

  // Of any type.
  Lane select(const Lane& truth, const Lane& yes, const Lane& no);
  // The nearest number of the type; from f32 to i32 half to even, and within its range.
  Lane converted(const Lane& a, uint8_t dtype);
  Lane narrowed(const Lane& a, uint8_t dtype);  // f32 rounded to a type of 16 bits

 private:
  // DVE's work on lanes, whose elements it takes `cycles` each for.
  void vector_works(double cycles = 1) { work_.vector_works(cycles * columns_); }

  Workspace& work_;
  uint32_t parts_, columns_;
  TileAccess target_;
  bool shares_ = false;
};

}  // namespace neuron::lowering

#endif
