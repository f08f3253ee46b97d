// SPDX-License-Identifier: Apache-2.0
// The files of profiles/ as text, put into the library when it is built.
//
// Callers: profile.cpp. Constant.
#ifndef CCOM_TOPOLOGY_PROFILE_TEXTS_H
#define CCOM_TOPOLOGY_PROFILE_TEXTS_H

#include <cstddef>
#include <string_view>

namespace neuron::ccom {

struct ProfileText {
  std::string_view name;  // of the file, without .json
  std::string_view text;
};

extern const ProfileText kProfileTexts[];
extern const size_t kProfileTextCount;

}  // namespace neuron::ccom

#endif
