// SPDX-License-Identifier: Apache-2.0
//
// The operators of ONNX, by family: each list has the functions that import them.
// Callers: the importer. Thread-safe: constants. Cannot fail; the functions do, through their Call.
#ifndef TOOLS_COMPILER_ONNX_OPERATORS_H
#define TOOLS_COMPILER_ONNX_OPERATORS_H

#include <span>

#include "tools/compiler/onnx/call.h"

namespace neuron::onnx {

std::span<const Operator> map_operators();            // each element alone
std::span<const Operator> activation_operators();     // each element alone, with parameters
std::span<const Operator> shape_operators();          // constants and shapes
std::span<const Operator> move_operators();           // the same elements elsewhere
std::span<const Operator> reduce_operators();         // along axes
std::span<const Operator> product_operators();        // matrix products
std::span<const Operator> convolution_operators();    // convolutions
std::span<const Operator> pool_operators();           // windows
std::span<const Operator> normalisation_operators();  // means and variances
std::span<const Operator> index_operators();          // elements by number
std::span<const Operator> search_operators();         // the largest elements and their places
std::span<const Operator> quantisation_operators();   // scales and zero points
std::span<const Operator> loss_operators();           // losses and optimizers
std::span<const Operator> recurrent_operators();      // LSTM, GRU, RNN
std::span<const Operator> resize_operators();         // interpolation
std::span<const Operator> signal_operators();         // windows and transforms of signals
std::span<const Operator> image_operators();          // images sampled at places that are data
std::span<const Operator> ngram_operators();          // counts of sequences of whole numbers
std::span<const Operator> sequence_operators();       // lists of tensors
std::span<const Operator> control_operators();        // branches and loops

}  // namespace neuron::onnx

#endif
