// SPDX-License-Identifier: GPL-2.0
/*
 * An LSM that refuses leases, by BPF: as long as this runs.
 *
 *   refuse
 *	half of the leases that are asked for, by whomever, and each that is to
 *	be given up by somebody who asks (vfs_setlease(F_UNLCK)); says
 *	"refusing", and goes on until it is killed
 *   refuse -q
 *	can it be had? Not without CONFIG_BPF_LSM and "bpf" in lsm=
 *
 * What udev and the like lock with flock(2) or fcntl(2) is left alone: the
 * program looks at who asks, and refuses "stress" and kernel workers only.
 */
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/btf.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common.h"

static char *read_btf(size_t *size)
{
	int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
	size_t done = 0;
	struct stat st;
	ssize_t n;
	char *btf;

	if (fd < 0 || fstat(fd, &st))
		return NULL;
	btf = malloc((size_t)st.st_size);
	if (!btf)
		die("no memory");
	while (done < (size_t)st.st_size) {
		n = read(fd, btf + done, (size_t)st.st_size - done);
		if (n <= 0)
			die("BTF: %s", strerror(errno));
		done += (size_t)n;
	}
	close(fd);
	*size = done;
	return btf;
}

/* How many bytes follow a type, of its kind. */
static size_t rest_of(const struct btf_type *t)
{
	unsigned int n = BTF_INFO_VLEN(t->info);

	switch (BTF_INFO_KIND(t->info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return 4;
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return n * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return n * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return n * sizeof(struct btf_enum64);
	case BTF_KIND_FUNC_PROTO:
		return n * sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return n * sizeof(struct btf_var_secinfo);
	default:
		return 0;
	}
}

/* The number of a function of the kernel in its BTF; 0 if there is none. */
static uint32_t function_id(const char *name)
{
	const struct btf_header *head;
	const char *p, *end, *strings;
	uint32_t id = 1;
	size_t size;
	char *btf = read_btf(&size);

	if (!btf)
		return 0;
	head = (const void *)btf;
	p = btf + head->hdr_len + head->type_off;
	end = p + head->type_len;
	strings = btf + head->hdr_len + head->str_off;
	for (; p < end; id++) {
		const struct btf_type *t = (const void *)p;

		if (BTF_INFO_KIND(t->info) == BTF_KIND_FUNC &&
		    !strcmp(strings + t->name_off, name))
			break;
		p += sizeof(*t) + rest_of(t);
	}
	if (p >= end)
		id = 0;
	free(btf);
	return id;
}

static long bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

#define INSN(_code, _dst, _src, _off, _imm) \
	{ .code = (_code), .dst_reg = (_dst), .src_reg = (_src), \
	  .off = (_off), .imm = (_imm) }
#define JUMP(_op, _reg, _imm, _off) \
	INSN(BPF_JMP | (_op) | BPF_K, _reg, 0, _off, _imm)
#define MOVE(_reg, _imm) INSN(BPF_ALU64 | BPF_MOV | BPF_K, _reg, 0, 0, _imm)
#define CALL(_what)		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, _what)

/* The first four bytes of a name, as a number */
#define NAME(_a, _b, _c, _d) \
	((_a) | (_b) << 8 | (_c) << 16 | (_d) << 24)

/* int file_lock(struct file *file, unsigned int cmd): cmd is F_*LCK */
static int load(uint32_t hook)
{
	static const struct bpf_insn program[] = {
		/* r6 = cmd */
		INSN(BPF_LDX | BPF_MEM | BPF_DW, 6, 1, 8, 0),
		INSN(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -16, 0),
		INSN(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 1, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, -16),
		MOVE(2, 16),
		CALL(BPF_FUNC_get_current_comm),
		/* r1 = the name's beginning; somebody else's: allowed */
		INSN(BPF_LDX | BPF_MEM | BPF_W, 1, 10, -16, 0),
		JUMP(BPF_JEQ, 1, NAME('s', 't', 'r', 'e'), 1),
		JUMP(BPF_JNE, 1, NAME('k', 'w', 'o', 'r'), 5),
		/* given up: refused */
		JUMP(BPF_JEQ, 6, F_UNLCK, 2),
		CALL(BPF_FUNC_get_prandom_u32),
		JUMP(BPF_JSET, 0, 1, 2),
		MOVE(0, -EACCES),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
		MOVE(0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	static char log[65536];
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_LSM,
		.expected_attach_type = BPF_LSM_MAC,
		.attach_btf_id = hook,
		.insns = (uintptr_t)program,
		.insn_cnt = sizeof(program) / sizeof(*program),
		.license = (uintptr_t)"GPL",
		.log_buf = (uintptr_t)log,
		.log_size = sizeof(log),
		.log_level = 1,
	};
	int fd = (int)bpf(BPF_PROG_LOAD, &attr);

	if (fd < 0)
		die("BPF_PROG_LOAD: %s\n%s", strerror(errno), log);
	return fd;
}

/* Is there an LSM of that kind among those that the kernel began with? */
static int has_lsm(void)
{
	char list[512] = "";
	int fd = open("/sys/kernel/security/lsm", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	if (read(fd, list, sizeof(list) - 1) < 0)
		*list = '\0';
	close(fd);
	return !!strstr(list, "bpf");
}

/*
 * What is refused to "stress" is refused to us by that name, and not by ours.
 */
static void see_it_refuse(void)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_UN))
		die("it refuses what it should not: %s", strerror(errno));
	prctl(PR_SET_NAME, "stress");
	if (!flock(fd, LOCK_UN) || errno != EACCES)
		die("it doesn't refuse");
	prctl(PR_SET_NAME, "refuse");
	close(fd);
}

int main(int argc, char **argv)
{
	uint32_t hook = has_lsm() ? function_id("bpf_lsm_file_lock") : 0;
	union bpf_attr attr = {};

	if (argc > 1 && !strcmp(argv[1], "-q"))
		return !hook;
	if (!hook)
		die("no LSM by BPF here");
	attr.raw_tracepoint.prog_fd = (uint32_t)load(hook);
	if (bpf(BPF_RAW_TRACEPOINT_OPEN, &attr) < 0)
		die("attaching it: %s", strerror(errno));
	see_it_refuse();
	puts("refusing");
	fflush(stdout);
	pause();
	return 0;
}
