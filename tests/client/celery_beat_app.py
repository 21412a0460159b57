# SPDX-License-Identifier: Apache-2.0
"""
The Celery application of celery_beat.py: that of celery_tasks.py with a schedule, and with results in
files, the backend of Debian's Celery that needs no server and can do chords.

Environment, beside that of celery_app.py: RESULT_DIR, where the results go; HOLD_SOCKET, to which a task
connects that is to last until the script lets it go.
"""
import os
import socket

from celery_app import app, report

TICK_S = 0.5

app.conf.update(
    result_backend="file://" + os.environ["RESULT_DIR"],
    result_chord_retry_interval=0.2,
    broker_connection_retry=True,
    worker_send_task_events=True,
    task_send_sent_event=True,
    beat_schedule={
        "first": {"task": "celery_beat_app.tick", "schedule": TICK_S, "args": ["first"]},
        "second": {"task": "celery_beat_app.tick", "schedule": TICK_S, "args": ["second"],
                   "options": {"queue": "celery-second", "expires": 600}},
        "third": {"task": "celery_beat_app.tick", "schedule": TICK_S, "kwargs": {"name": "third"},
                  "options": {"ignore_result": True, "delivery_mode": 1}},
    })


@app.task
def tick(name):
    report(f"tick {name}")


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def hold(name):
    """Lasts until the script closes the connection or says something."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(os.environ["HOLD_SOCKET"])
        line.recv(1)
    return name
