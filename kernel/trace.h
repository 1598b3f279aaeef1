/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints: the guard's epochs, and the path of each I/O.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM floop

#if !defined(FLOOP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define FLOOP_TRACE_H

#include <linux/bio.h>
#include <linux/tracepoint.h>

#include "device.h"
#include "image.h"

DECLARE_EVENT_CLASS(floop_epoch,
		    TP_PROTO(struct floop_image *image),
		    TP_ARGS(image),
		    TP_STRUCT__entry(__field(int, device)
				     __field(unsigned long, epoch)),
		    TP_fast_assign(__entry->device = image->dev->number;
				   __entry->epoch = image->guard.epoch;),
		    TP_printk("device=%d epoch=%lu", __entry->device,
			      __entry->epoch)
);

/* The map is true from here on. */
DEFINE_EVENT(floop_epoch, floop_epoch_begin,
	     TP_PROTO(struct floop_image *image),
	     TP_ARGS(image));
/* Another opener, or a change of the image, ended the epoch. */
DEFINE_EVENT(floop_epoch, floop_epoch_break,
	     TP_PROTO(struct floop_image *image),
	     TP_ARGS(image));
/* The last mapped I/O has ended; the other opener may go on. */
DEFINE_EVENT(floop_epoch, floop_epoch_drain,
	     TP_PROTO(struct floop_image *image),
	     TP_ARGS(image));
/* We change the file ourselves. */
DEFINE_EVENT(floop_epoch, floop_epoch_pause,
	     TP_PROTO(struct floop_image *image),
	     TP_ARGS(image));

DECLARE_EVENT_CLASS(floop_io,
		    TP_PROTO(struct floop_image *image, struct bio *bio),
		    TP_ARGS(image, bio),
		    TP_STRUCT__entry(__field(int, device)
				     __field(unsigned int, opf)
				     __field(unsigned long long, sector)
				     __field(unsigned int, sectors)),
		    TP_fast_assign(__entry->device = image->dev->number;
				   __entry->opf = (__force u32)bio->bi_opf;
				   __entry->sector = bio->bi_iter.bi_sector;
				   __entry->sectors = bio_sectors(bio);),
		    TP_printk("device=%d op=%u flags=%#x sector=%llu sectors=%u",
			      __entry->device,
			      __entry->opf & (__force u32)REQ_OP_MASK,
			      __entry->opf & ~(__force u32)REQ_OP_MASK,
			      __entry->sector, __entry->sectors)
);

/* Straight to the disk; with the device's own sector. */
DEFINE_EVENT(floop_io, floop_io_mapped,
	     TP_PROTO(struct floop_image *image, struct bio *bio),
	     TP_ARGS(image, bio));
/* A read of a hole, answered at once. */
DEFINE_EVENT(floop_io, floop_io_hole,
	     TP_PROTO(struct floop_image *image, struct bio *bio),
	     TP_ARGS(image, bio));
/* Through the file system. */
DEFINE_EVENT(floop_io, floop_io_file,
	     TP_PROTO(struct floop_image *image, struct bio *bio),
	     TP_ARGS(image, bio));
/* Writes through the file system, merged into one. */
DEFINE_EVENT(floop_io, floop_io_join,
	     TP_PROTO(struct floop_image *image, struct bio *bio),
	     TP_ARGS(image, bio));

#endif /* FLOOP_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
