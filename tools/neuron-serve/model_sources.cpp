// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/model_sources.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "driver/base/file_descriptor.h"
#include "runtime/base/file.h"

namespace neuron::serve {
namespace {

namespace fs = std::filesystem;

// Messages of protocol buffers, of which an ONNX file is one, are no larger.
constexpr off_t kLargestModel = off_t{2} << 30;
constexpr size_t kPiece = 1 << 20;

void add(base::Sha256& hash, std::span<const uint8_t> bytes) { hash.update(bytes); }

void add_number(base::Sha256& hash, uint64_t number) {
  add(hash, {reinterpret_cast<const uint8_t*>(&number), sizeof number});
}

// Opens a regular file; a FIFO without a writer does not hold it up.
base::FileDescriptor open_regular(const std::string& path, struct stat& status) {
  base::FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode)) return file;
  if (file) errno = EINVAL;
  return base::FileDescriptor();
}

// Adds what the file has; false: `error` has a sentence.
bool add_content(base::Sha256& hash, const base::FileDescriptor& file, const std::string& path,
                 const std::function<bool()>& stopped, std::string& error) {
  std::vector<uint8_t> piece(kPiece);
  uint64_t size = 0;
  // bounded: the regular file ends, and the caller may stop it
  while (true) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      error = "cannot read " + path + ": " + std::strerror(errno);
      return false;
    }
    if (stopped()) {
      error = "reading " + path + " was given up";
      return false;
    }
    if (got == 0) break;
    size += static_cast<uint64_t>(got);
    add(hash, std::span(piece).first(static_cast<size_t>(got)));
  }
  add_number(hash, size);
  return true;
}

// The whole model, which is small beside its weights.
std::optional<std::vector<uint8_t>> read_model(const std::string& path, std::string& error) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && status.st_size > kLargestModel) {
    error = path + " has " + std::to_string(status.st_size) +
            " bytes; an ONNX file has at most 2 GiB, and its weights may be in files beside it";
    return std::nullopt;
  }
  auto bytes = tools::read_file(path);
  if (bytes) return std::move(*bytes);
  error = bytes.error().sentence;
  return std::nullopt;
}

}  // namespace

std::set<std::string> files_of_model(std::span<const uint8_t> model) {
  // An entry of a tensor's external data: key (field 1) "location", value (field 2) the name.
  constexpr std::string_view kEntry = "\x0a\x08location\x12";
  const std::string_view text(reinterpret_cast<const char*>(model.data()), model.size());
  std::set<std::string> names;
  for (size_t at = text.find(kEntry); at != text.npos; at = text.find(kEntry, at + 1)) {
    size_t length = 0, from = at + kEntry.size();
    for (int shift = 0; from < text.size() && shift < 28; shift += 7) {
      const auto byte = static_cast<uint8_t>(text[from++]);
      length |= static_cast<size_t>(byte & 127) << shift;
      if (byte < 128) break;
    }
    // No path is longer.
    if (length > text.size() - from || length > PATH_MAX) continue;
    const fs::path path(text.substr(from, length));
    const bool leaves =
        path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end();
    if (!leaves) names.insert(path.lexically_normal());
    if (names.size() > kMostFilesOfModel) break;
  }
  return names;
}

uint64_t weights_identity(const std::string& model) {
  std::string ignored;
  const auto bytes = read_model(model, ignored);
  if (!bytes) return 0;
  const auto names = files_of_model(*bytes);
  if (names.empty()) return 0;
  base::Sha256 hash;
  for (const std::string& name : names) {
    struct stat status = {};
    const fs::path path = fs::path(model).parent_path() / name;
    if (::stat(path.c_str(), &status) != 0) continue;
    for (const auto word :
         {static_cast<uint64_t>(status.st_ino), static_cast<uint64_t>(status.st_size),
          static_cast<uint64_t>(status.st_mtim.tv_sec),
          static_cast<uint64_t>(status.st_mtim.tv_nsec)}) {
      add_number(hash, word);
    }
  }
  const auto digest = hash.finish();
  uint64_t word = 0;
  std::memcpy(&word, digest.data(), sizeof word);
  return word;
}

bool hash_sources(const std::string& compiler, const std::string& model,
                  const std::function<bool()>& stopped, base::Sha256::Digest& digest,
                  std::string& error) {
  base::Sha256 hash;
  struct stat status = {};
  const base::FileDescriptor program = open_regular(compiler, status);
  if (!program) {
    error = "cannot open " + compiler + ": " + std::strerror(errno) +
            "; it belongs beside neuron-serve";
    return false;
  }
  if (!add_content(hash, program, compiler, stopped, error)) return false;
  const auto bytes = read_model(model, error);
  if (!bytes) return false;
  add(hash, *bytes);
  add_number(hash, bytes->size());
  const auto names = files_of_model(*bytes);
  if (names.size() > kMostFilesOfModel) {
    error = model + " names more than " + std::to_string(kMostFilesOfModel) +
            " files of weights; keep its weights in fewer files";
    return false;
  }
  // A name may be a link to what another one names: which of them, and not where that is.
  std::map<std::pair<dev_t, ino_t>, uint64_t> seen;
  for (const std::string& name : names) {
    const std::string path = fs::path(model).parent_path() / name;
    const base::FileDescriptor file = open_regular(path, status);
    // A file that is missing is the compiler's to complain of.
    if (!file) continue;
    add(hash, {reinterpret_cast<const uint8_t*>(name.data()), name.size()});
    const auto [known, fresh] =
        seen.try_emplace(std::pair(status.st_dev, status.st_ino), seen.size());
    add_number(hash, known->second);
    if (!fresh) continue;
    if (!add_content(hash, file, path, stopped, error)) return false;
  }
  digest = hash.finish();
  return true;
}

}  // namespace neuron::serve
