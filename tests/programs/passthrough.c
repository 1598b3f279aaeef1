// SPDX-License-Identifier: GPL-2.0
/*
 * A FUSE file system of one file, "image", that is another file.
 *
 *   passthrough [-d] [-p] [-s] FILE FOLDER
 *
 * It serves the file until the folder is unmounted.
 * -d: every open is with FOPEN_DIRECT_IO, which keeps the kernel's page cache
 * out of it. -p: the kernel reads and writes the file by itself, past us
 * (FUSE_PASSTHROUGH). -s: a read of more than 4 KiB is answered with 4 KiB.
 * With -d the kernel hands that on. (A short answer to an asynchronous write is
 * EIO: fuse_get_res_by_io().)
 */
#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 17)
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <sys/stat.h>

#include "common.h"

#define IMAGE	2	/* its inode; FUSE_ROOT_ID is the folder */
#define SHORT	4096
#define TIMEOUT	1.0	/* seconds that the kernel may count on what we say */

static int file, backing;
static bool direct, passthrough, in_part;

static void attributes(fuse_ino_t ino, struct stat *st)
{
	if (fstat(file, st))
		die("fstat: %s", strerror(errno));
	st->st_ino = ino;
	if (ino == FUSE_ROOT_ID) {
		st->st_mode = S_IFDIR | 0755;
		st->st_nlink = 2;
	}
}

static void do_init(void *data, struct fuse_conn_info *conn)
{
	(void)data;
	if (passthrough && !fuse_set_feature_flag(conn, FUSE_CAP_PASSTHROUGH))
		die("this kernel has no passthrough");
}

static void do_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry = {
		.ino = IMAGE, .attr_timeout = TIMEOUT, .entry_timeout = TIMEOUT,
	};

	if (parent != FUSE_ROOT_ID || strcmp(name, "image")) {
		fuse_reply_err(req, ENOENT);
		return;
	}
	attributes(IMAGE, &entry.attr);
	fuse_reply_entry(req, &entry);
}

static void do_getattr(fuse_req_t req, fuse_ino_t ino,
		       struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	attributes(ino, &st);
	fuse_reply_attr(req, &st, TIMEOUT);
}

static void do_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr,
		       int which, struct fuse_file_info *fi)
{
	if ((which & FUSE_SET_ATTR_SIZE) && ftruncate(file, attr->st_size))
		fuse_reply_err(req, errno);
	else
		do_getattr(req, ino, fi);
}

static void do_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (ino != IMAGE) {
		fuse_reply_err(req, EISDIR);
		return;
	}
	fi->direct_io = direct;
	if (passthrough) {
		/* All opens of an inode have the same one. */
		if (!backing)
			backing = fuse_passthrough_open(req, file);
		if (backing <= 0)
			die("the kernel doesn't take the file for passthrough");
		fi->backing_id = backing;
	}
	fuse_reply_open(req, fi);
}

static void do_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t pos,
		    struct fuse_file_info *fi)
{
	struct fuse_bufvec buf = FUSE_BUFVEC_INIT(size);

	(void)ino;
	(void)fi;
	if (passthrough)
		die("a read that should have passed through");
	if (in_part && size > SHORT)
		buf.buf[0].size = SHORT;
	buf.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	buf.buf[0].fd = file;
	buf.buf[0].pos = pos;
	fuse_reply_data(req, &buf, 0);
}

static void do_write(fuse_req_t req, fuse_ino_t ino, const char *data,
		     size_t size, off_t pos, struct fuse_file_info *fi)
{
	ssize_t ret;

	(void)ino;
	(void)fi;
	if (passthrough)
		die("a write that should have passed through");
	ret = pwrite(file, data, size, pos);
	if (ret < 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_write(req, ret);
}

static void do_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
		     struct fuse_file_info *fi)
{
	(void)ino;
	(void)datasync;
	(void)fi;
	fuse_reply_err(req, fsync(file) ? errno : 0);
}

static void do_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t pos,
			 off_t size, struct fuse_file_info *fi)
{
	(void)ino;
	(void)fi;
	fuse_reply_err(req, fallocate(file, mode, pos, size) ? errno : 0);
}

static const struct fuse_lowlevel_ops ops = {
	.init = do_init,
	.lookup = do_lookup,
	.getattr = do_getattr,
	.setattr = do_setattr,
	.open = do_open,
	.read = do_read,
	.write = do_write,
	.fsync = do_fsync,
	.fallocate = do_fallocate,
};

int main(int argc, char **argv)
{
	char *name[] = { argv[0], NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, name);
	struct fuse_session *session;
	int opt;

	while ((opt = getopt(argc, argv, "dps")) != -1) {
		switch (opt) {
		case 'd':
			direct = true;
			break;
		case 'p':
			passthrough = true;
			break;
		case 's':
			in_part = true;
			break;
		default:
			die("usage: passthrough [-d] [-p] [-s] FILE FOLDER");
		}
	}
	if (argc - optind != 2)
		die("usage: passthrough [-d] [-p] [-s] FILE FOLDER");
	file = open(argv[optind], O_RDWR | O_CLOEXEC);
	if (file < 0)
		die("%s: %s", argv[optind], strerror(errno));
	session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (!session || fuse_session_mount(session, argv[optind + 1]))
		die("%s: can't be mounted", argv[optind + 1]);
	opt = fuse_session_loop(session);
	fuse_session_unmount(session);
	fuse_session_destroy(session);
	return opt ? EXIT_FAILURE : EXIT_SUCCESS;
}
