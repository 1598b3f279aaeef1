// SPDX-License-Identifier: GPL-2.0
/*
 * Run a command, and stop it before it opens a file.
 *
 *   holdopen PATH COMMAND [ARG]...
 *	when it is about to open PATH for the first time, it says "held" on
 *	standard error, and lets it go on at the end of standard input. Ends as
 *	the command does.
 */
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "common.h"

static int opens(pid_t pid, const char *path)
{
	struct __ptrace_syscall_info info;
	char name[4096] = "";
	struct iovec to = { name, strlen(path) + 1 }, from;

	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, (void *)sizeof(info),
		   &info) < 0)
		die("ptrace: %s", strerror(errno));
	if (info.op != PTRACE_SYSCALL_INFO_ENTRY || info.entry.nr != SYS_openat)
		return 0;
	from.iov_base = (void *)(uintptr_t)info.entry.args[1];
	from.iov_len = to.iov_len;
	return process_vm_readv(pid, &to, 1, &from, 1, 0) ==
		       (ssize_t)to.iov_len &&
	       !strcmp(name, path);
}

int main(int argc, char **argv)
{
	int status, held = 0, sig;
	char buf[64];
	pid_t pid;

	if (argc < 3 || strlen(argv[1]) >= 4096)
		die("holdopen PATH COMMAND [ARG]...");
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execvp(argv[2], argv + 2);
		die("%s: %s", argv[2], strerror(errno));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		die("%s doesn't begin", argv[2]);
	ptrace(PTRACE_SETOPTIONS, pid, NULL,
	       (void *)(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC |
			PTRACE_O_EXITKILL));
	for (sig = 0;;) {
		if (ptrace(PTRACE_SYSCALL, pid, NULL, (void *)(intptr_t)sig) ||
		    waitpid(pid, &status, 0) != pid)
			die("ptrace: %s", strerror(errno));
		if (!WIFSTOPPED(status))
			return WIFEXITED(status) ? WEXITSTATUS(status)
						 : 128 + WTERMSIG(status);
		sig = WSTOPSIG(status);
		if (status >> 16)
			sig = 0;
		if (sig != (SIGTRAP | 0x80))
			continue;
		sig = 0;
		if (held || !opens(pid, argv[1]))
			continue;
		held = 1;
		fputs("held\n", stderr);
		while (read(0, buf, sizeof(buf)) > 0)
			;
	}
}
