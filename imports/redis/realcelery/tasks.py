"""Uses the Celery library beside an import, for tests. `python tasks.py FIRST COUNT SECONDS` adds tasks that are due after
some seconds, one of five in the queue reports and with a priority; with 0 seconds they have no ETA. A worker of this
module adds the number of each task to the list ran, with the milliseconds since its ETA."""

import os
import sys
import time
from datetime import datetime

from celery import Celery
from redis import Redis

broker = os.environ["CELERY_BROKER"]
app = Celery("tasks", broker=broker)
app.conf.broker_connection_retry_on_startup = True


@app.task(bind=True)
def job(self, number, text):
    late = time.time() - datetime.fromisoformat(self.request.eta).timestamp() if self.request.eta else 0
    Redis.from_url(broker).rpush("ran", f"{number} {int(late * 1000)}")


if __name__ == "__main__":
    first, count, seconds = map(int, sys.argv[1:])
    for n in range(first, first + count):
        options = {"queue": "reports", "priority": 5} if n % 5 == 0 else {}
        job.apply_async((n, "grüße <b>"), task_id=f"job-{n}", countdown=seconds or None, **options)
