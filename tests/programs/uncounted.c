// SPDX-License-Identifier: GPL-2.0
/*
 * A descriptor that nobody counts: open(PATH, O_ACCMODE), which is neither for
 * reading nor for writing, and what may be done through it all the same.
 *
 *   uncounted [-u UID] PATH
 *
 * opens PATH as that user, says "open", and then does what each line of its
 * input says. The answer is one line: "ok", the errno's name, or "differs".
 *
 *   dedupe FROM POS TO LEN
 *	FIDEDUPERANGE: FROM's bytes are shared, the file's own blocks at TO are
 *	given up
 *   set FLAGS, clear FLAGS
 *	FS_IOC_SETFLAGS, as letters of chattr: i a j e
 *   migrate
 *	EXT4_IOC_MIGRATE
 *   willneed POS LEN
 *	POSIX_FADV_WILLNEED
 *   flood POS LEN
 *	the same again and again, until the next line, which is answered like
 *	any other
 */
#include <fcntl.h>
#include <grp.h>
#include <linux/fs.h>
#include <poll.h>
#include <sys/ioctl.h>

#include "common.h"

#define FLOOD_BLOCK 65536

static int fd;

static const char *answer(int failed)
{
	return failed ? strerrorname_np(errno) : "ok";
}

static const char *dedupe(const char *from, uint64_t pos, uint64_t to,
			  uint64_t len)
{
	struct {
		struct file_dedupe_range range;
		struct file_dedupe_range_info info;
	} ask = {};
	int src = open(from, O_RDONLY);

	if (src < 0)
		return answer(1);
	while (len) {
		ask.range.src_offset = pos;
		ask.range.src_length = len;
		ask.range.dest_count = 1;
		ask.info.dest_fd = fd;
		ask.info.dest_offset = to;
		if (ioctl(src, FIDEDUPERANGE, &ask))
			return answer(1);
		if (ask.info.status == FILE_DEDUPE_RANGE_DIFFERS)
			return "differs";
		if (ask.info.status < 0 || !ask.info.bytes_deduped) {
			errno = -ask.info.status;
			return answer(1);
		}
		pos += ask.info.bytes_deduped;
		to += ask.info.bytes_deduped;
		len -= ask.info.bytes_deduped;
	}
	close(src);
	return "ok";
}

static const char *change_flags(const char *letters, int set)
{
	int flags, change = 0;

	for (; *letters; letters++) {
		switch (*letters) {
		case 'i':
			change |= FS_IMMUTABLE_FL;
			break;
		case 'a':
			change |= FS_APPEND_FL;
			break;
		case 'j':
			change |= FS_JOURNAL_DATA_FL;
			break;
		case 'e':
			change |= FS_EXTENT_FL;
			break;
		default:
			die("%c: not a flag", *letters);
		}
	}
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags))
		return answer(1);
	flags = set ? flags | change : flags & ~change;
	return answer(ioctl(fd, FS_IOC_SETFLAGS, &flags));
}

static const char *will_need(uint64_t pos, uint64_t len)
{
	errno = posix_fadvise(fd, (off_t)pos, (off_t)len, POSIX_FADV_WILLNEED);
	return answer(errno);
}

static void flood(uint64_t pos, uint64_t len)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	struct rng r = { .state = 1 };

	while (!poll(&input, 1, 0))
		will_need(pos + below(&r, len / FLOOD_BLOCK) * FLOOD_BLOCK,
			  FLOOD_BLOCK);
}

static const char *obey(char *line)
{
	char *word[8];
	int n = 0;

	for (word[n] = strtok(line, " \n"); word[n] && n < 7; )
		word[++n] = strtok(NULL, " \n");
	if (n == 5 && !strcmp(word[0], "dedupe"))
		return dedupe(word[1], bytes(word[2]), bytes(word[3]),
			      bytes(word[4]));
	if (n == 2 && !strcmp(word[0], "set"))
		return change_flags(word[1], 1);
	if (n == 2 && !strcmp(word[0], "clear"))
		return change_flags(word[1], 0);
	if (n == 1 && !strcmp(word[0], "migrate"))
		return answer(ioctl(fd, _IO('f', 9)));
	if (n == 3 && !strcmp(word[0], "willneed"))
		return will_need(bytes(word[1]), bytes(word[2]));
	if (n == 3 && !strcmp(word[0], "flood")) {
		flood(bytes(word[1]), bytes(word[2]));
		return "ok";
	}
	die("uncounted: see its first lines");
}

int main(int argc, char **argv)
{
	char line[4096];

	if (argc == 4 && !strcmp(argv[1], "-u")) {
		uid_t uid = (uid_t)bytes(argv[2]);

		if (setgroups(0, NULL) || setresgid(uid, uid, uid) ||
		    setresuid(uid, uid, uid))
			die("user %s: %s", argv[2], strerror(errno));
	} else if (argc != 2) {
		die("uncounted: see its first lines");
	}
	/* Its input is read by poll(): nothing of it may stay in a buffer. */
	setvbuf(stdin, NULL, _IONBF, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	fd = open(argv[argc - 1], O_ACCMODE | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", argv[argc - 1], strerror(errno));
	puts("open");
	while (fgets(line, sizeof(line), stdin))
		puts(obey(line));
	return 0;
}
