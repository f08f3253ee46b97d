// SPDX-License-Identifier: Apache-2.0
// Fuzz target of profiles: the file, its programs and events, and everything that is made of them.
// The first byte says whether the rest is a whole file, or the contents of chunks behind each other
// (kind, place, length), which are packed here: a plain mutation never gets past the checksums.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "tools/neuron-profile/analysis/analysis.h"
#include "tools/neuron-profile/output/detail.h"
#include "tools/neuron-profile/output/page.h"
#include "tools/neuron-profile/output/perfetto.h"
#include "tools/neuron-profile/output/report.h"
#include "tools/neuron-profile/output/tables.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using namespace neuron;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "accepted, but %s\n", what);
  std::abort();
}

base::FileDescriptor file_of(const uint8_t* data, size_t size) {
  base::FileDescriptor file(memfd_create("profile", MFD_CLOEXEC));
  require(::write(file.get(), data, size) == static_cast<ssize_t>(size), "the file is not written");
  return file;
}

// Packs pieces of the input as chunks.
base::FileDescriptor packed(const uint8_t* data, size_t size) {
  base::FileDescriptor file(memfd_create("profile", MFD_CLOEXEC));
  auto writer = ntff::TraceFileWriter::create("/proc/self/fd/" + std::to_string(file.get()));
  require(writer.has_value(), "a file in memory cannot be made");
  while (size >= 4) {
    const size_t length = std::min<size_t>(size - 4, data[2] | data[3] << 8);
    const bool written =
        writer
            ->write(static_cast<ntff::ChunkKind>(data[0] % 12),
                    {.part = data[1] % 3u, .index = data[1] / 3u}, std::span(data + 4, length))
            .has_value();
    require(written, "a chunk is not written");
    data += 4 + length;
    size -= 4 + length;
  }
  require(writer->finish().has_value(), "the file is not written");
  return file;
}

// One for all inputs of the process, which removes it at its end.
const std::string& tables_folder() {
  struct Folder {
    std::string path = std::filesystem::temp_directory_path() / "ntff_fuzz.XXXXXX";
    Folder() { require(::mkdtemp(path.data()) != nullptr, "there is no folder for tables"); }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

void show(profile::Profile& profile, uint32_t part, size_t execution) {
  auto analysis = profile::Analysis::of(profile, part, execution);
  if (!analysis) return;
  uint64_t sum = analysis->path.unexplained;
  for (const profile::Step& step : analysis->path.steps) {
    require(step.begin < step.end, "a step of the critical path has no time");
    sum += step.time();
  }
  require(sum == analysis->path.total, "the critical path does not add up");
  auto sink = profile::Sink::open("/dev/null");
  if (!sink) return;
  (void)profile::report_text(profile, part, execution, {});
  (void)profile::summary_json(profile, part, execution, true);
  (void)profile::write_detail_json(profile, part, execution, *sink);
  (void)profile::write_detail_csv(profile, part, execution, "path", *sink);
  (void)profile::write_perfetto(profile, part, execution, *sink);
  (void)profile::write_page(profile, part, execution, *sink);
  (void)profile::write_tables(profile, part, execution, {.folder = tables_folder(), .neff = {}});
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  auto file = data[0] % 2 == 0 ? file_of(data + 1, size - 1) : packed(data + 1, size - 1);
  auto profile = profile::Profile::read(std::move(file), "profile");
  if (!profile) {
    require(!profile.error().sentence.empty(), "a profile is refused silently");
    return 0;
  }
  require(!profile->parts().empty(), "a profile has no program");
  profile::write_session_json(*profile, [](std::string_view) {});
  for (uint32_t part = 0; part < profile->parts().size(); ++part) {
    const auto shown = profile::representative(profile->parts()[part]);
    if (shown) show(*profile, part, *shown);
  }
  return 0;
}
