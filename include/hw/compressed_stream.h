/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Compressed streams: what DMA engines write and read when they compress and decompress (hw/udma.h), and how the
 * constants of a NEFF may be stored. Ours: that the chips do it inline is published, a format is not.
 *
 * A stream is a header of 16 bytes, little endian, and a body of `body` bytes. A reader looks at nothing behind that.
 * The body is the content itself, or sequences in the public block format of LZ4:
 *   token: 7:4 literals, 3:0 length of the match - 4 | if the former is 15: bytes that add to it, up to and with the
 *   first that is not 255 | the literals | u16 distance of the match, 1 to what has been written so far | likewise
 *   bytes that add to the latter.
 * A match repeats what was written `distance` bytes before, also where it overlaps itself. The last sequence ends
 * behind its literals; the content then has exactly `content` bytes, and the body none left.
 * A writer stores content of which a body of sequences would not be shorter, so that a stream is never more than 16
 * bytes longer than its content.
 */
#ifndef HW_COMPRESSED_STREAM_H
#define HW_COMPRESSED_STREAM_H

#define NEURON_STREAM_HEADER_BYTES 16
#define NEURON_STREAM_LEAST_MATCH 4
#define NEURON_STREAM_OFF_MAGIC 0    /* u32 */
#define NEURON_STREAM_OFF_CONTENT 4  /* u32: bytes of the content, 1 to NEURON_STREAM_MAX_CONTENT */
#define NEURON_STREAM_OFF_BODY 8     /* 30:0 bytes of the body, 31 it is the content itself */
#define NEURON_STREAM_OFF_CHECKSUM 12 /* CRC-32C (Castagnoli) of the content */
#define NEURON_STREAM_MAGIC 0x31534E89u
#define NEURON_STREAM_STORED (1u << 31)
#define NEURON_STREAM_MAX_CONTENT 0xFFFFFu /* as a packet of a DMA engine */

#endif
