/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pannier-perf: the load tool. Options, a run, a report, and status 1 when messages were lost.
 */
#include <stdlib.h>
#include "options.h"
#include "run.h"

static struct result result; // large: it holds histograms

int
main(int argc, char **argv)
{
	struct options options;
	int status = options_parse(&options, argc, argv);

	if (status >= 0)
		return status;
	run(&options, &result);
	report_result(&options, &result);
	return result.missing == 0 && result.totals.misordered == 0 && result.totals.refused == 0
		       ? EXIT_SUCCESS
		       : EXIT_FAILURE;
}
