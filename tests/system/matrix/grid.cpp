// SPDX-License-Identifier: Apache-2.0
#include "tests/system/matrix/grid.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "ccom/plan/planner.h"
#include "ccom/simulator/simulator.h"
#include "tests/support/free_port.h"
#include "tools/nccom-test/input/operation.h"
#include "tools/nccom-test/run/case.h"
#include "tools/nccom-test/run/data.h"

namespace neuron::matrix {

namespace {

constexpr uint32_t kTimeoutMs = 20000;
constexpr const char* kExecutors[] = {
    "host", "tcp", "rough", "device", "device_sbuf", "simulated_node", "simulated_nodes"};
constexpr uint64_t kSeed = 7;

nccom::BlockOptions options_of(const Cell& cell) {
  nccom::BlockOptions options;
  options.operation = cell.operation;
  options.type = cell.type;
  options.algorithm = cell.algorithm;
  // Operators and roots take turns from cell to cell.
  const std::string name = cell.name();
  const auto turn =
      static_cast<uint32_t>(std::accumulate(name.begin(), name.end(), uint64_t{0}) + cell.elements);
  options.reduction = static_cast<ccom_reduction_t>(turn % CCOM_REDUCTION_COUNT);
  options.root = turn / CCOM_REDUCTION_COUNT % cell.ranks;
  return options;
}

nccom::PairConfig pairs_of(const Cell& cell) {
  nccom::PairConfig pairs;
  if (cell.operation == CCOM_SEND_RECEIVE) pairs.push_back({0, cell.ranks - 1});
  for (uint32_t i = 0; cell.operation == CCOM_PERMUTE && i < cell.ranks; ++i) {
    pairs.push_back({i, (i + 1) % cell.ranks});
  }
  return pairs;
}

Outcome run_cell(ccom_comm_t* comm, const Cell& cell, uint32_t rank) {
  const nccom::Work work = work_of(cell, rank);
  const std::vector<std::byte> input = input_of(work, rank);
  std::vector<std::byte> output(work.output_elements(rank) * nccom::type_size(work.type),
                                nccom::kUntouched);
  ccom_collective_t collective = nccom::collective_of(work);
  collective.input = input.empty() ? nullptr : input.data();
  collective.output = output.empty() ? nullptr : output.data();
  const ccom_status_t status = ccom_run(comm, &collective);
  if (status != CCOM_SUCCESS) return {verdict_of(status, ccom_last_error())};
  return outcome_of(work, rank, output);
}

std::string free_root() { return "127.0.0.1:" + std::to_string(test::free_port()); }

ccom_options_t communicator_options(Executor executor, const std::string& root) {
  ccom_options_t options{};
  options.size_of = sizeof options;
  options.timeout_ms = kTimeoutMs;
  options.memory_bytes = 64u << 20;
  options.topology = "trn1.32xlarge";
  if (executor != Executor::kHost) {
    options.root = root.c_str();
    options.secret = "matrix";
    options.flags = CCOM_FLAG_NO_SHARED_MEMORY;
    options.providers = executor == Executor::kTcp ? "tcp" : "rough+tcp";
  }
  return options;
}

// What one rank found, cell by cell; a communicator that breaks ends it.
void run_rank(uint32_t rank, ccom_comm_t* comm, const std::vector<Cell>& cells,
              const std::string& root, std::vector<Outcome>& outcomes) {
  if (comm == nullptr) {
    const ccom_options_t options = communicator_options(cells.front().executor, root);
    if (const auto status = ccom_init(rank, cells.front().ranks, &options, &comm);
        status != CCOM_SUCCESS) {
      outcomes.front().verdict = {Verdict::Kind::kWrong, ccom_last_error()};
      return;
    }
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    outcomes[i] = run_cell(comm, cells[i], rank);
    if (ccom_status(comm) != CCOM_SUCCESS) break;
  }
  ccom_free(comm);
}

std::map<std::string, Verdict> run_ranks(const std::vector<Cell>& cells) {
  const uint32_t ranks = cells.front().ranks;
  std::vector<std::vector<Outcome>> outcomes(ranks, std::vector<Outcome>(cells.size()));
  std::vector<ccom_comm_t*> comms(ranks);
  const std::string root = free_root();
  std::map<std::string, Verdict> verdicts;
  if (cells.front().executor == Executor::kHost) {
    const ccom_options_t options = communicator_options(Executor::kHost, root);
    if (const auto status = ccom_init_all(ranks, &options, comms.data()); status != CCOM_SUCCESS) {
      verdicts[cells.front().name()] = {Verdict::Kind::kWrong, ccom_last_error()};
      return verdicts;
    }
  }
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { run_rank(rank, comms[rank], cells, root, outcomes[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < cells.size(); ++i) {
    verdicts[cells[i].name()] = together(cells[i], outcomes, i);
  }
  return verdicts;
}

Verdict simulate_cell(const ccom::Planner& planner, const Cell& cell) {
  const auto plan = planner.plan(nccom::request_of(work_of(cell, 0), false));
  if (!plan) return verdict_of(plan.error().status, plan.error().sentence);
  const auto simulated = ccom::simulate(planner.group(), *plan);
  if (!simulated) return {Verdict::Kind::kWrong, simulated.error().sentence};
  const bool moves = cell.ranks > 1 && (cell.elements != 0 || cell.operation == CCOM_BARRIER);
  if (moves && simulated->time_ps == 0) {
    return {Verdict::Kind::kWrong, "bytes were moved in no time"};
  }
  return {Verdict::Kind::kResult, ""};
}

std::map<std::string, Verdict> run_simulated(const std::vector<Cell>& cells) {
  const bool several = cells.front().executor == Executor::kSimulatedNodes;
  const auto node = ccom::Topology::profile(several ? "trn1.2xlarge" : "trn1.32xlarge");
  const uint32_t ranks = cells.front().ranks;
  ccom::Group group{{}, ccom::Topology(*node, several ? (ranks + 1) / 2 : 1)};
  for (uint32_t rank = 0; rank < ranks; ++rank) group.places.push_back(group.topology.place(rank));
  ccom::CostParameters costs;
  costs.medium = ccom::Medium::kDevice;
  const ccom::Planner planner(std::move(group), costs);
  std::map<std::string, Verdict> verdicts;
  for (const Cell& cell : cells) verdicts[cell.name()] = simulate_cell(planner, cell);
  return verdicts;
}

}  // namespace

nccom::Work work_of(const Cell& cell, uint32_t rank) {
  const nccom::BlockOptions options = options_of(cell);
  // `elements` of each rank: where the operation divides its size, as many times more.
  const auto made = nccom::make_case(options, pairs_of(cell),
                                     cell.elements * nccom::type_size(cell.type), cell.ranks, rank);
  return made->works.front();
}

Verdict verdict_of(ccom_status_t status, const std::string& sentence) {
  if (status == CCOM_SUCCESS) return {Verdict::Kind::kResult, ""};
  if (status == CCOM_UNSUPPORTED || status == CCOM_INVALID) {
    return {Verdict::Kind::kRefusal, sentence};
  }
  return {Verdict::Kind::kWrong, std::string(ccom_status_name(status)) + ": " + sentence};
}

std::vector<std::byte> input_of(const nccom::Work& work, uint32_t rank) {
  const nccom::Data data(kSeed, false, work.type, work.reduction);
  std::vector<std::byte> input(work.input_elements(rank) * data.width());
  data.fill(rank, 0, input);
  return input;
}

Outcome outcome_of(const nccom::Work& work, uint32_t rank, std::span<const std::byte> output) {
  Outcome outcome{verdict_of(CCOM_SUCCESS, "")};
  const nccom::Data data(kSeed, false, work.type, work.reduction);
  std::vector<uint32_t> ranks(work.ranks);
  std::iota(ranks.begin(), ranks.end(), 0u);
  if (const auto wrong = nccom::verify(data, work, rank, ranks, output, true)) {
    outcome.verdict = {Verdict::Kind::kWrong, "rank " + std::to_string(rank) + ": element " +
                                                  std::to_string(wrong->element) + " is " +
                                                  wrong->found + ", expected is " +
                                                  wrong->expected};
  }
  for (const std::byte byte : output) {
    outcome.hash = (outcome.hash ^ std::to_integer<uint64_t>(byte)) * 0x100000001b3u;
  }
  return outcome;
}

Verdict together(const Cell& cell, const std::vector<std::vector<Outcome>>& outcomes, size_t i) {
  for (const auto& of_rank : outcomes) {
    if (of_rank[i].verdict.kind == Verdict::Kind::kWrong) return of_rank[i].verdict;
    if (of_rank[i].verdict.kind != outcomes.front()[i].verdict.kind) {
      return {Verdict::Kind::kWrong,
              "one rank has a result, another none: " + of_rank[i].verdict.sentence +
                  outcomes.front()[i].verdict.sentence};
    }
    if (cell.operation == CCOM_ALL_REDUCE && of_rank[i].hash != outcomes.front()[i].hash) {
      return {Verdict::Kind::kWrong, "ranks have different bits"};
    }
  }
  return outcomes.front()[i].verdict;
}

std::string Cell::name() const {
  return std::string(nccom::operation_name(operation)) + "/" + nccom::type_name(type) + "/" +
         std::to_string(elements) + "/ranks" + std::to_string(ranks) + "/" +
         nccom::algorithm_name(algorithm) + "/" + kExecutors[static_cast<size_t>(executor)];
}

std::vector<Cell> all_cells() {
  std::vector<Cell> cells;
  for (int executor = 0; executor < static_cast<int>(Executor::kCount); ++executor) {
    for (const uint32_t ranks : {1u, 2u, 3u, 4u, 8u}) {
      for (int operation = 0; operation < CCOM_OPERATION_COUNT; ++operation) {
        for (int algorithm = 0; algorithm < CCOM_ALGORITHM_COUNT; ++algorithm) {
          for (int type = 0; type < CCOM_TYPE_COUNT; ++type) {
            for (const uint64_t elements : {0u, 1u, 7u, 1031u, 9001u}) {
              cells.push_back({static_cast<ccom_operation_t>(operation),
                               static_cast<ccom_type_t>(type), elements, ranks,
                               static_cast<ccom_algorithm_t>(algorithm),
                               static_cast<Executor>(executor)});
            }
          }
        }
      }
    }
  }
  return cells;
}

std::map<std::string, Verdict> run_cells(const std::vector<Cell>& cells) {
  if (cells.empty()) return {};
  const Executor executor = cells.front().executor;
  if (executor == Executor::kDevice || executor == Executor::kDeviceSbuf) {
    return run_on_device(cells);
  }
  return executor == Executor::kSimulatedNode || executor == Executor::kSimulatedNodes
             ? run_simulated(cells)
             : run_ranks(cells);
}

}  // namespace neuron::matrix
