// SPDX-License-Identifier: Apache-2.0
#include "tests/support/files.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace neuron::test {

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

void write_file(const std::string& path, std::string_view content) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << content;
  stream.close();
  if (!stream) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
}

void write_file(const std::string& path, std::span<const uint8_t> content) {
  write_file(path, std::string_view(reinterpret_cast<const char*>(content.data()), content.size()));
}

std::string built(const std::string& path) { return std::string(NEURON_BUILD_DIR) + "/" + path; }
std::string source(const std::string& path) { return std::string(NEURON_SOURCE_DIR) + "/" + path; }

Folder::Folder() : path_("/tmp/neuron-XXXXXX") {
  if (::mkdtemp(path_.data()) == nullptr) {
    throw std::runtime_error("cannot make " + path_ + ": " + std::strerror(errno));
  }
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::write(const std::string& name, std::string_view content) const {
  const std::string file = path(name);
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  write_file(file, content);
  return file;
}

std::string Folder::write(const std::string& name, std::span<const uint8_t> content) const {
  return write(name,
               std::string_view(reinterpret_cast<const char*>(content.data()), content.size()));
}

}  // namespace neuron::test
