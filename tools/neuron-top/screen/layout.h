// SPDX-License-Identifier: Apache-2.0
//
// Lays out a view on a canvas of a given size.
//
// Callers: main loop, --once, tests. One thread; no terminal. Cannot fail: parts without room are
// left out, the least important first; 20 columns by 5 lines are enough to read something.
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
