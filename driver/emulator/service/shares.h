// SPDX-License-Identifier: Apache-2.0
// Who may take how much of something of which there is only so much.
//
// Concepts: a user may take as much as is left for all others, so one user alone gets half, and two
// get a third each; whoever comes next finds some. Within what is a user's, the same holds for
// each of its processes. A fixed share would be too small for one user, or too large for five.
// Callers: whoever gives the thing out, with a lock of its own. Owns: counts. Fails: take throws
// std::bad_alloc, and then nothing was taken.
#ifndef DRIVER_EMULATOR_SERVICE_SHARES_H
#define DRIVER_EMULATOR_SERVICE_SHARES_H

#include <cstddef>
#include <unordered_map>

#include "driver/emulator/service/client.h"

namespace neuron::service {

// Whether one more is within the share of a process that has `process` of its user's `user`, when
// `taken` of `room` are given out.
constexpr bool within_share(size_t process, size_t user, size_t taken, size_t room) {
  // The user's half of what others leave, and the process's half of what the user's others leave.
  return user + taken < room && 2 * process + user + taken < room;
}

class Shares {
 public:
  explicit Shares(size_t room) : room_(room) {}

  // Whether the client may take one more.
  bool has_share(const Client& client) const {
    return within_share(count(processes_, client.process), count(users_, client.user), taken_,
                        room_);
  }
  // `count` of them at once, all of which go by the share before.
  void take(const Client& client, size_t count = 1) {
    size_t& user = users_[client.user];
    try {
      processes_[client.process] += count;
    } catch (...) {
      if (user == 0) users_.erase(client.user);
      throw;
    }
    user += count;
    taken_ += count;
  }
  void give_back(const Client& client, size_t count = 1) {
    drop(users_, client.user, count);
    drop(processes_, client.process, count);
    taken_ -= count;
  }
  size_t taken() const { return taken_; }
  size_t room() const { return room_; }
  size_t taken_by_user(const Client& client) const { return count(users_, client.user); }
  size_t taken_by_process(const Client& client) const { return count(processes_, client.process); }

 private:
  template <typename Key>
  static size_t count(const std::unordered_map<Key, size_t>& counts, Key key) {
    const auto found = counts.find(key);
    return found == counts.end() ? 0 : found->second;
  }
  template <typename Key>
  static void drop(std::unordered_map<Key, size_t>& counts, Key key, size_t count) {
    const auto found = counts.find(key);
    if ((found->second -= count) == 0) counts.erase(found);
  }

  const size_t room_;
  size_t taken_ = 0;
  std::unordered_map<uint32_t, size_t> users_;
  std::unordered_map<uint64_t, size_t> processes_;
};

}  // namespace neuron::service

#endif
