// SPDX-License-Identifier: Apache-2.0
#include "runtime/collectives/connect.h"

#include <optional>
#include <tuple>

#include "runtime/neff/collective_place.h"

namespace neuron::runtime {

namespace {

// Of each collective, for that many ranks.
Result<std::vector<CollectiveBuffers>> buffers_of(const LoadedModel& model, uint32_t ranks) {
  std::vector<CollectiveBuffers> buffers;
  for (const neff::Collective& c : model.operations()) {
    const neff::CollectiveBytes bytes = neff::collective_bytes(
        c, c.groups.empty() ? ranks : static_cast<uint32_t>(c.groups[0].size()));
    CollectiveBuffers& of = buffers.emplace_back();
    if (c.operation == CCOM_BARRIER) continue;
    const auto problem = [&](const std::optional<std::string>& sentence) -> Result<void> {
      if (!sentence) return {};
      return fail(NRT_INVALID,
                  "{} of {} ranks: {}; load it with the number of ranks that it was built for",
                  neff::collective_name(c.operation), ranks, *sentence);
    };
    // The names of the variables are not kept after loading.
    neff::CollectivePlace input{"input", 0, c.input_offset, c.input_rows, bytes.input};
    neff::CollectivePlace output{"output", 0, c.output_offset, c.output_rows, bytes.output};
    for (const auto& [place, variable, address] :
         {std::tuple{&input, c.input, &of.input}, std::tuple{&output, c.output, &of.output}}) {
      place->variable_bytes = model.variable_size(variable);
      *address = model.addresses()[variable] + place->offset;
      NEURON_CHECK(problem(neff::check_place(*place, neff::collective_type_bytes(c.type),
                                             model.core().place().chip->generation)));
    }
    NEURON_CHECK(problem(neff::check_apart(input, output)));
  }
  return buffers;
}

}  // namespace

Result<void> check_buffers(const LoadedModel& model, uint32_t ranks) {
  NEURON_CHECK(buffers_of(model, ranks));
  return {};
}

Result<void> connect_model(LoadedModel& model, std::shared_ptr<World> world) {
  NEURON_TRY(buffers, buffers_of(model, world->size()));
  return connect_model(model, std::move(world), buffers);
}

Result<void> connect_model(LoadedModel& model, std::shared_ptr<World> world,
                           std::span<const CollectiveBuffers> buffers) {
  auto connected =
      CollectivePrograms::connect(model.core(), std::move(world), model.operations(), buffers);
  if (!connected) return connected.error().with("collectives of model '{}'", model.name());
  model.take_collectives(std::move(*connected));
  return {};
}

}  // namespace neuron::runtime
