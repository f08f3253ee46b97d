// SPDX-License-Identifier: Apache-2.0
// Bits and model times that the kernels must give with the inputs of kernels_test.cpp, on every
// host, SIMD path and back end. A change of numerics or of the cost model changes them on purpose:
// then the failing test prints the new ones. Callers: kernels_test.cpp. Constants.
#ifndef TESTS_DIFFERENTIAL_GOLDENS_H
#define TESTS_DIFFERENTIAL_GOLDENS_H

#include <cstdint>

namespace neuron::differential {

struct Golden {
  uint64_t hash;       // FNV-1a of the output
  uint64_t device_ps;  // Of an execution whose rings are set up
};

inline constexpr Golden kMatmulF32{0x37e62c1c06855fe3u, 10500460};
inline constexpr Golden kMatmulBf16{0x445ce40b77772115u, 12597553};
inline constexpr Golden kMatmulBlocked{0xaf40a7cda9393ddfu, 125902603};
inline constexpr Golden kSoftmaxF32{0xd1b4d15d005bf8b7u, 12567846};
inline constexpr Golden kSoftmaxBf16{0x80ecf1fc3aa9769au, 11490069};
inline constexpr Golden kSoftmaxFewRows{0x101302c19b83d447u, 5779259};
inline constexpr Golden kTensorAdd{0xa19135546fdc3e54u, 16151633};
inline constexpr Golden kDigits{0x24c89e64788dd5bau, 9136185};
inline constexpr Golden kLayerNormF32{0x4427337ebc99fc20u, 23759893};
inline constexpr Golden kLayerNormBf16{0xda88046d388150e6u, 33759603};
inline constexpr Golden kRmsNormF32{0x4ab66cf7c2d7d99fu, 17031170};
inline constexpr Golden kRmsNormBf16{0x5d0f3f1d6d72f89au, 17348102};
inline constexpr Golden kSoftmaxLoop{0x5e819496beaa86cdu, 14395395};
inline constexpr Golden kGeluF32{0x1df949c28cf374a8u, 11826404};
inline constexpr Golden kGeluBf16{0x48df14d9a3bda483u, 11826404};
inline constexpr Golden kGeluMlpF32{0x90d3d5e933711905u, 9790394};
inline constexpr Golden kGeluMlpBf16{0x84627f64defc28d8u, 14514097};
inline constexpr Golden kTransposePe{0xc6d562276e210be2u, 7413404};
inline constexpr Golden kTransposeDve{0x27ead05658f076b3u, 8530963};
inline constexpr Golden kTransposeDma{0x49e37cc054cb6c8cu, 33585702};
inline constexpr Golden kTransposeDmaOdd{0x44922f606145b5d9u, 7837702};
inline constexpr Golden kAveragePoolF32{0x40b5642cb23a8a2bu, 7285047};
inline constexpr Golden kAveragePoolBf16{0xe246ad2eda659da0u, 5239619};
inline constexpr Golden kMatmulBasic{0xaaa9d5fff1439865u, 6278833};
inline constexpr Golden kMatmulTiled{0xb2689f29ecede618u, 33914975};
inline constexpr Golden kMatmulHoisted{0xb2689f29ecede618u, 30592687};
inline constexpr Golden kMatmulBlockedForm{0xb2689f29ecede618u, 27240780};
inline constexpr Golden kMatmulBf16Large{0x12216d365ab03a90u, 35309615};
inline constexpr Golden kCumulativeSumF32{0x901c91089f4c3852u, 12144975};
inline constexpr Golden kCumulativeSumBf16{0xc7cd734933f1b1cdu, 23692191};
inline constexpr Golden kRopeHalves{0x7638a36be68cd124u, 20598954};
inline constexpr Golden kRopeInterleaved{0x87164bdc63d59fa8u, 28564409};
inline constexpr Golden kAttentionF32{0xe31ce1996cde4c11u, 17089244};
inline constexpr Golden kAttentionBf16{0x477ca2d01c2aae02u, 20919142};
inline constexpr Golden kAttentionBlocks{0x594573c7382771eeu, 31713519};
inline constexpr Golden kAttentionCausalF32{0x1452279e821d0111u, 15788171};
inline constexpr Golden kAttentionCausalBf16{0x1dfa5ace840e9c46u, 23835334};
inline constexpr Golden kConvolutionBf16{0x2c1c0d06a5fecb2eu, 17434248};
inline constexpr Golden kConvolutionF32{0x0037fca764f46ae6u, 142830600};
inline constexpr Golden kMambaV1{0xb6d9ceca854d453au, 138221047};
inline constexpr Golden kMambaV2{0x3125eb8968d01ffeu, 48496685};
inline constexpr Golden kMambaV3{0x94c541c217223254u, 120963013};

}  // namespace neuron::differential

#endif
