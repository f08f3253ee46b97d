// SPDX-License-Identifier: Apache-2.0
// Direct forms of meshes: the parts that each rank reads, reduces and writes. They follow from the
// request and from the complete reductions of the schedule.
#include <algorithm>

#include "ccom/progress/host_control.h"
#include "ccom/progress/host_program.h"

namespace neuron::ccom {
namespace {

// The range of the vector that `rank` reduces completely; false: it is not a single range.
bool reduced_part(const Schedule& schedule, Rank rank, Step& part) {
  part = Step{};
  for (uint32_t channel = 0; channel < schedule.channels(); ++channel) {
    const auto program = schedule.program(rank, channel);
    Step step;
    while (program->next(step)) {
      if (step.kind != StepKind::kReduce) continue;
      if (!step.complete) return false;
      if (part.bytes == 0) {
        part = step;
      } else if (step.vector_offset == part.vector_offset + part.bytes &&
                 step.destination.buffer == part.destination.buffer &&
                 step.destination.offset == part.destination.offset + part.bytes) {
        part.bytes += step.bytes;
      } else {
        return false;
      }
    }
  }
  return true;
}

std::vector<Rank> everybody(uint32_t ranks) {
  std::vector<Rank> all(ranks);
  for (Rank rank = 0; rank < ranks; ++rank) all[rank] = rank;
  return all;
}

}  // namespace

bool compile_direct(const Plan& plan, Rank rank, bool in_place, const HostLimits& limits,
                    DirectProgram& program) {
  const Schedule& schedule = *plan.schedule;
  const Request& request = plan.request;
  const uint32_t ranks = schedule.ranks();
  const bool one_step = plan.algorithm == CCOM_ONE_STEP_MESH;
  if ((plan.algorithm != CCOM_MESH && !one_step) || ranks < 2) return false;
  program = DirectProgram{};
  program.input_bytes = schedule.input_bytes(rank);
  program.output_bytes = schedule.output_bytes(rank);
  program.from = everybody(ranks);
  uint64_t largest = 0;  // largest input of any rank: the same on all
  for (Rank other = 0; other < ranks; ++other) {
    largest = std::max(largest, schedule.input_bytes(other));
  }
  program.by_value = largest <= std::min(limits.value_bytes, kSlotBytes);
  program.in_entry = largest <= kInlineBytes;
  const bool root = rank == request.root;
  const auto copy_all = [&](uint64_t source, uint64_t bytes) {
    // Other ranks come first, in a different order on each rank, so that not all read the same one.
    for (uint32_t i = 1; i <= ranks; ++i) {
      const Rank peer = (rank + i) % ranks;
      program.copies.push_back({peer, source, peer * bytes, bytes});
    }
  };
  const auto reduce_part = [&](std::vector<Rank> targets) {
    Step part;
    if (!reduced_part(schedule, rank, part)) return false;
    program.reduces = part.bytes != 0;
    program.vector_offset = part.vector_offset;
    program.reduce_bytes = part.bytes;
    program.destination = part.destination.offset;
    program.targets = std::move(targets);
    return true;
  };
  switch (request.operation) {
    case CCOM_ALL_REDUCE:
      if (!reduce_part(one_step ? std::vector<Rank>{rank} : everybody(ranks))) return false;
      if (program.by_value || one_step) {
        // Every rank reduces everything; the bits equal those that the owner of the part would get.
        program.reduces = program.input_bytes != 0;
        program.vector_offset = program.destination = 0;
        program.reduce_bytes = program.input_bytes;
        program.targets = {rank};
        program.snapshot = in_place && !program.by_value;
      }
      program.leave = everybody(ranks);
      break;
    case CCOM_REDUCE_SCATTER:
      if (!reduce_part({rank})) return false;
      program.destination = 0;
      program.leave = everybody(ranks);
      break;
    case CCOM_REDUCE:
      if (!reduce_part({request.root})) return false;
      if (program.by_value) {
        program.reduces = root && program.input_bytes != 0;
        program.vector_offset = program.destination = 0;
        program.reduce_bytes = program.input_bytes;
        if (!root) program.from.clear();
      } else {
        program.destination = program.vector_offset;
        if (one_step && !root) program.from.clear();
      }
      program.leave = one_step && !root ? std::vector<Rank>{request.root} : everybody(ranks);
      break;
    case CCOM_ALL_GATHER:
      copy_all(0, program.input_bytes);
      program.leave = everybody(ranks);
      break;
    case CCOM_ALL_TO_ALL:
      copy_all(rank * (program.input_bytes / ranks), program.input_bytes / ranks);
      program.snapshot = in_place && !program.by_value;
      program.leave = everybody(ranks);
      break;
    case CCOM_BROADCAST:
      program.publishes = root;
      program.from = {request.root};
      program.copies.push_back({request.root, 0, 0, program.output_bytes});
      if (root) program.leave = everybody(ranks);
      break;
    case CCOM_SCATTER:
      program.publishes = root;
      program.from = {request.root};
      program.copies.push_back(
          {request.root, rank * program.output_bytes, 0, program.output_bytes});
      if (root) program.leave = everybody(ranks);
      break;
    case CCOM_GATHER:
      if (root) {
        copy_all(0, program.input_bytes);
      } else {
        program.from.clear();
        program.leave = {request.root};
      }
      break;
    case CCOM_BARRIER:
      program.by_value = true;
      break;
    default:
      return false;
  }
  if (program.by_value) program.leave.clear();
  std::erase(program.leave, rank);
  return true;
}

}  // namespace neuron::ccom
