"""The official Python client, unchanged, against a broker: one function per thing that it does.

Started by queen-mq.test.ts with the broker's address. Prints a line of JSON per check:
{"check": name, "ok": bool, "seen": what was observed, or the error}.
"""

import asyncio
import json
import sys
import traceback

from queen import Queen

CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def numbers(messages):
    return [message["data"]["n"] for message in messages]


@check
async def push_pop_ack(queen):
    lane = queen.queue("py-push").partition("customer-42")
    results = await lane.push([{"data": {"n": n}, "transactionId": f"t-{n}"} for n in range(3)])
    assert [r["status"] for r in results] == ["queued"] * 3, results
    assert [r["offset"] for r in results] == [0, 1, 2], results
    again = await lane.push([{"data": {"n": 0}, "transactionId": "t-0"}])
    assert again[0]["status"] == "duplicate" and again[0]["offset"] == 0, again
    messages = await queen.queue("py-push").batch(10).wait(False).pop()
    assert numbers(messages) == [0, 1, 2], messages
    assert messages[0]["partition"] == "customer-42" and messages[0]["transactionId"] == "t-0", messages
    one = await queen.ack(messages[0])
    assert one["success"] is True, one
    rest = await queen.ack(messages[1:])
    assert rest["success"] is True, rest
    assert await queen.queue("py-push").wait(False).pop() == []


@check
async def payloads_of_every_kind(queen):
    values = [{"a": {"b": ["ü", "\u20ac", "\U0001f600"]}}, {"n": 2**53}, {"text": 'quote " and \\ and \n'}, {"none": None}]
    await queen.queue("py-payloads").push([{"data": value} for value in values])
    messages = await queen.queue("py-payloads").batch(10).wait(False).pop()
    assert [message["data"] for message in messages] == values, messages
    await queen.ack(messages)


@check
async def waiting_pop_wakes(queen):
    waiting = asyncio.create_task(queen.queue("py-wait").batch(1).timeout_millis(10000).pop())
    await asyncio.sleep(0.3)
    await queen.queue("py-wait").push([{"data": {"n": 1}}])
    messages = await asyncio.wait_for(waiting, 5)
    assert numbers(messages) == [1], messages
    await queen.ack(messages)


@check
async def consume_each(queen):
    await queen.queue("py-consume").partition("p").push([{"data": {"n": n}} for n in range(20)])
    seen = []

    async def handle(message):
        seen.append(message["data"]["n"])

    await queen.queue("py-consume").group("g").subscription_mode("all").batch(5).limit(20).each().consume(handle)
    assert seen == list(range(20)), seen
    assert await queen.queue("py-consume").group("g").wait(False).pop() == []


@check
async def consume_concurrently_by_autopilot(queen):
    for lane in range(10):
        await queen.queue("py-lanes").partition(f"lane-{lane}").push([{"data": {"n": n}} for n in range(20)])
    seen = {}

    async def handle(messages):
        for message in messages:
            seen.setdefault(message["partition"], []).append(message["data"]["n"])

    queue = queen.queue("py-lanes").group("g").subscription_mode("all").concurrency(4)
    await queue.timeout_millis(500).idle_millis(1000).consume(handle)
    assert len(seen) == 10 and all(lane == list(range(20)) for lane in seen.values()), seen


@check
async def nack_until_dead_letter_and_retry(queen):
    queue = queen.queue("py-nack")
    await queen.queue("py-nack").config({"retry_limit": 1, "lease_time": 30}).create()
    await queue.push([{"data": {"n": 1}, "transactionId": "poison"}, {"data": {"n": 2}}])
    for attempt in range(2):
        messages = await queen.queue("py-nack").group("g").subscription_mode("all").batch(1).wait(False).pop()
        assert numbers(messages) == [1], messages
        outcome = await queen.ack(messages[0], False, {"group": "g", "error": "cannot digest"})
        assert outcome["success"] is True, outcome
    letters = await queen.queue("py-nack").dlq("g").limit(10).get()
    assert [letter["transactionId"] for letter in letters["messages"]] == ["poison"], letters
    assert letters["messages"][0]["errorMessage"] == "cannot digest", letters
    messages = await queen.queue("py-nack").group("g").batch(1).wait(False).pop()
    assert numbers(messages) == [2], messages
    await queen.ack(messages[0], "retry", {"group": "g"})
    messages = await queen.queue("py-nack").group("g").batch(1).wait(False).pop()
    assert numbers(messages) == [2] and messages[0]["deliveryAttempt"] == 2, messages
    await queen.ack(messages[0], True, {"group": "g"})


@check
async def renew(queen):
    await queen.queue("py-renew").push([{"data": {"n": 1}}])
    messages = await queen.queue("py-renew").batch(1).wait(False).pop()
    renewed = await queen.renew(messages[0])
    assert renewed["success"] is True and renewed["newExpiresAt"], renewed
    await queen.ack(messages)
    gone = await queen.renew(messages[0])
    assert gone["success"] is False and gone["error"], gone
    return gone["error"]


@check
async def commit_on_delivery(queen):
    await queen.queue("py-commit").push([{"data": {"n": 1}}])
    messages = await queen.queue("py-commit").batch(1).wait(False).commit_on_delivery().pop()
    assert numbers(messages) == [1] and messages[0]["leaseId"] == "", messages
    assert await queen.queue("py-commit").wait(False).pop() == []


@check
async def conflation(queen):
    for n in range(3):
        await queen.queue("py-conflate").partition("p").push([{"data": {"n": n}}])
    queue = queen.queue("py-conflate").group("latest").subscription_mode("all").conflation().wait(False)
    messages = await queue.pop()
    assert numbers(messages) == [2], messages
    await queen.ack(messages)
    assert await queue.pop() == []


@check
async def fetch_and_changed_since(queen):
    lanes = [f"lane-{n}" for n in range(30)]
    for lane in lanes:
        await queen.queue("py-fetch").partition(lane).push([{"data": {"n": n}} for n in range(5)])
    read = await queen.queue("py-fetch").fetch(lanes, max_bytes=100)
    assert all([r["payload"]["n"] for r in read[lane]["records"]] == list(range(5)) for lane in lanes), read
    assert read["lane-0"]["highWatermark"] == 5 and read["lane-0"]["nextOffset"] == 5, read["lane-0"]
    assert (await queen.queue("py-nobody").fetch("p"))["p"]["records"] == []
    changed = await queen.queue("py-fetch").changed_since()
    assert [partition["name"] for partition in changed["partitions"]] == lanes, changed
    await queen.queue("py-fetch").partition("lane-7").push([{"data": {"n": 5}}])
    later = await queen.queue("py-fetch").changed_since(changed["safeTime"])
    names = [partition["name"] for partition in later["partitions"]]
    assert "lane-7" in names and all(p["lastWriteAt"] >= changed["safeTime"] for p in later["partitions"]), later
    assert (await queen.queue("py-nobody").changed_since())["partitions"] == []


@check
async def buffered_push(queen):
    queue = queen.queue("py-buffer").partition("p")
    for n in range(25):
        result = await queue.buffer({"message_count": 10, "time_millis": 200}).push([{"data": {"n": n}}])
        assert result["buffered"] is True, result
    await queen.flush_all_buffers()
    messages = await queen.queue("py-buffer").batch(100).wait(False).pop()
    assert numbers(messages) == list(range(25)), numbers(messages)
    await queen.ack(messages)


@check
async def admin_routes(queen):
    seen = {}
    admin = queen.admin
    for name, call in {
        "get_overview": admin.get_overview,
        "get_namespaces": admin.get_namespaces,
        "get_tasks": admin.get_tasks,
        "list_queues": admin.list_queues,
        "get_queue": lambda: admin.get_queue("py-push"),
        "get_queue_depth": lambda: admin.get_queue_depth("py-nack", "g"),
        "list_messages": lambda: admin.list_messages(queue="py-push"),
        "get_status": admin.get_status,
        "get_queue_stats": admin.get_queue_stats,
        "get_analytics": admin.get_analytics,
        "list_consumer_groups": admin.list_consumer_groups,
        "health": admin.health,
        "metrics": admin.metrics,
    }.items():
        answer = await call()
        assert not (isinstance(answer, dict) and "error" in answer), (name, answer)
        seen[name] = sorted(answer)[:4] if isinstance(answer, dict) else f"{len(answer)} rows"
    deleted = await queen.queue("py-payloads").delete()
    assert deleted["deleted"] is True, deleted
    moved = await admin.seek_consumer_group("g", "py-consume", {"toEnd": True})
    assert moved["success"] is True, moved
    gone = await queen.delete_consumer_group("g")
    assert gone["success"] is True, gone
    return seen


async def refusal(call):
    try:
        return f"answered {json.dumps(await call(), default=str)[:200]}"
    except Exception as error:  # what the client makes of it is the observation
        return f"{type(error).__name__}: {error}"[:300]


@check
async def observe_transaction(queen):
    async def commit():
        transaction = queen.transaction()
        transaction.queue("py-transaction").push([{"data": {"n": 1}, "transactionId": "in-transaction"}])
        return await transaction.commit()

    return await refusal(commit)


@check
async def binary_push(queen):
    binary = Queen({"url": sys.argv[1], "binary_push": True, "retry_attempts": 1})
    try:
        items = [{"data": {"n": n, "text": "\u00fc" * 300}, "transactionId": f"b-{n}"} for n in range(3)]
        results = await binary.queue("py-binary").partition("p").push(items)
        assert [(r["status"], r["offset"]) for r in results] == [("queued", 0), ("queued", 1), ("queued", 2)], results
        again = await binary.queue("py-binary").partition("p").push(items[:1])
        assert again[0]["status"] == "duplicate", again
    finally:
        await binary.close()
    messages = await queen.queue("py-binary").batch(10).wait(False).pop()
    assert [message["data"] for message in messages] == [item["data"] for item in items], messages
    await queen.ack(messages)


@check
async def observe_push_compression(queen):
    try:
        compressed = Queen(
            {"url": sys.argv[1], "binary_push": True, "push_compression": True, "retry_attempts": 1}
        )
    except ImportError:
        return "not asked: zstandard is not installed"
    try:
        return await refusal(lambda: compressed.queue("py-compressed").push([{"data": {"n": 1}}]))
    finally:
        await compressed.close()


@check
async def observe_framed_pop(queen):
    try:
        import zstandard  # noqa: F401  the client asks for it when it is made
    except ImportError:
        return "not asked: zstandard is not installed"
    framed = Queen({"url": sys.argv[1], "framed_pop": True})
    try:
        await queen.queue("py-framed").push([{"data": {"n": 1}}])
        messages = await framed.queue("py-framed").batch(1).wait(False).pop()
        assert numbers(messages) == [1], messages
        return "answered as JSON, and read"
    finally:
        await framed.close()


async def main():
    queen = Queen(sys.argv[1])
    for function in CHECKS:
        try:
            seen = await asyncio.wait_for(function(queen), 30)
            line = {"check": function.__name__, "ok": True, "seen": seen}
        except Exception:
            line = {"check": function.__name__, "ok": False, "seen": traceback.format_exc()}
        print(json.dumps(line), flush=True)
    await queen.close()


asyncio.run(main())
