// SPDX-License-Identifier: Apache-2.0
// Ranks in several processes: a tree of connections, with rank 0 at its root.
//
// Concepts: a rank's neighbours are its parent and at most kTreeWidth children. All-gathers go up
// as single contributions, so that rank 0 knows who is missing, and down as a whole. News (a rank
// died, somebody aborted, a notice) are passed on once to every other neighbour, so that they reach
// all ranks even where the tree is broken: each part has a neighbour of the dead. Every rank keeps
// a door of its own, by which its children came and survivors regroup. Threads: everything with a
// comment "loop" belongs to the thread inside; callers wait on `changed_`. Owns: loop, links,
// doors. Fails: as Bootstrap says.
#ifndef CCOM_BOOTSTRAP_NETWORK_BOOTSTRAP_H
#define CCOM_BOOTSTRAP_NETWORK_BOOTSTRAP_H

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ccom/bootstrap/bootstrap.h"
#include "ccom/bootstrap/handshake.h"
#include "ccom/bootstrap/loop.h"
#include "ccom/bootstrap/rendezvous.h"

namespace neuron::ccom {

class NetworkBootstrap : public Bootstrap {
 public:
  // `listener`: rank 0's socket at the root address, when it is open already; else -1. Takes it.
  static Result<std::unique_ptr<Bootstrap>> join_at(const JoinOptions& options, int listener);
  ~NetworkBootstrap() override;

  Rank rank() const override { return options_.rank; }
  const std::vector<Member>& members() const override { return table_.members; }
  uint64_t capabilities() const override { return table_.capabilities; }
  Result<std::vector<Bytes>> all_gather(std::span<const std::byte> mine,
                                        base::Deadline deadline) override;
  Result<std::vector<int>> exchange_descriptors(int mine, base::Deadline deadline) override;
  void on_failure(std::function<void(Rank, const Error&)> handler) override;
  void abort(const Error& why) override;
  void tell(uint64_t number, const std::string& sentence) override;
  std::optional<Notice> told(uint64_t since) const override;
  std::vector<Rank> dead() const override;
  Result<std::unique_ptr<Bootstrap>> regroup(const std::vector<Rank>& survivors,
                                             base::Deadline deadline) override;

 private:
  struct Neighbour {
    Rank rank = 0;
    LinkPointer link;
    bool left = false;
    base::Moment heard;
    bool ended = false;  // its connection closed; how its process ended is not known yet
    std::string how{};   // its process ended: kept, as whoever started it may reap it any time
  };
  struct Round {
    std::vector<Bytes> data;  // rank 0's, by rank
    std::vector<bool> here;
    uint32_t come = 0;
    uint64_t timer = 0;
    base::Deadline until = base::Deadline::never();
  };
  // What a caller waits for.
  struct Answer {
    bool there = false;
    std::vector<Bytes> data;
    std::optional<Error> error;
  };
  // Of regroup(): this rank collects those who come.
  struct Comer {
    Regroup request;
    LinkPointer link;                // null: this rank itself
    std::shared_ptr<Answer> answer;  // of this rank
  };
  struct Gathering {
    std::map<Rank, Comer> come;
    std::set<Rank> expected;
    uint64_t timer = 0;
    base::Deadline until = base::Deadline::never();
  };

  explicit NetworkBootstrap(const JoinOptions& options);

  // Joining (network_join.cpp); all loop, except start() and await_join().
  Result<void> start(int listener);
  Result<void> await_join();
  void begin_root(int listener);
  void seek_root();
  void note_trouble(const std::string& why);
  void meet_root(LinkPointer link);
  void hear_root(MessageType type, const Bytes& body);
  void attach(const TreePlace& place);
  void attach_to(LinkPointer link, const TreePlace& place);
  bool open_door(Address at);
  void visit(LinkPointer link);  // somebody came through the door
  void take_child(const LinkPointer& link, const Bytes& body);
  void check_ready();
  void go();
  void fail_join(const Error& error);
  uint32_t remaining_ms() const;
  std::chrono::milliseconds handshake_time() const;
  Join own_join() const;

  // The tree (network_bootstrap.cpp); all loop.
  void settle(Neighbour& neighbour);
  void hear(Rank from, MessageType type, Bytes body);
  void send_down(MessageType type, const Bytes& body);
  void send_all(MessageType type, const Bytes& body, Rank except);
  void gather_up(const GatherUp& message);
  void answer_round(uint64_t number, std::vector<Bytes> data);
  void fail_round(uint64_t number, const std::string& sentence);
  void round_timed_out(uint64_t number);
  void lost(Rank rank, const std::string& why);
  // Ends in lost(), as soon as the system says how the process ended.
  void examine(Rank rank, const std::string& why, uint32_t times);
  bool same_host(Rank rank) const;  // in another process
  const std::string& reason_of(Rank rank);
  void spread(const Failure& failure, Rank from);
  bool keep(const Notice& notice);  // any thread
  void report(Rank rank, const Error& error);
  void beat();
  void watch_neighbours();
  std::vector<Rank> children() const;

  // Regrouping (network_regroup.cpp); loop.
  void gather_survivor(const Regroup& request, LinkPointer link,
                       std::shared_ptr<Answer> answer = nullptr);
  void decide(uint64_t key, bool late);
  void probe(uint64_t key);
  void lost_elsewhere(Rank rank, const std::string& why);
  void seek_coordinator(Regroup request, size_t candidate, std::shared_ptr<Answer> answer);
  void seek_further(Regroup request, size_t candidate, std::shared_ptr<Answer> answer);
  void ask_coordinator(Regroup request, size_t candidate, std::shared_ptr<Answer> answer,
                       LinkPointer link);
  void finish(const std::shared_ptr<Answer>& answer, Bytes decision, std::optional<Error> error);

  JoinOptions options_;
  Bytes key_;
  Address root_;
  Table table_;  // written before join() returns, constant afterwards

  // loop:
  std::unique_ptr<Door> door_;
  Address door_address_;
  std::unique_ptr<Rendezvous> rendezvous_;
  LinkPointer root_link_;
  Digest session_{};
  bool placed_ = false;
  bool ready_ = false;
  bool failed_ = false;  // failure_ is there
  bool gone_ = false;    // leaving: nothing is lost any more
  std::map<Rank, Neighbour> neighbours_;
  std::set<Rank> ready_children_;
  std::vector<std::pair<LinkPointer, Attach>> early_;  // children that came before the place
  std::map<uint64_t, Round> rounds_;
  std::map<uint64_t, Gathering> gatherings_;
  std::set<uint64_t> decided_;  // keys of gatherings that are over
  std::set<LinkPointer> visitors_;
  std::set<Rank> aborted_;
  bool handler_called_ = false;

  mutable std::mutex mutex_;  // of what follows
  uint32_t attempts_ = 0;     // the loop's thread writes, who joins reads both at the end
  std::string last_trouble_;
  std::condition_variable changed_;
  bool joined_ = false;
  std::optional<Error> join_error_;
  std::map<uint64_t, std::shared_ptr<Answer>> answers_;  // rounds that callers wait for
  std::set<Rank> dead_;
  Notices notices_;
  std::optional<std::pair<Rank, Error>> failure_;
  std::function<void(Rank, const Error&)> handler_;
  uint64_t next_round_ = 0;
  std::map<uint64_t, uint32_t> regroup_counts_;  // by key without its count
  bool flushed_ = false;

  std::unique_ptr<Loop> loop_;  // last: its thread ends before the rest goes
};

}  // namespace neuron::ccom

#endif
