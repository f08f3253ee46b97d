/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * A set of activation functions as load_table reads it from device memory: piece-wise polynomials,
 * version 1. This format is ours; the tables of real devices are not public.
 *
 * A set is an array of 32-bit little-endian words: the header, then the functions, then the pieces.
 * A device holds one set at a time. `activate` names it by the number that load_table gave it
 * (op.set, 1..255) and one of its functions (op.func, 128..255).
 *
 * A function is `pieces` neighbouring pieces, ascending by `from`; the first begins at -infinity. An
 * input x belongs to the last piece whose `from` is not greater. With t = x - centre in fp32, the
 * result is ((c3 t + c2) t + c1) t + c0, each step one fused multiply-add; leading coefficients that
 * are zero are left out, so that a constant piece is also constant at infinity. NaN gives NaN.
 */
#ifndef HW_ACTIVATION_TABLE_H
#define HW_ACTIVATION_TABLE_H

#define NEURON_TABLE_MAGIC 0x5443414Eu /* "NACT" */
#define NEURON_TABLE_VERSION 1
#define NEURON_TABLE_FIRST_FUNCTION 128
#define NEURON_TABLE_MAX_FUNCTIONS 16
#define NEURON_TABLE_MAX_PIECES 1024 /* of all functions of a set */

/* header: 00-03 magic | 04-07 version | 08-0B functions 1..16 | 0C-0F pieces 1..1024. */
#define NEURON_TABLE_HEADER_WORDS 4
/* function: 00-03 number 128..255 | 04-07 first piece | 08-0B pieces, at least 1 |
 * 0C-0F, 10-13 lowest and highest input that it is documented for, fp32 (strict mode). */
#define NEURON_TABLE_FUNCTION_WORDS 5
/* piece, fp32: 00-03 from | 04-07 centre | 08-0B c0 | 0C-0F c1 | 10-13 c2 | 14-17 c3. */
#define NEURON_TABLE_PIECE_WORDS 6

#endif
