# SPDX-License-Identifier: Apache-2.0
"""
The Celery application of celery_tasks.py: loaded by the workers and by the script.

Environment: PANNIER_URL, the broker; REPORT_SOCKET, a datagram socket of the script, to which a task
reports what has happened, so that the script awaits events and sees their order.
"""
import os
import socket

from celery import Celery

app = Celery("celery_app", broker=os.environ["PANNIER_URL"], backend="rpc://")
app.conf.update(
    task_default_queue="celery-tests",
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_retry=False,
    result_expires=600)


def report(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(text.encode(), os.environ["REPORT_SOCKET"])


@app.task
def add(a, b):
    return a + b


@app.task
def note(text):
    report(text)
    return text


@app.task(bind=True, max_retries=5)
def third_time_lucky(self):
    """Fails twice; gives the number of attempts."""
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries + 1


@app.task
def fail(text):
    raise ValueError(text)


@app.task(bind=True, acks_late=True)
def survive(self):
    """Stays at its first delivery until its worker is killed; ends at once when it is redelivered."""
    redelivered = self.request.delivery_info["redelivered"]
    report(f"{self.request.hostname} redelivered={redelivered}")
    if not redelivered:
        socket.socketpair()[0].recv(1)  # nothing ever comes
    return self.request.hostname
