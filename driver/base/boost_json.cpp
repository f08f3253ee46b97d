// SPDX-License-Identifier: Apache-2.0
// Boost.JSON, compiled once; everybody else includes its headers only. Debian's library would be
// one more file that libnrt.so.1 needs.
#include <boost/json/src.hpp>
