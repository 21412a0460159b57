/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pannierd: the command line, the broker, the exit status.
 */
#include "server/command.h"
#include "server/server.h"
#include "util/disk.h"

int
main(int argc, char **argv)
{
	struct config config;
	int status = command_line(argc, argv, &config);

	if (status != COMMAND_RUN)
		return status;
	status = server_run(&config, disk_new);
	config_free(&config);
	return status;
}
