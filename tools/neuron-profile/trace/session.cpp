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

// Calls `use` with the object of each chunk of a system file.
template <class UseChunk>
Result<void> each_chunk(const std::string& path, UseChunk&& use) {
  NEURON_TRY(file, ntff::TraceFileReader::open(path));
  // bounded: each turn reads a chunk of the file.
  for (;;) {
    NEURON_TRY(chunk, file.next(ntff::only(ntff::ChunkKind::kSystem)));
    if (!chunk) return {};
    boost::system::error_code error;
    const json::value value = json::parse(chunk->text(), error);
    const json::object* object = error ? nullptr : value.if_object();
    if (object == nullptr) {
      return fail(NRT_INVALID, "the file '{}' of a session has a chunk that is no JSON object",
                  path);
    }
    use(*object);
  }
}

}  // namespace

Result<Session> Session::open(const std::string& folder) {
  Session session(folder);
  const std::string about = folder + "/trace_info.pb";
  std::error_code error;
  if (!std::filesystem::exists(about, error)) {
    return fail(NRT_INVALID,
                "'{}' is no folder of an inspect session: it has no trace_info.pb, which the "
                "runtime writes when the session ends (NEURON_RT_INSPECT_ENABLE=1)",
                folder);
  }
  NEURON_CHECK(each_chunk(about, [&](const json::object& object) {
    session.instance_ = text_in(object, "instance_type");
    session.begin_ns_ = number_in(object, "begin_ns");
    session.end_ns_ = number_in(object, "end_ns");
    session.hbm_bytes_ = number_in(object, "hbm_bytes");
  }));
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".ntff") {
      session.device_profiles_.push_back(entry.path().string());
    }
  }
  std::sort(session.device_profiles_.begin(), session.device_profiles_.end());
  return session;
}

Result<void> Session::each(const char* file, const char* list, const Use& use) const {
  const std::string path = folder_ + "/" + file;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  return each_chunk(path, [&](const json::object& object) { each_in(object, list, use); });
}

}  // namespace neuron::profile
