// SPDX-License-Identifier: Apache-2.0
// What the readers of both sections of a profile share: they parse the JSON text, find a section,
// and read its fields, with a sentence for each wrong one.
//
// Callers: profile_reader.cpp and topology_reader.cpp. Thread-safe: one reader belongs to one
// thread. Borrows the strings that it is made with. Fails: false, with the sentence in `error`.
#ifndef DRIVER_PROFILES_FIELD_READER_H
#define DRIVER_PROFILES_FIELD_READER_H

#include <boost/json/object.hpp>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace neuron::profiles {

// The name of a section in a profile.
inline constexpr const char* kDevices = "devices";
inline constexpr const char* kTopology = "topology";

class FieldReader {
 public:
  // Every sentence begins with "the <kind> <where>: ".
  FieldReader(const char* kind, const std::string& where, std::string& error)
      : kind_(kind), where_(where), error_(error) {}

  // The section with the profile's name in it. A file without section names that holds the fields
  // of one section is that section.
  bool section(std::string_view text, const char* name, boost::json::object& out);
  // Another section of the same text, as it is there; empty if the text has none.
  boost::json::object beside(std::string_view text, const char* name);

 protected:
  bool refuse(const std::string& what);
  // `found`: null if the field is missing.
  bool refuse_field(const std::string& field, const boost::json::value* found,
                    const std::string& expected);
  // Checks that every field of the object has one of these names.
  bool known(const boost::json::object& object, const std::string& path,
             std::initializer_list<const char*> names);
  bool number(const boost::json::object& object, const std::string& path, const char* field,
              int64_t least, int64_t most, int64_t& out);

 private:
  bool parse(std::string_view text, boost::json::object& root);

  const char* kind_;
  const std::string& where_;
  std::string& error_;
};

// A value as the sentences show it, cut to 60 characters.
std::string shown(const boost::json::value& value);

}  // namespace neuron::profiles

#endif
