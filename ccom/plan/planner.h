// SPDX-License-Identifier: Apache-2.0
// Makes a schedule from a request and a group. The planner chooses the algorithm by predicted time,
// unless the call or the environment names one.
//
// Callers: communicators (through a cache), the simulator, nccom-test. Thread-safe: const calls.
// Fails: CCOM_INVALID with the argument, CCOM_UNSUPPORTED with the algorithms that can do it.
#ifndef CCOM_PLAN_PLANNER_H
#define CCOM_PLAN_PLANNER_H

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ccom/base/error.h"
#include "ccom/request/request.h"
#include "ccom/schedule/schedule.h"
#include "ccom/topology/topology.h"

namespace neuron::ccom {

// Where the ranks of a group are. `ranks()` places; equal nodes are one host.
struct Group {
  std::vector<Place> places;
  Topology topology;  // for links and rings; may have more nodes than the group

  uint32_t ranks() const { return static_cast<uint32_t>(places.size()); }
};

// What moves bytes between two ranks of one node.
enum class Medium : uint8_t { kHostMemory, kDevice };

// Prices of the cost model. 0: the price follows from the topology, else it is a default.
// plan/calibration.h also loads measured prices.
struct CostParameters {
  Medium medium = Medium::kHostMemory;
  uint64_t local_latency_ps = 0;       // message between two ranks of a node
  double local_bytes_per_second = 0;   // device: of one port, one direction
  uint64_t remote_latency_ps = 0;      // message between nodes
  double remote_bytes_per_second = 0;  // of one network device
  double reduce_bytes_per_second = 0;  // of operands
  uint64_t step_ps = 0;                // of any step
  // Processor time of a rank for a message between nodes, which no other message hides. 0: none,
  // as network devices send by themselves.
  uint64_t remote_message_ps = 0;
};

struct Plan {
  std::shared_ptr<const Schedule> schedule;
  ccom_algorithm_t algorithm = CCOM_RING;
  Request request;
  uint32_t window = 4;  // messages admitted per peer and channel
  uint64_t predicted_ps = 0;
  std::string why;         // one sentence
  std::string shape;       // what decides about the schedule, beside request and group
  bool automatic = false;  // nobody named the algorithm
};

// One algorithm with chosen parameters, for the simulator and for tests; 0 = the planner's choice.
struct Parameters {
  uint32_t channels = 0;
  uint32_t segments = 0;
  uint64_t chunk_bytes = 0;
  uint32_t window = 0;
};

struct Places;

// Says how long a plan takes, in picoseconds; more than `until_ps` (0: no limit) is any number
// above it. Fails for plans that it cannot judge, which are then not chosen. simulator/judge.h
// makes one.
using Judge =
    std::function<Result<uint64_t>(const Group& group, const Plan& plan, uint64_t until_ps)>;

class Planner {
 public:
  // With a judge, an automatic choice takes the algorithm that the judge finds quickest, among
  // those whose predicted time is within kJudged of the least. Without one, predictions decide.
  static constexpr uint64_t kJudged = 8;
  Planner(Group group, CostParameters costs, Judge judge = {});

  // Uses the algorithm of the request, else of CCOM_ALGORITHM (environment: NAME, or
  // OPERATION=NAME;...), else the cheapest. For up to kCheckedRanks ranks, the first schedule of
  // each kind (algorithm, operation, shape, parameters, pairs, and for small requests the count) is
  // run through the checker.
  static constexpr uint32_t kCheckedRanks = 16;
  Result<Plan> plan(const Request& request, const Parameters& parameters = {}) const;
  // All candidates with their predicted times, and the reason why each other algorithm is unfit.
  std::string explain(const Request& request) const;
  // The algorithms that can do the operation for this group.
  std::vector<ccom_algorithm_t> candidates(const Request& request) const;
  // Kinds of schedules that have passed the checker lately.
  size_t proved() const;
  // The predicted time of one algorithm, in picoseconds. The call takes less than 2 us.
  uint64_t predict(ccom_algorithm_t algorithm, const Request& request,
                   const Parameters& parameters = {}) const;

  // Other prices for later plans, for a planner that was made before its network was known.
  void price(const CostParameters& costs);

  const Group& group() const { return group_; }
  // What devices take for an automatic choice: reductions in the order of the ranks, if nothing is
  // asked for by the environment either; for more ranks than a CC core counts arrivals from, an
  // algorithm in which a rank receives from few. CCOM_ALGORITHM_AUTO: the planner's choice.
  ccom_algorithm_t device_default(const Request& request) const;

 private:
  Group group_;
  std::shared_ptr<const Places> places_;
  CostParameters costs_;
  Judge judge_;
  struct Checked;
  std::shared_ptr<Checked> checked_;

  Plan made(ccom_algorithm_t algorithm, const Request& request, const Parameters& wanted,
            Parameters& chosen) const;
  Result<ccom_algorithm_t> quickest(const Request& request, const Parameters& parameters,
                                    uint64_t& judged_ps) const;
  Result<void> check(const Plan& plan, const Parameters& parameters) const;
};

}  // namespace neuron::ccom

#endif
