// SPDX-License-Identifier: Apache-2.0
// Whole files, and a temporary folder of a test's own.
//
// Callers: any thread. A Folder owns all that lies in it and removes it at the end of its scope.
// Fails: what cannot be written throws, which fails the test; a file that is not there is empty.
#ifndef TESTS_SUPPORT_FILES_H
#define TESTS_SUPPORT_FILES_H

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace neuron::test {

// Empty when there is no such file.
std::string read_file(const std::string& path);
// Replaces the file. Throws std::runtime_error, which names it.
void write_file(const std::string& path, std::string_view content);
void write_file(const std::string& path, std::span<const uint8_t> content);

// The folder of build/bin, build/tests and the like: `built("bin/neuron-ls")`.
std::string built(const std::string& path);
// A file of the source tree.
std::string source(const std::string& path);

class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::string& path() const { return path_; }
  // The path of a file in it, which need not exist.
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file in it, with the folders above the file. Returns its path.
  std::string write(const std::string& name, std::string_view content) const;
  std::string write(const std::string& name, std::span<const uint8_t> content) const;
  std::string read(const std::string& name) const { return read_file(path(name)); }

 private:
  std::string path_;
};

}  // namespace neuron::test

#endif
