// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-run/arrays.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "tools/execution/dtype.h"

namespace neuron::run {
namespace {

using execution::dtype_bytes;
using execution::dtype_name;
using execution::FloatFormat;
using execution::npy_kinds;
using runtime::fail;

// The words that people know for the kinds of NumPy.
std::string numpy_name(const std::string& kind) {
  const std::string bits = std::to_string(8 * std::stoul("0" + kind.substr(1)));
  switch (kind[0]) {
    case 'f':
      return "float" + bits;
    case 'i':
      return "int" + bits;
    case 'u':
      return "uint" + bits;
    case 'b':
      return "bool";
    default:
      return bits + " bits without a meaning";
  }
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text = "[";
  for (const uint64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

uint64_t product(const std::vector<uint64_t>& shape) {
  uint64_t count = 1;
  for (const uint64_t size : shape) count *= size;
  return count;
}

// The shape of the array that holds a tensor: that of the tensor, or its bytes in a row where the
// shape does not say how many there are.
std::vector<uint64_t> array_shape(const Form& form) {
  const size_t item = dtype_bytes(form.dtype);
  if (product(form.shape) * item == form.bytes) return form.shape;
  return {form.bytes / item};
}

uint64_t random_number(const FloatFormat& format, uint64_t bits) {
  const uint64_t mantissa = bits & ((uint64_t{1} << format.mantissa_bits) - 1);
  const uint64_t bias = (uint64_t{1} << (format.exponent_bits - 1)) - 1;
  // Below 1, and never subnormal: an exponent of 0 is.
  const uint64_t exponents = std::min<uint64_t>(4, bias - 1);
  const uint64_t exponent = bias - 1 - (bits >> 32) % exponents;
  const uint64_t sign = bits >> 63;
  return sign << (format.mantissa_bits + format.exponent_bits) | exponent << format.mantissa_bits |
         mantissa;
}

}  // namespace

std::string text_of(const Form& form) {
  return std::string(dtype_name(form.dtype)) + " " + shape_text(form.shape);
}

runtime::Result<void> check_fits(const tools::NpyArray& array, const Form& form) {
  const std::string kind = array.type.substr(1);  // behind the order of its bytes
  const std::vector<std::string>& kinds = npy_kinds(form.dtype);
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    const bool named = numpy_name(kinds[0]) == dtype_name(form.dtype) || kinds.size() == 1;
    return fail(NRT_INVALID, "the type is {} ({}), expected {} ({}){}", array.type,
                numpy_name(kind), (kinds[0][1] == '1' ? "|" : "<") + kinds[0],
                named ? numpy_name(kinds[0])
                      : std::string("the bits of ") + dtype_name(form.dtype) +
                            ", which NumPy has no name for",
                named ? "; array.astype(\"" + kinds[0] + "\") converts" : "");
  }
  const std::vector<uint64_t> shape = array_shape(form);
  if (array.shape != shape) {
    // A reversed shape is that of a transposed array, whose elements reshape() would scramble.
    const bool reversed =
        std::equal(shape.begin(), shape.end(), array.shape.rbegin(), array.shape.rend());
    return fail(NRT_INVALID, "the shape is {}, expected {}{}", shape_text(array.shape),
                shape_text(shape),
                reversed ? "; numpy.ascontiguousarray(array.T) gives it, if the array is transposed"
                : product(array.shape) == product(shape)
                    ? "; array.reshape(...) gives it, if the elements are in this order"
                    : "");
  }
  return {};
}

tools::NpyArray array_of(const Form& form, std::vector<uint8_t> bytes) {
  const std::string& kind = npy_kinds(form.dtype)[0];
  return {.type = (kind[1] == '1' ? "|" : "<") + kind,
          .shape = array_shape(form),
          .data = std::move(bytes)};
}

std::vector<uint8_t> random_bytes(const Form& form, uint64_t seed) {
  std::seed_seq seeds(form.name.begin(), form.name.end());
  uint32_t of_name[2];
  seeds.generate(of_name, of_name + 2);
  std::mt19937_64 random(seed ^ (uint64_t{of_name[0]} << 32 | of_name[1]));
  const FloatFormat format = execution::float_format(form.dtype);
  const size_t item = dtype_bytes(form.dtype);
  std::vector<uint8_t> bytes(form.bytes);
  for (size_t at = 0; at + item <= bytes.size(); at += item) {
    const uint64_t bits = random();
    const uint64_t number = format.exponent_bits != 0 ? random_number(format, bits) : bits >> 60;
    // Little endian, as this host and the devices are.
    std::memcpy(bytes.data() + at, &number, item);
  }
  return bytes;
}

}  // namespace neuron::run
