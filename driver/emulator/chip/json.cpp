// SPDX-License-Identifier: Apache-2.0
// The JSON library's only translation unit in the emulator: fault plans and profiles read with it.
#include <boost/json/src.hpp>
