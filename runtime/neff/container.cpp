// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/container.h"

#include <algorithm>
#include <set>

#include "runtime/neff/tar_reader.h"

namespace neuron::neff {

using runtime::Result;

Result<Container> Container::open(Bytes file, const OpenOptions& options) {
  Container container;
  NEURON_TRY(header, parse_header(file));
  container.header_ = std::move(header);
  Bytes archive = file.subspan(container.header_.header_size);
  if (options.validate_hash) NEURON_CHECK(check_hash(container.header_, archive));
  container.compressed_ = is_gzip(archive);
  if (container.compressed_) {
    NEURON_TRY(unpacked, read_gzip(archive, options.limits));
    container.unpacked_ = std::move(unpacked.data);
    archive = Bytes(container.unpacked_.get(), unpacked.size);
  }
  container.unpacked_bytes_ = archive.size();
  NEURON_TRY(entries, read_tar(archive, options.limits));
  std::set<std::string> directories;
  for (TarEntry& entry : entries) {
    const std::string& name = entry.name;
    for (size_t slash = name.find('/'); slash != std::string::npos;
         slash = name.find('/', slash + 1)) {
      directories.insert(name.substr(0, slash));
    }
    if (entry.directory) {
      directories.insert(name);
    } else {
      container.index_.emplace(name, container.members_.size());
      container.members_.push_back({std::move(entry.name), entry.bytes});
    }
  }
  container.directories_.assign(directories.begin(), directories.end());
  return container;
}

const Member* Container::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &members_[found->second];
}

bool Container::has_directory(std::string_view name) const {
  return std::binary_search(directories_.begin(), directories_.end(), name);
}

}  // namespace neuron::neff
