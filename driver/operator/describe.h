// SPDX-License-Identifier: Apache-2.0
// What a library of operators says of itself when no core runs it, for neuron-operator:
//   describe            "multicore 1" or "multicore 0", then a line "name library kernel kinds" for
//   each operator, kinds as letters
//                       (t tensor, s scalar, d double, i int64_t); a kernel that is missing has "-"
//   shape NAME ARG...   the output of an operator as its shape function gives it; tensors as
//                       f32[2,3], numbers as they are
// Callers: main(), without any limits: it is the source's own code. Fails: status 1 and a sentence.
#ifndef DRIVER_OPERATOR_DESCRIBE_H
#define DRIVER_OPERATOR_DESCRIBE_H

namespace neuron::operators {

int describe(int count, char** arguments);

}  // namespace neuron::operators

#endif
