// SPDX-License-Identifier: Apache-2.0
//
// Collectives that the host starts, on tensors of a core (nrta_cc_*): a program of one instruction,
// which triggers a CC core. All ranks of the job prepare the same operations in the same order; a
// preparation that every rank still knows (same operation, same addresses) is used again.
// Callers: the C interface (prepare), workers of asynchronous queues (run). Thread-safe: the ranks'
// threads may call prepare() at the same time; run() takes the core's turn. Owns: program,
// intermediate buffers. Fails: NRT_INVALID with tensor, sizes and types; as World and executor.
#ifndef RUNTIME_EXEC_HOST_DRIVEN_H
#define RUNTIME_EXEC_HOST_DRIVEN_H

#include <memory>
#include <vector>

#include "nrt/nrt_types.h"
#include "runtime/collectives/world.h"
#include "runtime/model/loaded_model.h"
#include "runtime/session/session.h"
#include "runtime/tensor/tensor.h"

namespace neuron::runtime {

struct HostCollectiveRequest {
  ccom_operation_t operation = CCOM_ALL_REDUCE;
  ccom_type_t type = CCOM_UINT8;
  ccom_reduction_t reduction = CCOM_ADD;
  std::vector<uint32_t> group;     // ranks of the job; this one among them
  std::vector<TensorView> inputs;  // one behind the other
  std::vector<TensorView> outputs;
};

// CCOM_TYPE_COUNT: no such type.
ccom_type_t collective_type_of(nrt_dtype_t dtype);

class HostCollective {
 public:
  // Returns a collective that every rank of the world still remembers, or a new one. The caller
  // keeps the tensors' memory until run() has returned. The collective itself keeps none, so that
  // tensors can be freed while it is remembered.
  static Result<std::shared_ptr<HostCollective>> prepare(Core& core, Session& session,
                                                         std::shared_ptr<World> world,
                                                         const HostCollectiveRequest& request);

  ~HostCollective();
  HostCollective(const HostCollective&) = delete;
  HostCollective& operator=(const HostCollective&) = delete;

  // An inspect session sees it as an execution of a model, whose profile ends with the collective.
  Result<void> run(Session& session);
  // Model time of the last run.
  uint64_t device_ps() const { return model_->report.device_ps; }
  const LoadedModel& model() const { return *model_; }
  // False if a failure has broken the collective or one of its tensors was freed.
  bool usable() const;

 private:
  struct Place {
    std::weak_ptr<Storage> storage;
    uint64_t offset = 0;
    uint64_t size = 0;
  };
  explicit HostCollective(Session& session) : session_(session) {}
  Result<void> build(Core& core, std::shared_ptr<World> world,
                     const HostCollectiveRequest& request);
  static Result<void> move(const std::vector<Place>& tensors, DeviceMemory& buffer,
                           bool from_tensors);

  Session& session_;  // in which it was prepared
  std::vector<Place> inputs_, outputs_;
  std::unique_ptr<LoadedModel> model_;
  MatchedTensors nothing_;  // of a program without tensors
  // For several tensors on a side; null: the tensor itself.
  std::unique_ptr<DeviceMemory> input_, output_;
};

}  // namespace neuron::runtime

#endif
