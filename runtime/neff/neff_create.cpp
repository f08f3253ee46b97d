// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/neff_create.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>

#include "driver/base/file_descriptor.h"
#include "runtime/base/file.h"
#include "runtime/neff/container.h"
#include "runtime/neff/graph_reader.h"

namespace neuron::tools {

using runtime::fail;
using runtime::fail_with_errno;
using runtime::Result;

namespace {

constexpr unsigned kDeepest = 32;
constexpr size_t kMostMembers = 65536;
constexpr const char* kVendorFeatures[] = {"bin-weights",         "collectives-offset",
                                           "custom-ops",          "coalesced-cc",
                                           "queue-set-instances", "on-chip-functions"};

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

Result<void> read_below(const std::string& directory, const std::string& prefix, unsigned depth,
                        NeffMembers& members) {
  const std::string path = prefix.empty() ? directory : directory + "/" + prefix;
  if (depth > kDeepest) {
    return fail(NRT_INVALID, "{}: more than {} directories in each other", path, kDeepest);
  }
  const int raw = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (raw < 0) return fail_with_errno(NRT_INVALID, errno, "cannot open the directory {}", path);
  const std::unique_ptr<DIR, CloseDirectory> list(fdopendir(raw));
  if (!list) return fail_with_errno(NRT_INVALID, errno, "cannot read the directory {}", path);
  errno = 0;
  while (const dirent* entry = readdir(list.get())) {  // bounded: the directory ends
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string member = prefix.empty() ? name : prefix + "/" + name;
    struct stat status {};
    if (fstatat(dirfd(list.get()), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return fail_with_errno(NRT_INVALID, errno, "cannot stat {}/{}", directory, member);
    }
    if (S_ISDIR(status.st_mode)) {
      NEURON_CHECK(read_below(directory, member, depth + 1, members));
    } else if (S_ISREG(status.st_mode)) {
      NEURON_TRY(contents, read_file(directory + "/" + member));
      if (members.size() == kMostMembers) {
        return fail(NRT_INVALID, "{} holds more than {} files", directory, kMostMembers);
      }
      members[member] = std::move(contents);
    } else {
      return fail(NRT_INVALID,
                  "{}/{} is neither a file nor a directory; a NEFF holds regular files only",
                  directory, member);
    }
    errno = 0;
  }
  if (errno != 0) return fail_with_errno(NRT_INVALID, errno, "cannot read the directory {}", path);
  return {};
}

// "open-program", or the number of a bit.
Result<uint64_t> feature_bit(const std::string& name) {
  if (name == "open-program") return NEFF_FEATURE_OPEN_PROGRAM;
  if (name == "custom-operators") return NEFF_FEATURE_CUSTOM_OPERATORS;
  if (std::find(std::begin(kVendorFeatures), std::end(kVendorFeatures), name) !=
      std::end(kVendorFeatures)) {
    return fail(NRT_INVALID,
                "the bit of the feature \"{}\" is not public; give the number of the bit (0 to 63)",
                name);
  }
  unsigned bit = 64;
  const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), bit);
  if (status != std::errc() || end != name.data() + name.size() || bit > 63) {
    return fail(NRT_INVALID, "found the feature \"{}\", expected open-program or a bit (0 to 63)",
                base::escaped(name));
  }
  return 1ull << bit;
}

Result<void> set_version(const std::string& text, NeffOptions& options) {
  const char* const end = text.data() + text.size();
  const auto [dot, major] = std::from_chars(text.data(), end, options.version_major);
  if (major == std::errc() && dot != end && *dot == '.') {
    const auto [last, minor] = std::from_chars(dot + 1, end, options.version_minor);
    if (minor == std::errc() && last == end) return {};
  }
  return fail(NRT_INVALID, "found the NEFF version \"{}\", expected MAJOR.MINOR as in 2.1",
              base::escaped(text));
}

std::string name_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  path = path.substr(path.rfind('/') + 1);
  for (const char* ending : {".gz", ".tgz", ".tar"}) {
    const size_t size = std::char_traits<char>::length(ending);
    if (path.size() > size && path.ends_with(ending)) path.resize(path.size() - size);
  }
  return path;
}

}  // namespace

Result<NeffMembers> read_directory(const std::string& directory) {
  NeffMembers members;
  NEURON_CHECK(read_below(directory, "", 0, members));
  if (members.empty()) return fail(NRT_INVALID, "{} holds no files", directory);
  return members;
}

Result<std::vector<uint8_t>> create_neff(const CreateOptions& options) {
  NeffOptions header;
  header.name = options.name.empty() ? name_of(options.input) : options.name;
  header.build_version = options.tool_version.empty() ? "neuron-packager 1" : options.tool_version;
  header.header_version = options.header_version;
  header.feature_bits = 0;
  if (header.name.size() > 255 || header.build_version.size() > 127) {
    return fail(NRT_INVALID,
                "the name has {} bytes (at most 255), the tool version {} (at most 127)",
                header.name.size(), header.build_version.size());
  }
  if (options.header_version != 1 && options.header_version != 2) {
    return fail(NRT_INVALID, "found header version {}, expected 1 (SHA-256) or 2 (MD5)",
                options.header_version);
  }
  NEURON_CHECK(set_version(options.neff_version, header));
  for (const std::string& name : options.features) {
    NEURON_TRY(bit, feature_bit(name));
    header.feature_bits |= bit;
  }
  struct stat status {};
  if (stat(options.input.c_str(), &status) != 0) {
    return fail_with_errno(NRT_INVALID, errno, "cannot open {}", options.input);
  }
  std::vector<uint8_t> payload;
  if (S_ISDIR(status.st_mode)) {
    NEURON_TRY(members, read_directory(options.input));
    NEURON_TRY(archive, write_tar(members));
    payload = std::move(archive);
    if (options.compress) {
      NEURON_TRY(packed, gzip(payload));
      payload = std::move(packed);
    }
  } else {
    NEURON_TRY(archive, read_file(options.input));
    payload = std::move(archive);
  }
  // Fields of the header depend on the contents, so a trial file is read first.
  const std::vector<uint8_t> trial = wrap_payload(payload, header);
  auto container = neff::Container::open(trial);
  if (!container) {
    return container.error().with("{} is no archive that a NEFF can hold", options.input);
  }
  uint32_t subgraphs = 0;
  for (const std::string& directory : container->directories()) {
    const bool numbered = directory.size() >= 4 && directory.starts_with("sg") &&
                          directory.find_first_not_of("0123456789", 2) == std::string::npos;
    subgraphs += numbered ? 1 : 0;
  }
  header.cores = options.cores != 0 ? options.cores : std::max(subgraphs, 1u);
  if (header.cores > 64) {
    return fail(NRT_INVALID, "{} cores; 1 to 64 are possible", header.cores);
  }
  std::vector<std::string> notes;
  if (const auto graph = neff::read_graph(*container, {}, notes); graph) {
    header.feature_bits |= NEFF_FEATURE_OPEN_PROGRAM;
    header.lnc_size = graph->lnc;
  }
  return wrap_payload(payload, header);
}

}  // namespace neuron::tools
