// SPDX-License-Identifier: Apache-2.0
#include "ccom/communicator/communicator.h"

#include <algorithm>
#include <cstring>

#include "ccom/bootstrap/rank_list.h"
#include "ccom/communicator/members.h"
#include "ccom/plan/calibration.h"
#include "ccom/transport/fabric_address.h"
#include "ccom/transport/network_port.h"

namespace neuron::ccom {

Communicator::~Communicator() {
  if (dump_) {
    dump_->after_failure();
  }
}

void Communicator::forget() {
  dump_->forget();
  streams_->forget();
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
  const bool local = one_host(bootstrap_->members()) && (settings_.shared_memory || size() == 1);
  auto executor = local ? make_host_executor(context) : make_network_executor(context);
  if (!executor) {
    dump_->forget();  // no operation has run
    return executor.error();
  }
  streams_->use(std::move(*executor));
  return bootstrap_->barrier(deadline);
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

Result<std::unique_ptr<NetworkPort>> Communicator::open_port() {
  NEURON_CHECK(streams_->usable());
  return open_network_port(context(base::Deadline::after(settings_.timeout)));
}

Result<std::unique_ptr<Communicator>> Communicator::split(int32_t color, int32_t key) {
  NEURON_CHECK(streams_->usable());
  const int32_t mine[2] = {color, key};
  const base::Deadline deadline = base::Deadline::after(settings_.timeout);
  NEURON_TRY(all, bootstrap_->all_gather(std::as_bytes(std::span(mine)), deadline));
  std::vector<std::pair<int32_t, Rank>> order;
  for (Rank i = 0; i < size(); ++i) {
    int32_t theirs[2];
    if (all[i].size() != sizeof(theirs)) {
      return fail(CCOM_MISMATCH, "{} is not at ccom_split, {} is",
                  describe(bootstrap_->members()[i]), describe(me()));
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
  return make(std::move(group), settings_);
}

Result<std::unique_ptr<Communicator>> Communicator::shrink() {
  // All operations in flight end first, here and elsewhere.
  abort("it shrinks the communicator");
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

void Communicator::abort(const std::string& why) {
  if (status() == CCOM_SUCCESS) {
    bootstrap_->abort(fail(CCOM_ABORTED, "{} aborted: {}", describe(me()), why));
  }
}

Result<std::string> Communicator::explain(const ccom_collective_t& call) {
  NEURON_TRY(request, make_request(call, size()));
  if (request.operation == CCOM_ALL_TO_ALL_V) {
    return fail(CCOM_UNSUPPORTED,
                "all_to_all_v is planned from what all ranks send; explain all_to_all instead");
  }
  request.in_place = in_place(buffer_extents(request, rank(), size()), call.input, call.output);
  return planner_->explain(request);
}

}  // namespace neuron::ccom
