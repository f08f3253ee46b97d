// SPDX-License-Identifier: Apache-2.0
// Finding profiles: those of the library, read when they are first asked for, and users' files.
#include <cerrno>
#include <cstring>
#include <fstream>

#include "driver/profiles/profile.h"
#include "driver/profiles/profile_texts.h"

namespace neuron::profiles {
namespace {

constexpr size_t kMostText = size_t{1} << 20;

}  // namespace

const Profile* find_profile(std::string_view name) {
  for (size_t i = 0; i < kProfileTextCount; i++) {
    if (name != kProfileTexts[i].name) continue;
    std::string error;
    return parse_profile(kProfileTexts[i].text, std::string(name), error);
  }
  return nullptr;
}

std::string profile_names() {
  std::string names;
  for (size_t i = 0; i < kProfileTextCount; i++) {
    if (!names.empty()) names += ", ";
    names += kProfileTexts[i].name;
  }
  return names;
}

const Profile* load_profile(std::string_view name_or_path, std::string& error) {
  const std::string path(name_or_path);
  if (path.find('/') == std::string::npos) {
    const Profile* found = find_profile(path);
    if (found == nullptr)
      error = "\"" + path.substr(0, 64) + "\" is no emulated instance type; known are " +
              profile_names() + "; a profile of your own is named by its path, with a slash";
    return found;
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostText + 1, '\0');
  if (!file ||
      (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && !file.eof())) {
    const int code = errno;
    error = "the profile " + path +
            " cannot be read: " + (code != 0 ? std::strerror(code) : "it is not a file");
    return nullptr;
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMostText) {
    error = "the profile " + path + " is larger than " + std::to_string(kMostText) + " bytes";
    return nullptr;
  }
  return parse_profile(text, path, error);
}

}  // namespace neuron::profiles
