/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether I/O to an image can be direct, and why not.
 */
#ifndef FLOOP_DIRECT_H
#define FLOOP_DIRECT_H

#include <linux/types.h>

struct file;
struct floop_device;
struct floop_image;
struct floop_io;
struct iov_iter;
struct kiocb;
struct work_struct;

/**
 * struct floop_direct_rules - the rules of direct I/O to a file
 * @odirect: the file system has direct I/O
 * @file_can: it has direct I/O for this file, too
 * @stated: it states the rules of this file (STATX_DIOALIGN)
 * @refused: it has refused direct I/O all the same
 * @align: the alignment of position and length, in bytes
 * @claimed: the @align that the file system states
 * @mem_mask: the bits of a memory address that must be 0
 */
struct floop_direct_rules {
	bool odirect;
	bool file_can;
	bool stated;
	bool refused;
	unsigned int align;
	unsigned int claimed;
	unsigned int mem_mask;
};

/**
 * enum floop_direct - whether I/O can be direct
 * @FLOOP_DIRECT_OK: it can
 * @FLOOP_DIRECT_OFF: LOOP_SET_DIRECT_IO turned it off
 * @FLOOP_DIRECT_NOT_ASKED: nobody asked for it (floop_direct_only_asked)
 * @FLOOP_DIRECT_NO_ODIRECT: the file system has no direct I/O
 * @FLOOP_DIRECT_NOT_THIS_FILE: it has, but not for this file
 * @FLOOP_DIRECT_REFUSED: it claims to have it, and refuses it
 * @FLOOP_DIRECT_OFFSET: the device begins between two blocks
 * @FLOOP_DIRECT_BLOCK_SIZE: the device's blocks are smaller, or no multiple
 */
enum floop_direct {
	FLOOP_DIRECT_OK,
	FLOOP_DIRECT_OFF,
	FLOOP_DIRECT_NOT_ASKED,
	FLOOP_DIRECT_NO_ODIRECT,
	FLOOP_DIRECT_NOT_THIS_FILE,
	FLOOP_DIRECT_REFUSED,
	FLOOP_DIRECT_OFFSET,
	FLOOP_DIRECT_BLOCK_SIZE,
};

extern bool floop_direct_only_asked;

void floop_direct_learn(struct file *file, struct floop_direct_rules *rules);
ssize_t floop_direct_io(const struct kiocb *how, struct iov_iter *iter);
void floop_direct_probe(struct floop_image *image);
bool floop_direct_is_refusal(const struct floop_image *image, long result);
void floop_direct_refused(struct floop_io *io);
void floop_direct_give_up(struct work_struct *work);
unsigned int floop_direct_freeze(struct floop_image *image);
enum floop_direct floop_direct_check(const struct floop_image *image,
				     unsigned int block_size);
int floop_direct_describe(const struct floop_image *image,
			  enum floop_direct verdict, char *buf, size_t size);
void floop_direct_decide(struct floop_device *dev, struct floop_image *image,
			 unsigned int block_size, bool asked);

#endif /* FLOOP_DIRECT_H */
