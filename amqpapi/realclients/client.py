"""Publishes messages with delays and consumes them. It is written for RabbitMQ's plugin for delayed messages."""

import sys
import time

import pika

host, port = sys.argv[1].rsplit(":", 1)
login = pika.PlainCredentials("app", "secret")
connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port), credentials=login))
channel = connection.channel()
channel.exchange_declare("python", "x-delayed-message", durable=True, arguments={"x-delayed-type": "direct"})
channel.queue_declare("python", durable=True)
channel.queue_bind("python", "python", "go")
channel.confirm_delivery()

COUNT = 30
due = {}
for n in range(COUNT):
    delay = n % 3 * 400
    due[n] = time.time() + delay / 1000
    headers = {"n": n, "x-delay": delay} if delay else {"n": n}
    channel.basic_publish(
        "python",
        "go",
        f"body {n}",
        pika.BasicProperties(headers=headers, delivery_mode=2, content_type="text/plain", correlation_id=str(n)),
    )
for method, properties, body in channel.consume("python", inactivity_timeout=30):
    if method is None:
        sys.exit(f"{len(due)} messages did not come")
    n = properties.headers["n"]
    if time.time() < due.pop(n):
        sys.exit(f"message {n} came early")
    if body.decode() != f"body {n}" or properties.correlation_id != str(n) or properties.content_type != "text/plain":
        sys.exit(f"message {n} came as {properties} {body}")
    if n % 3 and properties.headers["x-delay"] != -(n % 3 * 400):
        sys.exit(f"message {n} has the headers {properties.headers}")
    channel.basic_ack(method.delivery_tag)
    if not due:
        break
channel.cancel()
connection.close()
print("received", COUNT)
