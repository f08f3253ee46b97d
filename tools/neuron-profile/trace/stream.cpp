// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/trace/stream.h"

#include <ccom/ccom_device.h>

#include <boost/json.hpp>
#include <cstring>

#include "tools/neuron-profile/trace/json_fields.h"

namespace neuron::profile {
namespace {

namespace json = boost::json;
using ntff::StreamNote;
using runtime::format;

std::string wait_text(const StreamNote& note) {
  switch (note.wait) {
    case CCOM_DEVICE_WAIT_GO:
      return "when the program begins the collective";
    case CCOM_DEVICE_WAIT_CREDIT:
      return format("when rank {} takes data", note.wait_peer);
    case CCOM_DEVICE_WAIT_ARRIVAL:
      return format("when data of rank {} is here", note.wait_peer);
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
  each_in(*object, "collectives", [&](const json::object& item) {
    Collective one{.name = text_in(item, "name"),
                   .algorithm = text_in(item, "algorithm"),
                   .operation = text_in(item, "operation"),
                   .type = text_in(item, "type"),
                   .count = number_in(item, "count"),
                   .ranks = {}};
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
  const std::string wait = wait_text(*found);
  return action_text(*found) + (wait.empty() ? "" : ", " + wait);
}

bool sends(const StreamNote& note) {
  return note.action == CCOM_DEVICE_SEND || note.action == CCOM_DEVICE_OFFER;
}

bool waits_for_rank(const StreamNote& note) {
  return note.wait == CCOM_DEVICE_WAIT_CREDIT || note.wait == CCOM_DEVICE_WAIT_ARRIVAL;
}

}  // namespace neuron::profile
