// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-serve/model_folder.h"

#include <sys/stat.h>

#include <charconv>
#include <filesystem>

#include "driver/base/format.h"
#include "runtime/base/file.h"
#include "tools/neuron-serve/message/model_spec.h"
#include "tools/neuron-serve/model_sources.h"

namespace neuron::serve {
namespace {

namespace fs = std::filesystem;
constexpr off_t kLongestSettings = 1 << 20;

bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= 128 && name[0] != '.' &&
         name.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
             std::string_view::npos;
}

// A version is a number without leading zeros, as the name of a folder.
bool is_version(std::string_view text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && text[0] != '0';
}

// Adds the file to the identity at `word`; false: there is none.
bool identify(const std::string& file, FileIdentity& identity, size_t word) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0) return false;
  identity.words[word] = status.st_ino;
  identity.words[word + 1] = static_cast<uint64_t>(status.st_size);
  identity.words[word + 2] = static_cast<uint64_t>(status.st_mtim.tv_sec);
  identity.words[word + 3] = static_cast<uint64_t>(status.st_mtim.tv_nsec);
  return true;
}

void take_settings(const std::string& file, FoundModel& model) {
  struct stat status = {};
  if (::stat(file.c_str(), &status) == 0 && status.st_size > kLongestSettings) {
    model.error = base::format("{} has {} bytes; settings have at most {}", file, status.st_size,
                               kLongestSettings);
    return;
  }
  auto bytes = tools::read_file(file);
  if (!bytes) {
    model.error = bytes.error().sentence;
    return;
  }
  read_settings({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, file, model.settings,
                model.error);
}

}  // namespace

FoundModel look_at_model(const std::string& folder, const std::string& only,
                         const std::string& key) {
  FoundModel model;
  const std::string name = name_of(key);
  const bool versioned = name != key;
  const std::string base = folder + "/" + key + (versioned ? "/model" : "");
  model.file = base + ".neff";
  if (!good_name(name)) {
    model.error = "'" + model.file +
                  "': a model's name has 1 to 128 letters, digits, '.', '_' and '-'; rename it";
    return model;
  }
  FileIdentity source;
  const bool onnx = !only.ends_with(".neff") && identify(base + ".onnx", source, 0);
  const bool neff = !only.ends_with(".onnx") && identify(base + ".neff", model.identity, 0);
  if (onnx && neff) {
    model.error = base + " is there as .neff and as .onnx; remove one of them";
    return model;
  }
  if (onnx) {
    model.file = base + ".onnx";
    model.identity = source;
    model.identity.words.back() = weights_identity(model.file);
  } else if (!neff) {
    model.error = "there is neither " + base + ".neff nor " + base + ".onnx";
    return model;
  }
  const std::string common = folder + "/" + name + "/model.json";
  if (identify(base + ".json", model.identity, 4)) {
    take_settings(base + ".json", model);
  } else if (versioned && identify(common, model.identity, 4)) {
    take_settings(common, model);
  }
  if (model.error.empty() && neff && !model.settings.batch_sizes.empty()) {
    model.error = model.file + " is compiled already: \"batch_sizes\" is for .onnx";
  }
  return model;
}

bool scan_models(const std::string& folder, const std::string& only,
                 std::map<std::string, FoundModel>& models, std::string& error) {
  std::error_code code;
  fs::directory_iterator entries(folder, code);
  if (code) {
    const std::string suffix = fs::path(folder).extension();
    error = (suffix == ".onnx" || suffix == ".neff" ? "the model " : "the folder of models ") +
            folder + " cannot be opened: " + code.message() +
            "; --models names a model, or a folder of them";
    return false;
  }
  const auto add = [&](const std::string& key) {
    models.emplace(key, look_at_model(folder, only, key));
  };
  for (; entries != fs::directory_iterator(); entries.increment(code)) {
    const std::string file = entries->path().filename();
    if (file.starts_with('.') || (!only.empty() && file != only)) continue;
    const std::string suffix = entries->path().extension();
    if (suffix == ".neff" || suffix == ".onnx") {
      add(entries->path().stem());
      continue;
    }
    std::error_code inner;
    for (fs::directory_iterator versions(entries->path(), inner);
         !inner && versions != fs::directory_iterator(); versions.increment(inner)) {
      const std::string version = versions->path().filename();
      if (is_version(version) && versions->is_directory(inner)) add(file + "/" + version);
    }
  }
  // A list that broke off would make models of those that are not in it vanish.
  if (code) {
    error = "the folder of models, " + folder + ", cannot be read to its end: " + code.message();
    return false;
  }
  // A name means one thing.
  for (auto& [key, model] : models) {
    if (key.find('/') == std::string::npos || !models.contains(name_of(key))) continue;
    model.error = folder + "/" + key + ": there is also " + models.at(name_of(key)).file +
                  "; a model has one file or a folder of versions";
  }
  return true;
}

}  // namespace neuron::serve
