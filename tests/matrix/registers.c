/* Loaded into a kernel in user mode (LD_PRELOAD, scripts/kernel-check).
 *
 * Linux below 6.16 keeps 2 696 bytes of a process' extended registers and writes as many back. On a processor that has
 * more of them (AMX) ptrace(2) refuses that: PTRACE_SETREGSET of NT_X86_XSTATE takes all or nothing, and the guest's
 * first process dies. Here the rest is what the process has at the time. */
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

long ptrace(enum __ptrace_request request, ...)
{
	static char registers[65536] __attribute__((aligned(64)));
	struct iovec all = { registers, sizeof registers };
	va_list rest;
	va_start(rest, request);
	pid_t pid = va_arg(rest, pid_t);
	void *address = va_arg(rest, void *);
	void *data = va_arg(rest, void *);
	va_end(rest);

	if (request == PTRACE_SETREGSET && (unsigned long)address == NT_X86_XSTATE) {
		const struct iovec *given = data;
		if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, address, &all) < 0)
			return -1;
		if (given->iov_len < all.iov_len) {
			memcpy(registers, given->iov_base, given->iov_len);
			data = &all;
		}
	}

	/* the system call stores what the function of libc returns */
	long peeked;
	int peeks = request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER;
	long result = syscall(SYS_ptrace, request, pid, address, peeks ? &peeked : data);
	if (result < 0 || !peeks)
		return result;
	errno = 0;
	return peeked;
}
