// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/trace/stream.h"

#include <ccom/ccom_device.h>

#include <boost/json.hpp>
#include <cstring>

#include "runtime/neff/model.h"
#include "tools/common/bus_factor.h"
#include "tools/neuron-profile/trace/json_fields.h"

namespace neuron::profile {
namespace {

namespace json = boost::json;
using ntff::StreamNote;
using ntff::StreamWait;
using runtime::format;

StreamWait wait_in(const StreamNote& note) {
  return {.wait = note.wait, .peer = note.wait_peer, .semaphore = 0, .reserved = 0, .bytes = 0};
}

std::string wait_text(const StreamWait& wait) {
  switch (wait.wait) {
    case CCOM_DEVICE_WAIT_GO:
      return "when the program begins the collective";
    case CCOM_DEVICE_WAIT_CREDIT:
      return format("when rank {} takes data", wait.peer);
    case CCOM_DEVICE_WAIT_ARRIVAL:
      return wait.bytes == 0 ? format("when data of rank {} is here", wait.peer)
                             : format("when {} bytes of rank {} are here", wait.bytes, wait.peer);
    case CCOM_DEVICE_WAIT_TRANSFER:
      return "when a transfer of this rank is done";
    default:
      return {};
  }
}

std::string action_text(const StreamNote& note) {
  switch (note.action) {
    case CCOM_DEVICE_GRANT:
      return format("tells rank {} that it may send", note.peer);
    case CCOM_DEVICE_SEND:
      return format("sends {} bytes to rank {}", note.bytes, note.peer);
    case CCOM_DEVICE_REDUCE:
      return format("reduces to {} bytes", note.bytes);
    case CCOM_DEVICE_COPY:
      return format("copies {} bytes", note.bytes);
    case CCOM_DEVICE_DONE:
      return "tells the program that the collective is done";
    case CCOM_DEVICE_OFFER:
      return format("offers {} bytes for rank {} to the network", note.bytes, note.peer);
    case CCOM_DEVICE_EXPECT:
      return format("expects {} bytes of rank {} from the network", note.bytes, note.peer);
    default:
      return note.wait == CCOM_DEVICE_NO_WAIT ? "goes on" : "waits";
  }
}

}  // namespace

runtime::Result<Stream> Stream::parse(std::string_view document) {
  boost::system::error_code error;
  json::parse_options options;
  options.max_depth = 8;
  const json::value value = json::parse(document, error, {}, options);
  const json::object* object = error ? nullptr : value.if_object();
  if (object == nullptr) {
    return runtime::fail(NRT_INVALID, "the description of its collectives is no JSON object");
  }
  Stream stream;
  stream.number = static_cast<uint32_t>(number_in(*object, "stream"));
  stream.rank = static_cast<uint32_t>(number_in(*object, "rank"));
  stream.prologue = static_cast<uint32_t>(number_in(*object, "prologue"));
  stream.go = number_in(*object, "go");
  each_in(*object, "collectives", [&](const json::object& item) {
    Collective one{.name = text_in(item, "name"),
                   .algorithm = text_in(item, "algorithm"),
                   .operation = text_in(item, "operation"),
                   .type = text_in(item, "type"),
                   .count = number_in(item, "count"),
                   .ranks = {},
                   .group = static_cast<uint32_t>(number_in(item, "group")),
                   .sized = item.contains("bytes"),
                   .input_bytes = number_in(item, "input_bytes"),
                   .output_bytes = number_in(item, "output_bytes"),
                   .bytes = number_in(item, "bytes")};
    for (const json::value& rank : list_in(item, "ranks")) {
      const int64_t* number = rank.if_int64();
      if (number != nullptr) one.ranks.push_back(static_cast<uint32_t>(*number));
    }
    stream.collectives.push_back(std::move(one));
  });
  return stream;
}

void Stream::take_notes(const std::vector<uint8_t>& bytes) {
  notes.resize(bytes.size() / sizeof(StreamNote));
  if (!notes.empty()) std::memcpy(notes.data(), bytes.data(), notes.size() * sizeof(StreamNote));
}

void Stream::take_waits(const std::vector<uint8_t>& bytes) {
  waits.resize(bytes.size() / sizeof(StreamWait));
  if (!waits.empty()) std::memcpy(waits.data(), bytes.data(), waits.size() * sizeof(StreamWait));
}

double Collective::algorithm_rate(uint64_t time) const {
  return time == 0 ? 0 : static_cast<double>(bytes) * 1e12 / static_cast<double>(time);
}

double Collective::bus_rate(uint64_t time) const {
  for (unsigned number = 0; number < CCOM_OPERATION_COUNT; ++number) {
    const auto known = static_cast<ccom_operation_t>(number);
    if (operation != neff::collective_name(known)) continue;
    return algorithm_rate(time) * tools::bus_factor(known, static_cast<uint32_t>(ranks.size()));
  }
  return 0;
}

std::span<const StreamWait> Stream::waits_of(uint32_t pc) const {
  const size_t at = 2 * size_t{pc - prologue};
  if (pc < prologue || at + 2 > waits.size()) return {};
  return std::span(waits).subspan(at, 2);
}

std::optional<StreamWait> Stream::wait_of(uint32_t pc, uint32_t cell) const {
  for (const StreamWait& wait : waits_of(pc)) {
    if (wait.wait != CCOM_DEVICE_NO_WAIT && wait.semaphore == cell) return wait;
  }
  const StreamNote* found = note(pc);
  if (found == nullptr || found->wait == CCOM_DEVICE_NO_WAIT) return std::nullopt;
  return wait_in(*found);
}

const StreamNote* Stream::note(uint32_t pc) const {
  if (pc < prologue || pc - prologue >= notes.size()) return nullptr;
  return &notes[pc - prologue];
}

std::string Stream::collective_name(uint32_t pc) const {
  const StreamNote* found = note(pc);
  const Collective* of = found != nullptr ? collective(*found) : nullptr;
  return of != nullptr ? of->name : std::string();
}

std::string Stream::text(uint32_t pc) const {
  const StreamNote* found = note(pc);
  if (found == nullptr) return pc < prologue ? "points a queue to its ring" : "";
  std::string text = action_text(*found);
  const auto waits = waits_of(pc);
  if (waits.empty()) {
    const std::string wait = wait_text(wait_in(*found));
    return text + (wait.empty() ? "" : ", " + wait);
  }
  const char* joint = ", ";
  for (const StreamWait& one : waits) {
    const std::string wait = wait_text(one);
    if (wait.empty()) continue;
    text += joint + wait;
    joint = " and ";
  }
  return text;
}

bool sends(const StreamNote& note) {
  return note.action == CCOM_DEVICE_SEND || note.action == CCOM_DEVICE_OFFER;
}

bool is_arrival(const StreamWait& wait) { return wait.wait == CCOM_DEVICE_WAIT_ARRIVAL; }

bool is_for_rank(const StreamWait& wait) {
  return wait.wait == CCOM_DEVICE_WAIT_CREDIT || wait.wait == CCOM_DEVICE_WAIT_ARRIVAL;
}

}  // namespace neuron::profile
