// SPDX-License-Identifier: Apache-2.0
// The flight recorder as a file: what this rank did, why it stopped, and what it can see of others.
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <map>
#include <mutex>

#include "ccom/communicator/communicator.h"
#include "ccom/communicator/json_text.h"
#include "ccom/transport/arena_layout.h"

namespace neuron::ccom {
namespace {

constexpr uint32_t kSeenRecords = 8;  // of each peer

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

std::string Communicator::json() const {
  const auto& members = bootstrap_->members();
  const Member& me = members[rank_];
  const Error error = failure();
  const bool failed = status() != CCOM_SUCCESS;
  std::string text = ccom::format(
      "{{\"format\": \"ccom-flight-1\",\n\"rank\": {}, \"ranks\": {}, \"host\": {}, \"process\": "
      "{}, \"time_ns\": {},\n\"status\": \"{}\", \"sentence\": {},\n\"begun\": {},\n",
      rank_, size_, json_text(me.host), me.process, now_ns(),
      ccom_status_name(failed ? error.status : CCOM_SUCCESS), json_text(error.sentence),
      recorder_->begun());
  text += "\"members\": [";
  for (const Member& member : members) {
    text += ccom::format("{}{{\"rank\": {}, \"host\": {}, \"process\": {}}}",
                         member.rank == 0 ? "" : ", ", member.rank, json_text(member.host),
                         member.process);
  }
  text += "],\n\"dead\": [";
  bool first = true;
  for (const Rank rank : bootstrap_->dead()) {
    text += ccom::format("{}{}", first ? "" : ", ", rank);
    first = false;
  }
  text += "],\n\"operations\": " + json_of(recorder_->records()) + ",\n\"seen\": [";
  first = true;
  for (Rank i = 0; i < size_; ++i) {
    if (i == rank_ || arenas_[i] == nullptr) {
      continue;
    }
    // The memory of a rank outlives it.
    const FlightRecorder peer(arenas_[i]->data() + ArenaLayout::of(size_).flight);
    text += ccom::format("{}\n{{\"rank\": {}, \"begun\": {}, \"operations\": {}}}",
                         first ? "" : ",", i, peer.begun(), json_of(peer.records(kSeenRecords)));
    first = false;
  }
  return text + "]}\n";
}

// Communicators of this process in which it has the same rank must not overwrite each other's.
uint32_t Communicator::dump_number() const {
  static std::mutex mutex;
  static auto* numbers = new std::map<Rank, uint32_t>;  // outlives everything
  const std::lock_guard lock(mutex);
  if (dump_number_ == 0) {
    dump_number_ = ++(*numbers)[rank_];
  }
  return dump_number_;
}

Result<void> Communicator::dump(const std::string& path) const {
  struct stat status {};
  std::string file = path;
  if (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    const uint32_t number = dump_number();
    file += number == 1 ? ccom::format("/ccom-{}-{}.json", rank_, getpid())
                        : ccom::format("/ccom-{}-{}-{}.json", rank_, getpid(), number);
  }
  // Whole or not at all: a reader may come while another failure is written.
  const std::string part = ccom::format("{}.{}-{}.part", file, rank_, getpid());
  NEURON_CHECK(write_file(part, json()));
  if (rename(part.c_str(), file.c_str()) != 0) {
    const int error = errno;
    unlink(part.c_str());
    return system_error(error, ccom::format("cannot write the flight recorder to {}", file));
  }
  return {};
}

}  // namespace neuron::ccom
