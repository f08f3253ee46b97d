// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron-profile/output/session_tables.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <filesystem>
#include <map>
#include <tuple>

#include "tools/neuron-profile/output/program_tables.h"
#include "tools/neuron-profile/output/report.h"
#include "tools/neuron-profile/output/table_folder.h"
#include "tools/neuron-profile/trace/json_fields.h"
#include "tools/neuron-profile/trace/profile.h"

namespace neuron::profile {
namespace {

namespace json = boost::json;
using parquet::TableWriter;

// What a core does; the rest is the runtime's.
bool is_of_hardware(const std::string& name) {
  return name == "nc_exec_running" || name == "cc_running" || name == "timestamp_sync_point";
}

// "2025-12-18 15:35:56.592459482 +0000 UTC"
std::string time_text(uint64_t ns) {
  constexpr uint64_t kSecond = 1'000'000'000;
  const auto seconds = static_cast<time_t>(ns / kSecond);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  const size_t size = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return runtime::format("{}.{:09} +0000 UTC", std::string(text, size), ns % kSecond);
}

class EventRows {
 public:
  EventRows(const Session& session, const SessionChoice& choice, TableWriter& to)
      : session_(session), choice_(choice), to_(to) {}

  void take(const json::object& event) {
    const std::string name = text_in(event, "event_type");
    if (!among(choice_.events, name) || !among(choice_.instances, session_.instance()) ||
        !among(choice_.cores, std::to_string(number_in(event, "nc_idx")))) {
      return;
    }
    // A sync point is a moment.
    if (name == "timestamp_sync_point") return write(event, event);
    const Key key{number_in(event, "nc_idx"), number_in(event, "tracking_id"), name};
    if (text_in(event, "phase") == "start") {
      open_.insert_or_assign(key, event);
      return;
    }
    const auto start = open_.find(key);
    if (start == open_.end()) return;  // its start was dropped from the ring
    write(start->second, event);
    open_.erase(start);
  }
  const Result<void>& state() const { return failure_.state(); }

 private:
  using Key = std::tuple<uint64_t, uint64_t, std::string>;

  void write(const json::object& start, const json::object& stop) {
    const auto set = [&](const char* field, uint64_t value) {
      to_.set(to_.table().field(field), static_cast<int64_t>(value));
    };
    const auto text = [&](const char* field, std::string_view value) {
      to_.set_text(to_.table().field(field), value);
    };
    const uint64_t begin = number_in(start, "timestamp_ns"), end = number_in(stop, "timestamp_ns");
    const std::string name = text_in(start, "event_type");
    set("id", to_.rows());
    text("name", name);
    set("start_ts", begin);
    set("end_ts", end);
    set("duration_ns", end - begin);
    text("trace_event_source", is_of_hardware(name) ? "neuron_hw" : "neuron_rt");
    text("instance_id", session_.instance());
    set("process_id", number_in(start, "process_id"));
    set("thread_id", number_in(start, "thread_id"));
    set("nc_idx", number_in(start, "nc_idx"));
    const json::value* data = start.if_contains("data");
    const json::object* more = data != nullptr ? data->if_object() : nullptr;
    if (more != nullptr) {
      // What a launch makes a core do has the number of its execution.
      if (more->contains("exec_id")) text("flow_id", std::to_string(number_in(*more, "exec_id")));
      text("extra_attributes_json", json::serialize(*more));
    }
    failure_.keep(to_.end_row());
  }

  static bool among(const std::vector<std::string>& wanted, const std::string& what) {
    return wanted.empty() || std::find(wanted.begin(), wanted.end(), what) != wanted.end();
  }

  const Session& session_;
  const SessionChoice& choice_;
  TableWriter& to_;
  std::map<Key, json::object> open_;
  FirstFailure failure_;
};

Result<void> write_events(Session& session, const SessionChoice& choice, TableSet& tables) {
  return tables.write("SystemProfileEvents",
                      [&](TableWriter& to, const parquet::Table&) -> Result<void> {
                        EventRows rows(session, choice, to);
                        session.events([&](const auto& event) { rows.take(event); });
                        return rows.state();
                      });
}

double share_in(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_number() ? value->to_number<double>() : 0;
}

Result<void> write_processors(Session& session, TableSet& tables) {
  return tables.write("CpuUsage", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
    FirstFailure failure;
    uint64_t time = 0, count = 0;
    double sum = 0;
    const auto end = [&](uint64_t at, const std::string& processor, double share) {
      to.set(t.field("timestamp"), static_cast<int64_t>(at));
      to.set_real(t.field("util_percent"), share);
      to.set_text(t.field("cpu_id"), processor);
      to.set_text(t.field("instance_id"), session.instance());
      failure.keep(to.end_row());
    };
    // Samples of one moment come together.
    const auto average = [&] {
      if (count != 0) end(time, "average", sum / static_cast<double>(count));
      sum = 0;
      count = 0;
    };
    session.processors([&](const json::object& sample) {
      if (number_in(sample, "timestamp") != time) average();
      time = number_in(sample, "timestamp");
      sum += share_in(sample, "util");
      ++count;
      end(time, text_in(sample, "cpu_id"), share_in(sample, "util"));
    });
    average();
    return failure.state();
  });
}

Result<void> write_memory(Session& session, TableSet& tables) {
  return tables.write(
      "HostMemUsage", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
        FirstFailure failure;
        session.memory([&](const json::object& sample) {
          to.set(t.field("timestamp"), static_cast<int64_t>(number_in(sample, "timestamp")));
          to.set(t.field("used_bytes"), static_cast<int64_t>(number_in(sample, "usage")));
          to.set_real(t.field("used_percent"), share_in(sample, "percent_usage"));
          to.set_text(t.field("instance_id"), session.instance());
          failure.keep(to.end_row());
        });
        return failure.state();
      });
}

Result<void> write_about(const Session& session, TableSet& tables) {
  return tables.write("SystemProfileMetadata", [&](TableWriter& to, const parquet::Table& t) {
    to.set_text(t.field("first_ts"), time_text(session.begin_ns()));
    to.set_text(t.field("last_ts"), time_text(session.end_ns()));
    to.set_text(t.field("first_ts_ns"), std::to_string(session.begin_ns()));
    to.set_text(t.field("last_ts_ns"), std::to_string(session.end_ns()));
    to.set(t.field("ntff_version"), session.version());
    to.set(t.field("hbm_capacity_bytes"), static_cast<int64_t>(session.hbm_bytes()));
    return to.end_row();
  });
}

// The number behind the last _ of "profile_nc_0_session_3"; profiles of one model have none.
std::string session_number(const std::string& name) {
  constexpr std::string_view kBefore = "_session_";
  const size_t at = name.rfind(kBefore);
  return at == std::string::npos ? "" : name.substr(at + kBefore.size());
}

Result<void> write_profiles(Session& session, TableSet& tables) {
  return tables.write(
      "DeviceProfileList", [&](TableWriter& to, const parquet::Table& t) -> Result<void> {
        for (const std::string& path : session.device_profiles()) {
          const auto profile = Profile::open(path, session.watcher());
          if (!profile) {
            session.notice(runtime::format("DeviceProfileList lacks '{}': {}", path,
                                           profile.error().sentence));
            continue;
          }
          for (const Notice& one : notices(*profile)) session.notice(path + ": " + one.sentence);
          const Program& program = profile->parts()[0].program;
          const std::string name = std::filesystem::path(path).stem().string();
          const std::string number = session_number(name);
          to.set_text(t.field("device_profile_name"), name);
          to.set_text(t.field("instance_id"), session.instance());
          to.set(t.field("process_id"), program.process);
          to.set(t.field("nc_id"), program.vnc);
          if (number.empty()) {
            to.set(t.field("model_id"), static_cast<int64_t>(program.hash));
          } else {
            to.set(t.field("session_id"), std::strtoll(number.c_str(), nullptr, 10));
          }
          NEURON_CHECK(to.end_row());
        }
        return {};
      });
}

}  // namespace

Result<size_t> write_session_tables(Session& session, const std::string& folder,
                                    const SessionChoice& choice) {
  NEURON_TRY(place, TableFolder::open(folder, {session.folder()}));
  TableSet tables(place.hidden());
  if (choice.system) {
    NEURON_CHECK(write_events(session, choice, tables));
    NEURON_CHECK(write_processors(session, tables));
    NEURON_CHECK(write_memory(session, tables));
  }
  NEURON_CHECK(write_about(session, tables));
  if (choice.devices) NEURON_CHECK(write_profiles(session, tables));
  NEURON_CHECK(write_schema(tables));
  NEURON_CHECK(place.publish());
  return tables.names().size();
}

}  // namespace neuron::profile
