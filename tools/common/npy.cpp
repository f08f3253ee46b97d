// SPDX-License-Identifier: Apache-2.0
#include "tools/common/npy.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/little_endian.h"
#include "runtime/neff/npy.h"
#include "tools/common/file.h"

namespace neuron::tools {

using runtime::Result;

std::uint64_t NpyArray::elements() const {
  std::uint64_t count = 1;
  for (std::uint64_t size : shape) count *= size;
  return count;
}

Result<NpyArray> read_npy(neff::Bytes file) {
  NEURON_TRY(view, neff::parse_npy(file));
  NpyArray array;
  array.type = view.type;
  array.shape = view.shape;
  array.data.assign(view.data.begin(), view.data.end());
  return array;
}

Result<NpyArray> read_npy_file(const std::string& path) {
  NEURON_TRY(bytes, read_file(path));
  auto array = read_npy(bytes);
  if (!array) return array.error().with("{}", path);
  return array;
}

std::vector<std::uint8_t> write_npy(const NpyArray& array) {
  std::string header = "{'descr': '" + array.type + "', 'fortran_order': False, 'shape': (";
  for (std::uint64_t size : array.shape) header += std::to_string(size) + ",";
  header += "), }";
  constexpr std::size_t kPrefix = 10;
  constexpr std::size_t kAlignment = 64;  // The format asks for it, so that data can be mapped.
  const std::size_t unpadded = kPrefix + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::vector<std::uint8_t> file(kPrefix + header.size() + array.data.size());
  std::memcpy(file.data(), "\x93NUMPY\x01\x00", 8);
  runtime::store_little(file.data() + 8, static_cast<std::uint16_t>(header.size()));
  std::memcpy(file.data() + kPrefix, header.data(), header.size());
  std::copy(array.data.begin(), array.data.end(), file.begin() + kPrefix + header.size());
  return file;
}

}  // namespace neuron::tools
