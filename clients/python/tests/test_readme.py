"""Runs the code of README.md."""

import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import types

import pytest
from conftest import FOLDER, snippets


@pytest.fixture
def run():
    """Returns a function that runs a snippet as a module, and its printed lines."""
    printed = queue.Queue()
    names = []

    def run(name):
        module = types.ModuleType(f"readme_{name}")
        module.print = lambda *words: printed.put(" ".join(map(str, words)))
        sys.modules[module.__name__] = module
        names.append(module.__name__)
        exec(compile(snippets()[name], f"README.md: {name}", "exec"), module.__dict__)
        return module

    before = signal.getsignal(signal.SIGTERM)
    yield run, printed
    signal.signal(signal.SIGTERM, before)
    for name in names:
        del sys.modules[name]


def lines(printed):
    return [printed.get_nowait() for _ in range(printed.qsize())]


def test_the_code_is_typed(tmp_path):
    for name, code in snippets().items():
        (tmp_path / f"readme_{name}.py").write_text(code)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", tmp_path], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


def test_schedule(belfry, run):
    run[0]("schedule")
    at, outcome = lines(run[1])
    assert re.match(r"\d{4}-", at)
    assert outcome == "cancelled"


def test_asyncio(belfry, run):
    run[0]("asyncio")
    assert lines(run[1]) == ["scheduled"]


def test_list(belfry, run):
    belfry.schedule("listed", delay="1h", queue="orders", labels={"tenant": "acme"})
    run[0]("list")
    listed, refused = lines(run[1])
    assert re.match(r"listed \d{4}-", listed)
    assert refused == "task-not-found no"


def test_batch(belfry, run):
    run[0]("batch")
    assert lines(run[1]) == ["2500 0"]


def test_repeat(belfry, run):
    run[0]("repeat")
    assert [line.partition(" ")[2][:8] for line in lines(run[1])] == ["09:00:00"] * 3


def test_events(belfry, node, run):
    shop = node.receiver()
    belfry.schedule("followed", delay="0s", target={"url": shop.url})
    for event in belfry.events(type=["delivered"], since="1h"):
        if event.task == "followed":
            break
    run[0]("events")
    assert any(line.startswith("followed delivered ") for line in lines(run[1]))


def end_after(printed, found):
    """Ends this process's worker by SIGTERM once a thread has seen what it waits for."""

    def watch():
        found.append(printed.get(timeout=20))
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch).start()


def test_worker(belfry, run):
    belfry.schedule("mail", delay="0s", queue="mails", payload={"to": "a@b.example"})
    found = []
    end_after(run[1], found)
    run[0]("worker")
    assert found == ["mail to a@b.example 1"]
    assert belfry.get("mail").state == "delivered"


def test_fastapi(run, signed):
    testclient = pytest.importorskip("fastapi.testclient")
    client = testclient.TestClient(run[0]("fastapi").app)
    headers, body = signed({"order": 1042})
    assert client.post("/close", headers=headers, content=body).status_code == 204
    assert lines(run[1]) == ["close 1042 order-1042 7 msg_1"]
    answer = client.post("/close", headers=headers, content=body + b" ")
    assert (answer.status_code, answer.json()) == (401, {"detail": "no signature of the request is right"})


def test_django(run, signed):
    from django.test import RequestFactory

    view = run[0]("django").close
    headers, body = signed({"order": 7})
    post = RequestFactory(headers=headers).post
    assert view(post("/close", body, content_type="application/json")).status_code == 204
    assert lines(run[1]) == ["close 7"]
    assert view(post("/close", body + b" ", content_type="application/json")).status_code == 401
    assert view.csrf_exempt


def test_test(belfry_dev, run):
    run[0]("test").test_an_unpaid_order_is_closed_after_48_hours(belfry_dev)


def test_celery(node, run, monkeypatch, redis_url):
    """A worker of Celery runs the task that Belfry pushed into its Redis."""
    celery = pytest.importorskip("celery")
    from celery.contrib.testing.worker import start_worker

    monkeypatch.setenv("BELFRY_ADDR", node.url)
    monkeypatch.setenv("CELERY_BROKER", redis_url)
    app = celery.Celery("shop", broker=redis_url)

    @app.task(name="shop.close", bind=True)
    def close(self, order):
        run[1].put(f"closed {order} {self.request.id}")

    run[0]("celery")
    with start_worker(app, perform_ping_check=False, pool="solo"):
        assert run[1].empty()
        node.advance("48h")
        assert run[1].get(timeout=20) == "closed 1042 order-1042-celery"


@pytest.fixture
def redis_url(tmp_path):
    """The URL of a Redis on a free port."""
    if not (program := shutil.which("redis-server")):
        pytest.skip("NOT TESTED: Celery's workers, which need redis-server")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    server = subprocess.Popen(
        [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", tmp_path, "--save", ""],
        stdout=subprocess.PIPE,
        text=True,
    )
    with server.stdout:
        assert any("Ready to accept connections" in line for line in server.stdout)
        yield f"redis://127.0.0.1:{port}/0"
        server.terminate()
        server.wait()
