// SPDX-License-Identifier: Apache-2.0
// The one place of libccom where the headers of Boost.JSON become code.
#include <boost/json/src.hpp>
