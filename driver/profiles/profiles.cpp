// SPDX-License-Identifier: Apache-2.0
// Finding profiles: those of the library, read when they are first asked for, and users' files.
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "driver/base/format.h"
#include "driver/profiles/profile.h"
#include "driver/profiles/profile_texts.h"
#include "driver/profiles/topology.h"

namespace neuron::profiles {
namespace {

using base::format;

constexpr size_t kMostText = size_t{1} << 20;

const ProfileText* text_of(std::string_view name) {
  for (size_t i = 0; i < kProfileTextCount; ++i) {
    if (name == kProfileTexts[i].name) return &kProfileTexts[i];
  }
  return nullptr;
}

bool is_path(std::string_view name_or_path) {
  return name_or_path.find('/') != std::string_view::npos;
}

bool read_file(const char* kind, const std::string& path, std::string& text, std::string& error) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
    error = format("the {} {} is a socket; if a daemon listens there, NEURON_EMULATOR is unix:{}",
                   kind, path, path);
    return false;
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  text.assign(kMostText + 1, '\0');
  if (!file ||
      (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && !file.eof())) {
    const int code = errno;
    error = format("the {} {} cannot be read: {}", kind, path,
                   code != 0 ? std::strerror(code) : "it is not a file");
    return false;
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() <= kMostText) return true;
  error = format("the {} {} is larger than {} bytes", kind, path, kMostText);
  return false;
}

std::string joined(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

}  // namespace

const Profile* find_profile(std::string_view name) {
  const ProfileText* found = text_of(name);
  std::string error;
  return found ? parse_profile(found->text, std::string(name), error) : nullptr;
}

std::string profile_names() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kProfileTextCount; ++i) {
    if (find_profile(kProfileTexts[i].name)) names.emplace_back(kProfileTexts[i].name);
  }
  return joined(names);
}

const Profile* load_profile(std::string_view name_or_path, std::string& error) {
  const std::string path(name_or_path);
  if (is_path(path)) {
    std::string text;
    return read_file("profile", path, text, error) ? parse_profile(text, path, error) : nullptr;
  }
  const Profile* found = find_profile(path);
  if (!found) {
    error = format(
        "\"{}\" is no emulated instance type; known are {}; a profile of your own is named by its "
        "path, with a slash",
        path.substr(0, 64), profile_names());
  }
  return found;
}

std::vector<std::string> topology_names() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kProfileTextCount; ++i) {
    NodeProfile topology;
    std::string error;
    const ProfileText& text = kProfileTexts[i];
    if (parse_topology(text.text, std::string(text.name), topology, error)) {
      names.emplace_back(text.name);
    }
  }
  return names;
}

bool load_topology(std::string_view name_or_path, NodeProfile& profile, std::string& error) {
  const std::string path(name_or_path);
  if (const ProfileText* found = text_of(path)) {
    return parse_topology(found->text, path, profile, error);
  }
  if (is_path(path)) {
    std::string text;
    return read_file("topology", path, text, error) && parse_topology(text, path, profile, error);
  }
  error = format(
      "no topology is called \"{}\"; there are {}, and a file is named by a path that holds a "
      "slash",
      path, joined(topology_names()));
  return false;
}

}  // namespace neuron::profiles
