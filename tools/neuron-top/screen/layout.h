// SPDX-License-Identifier: Apache-2.0
//
// Where things stand on a screen of a given size: a view becomes a canvas.
//
// Callers: main loop, --once, tests. One thread; no terminal. Cannot fail: what has no room is left
// out, the least needed first; from 20 columns by 5 lines on there is something to read.
#ifndef TOOLS_NEURON_TOP_SCREEN_LAYOUT_H
#define TOOLS_NEURON_TOP_SCREEN_LAYOUT_H

#include "tools/neuron-top/model/view.h"
#include "tools/neuron-top/screen/canvas.h"

namespace neuron::top {

struct LayoutOptions {
  int width = 80, height = 24;
  bool unicode = true;  // else nothing but ASCII
};

Canvas lay_out(const View& view, const LayoutOptions& options);

}  // namespace neuron::top

#endif
