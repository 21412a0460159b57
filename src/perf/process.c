/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/stat and /proc/PID/status. The name of the program in stat may hold anything, so fields are
 * counted from its closing bracket.
 */
#include "process.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define FIELDS_BEFORE_UTIME 12 // blanks from the closing bracket to utime

/* Reads a file of /proc/PID whole, as a C string; false when there is none. */
static bool
proc_read(uint64_t pid, const char *name, char *out, size_t room)
{
	char path[64];
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/%s", pid, name);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	n = fread(out, 1, room - 1, file);
	out[n] = '\0';
	fclose(file);
	return n != 0;
}

static bool
read_cpu(uint64_t pid, uint64_t *cpu_us)
{
	char text[2048], *p;
	uint64_t user, system;

	if (!proc_read(pid, "stat", text, sizeof(text)) || (p = strrchr(text, ')')) == NULL)
		return false;
	for (int i = 0; i < FIELDS_BEFORE_UTIME; i++)
		if ((p = strchr(p + 1, ' ')) == NULL)
			return false;
	user = strtoull(p, &p, 10);
	system = strtoull(p, &p, 10);
	*cpu_us = (user + system) * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
	return true;
}

static bool
read_rss(uint64_t pid, uint64_t *rss_bytes)
{
	char text[4096];
	const char *p;

	if (!proc_read(pid, "status", text, sizeof(text)) || (p = strstr(text, "VmRSS:")) == NULL)
		return false;
	*rss_bytes = strtoull(p + strlen("VmRSS:"), NULL, 10) * 1024;
	return true;
}

bool
process_usage(uint64_t pid, struct process_usage *usage)
{
	return read_cpu(pid, &usage->cpu_us) && read_rss(pid, &usage->rss_bytes);
}

uint64_t
process_own_cpu_us(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) != 0)
		return 0;
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

void
process_raise_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}
