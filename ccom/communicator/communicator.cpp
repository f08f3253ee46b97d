// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/communicator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ccom/bootstrap/address.h"
#include "ccom/bootstrap/named_round.h"
#include "ccom/bootstrap/rank_list.h"
#include "ccom/communicator/members.h"
#include "ccom/plan/calibration.h"
#include "ccom/transport/fabric_address.h"
#include "ccom/transport/network_port.h"
#include "driver/base/backoff.h"
#include "driver/base/file_descriptor.h"

namespace neuron::ccom {
namespace {

// What rank 0 says beside a growth, with its number.
constexpr std::string_view kGrowth = "growth ";

// Rank 0's socket, where ranks that join come.
Result<int> listen_at(const std::string& root) {
  NEURON_TRY(address, parse_address(root));
  return open_listener(address, "rank 0 collects the new ranks");
}

}  // namespace

Communicator::~Communicator() {
  if (streams_) {
    streams_->end_launches();
  }
  if (dump_) {
    dump_->after_failure();
  }
}

void Communicator::forget() {
  dump_->forget();
  streams_->forget();
  for (auto& [number, window] : windows_) {
    static_cast<void>(window.release());
  }
  for (auto& window : abandoned_) {
    static_cast<void>(window.release());
  }
  static_cast<void>(bootstrap_.release());
}

Result<std::unique_ptr<Communicator>> Communicator::make(std::unique_ptr<Bootstrap> bootstrap,
                                                         const Settings& settings) {
  std::unique_ptr<Communicator> made(new Communicator(std::move(bootstrap), settings));
  const base::Deadline deadline = base::Deadline::after(settings.timeout);
  const Result<void> done = made->set_up(deadline);
  if (!done) {
    // Tells the other ranks, which would otherwise wait for this one.
    made->bootstrap_->abort(
        done.error().with("{} could not set up its communicator", describe(made->me())));
    return done.error();
  }
  return made;
}

Result<JoinOptions> Communicator::join_options(Rank rank, uint32_t size, const Settings& settings) {
  if (settings.require_secret && settings.secret.empty()) {
    NEURON_TRY(root, parse_address(settings.root));
    if (!is_loopback(root)) {
      return fail(
          CCOM_INVALID,
          "whoever reaches {} could join this job, which CCOM_REQUIRE_SECRET=1 forbids; give "
          "all ranks the same CCOM_SECRET",
          settings.root);
    }
  }
  if (!settings.channel.empty() && settings.secret.empty()) {
    return fail(CCOM_INVALID,
                "CCOM_TLS={} needs a key that strangers do not know; give all ranks the same "
                "CCOM_SECRET",
                settings.channel);
  }
  JoinOptions options;
  options.rank = rank;
  options.size = size;
  options.root = settings.root;
  options.secret = settings.secret;
  options.channel = settings.channel;
  options.deadline = base::Deadline::after(settings.timeout);
  options.shared_memory = settings.shared_memory;
  options.device = settings.device;
  options.heartbeat = settings.heartbeat;
  return options;
}

Result<std::unique_ptr<Communicator>> Communicator::join(Rank rank, uint32_t size,
                                                         const Settings& settings) {
  NEURON_TRY(options, join_options(rank, size, settings));
  NEURON_TRY(bootstrap, Bootstrap::join(options));
  return make(std::move(bootstrap), settings);
}

Result<void> Communicator::set_up(base::Deadline deadline) {
  bootstrap_->on_failure([this](Rank, const Error& error) { failure_.note(error); });
  NEURON_CHECK(agree(*bootstrap_, settings_, deadline));
  NEURON_TRY(arenas, share_arenas(*bootstrap_, settings_, deadline));
  memory_.emplace(std::move(arenas), rank());
  recorder_.emplace(memory_->flight(rank()));
  NEURON_TRY(group, place_members(bootstrap_->members(), settings_));
  NEURON_TRY(costs, calibration_of_environment(Medium::kHostMemory));
  planner_.emplace(std::move(group), costs);
  dump_.emplace(*bootstrap_, *memory_, *recorder_, failure_, settings_.dump_path);
  streams_.emplace(*bootstrap_, *planner_, *recorder_, failure_, *dump_, settings_.timeout);

  const ExecutorContext context = this->context(deadline);
  auto executor = all_mapped() ? make_host_executor(context) : make_network_executor(context);
  if (!executor) {
    dump_->forget();  // no operation has run
    return executor.error();
  }
  network_ = (*executor)->network();
  planner_->price(network_costs(costs, network_));
  streams_->use(std::move(*executor));
  return bootstrap_->barrier(deadline);
}

bool Communicator::all_mapped() const {
  return one_host(bootstrap_->members()) && (settings_.shared_memory || size() == 1);
}

ExecutorContext Communicator::context(base::Deadline deadline) {
  ExecutorContext context;
  context.rank = rank();
  context.size = size();
  context.bootstrap = bootstrap_.get();
  context.arenas = memory_->arenas();
  context.rank_order = settings_.rank_order;
  context.providers = settings_.providers;
  context.local_address = address_towards(settings_.root);
  context.deadline = deadline;
  context.timeout = settings_.timeout;
  context.interrupted = &failure_.flag();
  context.interruption = [this] { return failure_.error(); };
  context.records = &streams_->records();
  return context;
}

Result<std::unique_ptr<NetworkPort>> Communicator::open_port(const char* call) {
  NEURON_CHECK(streams_->usable());
  ExecutorContext needs = context(base::Deadline::after(settings_.timeout));
  needs.call = call;
  return open_network_port(needs);
}

Result<void> Communicator::release(void* memory) {
  for (const auto& [number, window] : windows_) {
    if (window->shows(memory)) {
      return fail(
          CCOM_INVALID,
          "rank {}: ccom_mem_free({:#x}): window {} shows this memory, and others may write "
          "there; close it first (ccom_window_close)",
          rank(), reinterpret_cast<uintptr_t>(memory), number);
    }
  }
  const bool written = std::any_of(abandoned_.begin(), abandoned_.end(),
                                   [&](const auto& window) { return window->shows(memory); });
  return written ? memory_->retire(memory) : memory_->release(memory);
}

Result<uint32_t> Communicator::open_window(void* memory, uint64_t bytes) {
  NEURON_CHECK(streams_->usable());
  Window::Parts parts;
  parts.bootstrap = bootstrap_.get();
  parts.memory = &*memory_;
  parts.failure = &failure_;
  parts.open_port = [this] { return open_port("ccom_window_open"); };
  if (!all_mapped()) {
    NEURON_TRY(port, parts.open_port());
    parts.port = std::move(port);
  }
  NEURON_TRY(window, Window::open(std::move(parts), static_cast<std::byte*>(memory), bytes,
                                  next_window_, base::Deadline::after(settings_.timeout)));
  const uint32_t number = window->number();
  windows_[number] = std::move(window);
  next_window_ = number + 1;
  return number;
}

Result<void> Communicator::close_window(uint32_t window) {
  NEURON_CHECK(find_window(window));
  if (status() != CCOM_SUCCESS) {
    abandon(window);  // nobody else may come
    return {};
  }
  const auto met = meet("ccom_window_close", ccom::format("window {}", window));
  if (met) {
    windows_.erase(window);  // all are here, so nobody puts any more
  } else if (status() != CCOM_SUCCESS) {
    abandon(window);
  }
  return met ? Result<void>() : met.error();
}

void Communicator::abandon(uint32_t window) {
  const auto found = windows_.find(window);
  found->second->disconnect();
  abandoned_.push_back(std::move(found->second));
  windows_.erase(found);
}

Result<Window*> Communicator::find_window(uint32_t window) {
  const auto found = windows_.find(window);
  if (found == windows_.end()) {
    return fail(CCOM_INVALID, "there is no window {}: it was never opened, or it was closed",
                window);
  }
  return found->second.get();
}

Result<void> Communicator::put(uint32_t window, Rank target, uint64_t offset, const void* source,
                               uint64_t bytes, uint32_t signal) {
  NEURON_CHECK(streams_->usable());
  NEURON_TRY(found, find_window(window));
  return found->put(target, offset, static_cast<const std::byte*>(source), bytes, signal,
                    settings_.timeout);
}

Result<void> Communicator::wait_signal(uint32_t window, Rank source, uint32_t signal,
                                       uint64_t count, std::chrono::milliseconds timeout) {
  NEURON_CHECK(streams_->usable());
  NEURON_TRY(found, find_window(window));
  return found->wait(source, signal, count,
                     base::Deadline::after(timeout.count() != 0 ? timeout : settings_.timeout));
}

Result<std::unique_ptr<Communicator>> Communicator::split(int32_t color, int32_t key) {
  NEURON_CHECK(streams_->usable());
  const int32_t mine[2] = {color, key};
  const base::Deadline deadline = base::Deadline::after(settings_.timeout);
  NEURON_TRY(all, gather_at("ccom_split", *bootstrap_, std::as_bytes(std::span(mine)), deadline));
  std::vector<std::pair<int32_t, Rank>> order;
  for (Rank i = 0; i < size(); ++i) {
    int32_t theirs[2];
    if (all[i].size() != sizeof(theirs)) {
      return says_otherwise("ccom_split", *bootstrap_, std::as_bytes(std::span(mine)), i, all[i]);
    }
    std::memcpy(theirs, all[i].data(), sizeof(theirs));
    if (theirs[0] == color) {
      order.emplace_back(theirs[1], i);
    }
  }
  if (color < 0) {
    return std::unique_ptr<Communicator>();
  }
  std::sort(order.begin(), order.end());
  std::vector<Rank> ranks;
  for (const auto& [theirs, rank] : order) {
    ranks.push_back(rank);
  }
  NEURON_TRY(group, bootstrap_->regroup(ranks, deadline));
  if (group->members().size() != ranks.size()) {
    return fail(CCOM_TIMEOUT, "ccom_split: only {} of {} ranks with color {} came",
                group->members().size(), ranks.size(), color);
  }
  Settings settings = settings_;
  settings.own_root = false;
  return make(std::move(group), settings);
}

Result<std::unique_ptr<Communicator>> Communicator::shrink() {
  // All operations in flight end first, here and elsewhere.
  abort("it shrinks the communicator");
  // Ranks regroup by another key after a failure, which the bootstrap's thread notes.
  const base::Deadline noted = base::Deadline::after(std::chrono::seconds(1));
  while (status() == CCOM_SUCCESS && !noted.expired()) {
    base::sleep_for(std::chrono::microseconds(100));
  }
  const std::vector<Rank> dead = bootstrap_->dead();
  std::vector<Rank> ranks;
  for (Rank i = 0; i < size(); ++i) {
    if (std::find(dead.begin(), dead.end(), i) == dead.end()) {
      ranks.push_back(i);
    }
  }
  // A rank that does not come is given up after half a second in which no other rank came.
  const auto limit =
      std::min<std::chrono::milliseconds>(settings_.timeout, std::chrono::milliseconds(10000));
  NEURON_TRY(group, bootstrap_->regroup(ranks, base::Deadline::after(limit)));
  return make(std::move(group), settings_);
}

Result<std::string> Communicator::meet(const char* function, const std::string& says,
                                       const Beside& mine) {
  // A word stands behind what all say, and a trouble on a line of its own.
  const std::string said = says + (mine.word.empty() ? "" : ", " + mine.word) +
                           (mine.trouble.empty() ? "" : "\n" + mine.trouble);
  NEURON_TRY(all, gather_at(function, *bootstrap_, bytes_of(said),
                            base::Deadline::after(settings_.timeout)));
  Result<std::string> word = std::string();
  for (Rank i = 0; i < size(); ++i) {
    const std::string theirs(reinterpret_cast<const char*>(all[i].data()), all[i].size());
    const std::string rest = theirs.substr(std::min(says.size(), theirs.size()));
    const size_t line = rest.find('\n');
    const std::string beside = rest.substr(0, line);
    if (!theirs.starts_with(says) || (!beside.empty() && !beside.starts_with(", "))) {
      return says_otherwise(function, *bootstrap_, bytes_of(said), i, all[i]);
    }
    if (line != std::string::npos && word) {
      word = fail(CCOM_INVALID, "{}: {}: {}", function, describe(bootstrap_->members()[i]),
                  printable(bytes_of(std::string_view(rest).substr(line + 1))));
    } else if (i == 0 && !beside.empty()) {
      word = beside.substr(2);
    }
  }
  return word;
}

void Communicator::end_growth(uint64_t number, const Error& why) {
  bootstrap_->tell(NoticeAbout::kGrowth, number,
                   ccom::format("{} {}", static_cast<unsigned>(why.status), why.sentence));
}

std::optional<Error> Communicator::end_of_growth(uint64_t number) const {
  if (status() != CCOM_SUCCESS) {
    return failure_.error().with("the communicator that grows has ended");
  }
  const auto notice = bootstrap_->told(NoticeAbout::kGrowth, number);
  if (!notice || notice->number != number || notice->rank == rank()) {
    return std::nullopt;
  }
  char* sentence = nullptr;
  const auto status =
      static_cast<ccom_status_t>(std::strtoul(notice->sentence.c_str(), &sentence, 10));
  return fail(status, "ccom_grow: {}:{}", describe(bootstrap_->members()[notice->rank]),
              printable(bytes_of(sentence)));
}

Result<std::unique_ptr<Communicator>> Communicator::grow(uint32_t ranks, const std::string& root) {
  NEURON_CHECK(streams_->usable());
  Settings settings = settings_;
  if (!root.empty()) {
    settings.root = root;
    settings.own_root = true;
  }
  if (ranks <= size()) {
    return fail(CCOM_INVALID, "ccom_grow: {} ranks were asked for, but the communicator has {}",
                ranks, size());
  }
  if (settings.root.empty()) {
    return fail(CCOM_INVALID,
                "ccom_grow: the ranks of this communicator joined without an address; give one at "
                "which rank 0 collects the new ranks");
  }
  if (!settings.own_root) {
    return fail(CCOM_INVALID,
                "ccom_grow: {} is the address of all communicators of a ccom_split, so new ranks "
                "would come to any of them; give one of its own to this communicator",
                settings.root);
  }
  // Ranks that disagree, or an address that rank 0 cannot have, would only show at the end of the
  // deadlines.
  base::FileDescriptor listener;
  Beside mine;
  if (rank() == 0) {
    const auto opened = listen_at(settings.root);
    listener = base::FileDescriptor(opened ? *opened : -1);
    mine.word = ccom::format("{}{}", kGrowth, growths_++);
    mine.trouble = opened ? "" : opened.error().sentence;
  }
  NEURON_TRY(word, meet("ccom_grow", ccom::format("{} ranks at {}", ranks, settings.root), mine));
  const uint64_t number =
      word.starts_with(kGrowth) ? std::strtoull(word.c_str() + kGrowth.size(), nullptr, 10) : 0;
  const auto interrupted = [&] { return end_of_growth(number); };
  const auto joined = [&]() -> Result<std::unique_ptr<Bootstrap>> {
    NEURON_TRY(options, join_options(rank(), ranks, settings));
    return Bootstrap::join(options, listener.release(), interrupted);
  };
  auto bootstrap = joined();
  if (!bootstrap) {
    // The others would wait for this rank, or knock at a door that nobody opens.
    end_growth(number, bootstrap.error());
    return bootstrap.error();
  }
  return make(std::move(*bootstrap), settings);
}

Result<void> Communicator::suspend() {
  NEURON_CHECK(streams_->usable());
  // When all ranks are here, none reads another's memory any more.
  // All decide by what was said: a launched operation may end between two looks.
  const bool idle = streams_->idle();
  NEURON_CHECK(
      meet("ccom_suspend", idle ? "no operation is under way" : "an operation is under way"));
  if (!idle) {
    return fail(CCOM_INVALID,
                "ccom_suspend: operations were started and are not over; wait for them first");
  }
  streams_->suspend();
  memory_->give_back();
  return {};
}

Result<void> Communicator::resume() {
  if (!streams_->suspended()) {
    return fail(CCOM_INVALID, "ccom_resume: the communicator is not suspended");
  }
  NEURON_CHECK(meet("ccom_resume", "it is suspended"));
  streams_->resume();
  return {};
}

MemoryUse Communicator::memory() const {
  MemoryUse use = memory_->use();
  use.working += streams_->working_memory();
  return use;
}

void Communicator::abort(const std::string& why) {
  if (status() == CCOM_SUCCESS) {
    bootstrap_->abort(fail(CCOM_ABORTED, "{} aborted: {}", describe(me()), why));
  }
}

void Communicator::revoke() {
  if (status() == CCOM_SUCCESS) {
    const Error why =
        fail(CCOM_REVOKED, "{} revoked the communicator; ccom_shrink makes a new one of its ranks",
             describe(me()));
    bootstrap_->abort(why);
  }
}

Result<std::string> Communicator::explain(const ccom_collective_t& call) {
  NEURON_TRY(request, make_request(call, size()));
  if (request.operation == CCOM_ALL_TO_ALL_V) {
    return fail(CCOM_UNSUPPORTED,
                "all_to_all_v is planned from what all ranks send; explain all_to_all instead");
  }
  request.in_place = in_place(buffer_extents(request, rank(), size()), call.input, call.output);
  const std::string text = planner_->explain(request);
  return network_.empty() ? text : text + format("between hosts: {}\n", network_);
}

}  // namespace neuron::ccom
