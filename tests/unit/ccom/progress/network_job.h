// SPDX-License-Identifier: Apache-2.0
// A job of network executors: each rank a thread of the test, and what its collectives must give.
//
// Callers: tests. Threads: on_all() runs its work on one thread for each rank. Owns: everything.
#ifndef TESTS_UNIT_CCOM_PROGRESS_NETWORK_JOB_H
#define TESTS_UNIT_CCOM_PROGRESS_NETWORK_JOB_H

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ccom/bootstrap/bootstrap.h"
#include "ccom/plan/planner.h"
#include "ccom/progress/executor.h"
#include "ccom/reduction/reduction.h"
#include "ccom/transport/arena_layout.h"

namespace neuron::ccom {

using std::chrono::milliseconds;

inline Planner planner_of(uint32_t ranks, uint32_t ranks_per_node = 1) {
  NodeProfile node;
  node.name = "host";
  node.chips = ranks_per_node;
  node.ranks_per_chip = 1;
  Group group{{}, Topology(node, (ranks + ranks_per_node - 1) / ranks_per_node)};
  for (Rank rank = 0; rank < ranks; ++rank) {
    group.places.push_back({rank / ranks_per_node, rank % ranks_per_node, 0, 0});
  }
  return Planner(group, CostParameters{});
}

inline Signature signature_of(const Request& request, uint64_t operation, uint8_t stream = 0) {
  Signature signature;
  signature.operation = operation;
  signature.count = request.count;
  signature.kind = static_cast<uint8_t>(request.operation);
  signature.type = static_cast<uint8_t>(request.type);
  signature.reduction = static_cast<uint8_t>(request.reduction);
  signature.algorithm = static_cast<uint8_t>(request.algorithm);
  signature.stream = stream;
  signature.root = request.root;
  return signature;
}

class NetworkJob {
 public:
  // With more than one rank on a host, these share memory.
  NetworkJob(uint32_t ranks, const std::string& providers, uint32_t ranks_per_host = 1,
             milliseconds timeout = milliseconds(20000))
      : planner(planner_of(ranks, ranks_per_host)), interrupted(ranks) {
    arenas.resize(ranks);
    for (Rank rank = 0; rank < ranks && ranks_per_host > 1; ++rank) {
      auto arena = Arena::create(ArenaLayout::of(ranks).heap + 4096);
      EXPECT_TRUE(arena) << arena.error().sentence;
      arenas[rank] = std::move(*arena);
    }
    auto joined = Bootstrap::join_all(ranks);
    EXPECT_TRUE(joined) << joined.error().sentence;
    bootstraps = std::move(*joined);
    executors.resize(ranks);
    errors.resize(ranks);
    on_all([&](Rank rank) {
      ExecutorContext context;
      context.rank = rank;
      context.size = ranks;
      context.bootstrap = bootstraps[rank].get();
      context.arenas.resize(ranks);
      for (Rank other = 0; other < ranks; ++other) {
        if (other / ranks_per_host == rank / ranks_per_host) {
          context.arenas[other] = arenas[other].get();
        }
      }
      context.providers = providers;
      context.deadline = base::Deadline::after(milliseconds(10000));
      context.timeout = timeout;
      context.interrupted = &interrupted[rank];
      context.interruption = [] { return fail(CCOM_RANK_DEAD, "rank 1 (host test) died"); };
      auto executor = make_network_executor(context);
      if (executor) {
        executors[rank] = std::move(*executor);
      } else {
        errors[rank] = executor.error();
      }
    });
  }

  uint32_t ranks() const { return static_cast<uint32_t>(bootstraps.size()); }

  void on_all(const std::function<void(Rank)>& work) {
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < bootstraps.size(); ++rank) {
      threads.emplace_back([&work, rank] { work(rank); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

  std::shared_ptr<const Plan> plan(const Request& request, uint32_t window = 0) const {
    Parameters parameters;
    parameters.window = window;
    auto plan = planner.plan(request, parameters);
    EXPECT_TRUE(plan) << plan.error().sentence;
    return plan ? std::make_shared<const Plan>(std::move(*plan)) : nullptr;
  }

  Planner planner;
  std::vector<std::atomic<uint32_t>> interrupted;
  std::vector<std::unique_ptr<Arena>> arenas;
  std::vector<std::unique_ptr<Bootstrap>> bootstraps;
  std::vector<std::unique_ptr<Executor>> executors;
  std::vector<Error> errors;
};

// Buffers of one rank, of 32-bit integers, and what must be in the output. Operations without
// counts of their own for each rank.
struct Buffers {
  Buffers(const Request& request, Rank rank, uint32_t ranks) {
    const uint64_t n = request.count;
    const bool root = rank == request.root;
    const auto fill = [&](std::vector<int32_t>& values, Rank of, uint64_t size) {
      values.resize(size);
      for (uint64_t i = 0; i < size; ++i) {
        values[i] = static_cast<int32_t>((of + 1) * 1000003 + i * 7919);
      }
    };
    std::vector<std::vector<int32_t>> inputs(ranks);
    const auto blocks = [&](Rank of) -> uint64_t {
      switch (request.operation) {
        case CCOM_REDUCE_SCATTER:
        case CCOM_ALL_TO_ALL:
          return ranks;
        case CCOM_SCATTER:
          return of == request.root ? ranks : 0;
        case CCOM_BROADCAST:
          return of == request.root ? 1 : 0;
        case CCOM_BARRIER:
          return 0;
        default:
          return 1;
      }
    };
    for (Rank i = 0; i < ranks; ++i) {
      fill(inputs[i], i, n * blocks(i));
    }
    input = inputs[rank];
    const auto sum = [&](uint64_t begin) {
      std::vector<const std::byte*> operands;
      for (auto& values : inputs) {
        operands.push_back(reinterpret_cast<const std::byte*>(values.data() + begin));
      }
      std::vector<int32_t> result(n);
      if (n != 0) {
        reduce_reference(CCOM_INT32, request.reduction, reinterpret_cast<std::byte*>(result.data()),
                         operands.data(), ranks, n);
      }
      return result;
    };
    switch (request.operation) {
      case CCOM_ALL_REDUCE:
        expected = sum(0);
        break;
      case CCOM_REDUCE:
        expected = root ? sum(0) : std::vector<int32_t>{};
        break;
      case CCOM_REDUCE_SCATTER:
        expected = sum(rank * n);
        break;
      case CCOM_ALL_GATHER:
      case CCOM_GATHER:
        for (Rank i = 0; i < ranks && (root || request.operation == CCOM_ALL_GATHER); ++i) {
          expected.insert(expected.end(), inputs[i].begin(), inputs[i].end());
        }
        break;
      case CCOM_ALL_TO_ALL:
        for (Rank i = 0; i < ranks; ++i) {
          const auto from = inputs[i].begin() + static_cast<ptrdiff_t>(rank * n);
          expected.insert(expected.end(), from, from + static_cast<ptrdiff_t>(n));
        }
        break;
      case CCOM_BROADCAST:
        expected = inputs[request.root];
        break;
      case CCOM_SCATTER: {
        const auto from = inputs[request.root].begin() + static_cast<ptrdiff_t>(rank * n);
        expected.assign(from, from + static_cast<ptrdiff_t>(n));
        break;
      }
      case CCOM_SEND_RECEIVE:
      case CCOM_PERMUTE:
        for (const ccom_pair_t& pair : request.pairs) {
          if (pair.target == rank) {
            expected = inputs[pair.source];
          }
        }
        break;
      default:
        break;
    }
    output.assign(expected.size(), -1);
  }

  Operands operands() {
    return {reinterpret_cast<const std::byte*>(input.data()),
            reinterpret_cast<std::byte*>(output.data())};
  }

  std::vector<int32_t> input;
  std::vector<int32_t> output;
  std::vector<int32_t> expected;
};

}  // namespace neuron::ccom

#endif
