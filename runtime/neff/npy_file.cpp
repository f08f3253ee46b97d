// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/npy_file.h"

#include <algorithm>
#include <cstring>

#include "driver/base/little_endian.h"
#include "runtime/base/file.h"
#include "runtime/neff/npy.h"

namespace neuron::tools {

using runtime::Result;

uint64_t NpyArray::elements() const {
  uint64_t count = 1;
  for (uint64_t size : shape) count *= size;
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

std::vector<uint8_t> write_npy(const NpyArray& array) {
  std::string header = "{'descr': '" + array.type + "', 'fortran_order': False, 'shape': (";
  for (uint64_t size : array.shape) header += std::to_string(size) + ",";
  header += "), }";
  constexpr size_t kPrefix = 10;
  constexpr size_t kAlignment = 64;  // The format asks for it, so that data can be mapped.
  const size_t unpadded = kPrefix + header.size() + 1;
  header.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  header += '\n';
  std::vector<uint8_t> file(kPrefix + header.size() + array.data.size());
  std::memcpy(file.data(), "\x93NUMPY\x01\x00", 8);
  base::store_little(file.data() + 8, static_cast<uint16_t>(header.size()));
  std::memcpy(file.data() + kPrefix, header.data(), header.size());
  std::copy(array.data.begin(), array.data.end(), file.begin() + kPrefix + header.size());
  return file;
}

}  // namespace neuron::tools
