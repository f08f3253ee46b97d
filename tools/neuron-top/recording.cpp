// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-top/recording.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "tools/telemetry/record.h"

namespace neuron::top {
namespace {

constexpr size_t kLongestLine = 64u << 20;

// A line without its newline; false at the end of the file.
bool read_line(std::FILE* file, std::string& line) {
  line.clear();
  char part[65536];
  while (std::fgets(part, sizeof part, file) != nullptr) {
    line += part;
    if (!line.empty() && line.back() == '\n') {
      line.pop_back();
      return true;
    }
    if (line.size() > kLongestLine) return true;
  }
  return !line.empty();
}

}  // namespace

std::string Recorder::open(const std::string& path) {
  path_ = path;
  file_.reset(std::fopen(path.c_str(), "we"));
  if (file_ == nullptr) return "cannot record to " + path + ": " + std::strerror(errno);
  return "";
}

std::string Recorder::add(const telemetry::Snapshot& snapshot) {
  if (file_ == nullptr) return "";
  const std::string line = telemetry::to_record(snapshot) + "\n";
  errno = 0;
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
                       std::fflush(file_.get()) == 0;
  if (written) return "";
  const std::string why = std::strerror(errno != 0 ? errno : EIO);
  file_.reset();
  return "the recording in " + path_ + " has ended: " + why + "; its last line may be cut";
}

std::string Replay::open(const std::string& path) {
  path_ = path;
  // The file is checked before it is opened: a pipe would wait for its writer, and a device may
  // never end.
  struct stat about = {};
  if (::stat(path.c_str(), &about) == 0 && !S_ISREG(about.st_mode)) {
    return "cannot replay " + path + ": it is " +
           (S_ISDIR(about.st_mode) ? "a directory" : "no regular file");
  }
  file_.reset(std::fopen(path.c_str(), "re"));
  if (file_ == nullptr) return "cannot replay " + path + ": " + std::strerror(errno);
  std::string line;
  long start = 0;
  while (read_line(file_.get(), line)) {
    if (!line.empty()) starts_.push_back(start);
    start = std::ftell(file_.get());
    if (start < 0) return "cannot replay " + path + ": it is no regular file";
  }
  if (std::ferror(file_.get()) != 0) return "cannot read " + path + ": " + std::strerror(errno);
  if (starts_.empty()) return "cannot replay " + path + ": there is no record in it";
  telemetry::Snapshot first;
  std::string error;
  return read(0, first, error) ? "" : error;
}

bool Replay::read(size_t index, telemetry::Snapshot& snapshot, std::string& error) {
  std::string line;
  if (index >= starts_.size() || std::fseek(file_.get(), starts_[index], SEEK_SET) != 0 ||
      !read_line(file_.get(), line)) {
    error = path_ + ": record " + std::to_string(index + 1) + " cannot be read";
    return false;
  }
  if (telemetry::from_record(line, snapshot, error)) return true;
  error = path_ + ": record " + std::to_string(index + 1) + ": " + error;
  return false;
}

}  // namespace neuron::top
