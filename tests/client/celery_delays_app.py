# SPDX-License-Identifier: Apache-2.0
"""
The Celery application of celery_delays.py: what it sends to "delays.work" may fail, then waits in "delays.wait" and
comes back. What is too late is sent to "delays.dead". Its environment is that of celery_app.py.
"""
from celery.exceptions import Reject
from celery_app import app, report
from kombu import Exchange, Queue

WAIT_S = 0.3

app.conf.task_queues = [
    Queue("delays.work", Exchange(""), "delays.work", queue_arguments={
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "delays.wait"}),
    Queue("delays.wait", Exchange(""), "delays.wait", message_ttl=WAIT_S, queue_arguments={
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "delays.work"}),
    Queue("delays.short", Exchange(""), "delays.short", message_ttl=1, expires=60, queue_arguments={
        "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "delays.dead"}),
    Queue("delays.dead", Exchange(""), "delays.dead"),
]
app.conf.task_default_queue = "delays.work"


@app.task
def tell(text):
    report(text)
    return text


@app.task(bind=True, max_retries=5, ignore_result=True)
def retried(self, name, countdown):
    """Runs once more, and once more, each time after the countdown."""
    report(f"{name} {self.request.retries}")
    if self.request.retries < 2:
        raise self.retry(countdown=countdown)
    return self.request.retries


@app.task(bind=True, acks_late=True, ignore_result=True)
def rejecting(self, name, times):
    """Has the broker bring it again later: the message itself says how often that was."""
    deaths = {death["queue"]: death for death in self.request.get("x-death") or ()}
    count = deaths["delays.work"]["count"] if deaths else 0
    assert not deaths or deaths["delays.wait"]["count"] == count, deaths
    report(f"{name} {count}")
    if count < times:
        raise Reject("later", requeue=False)
    return count
