# SPDX-License-Identifier: Apache-2.0
# Two programs for the two cores of a logical core of trn2. The first one copies x0 to y0; its transfer raises a
# semaphore of the other core when the bytes are there. The second one then copies x1 to y1, and tells the first.
# With one tensor for y0 and x1, that is data that one core hands over to the other.
#
# Semaphores 8 to 15 are those that the other core raises. No launch clears them: take what was sent.
#
#   neuron-as two_cores.s -o two_cores.neff
#   NEURON_EMULATOR=trn2.3xlarge neuron-run two_cores.neff --random
.neff name=two_cores, build="neuron-as example"
.target trn2, lnc=2

.subgraph sg00
.sem moved, answered = 8
.var x0 : f32 [128, 64] input
.var y0 : f32 [128, 64] output
.queue q = data, engines=2, owner=SP
.engine SP
.dma 0 : x0 -> y0, queue=q, semaphore=moved, remote=[9]     # 9 is `told` of sg01; each of the 2 queues adds 1
main:
        dma_trigger 0
        event                                   wait(moved >= 2)
        event                                   wait(answered >= 1) then(answered--)
        ret

.subgraph sg01
.sem moved, told = 9
.var x1 : f32 [128, 64] input
.var y1 : f32 [128, 64] output
.queue q = data, engines=2, owner=SP
.engine SP
.dma 0 : x1 -> y1, queue=q, semaphore=moved
main:
        dma_trigger 0                           wait(told >= 2) then(told -= 2)
        write at=&sem_addr:peer:answered s0=1   wait(moved >= 2)
        ret
