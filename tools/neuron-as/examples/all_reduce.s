# SPDX-License-Identifier: Apache-2.0
# y = (sum of 2 x over all ranks) + 1, written by hand: compute, all-reduce between cores, compute, with the
# buffers of the collective in SBUF. Every rank runs this program on its own x; load it with nrt_load_collectives.
#
# A buffer in SBUF is [partitions, bytes of a row]: row after row, one a partition. The n-th cc_trigger of a
# stream starts the n-th .collective of that stream; the collective's semaphore tells that it has ended here.
#
#   neuron-as all_reduce.s -o all_reduce.neff
.neff name=all_reduce_by_hand, build="neuron-as example"
.target trn1
.sem loaded, doubled, reduced, finished, stored
.var x : f32 [128, 64] input, format=NC
.var y : f32 [128, 64] output, format=NC
.var sbuf : state-buffer, size=0x2000000     # partition p begins at p * 262144
.queue q_in = in, engines=16, owner=SP
.queue q_out = out, engines=16, owner=SP

.equ X 0x0000         # f32 [64] of a partition
.equ SUM 0x0400

.collective all_reduce f32 [8192] add : sbuf + X [128, 256] -> sbuf + SUM [128, 256], semaphore=reduced

.engine SP
.dma 0 load : x [128, 256] -> sbuf + X [128:262144, 256], queue=q_in, semaphore=loaded
.dma 1 store : sbuf + SUM [128:262144, 256] -> y [128, 256], queue=q_out, semaphore=stored
main:
        dma_trigger load
        cc_trigger at=&cc:0 s0=1                        wait(doubled >= 1)
        dma_trigger store                               wait(finished >= 1)
        event                                           wait(stored >= 16)
        ret

.engine DVE
main:
        tensor_scalar sbuf[0:128, X] f32 [64] = sbuf[0:128, X] f32 [64], op0=mul s0=2.0      wait(loaded >= 16) then(doubled++)
        tensor_scalar sbuf[0:128, SUM] f32 [64] = sbuf[0:128, SUM] f32 [64], op0=add s0=1.0  wait(reduced >= 1) then(finished++)
        ret
