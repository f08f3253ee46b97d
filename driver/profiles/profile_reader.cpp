// SPDX-License-Identifier: Apache-2.0
// From the JSON text of a profile to a Profile, with a sentence for every field that is not right.
#include <boost/json/array.hpp>
#include <charconv>
#include <cstdio>
#include <list>
#include <mutex>
#include <vector>

#include "driver/profiles/field_reader.h"
#include "driver/profiles/nearest_adapter.h"
#include "driver/profiles/profile.h"

namespace neuron::profiles {
namespace {

namespace json = boost::json;

struct Loaded {
  std::string text;  // what it was read from
  std::string name;
  std::vector<ChipPlace> places;
  std::vector<AdapterPlace> adapters;
  Profile profile{};
};

// The limits within which the chip model can be built, one row per generation.
struct Generation {
  unsigned number;
  uint64_t devices[2];  // PCI, 0: none
  unsigned cores;
  unsigned stacks;
  uint64_t stack_gib;
  uint64_t link_gb_per_second;  // of a profile that gives no rate
};
constexpr Generation kGenerations[] = {
    {1, {0x7064, 0}, 4, 2, 4, 32},
    {2, {0x7164, 0x7264}, 2, 2, 16, 48},
    {3, {0x7364, 0}, 8, 4, 24, 128},
    {4, {0x7564, 0x7565}, 8, 4, 36, 128},
};
constexpr unsigned kOldest = std::begin(kGenerations)->number;
constexpr unsigned kNewest = std::rbegin(kGenerations)->number;

std::string hexadecimal(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

bool same_address(const auto& a, const auto& b) {
  return a.domain == b.domain && a.bus == b.bus && a.slot == b.slot && a.function == b.function;
}

class Reader : public FieldReader {
 public:
  Reader(const std::string& where, std::string& error) : FieldReader("profile", where, error) {}

  bool read(const json::object& given, Loaded& out);
  // Checks what the section "topology" of the same file says about adapters.
  bool agrees(const json::object& topology, const Loaded& read);

 private:
  // Checks that every field has one of these names and that none is missing.
  bool fields(const json::object& object, const std::string& path,
              std::initializer_list<const char*> names);
  // An object of the list `name`, and the path of its fields; null and refused if it is none.
  const json::object* member(const json::array& list, const char* name, size_t index,
                             std::string& path);
  bool chip(const json::object& object, const std::string& path, ChipPlace& place);
  template <class Place>
  bool address(const json::value& value, const std::string& path, Place& place);
  bool numa_node(const json::object& object, const std::string& path, int8_t& out);
  bool adapters(const json::value& value, std::vector<AdapterPlace>& out);
  bool adapter_addresses(const Loaded& read);
  bool neighbours(const json::value& value, const std::string& path, ChipPlace& place);
  bool links(const std::vector<ChipPlace>& places);
  bool timing(const json::object& root, const Generation& generation, Profile& profile);
  bool fabric(const json::object& root, const std::vector<ChipPlace>& places, Profile& profile);

  size_t chips_ = 0;
  size_t adapters_ = 0;
  int64_t last_routing_id_ = 63;
};

bool Reader::fields(const json::object& object, const std::string& path,
                    std::initializer_list<const char*> names) {
  if (!known(object, path, names)) return false;
  for (const char* name : names) {
    if (!object.contains(name)) return refuse("field \"" + path + name + "\" is missing");
  }
  return true;
}

// "0000:10:1b.0"
template <class Place>
bool Reader::address(const json::value& value, const std::string& path, Place& place) {
  const json::string* text = value.if_string();
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  int end = 0;
  const bool read =
      text != nullptr && text->size() == 12 &&
      std::sscanf(text->c_str(), "%4x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &end) == 4 &&
      end == 12;
  if (!read || slot > 31 || function > 7) {
    return refuse("field \"" + path + "address\" is " + shown(value) +
                  ", expected a PCI address such as \"0000:10:1b.0\"");
  }
  place.domain = static_cast<uint16_t>(domain);
  place.bus = static_cast<uint8_t>(bus);
  place.slot = static_cast<uint8_t>(slot);
  place.function = static_cast<uint8_t>(function);
  return true;
}

bool Reader::neighbours(const json::value& value, const std::string& path, ChipPlace& place) {
  const json::array* list = value.if_array();
  if (list == nullptr || list->size() > kMaxNeighbours) {
    return refuse("field \"" + path + "neighbours\" is " + shown(value) +
                  ", expected a list of at most " + std::to_string(kMaxNeighbours) +
                  " device numbers");
  }
  for (const json::value& entry : *list) {
    if (!entry.is_int64() || entry.get_int64() < 0 ||
        entry.get_int64() >= static_cast<int64_t>(chips_)) {
      return refuse("field \"" + path + "neighbours\" holds " + shown(entry) +
                    ", expected device numbers from 0 to " + std::to_string(chips_ - 1));
    }
    place.neighbours[place.neighbour_count++] = static_cast<uint8_t>(entry.get_int64());
  }
  return true;
}

bool Reader::numa_node(const json::object& object, const std::string& path, int8_t& out) {
  int64_t node = 0;
  if (!number(object, path, "numa_node", -1, 127, node)) return false;
  out = static_cast<int8_t>(node);
  return true;
}

const json::object* Reader::member(const json::array& list, const char* name, size_t index,
                                   std::string& path) {
  const std::string own = name + ("[" + std::to_string(index) + "]");
  path = own + ".";
  const json::object* found = list[index].if_object();
  if (found == nullptr) {
    refuse("field \"" + own + "\" is " + shown(list[index]) + ", expected an object");
  }
  return found;
}

bool Reader::adapters(const json::value& value, std::vector<AdapterPlace>& out) {
  const json::array* list = value.if_array();
  if (list == nullptr || list->size() > kMaxAdapters) {
    return refuse("field \"adapters\" is " + shown(value) + ", expected a list of at most " +
                  std::to_string(kMaxAdapters) + " network adapters");
  }
  adapters_ = list->size();
  for (size_t i = 0; i < adapters_; ++i) {
    std::string path;
    const json::object* entry = member(*list, "adapters", i, path);
    if (entry == nullptr) return false;
    AdapterPlace& place = out.emplace_back();
    if (!fields(*entry, path, {"address", "numa_node"}) ||
        !numa_node(*entry, path, place.numa_node) || !address(entry->at("address"), path, place)) {
      return false;
    }
  }
  return true;
}

bool Reader::adapter_addresses(const Loaded& read) {
  for (size_t i = 0; i < read.adapters.size(); ++i) {
    const auto refuse_place = [&](const char* list, size_t other) {
      return refuse("field \"adapters[" + std::to_string(i) + "].address\" is the one of " + list +
                    "[" + std::to_string(other) + "]");
    };
    for (size_t k = 0; k < i; ++k) {
      if (same_address(read.adapters[i], read.adapters[k])) return refuse_place("adapters", k);
    }
    for (size_t k = 0; k < read.places.size(); ++k) {
      if (same_address(read.adapters[i], read.places[k])) return refuse_place("chips", k);
    }
  }
  return true;
}

// Collectives plan for what the topology says. A host without adapters still has one network
// device, which is no adapter.
bool Reader::agrees(const json::object& topology, const Loaded& read) {
  const json::value* nics = topology.if_contains("nics");
  const auto listed = static_cast<int64_t>(read.adapters.size());
  if (listed == 0 || nics == nullptr || !nics->is_int64() || nics->get_int64() == listed) {
    return true;
  }
  return refuse("field \"devices.adapters\" lists " + std::to_string(listed) +
                " network adapters, but the field \"topology.nics\" is " + shown(*nics));
}

bool Reader::chip(const json::object& object, const std::string& path, ChipPlace& place) {
  place = {};
  json::object needed = object;
  needed.erase("adapter");
  if (!fields(needed, path, {"routing_id", "address", "numa_node", "neighbours"})) return false;
  int64_t value = 0;
  if (!number(object, path, "routing_id", 0, last_routing_id_, value)) return false;
  place.routing_id = static_cast<uint32_t>(value);
  if (!numa_node(object, path, place.numa_node)) return false;
  place.adapter = -1;
  if (const json::value* adapter = object.if_contains("adapter")) {
    if (adapters_ == 0) {
      return refuse("field \"" + path + "adapter\" is " + shown(*adapter) +
                    ", but the field \"adapters\" lists none");
    }
    if (!number(object, path, "adapter", 0, static_cast<int64_t>(adapters_) - 1, value)) {
      return false;
    }
    place.adapter = static_cast<int8_t>(value);
  }
  return address(object.at("address"), path, place) &&
         neighbours(object.at("neighbours"), path, place);
}

// Checks that a link has two ends and that nothing is listed twice.
bool Reader::links(const std::vector<ChipPlace>& places) {
  for (size_t i = 0; i < places.size(); ++i) {
    const std::string path = "chips[" + std::to_string(i) + "]";
    for (size_t k = 0; k < i; ++k) {
      const ChipPlace& a = places[i];
      const ChipPlace& b = places[k];
      if (a.routing_id == b.routing_id) {
        return refuse("field \"" + path + ".routing_id\" is " + std::to_string(a.routing_id) +
                      ", which chips[" + std::to_string(k) + "] has already");
      }
      if (same_address(a, b)) {
        return refuse("field \"" + path + ".address\" is the one of chips[" + std::to_string(k) +
                      "]");
      }
    }
    for (unsigned n = 0; n < places[i].neighbour_count; ++n) {
      const unsigned other = places[i].neighbours[n];
      bool back = false;
      for (unsigned m = 0; m < places[other].neighbour_count; ++m) {
        back = back || places[other].neighbours[m] == i;
      }
      bool twice = false;
      for (unsigned m = 0; m < n; ++m) twice = twice || places[i].neighbours[m] == other;
      if (other == i || twice || !back) {
        return refuse("field \"" + path + ".neighbours\" names device " + std::to_string(other) +
                      (other == i ? ", itself"
                       : twice    ? " twice"
                                  : ", which does not name it in return"));
      }
    }
  }
  return true;
}

// This section is optional, as nothing else depends on it.
bool Reader::timing(const json::object& root, const Generation& generation, Profile& profile) {
  profile.hop_ps = 1'500'000;
  profile.link_bytes_per_second = generation.link_gb_per_second * 1'000'000'000;
  if (!root.contains("link")) return true;
  const json::object* link = root.at("link").if_object();
  if (link == nullptr) {
    return refuse("field \"link\" is " + shown(root.at("link")) +
                  R"(, expected for example {"hop_ns": 1500, "gb_per_second": 48})");
  }
  int64_t value = 0;
  if (!fields(*link, "link.", {"hop_ns", "gb_per_second"})) return false;
  if (!number(*link, "link.", "hop_ns", 0, 1'000'000'000, value)) return false;
  profile.hop_ps = static_cast<uint64_t>(value) * 1000;
  if (!number(*link, "link.", "gb_per_second", 1, 1'000'000, value)) return false;
  profile.link_bytes_per_second = static_cast<uint64_t>(value) * 1'000'000'000;
  return true;
}

// Optional as well: "links", which the lists of neighbours describe, or "switch".
bool Reader::fabric(const json::object& root, const std::vector<ChipPlace>& places,
                    Profile& profile) {
  profile.switched = false;
  if (!root.contains("fabric")) return true;
  const json::string* kind = root.at("fabric").if_string();
  if (kind == nullptr || (*kind != "links" && *kind != "switch")) {
    return refuse("field \"fabric\" is " + shown(root.at("fabric")) +
                  ", expected \"links\" or \"switch\"");
  }
  profile.switched = *kind == "switch";
  for (size_t i = 0; profile.switched && i < places.size(); ++i) {
    if (places[i].neighbour_count == 0) continue;
    return refuse("field \"chips[" + std::to_string(i) +
                  "].neighbours\" names chips, but the field \"fabric\" is \"switch\": chips of a "
                  "switch have no neighbours");
  }
  return true;
}

bool Reader::read(const json::object& given, Loaded& out) {
  json::object root = given;
  root.erase("link");
  root.erase("fabric");
  if (!fields(
          root, "",
          {"name", "pci_device", "revision", "generation", "cores", "hbm", "adapters", "chips"})) {
    return false;
  }
  Profile& profile = out.profile;
  const json::string* name = root.at("name").if_string();
  if (name == nullptr || name->empty() || name->size() > 48 ||
      name->find_first_not_of(
          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") !=
          json::string::npos) {
    return refuse("field \"name\" is " + shown(root.at("name")) +
                  ", expected 1 to 48 letters, digits, dots, - and _");
  }
  out.name.assign(name->data(), name->size());

  int64_t value = 0;
  if (!number(root, "", "generation", kOldest, kNewest, value)) return false;
  profile.architecture = static_cast<unsigned>(value);
  if (value == 2) last_routing_id_ = 15;  // four bits of an address (NEURON_V2_PEER)
  const Generation& generation = kGenerations[value - kOldest];
  const json::string* device = root.at("pci_device").if_string();
  uint64_t id = 0;
  if (device != nullptr && device->size() == 6 && device->starts_with("0x")) {
    std::from_chars(device->data() + 2, device->data() + 6, id, 16);
  }
  if (id == 0 || (id != generation.devices[0] && id != generation.devices[1])) {
    return refuse(
        "field \"pci_device\" is " + shown(root.at("pci_device")) + ", expected \"" +
        hexadecimal(generation.devices[0]) + "\"" +
        (generation.devices[1] ? " or \"" + hexadecimal(generation.devices[1]) + "\"" : "") +
        " for generation " + std::to_string(generation.number));
  }
  profile.pci_device = static_cast<uint16_t>(id);
  if (!number(root, "", "revision", 0, 255, value)) return false;
  profile.revision = static_cast<uint8_t>(value);
  // The cores of a logical core of these generations lie in two halves of the chip (its core map),
  // so there is no half of a chip.
  const unsigned fewest = generation.number < 3 ? 1 : generation.cores;
  if (!number(root, "", "cores", fewest, generation.cores, value)) return false;
  profile.cores = static_cast<unsigned>(value);
  if (!adapters(root.at("adapters"), out.adapters)) return false;
  profile.efa = static_cast<unsigned>(adapters_);

  const json::object* hbm = root.at("hbm").if_object();
  if (hbm == nullptr) {
    return refuse("field \"hbm\" is " + shown(root.at("hbm")) +
                  R"(, expected for example {"stacks": 2, "gib": 16})");
  }
  if (!fields(*hbm, "hbm.", {"stacks", "gib"})) return false;
  if (!number(*hbm, "hbm.", "stacks", generation.stacks, generation.stacks, value)) return false;
  profile.hbm_stacks = static_cast<unsigned>(value);
  if (!number(*hbm, "hbm.", "gib", 1, static_cast<int64_t>(generation.stack_gib), value)) {
    return false;
  }
  profile.hbm_stack_bytes = static_cast<uint64_t>(value) << 30;

  const json::array* chips = root.at("chips").if_array();
  if (chips == nullptr || chips->empty() || chips->size() > kMaxChips) {
    return refuse("field \"chips\" must be a list of 1 to " + std::to_string(kMaxChips) + " chips");
  }
  chips_ = chips->size();
  for (size_t i = 0; i < chips_; ++i) {
    std::string path;
    const json::object* entry = member(*chips, "chips", i, path);
    ChipPlace place;
    if (entry == nullptr || !chip(*entry, path, place)) return false;
    out.places.push_back(place);
  }
  if (!timing(given, generation, profile) || !fabric(given, out.places, profile)) return false;
  profile.chips = static_cast<unsigned>(chips_);
  assign_adapters(out.places, out.adapters);
  return links(out.places) && adapter_addresses(out);
}

bool read_text(std::string_view text, const std::string& where, Loaded& found, std::string& error) {
  Reader reader(where, error);
  json::object section;
  if (!reader.section(text, kDevices, section) || !reader.read(section, found)) return false;
  return reader.agrees(reader.beside(text, kTopology), found);
}

}  // namespace

bool check_profile(std::string_view text, const std::string& where, std::string& error) {
  Loaded found;
  return read_text(text, where, found, error);
}

const Profile* parse_profile(std::string_view text, const std::string& where, std::string& error) {
  static std::mutex mutex;
  // Never destroyed: a holder of a profile may outlive static destructors.
  static auto* const loaded = new std::list<Loaded>;
  const std::lock_guard guard(mutex);
  for (const Loaded& known : *loaded) {
    if (known.text == text) return &known.profile;
  }
  Loaded found;
  if (!read_text(text, where, found, error)) return nullptr;
  found.text = text;
  loaded->push_back(std::move(found));
  Loaded& kept = loaded->back();
  kept.profile.name = kept.name.c_str();
  kept.profile.places = kept.places.data();
  kept.profile.adapters = kept.adapters.data();
  return &kept.profile;
}

}  // namespace neuron::profiles
