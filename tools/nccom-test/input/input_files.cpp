// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-test/input/input_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <set>
#include <sstream>

#include "driver/base/file_descriptor.h"
#include "runtime/base/file.h"
#include "runtime/neff/json_document.h"
#include "runtime/neff/json_object.h"
#include "tools/nccom-test/input/operation.h"

namespace neuron::nccom {

using ccom::fail;
using ccom::Result;
using neff::Checker;
using neff::JsonObject;
using neff::JsonPath;

namespace {

constexpr size_t kMostConfigs = 64;
constexpr neff::JsonLimits kLimits{64u << 20, 16, 16u << 20};

ccom::Error from(const runtime::Error& error) { return {CCOM_INVALID, error.sentence}; }

// Reads a file of one object with one key. Unknown keys are errors, because a misspelt one would
// otherwise change the run in silence.
template <class T, class Read>
Result<T> read_object(const std::string& text, const std::string& file, Read&& read) {
  const auto value =
      neff::parse_json({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, file, kLimits);
  if (!value) return from(value.error());
  std::vector<std::string> notes;
  Checker checker(file, notes);
  T result{};
  {
    JsonObject object(checker, *value, nullptr, std::string_view{});
    if (checker.ok()) read(object, result);
  }
  if (!checker.ok()) return from(checker.result().error());
  if (!notes.empty()) return fail(CCOM_INVALID, "{}", notes.front());
  return result;
}

const boost::json::array* list_of(Checker& checker, const JsonPath& where,
                                  const boost::json::value& value, size_t most) {
  const auto* list = value.if_array();
  if (list == nullptr) {
    checker.fail(where, "expected a list");
  } else if (list->size() > most) {
    checker.fail(where, "{} entries are more than {}", list->size(), most);
    list = nullptr;
  } else if (list->empty()) {
    checker.fail(where, "the list is empty");
    list = nullptr;
  }
  return list;
}

std::vector<uint32_t> ranks_of(Checker& checker, const JsonPath& where,
                               const boost::json::value& value, uint32_t ranks) {
  std::vector<uint32_t> result;
  const auto* list = list_of(checker, where, value, ranks);
  if (list == nullptr) return result;
  for (size_t i = 0; i < list->size(); ++i) {
    const JsonPath at{&where, {}, i};
    result.push_back(
        static_cast<uint32_t>(neff::json_number(checker, at, (*list)[i], 0, ranks - 1)));
  }
  return result;
}

void read_groups(JsonObject& object, std::vector<GroupConfig>& configs, uint32_t ranks) {
  Checker& checker = object.checker();
  const JsonPath top = object.at("replica_groups");
  const auto* list = object.list("replica_groups", kMostConfigs);
  if (list == nullptr) {
    checker.fail(top, "a list of lists of groups of ranks is expected");
    return;
  }
  for (size_t c = 0; c < list->size(); ++c) {
    const JsonPath at{&top, {}, c};
    const auto* groups = list_of(checker, at, (*list)[c], ranks);
    if (groups == nullptr) return;
    GroupConfig config;
    std::set<uint32_t> seen;
    for (size_t g = 0; g < groups->size(); ++g) {
      const JsonPath group_at{&at, {}, g};
      config.push_back(ranks_of(checker, group_at, (*groups)[g], ranks));
      if (!checker.ok()) return;
      for (const uint32_t rank : config.back()) {
        if (!seen.insert(rank).second) checker.fail(group_at, "rank {} is named twice", rank);
      }
      if (config.back().size() != config.front().size()) {
        checker.fail(group_at, "the group has {} ranks, the first one {}; all must be as large",
                     config.back().size(), config.front().size());
      }
    }
    configs.push_back(std::move(config));
  }
  if (configs.empty()) checker.fail(top, "the list is empty");
}

void read_pairs(JsonObject& object, std::vector<PairConfig>& configs, uint32_t ranks) {
  Checker& checker = object.checker();
  const JsonPath top = object.at("src_target_pairs");
  const auto* list = object.list("src_target_pairs", kMostConfigs);
  if (list == nullptr) {
    checker.fail(top, "a list of lists of pairs [source, target] is expected");
    return;
  }
  for (size_t c = 0; c < list->size(); ++c) {
    const JsonPath at{&top, {}, c};
    const auto* pairs = list_of(checker, at, (*list)[c], ranks);
    if (pairs == nullptr) return;
    PairConfig config;
    std::set<uint32_t> sources, targets;
    for (size_t p = 0; p < pairs->size(); ++p) {
      const JsonPath pair_at{&at, {}, p};
      const auto pair = ranks_of(checker, pair_at, (*pairs)[p], ranks);
      if (!checker.ok()) return;
      if (pair.size() != 2) {
        checker.fail(pair_at, "{} ranks, expected source and target", pair.size());
        return;
      }
      if (!sources.insert(pair[0]).second) {
        checker.fail(pair_at, "rank {} is a source twice", pair[0]);
      }
      if (!targets.insert(pair[1]).second) {
        checker.fail(pair_at, "rank {} is a target twice", pair[1]);
      }
      config.push_back({pair[0], pair[1]});
    }
    configs.push_back(std::move(config));
  }
  if (configs.empty()) checker.fail(top, "the list is empty");
}

void read_metadata(JsonObject& object, std::vector<VariableEntry>& entries, uint32_t ranks) {
  Checker& checker = object.checker();
  const JsonPath top = object.at("metadata");
  const auto* list = object.list("metadata", ranks);
  if (list == nullptr || list->empty()) {
    checker.fail(top, "a list of one entry, or one for each of the {} ranks, is expected", ranks);
    return;
  }
  if (list->size() != 1 && list->size() != ranks) {
    checker.fail(top, "{} entries; expected 1, or {}, one for each rank", list->size(), ranks);
    return;
  }
  constexpr uint64_t kMost = kLargestSize;
  for (size_t i = 0; i < list->size(); ++i) {
    JsonObject entry(checker, (*list)[i], &top, i);
    VariableEntry read;
    read.send_counts = entry.numbers("send_counts", ranks, 0, kMost);
    read.send_displacements = entry.numbers("send_displs", ranks, 0, kMost);
    read.receive_counts = entry.numbers("recv_counts", ranks, 0, kMost);
    read.receive_displacements = entry.numbers("recv_displs", ranks, 0, kMost);
    if (read.send_counts.empty()) checker.fail(entry.at("send_counts"), "it is missing");
    if (!read.send_displacements.empty() &&
        read.send_displacements.size() != read.send_counts.size()) {
      checker.fail(entry.at("send_displs"), "{} entries, but send_counts has {}",
                   read.send_displacements.size(), read.send_counts.size());
    }
    if (!read.receive_displacements.empty() &&
        read.receive_displacements.size() != read.receive_counts.size()) {
      checker.fail(entry.at("recv_displs"), "{} entries, but recv_counts has {}",
                   read.receive_displacements.size(), read.receive_counts.size());
    }
    entries.push_back(std::move(read));
  }
}

// Reads a value that has its own parser, whose sentence becomes that of the field.
template <class T, class F>
void take(Checker& checker, JsonObject& object, const char* key, T& into, F&& parse) {
  if (!object.has(key)) return;
  auto result = parse(object.text(key));
  if (!checker.ok()) return;
  if (result) {
    into = *result;
  } else {
    checker.fail(object.at(key), "{}", result.error().sentence);
  }
}

// Sizes may be numbers of bytes or texts with a suffix.
template <class T>
void take_size(Checker& checker, JsonObject& object, const char* key, T& into) {
  const auto* value = object.find(key);
  if (value == nullptr) return;
  if (value->is_string()) {
    take(checker, object, key, into, [](const std::string& text) { return parse_byte_size(text); });
  } else {
    into = object.number(key, 0, kLargestSize);
  }
}

void read_stream(JsonObject& stream, BlockOptions& block, uint32_t ranks) {
  Checker& checker = stream.checker();
  take(checker, stream, "operation", block.operation,
       [](const std::string& name) { return find_operation(name); });
  take(checker, stream, "datatype", block.type,
       [](const std::string& name) { return find_type(name); });
  take(checker, stream, "reduction", block.reduction,
       [](const std::string& name) { return find_reduction(name); });
  take(checker, stream, "algorithm", block.algorithm,
       [](const std::string& name) { return find_algorithm(name); });
  take_size(checker, stream, "minbytes", block.sweep.minimum);
  take_size(checker, stream, "maxbytes", block.sweep.maximum);
  if (stream.has("stepbytes")) {
    uint64_t step = 0;
    take_size(checker, stream, "stepbytes", step);
    block.sweep.step = step;
    block.sweep.factor.reset();
  }
  if (stream.has("stepfactor")) {
    block.sweep.factor = static_cast<double>(stream.number("stepfactor", 2, 1u << 20));
  }
  block.operations_per_iteration =
      static_cast<uint32_t>(stream.number_or("ops_per_iter", 1, 1, 1u << 16));
  block.root = static_cast<uint32_t>(stream.number_or("root", block.root, 0, ranks - 1));
  block.in_place = stream.boolean_or("in_place", block.in_place);
  const auto file_of = [&](const char* key, auto& into, auto&& parse) {
    take(checker, stream, key, into,
         [&](const std::string& path) -> std::decay_t<decltype(parse(path, path, ranks))> {
           NEURON_TRY(text, read_text(path));
           return parse(text, path, ranks);
         });
  };
  file_of("custom_replica_groups", block.group_configs, parse_replica_groups);
  file_of("custom_src_target_pairs", block.pair_configs, parse_pairs);
  file_of("variable_size_op_metadata", block.metadata, parse_metadata);
  if (!checker.ok()) return;
  if (block.group_configs.size() > 1) {
    checker.fail(stream.at("custom_replica_groups"), "{} configurations; a stream takes one",
                 block.group_configs.size());
  }
  if (const auto sizes = sizes_of(block.sweep); !sizes) {
    checker.fail(stream.path(), "{}", sizes.error().sentence);
  }
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
  const auto bytes = tools::read_file(path);
  if (!bytes) return from(bytes.error());
  return std::string(bytes->begin(), bytes->end());
}

Result<void> write_text(const std::string& path, const std::string& text) {
  if (path == "-") {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size()) return {};
    return fail(CCOM_SYSTEM, "cannot write to standard output: {}", std::strerror(errno));
  }
  const auto written =
      tools::write_file(path, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  if (!written) return from(written.error());
  return {};
}

Result<void> check_writable(const std::string& path) {
  struct stat status = {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (path.empty() || path == "-" ||
      (exists && !S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))) {
    return {};
  }
  if (exists && S_ISDIR(status.st_mode)) {
    return fail(CCOM_INVALID, "{} is a directory; expected the name of a file", path);
  }
  // The file is replaced as a whole, by a new one in its folder.
  const std::string made = path + ".part" + std::to_string(::getpid());
  const base::FileDescriptor file(
      ::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return ccom::system_error(errno, ccom::format("cannot create {}", path));
  ::unlink(made.c_str());
  return {};
}

Result<std::vector<GroupConfig>> parse_replica_groups(const std::string& text,
                                                      const std::string& file, uint32_t ranks) {
  return read_object<std::vector<GroupConfig>>(
      text, file, [&](JsonObject& object, auto& result) { read_groups(object, result, ranks); });
}

Result<std::vector<PairConfig>> parse_pairs(const std::string& text, const std::string& file,
                                            uint32_t ranks) {
  return read_object<std::vector<PairConfig>>(
      text, file, [&](JsonObject& object, auto& result) { read_pairs(object, result, ranks); });
}

Result<std::vector<VariableEntry>> parse_metadata(const std::string& text, const std::string& file,
                                                  uint32_t ranks) {
  return read_object<std::vector<VariableEntry>>(
      text, file, [&](JsonObject& object, auto& result) { read_metadata(object, result, ranks); });
}

Result<std::vector<BlockOptions>> parse_streams(const std::string& text, const std::string& file,
                                                const BlockOptions& defaults, uint32_t ranks) {
  return read_object<std::vector<BlockOptions>>(text, file, [&](JsonObject& object, auto& result) {
    Checker& checker = object.checker();
    const JsonPath top = object.at("streams");
    const auto* list = object.list("streams", CCOM_MAX_STREAMS);
    if (list == nullptr || list->empty()) {
      checker.fail(top, "a list of 1 to {} streams is expected", CCOM_MAX_STREAMS);
      return;
    }
    for (size_t i = 0; i < list->size(); ++i) {
      JsonObject stream(checker, (*list)[i], &top, i);
      result.push_back(defaults);
      read_stream(stream, result.back(), ranks);
    }
  });
}

std::vector<std::string> parse_hosts(const std::string& text) {
  std::vector<std::string> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    if (std::string name; words >> name) hosts.push_back(name);
  }
  return hosts;
}

Result<std::vector<uint32_t>> parse_ratio(const std::string& text) {
  std::vector<uint32_t> parts;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto skip = [&](const char* set) {
    while (at != end && std::strchr(set, *at) != nullptr) ++at;
  };
  skip("[( ");
  while (at != end && *at != ']' && *at != ')') {
    uint32_t part = 0;
    const auto [next, error] = std::from_chars(at, end, part);
    if (error != std::errc() || part == 0 || part > 1'000'000 || parts.size() >= 64) {
      return fail(CCOM_INVALID,
                  "\"{}\" is no ratio: give up to 64 whole numbers from 1, as in [1,2,1]", text);
    }
    parts.push_back(part);
    at = next;
    skip(", ");
  }
  if (parts.empty()) return fail(CCOM_INVALID, "\"{}\" is no ratio: it has no numbers", text);
  return parts;
}

}  // namespace neuron::nccom
