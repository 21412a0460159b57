#!/usr/bin/python3 -B
# SPDX-License-Identifier: Apache-2.0
# limit: 90 s
"""RabbitMQ's Java client 5.0; the cases are in JavaClient.java, which java compiles as it starts it."""
import os
import sys

import foreign

JARS = ["/usr/share/java/amqp-client.jar", "/usr/share/java/slf4j-api.jar"]

if __name__ == "__main__":
    source = os.path.join(foreign.HERE, "JavaClient.java")
    sys.exit(foreign.run([("java", ["java", "-ea", "-XX:TieredStopAtLevel=1", "-cp", ":".join(JARS), source])]))
