// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-dump/core_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tools/common/terminal.h"
#include "tools/common/wait_words.h"

namespace neuron::dump {

using runtime::fail;
using runtime::format;
using runtime::Result;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMagic = "core dump of the open Neuron runtime, version ";
constexpr std::string_view kVersion = "1";

// What is behind `head`, if the line begins with it.
bool take(const std::string& line, std::string_view head, std::string& rest) {
  if (!line.starts_with(head)) return false;
  rest = line.substr(head.size());
  return true;
}

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(),
                                      [](unsigned char c) { return std::isdigit(c) != 0; });
}

// "NAME: STATE at PC, T ps, waits for 0xW, which is V", or what could not be read.
Engine engine_of(const std::string& text) {
  Engine engine;
  const size_t colon = text.find(": ");
  engine.name = text.substr(0, colon);
  engine.state = colon == std::string::npos ? "" : text.substr(colon + 2);
  static const std::regex form(
      "([a-z]+) at (-?[0-9]+), ([0-9]{1,19}) ps, waits for 0x([0-9a-f]{1,8}), which is "
      "([0-9]{1,10})");
  std::smatch match;
  const std::string state = engine.state;
  // Long lines would cost the expression its stack.
  if (state.size() > 200 || !std::regex_match(state, match, form)) return engine;
  engine.state = match[1];
  engine.at = match[2];
  engine.time_ps = std::stoull(match[3]);
  engine.waiting = static_cast<uint32_t>(std::stoul(match[4], nullptr, 16));
  engine.wait_value = static_cast<uint32_t>(std::stoull(match[5]));
  return engine;
}

std::string line_of(const CoreFile& file, const Engine& engine) {
  std::string what = engine.state;
  if (engine.state == "waiting") {
    what = tools::words_of_wait(engine.waiting, engine.wait_value, [&](uint32_t number) {
      const auto name = file.names.find(number);
      return name == file.names.end() ? format("semaphore {}", number) : name->second;
    });
  }
  if (engine.at.empty()) return format("  {:<10} {}\n", engine.name, what);
  std::string text = format("  {:<10} {:>12.3f} us  {}", engine.name,
                            static_cast<double>(engine.time_ps) * 1e-6, what);
  if (!engine.exception.empty()) text += "; exception: " + engine.exception;
  if (engine.state != "idle") text += "; pc " + engine.at;
  if (engine.state != "idle" && !engine.instruction.empty()) text += ": " + engine.instruction;
  return text + "\n";
}

}  // namespace

bool is_core_file(std::string_view text) { return text.starts_with(kMagic); }

Result<CoreFile> parse_core_file(const std::string& text) {
  if (!is_core_file(text)) return fail(NRT_INVALID, "it is no core dump of this runtime");
  std::istringstream lines(text);
  std::string line, rest;
  std::getline(lines, line);
  if (line.substr(kMagic.size()) != kVersion) {
    return fail(NRT_INVALID,
                "it is a core dump of version '{}', and this program knows version {}; read it as "
                "the text that it is",
                tools::printable(line.substr(kMagic.size())), kVersion);
  }
  CoreFile file;
  bool semaphores = false;
  while (std::getline(lines, line)) {
    if (take(line, "failure ", file.failure) || take(line, "model: ", file.model) ||
        take(line, "execution: ", file.execution)) {
      continue;
    }
    if (line.starts_with("device ") && file.core.empty()) {
      file.core = line;
    } else if (take(line, "engine ", rest)) {
      file.engines.push_back(engine_of(rest));
      semaphores = false;
    } else if (take(line, "  exception: ", rest) && !file.engines.empty()) {
      if (!rest.starts_with("code 0x0 ")) file.engines.back().exception = rest;
    } else if (take(line, "  > ", rest) && !file.engines.empty()) {
      // "    12: the instruction"
      const size_t colon = rest.find(": ");
      if (colon != std::string::npos) file.engines.back().instruction = rest.substr(colon + 2);
    } else if (line.starts_with("semaphores ")) {
      semaphores = true;
    } else if (semaphores && take(line, "  ", rest)) {
      file.semaphores.push_back(rest);
      // "semaphore 18 (dma_0) = 16"
      std::string number;
      if (take(rest, "semaphore ", number)) {
        const size_t end = std::min(number.find_first_not_of("0123456789"), number.size());
        number.resize(std::min<size_t>(end, 9));
        if (is_number(number)) {
          file.names[static_cast<uint32_t>(std::stoul(number))] = rest.substr(0, rest.find(" = "));
        }
      }
    } else if (line.starts_with("DMA") || line.starts_with("CC core ")) {
      file.others.push_back(line);
      semaphores = false;
    }
  }
  return file;
}

std::string text_of(const CoreFile& file) {
  std::string text = format("  failure {}\n  model {}, execution {}, {}\n", file.failure,
                            file.model, file.execution, file.core);
  for (const Engine& engine : file.engines) text += line_of(file, engine);
  for (const std::string& other : file.others) text += "  " + other + "\n";
  for (const std::string& semaphore : file.semaphores) text += "  " + semaphore + "\n";
  std::istringstream lines(text);
  std::string shown;
  for (std::string line; std::getline(lines, line);) shown += tools::printable(line) + "\n";
  return shown;
}

Result<std::vector<std::string>> core_files(const std::string& place, const std::string& log_id) {
  std::error_code error;
  if (!fs::is_directory(place, error)) {
    if (fs::exists(place, error)) return std::vector<std::string>{place};
    return fail(NRT_INVALID, "there is no core dump at '{}'", place);
  }
  std::vector<std::string> found;
  fs::directory_iterator entries(place, error);
  if (error) return fail(NRT_INVALID, "cannot read the folder '{}': {}", place, error.message());
  for (const auto& entry : entries) {
    std::error_code ignored;
    if (!fs::is_regular_file(entry.symlink_status(ignored))) continue;
    const std::string path = entry.path().string();
    if (!log_id.empty() && !path.ends_with("-lid-" + log_id)) continue;
    std::ifstream file(path);
    std::string head(kMagic.size(), '\0');
    if (file.read(head.data(), static_cast<std::streamsize>(head.size())) && is_core_file(head)) {
      found.push_back(path);
    }
  }
  std::sort(found.begin(), found.end());
  if (found.empty()) {
    return fail(NRT_INVALID, "there is no core dump of this runtime in '{}'{}", place,
                log_id.empty() ? "" : " with the number " + log_id);
  }
  return found;
}

}  // namespace neuron::dump
