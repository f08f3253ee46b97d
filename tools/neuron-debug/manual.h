// SPDX-License-Identifier: Apache-2.0
//
// The texts of neuron-debug for --help and its manual page.
// Callers: its main(). Thread-safe: constant. Cannot fail.
#ifndef TOOLS_NEURON_DEBUG_MANUAL_H
#define TOOLS_NEURON_DEBUG_MANUAL_H

#include "tools/common/manual.h"

namespace neuron::debug {

inline tools::Manual manual() {
  return {
      .name = "neuron-debug",
      .summary = "stop a NEFF in front of an instruction, and look at its core",
      .description =
          R"(Loads a NEFF onto one NeuronCore and executes it under control: engines stop at breakpoints or after single
instructions, and registers, semaphores and tiles are shown as they are then. Commands come from `-x FILE`, or
from standard input. The short form of a command is its beginning: b, c, s, p, info b.

Only the engine that meets a breakpoint stops; the others go on until they wait for it, and the device's clock with
them. Executions repeat to the bit, so what was missed is met again by another `run`.)",
      .sections =
          {{"COMMANDS",
            R"(break ENGINE:PC :: Stop in front of an instruction. Places count as in `neuron-as -d`. Also: `break FILE:LINE`, or
`break SECTION`, the first instruction of each engine there; `break semaphore N`, what waits for or changes a
semaphore, by number or name. An engine can have 8 breakpoints.

delete [N] :: Remove a breakpoint, or all.

run :: Execute the model once. Inputs are made up, or those of `--input`.

continue :: Let all engines go on. At the end of the commands this is done without being asked, and
the breakpoints are gone.

step [COUNT] [ENGINE] :: Execute so many instructions of the engine that stopped last, or of another that is
stopped.

info engines|semaphores|breakpoints :: What each engine does and on what, semaphores that are not 0, breakpoints.

print ENGINE [rN] :: Registers that are not 0, or one.

print semaphore N :: Its value.

print sbuf|psum PARTITION[:COUNT] OFFSET TYPE COUNT :: Numbers of some partitions, a line each: `print sbuf 0:4
0x800 f32 16`. Types: f32, bf16, f16, i32, u32, i16, u16, i8, u8.

picture sbuf|psum PARTITION[:COUNT] OFFSET TYPE COUNT [FILE.png] :: The same in ten shades, ? for NaN and ! for
infinite. Into a file: a pixel a number, from black to white; NaN is red, infinite blue.

list [ENGINE[:PC]] :: Instructions around a place.

quit :: Break the execution off, and end.)"},
           {"FAULTS",
            R"(When an execution fails, commands are read once more before the core is reset, so that engines and memory
can be seen as the fault left them; `continue` ends that.

The device's strict mode is off unless NEURON_EMULATOR_STRICT says otherwise: it takes a look at a tile for an
access, which races with the program. A neuron-emulatord decides by its own setting.)"}},
      .exit_statuses = {tools::kDoneStatus,
                        {1,
                         "there is no device, the NEFF cannot be loaded, or a command was wrong; "
                         "the output says why"},
                        tools::kUsageStatus,
                        {3, "no permission to open the devices"},
                        {4, "somebody holds the cores"}},
      .environment = {tools::kEmulatorVariable,
                      {"NEURON_RT_VISIBLE_CORES", "the cores of which the first one is used"}},
      .examples = {{"neuron-debug model.neff", "commands from the terminal"},
                   {"neuron-debug model.neff -x commands.txt", "commands from a file"},
                   {"neuron-debug model.neff --break-on-nan",
                    "run stops in front of the instruction that makes the first NaN"}},
      .see_also = {"neuron-run(1)", "neuron-as(1)", "neuron-profile(1)"}};
}

}  // namespace neuron::debug

#endif
