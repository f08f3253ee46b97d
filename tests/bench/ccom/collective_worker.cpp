// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ccom/collective_worker.h"

#include <cstdio>
#include <cstring>
#include <map>

#include "ccom/progress/executor.h"
#include "ccom/transport/arena_layout.h"

namespace neuron::bench {
namespace {

using ccom::Rank;

// Nothing has to be agreed: the ranks were one process when everything was made.
class ForkedBootstrap final : public ccom::Bootstrap {
 public:
  ForkedBootstrap(Rank rank, uint32_t ranks) : rank_(rank) {
    for (Rank i = 0; i < ranks; ++i) {
      members_.push_back({i, "this host", 1, 100000000 + static_cast<int32_t>(i), 0});
    }
  }
  Rank rank() const override { return rank_; }
  const std::vector<ccom::Member>& members() const override { return members_; }
  uint64_t capabilities() const override { return 0; }
  ccom::Result<std::vector<ccom::Bytes>> all_gather(std::span<const std::byte>,
                                                    base::Deadline) override {
    return ccom::fail(CCOM_UNSUPPORTED, "forked ranks exchange nothing");
  }
  ccom::Result<std::vector<int>> exchange_descriptors(int, base::Deadline) override {
    return ccom::fail(CCOM_UNSUPPORTED, "forked ranks exchange nothing");
  }
  void on_failure(std::function<void(Rank, const ccom::Error&)>) override {}
  void abort(const ccom::Error&) override {}
  void tell(uint64_t, const std::string&) override {}
  std::optional<ccom::Notice> told(uint64_t) const override { return std::nullopt; }
  std::vector<Rank> dead() const override { return {}; }
  ccom::Result<std::unique_ptr<ccom::Bootstrap>> regroup(const std::vector<Rank>&,
                                                         base::Deadline) override {
    return ccom::fail(CCOM_UNSUPPORTED, "forked ranks are not regrouped");
  }

 private:
  Rank rank_;
  std::vector<ccom::Member> members_;
};

ccom::Planner host_planner(uint32_t ranks) {
  ccom::NodeProfile node;
  node.name = "host";
  node.chips = ranks;
  node.ranks_per_chip = 1;
  ccom::Group group{{}, ccom::Topology(node, 1)};
  for (Rank rank = 0; rank < ranks; ++rank) group.places.push_back({0, rank, 0, 0});
  return ccom::Planner(group, ccom::CostParameters{});
}

ccom::Request request_of(const board& orders, uint32_t ranks, uint32_t root) {
  static constexpr ccom_operation_t kOperations[] = {
      CCOM_ALL_REDUCE, CCOM_REDUCE_SCATTER, CCOM_ALL_GATHER, CCOM_ALL_TO_ALL, CCOM_BROADCAST};
  ccom::Request request;
  request.operation = kOperations[orders.operation];
  request.type = orders.bf16 ? CCOM_BF16 : CCOM_FP32;
  request.count = orders.bytes / (orders.bf16 ? 2 : 4);
  if (orders.operation == BOARD_BROADCAST) {
    request.root = root;
  } else if (orders.operation != BOARD_ALL_REDUCE) {
    request.count /= ranks;
  }
  return request;
}

struct Prepared {
  std::shared_ptr<const ccom::Plan> plan;
  ccom::Signature signature;
};

class Worker {
 public:
  Worker(board& orders, const std::vector<std::unique_ptr<ccom::Arena>>& arenas, Rank rank)
      : orders_(orders),
        ranks_(static_cast<uint32_t>(arenas.size())),
        rank_(rank),
        bootstrap_(rank, ranks_),
        planner_(host_planner(ranks_)) {
    context_.rank = rank;
    context_.size = ranks_;
    context_.bootstrap = &bootstrap_;
    for (const auto& arena : arenas) context_.arenas.push_back(arena.get());
    std::byte* heap = arenas[rank]->data() + ccom::ArenaLayout::of(ranks_).heap;
    operands_ = {heap, heap + orders.most};
    auto* values = reinterpret_cast<float*>(heap);
    for (uint64_t i = 0; i < orders.most / 4; ++i) {
      values[i] = static_cast<float>(i % 7) + static_cast<float>(rank);
    }
    std::memset(operands_.output, 0, orders.most);
  }

  bool run() {
    auto made = ccom::make_host_executor(context_);
    if (!made) return failed(made.error());
    executor_ = std::move(*made);
    uint32_t last = 0, meetings = 0;
    __atomic_add_fetch(&orders_.ready, 1, __ATOMIC_ACQ_REL);
    while (board_wait(&orders_, &last) != BOARD_END) {
      std::vector<Prepared> roots;
      for (uint32_t root = 0; root < (orders_.operation == BOARD_BROADCAST ? ranks_ : 1); ++root) {
        if (!prepare(root, roots)) return false;
      }
      board_meet(&orders_, ranks_, &meetings);
      const double begin = board_now();
      for (uint32_t i = 0; i < orders_.inner; ++i) {
        Prepared& next = roots[i % roots.size()];
        next.signature.operation = operation_++;
        const auto done =
            executor_->run(next.plan, operands_, next.signature, std::chrono::seconds(20));
        if (!done) return failed(done.error());
      }
      orders_.seconds[rank_] = board_now() - begin;
      if (!right()) return failed(ccom::fail(CCOM_SYSTEM, "a result is wrong"));
      __atomic_add_fetch(&orders_.finished, 1, __ATOMIC_ACQ_REL);
    }
    return true;
  }

 private:
  bool failed(const ccom::Error& error) {
    std::fprintf(stderr, "rank %u: %s\n", rank_, error.sentence.c_str());
    orders_.failed = 1;
    return false;
  }

  // As the communicator does: a plan is made once for equal requests.
  bool prepare(uint32_t root, std::vector<Prepared>& roots) {
    const ccom::Request request = request_of(orders_, ranks_, root);
    const auto key = std::make_tuple(request.operation, request.type, request.count, root);
    auto& plan = plans_[key];
    if (plan == nullptr) {
      auto planned = planner_.plan(request);
      if (!planned) return failed(planned.error());
      plan = std::make_shared<const ccom::Plan>(std::move(*planned));
    }
    ccom::Signature signature;
    signature.count = request.count;
    signature.kind = static_cast<uint8_t>(request.operation);
    signature.type = static_cast<uint8_t>(request.type);
    signature.root = root;
    roots.push_back({plan, signature});
    return true;
  }

  // The last element of an fp32 sum; the rest is for the tests.
  bool right() const {
    if (orders_.operation != BOARD_ALL_REDUCE || orders_.bf16) return true;
    const uint64_t at = orders_.bytes / 4 - 1;
    float expected = 0;
    for (Rank rank = 0; rank < ranks_; ++rank) {
      expected += static_cast<float>(at % 7) + static_cast<float>(rank);
    }
    return reinterpret_cast<const float*>(operands_.output)[at] == expected;
  }

  board& orders_;
  const uint32_t ranks_;
  const Rank rank_;
  ForkedBootstrap bootstrap_;
  ccom::Planner planner_;
  ccom::ExecutorContext context_;
  std::unique_ptr<ccom::Executor> executor_;
  ccom::Operands operands_;
  uint64_t operation_ = 0;
  std::map<std::tuple<ccom_operation_t, ccom_type_t, uint64_t, uint32_t>,
           std::shared_ptr<const ccom::Plan>>
      plans_;
};

}  // namespace

std::vector<std::unique_ptr<ccom::Arena>> make_arenas(uint32_t ranks, uint64_t most) {
  std::vector<std::unique_ptr<ccom::Arena>> arenas;
  for (Rank rank = 0; rank < ranks; ++rank) {
    auto arena = ccom::Arena::create(ccom::ArenaLayout::of(ranks).heap + 2 * most);
    if (!arena) {
      std::fprintf(stderr, "%s\n", arena.error().sentence.c_str());
      return {};
    }
    arenas.push_back(std::move(*arena));
  }
  return arenas;
}

void run_worker(board& orders, const std::vector<std::unique_ptr<ccom::Arena>>& arenas,
                uint32_t rank) {
  board_pin(rank);
  Worker(orders, arenas, rank).run();
}

}  // namespace neuron::bench
