// SPDX-License-Identifier: Apache-2.0
#include "runtime/profile/profile_series.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/log.h"

namespace neuron::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnd = ".ntff";

// The numbers of the files with this beginning, ascending.
std::vector<uint64_t> numbers_in(const std::string& folder, std::string_view begin,
                                 std::error_code& error) {
  std::vector<uint64_t> numbers;
  fs::directory_iterator entries(folder, error);
  // bounded: by the files that there are.
  for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
    const std::string name = entries->path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(kEnd)) continue;
    const char* last = name.data() + name.size() - kEnd.size();
    uint64_t number = 0;
    const auto read = std::from_chars(name.data() + begin.size(), last, number);
    if (read.ec == std::errc() && read.ptr == last) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::string beginning(uint32_t vnc) { return format("profile_nc_{}_session_", vnc); }

}  // namespace

std::string ProfileSeries::path(uint64_t number) const {
  return format("{}/{}{}{}", folder_, beginning(vnc_), number, kEnd);
}

Result<ntff::TraceFileWriter> ProfileSeries::next() const {
  std::error_code error;
  fs::create_directories(folder_, error);
  std::vector<uint64_t> numbers;
  if (!error) numbers = numbers_in(folder_, beginning(vnc_), error);
  if (error) {
    return fail(NRT_INVALID, "the folder '{}' for profiles cannot be made or read: {}", folder_,
                error.message());
  }
  // bounded: another process takes a number at each turn.
  for (uint64_t number = numbers.empty() ? 0 : numbers.back() + 1;; ++number) {
    auto file =
        ntff::TraceFileWriter::create(path(number), ntff::TraceFileWriter::Existing::kRefused);
    if (file || fs::symlink_status(path(number), error).type() == fs::file_type::not_found) {
      return file;
    }
  }
}

void ProfileSeries::trim(uint64_t most) const {
  if (most == 0) return;
  std::error_code error;
  const std::vector<uint64_t> numbers = numbers_in(folder_, beginning(vnc_), error);
  for (size_t n = 0; !error && n + most < numbers.size(); ++n) {
    fs::remove(path(numbers[n]), error);
  }
  if (!error) return;
  log_warning(LogComponent::kNrt,
              "more than the {} profiles that NEURON_OPEN_PROFILE_FILES allows are in '{}', "
              "because an older one cannot be removed: {}",
              most, folder_, error.message());
}

Result<uint64_t> ProfileSeries::limit() {
  return environment_unsigned("NEURON_OPEN_PROFILE_FILES", 0, 0, 1u << 20);
}

}  // namespace neuron::runtime
