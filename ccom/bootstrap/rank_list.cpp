// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/rank_list.h"

namespace neuron::ccom {

std::string rank_list(const std::vector<Rank>& ranks, size_t limit) {
  std::string text;
  size_t pieces = 0;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) {
      ++end;
    }
    if (pieces++ == limit) {
      return text + format(" and {} more", ranks.size() - i);
    }
    text += i == 0 ? "" : ", ";
    text += end - i > 2 ? format("{}-{}", ranks[i], ranks[end - 1]) : format("{}", ranks[i]);
    i = end - i > 2 ? end : i + 1;
  }
  return text;
}

std::string describe(const Member& member) {
  return format("rank {} (host {}, pid {})", member.rank, member.host, member.process);
}

}  // namespace neuron::ccom
