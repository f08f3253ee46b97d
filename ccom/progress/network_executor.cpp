// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "ccom/bootstrap/named_round.h"
#include "ccom/progress/executor.h"
#include "ccom/progress/network_engine.h"
#include "ccom/transport/fabric_address.h"
#include "ccom/transport/fabric_provider.h"
#include "ccom/transport/shared_connection.h"
#include "driver/base/backoff.h"
#include "driver/base/service_thread.h"

namespace neuron::ccom {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr uint32_t kProxyRounds = 64;    // before the proxy releases the lock
constexpr microseconds kShortNap{50};    // of the proxy while it waits for messages
constexpr microseconds kLongNap{20000};  // when nothing is in flight
// Idle rounds before the core is yielded. Each round asks the kernel about all sockets, which costs
// more than a yield that no other thread takes; and the awaited rank may need this core.
constexpr uint32_t kSpins = 1;

class NetworkExecutor;

class NetworkExecution final : public Execution {
 public:
  explicit NetworkExecution(NetworkExecutor& executor) : executor_(executor) {}
  ~NetworkExecution() override;
  Outcome advance() override;
  const Error& failure() const override { return task.failure; }

  NetworkTask task;

 private:
  NetworkExecutor& executor_;
};

class NetworkExecutor final : public Executor {
 public:
  NetworkExecutor(const ExecutorContext& context, std::vector<Member> members,
                  std::unique_ptr<NetworkPort> port,
                  std::vector<std::unique_ptr<Connection>> shared)
      : timeout_(context.timeout),
        network_(port->endpoint().provider()),
        engine_(context, std::move(members), std::move(port), std::move(shared)),
        // The engine guards its rounds. Without the thread, callers still advance operations.
        proxy_(base::service_thread(
            "ccom-network", [this] { drive(); }, [](const char*) {})) {}

  ~NetworkExecutor() override {
    {
      const std::lock_guard lock(wake_mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    proxy_.join();
  }

  Result<std::unique_ptr<Execution>> start(std::shared_ptr<const Plan> plan,
                                           const Operands& operands, const Signature& signature,
                                           milliseconds timeout) override {
    auto execution = std::make_unique<NetworkExecution>(*this);
    prepare(execution->task, std::move(plan), operands, signature,
            timeout.count() != 0 ? timeout : timeout_);
    {
      const std::lock_guard lock(mutex_);
      NEURON_CHECK(engine_.begin(execution->task));
      engine_.round();
    }
    {
      const std::lock_guard lock(wake_mutex_);
      kicked_ = true;
    }
    wake_.notify_one();
    return std::unique_ptr<Execution>(std::move(execution));
  }

  Result<void> run(const std::shared_ptr<const Plan>& plan, const Operands& operands,
                   const Signature& signature, milliseconds timeout) override {
    NetworkTask task;
    prepare(task, plan, operands, signature, timeout);
    // The caller makes progress inline, so the proxy does not get the engine before the end.
    const std::lock_guard lock(mutex_);
    NEURON_CHECK(engine_.begin(task));
    base::Backoff backoff({.pauses = kSpins, .yields = base::Backoff::kNoSleep});
    // Bounded: the engine fails every task that makes no progress for its timeout.
    while (!ended(task)) {
      if (engine_.round()) {
        backoff.reset();
      } else {
        backoff.wait();
      }
    }
    if (task.state.load(std::memory_order_relaxed) == TaskState::kFailed) {
      return task.failure;
    }
    return {};
  }

  void free_memory() override {
    const std::lock_guard lock(mutex_);
    engine_.free_scratch();
  }
  uint64_t working_memory() const override {
    const std::lock_guard lock(mutex_);
    return engine_.scratch_bytes();
  }

  std::string network() const override { return network_; }

  Outcome advance(NetworkTask& task) {
    if (!ended(task)) {
      // If the lock is taken, the proxy is driving the engine.
      if (std::unique_lock lock(mutex_, std::try_to_lock); lock) {
        engine_.round();
      }
    }
    // Pairs with the release of the engine.
    switch (task.state.load(std::memory_order_acquire)) {
      case TaskState::kDone:
        return Outcome::kDone;
      case TaskState::kFailed:
        return Outcome::kFailed;
      default:
        return Outcome::kNotYet;
    }
  }

  void forget(NetworkTask& task) {
    const std::lock_guard lock(mutex_);
    engine_.forget(task);
  }

 private:
  static void prepare(NetworkTask& task, std::shared_ptr<const Plan> plan, const Operands& operands,
                      const Signature& signature, milliseconds timeout) {
    task.plan = std::move(plan);
    task.operands = operands;
    task.signature = signature;
    task.timeout = timeout;
  }
  static bool ended(const NetworkTask& task) {
    // Pairs with the release of the engine.
    const TaskState state = task.state.load(std::memory_order_acquire);
    return state == TaskState::kDone || state == TaskState::kFailed;
  }

  // The proxy thread. It advances operations while the caller computes, answers questions of other
  // ranks, and finishes sending after a collective.
  void drive() {
    microseconds nap = kLongNap;
    std::unique_lock wake(wake_mutex_);
    while (!stopping_) {
      wake_.wait_for(wake, nap, [this] { return stopping_ || kicked_; });
      kicked_ = false;
      wake.unlock();
      nap = kLongNap;
      // If the lock is taken, the caller runs a collective inline, which does all of this.
      if (std::unique_lock lock(mutex_, std::try_to_lock); lock) {
        bool moved = false;
        // Once is enough where nothing is under way: each round asks the kernel about all sockets.
        for (uint32_t i = 0; i < kProxyRounds; ++i) {
          const bool moves = engine_.round();
          moved = moves || moved;
          if (!moves && engine_.idle()) break;
        }
        nap = moved ? microseconds(0) : engine_.idle() ? kLongNap : kShortNap;
      }
      wake.lock();
    }
  }

  milliseconds timeout_;
  const std::string network_;
  mutable std::mutex mutex_;  // of the engine
  NetworkEngine engine_;
  std::mutex wake_mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  bool kicked_ = false;
  std::thread proxy_;
};

NetworkExecution::~NetworkExecution() { executor_.forget(task); }
Outcome NetworkExecution::advance() { return executor_.advance(task); }

// What ranks exchange to open the network: text or addresses, behind a sign. An error goes to all,
// so that they fail with the same sentence instead of waiting for one another.
constexpr char kGood = '+';
constexpr char kBad = '-';

std::string good(std::string_view text) { return kGood + std::string(text); }
std::string bad(const Error& error) { return kBad + error.sentence; }

// Returns what the ranks say behind their signs.
Result<std::vector<std::string>> exchange(const ExecutorContext& context, const char* what,
                                          const std::string& mine) {
  Bootstrap& bootstrap = *context.bootstrap;
  const std::string call = ccom::format("{}, {}", context.call, what);
  NEURON_TRY(all, gather_at(call, bootstrap, bytes_of(mine), context.deadline));
  std::vector<std::string> offers;
  for (Rank rank = 0; rank < all.size(); ++rank) {
    const std::string said(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
    if (said.empty() || (said[0] != kGood && said[0] != kBad)) {
      return says_otherwise(call, bootstrap, bytes_of(mine), rank, all[rank]);
    }
    offers.push_back(said);
  }
  for (Rank rank = 0; rank < offers.size(); ++rank) {
    std::string& offer = offers[rank];
    const bool refused = offer[0] == kBad;
    offer.erase(0, 1);
    if (refused) {
      return fail(CCOM_UNSUPPORTED, "{} cannot use the network: {}",
                  rank_text(rank, bootstrap.members()), printable(bytes_of(offer)));
    }
  }
  return offers;
}

std::string choose_address(const ExecutorContext& context, const std::vector<Member>& members) {
  if (!context.local_address.empty()) {
    return context.local_address;
  }
  bool one_process = true;
  for (const Member& member : members) {
    one_process = one_process && member.process == getpid() &&
                  member.host_id == members[context.rank].host_id;
  }
  if (one_process) {
    return "127.0.0.1";
  }
  const char* root = std::getenv("NEURON_RT_ROOT_COMM_ID");
  return root == nullptr ? "" : address_towards(root);
}

// Makes connections to the ranks whose memory is mapped here, by rank; null for the others.
Result<std::vector<std::unique_ptr<Connection>>> connect_arenas(
    const ExecutorContext& context, const std::vector<Member>& members) {
  std::vector<std::unique_ptr<Connection>> connections(context.size);
  for (Rank peer = 0; peer < context.arenas.size() && peer < context.size; ++peer) {
    if (peer == context.rank || context.arenas[peer] == nullptr ||
        context.arenas[context.rank] == nullptr) {
      continue;
    }
    SharedEnd end;
    end.rank = context.rank;
    end.peer = peer;
    end.size = context.size;
    end.own = context.arenas[context.rank];
    end.other = context.arenas[peer];
    end.one_process = members[peer].process == members[context.rank].process &&
                      members[peer].host_id == members[context.rank].host_id;
    NEURON_TRY(connection, make_shared_connection(end));
    connections[peer] = std::move(connection);
  }
  return connections;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> result;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    result.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

// Chooses the first provider of rank 0's preference that all ranks have.
Result<std::string> agree(const std::vector<std::string>& offers,
                          const std::vector<Member>& members) {
  std::string missing;
  for (const std::string& name : lines(offers[0])) {
    Rank without = 0;
    while (without < offers.size()) {
      const auto names = lines(offers[without]);
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        break;
      }
      ++without;
    }
    if (without == offers.size()) {
      return name;
    }
    missing += ccom::format("{}{} is not on {}", missing.empty() ? "" : "; ", name,
                            rank_text(without, members));
  }
  return fail(
      CCOM_UNSUPPORTED,
      "the ranks have no network provider in common: {}; set CCOM_PROVIDERS to one that all "
      "hosts have",
      missing);
}

}  // namespace

Result<std::unique_ptr<NetworkPort>> open_network_port(const ExecutorContext& context) {
  const std::vector<Member>& members = context.bootstrap->members();
  const std::string address = choose_address(context, members);
  auto offered = offered_providers(context.providers, address);
  std::string names;
  if (offered) {
    for (const std::string& name : *offered) {
      names += name + "\n";
    }
  }
  NEURON_TRY(offers, exchange(context, "providers", offered ? good(names) : bad(offered.error())));
  NEURON_TRY(provider, agree(offers, members));

  auto endpoint = open_provider(provider, address);
  const auto key = new_port_key();
  Result<void> usable;
  Bytes own;
  if (!endpoint) {
    usable = endpoint.error();
  } else if (!key) {
    usable = key.error();
  } else {
    own.assign(key->begin(), key->end());
    const auto at = (*endpoint)->address();
    own.insert(own.end(), at.begin(), at.end());
  }
  NEURON_TRY(opened, exchange(context, "addresses",
                              usable ? good({reinterpret_cast<const char*>(own.data()), own.size()})
                                     : bad(usable.error())));
  std::vector<std::vector<std::byte>> addresses;
  std::vector<PortKey> keys(opened.size());
  for (Rank rank = 0; rank < opened.size(); ++rank) {
    const auto told = bytes_of(opened[rank]);
    if (told.size() < sizeof(PortKey)) {
      return fail(CCOM_MISMATCH, "{} tells {} bytes of its network port, expected a key of {}",
                  rank_text(rank, members), told.size(), sizeof(PortKey));
    }
    std::copy_n(told.begin(), keys[rank].size(), keys[rank].begin());
    addresses.emplace_back(told.begin() + sizeof(PortKey), told.end());
  }
  auto port = NetworkPort::open(context.rank, std::move(*endpoint), addresses, keys);
  const auto all = exchange(context, "ports", port ? good("") : bad(port.error()));
  if (port && !all) {
    return all.error();
  }
  return port;
}

Result<std::unique_ptr<Executor>> make_network_executor(const ExecutorContext& context) {
  const std::vector<Member>& members = context.bootstrap->members();
  NEURON_TRY(port, open_network_port(context));
  NEURON_TRY(shared, connect_arenas(context, members));
  return std::unique_ptr<Executor>(
      std::make_unique<NetworkExecutor>(context, members, std::move(port), std::move(shared)));
}

}  // namespace neuron::ccom
