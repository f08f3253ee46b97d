// SPDX-License-Identifier: Apache-2.0
#include "ccom/topology/profile.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/stream_parser.hpp>
#include <cmath>
#include <fstream>
#include <initializer_list>
#include <iterator>

#include "ccom/topology/profile_texts.h"

namespace neuron::ccom {
namespace {

namespace json = boost::json;

constexpr uint32_t kMaxChips = 1024;
constexpr size_t kMaxFileBytes = 1 << 20;

std::string shown(const json::value& value) {
  std::string text = json::serialize(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

class Reader {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  Result<NodeProfile> read(const json::object& root) const;

 private:
  Error refuse(const std::string& field, const json::value* found,
               const std::string& expected) const {
    return fail(CCOM_INVALID, "the topology {}: field \"{}\" {}, expected {}", where_, field,
                found ? "is " + shown(*found) : "is missing", expected);
  }
  Result<void> known(const json::object& object, const std::string& path,
                     std::initializer_list<const char*> names) const;
  Result<uint32_t> whole(const json::object& root, const char* field, uint32_t least,
                         uint32_t most) const;
  Result<double> rate(const json::object& object, const std::string& path, const char* field) const;
  Result<LinkClass> link(const json::object& root, const char* field) const;
  Result<std::vector<std::vector<uint32_t>>> lists(const json::object& root, const char* field,
                                                   uint32_t chips) const;

  const std::string& where_;
};

Result<void> Reader::known(const json::object& object, const std::string& path,
                           std::initializer_list<const char*> names) const {
  for (const auto& entry : object) {
    const bool found = std::any_of(names.begin(), names.end(),
                                   [&](const char* name) { return entry.key() == name; });
    if (!found)
      return fail(CCOM_INVALID, "the topology {}: field \"{}{}\" is unknown; take it out", where_,
                  path, std::string(entry.key()));
  }
  return {};
}

Result<uint32_t> Reader::whole(const json::object& root, const char* field, uint32_t least,
                               uint32_t most) const {
  const json::value* value = root.if_contains(field);
  if (!value || !value->is_int64() || value->get_int64() < least || value->get_int64() > most)
    return refuse(field, value, format("a number from {} to {}", least, most));
  return static_cast<uint32_t>(value->get_int64());
}

Result<double> Reader::rate(const json::object& object, const std::string& path,
                            const char* field) const {
  const json::value* value = object.if_contains(field);
  double number = 0;
  if (value && value->is_number()) number = value->to_number<double>();
  if (!(number > 0) || number > 1e6)
    return refuse(path + field, value, "gigabytes per second above 0 and up to 1000000");
  return number * 1e9;
}

Result<LinkClass> Reader::link(const json::object& root, const char* field) const {
  const json::value* value = root.if_contains(field);
  if (!value) return LinkClass{};
  const json::object* object = value->if_object();
  if (!object) return refuse(field, value, "an object with gigabytes_per_second and latency_ns");
  const std::string path = std::string(field) + ".";
  NEURON_CHECK(known(*object, path, {"gigabytes_per_second", "latency_ns"}));
  NEURON_TRY(bytes, rate(*object, path, "gigabytes_per_second"));
  const json::value* latency = object->if_contains("latency_ns");
  const double nanoseconds = latency && latency->is_number() ? latency->to_number<double>() : -1;
  if (!(nanoseconds >= 0) || nanoseconds > 1e9)
    return refuse(path + "latency_ns", latency, "nanoseconds from 0 to 1000000000");
  return LinkClass{bytes, static_cast<uint64_t>(std::llround(nanoseconds * 1000))};
}

Result<std::vector<std::vector<uint32_t>>> Reader::lists(const json::object& root,
                                                         const char* field, uint32_t chips) const {
  const std::string expected = format("lists of chip numbers below {}", chips);
  const json::value* value = root.if_contains(field);
  const json::array* outer = value ? value->if_array() : nullptr;
  if (!outer || outer->size() > kMaxChips) return refuse(field, value, expected);
  std::vector<std::vector<uint32_t>> result;
  for (size_t i = 0; i < outer->size(); ++i) {
    const json::array* inner = (*outer)[i].if_array();
    if (!inner || inner->size() > kMaxChips)
      return refuse(format("{}[{}]", field, i), &(*outer)[i], expected);
    auto& list = result.emplace_back();
    for (const json::value& entry : *inner) {
      if (!entry.is_int64() || entry.get_int64() < 0 || entry.get_int64() >= chips)
        return refuse(format("{}[{}]", field, i), &(*outer)[i], expected);
      list.push_back(static_cast<uint32_t>(entry.get_int64()));
    }
  }
  return result;
}

Result<NodeProfile> Reader::read(const json::object& root) const {
  NEURON_CHECK(
      known(root, "",
            {"name", "chips", "ranks_per_chip", "dma_engines", "collective_cores", "neighbours",
             "rings", "link", "pod_link", "rack_link", "nic", "on_chip", "nics", "pod", "pod_nodes",
             "racks", "hbm_gigabytes_per_second", "dma_gigabytes_per_second"}));
  NodeProfile profile;
  const json::value* name = root.if_contains("name");
  if (!name || !name->is_string() || name->get_string().empty() || name->get_string().size() > 64)
    return refuse("name", name, "a text of 1 to 64 characters");
  profile.name = std::string(name->get_string());
  NEURON_TRY(chips, whole(root, "chips", 1, kMaxChips));
  NEURON_TRY(ranks, whole(root, "ranks_per_chip", 1, 1024));
  NEURON_TRY(engines, whole(root, "dma_engines", 0, 4096));
  NEURON_TRY(cores, whole(root, "collective_cores", 0, 1024));
  NEURON_TRY(nics, whole(root, "nics", 0, kMaxChips));
  NEURON_TRY(pod_nodes, whole(root, "pod_nodes", 1, 1024));
  profile.chips = chips;
  profile.ranks_per_chip = ranks;
  profile.dma_engines = engines;
  profile.collective_cores = cores;
  profile.nics = nics;
  profile.pod_nodes = pod_nodes;
  if (root.contains("racks")) {
    NEURON_TRY(racks, whole(root, "racks", 1, pod_nodes));
    profile.racks = racks;
  }
  const json::value* pod = root.if_contains("pod");
  if (pod && *pod == "none") {
    profile.pod = PodType::kNone;
  } else if (pod && *pod == "peer_to_peer") {
    profile.pod = PodType::kPeerToPeer;
  } else if (pod && *pod == "switch") {
    profile.pod = PodType::kSwitch;
  } else {
    return refuse("pod", pod, "\"none\", \"peer_to_peer\" or \"switch\"");
  }
  NEURON_TRY(link_class, link(root, "link"));
  NEURON_TRY(pod_link, link(root, "pod_link"));
  NEURON_TRY(rack_link, link(root, "rack_link"));
  NEURON_TRY(nic, link(root, "nic"));
  NEURON_TRY(on_chip, link(root, "on_chip"));
  NEURON_TRY(hbm, rate(root, "", "hbm_gigabytes_per_second"));
  NEURON_TRY(dma, rate(root, "", "dma_gigabytes_per_second"));
  NEURON_TRY(neighbours, lists(root, "neighbours", chips));
  NEURON_TRY(rings, lists(root, "rings", chips));
  profile.link = link_class;
  profile.pod_link = pod_link;
  profile.rack_link = rack_link;
  profile.nic = nic;
  profile.on_chip = on_chip;
  profile.hbm_bytes_per_second = hbm;
  profile.dma_bytes_per_second = dma;
  profile.neighbours = std::move(neighbours);
  profile.rings = std::move(rings);
  NEURON_CHECK(check_profile(profile, where_));
  return profile;
}

}  // namespace

Result<void> check_profile(const NodeProfile& profile, const std::string& where) {
  const auto refuse = [&](const std::string& what) {
    return fail(CCOM_INVALID, "the topology {}: {}", where, what);
  };
  if (profile.neighbours.size() != profile.chips)
    return refuse(format("field \"neighbours\" has {} lists, expected one for each of {} chips",
                         profile.neighbours.size(), profile.chips));
  const auto linked = [&](uint32_t a, uint32_t b) {
    const auto& list = profile.neighbours[a];
    return std::find(list.begin(), list.end(), b) != list.end();
  };
  bool links = false;
  for (uint32_t chip = 0; chip < profile.chips; ++chip) {
    for (uint32_t other : profile.neighbours[chip]) {
      links = true;
      if (other == chip || other >= profile.chips || !linked(other, chip))
        return refuse(format("field \"neighbours[{}]\" names chip {}, {}", chip, other,
                             other == chip ? "itself" : "which does not name it in return"));
    }
  }
  if (links && profile.link.bytes_per_second <= 0)
    return refuse("field \"link\" is missing although chips have neighbours");
  if (profile.nics > 0 && profile.nic.bytes_per_second <= 0)
    return refuse("field \"nic\" is missing although \"nics\" is not 0");
  if (profile.on_chip.bytes_per_second <= 0 && profile.ranks_per_chip > 1)
    return refuse("field \"on_chip\" is missing although \"ranks_per_chip\" is not 1");
  const bool pod = profile.pod != PodType::kNone;
  if (pod && profile.pod_link.bytes_per_second <= 0)
    return refuse("field \"pod_link\" is missing although \"pod\" is not \"none\"");
  if (pod != (profile.pod_nodes > 1))
    return refuse(format("field \"pod_nodes\" is {}, expected {} with this \"pod\"",
                         profile.pod_nodes, pod ? "2 or more" : "1"));
  if (profile.racks > 1 &&
      (profile.rack_link.bytes_per_second <= 0 || profile.pod_nodes % profile.racks))
    return refuse("field \"racks\" needs \"rack_link\" and must divide \"pod_nodes\"");
  std::vector<std::pair<uint32_t, uint32_t>> used;
  for (size_t r = 0; r < profile.rings.size(); ++r) {
    const auto& ring = profile.rings[r];
    std::vector<bool> seen(profile.chips, false);
    for (size_t i = 0; i < ring.size(); ++i) {
      const uint32_t a = ring[i], b = ring[(i + 1) % ring.size()];
      if (a >= profile.chips || seen[a] || !linked(a, b))
        return refuse(format(
            "field \"rings[{}]\" is no ring: chip {} at place {} {}", r, a, i,
            a < profile.chips && seen[a] ? "is there twice" : format("has no link to chip {}", b)));
      seen[a] = true;
      const std::pair<uint32_t, uint32_t> edge{std::min(a, b), std::max(a, b)};
      if (std::find(used.begin(), used.end(), edge) != used.end())
        return refuse(format("field \"rings[{}]\" uses the link between chips {} and {} again", r,
                             edge.first, edge.second));
      used.push_back(edge);
    }
    if (ring.size() != profile.chips)
      return refuse(format("field \"rings[{}]\" visits {} chips, expected all {}", r, ring.size(),
                           profile.chips));
  }
  return {};
}

std::vector<std::string> profile_names() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kProfileTextCount; ++i) names.emplace_back(kProfileTexts[i].name);
  return names;
}

Result<NodeProfile> parse_profile(std::string_view text, const std::string& where) {
  boost::system::error_code error;
  const json::value root = json::parse({text.data(), text.size()}, error);
  if (error) {
    json::stream_parser parser;
    const size_t good = parser.write_some(text.data(), text.size(), error);
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(good), '\n');
    return fail(CCOM_INVALID, "the topology {} is not JSON: line {}, {}", where, line,
                error ? error.message() : "it ends too early");
  }
  if (!root.is_object())
    return fail(CCOM_INVALID, "the topology {} is {}, expected an object", where, shown(root));
  return Reader(where).read(root.get_object());
}

Result<NodeProfile> Topology::profile(const std::string& name_or_file) {
  for (size_t i = 0; i < kProfileTextCount; ++i)
    if (kProfileTexts[i].name == name_or_file)
      return parse_profile(kProfileTexts[i].text, name_or_file);
  if (name_or_file.find('/') == std::string::npos) {
    std::string names;
    for (const std::string& name : profile_names()) names += (names.empty() ? "" : ", ") + name;
    return fail(CCOM_INVALID,
                "no topology is called \"{}\"; there are {}, and a file is named by a path that "
                "holds a slash",
                name_or_file, names);
  }
  std::ifstream file(name_or_file, std::ios::binary);
  if (!file)
    return fail(CCOM_INVALID,
                "the topology {} cannot be opened; check the path and its permissions",
                name_or_file);
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes)
    return fail(CCOM_INVALID, "the topology {} is larger than {} bytes", name_or_file,
                kMaxFileBytes);
  return parse_profile(text, name_or_file);
}

}  // namespace neuron::ccom
