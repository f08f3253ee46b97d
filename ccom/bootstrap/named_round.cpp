// SPDX-License-Identifier: Apache-2.0
#include "ccom/bootstrap/named_round.h"

#include <algorithm>

#include "ccom/bootstrap/rank_list.h"
#include "driver/base/utf8.h"

namespace neuron::ccom {
namespace {

constexpr size_t kMostSaid = 400;  // bytes of a rank's words in a sentence

std::string_view text_in(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// With the name of the call.
std::string words_of(std::string_view call, std::span<const std::byte> mine) {
  std::string words(call);
  words += ": ";
  words += text_in(mine);
  return words;
}

Error different(const Bootstrap& bootstrap, std::string_view mine, Rank other,
                std::string_view theirs) {
  return fail(
      CCOM_MISMATCH,
      "{} says \"{}\", {} says \"{}\"; all ranks must make the same calls in the same order",
      describe(bootstrap.members()[bootstrap.rank()]), printable(bytes_of(mine)),
      describe(bootstrap.members()[other]), printable(bytes_of(theirs)));
}

}  // namespace

std::string printable(std::span<const std::byte> said) {
  std::string_view rest = text_in(said);
  std::string text;
  while (!rest.empty() && text.size() < kMostSaid) {
    const base::Utf8Character next = base::first_character(rest);
    const bool shown =
        next.bytes != 0 && next.code >= 0x20 && (next.code < 0x7f || next.code >= 0xa0);
    const size_t bytes = std::max<size_t>(next.bytes, 1);
    text += shown ? rest.substr(0, bytes) : "?";
    rest.remove_prefix(bytes);
  }
  return rest.empty() ? text : text + "...";
}

Error says_otherwise(std::string_view call, const Bootstrap& bootstrap,
                     std::span<const std::byte> mine, Rank other,
                     std::span<const std::byte> theirs) {
  return different(bootstrap, words_of(call, mine), other, words_of(call, theirs));
}

Result<std::vector<Bytes>> gather_at(std::string_view call, Bootstrap& bootstrap,
                                     std::span<const std::byte> mine, base::Deadline deadline) {
  const std::string words = words_of(call, mine);
  const std::string_view name = std::string_view(words).substr(0, call.size() + 2);
  NEURON_TRY(all, bootstrap.all_gather(bytes_of(words), deadline));
  for (Rank rank = 0; rank < all.size(); ++rank) {
    if (text_in(all[rank]).substr(0, name.size()) != name) {
      return different(bootstrap, words, rank, text_in(all[rank]));
    }
  }
  for (Bytes& said : all) {
    said.erase(said.begin(), said.begin() + static_cast<ptrdiff_t>(name.size()));
  }
  return std::move(all);
}

}  // namespace neuron::ccom
