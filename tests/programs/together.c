// SPDX-License-Identifier: GPL-2.0
/*
 * together DEVICE: four reads and then a write behind them, in one submission.
 * Prints "reads" when the reads have ended, and "write" when the write has.
 */
#include <fcntl.h>

#include "ring.h"

#define READS	4U
#define SIZE	4096U

int main(int argc, char **argv)
{
	struct ring ring;
	uint8_t *memory;
	uint32_t i;
	int fd;

	if (argc != 2)
		die("together DEVICE");
	fd = open(argv[1], O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		die("%s: %s", argv[1], strerror(errno));
	memory = aligned((READS + 1) * SIZE);
	ring_make(&ring, 0);
	for (i = 0; i <= READS; i++) {
		ring.sqes[i].opcode = i < READS ? IORING_OP_READ :
						  IORING_OP_WRITE;
		ring.sqes[i].fd = fd;
		ring.sqes[i].addr = (uintptr_t)(memory + i * SIZE);
		ring.sqes[i].len = SIZE;
		ring.sqes[i].off = (uint64_t)i << 20;
		ring.sqes[i].user_data = i;
	}
	ring_enter(&ring, READS + 1, READS);
	for (i = 0; i < READS; i++)
		if (ring.cqes[i].user_data == READS ||
		    ring.cqes[i].res != (int)SIZE)
			die("number %ju: %d", (uintmax_t)ring.cqes[i].user_data,
			    ring.cqes[i].res);
	puts("reads");
	fflush(stdout);
	if (syscall(SYS_io_uring_enter, ring.fd, 0, READS + 1,
		    IORING_ENTER_GETEVENTS, NULL, 0))
		die("io_uring_enter: %s", strerror(errno));
	if (ring.cqes[READS].res != (int)SIZE)
		die("the write: %d", ring.cqes[READS].res);
	puts("write");
	return 0;
}
