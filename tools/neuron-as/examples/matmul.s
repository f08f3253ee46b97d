# SPDX-License-Identifier: Apache-2.0
# c[128, 512] = transpose(a[1024, 128]) * b[1024, 512], written by hand.
#
# K is cut into 8 tiles of 128. Two pairs of buffers in SBUF, each with its own semaphores: while PE
# multiplies one pair, SP brings the next into the other. A trigger pushes the next transfer that the
# queue's ring holds, so the .dma lines stand in the order in which the loop triggers them.
#
#   neuron-as matmul.s -o matmul.neff
.neff name=matmul_by_hand, build="neuron-as example"
.target trn1
.sem full0, full1     # tile pair in buffer 0, 1 arrived: 16 DMA engines for a, 16 for b
.sem free0, free1     # times PE has consumed the buffer
.sem acc_done         # the product is complete in PSUM
.sem c_ready          # and lies in SBUF
.sem c_out            # and in HBM
.var a : bf16 [1024, 128] input, format=NC
.var b : bf16 [1024, 512] input, format=NC
.var c : f32 [128, 512] output, format=NC
.var sbuf : state-buffer, size=0x2000000     # partition p begins at p * 262144
.queue q_in = in, engines=16, owner=SP
.queue q_out = out, engines=16, owner=SP

.equ A0 0x0000        # bf16 [128] of a partition
.equ A1 0x0100
.equ B0 0x4000        # bf16 [512]
.equ B1 0x4400
.equ C 0x8000         # f32 [512]

.engine SP                                              # brings tiles in, takes the result out
.dma 0 load_a0 : a           [128, 256]  -> sbuf + A0 [128:262144, 256],  queue=q_in, semaphore=full0
.dma 1 load_b0 : b           [128, 1024] -> sbuf + B0 [128:262144, 1024], queue=q_in, semaphore=full0
.dma 2 load_a1 : a + 0x08000 [128, 256]  -> sbuf + A1 [128:262144, 256],  queue=q_in, semaphore=full1
.dma 3 load_b1 : b + 0x20000 [128, 1024] -> sbuf + B1 [128:262144, 1024], queue=q_in, semaphore=full1
.dma 0 load_a0 : a + 0x10000 [128, 256]  -> sbuf + A0 [128:262144, 256],  queue=q_in, semaphore=full0
.dma 1 load_b0 : b + 0x40000 [128, 1024] -> sbuf + B0 [128:262144, 1024], queue=q_in, semaphore=full0
.dma 2 load_a1 : a + 0x18000 [128, 256]  -> sbuf + A1 [128:262144, 256],  queue=q_in, semaphore=full1
.dma 3 load_b1 : b + 0x60000 [128, 1024] -> sbuf + B1 [128:262144, 1024], queue=q_in, semaphore=full1
.dma 0 load_a0 : a + 0x20000 [128, 256]  -> sbuf + A0 [128:262144, 256],  queue=q_in, semaphore=full0
.dma 1 load_b0 : b + 0x80000 [128, 1024] -> sbuf + B0 [128:262144, 1024], queue=q_in, semaphore=full0
.dma 2 load_a1 : a + 0x28000 [128, 256]  -> sbuf + A1 [128:262144, 256],  queue=q_in, semaphore=full1
.dma 3 load_b1 : b + 0xA0000 [128, 1024] -> sbuf + B1 [128:262144, 1024], queue=q_in, semaphore=full1
.dma 0 load_a0 : a + 0x30000 [128, 256]  -> sbuf + A0 [128:262144, 256],  queue=q_in, semaphore=full0
.dma 1 load_b0 : b + 0xC0000 [128, 1024] -> sbuf + B0 [128:262144, 1024], queue=q_in, semaphore=full0
.dma 2 load_a1 : a + 0x38000 [128, 256]  -> sbuf + A1 [128:262144, 256],  queue=q_in, semaphore=full1
.dma 3 load_b1 : b + 0xE0000 [128, 1024] -> sbuf + B1 [128:262144, 1024], queue=q_in, semaphore=full1
.dma 4 store_c : sbuf + C [128:262144, 2048] -> c [128, 2048], queue=q_out, semaphore=c_out
main:
        loop r0 = 0 .. 4 step 1 {
          dma_trigger load_a0                           wait(free0 >= r0)
          dma_trigger load_b0
          dma_trigger load_a1                           wait(free1 >= r0)
          dma_trigger load_b1
        }
        dma_trigger store_c                             wait(c_ready >= 1)
        event                                           wait(c_out >= 16)
        ret

.engine PE
main:
        mov r4 = 32
        ldweights sbuf[0:128, A0] bf16 [128]                                            wait(full0 >= r4)
        matmul psum[0:128, 0x0] f32 [512] = sbuf[0:128, B0] bf16 [512], new, swap       then(free0++!)
        ldweights sbuf[0:128, A1] bf16 [128]                                            wait(full1 >= r4)
        matmul psum[0:128, 0x0] f32 [512] = sbuf[0:128, B1] bf16 [512], acc, swap       then(free1++!)
        loop r0 = 1 .. 4 step 1 {
          alu r4 = r4 + 32
          ldweights sbuf[0:128, A0] bf16 [128]                                          wait(full0 >= r4)
          matmul psum[0:128, 0x0] f32 [512] = sbuf[0:128, B0] bf16 [512], acc, swap     then(free0++!)
          ldweights sbuf[0:128, A1] bf16 [128]                                          wait(full1 >= r4)
          matmul psum[0:128, 0x0] f32 [512] = sbuf[0:128, B1] bf16 [512], acc, swap     then(free1++!)
        }
        event                                                                           then(acc_done++)
        ret

.engine Activation
main:
        activate sbuf[0:128, C] f32 [512] = copy psum[0:128, 0x0] f32 [512]  wait(acc_done >= 1) then(c_ready++)
        ret
