// SPDX-License-Identifier: Apache-2.0
#include "runtime/neff/compatibility.h"

#include <algorithm>

#include "hw/neff_program.h"
#include "runtime/neff/engine_binary.h"
#include "runtime/neff/graph_reader.h"
#include "runtime/neff/json_document.h"
#include "runtime/neff/text.h"

namespace neuron::neff {

using runtime::fail;
using runtime::Result;

namespace {

namespace json = boost::json;

constexpr const char* kWhatRunsIt =
    "run it on an AWS Neuron instance with the AWS Neuron runtime, or build the program in the "
    "open "
    "encoding with this project's tools";

// A text of info.json; empty if there is none.
std::string info_text(const Container& container, json::string_view key) {
  const auto document = read_json_object(container, "info.json", JsonLimits());
  if (!document) return {};
  const json::value* value = document->get_object().if_contains(key);
  return value && value->is_string() ? printable(value->get_string().c_str()) : std::string();
}

size_t binaries(const Container& container, bool with_magic) {
  return static_cast<size_t>(std::count_if(
      container.members().begin(), container.members().end(), [with_magic](const Member& member) {
        return member.name.ends_with(".bin") && has_engine_magic(member.bytes) == with_magic;
      }));
}

Result<void> check_versions(const Header& header) {
  if (header.version_major != kVersionMajor || header.version_minor != kVersionMinor) {
    return fail(
        NRT_UNSUPPORTED_NEFF_VERSION,
        "header offset {}: NEFF version, supported: {}.{} received: {}.{}; build the program with "
        "the tools of this release",
        NEFF_OFF_VERSION_MAJOR, kVersionMajor, kVersionMinor, header.version_major,
        header.version_minor);
  }
  constexpr uint64_t kKnown = NEFF_FEATURE_OPEN_PROGRAM | NEFF_FEATURE_CUSTOM_OPERATORS;
  const uint64_t unknown = header.feature_bits & ~kKnown;
  if (unknown != 0) {
    return fail(NRT_UNSUPPORTED_NEFF_VERSION,
                "header offset {}: feature bits are {:#x}, of which {:#x} are unknown here; "
                "supported: {:#x}",
                NEFF_OFF_FEATURE_BITS, header.feature_bits, unknown, kKnown);
  }
  if (header.stray_offset != 0) {
    return fail(
        NRT_UNSUPPORTED_NEFF_VERSION,
        "header offset {}: a byte behind the known fields is not zero; a later format than {}.{}",
        header.stray_offset, kVersionMajor, kVersionMinor);
  }
  return {};
}

}  // namespace

std::string describe_origin(const Container& container) {
  const std::string target = info_text(container, "target");
  const std::string creator = info_text(container, "created_by");
  const std::string version = info_text(container, "tool_version");
  std::string text = target.empty() ? std::string("a device that it does not name") : target;
  if (!creator.empty()) text += " by " + creator;
  if (!version.empty()) text += (creator.empty() ? " by compiler version " : " ") + version;
  return text;
}

Result<void> check_compatible(const Container& container, const Target& target) {
  const Header& header = container.header();
  const bool marked = (header.feature_bits & NEFF_FEATURE_OPEN_PROGRAM) != 0;
  const auto named = graph_format(container);
  if (marked && !named) return named.error();
  const std::string format = named ? *named : std::string();
  const size_t foreign = binaries(container, false);
  if (!marked) {
    if (format == NEFF_FORMAT) {
      return fail(
          NRT_UNSUPPORTED_NEFF_VERSION,
          "header offset {}: feature bits are {:#x}, but neff.json names the open format, whose "
          "files have bit 52 set; the header was altered",
          NEFF_OFF_FEATURE_BITS, header.feature_bits);
    }
    return fail(
        NRT_UNSUPPORTED_NEFF_VERSION,
        "the program was built for {} (NEFF version {}.{}, feature bits {:#x}) in an encoding that "
        "only its vendor knows; {}",
        describe_origin(container), header.version_major, header.version_minor, header.feature_bits,
        kWhatRunsIt);
  }
  if (format != NEFF_FORMAT || foreign != 0 || binaries(container, true) == 0) {
    return fail(
        NRT_UNSUPPORTED_NEFF_VERSION,
        "the program was built for {}: feature bit 52 is set, but {}; {}",
        describe_origin(container),
        format != NEFF_FORMAT
            ? "neff.json does not name the format \"" NEFF_FORMAT "\""
            : "not every engine binary has the magic of the open encoding: the file is damaged, or "
              "was not made by this project's tools",
        kWhatRunsIt);
  }
  NEURON_CHECK(check_versions(header));
  if (target.lnc != 0 && header.effective_lnc() > 1 && target.generation == 2) {
    return fail(
        NRT_INVALID,
        "header offset {}: the program needs logical cores of {} physical cores, and {} has "
        "logical cores of one physical core only: it is a program of a later chip; build it for "
        "this device",
        NEFF_OFF_LNC_SIZE, header.effective_lnc(), generation_words(target.generation));
  }
  if (target.lnc != 0 && header.effective_lnc() != target.lnc) {
    return fail(
        NRT_INVALID,
        "header offset {}: the program needs logical cores of {} physical cores, this process uses "
        "{}; set NEURON_LOGICAL_NC_CONFIG={}{} or build it for {}",
        NEFF_OFF_LNC_SIZE, header.effective_lnc(), target.lnc, header.effective_lnc(),
        // A program of an older chip needs both, and whoever sets one meets the other next.
        target.generation > 2 && !target.allow_older && header.effective_lnc() == 1
            ? " (and NEURON_RT_ALLOW_LEGACY_NEFF=1, if it was built for an older chip)"
            : "",
        target.lnc);
  }
  return {};
}

}  // namespace neuron::neff
