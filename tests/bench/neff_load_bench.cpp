// SPDX-License-Identifier: Apache-2.0
// nrt_load of a compressed NEFF with 64 MiB of random weights against tar, which unpacks the same
// payload into a folder.
#include <filesystem>
#include <memory>
#include <random>

#include "runtime/neff/container.h"
#include "runtime/neff/neff_writer.h"
#include "tests/bench/ratio.h"
#include "tests/bench/session.h"
#include "tests/support/files.h"
#include "tests/support/process.h"

namespace neuron::bench {
namespace {

constexpr size_t kWeights = 64u << 20;

// The empty program of the build with a constant that nothing reads.
runtime::Result<std::vector<uint8_t>> heavy_program() {
  const std::vector<uint8_t> bytes =
      tools::bytes_of(test::read_file(test::built("neff/empty.neff")));
  NEURON_TRY(container, neff::Container::open(bytes));
  tools::NeffMembers members;
  for (const neff::Member& member : container.members()) {
    members[member.name].assign(member.bytes.begin(), member.bytes.end());
  }
  std::vector<uint8_t>& definition = members["sg00/def.json"];
  std::string text(definition.begin(), definition.end());
  const size_t at = text.find("\"var\":{");
  if (at == std::string::npos) {
    return runtime::fail(NRT_FAILURE, "empty.neff has no \"var\" in its def.json");
  }
  text.insert(at + 7,
              R"("weights":{"type":"file","var_id":4000000,"file_name":"weights.dat","size":)" +
                  std::to_string(kWeights) + "},");
  definition = tools::bytes_of(text);
  std::vector<uint8_t>& weights = members["sg00/weights.dat"];
  weights.resize(kWeights);
  std::mt19937_64 random(1);
  for (size_t i = 0; i < kWeights; i += 8) {
    const uint64_t word = random();
    std::copy_n(reinterpret_cast<const uint8_t*>(&word), 8, weights.data() + i);
  }
  return tools::write_neff(members, {.name = "heavy", .build_version = "bench"});
}

// A folder with the payload, removed with everything in it.
class Archive {
 public:
  explicit Archive(const std::vector<uint8_t>& neff) {
    folder_.write("payload.tgz", std::span(neff).subspan(NEFF_HEADER_BYTES));
  }
  // Seconds, or negative.
  double unpack() const {
    const std::string target = folder_.path("unpacked");
    std::error_code error;
    std::filesystem::remove_all(target, error);
    if (!std::filesystem::create_directory(target, error)) return -1;
    const double start = now_seconds();
    const test::Run run = test::run({"tar", "xzf", folder_.path("payload.tgz"), "-C", target});
    return run.ending == 0 ? now_seconds() - start : -1;
  }

 private:
  const test::Folder folder_;
};

}  // namespace

Ratio neff_load() {
  Ratio ratio{.name = "neff-load", .peer_name = "tar xzf", .unit = "s per load", .goal = 1.5};
  ratio.smaller_is_better = true;
  ratio.rounds = 5;
  ratio.error = initialise();
  if (!ratio.error.empty()) return ratio;
  auto made = heavy_program();
  if (!made) {
    ratio.error = made.error().sentence;
    return ratio;
  }
  auto neff = std::make_shared<std::vector<uint8_t>>(std::move(*made));
  auto archive = std::make_shared<Archive>(*neff);
  ratio.ours = [neff] {
    nrt_model_t* model = nullptr;
    const double start = now_seconds();
    if (nrt_load(neff->data(), neff->size(), 0, 1, &model) != NRT_SUCCESS) return -1.0;
    const double seconds = now_seconds() - start;
    return nrt_unload(model) == NRT_SUCCESS ? seconds : -1.0;
  };
  ratio.peer = [archive] { return archive->unpack(); };
  return ratio;
}

}  // namespace neuron::bench
