// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/hlo/step.h"

#include <algorithm>

namespace neuron::hlo {
namespace {

template <class List>
bool fill_reals(Tensor& tensor, const List& list) {
  if (list.size() != tensor.elements()) return false;
  for (int i = 0; i < list.size(); ++i) tensor.reals[static_cast<size_t>(i)] = list.Get(i);
  return true;
}

template <class List>
bool fill_integers(Tensor& tensor, const List& list) {
  if (list.size() != tensor.elements()) return false;
  for (int i = 0; i < list.size(); ++i) {
    tensor.integers[static_cast<size_t>(i)] =
        graph::wrapped(tensor.type, static_cast<int64_t>(list.Get(i)));
  }
  return true;
}

const std::string* packed(const file::Literal& literal, Type type) {
  switch (type) {
    case Type::kF16:
      return &literal.f16s();
    case Type::kBf16:
      return &literal.bf16s();
    case Type::kI8:
      return &literal.s8s();
    case Type::kU8:
      return &literal.u8s();
    case Type::kI16:
      return &literal.s16s();
    case Type::kU16:
      return &literal.u16s();
    default:
      return nullptr;
  }
}

bool fill(Tensor& tensor, const file::Literal& literal) {
  if (const std::string* bytes = packed(literal, tensor.type)) {
    const auto count = static_cast<size_t>(tensor.elements());
    if (bytes->size() != count * graph::type_bytes(tensor.type)) return false;
    tensor = Tensor::from_bytes(tensor.type, tensor.shape,
                                reinterpret_cast<const uint8_t*>(bytes->data()));
    return true;
  }
  switch (tensor.type) {
    case Type::kF32:
      return fill_reals(tensor, literal.f32s());
    case Type::kF64:
      return fill_reals(tensor, literal.f64s());
    case Type::kI32:
      return fill_integers(tensor, literal.s32s());
    case Type::kI64:
      return fill_integers(tensor, literal.s64s());
    case Type::kU32:
      return fill_integers(tensor, literal.u32s());
    case Type::kU64:
      return fill_integers(tensor, literal.u64s());
    default:
      return fill_integers(tensor, literal.preds());
  }
}

// The smaller of the types that hold all numbers of both; a real type and one of whole numbers have
// none.
std::optional<Type> wider(Type a, Type c) {
  if (a == c) return a;
  if (graph::is_real(a) != graph::is_real(c)) return std::nullopt;
  const size_t left = graph::type_bytes(a), right = graph::type_bytes(c);
  const Type larger = left > right ? a : c;
  if (graph::is_real(a)) return left == right ? Type::kF32 : larger;
  const bool fits = left != right &&
                    (!graph::is_unsigned(larger) || graph::is_unsigned(a) == graph::is_unsigned(c));
  if (fits) return larger;
  return std::max(left, right) < 4 ? Type::kI32 : Type::kI64;
}

}  // namespace

std::string element_type_text(int32_t element_type) {
  // Those that type_of() does not have.
  static constexpr std::pair<int32_t, const char*> kNames[] = {
      {13, "tuple"},      {14, "opaque"},     {15, "c64"}, {17, "token"},    {18, "c128"},
      {19, "f8e5m2"},     {20, "f8e4m3fn"},   {21, "s4"},  {22, "u4"},       {23, "f8e4m3b11fnuz"},
      {24, "f8e5m2fnuz"}, {25, "f8e4m3fnuz"}, {26, "s2"},  {27, "u2"},       {28, "f8e4m3"},
      {29, "f8e3m4"},     {30, "s1"},         {31, "u1"},  {32, "f4e2m1fn"}, {33, "f8e8m0fnu"}};
  if (const auto type = type_of(element_type)) return graph::type_name(*type);
  for (const auto& [number, name] : kNames) {
    if (number == element_type) return base::format("{}, which is not supported", name);
  }
  return base::format("number {}, which is none that is known", element_type);
}

std::optional<Type> type_of(int32_t element_type) {
  switch (element_type) {
    case 1:
      return Type::kBool;
    case 2:
      return Type::kI8;
    case 3:
      return Type::kI16;
    case 4:
      return Type::kI32;
    case 5:
      return Type::kI64;
    case 6:
      return Type::kU8;
    case 7:
      return Type::kU16;
    case 8:
      return Type::kU32;
    case 9:
      return Type::kU64;
    case 10:
      return Type::kF16;
    case 11:
      return Type::kF32;
    case 12:
      return Type::kF64;
    case 16:
      return Type::kBf16;
    default:
      return std::nullopt;
  }
}

Shape shape_of(const file::Form& form) {
  return {form.dimensions().begin(), form.dimensions().end()};
}

bool usual_layout(const file::Form& form) {
  const auto& order = form.layout().minor_to_major();
  for (int i = 0; i < order.size(); ++i) {
    if (order.Get(i) != order.size() - 1 - i) return false;
  }
  return std::all_of(form.tuple_shapes().begin(), form.tuple_shapes().end(), usual_layout);
}

Value read_literal(Builder& b, const file::Literal& literal) {
  const auto type = type_of(literal.shape().element_type());
  if (!type) {
    return b.fail("a constant of element type {}",
                  element_type_text(literal.shape().element_type()));
  }
  if (!usual_layout(literal.shape())) {
    return b.fail("a constant in a layout other than that of rows");
  }
  const Shape shape = shape_of(literal.shape());
  // A literal has all of its elements, so its file bounds its size.
  constexpr int64_t kMost = int64_t{1} << 31;
  if (!b.allowed(shape)) return graph::kNone;
  if (graph::elements_of(shape) > kMost) {
    return b.fail("a constant of {}; at most 2^31 elements are supported",
                  graph::shape_text(shape));
  }
  const auto held = static_cast<int64_t>(literal.ByteSizeLong());
  if (graph::elements_of(shape) > held) {
    return b.fail("a constant of {} in {} bytes", graph::shape_text(shape), held);
  }
  Tensor tensor = Tensor::zeros(*type, shape);
  if (!fill(tensor, literal)) {
    return b.fail("a constant lacks elements of its {}", graph::shape_text(shape));
  }
  return b.constant(std::move(tensor));
}

Value Step::in(size_t number) {
  if (number < operands.size() && operands[number].size() == 1) return operands[number][0];
  return b.fail("operand {} is {}, expected an array", number,
                number < operands.size() ? "a tuple" : "missing");
}

int64_t Step::called(int number) {
  if (number < instruction.called_computation_ids_size()) {
    return instruction.called_computation_ids(number);
  }
  b.fail("it calls no computation {}", number);
  return -1;
}

bool is_kernel_trace(const std::string& text) {
  return text.substr(0, text.find('\n')).find("\"nki_trace\"") != std::string::npos;
}

std::pair<Value, Value> Step::same_type(Value a, Value c) {
  if (!b.ok()) return {graph::kNone, graph::kNone};
  auto both = wider(b.type(a), b.type(c));
  const auto result = type_of(instruction.shape().element_type());
  if (both && result) {
    const auto all = wider(*both, *result);
    // Whole numbers whose products are real ones.
    if (!all && graph::is_real(*result)) both = result;
    if (all && graph::type_bytes(*result) > graph::type_bytes(*both)) both = result;
  }
  if (both) return {b.cast(a, *both), b.cast(c, *both)};
  b.fail("a product of {} and {}; convert one of them before", graph::type_name(b.type(a)),
         graph::type_name(b.type(c)));
  return {graph::kNone, graph::kNone};
}

Value Step::in_result_type(Value x) {
  const auto type = type_of(instruction.shape().element_type());
  if (!b.ok() || !type || b.type(x) == *type) return x;
  return b.cast(x, *type);
}

}  // namespace neuron::hlo
