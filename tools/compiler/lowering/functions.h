// SPDX-License-Identifier: Apache-2.0
//
// The functions of maps on lanes: what the graph calls log, divide or cast, as instructions.
//
// The Activation engine stops a program whose argument is outside of the range of a function, so
// arguments are brought into the range, and special values are put in at the end.
// Callers: the task of maps. Thread-safe: no. Fails: the program keeps the first error.
#ifndef TOOLS_COMPILER_LOWERING_FUNCTIONS_H
#define TOOLS_COMPILER_LOWERING_FUNCTIONS_H

#include <optional>
#include <vector>

#include "tools/compiler/lowering/lanes.h"

namespace neuron::lowering {

// An operand: lanes, or one number for all of them.
struct Operand {
  Lane lane;
  bool uniform = false;
  double number = 0;
};

// The function as Activation has it; none if it takes more than one instruction of that.
std::optional<uint8_t> activation_of(graph::Function function);
Lane real_function(Lanes& lanes, graph::Function function, const Lane& x);
Lane real_function(Lanes& lanes, graph::Function function, const Operand& a, const Operand& b);
// The quotient with what the reciprocal's rounding lost put back: nearly always the nearest number.
// Seven times the work of kDivide.
Lane near_quotient(Lanes& lanes, const Operand& left, const Operand& right);
Lane real_comparison(Lanes& lanes, graph::Function function, const Operand& a, const Operand& b);

// `type` is that of the operands; results are not wrapped to it.
Lane whole_function(Lanes& lanes, graph::Function function, graph::Type type, const Lane& x);
Lane whole_function(Lanes& lanes, graph::Function function, graph::Type type, const Lane& a,
                    const Lane& b);
// Of an exponent that is not negative and known.
Lane whole_power(Lanes& lanes, const Lane& a, int64_t exponent);

// The low bits that the type has, with its sign.
Lane wrapped(Lanes& lanes, graph::Type type, const Lane& x);
// As the interpreter casts: from real to whole numbers toward zero, and to the nearest end of the
// type's range; NaN becomes 0.
Lane cast(Lanes& lanes, graph::Type to, graph::Type from, const Lane& x);
// The nearest number of types below 32 bits.
Lane rounded(Lanes& lanes, graph::Type type, const Lane& x);

}  // namespace neuron::lowering

#endif
