// SPDX-License-Identifier: Apache-2.0
//
// Memory of the size of a NEFF file, in which large arrays are holes. The parser finds headers,
// definitions and programs in it; the loader streams the arrays from the file to the device.
// Concept: a hole is the content of a large .npy member of an uncompressed archive, behind the part
// that holds the array's header. Any other file, or one whose archive is not plain, has no holes.
// Callers: nrt_open_load_file, the loader; one thread. Owns: memory and file.
// Fails: as FileReader does; NRT_RESOURCE when address space is short.
#ifndef RUNTIME_MODEL_FILE_IMAGE_H
#define RUNTIME_MODEL_FILE_IMAGE_H

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model/file_reader.h"
#include "runtime/neff/header.h"

namespace neuron::runtime {

class FileImage {
 public:
  // `whole`: make no holes; for callers that look at every byte.
  static Result<FileImage> open(const std::string& path, bool whole, bool ring = true);

  neff::Bytes bytes() const { return {memory_.get(), size_}; }
  // Offset and length of each hole, in order.
  const std::vector<std::pair<uint64_t, uint64_t>>& holes() const { return holes_; }
  // True if a part of bytes() lies at least partly in a hole.
  bool in_hole(neff::Bytes part) const;
  // Reads such a part from the file, in pieces.
  Result<void> stream(neff::Bytes part,
                      const std::function<Result<void>(const std::byte* piece, uint64_t at,
                                                       uint64_t length)>& take) const;

 private:
  struct Unmap {
    uint64_t size = 0;
    void operator()(uint8_t* memory) const;
  };

  uint64_t offset_of(neff::Bytes part) const {
    return static_cast<uint64_t>(part.data() - memory_.get());
  }
  Result<void> fill(uint64_t from, uint64_t to);
  Result<void> fill_archive();

  std::unique_ptr<FileReader> reader_;
  std::unique_ptr<uint8_t, Unmap> memory_{nullptr, Unmap{}};
  uint64_t size_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> holes_;
};

}  // namespace neuron::runtime

#endif
