/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pannierctl: what is done to a broker from outside. So far that is its store while it is stopped.
 */
#include "arguments.h"

int
main(int argc, char **argv)
{
	const struct ctl_command *command = NULL;
	struct ctl_arguments arguments;
	int status = ctl_arguments_read(argc, argv, &command, &arguments);

	return status == CTL_RUN ? command->run(&arguments) : status;
}
