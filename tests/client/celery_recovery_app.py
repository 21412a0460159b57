# SPDX-License-Identifier: Apache-2.0
"""
The Celery application of celery_recovery.py: that of celery_tasks.py over TLS, with confirms, a durable
queue of its own and workers that connect again.

Environment, beside that of celery_app.py, whose PANNIER_URL names the TLS port: CELERY_CA, the authority
to trust.
"""
import os
import ssl

from celery_app import app, report

app.conf.update(
    broker_use_ssl={"ca_certs": os.environ["CELERY_CA"], "cert_reqs": ssl.CERT_REQUIRED,
                    "server_hostname": "127.0.0.1"},
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry=True,
    task_publish_retry=True)


@app.task(bind=True, acks_late=True, ignore_result=True)
def count(self, number):
    report(f"{number} {int(self.request.delivery_info['redelivered'])}")
