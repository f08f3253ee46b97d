// SPDX-License-Identifier: Apache-2.0
#include "tools/nccom-postmortem/analysis/evidence.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <ctime>

namespace neuron::tools {
namespace {

namespace json = boost::json;
using runtime::fail;
using runtime::Result;

constexpr uint64_t kMostRanks = 1u << 20;

// Reads fields of one object; the first that is missing or wrong is remembered.
class Fields {
 public:
  Fields(const json::object& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  uint64_t number(const char* name, uint64_t most = UINT64_MAX) {
    const json::value* value = object_.if_contains(name);
    uint64_t found = 0;
    if (value != nullptr && value->is_uint64()) {
      found = value->get_uint64();
    } else if (value != nullptr && value->is_int64() && value->get_int64() >= 0) {
      found = static_cast<uint64_t>(value->get_int64());
    } else {
      complain(name, "is no number");
    }
    if (found > most) {
      complain(name, "is too large");
      return 0;
    }
    return found;
  }
  std::string text(const char* name) {
    const json::value* value = object_.if_contains(name);
    if (value == nullptr || !value->is_string()) {
      complain(name, "is no text");
      return "";
    }
    return base::escaped(fmt::string_view(value->get_string().data(), value->get_string().size()));
  }
  const json::array& array(const char* name) {
    static const json::array kNone;
    const json::value* value = object_.if_contains(name);
    if (value == nullptr || !value->is_array()) {
      complain(name, "is no list");
      return kNone;
    }
    return value->get_array();
  }
  Result<void> end() const {
    if (complaint_.empty()) return {};
    return fail(NRT_INVALID, "{}", complaint_);
  }

 private:
  void complain(const char* name, const char* what) {
    if (complaint_.empty()) {
      complaint_ = base::format("{}: \"{}\" is missing or {}; it is no dump of ccom_dump()", where_,
                                name, what);
    }
  }

  const json::object& object_;
  std::string where_;
  std::string complaint_;
};

Result<std::vector<Operation>> read_operations(const json::array& list, const std::string& where) {
  std::vector<Operation> operations;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = base::format("{}: operation {} of the list", where, i);
    if (!list[i].is_object()) return fail(NRT_INVALID, "{} is no object", place);
    Fields fields(list[i].get_object(), place);
    Operation operation;
    operation.name = fields.text("operation");
    operation.number = fields.number("number");
    operation.stream = static_cast<uint32_t>(fields.number("stream", 255));
    operation.type = fields.text("type");
    operation.reduction = fields.text("reduction");
    operation.algorithm = fields.text("algorithm");
    operation.detail = fields.text("detail");
    operation.count = fields.number("count");
    operation.root = static_cast<uint32_t>(fields.number("root", UINT32_MAX));
    operation.begin_ns = fields.number("begin_ns");
    operation.end_ns = fields.number("end_ns");
    operation.bytes = fields.number("bytes");
    operation.steps = fields.number("steps");
    operation.status = fields.text("status");
    operation.waiting_for = static_cast<uint32_t>(fields.number("waiting_for", UINT32_MAX));
    const auto good = fields.end();
    if (!good) return good.error();
    operations.push_back(std::move(operation));
  }
  return operations;
}

// Adds what another rank saw, unless something better is known.
Result<void> add_seen(Evidence& evidence, const json::value& value, const std::string& where) {
  if (!value.is_object()) return fail(NRT_INVALID, "{}: \"seen\" holds no objects", where);
  Fields fields(value.get_object(), where + ": seen");
  const auto rank = static_cast<uint32_t>(fields.number("rank", evidence.size - 1));
  const uint64_t begun = fields.number("begun");
  const json::array& list = fields.array("operations");
  const auto good = fields.end();
  if (!good) return good.error();
  auto operations = read_operations(list, where + ": seen");
  if (!operations) return operations.error();
  RankEvidence& entry = evidence.ranks[rank];
  // A later observation has begun at least as many operations. With equally many, one of them may
  // have ended meanwhile.
  if (!entry.dumped && (!entry.known || begun >= entry.begun)) {
    entry.known = true;
    entry.begun = begun;
    entry.operations = std::move(*operations);
  }
  return {};
}

}  // namespace

bool Operation::same_call(const Operation& other) const {
  return name == other.name && type == other.type && reduction == other.reduction &&
         algorithm == other.algorithm && count == other.count && root == other.root &&
         detail == other.detail;
}

runtime::Result<void> add_dump(Evidence& evidence, const std::string& text,
                               const std::string& name) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 8;
  const json::value document = json::parse(text, error, {}, options);
  if (error || !document.is_object()) {
    return fail(NRT_INVALID, "{} is no dump of ccom_dump(): {}", name,
                error ? error.message() : std::string("its outermost value is no object"));
  }
  Fields fields(document.get_object(), name);
  const std::string format = fields.text("format");
  const uint64_t size = fields.number("ranks", kMostRanks);
  const uint64_t rank = fields.number("rank", kMostRanks);
  RankEvidence own;
  own.rank = static_cast<uint32_t>(rank);
  own.host = fields.text("host");
  own.process = static_cast<int64_t>(fields.number("process", INT32_MAX));
  own.time_ns = fields.number("time_ns");
  own.status = fields.text("status");
  own.sentence = fields.text("sentence");
  own.begun = fields.number("begun");
  const json::array& operations = fields.array("operations");
  const json::array& members = fields.array("members");
  const json::array& dead = fields.array("dead");
  const json::array& seen = fields.array("seen");
  const auto good = fields.end();
  if (!good) return good.error();
  if (format != "ccom-flight-1") {
    return fail(NRT_INVALID, "{}: format is \"{}\", this program reads \"ccom-flight-1\"", name,
                format);
  }
  if (size == 0 || rank >= size) {
    return fail(NRT_INVALID, "{}: rank {} of {} ranks cannot be", name, rank, size);
  }
  if (evidence.size != 0 && evidence.size != size) {
    return fail(NRT_INVALID, "{} is of a job with {} ranks, the dumps before it of one with {}",
                name, size, evidence.size);
  }
  evidence.size = static_cast<uint32_t>(size);
  for (const json::value& value : members) {
    if (!value.is_object()) return fail(NRT_INVALID, "{}: \"members\" holds no objects", name);
    Fields member(value.get_object(), name + ": members");
    const auto number = static_cast<uint32_t>(member.number("rank", size - 1));
    const std::string host = member.text("host");
    const uint64_t process = member.number("process", INT32_MAX);
    const auto complete = member.end();
    if (!complete) return complete.error();
    RankEvidence& entry = evidence.ranks[number];
    entry.rank = number;
    entry.host = host;
    entry.process = static_cast<int64_t>(process);
  }
  auto read = read_operations(operations, name);
  if (!read) return read.error();
  RankEvidence& entry = evidence.ranks[own.rank];
  if (entry.dumped && entry.time_ns > own.time_ns) return {};  // an older one of the same rank
  own.dead = entry.dead;
  own.dumped = own.known = true;
  own.operations = std::move(*read);
  entry = std::move(own);
  for (const json::value& value : dead) {
    if (!value.is_number()) return fail(NRT_INVALID, "{}: \"dead\" holds no ranks", name);
    const auto number = value.is_uint64() ? value.get_uint64()
                                          : static_cast<uint64_t>(value.to_number<int64_t>(error));
    if (error || number >= size) {
      return fail(NRT_INVALID, "{}: \"dead\" names rank {} of {}", name, number, size);
    }
    evidence.ranks[static_cast<uint32_t>(number)].dead = true;
  }
  for (const json::value& value : seen) {
    const auto added = add_seen(evidence, value, name);
    if (!added) return added.error();
  }
  for (auto& [number, each] : evidence.ranks) each.rank = number;
  return {};
}

std::string describe(const RankEvidence& rank) {
  return rank.host.empty()
             ? base::format("rank {}", rank.rank)
             : base::format("rank {} (host {}, pid {})", rank.rank, rank.host, rank.process);
}

std::string describe(const Operation& operation) {
  return base::format("{} {} of stream {}", operation.name, operation.number, operation.stream);
}

std::string call_of(const Operation& operation) {
  return base::format("{}({} x {}, {}, root {}, {}, {})", operation.name, operation.count,
                      operation.type, operation.reduction, operation.root, operation.algorithm,
                      operation.detail);
}

std::string time_text(uint64_t time_ns) {
  const auto seconds = static_cast<time_t>(time_ns / 1'000'000'000u);
  tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "?";
  char text[64];
  const size_t length = strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return base::format("{}.{:06}Z", fmt::string_view(text, length), time_ns / 1000 % 1'000'000);
}

}  // namespace neuron::tools
