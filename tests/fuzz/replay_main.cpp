// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer. Each argument is a file, or a folder of files: it is
// replayed, so that every input that once found a fault is a regression test of the ordinary build.
//
// With --seconds N and --last FILE in front, what was replayed is then changed at random, by a seed
// that is printed, until N seconds have passed; FILE always holds the input in use. That is for the
// thread sanitizer, under which libFuzzer's counters would be races themselves.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

// Runs the target on the file's bytes and adds them to `inputs`. False: the file cannot be read.
bool replay(const std::filesystem::path& path, std::vector<Input>& inputs) {
  std::ifstream file(path, std::ios::binary);
  Input bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file.is_open() || file.bad()) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return false;
  }
  std::fprintf(stderr, "%s (%zu bytes)\n", path.c_str(),
               bytes.size());  // The last line names a crash.
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  inputs.push_back(std::move(bytes));
  return true;
}

// One to eight changes: a bit, a byte, a piece of another input put in, a piece taken out.
Input changed(const std::vector<Input>& inputs, std::mt19937_64& random) {
  const auto below = [&](size_t end) { return end == 0 ? 0 : random() % end; };
  Input input = inputs[below(inputs.size())];
  for (size_t changes = 1 + below(8); changes > 0; --changes) {
    const size_t at = below(input.size());
    const size_t size = 1 + below(64);
    switch (below(4)) {
      case 0:
        if (!input.empty()) input[at] ^= static_cast<uint8_t>(1u << below(8));
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<uint8_t>(random());
        break;
      case 2: {
        const Input& other = inputs[below(inputs.size())];
        const size_t from = below(other.size());
        const size_t piece = std::min(size, other.size() - from);
        input.insert(input.begin() + static_cast<ptrdiff_t>(at),
                     other.begin() + static_cast<ptrdiff_t>(from),
                     other.begin() + static_cast<ptrdiff_t>(from + piece));
        break;
      }
      default:
        input.erase(input.begin() + static_cast<ptrdiff_t>(at),
                    input.begin() + static_cast<ptrdiff_t>(std::min(at + size, input.size())));
    }
  }
  return input;
}

// `seconds` of changed inputs, each written to the file `last` before it is used. False: the file
// cannot be written.
bool vary(const std::vector<Input>& inputs, long seconds, const char* last) {
  const auto seed = std::random_device()();
  std::mt19937_64 random(seed);
  std::fprintf(stderr, "seed %u, %ld s, input in %s\n", seed, seconds, last);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  uint64_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    const Input input = changed(inputs, random);
    std::ofstream file(last, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(input.data()),
               static_cast<std::streamsize>(input.size()));
    if (!file.flush()) {
      std::fprintf(stderr, "cannot write %s\n", last);
      return false;
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::fprintf(stderr, "%llu inputs\n", static_cast<unsigned long long>(runs));
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<Input> inputs;
  bool good = true;
  int first = 1;
  long seconds = 0;
  if (argc > 4 && std::strcmp(argv[1], "--seconds") == 0 && std::strcmp(argv[3], "--last") == 0) {
    char* end = nullptr;
    seconds = std::strtol(argv[2], &end, 10);
    if (*end != '\0' || seconds <= 0) {
      std::fprintf(stderr, "--seconds %s: expected a whole number above 0\n", argv[2]);
      return 1;
    }
    first = 5;
  }
  for (int i = first; i < argc; ++i) {
    std::error_code error;
    if (!std::filesystem::is_directory(argv[i], error)) {
      good = replay(argv[i], inputs) && good;
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i], error)) {
      if (entry.is_regular_file()) good = replay(entry.path(), inputs) && good;
    }
  }
  if (inputs.empty()) std::fprintf(stderr, "no input: give files or folders\n");
  good = good && !inputs.empty();
  return good && (seconds == 0 || vary(inputs, seconds, argv[4])) ? 0 : 1;
}
