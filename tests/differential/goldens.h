// SPDX-License-Identifier: Apache-2.0
// Bits and model times that the kernels must give with the inputs of kernels_test.cpp, on every
// host, SIMD path and back end. A change of numerics or of the cost model changes them on purpose:
// then the failing test prints the new ones. Callers: kernels_test.cpp. Constants.
#ifndef TESTS_DIFFERENTIAL_GOLDENS_H_
#define TESTS_DIFFERENTIAL_GOLDENS_H_

#include <cstdint>

namespace neuron::differential {

struct Golden {
  std::uint64_t hash;       // FNV-1a of the output
  std::uint64_t device_ps;  // Of an execution whose rings are set up
};

inline constexpr Golden kMatmulF32{0x37e62c1c06855fe3u, 10554050};
inline constexpr Golden kMatmulBf16{0x445ce40b77772115u, 14959258};
inline constexpr Golden kMatmulBlocked{0xaf40a7cda9393ddfu, 183873979};
inline constexpr Golden kSoftmaxF32{0xd1b4d15d005bf8b7u, 11503815};
inline constexpr Golden kSoftmaxBf16{0x80ecf1fc3aa9769au, 11503541};
inline constexpr Golden kSoftmaxFewRows{0x101302c19b83d447u, 5239698};
inline constexpr Golden kTensorAdd{0xa19135546fdc3e54u, 13896366};
inline constexpr Golden kDigits{0x24c89e64788dd5bau, 7533917};

}  // namespace neuron::differential

#endif  // TESTS_DIFFERENTIAL_GOLDENS_H_
