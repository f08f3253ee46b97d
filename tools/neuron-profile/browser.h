// SPDX-License-Identifier: Apache-2.0
//
// A page, shown in the browser of the user's desktop.
//
// Callers: the commands that write pages; one thread. The browser is a process of its own, which
// outlives this one. Fails: NRT_FAILURE if no program opens the page, with what to do by hand.
#ifndef TOOLS_NEURON_PROFILE_BROWSER_H
#define TOOLS_NEURON_PROFILE_BROWSER_H

#include <string>

#include "runtime/base/error.h"

namespace neuron::profile {

// `file`: a path; whoever opens it gets it whole.
runtime::Result<void> show_in_browser(const std::string& file);

}  // namespace neuron::profile

#endif
