// SPDX-License-Identifier: Apache-2.0
// NKI kernels inside of a model: their traces are written into the program, between temporaries.
#include "tools/compiler/lowering/tasks.h"
#include "tools/compiler/nki/lowering.h"

namespace neuron::lowering {
namespace {

// The kernels' tensors are as values are inside a program; other types have no such form.
bool fits(const nki::KernelTensor& tensor, const Node& node) {
  const graph::Shape shape(tensor.shape.begin(), tensor.shape.end());
  const bool same = (tensor.dtype == NEURON_DTYPE_F32 && node.type == graph::Type::kF32) ||
                    (tensor.dtype == NEURON_DTYPE_I32 && node.type == graph::Type::kI32) ||
                    (tensor.dtype == NEURON_DTYPE_U32 && node.type == graph::Type::kU32);
  return same && shape == node.shape;
}

std::string misfit(const nki::KernelTensor& tensor, const Node& node) {
  const graph::Shape shape(tensor.shape.begin(), tensor.shape.end());
  return base::format(
      "the kernel's tensor \"{}\" is {} {}, and the module has {} {}; both must be alike, and "
      "float32, int32 or uint32: convert outside of the kernel",
      base::escaped(tensor.name), isa::dtype_name(tensor.dtype), graph::shape_text(shape),
      graph::type_name(node.type), graph::shape_text(node.shape));
}

}  // namespace

std::string kernel_problem(const Graph& graph, const Node& node, uint8_t generation) {
  const auto signature = nki::signature_of(*node.trace);
  if (!signature) return signature.error().sentence;
  if (signature->generation != generation) {
    return base::format(
        "the kernel was traced for cores of generation {}, and the program is for {}; trace it for "
        "the same target",
        signature->generation, generation);
  }
  const auto number = static_cast<size_t>(node.result);
  if (signature->inputs.size() != node.operands.size() || number >= signature->outputs.size()) {
    return base::format("the kernel has {} inputs and {} outputs, and is called with {}",
                        signature->inputs.size(), signature->outputs.size(), node.operands.size());
  }
  if (!fits(signature->outputs[number], node)) return misfit(signature->outputs[number], node);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Node& operand = graph.nodes[static_cast<size_t>(node.operands[i])];
    if (!fits(signature->inputs[i], operand)) return misfit(signature->inputs[i], operand);
  }
  return "";
}

void emit_kernel(Workspace& work, Value value) {
  if (work.has_place(value)) return;
  const Node& node = work.node(value);
  auto& journal = work.program.parts().schedule.journal();
  const auto signature = nki::signature_of(*node.trace);
  if (!signature) return journal.fail(signature.error());
  work.program.section(node.origin);
  std::deque<Buffer> inputs, outputs;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const auto count = static_cast<uint32_t>(graph::elements_of(work.node(node.operands[i]).shape));
    inputs.push_back(work.temporary(signature->inputs[i].dtype, count));
    work.copy(Workspace::rows(inputs.back(), 0, 1, count),
              Workspace::rows(work.place(node.operands[i]), 0, 1, count));
  }
  for (const nki::KernelTensor& tensor : signature->outputs) {
    uint64_t count = 1;
    for (const uint64_t size : tensor.shape) count *= size;
    outputs.push_back(work.temporary(tensor.dtype, count));
  }
  // Results stand one behind the other.
  const auto first = static_cast<size_t>(value) - static_cast<size_t>(node.result);
  for (size_t i = 0; i < outputs.size() && first + i < work.graph.nodes.size(); ++i) {
    const Node& other = work.graph.nodes[first + i];
    if (other.trace != node.trace) break;
    Buffer place = outputs[i];
    place.dtype = Workspace::dtype_of(other.type);
    work.set_place(static_cast<Value>(first + i), place);
  }
  work.trim();
  work.trim_stream();
  const auto done = nki::inline_kernel(*node.trace, work.program, inputs, outputs,
                                       work.unused_name("kernel_") + ".");
  if (!done && !journal.error()) {
    journal.fail(done.error().with("node \"{}\", NKI kernel", base::escaped(node.origin)));
  }
}

}  // namespace neuron::lowering
