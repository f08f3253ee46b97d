// SPDX-License-Identifier: Apache-2.0
//
// Tensors of ONNX files: TensorProto messages, and the data that lies in files beside the model.
// Callers: the importer, tests. Thread-safe: no state. Fails: with a sentence, on sizes that do not
// fit, types without numbers, and files that are not below the model's folder.
#ifndef TOOLS_COMPILER_ONNX_TENSOR_READER_H
#define TOOLS_COMPILER_ONNX_TENSOR_READER_H

#include <optional>
#include <string>

#include "runtime/base/error.h"
#include "tools/compiler/graph/tensor.h"

namespace neuron::onnx {

namespace file {
class TensorData;
}

// Of a number of TensorProto.DataType; empty for text, complex numbers and types below 8 bits.
std::optional<graph::Type> type_of(int32_t data_type);
// "strings", for a sentence.
std::string data_type_text(int32_t data_type);
bool is_text(int32_t data_type);

// `folder`: that of the model; empty if there is none, which refuses data in other files.
runtime::Result<graph::Tensor> read_tensor(const file::TensorData& data, const std::string& folder);

}  // namespace neuron::onnx

#endif
