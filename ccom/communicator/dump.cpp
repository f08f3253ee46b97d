// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/dump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>

#include "driver/base/json_text.h"

namespace neuron::ccom {
namespace {

constexpr uint32_t kSeenRecords = 8;  // of each peer
constexpr std::string_view kEnding = ".json";

bool is_folder(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(time.tv_nsec);
}

Result<void> write_file(const std::string& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) {
    return system_error(errno, ccom::format("cannot write the flight recorder to {}", path));
  }
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = write(file, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) {
      continue;
    }
    if (wrote <= 0) {
      const int error = wrote < 0 ? errno : ENOSPC;
      close(file);
      unlink(path.c_str());
      return system_error(error, ccom::format("cannot write the flight recorder to {}", path));
    }
    done += static_cast<size_t>(wrote);
  }
  close(file);
  return {};
}

}  // namespace

std::string FlightDump::json() const {
  const std::vector<Member>& members = bootstrap_.members();
  const Member& me = members[bootstrap_.rank()];
  const bool failed = failure_.status() != CCOM_SUCCESS;
  const Error error = failure_.error();
  std::string text = ccom::format(
      "{{\"format\": \"ccom-flight-1\",\n\"rank\": {}, \"ranks\": {}, \"host\": {}, \"process\": "
      "{}, \"time_ns\": {},\n\"status\": \"{}\", \"sentence\": {},\n\"begun\": {},\n",
      me.rank, members.size(), base::json_string(me.host), me.process, now_ns(),
      ccom_status_name(failed ? error.status : CCOM_SUCCESS), base::json_string(error.sentence),
      recorder_.begun());
  text += "\"members\": [";
  for (const Member& member : members) {
    text += ccom::format("{}{{\"rank\": {}, \"host\": {}, \"process\": {}}}",
                         member.rank == 0 ? "" : ", ", member.rank, base::json_string(member.host),
                         member.process);
  }
  text += "],\n\"dead\": [";
  bool first = true;
  for (const Rank rank : bootstrap_.dead()) {
    text += ccom::format("{}{}", first ? "" : ", ", rank);
    first = false;
  }
  text += "],\n\"operations\": " + json_of(recorder_.records()) + ",\n\"seen\": [";
  first = true;
  for (const Member& member : members) {
    std::byte* const flight = memory_.flight(member.rank);
    if (member.rank == me.rank || flight == nullptr) {
      continue;
    }
    // The memory of a rank outlives the rank.
    const FlightRecorder peer(flight);
    text +=
        ccom::format("{}\n{{\"rank\": {}, \"begun\": {}, \"operations\": {}}}", first ? "" : ",",
                     member.rank, peer.begun(), json_of(peer.records(kSeenRecords)));
    first = false;
  }
  return text + "]}\n";
}

// If communicators of this process have the same rank, they must not overwrite each other's file.
uint32_t FlightDump::number() const {
  static std::mutex mutex;
  static auto* numbers = new std::map<Rank, uint32_t>;  // outlives all static objects
  const std::lock_guard lock(mutex);
  if (number_ == 0) {
    number_ = ++(*numbers)[bootstrap_.rank()];
  }
  return number_;
}

std::string FlightDump::own_name() const {
  const uint32_t which = number();
  return which == 1 ? ccom::format("{}-{}", bootstrap_.rank(), getpid())
                    : ccom::format("{}-{}-{}", bootstrap_.rank(), getpid(), which);
}

Result<void> FlightDump::write(const std::string& path) const {
  const Rank rank = bootstrap_.rank();
  const std::string file =
      is_folder(path) ? ccom::format("{}/ccom-{}.json", path, own_name()) : path;
  // The file is written whole or not at all: a reader may come while another failure is written.
  const std::string part = ccom::format("{}.{}-{}.part", file, rank, getpid());
  NEURON_CHECK(write_file(part, json()));
  if (rename(part.c_str(), file.c_str()) != 0) {
    const int error = errno;
    unlink(part.c_str());
    return system_error(error, ccom::format("cannot write the flight recorder to {}", file));
  }
  return {};
}

// All ranks have the same path, and each must find a place of its own there.
Result<void> FlightDump::write_beside_others(const std::string& path) const {
  const bool file = path.ends_with(kEnding);
  if (!file) {
    std::error_code ignored;  // what is in the way shows below
    std::filesystem::create_directories(path, ignored);
  }
  if (is_folder(path)) return write(path);
  const std::string stem = file ? path.substr(0, path.size() - kEnding.size()) : path;
  return write(ccom::format("{}-{}{}", stem, own_name(), kEnding));
}

void FlightDump::after_failure() {
  const ccom_status_t status = failure_.status();
  // A revocation is meant: there is nothing to look for.
  if (!done_ && status != CCOM_SUCCESS && status != CCOM_REVOKED && !path_.empty()) {
    done_ = true;
    static_cast<void>(write_beside_others(path_));
  }
}

}  // namespace neuron::ccom
