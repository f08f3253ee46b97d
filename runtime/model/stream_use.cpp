// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/stream_use.h"

#include <map>

namespace neuron::runtime {

Result<std::vector<StreamUse>> streams_of(const std::vector<neff::Collective>& operations,
                                          const CorePlace& core) {
  constexpr uint16_t kAllEngines = 0xFFFF;
  std::map<uint32_t, uint32_t> counts;
  for (const neff::Collective& c : operations) ++counts[c.stream];
  std::vector<StreamUse> streams;
  for (const auto& [stream, count] : counts) {
    if (stream >= core.chip->cc_cores) {
      return fail(NRT_UNSUPPORTED_NEFF_VERSION,
                  "a collective is on stream {}; a core of generation {} has {} collective cores: "
                  "use streams 0 to {}",
                  stream, core.chip->generation, core.chip->cc_cores, core.chip->cc_cores - 1);
    }
    streams.push_back(
        {stream, counts.size() == 1 ? kAllEngines : core.chip->cc_engines(stream), count});
  }
  return streams;
}

}  // namespace neuron::runtime
