// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/trace/session.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <filesystem>

#include "runtime/ntff/trace_file.h"
#include "tools/neuron-profile/trace/json_fields.h"

namespace neuron::profile {
namespace {

namespace json = boost::json;
using runtime::fail;
using runtime::Result;

constexpr uint32_t kKinds =
    ntff::only(ntff::ChunkKind::kSystem) | ntff::only(ntff::ChunkKind::kEnd);
constexpr char kAbout[] = "/trace_info.pb";

// The folder with the files of a session: `folder`, or the only one in it that has them. A recorded
// program makes a folder of its own in the one that it was given.
Result<std::string> folder_of_files(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder + kAbout, error)) return folder;
  std::vector<std::string> sessions;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (std::filesystem::exists(entry.path().string() + kAbout, error)) {
      sessions.push_back(entry.path().string());
    }
  }
  if (sessions.size() == 1) return sessions[0];
  if (sessions.empty()) {
    return fail(NRT_INVALID,
                "'{}' is no folder of an inspect session: neither it nor a folder in it has a "
                "trace_info.pb, which the runtime writes when the session ends "
                "(NEURON_RT_INSPECT_ENABLE=1)",
                folder);
  }
  std::sort(sessions.begin(), sessions.end());
  std::string list;
  for (const std::string& session : sessions) list += (list.empty() ? "" : ", ") + session;
  return fail(NRT_INVALID, "'{}' has {} sessions, of as many programs; name one of them: {}",
              folder, sessions.size(), list);
}

}  // namespace

// Calls `use` with the object of each chunk of a system file. What the file says of its losses
// becomes a notice.
Result<void> Session::read(const std::string& path, const Use& use) {
  NEURON_TRY(file, ntff::TraceFileReader::open(path));
  version_ = file.version();
  uint64_t dropped = 0;
  bool ended = false;
  std::string ends_early;
  // bounded: each turn reads a chunk of the file.
  for (;;) {
    NEURON_TRY(chunk, file.next(kKinds));
    if (watcher_) watcher_(file.at(), file.size());
    if (!chunk) break;
    boost::system::error_code error;
    const json::value value = json::parse(chunk->text(), error);
    const json::object* object = error ? nullptr : value.if_object();
    if (object == nullptr) {
      return fail(NRT_INVALID, "the file '{}' of a session has a chunk that is no JSON object",
                  path);
    }
    if (chunk->kind == ntff::ChunkKind::kEnd) {
      ended = true;
      ends_early = text_in(*object, "cut");
      continue;
    }
    dropped += number_in(*object, "dropped_events");
    use(*object);
  }
  if (dropped != 0) {
    notice(runtime::format(
        "'{}' lacks {} events, the oldest ones: a core keeps as many as "
        "NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC says, 1000000 unless it is set",
        path, dropped));
  }
  if (!ends_early.empty()) {
    notice(runtime::format(
        "'{}' ends early, because it could not be written further ({}): make room, and record "
        "again",
        path, ends_early));
  } else if (file.cut() || !ended) {
    notice(runtime::format(
        "'{}' was not ended{}: the process died, or still runs. What it had written is shown", path,
        file.cut() ? " and stops within a piece" : ""));
  }
  return {};
}

Result<Session> Session::open(const std::string& given, Watcher watcher) {
  NEURON_TRY(folder, folder_of_files(given));
  Session session(folder, std::move(watcher));
  const std::string about = folder + kAbout;
  std::error_code error;
  const auto read = session.read(about, [&](const json::object& object) {
    session.instance_ = text_in(object, "instance_type");
    session.begin_ns_ = number_in(object, "begin_ns");
    session.end_ns_ = number_in(object, "end_ns");
    session.hbm_bytes_ = number_in(object, "hbm_bytes");
  });
  if (!read) {
    return fail(NRT_INVALID,
                "the session in '{}' cannot be read, since its trace_info.pb is no file that the "
                "runtime of this project has written ({}); record it again with this runtime",
                folder, read.error().sentence);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".ntff") {
      session.device_profiles_.push_back(entry.path().string());
    }
  }
  std::sort(session.device_profiles_.begin(), session.device_profiles_.end());
  return session;
}

void Session::each(const char* file, const char* list, const Use& use) {
  const std::string path = folder_ + "/" + file;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return;
  const auto done = read(path, [&](const json::object& object) { each_in(object, list, use); });
  if (done) return;
  notice(runtime::format(
      "the tables lack what '{}' would tell: it is no whole file of an inspect session of this "
      "project ({})",
      path, done.error().sentence));
}

}  // namespace neuron::profile
