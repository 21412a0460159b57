/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pannierd on a disk that loses whatever was not synced when the process dies: what a power cut does, by
 * kill -9.
 */
#include "lib/disk_lossy.h"
#include "server/command.h"
#include "server/server.h"

int
main(int argc, char **argv)
{
	struct config config;
	int status = command_line(argc, argv, &config);

	if (status != COMMAND_RUN)
		return status;
	status = server_run(&config, disk_lossy_new);
	config_free(&config);
	return status;
}
