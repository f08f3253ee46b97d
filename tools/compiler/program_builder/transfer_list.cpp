// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/program_builder/transfer_list.h"

#include <cmath>

#include "hw/udma.h"
#include "runtime/neff/model.h"

namespace neuron::builder {

namespace json = boost::json;

namespace {

// By enum neuron_dma_operation, of which no transfer reduces, and the two behind it.
constexpr const char* kOperations[] = {"copy", "cast",      "fma", "add",      "min",
                                       "max",  "transpose", "",    "compress", "decompress"};

bool recodes(const ComputeOptions& compute) {
  return compute.operation == NEURON_DMA_COMPRESS || compute.operation == NEURON_DMA_DECOMPRESS;
}

}  // namespace

std::string TransferList::of_engine(unsigned engine) {
  engine_ = engine;
  list_.assign(1, '[');
  const auto& steps = schedule_.steps()[engine];
  size_t first = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].control != Control::kFunction) continue;
    list(first, i);
    function_ = schedule_.parts().blocks[steps[i].block].name;
    begun_.clear();
    first = i + 1;
  }
  list(first, steps.size());
  list_ += "]";
  return std::move(list_);
}

void TransferList::list(size_t first, size_t end) {
  const auto& steps = schedule_.steps()[engine_];
  for (size_t i = first; i < end;) {
    const Step& step = steps[i];
    if (step.control == Control::kLoop) {
      const Block& block = schedule_.parts().blocks[step.block];
      size_t last = i + 1;
      bool any = false;
      while (steps[last].control != Control::kEndLoop || steps[last].block != step.block) {
        any = any || steps[last].transfer >= 0;
        ++last;
      }
      for (int64_t round = 0; any && round < int64_t{block.rounds}; ++round) {
        rounds_[block.index] = round;
        list(i + 1, last);
      }
      i = last + 1;
      continue;
    }
    if (step.loop < 0) {
      if (step.transfer >= 0) append(schedule_.transfers()[static_cast<size_t>(step.transfer)]);
      ++i;
      continue;
    }
    const LoopInfo& loop = schedule_.loops()[static_cast<size_t>(step.loop)];
    const size_t last = loop.end[engine_];
    bool any = false;
    for (size_t s = i; s < last; ++s) any = any || steps[s].transfer >= 0;
    for (uint32_t round = 0; any && round < loop.rounds; ++round) {
      round_ = round;
      for (size_t s = i; s < last; ++s) {
        if (steps[s].transfer < 0) continue;
        append(schedule_.transfers()[static_cast<size_t>(steps[s].transfer)]);
      }
    }
    round_ = 0;
    i = last;
  }
}

uint64_t TransferList::offset_of(const BufferAccess& access) const {
  int64_t offset = static_cast<int64_t>(access.offset) + access.advance * round_;
  for (const Motion& motion : access.motions) {
    const auto round = rounds_.find(motion.index);
    if (round != rounds_.end()) offset += motion.bytes * round->second;
  }
  return static_cast<uint64_t>(offset);
}

void TransferList::add_side(json::object& description, const char* name, const BufferAccess& access,
                            bool typed) const {
  const std::string prefix = name;
  description[prefix] = variable_name_(access.buffer);
  description[prefix + "_off"] = offset_of(access);
  description[prefix + "_sizes"] =
      json::array(access.size.begin(), access.size.begin() + access.ndim);
  description[prefix + "_steps"] =
      json::array(access.step.begin(), access.step.begin() + access.ndim);
  if (typed) description[prefix + "_dtype"] = neff::dtype_name(access.dtype);
}

void TransferList::append(const Transfer& transfer) {
  const ComputeOptions& compute = transfer.compute;
  const bool typed = compute.operation != NEURON_DMA_COPY && !recodes(compute);
  json::object description;
  description["op"] = kOperations[compute.operation];
  if (transfer.from.size() == 1) {
    add_side(description, "from", transfer.from[0], typed);
  } else {
    json::array sources;
    for (size_t s = 0; s < transfer.from.size(); ++s) {
      json::object source;
      add_side(source, "from", transfer.from[s], typed);
      if (s < compute.scales.size()) source["scale"] = compute.scales[s];
      sources.push_back(std::move(source));
    }
    description["from_arr"] = std::move(sources);
  }
  add_side(description, "to", transfer.to, typed);
  if (compute.operation == NEURON_DMA_FMA) {
    description["scale"] = compute.scales.empty() ? compute.scale : compute.scales[0];
  }
  // Without one, the constant changes no value; JSON has no infinity to say so.
  if ((compute.operation == NEURON_DMA_MIN || compute.operation == NEURON_DMA_MAX) &&
      std::isfinite(compute.constant)) {
    description["constant"] = compute.constant;
  }
  if (compute.operation == NEURON_DMA_TRANSPOSE) {
    description["transpose_shape"] =
        json::array(compute.transpose_shape.begin(), compute.transpose_shape.end());
    description["transpose_element_size"] = isa::dtype_bytes(transfer.to.dtype);
  }
  json::object entry;
  entry["id"] = transfer.id;
  entry["queue"] = transfer.queue;
  entry["semaphore"] = semaphores_.of_slot(transfer.slot, transfer.scope);
  if (compute.priority != 0) entry["priority"] = compute.priority;
  if (!function_.empty() && begun_.insert(transfer.queue).second) {
    entry["function_start"] = function_;
  }
  entry["desc"] = std::move(description);
  if (list_.size() > 1) list_ += ",";
  list_ += json::serialize(entry);
}

}  // namespace neuron::builder
