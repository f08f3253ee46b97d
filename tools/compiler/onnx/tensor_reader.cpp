// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/onnx/tensor_reader.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <vector>

#include "driver/base/small_float.h"
#include "tools/compiler/onnx/model.pb.h"

namespace neuron::onnx {
namespace {

using graph::Tensor;
using graph::Type;
using runtime::fail;
using runtime::Result;

constexpr int64_t kMostElements = int64_t{1} << 31;
constexpr int32_t kExternal = 1;  // TensorProto.DataLocation
constexpr int32_t kString = 8;

// The bytes of a tensor whose data is in another file.
Result<std::string> read_external(const file::TensorData& data, const std::string& folder,
                                  size_t wanted) {
  std::string name;
  uint64_t offset = 0, length = wanted;
  for (const file::Entry& entry : data.external_data()) {
    if (entry.key() == "location") name = entry.value();
    const bool is_offset = entry.key() == "offset";
    if (!is_offset && entry.key() != "length") continue;
    const std::string& text = entry.value();
    uint64_t& number = is_offset ? offset : length;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (wrong != std::errc() || end != text.data() + text.size()) {
      return fail(NRT_INVALID, "the {} of its data is \"{}\", expected a number", entry.key(),
                  base::escaped(text));
    }
  }
  if (length != wanted) {
    return fail(NRT_INVALID, "its data is to have {} bytes, and its shape needs {}", length,
                wanted);
  }
  namespace files = std::filesystem;
  const files::path path(name);
  bool below = !name.empty() && path.is_relative() && !folder.empty();
  std::error_code error;
  files::path whole(folder);
  files::file_status status;
  for (const files::path& part : path) {
    whole /= part;
    status = files::symlink_status(whole, error);
    // A link could lead elsewhere, that of a folder too.
    below = below && part != ".." && !files::is_symlink(status);
  }
  if (!below || !files::is_regular_file(status)) {
    return fail(NRT_INVALID,
                "the data is in \"{}\", which is no regular file below the folder of the model",
                base::escaped(name));
  }
  const uint64_t size = files::file_size(whole, error);
  if (error || offset > size || wanted > size - offset) {
    return fail(NRT_INVALID, "\"{}\" ends before the {} bytes at {}", base::escaped(name), wanted,
                offset);
  }
  std::ifstream in(whole, std::ios::binary);
  std::string bytes(wanted, '\0');
  in.seekg(static_cast<std::streamoff>(offset));
  if (!in.read(bytes.data(), static_cast<std::streamsize>(wanted))) {
    return fail(NRT_INVALID, "\"{}\" cannot be read", base::escaped(name));
  }
  return bytes;
}

// Numbers in lists of the message, of which there must be as many as elements.
template <class List, class Use>
bool each(const List& list, int64_t count, const Use& use) {
  if (list.size() != count) return false;
  for (int i = 0; i < list.size(); ++i) use(static_cast<size_t>(i), list.Get(i));
  return true;
}

bool fill(Tensor& tensor, const file::TensorData& data) {
  const int64_t count = tensor.elements();
  const auto whole = [&](size_t i, auto value) {
    tensor.integers[i] = graph::wrapped(tensor.type, static_cast<int64_t>(value));
  };
  const auto real = [&](size_t i, auto value) { tensor.reals[i] = static_cast<double>(value); };
  switch (tensor.type) {
    case Type::kF32:
      return each(data.float_data(), count, real);
    case Type::kF64:
      return each(data.double_data(), count, real);
    case Type::kF16:
    case Type::kBf16:
      return each(data.int32_data(), count, [&](size_t i, int32_t bits) {
        tensor.reals[i] = base::widen(tensor.type == Type::kF16 ? base::kFp16 : base::kBf16,
                                      static_cast<uint32_t>(bits) & 0xFFFF);
      });
    case Type::kI64:
      return each(data.int64_data(), count, whole);
    case Type::kU32:
    case Type::kU64:
      return each(data.uint64_data(), count, whole);
    default:
      return each(data.int32_data(), count, whole);
  }
}

}  // namespace

std::optional<Type> type_of(int32_t data_type) {
  switch (data_type) {
    case 1:
      return Type::kF32;
    case 2:
      return Type::kU8;
    case 3:
      return Type::kI8;
    case 4:
      return Type::kU16;
    case 5:
      return Type::kI16;
    case 6:
      return Type::kI32;
    case 7:
      return Type::kI64;
    case 9:
      return Type::kBool;
    case 10:
      return Type::kF16;
    case 11:
      return Type::kF64;
    case 12:
      return Type::kU32;
    case 13:
      return Type::kU64;
    case 16:
      return Type::kBf16;
    default:
      return std::nullopt;
  }
}

bool is_text(int32_t data_type) { return data_type == kString; }

std::string data_type_text(int32_t data_type) {
  if (is_text(data_type)) return "strings, which have no form on the device";
  if (const auto type = type_of(data_type)) return graph::type_name(*type);
  return "the element type " + std::to_string(data_type) + ", which is not supported";
}

Result<Tensor> read_tensor(const file::TensorData& data, const std::string& folder) {
  const auto type = type_of(data.data_type());
  if (!type) return fail(NRT_INVALID, "it has {}", data_type_text(data.data_type()));
  graph::Shape shape;
  int64_t count = 1;
  for (const int64_t size : data.dims()) {
    if (size < 0 || count > kMostElements / std::max<int64_t>(1, size)) {
      return fail(NRT_INVALID, "it has a dimension of {}", size);
    }
    count *= std::max<int64_t>(1, size);
    shape.push_back(size);
  }
  count = graph::elements_of(shape);
  const size_t bytes = static_cast<size_t>(count) * graph::type_bytes(*type);
  if (data.data_location() == kExternal) {
    NEURON_TRY(found, read_external(data, folder, bytes));
    return Tensor::from_bytes(*type, shape, reinterpret_cast<const uint8_t*>(found.data()));
  }
  if (data.has_raw_data()) {
    if (data.raw_data().size() != bytes) {
      return fail(NRT_INVALID, "it has {} bytes, and {} {} need {}", data.raw_data().size(),
                  graph::shape_text(shape), graph::type_name(*type), bytes);
    }
    return Tensor::from_bytes(*type, shape,
                              reinterpret_cast<const uint8_t*>(data.raw_data().data()));
  }
  // The lists hold four bytes an element at least, so a small file cannot ask for much memory.
  const int64_t held = int64_t{data.float_data_size()} + data.int32_data_size() +
                       data.int64_data_size() + data.double_data_size() + data.uint64_data_size();
  if (held != count) {
    return fail(NRT_INVALID, "it has {} elements, its shape {} asks for {}", held,
                graph::shape_text(shape), count);
  }
  Tensor tensor = Tensor::zeros(*type, std::move(shape));
  if (!fill(tensor, data)) {
    return fail(NRT_INVALID, "its {} elements are not in the list of its type, {}", count,
                graph::type_name(*type));
  }
  return tensor;
}

}  // namespace neuron::onnx
