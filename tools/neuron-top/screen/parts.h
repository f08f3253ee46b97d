// SPDX-License-Identifier: Apache-2.0
//
// The parts of the screen, each drawn from a line on. Callers: lay_out(). No state.
#ifndef TOOLS_NEURON_TOP_SCREEN_PARTS_H
#define TOOLS_NEURON_TOP_SCREEN_PARTS_H

#include "tools/neuron-top/screen/layout.h"

namespace neuron::top {

// The lines that the grid of cores takes, with a bar for each core or as a heat map.
int grid_lines(const View& view, int width);
int heat_lines(const View& view, int width);

void draw_grid(Canvas& canvas, const View& view, int y, bool unicode);
void draw_heat(Canvas& canvas, const View& view, int y, int lines, bool unicode);
void draw_bar(Canvas& canvas, int x, int y, int width, double filled, double more, bool unicode);

// The lower pane, `lines` high with its heading; scrolls so that the selection is visible.
void draw_pane(Canvas& canvas, const View& view, int y, int lines);

void draw_help(Canvas& canvas);

std::string percent_text(double share);  // "56.81%"
std::string flops_text(double flops);    // in teraflops: "12.34T"

}  // namespace neuron::top

#endif
