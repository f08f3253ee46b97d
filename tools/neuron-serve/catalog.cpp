// SPDX-License-Identifier: Apache-2.0
//
// What is served under which name and version.
#include <algorithm>

#include "tools/neuron-serve/model_host.h"

namespace neuron::serve {
namespace {

// Versions of this name among the keys, ascending.
template <class Map>
std::vector<std::string> versions_in(const Map& map, std::string_view name) {
  std::vector<std::string> versions;
  for (const auto& [key, value] : map) {
    if (name_of(key) == name) versions.push_back(version_of(key));
  }
  std::sort(versions.begin(), versions.end(), [](const auto& a, const auto& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return versions;
}

}  // namespace

std::string Catalog::reason() const {
  if (state != State::kStarting) return "the device was lost: " + detail;
  return "models are being loaded" + (detail.empty() ? "" : "; " + detail);
}

std::vector<std::string> Catalog::versions(std::string_view name) const {
  return versions_in(models, name);
}

std::shared_ptr<Model> Catalog::find(std::string_view name, std::string_view version) const {
  // A key is no name: "NAME/2" would answer for the version "1" of a model that has none.
  if (name.find('/') != std::string_view::npos) return nullptr;
  // The usual case first: a name is looked up for each request.
  if (const auto found = models.find(name); found != models.end()) {
    return version.empty() || version == "1" ? found->second : nullptr;
  }
  std::string wanted(version);
  if (wanted.empty()) {
    const auto all = versions(name);
    if (all.empty()) return nullptr;
    wanted = all.back();
  }
  const auto found = models.find(std::string(name) + "/" + wanted);
  return found != models.end() ? found->second : nullptr;
}

std::string Catalog::why_missing(std::string_view name, std::string_view version) const {
  for (const auto& [key, why] : failed) {
    if (name_of(key) == name && (version.empty() || version_of(key) == version)) return why;
  }
  return "";
}

}  // namespace neuron::serve
