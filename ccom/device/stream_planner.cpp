// SPDX-License-Identifier: Apache-2.0
#include "ccom/device/stream_planner.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "ccom/device/compiler.h"
#include "ccom/device/generation.h"
#include "ccom/plan/calibration.h"
#include "ccom/plan/planner.h"
#include "ccom/request/layout.h"
#include "ccom/request/names.h"
#include "ccom/request/signature.h"

namespace neuron::ccom {
namespace {

bool same(const ccom_device_layout_t& a, const ccom_device_layout_t& b) {
  return a.row_bytes == b.row_bytes && a.rows == b.rows && a.stride == b.stride;
}

bool in_place(const ccom_device_collective_t& collective) {
  const ccom_device_member_t& own = collective.members[collective.rank];
  return collective.operation != CCOM_BARRIER && own.input == own.output;
}

Result<void> check_layouts(const ccom_device_collective_t& collective, uint32_t number) {
  for (const ccom_device_layout_t* layout : {&collective.input_layout, &collective.output_layout}) {
    const char* which = layout == &collective.input_layout ? "input" : "output";
    if (same(*layout, {0, 0, 0})) continue;
    if (layout->rows == 0 || layout->row_bytes == 0 ||
        layout->row_bytes % ccom_type_size(collective.type) != 0 ||
        (layout->rows > 1 && layout->stride < layout->row_bytes)) {
      return fail(CCOM_INVALID,
                  "the {} of collective {} of the stream ({}) lies in {} rows of {} bytes, {} "
                  "apart; expected are whole elements of {} bytes in rows that do not overlap",
                  which, number, operation_name(collective.operation), layout->rows,
                  layout->row_bytes, layout->stride, ccom_type_size(collective.type));
    }
  }
  if (in_place(collective) && !same(collective.input_layout, collective.output_layout)) {
    return fail(CCOM_INVALID,
                "input and output of collective {} of the stream ({}) are one buffer in different "
                "rows",
                number, operation_name(collective.operation));
  }
  return {};
}

BufferPlace place_of(uint64_t address, const ccom_device_layout_t& layout) {
  if (layout.row_bytes == 0) return address;
  return {address, layout.row_bytes, layout.rows, layout.stride};
}

Result<void> check(const ccom_device_stream_t* stream) {
  if (stream == nullptr || stream->size_of != sizeof(ccom_device_stream_t) ||
      stream->collective_size != sizeof(ccom_device_collective_t) ||
      stream->program_size != sizeof(ccom_device_program_t)) {
    return fail(CCOM_INVALID,
                "a stream of collectives was described for another version of libccom; use the "
                "libccom.so.1 that belongs to this libnrt.so.1");
  }
  if (find_generation(stream->generation) == nullptr) {
    return fail(CCOM_UNSUPPORTED, "chips of generation {} have no collectives here",
                stream->generation);
  }
  for (uint32_t i = 0; i < stream->count; ++i) {
    const ccom_device_collective_t& collective = stream->collectives[i];
    if (collective.size == 0 || collective.rank >= collective.size ||
        collective.members == nullptr) {
      return fail(CCOM_INVALID, "collective {} of the stream has rank {} of {} members", i,
                  collective.rank, collective.size);
    }
    if (collective.operation >= CCOM_OPERATION_COUNT) {
      return fail(CCOM_INVALID, "collective {} of the stream has operation {}", i,
                  static_cast<unsigned>(collective.operation));
    }
    const bool needs_arrays = collective.operation > CCOM_BARRIER;
    if (needs_arrays && (collective.counts == nullptr || collective.displacements == nullptr ||
                         (collective.operation == CCOM_ALL_TO_ALL_V &&
                          collective.receive_displacements == nullptr))) {
      return fail(CCOM_INVALID, "collective {} of the stream ({}) has no counts or displacements",
                  i, operation_name(collective.operation));
    }
    if (collective.type >= CCOM_TYPE_COUNT || collective.reduction >= CCOM_REDUCTION_COUNT) {
      return fail(CCOM_INVALID, "collective {} of the stream has type {} and reduction {}", i,
                  static_cast<unsigned>(collective.type),
                  static_cast<unsigned>(collective.reduction));
    }
    NEURON_CHECK(check_layouts(collective, i));
  }
  return {};
}

// Puts the arrays with one entry per rank into the request.
void put_arrays(const ccom_device_collective_t& collective, Request& request) {
  const auto values = [](const uint64_t* from, uint64_t count) {
    return std::vector<uint64_t>(from, from + count);
  };
  const uint64_t ranks = collective.size;
  if (collective.operation == CCOM_ALL_TO_ALL_V) {
    request.send_counts = values(collective.counts, ranks * ranks);
    request.send_displacements = values(collective.displacements, ranks * ranks);
    request.receive_displacements = values(collective.receive_displacements, ranks * ranks);
  } else if (collective.operation > CCOM_BARRIER) {
    request.counts = values(collective.counts, ranks);
    request.displacements = values(collective.displacements, ranks);
  }
}

std::string name_of(const ccom_device_collective_t& collective) {
  if (collective.name != nullptr) return collective.name;
  std::string name = ccom::format("{} of {} {}", operation_name(collective.operation),
                                  collective.count, type_name(collective.type));
  if (reduces(collective.operation)) {
    name += ccom::format(" ({})", reduction_name(collective.reduction));
  }
  return name;
}

// CCOM_GROUPING: how many members of an instance are planned as an instance of their own; 0: all.
Result<uint32_t> grouping_of_environment() {
  const char* text = std::getenv("CCOM_GROUPING");
  if (text == nullptr || *text == '\0') return 0U;
  uint32_t members = 0;
  const char* end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, members);
  if (error != std::errc() || stopped != end || members == 0) {
    return fail(CCOM_INVALID,
                "CCOM_GROUPING is \"{}\"; expected a number of ranks, for example 32: so many "
                "ranks of an instance, in their order, are planned as an instance of their own",
                text);
  }
  return members;
}

// The instances of the members, and of those the nodes, numbered from 0 in the order in which they
// occur. With a grouping, each `grouping` members of a node have a number.
std::vector<uint32_t> nodes_of(const ccom_device_collective_t& collective, uint32_t grouping) {
  using Node = std::pair<uint32_t, uint32_t>;             // instance, node
  std::map<Node, uint32_t> members;                       // so far
  std::map<std::pair<Node, uint32_t>, uint32_t> numbers;  // by node and part of it
  std::vector<uint32_t> nodes;
  for (uint32_t i = 0; i < collective.size; ++i) {
    const Node node{collective.members[i].instance, collective.members[i].node};
    const uint32_t part = grouping == 0 ? 0 : members[node]++ / grouping;
    const auto next = static_cast<uint32_t>(numbers.size());
    nodes.push_back(numbers.try_emplace({node, part}, next).first->second);
  }
  return nodes;
}

// Where the members are for a plan. Links, and so rings, follow the numbers of devices. A group of
// an instance is planned as if it were one: its chips have numbers from 0, and the cores of a chip
// those of their members' order. Physical cores have other places on one device than on the next,
// and sums would be in another order with them.
std::vector<Place> places_of(const ccom_device_collective_t& collective,
                             const std::vector<uint32_t>& nodes, uint32_t grouping,
                             const NodeProfile& profile) {
  std::vector<Place> places;
  std::map<uint32_t, std::set<uint32_t>> of_group;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> on_chip;  // members so far
  for (uint32_t i = 0; i < collective.size; ++i) {
    const ccom_device_member_t& member = collective.members[i];
    const uint32_t chip = member.device != 0 ? member.device - 1 : member.chip;
    const uint32_t core = grouping == 0 ? member.core : on_chip[{nodes[i], chip}]++;
    places.push_back({nodes[i], chip, core % profile.ranks_per_chip, 0});
    of_group[nodes[i]].insert(chip);
  }
  for (Place& place : places) {
    if (grouping != 0) {
      const std::set<uint32_t>& group = of_group[place.node];
      place.chip = static_cast<uint32_t>(std::distance(group.begin(), group.find(place.chip)));
    }
    place.chip %= profile.chips;
  }
  return places;
}

// What joins the nodes of the members.
enum class Between : uint8_t { kOneNode, kNeuronLink, kNetwork };

Between between(const ccom_device_collective_t& collective) {
  const ccom_device_member_t& first = collective.members[0];
  Between found = Between::kOneNode;
  for (uint32_t i = 1; i < collective.size; ++i) {
    if (collective.members[i].instance != first.instance) return Between::kNetwork;
    if (collective.members[i].node != first.node) found = Between::kNeuronLink;
  }
  return found;
}

Result<Plan> plan(const ccom_device_stream_t& stream, const ccom_device_collective_t& collective,
                  uint32_t grouping) {
  const DeviceGeneration& generation = *find_generation(stream.generation);
  const bool joined =
      between(collective) == Between::kNeuronLink && generation.ultra_server != nullptr;
  NEURON_TRY(profile, Topology::profile(joined ? generation.ultra_server : generation.instance));
  const std::vector<uint32_t> nodes = nodes_of(collective, grouping);
  Group group{places_of(collective, nodes, grouping, profile),
              Topology(profile, *std::max_element(nodes.begin(), nodes.end()) + 1)};
  NEURON_TRY(costs, calibration_of_environment(Medium::kDevice));
  if (joined) {
    if (costs.remote_latency_ps == 0) costs.remote_latency_ps = profile.pod_link.latency_ps;
    if (costs.remote_bytes_per_second == 0) {
      costs.remote_bytes_per_second = profile.pod_link.bytes_per_second;
    }
  }
  const Planner planner(std::move(group), costs);
  Request request;
  request.operation = collective.operation;
  request.type = collective.type;
  request.reduction = collective.reduction;
  request.algorithm = collective.algorithm;
  request.root = collective.root;
  request.in_place = in_place(collective);
  request.count = collective.count;
  put_arrays(collective, request);
  if (collective.pairs != nullptr) {
    request.pairs.assign(collective.pairs, collective.pairs + collective.pair_count);
  }
  request.algorithm = planner.device_default(request);
  return planner.plan(request);
}

// Whether a member may be in place while another one is not: none reads the buffer that the root
// alone writes, or writes itself.
bool has_roots_place(ccom_operation_t operation) {
  return operation == CCOM_BROADCAST || operation == CCOM_REDUCE || operation == CCOM_GATHER ||
         operation == CCOM_SCATTER || operation == CCOM_BARRIER;
}

const char* way_text(Between way) {
  return way == Between::kNeuronLink ? ", between nodes by NeuronLink"
         : way == Between::kNetwork  ? ", between instances over the network"
                                     : "";
}

// A sentence with all that decides about the programs of the members, but addresses.
std::string plan_text(const ccom_device_collective_t& collective, const Plan& plan,
                      uint32_t grouping) {
  Request request = plan.request;
  if (has_roots_place(request.operation)) request.in_place = false;
  uint64_t members = 0xcbf29ce484222325u;
  for (uint32_t i = 0; i < collective.size; ++i) {
    const ccom_device_member_t& m = collective.members[i];
    const auto node = static_cast<uint32_t>(m.node);
    const auto credit = static_cast<uint32_t>(m.credit);
    for (const uint32_t value : {m.world, m.chip, m.core, m.device, m.instance, node, credit}) {
      members = (members ^ value) * 0x100000001b3u;
    }
  }
  return ccom::format("{} by {}{}{}{} (request {:016x}, members {:016x})", name_of(collective),
                      plan.shape,
                      grouping != 0 ? ccom::format(", in groups of {} ranks", grouping) : "",
                      request.in_place ? ", in place" : "", way_text(between(collective)),
                      hash_of(request), members);
}

CollectiveSize size_of(const ccom_device_collective_t& collective, const Request& request) {
  const Layout layout(request, collective.size);
  return {layout.input_bytes(collective.rank), layout.output_bytes(collective.rank),
          layout.whole_bytes()};
}

ccom_device_member_t own_place(const ccom_device_stream_t& stream) {
  if (stream.count == 0) return {};
  return stream.collectives[0].members[stream.collectives[0].rank];
}

DeviceCollective prepare(const ccom_device_stream_t& stream,
                         const ccom_device_collective_t& collective, const Plan& plan) {
  DeviceCollective result;
  result.schedule = plan.schedule.get();
  result.window = plan.window;
  result.name = name_of(collective);
  result.rank = collective.rank;
  for (uint32_t i = 0; i < collective.size; ++i) {
    const ccom_device_member_t& member = collective.members[i];
    result.world.push_back(member.world);
    result.places.push_back({find_generation(stream.generation), member.chip, member.core,
                             member.cc_core, member.instance, member.node, member.credit});
    result.buffers.push_back({place_of(member.input, collective.input_layout),
                              place_of(member.output, collective.output_layout), member.scratch});
  }
  for (int i = 0; i < 2; ++i) {
    if (collective.done[i] == 0) continue;
    result.done.emplace_back(collective.done[i], collective.done_value[i]);
  }
  return result;
}

}  // namespace

Result<uint64_t> scratch_bytes(const ccom_device_stream_t* stream, uint32_t number) {
  NEURON_CHECK(check(stream));
  if (number >= stream->count) {
    return fail(CCOM_INVALID, "collective {} of a stream of {} was asked for", number,
                stream->count);
  }
  const ccom_device_collective_t& collective = stream->collectives[number];
  NEURON_TRY(grouping, grouping_of_environment());
  NEURON_TRY(planned, plan(*stream, collective, grouping));
  return planned.schedule->scratch_bytes(collective.rank);
}

Result<DeviceProgram> plan_stream(const ccom_device_stream_t* stream) {
  NEURON_CHECK(check(stream));
  NEURON_TRY(grouping, grouping_of_environment());
  std::vector<Plan> plans;
  std::vector<DeviceCollective> collectives;
  std::vector<std::string> texts, algorithms;
  std::vector<CollectiveSize> sizes;
  for (uint32_t i = 0; i < stream->count; ++i) {
    NEURON_TRY(planned, plan(*stream, stream->collectives[i], grouping));
    texts.push_back(plan_text(stream->collectives[i], planned, grouping));
    algorithms.push_back(planned.shape.substr(0, planned.shape.find(" with ")));
    sizes.push_back(size_of(stream->collectives[i], planned.request));
    plans.push_back(std::move(planned));
    collectives.push_back(prepare(*stream, stream->collectives[i], plans.back()));
  }
  const ccom_device_member_t own = own_place(*stream);
  const StreamPlace place{{find_generation(stream->generation), stream->chip, stream->core,
                           stream->cc_core, own.instance, own.node, own.credit},
                          stream->m2s_doorbell,
                          stream->s2m_doorbell,
                          stream->stride,
                          stream->engines,
                          stream->one};
  NEURON_TRY(program, compile_stream(place, collectives));
  NEURON_TRY(profile, Topology::profile(place.place.generation->instance));
  program.plans = std::move(texts);
  program.algorithms = std::move(algorithms);
  program.sizes = std::move(sizes);
  program.nic_latency_ps = profile.nic.latency_ps;
  program.nic_bytes_per_second = profile.nic.bytes_per_second * profile.nics /
                                 std::max(1u, profile.chips * profile.ranks_per_chip);
  return std::move(program);
}

}  // namespace neuron::ccom
