// SPDX-License-Identifier: Apache-2.0
// Makes the pool of tcm_malloc, with memory around it that nothing may touch.
// Callers: main(), before the operator runs. Fails: the process ends.
#ifndef DRIVER_OPERATOR_TCM_POOL_H
#define DRIVER_OPERATOR_TCM_POOL_H

namespace neuron::operators {

void make_tcm();

}  // namespace neuron::operators

#endif
