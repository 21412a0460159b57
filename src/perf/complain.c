/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line on stderr. A load tool that lost its broker has nothing to save, so it may end anywhere.
 */
#include "complain.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static void
print_line(const char *format, va_list arguments)
{
	char line[1024];

	vsnprintf(line, sizeof(line), format, arguments);
	for (char *p = line; *p != '\0'; p++)
		if ((unsigned char)*p < ' ')
			*p = '?';
	(void)fprintf(stderr, "pannier-perf: %s\n", line);
}

int
complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line(format, arguments);
	va_end(arguments);
	return EXIT_FAILURE;
}

void
fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	print_line(format, arguments);
	va_end(arguments);
	exit(EXIT_FAILURE);
}
