// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>
#include <utility>

#include "driver/base/format.h"
#include "driver/profiles/field_reader.h"
#include "driver/profiles/topology.h"

namespace neuron::profiles {
namespace {

namespace json = boost::json;
using base::format;

constexpr uint32_t kMaxChips = 1024;

class TopologyReader : public FieldReader {
 public:
  TopologyReader(const std::string& where, std::string& error)
      : FieldReader("topology", where, error) {}

  bool read(const json::object& root, NodeProfile& profile);

 private:
  using Lists = std::vector<std::vector<uint32_t>>;
  bool whole(const json::object& root, const char* field, uint32_t least, uint32_t most,
             uint32_t& out);
  bool rate(const json::object& object, const std::string& path, const char* field, double& out);
  bool link(const json::object& root, const char* field, LinkClass& out);
  bool lists(const json::object& root, const char* field, uint32_t chips, Lists& out);
  bool pod(const json::object& root, PodType& out);
};

bool TopologyReader::whole(const json::object& root, const char* field, uint32_t least,
                           uint32_t most, uint32_t& out) {
  int64_t value = 0;
  if (!number(root, "", field, least, most, value)) return false;
  out = static_cast<uint32_t>(value);
  return true;
}

bool TopologyReader::rate(const json::object& object, const std::string& path, const char* field,
                          double& out) {
  const json::value* value = object.if_contains(field);
  double gigabytes = 0;
  if (value && value->is_number()) gigabytes = value->to_number<double>();
  if (!(gigabytes > 0) || gigabytes > 1e6) {
    return refuse_field(path + field, value, "gigabytes per second above 0 and up to 1000000");
  }
  out = gigabytes * 1e9;
  return true;
}

bool TopologyReader::link(const json::object& root, const char* field, LinkClass& out) {
  const json::value* value = root.if_contains(field);
  if (!value) return true;
  const json::object* object = value->if_object();
  if (!object) {
    return refuse_field(field, value, "an object with gigabytes_per_second and latency_ns");
  }
  const std::string path = std::string(field) + ".";
  if (!known(*object, path, {"gigabytes_per_second", "latency_ns"})) return false;
  if (!rate(*object, path, "gigabytes_per_second", out.bytes_per_second)) return false;
  const json::value* latency = object->if_contains("latency_ns");
  const double nanoseconds = latency && latency->is_number() ? latency->to_number<double>() : -1;
  if (!(nanoseconds >= 0) || nanoseconds > 1e9) {
    return refuse_field(path + "latency_ns", latency, "nanoseconds from 0 to 1000000000");
  }
  out.latency_ps = static_cast<uint64_t>(std::llround(nanoseconds * 1000));
  return true;
}

bool TopologyReader::lists(const json::object& root, const char* field, uint32_t chips,
                           Lists& out) {
  const std::string expected = format("lists of chip numbers below {}", chips);
  const json::value* value = root.if_contains(field);
  const json::array* outer = value ? value->if_array() : nullptr;
  if (!outer || outer->size() > kMaxChips) return refuse_field(field, value, expected);
  for (size_t i = 0; i < outer->size(); ++i) {
    const json::array* inner = (*outer)[i].if_array();
    if (!inner || inner->size() > kMaxChips) {
      return refuse_field(format("{}[{}]", field, i), &(*outer)[i], expected);
    }
    auto& list = out.emplace_back();
    for (const json::value& entry : *inner) {
      if (!entry.is_int64() || entry.get_int64() < 0 || entry.get_int64() >= chips) {
        return refuse_field(format("{}[{}]", field, i), &(*outer)[i], expected);
      }
      list.push_back(static_cast<uint32_t>(entry.get_int64()));
    }
  }
  return true;
}

bool TopologyReader::pod(const json::object& root, PodType& out) {
  static constexpr struct {
    const char* name;
    PodType type;
  } kTypes[] = {{"none", PodType::kNone},
                {"peer_to_peer", PodType::kPeerToPeer},
                {"switch", PodType::kSwitch}};
  const json::value* value = root.if_contains("pod");
  for (const auto& known : kTypes) {
    if (value && value->is_string() && value->get_string() == known.name) {
      out = known.type;
      return true;
    }
  }
  return refuse_field("pod", value, "\"none\", \"peer_to_peer\" or \"switch\"");
}

bool TopologyReader::read(const json::object& root, NodeProfile& profile) {
  if (!known(
          root, "",
          {"name", "chips", "generation", "ranks_per_chip", "dma_engines", "collective_cores",
           "neighbours", "rings", "link", "pod_link", "rack_link", "nic", "on_chip", "nics", "pod",
           "pod_nodes", "racks", "hbm_gigabytes_per_second", "dma_gigabytes_per_second"})) {
    return false;
  }
  const json::value* name = root.if_contains("name");
  if (!name || !name->is_string() || name->get_string().empty() || name->get_string().size() > 64) {
    return refuse_field("name", name, "a text of 1 to 64 characters");
  }
  profile.name = std::string(name->get_string());
  return whole(root, "chips", 1, kMaxChips, profile.chips) &&
         (!root.contains("generation") || whole(root, "generation", 2, 4, profile.generation)) &&
         whole(root, "ranks_per_chip", 1, 1024, profile.ranks_per_chip) &&
         whole(root, "dma_engines", 0, 4096, profile.dma_engines) &&
         whole(root, "collective_cores", 0, 1024, profile.collective_cores) &&
         whole(root, "nics", 0, kMaxChips, profile.nics) &&
         whole(root, "pod_nodes", 1, 1024, profile.pod_nodes) &&
         (!root.contains("racks") || whole(root, "racks", 1, profile.pod_nodes, profile.racks)) &&
         pod(root, profile.pod) && link(root, "link", profile.link) &&
         link(root, "pod_link", profile.pod_link) && link(root, "rack_link", profile.rack_link) &&
         link(root, "nic", profile.nic) && link(root, "on_chip", profile.on_chip) &&
         rate(root, "", "hbm_gigabytes_per_second", profile.hbm_bytes_per_second) &&
         rate(root, "", "dma_gigabytes_per_second", profile.dma_bytes_per_second) &&
         lists(root, "neighbours", profile.chips, profile.neighbours) &&
         lists(root, "rings", profile.chips, profile.rings);
}

}  // namespace

bool check_topology(const NodeProfile& profile, const std::string& where, std::string& error) {
  const auto refuse = [&](const std::string& what) {
    error = format("the topology {}: {}", where, what);
    return false;
  };
  if (profile.neighbours.size() != profile.chips) {
    return refuse(format("field \"neighbours\" has {} lists, expected one for each of {} chips",
                         profile.neighbours.size(), profile.chips));
  }
  const auto linked = [&](uint32_t a, uint32_t b) {
    const auto& list = profile.neighbours[a];
    return std::find(list.begin(), list.end(), b) != list.end();
  };
  bool links = false;
  for (uint32_t chip = 0; chip < profile.chips; ++chip) {
    for (uint32_t other : profile.neighbours[chip]) {
      links = true;
      if (other == chip || other >= profile.chips || !linked(other, chip)) {
        return refuse(format("field \"neighbours[{}]\" names chip {}, {}", chip, other,
                             other == chip ? "itself" : "which does not name it in return"));
      }
    }
  }
  if (links && profile.link.bytes_per_second <= 0) {
    return refuse("field \"link\" is missing although chips have neighbours");
  }
  if (profile.pod == PodType::kSwitch && profile.chips > 1 && profile.link.bytes_per_second <= 0) {
    return refuse("field \"link\" is missing although a switch joins the chips");
  }
  if (profile.nics > 0 && profile.nic.bytes_per_second <= 0) {
    return refuse("field \"nic\" is missing although \"nics\" is not 0");
  }
  if (profile.on_chip.bytes_per_second <= 0 && profile.ranks_per_chip > 1) {
    return refuse("field \"on_chip\" is missing although \"ranks_per_chip\" is not 1");
  }
  const bool pod = profile.pod != PodType::kNone;
  // A switch may join the chips of one node only.
  if (profile.pod != PodType::kSwitch && pod != (profile.pod_nodes > 1)) {
    return refuse(format("field \"pod_nodes\" is {}, expected {} with this \"pod\"",
                         profile.pod_nodes, pod ? "2 or more" : "1"));
  }
  if (profile.pod_nodes > 1 && profile.pod_link.bytes_per_second <= 0) {
    return refuse("field \"pod_link\" is missing although \"pod\" is not \"none\"");
  }
  if (profile.racks > 1 &&
      (profile.rack_link.bytes_per_second <= 0 || profile.pod_nodes % profile.racks)) {
    return refuse("field \"racks\" needs \"rack_link\" and must divide \"pod_nodes\"");
  }
  std::vector<std::pair<uint32_t, uint32_t>> used;
  for (size_t r = 0; r < profile.rings.size(); ++r) {
    const auto& ring = profile.rings[r];
    std::vector<bool> seen(profile.chips, false);
    for (size_t i = 0; i < ring.size(); ++i) {
      const uint32_t a = ring[i], b = ring[(i + 1) % ring.size()];
      if (a >= profile.chips || seen[a] || !linked(a, b)) {
        return refuse(format(
            "field \"rings[{}]\" is no ring: chip {} at place {} {}", r, a, i,
            a < profile.chips && seen[a] ? "is there twice" : format("has no link to chip {}", b)));
      }
      seen[a] = true;
      const std::pair<uint32_t, uint32_t> edge{std::min(a, b), std::max(a, b)};
      if (std::find(used.begin(), used.end(), edge) != used.end()) {
        return refuse(format("field \"rings[{}]\" uses the link between chips {} and {} again", r,
                             edge.first, edge.second));
      }
      used.push_back(edge);
    }
    if (ring.size() != profile.chips) {
      return refuse(format("field \"rings[{}]\" visits {} chips, expected all {}", r, ring.size(),
                           profile.chips));
    }
  }
  return true;
}

bool parse_topology(std::string_view text, const std::string& where, NodeProfile& profile,
                    std::string& error) {
  TopologyReader reader(where, error);
  json::object section;
  profile = {};
  return reader.section(text, kTopology, section) && reader.read(section, profile) &&
         check_topology(profile, where, error);
}

}  // namespace neuron::profiles
