// SPDX-License-Identifier: Apache-2.0
// The profile files of this folder as text, put into the library when it is built.
//
// Callers: profiles.cpp. Constant.
#ifndef DRIVER_PROFILES_PROFILE_TEXTS_H
#define DRIVER_PROFILES_PROFILE_TEXTS_H

#include <cstddef>
#include <string_view>

namespace neuron::profiles {

struct ProfileText {
  std::string_view name;  // of the file, without .json
  std::string_view text;
};

extern const ProfileText kProfileTexts[];
extern const size_t kProfileTextCount;

}  // namespace neuron::profiles

#endif
