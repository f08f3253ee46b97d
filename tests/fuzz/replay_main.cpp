// SPDX-License-Identifier: Apache-2.0
// Replays inputs of a fuzz target without libFuzzer: each argument is a file, or a folder of files.
// So every input that once found a fault is a regression test of the ordinary build.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

bool replay(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return false;
  }
  std::fprintf(stderr, "%s (%zu bytes)\n", path.c_str(),
               bytes.size());  // The last line names a crash.
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  int inputs = 0;
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    if (!std::filesystem::is_directory(argv[i], error)) {
      good = replay(argv[i]) && good;
      ++inputs;
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i], error)) {
      if (!entry.is_regular_file()) continue;
      good = replay(entry.path()) && good;
      ++inputs;
    }
  }
  if (inputs == 0) std::fprintf(stderr, "no input: give files or folders\n");
  return good && inputs > 0 ? 0 : 1;
}
