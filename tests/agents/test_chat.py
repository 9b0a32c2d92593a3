"""`ChatClient` and ``openai:`` models against a server on loopback that fails in every way."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from typing import Any

import pytest

from adaplan_agents import load_model, make_agent
from adaplan_envs.chat import POOL, ChatClient, Sampling
from adaplan_envs.errors import ConfigError, ContextOverflowError, ModelAccessError, ModelError

pytest.importorskip("openai")

KEY = "sk-very-secret"
HELLO = [{"role": "user", "content": "hello"}]


def good(text: str = "hi") -> bytes:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return json.dumps({**body, "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}}).encode()


def fault(message: str, code: str | None = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()


class Server:
    """Answers with `script` in order, its last entry for ever: (status, body, header ...), or a function.

    `models` is its list of models, which is no part of the script; by default it has none to show.
    """

    def __init__(self, *script: Any, models: list[str] | None = None) -> None:
        self.script = list(script)
        self.models = models
        self.listings = 0
        self.requests: list[dict[str, Any]] = []
        self.headers: list[str] = []
        self.running = self.most = 0

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *details: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            if head.startswith("GET /v1/models "):
                self.listings += 1
                listed = [{"id": name, "object": "model"} for name in self.models or []]
                found = json.dumps({"object": "list", "data": listed}).encode()
                status, body = (404, b"{}") if self.models is None else (200, found)
                start = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
                writer.write(f"{start}connection: close\r\n\r\n".encode() + body)
                await writer.drain()
                return
            length = next(int(x.split(":")[1]) for x in head.splitlines() if x.lower().startswith("content-length"))
            self.headers.append(head)
            self.requests.append(json.loads(await reader.readexactly(length)))
            self.running += 1
            self.most = max(self.most, self.running)
            entry = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            if callable(entry):
                entry = await entry(self.requests[-1])
            self.running -= 1
            if entry is not None:  # None: hang up without a word
                status, body, *headers = entry
                lines = [f"HTTP/1.1 {status} X", "content-type: application/json", f"content-length: {len(body)}"]
                writer.write("\r\n".join([*lines, *headers, "connection: close", "", ""]).encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Note the pauses between attempts instead of waiting them out."""
    waits: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr("adaplan_envs.chat.asyncio.sleep", noted)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return waits


@pytest.fixture
async def clients() -> AsyncIterator[Callable[..., ChatClient]]:
    made = []

    def make(server: Server, **options: Any) -> ChatClient:
        made.append(ChatClient("m", base_url=server.url, api_key=KEY, **options))
        return made[-1]

    yield make
    for client in made:
        await client.aclose()
        await client.aclose()


async def test_an_answer_brings_text_usage_and_cost_and_the_request_holds_the_sampling(clients):
    async with Server((200, good("héllo"))) as server:
        client = clients(server, prices=(1.0, 10.0), extra={"reasoning_effort": "low", "seed": None})
        reply = await client.chat(
            HELLO, Sampling(temperature=0.5, top_p=0.9, top_k=7, max_tokens=9, stop=("x",), seed=3)
        )
    assert (reply.text, reply.finish_reason) == ("héllo", "stop")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.requests) == (10, 2, 1)
    assert reply.usage.cost == pytest.approx(30e-6)
    wanted = {
        "model": "m",
        "messages": HELLO,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "max_tokens": 9,
        "stop": ["x"],
    }
    assert server.requests == [{**wanted, "reasoning_effort": "low"}]


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        ((429, fault("slow down")), "429"),
        ((500, b"oops"), "500"),
        ((503, b""), "503"),
        ((200, good()[:40]), "malformed"),
        ((200, b"[1]"), "malformed"),
        ((200, b'{"choices": []}'), "malformed"),
        ((200, b'{"choices": [{"message": {"content": [1]}}]}'), "malformed"),
        (None, "connection"),
    ],
)
async def test_what_may_pass_is_tried_again_and_counted_by_kind(clients, failure, kind, quick):
    async def hang_up(request):
        return None

    entry = failure if failure is not None else hang_up
    async with Server(entry, entry, (200, good())) as server:
        client = clients(server)
        assert (await client.chat(HELLO)).text == "hi"
    assert client.failures == {kind: 2} and len(server.requests) == 3
    assert 0.25 <= quick[0] <= 0.5 and 0.5 <= quick[1] <= 1.0


async def test_a_server_that_never_recovers_is_given_up_after_the_last_attempt(clients):
    async with Server((500, b"oops")) as server:
        client = clients(server, retries=3)
        with pytest.raises(ModelError, match=r"status 500.*after 4 attempts") as caught:
            await client.chat(HELLO)
    assert not isinstance(caught.value, ModelAccessError) and len(server.requests) == 4


async def test_a_server_that_is_not_there_is_a_model_error(clients):
    async with Server((200, good())) as server:
        pass
    with pytest.raises(ModelError, match="no connection"):
        await clients(server, retries=1).chat(HELLO)


async def test_an_answer_that_does_not_come_is_a_timeout(clients):
    release = asyncio.Event()

    async def never(request):
        await release.wait()
        return 200, good()

    async with Server(never) as server:
        client = clients(server, timeout=0.05, retries=1)
        with pytest.raises(ModelError, match=r"no answer within 0.05 s"):
            await client.chat(HELLO)
        release.set()
    assert client.failures == {"timeout": 2}


async def test_the_pause_that_a_server_asks_for_is_kept(clients, quick):
    date = formatdate(time.time() + 20, usegmt=True)
    busy = fault("slow down")
    async with Server((429, busy, "retry-after: 7"), (429, busy, f"retry-after: {date}"), (200, good())) as server:
        await clients(server).chat(HELLO)
    assert quick[0] == 7 and 15 < quick[1] <= 20
    async with Server((429, busy, "retry-after: 3600")) as server:
        with pytest.raises(ModelError, match="after 1 attempts"):
            await clients(server).chat(HELLO)


@pytest.mark.parametrize(
    ("status", "message", "code", "error"),
    [
        (401, f"Incorrect API key provided: {KEY}", "invalid_api_key", ModelAccessError),
        (403, "not for you", None, ModelAccessError),
        (404, "The model `m` does not exist", "model_not_found", ModelAccessError),
        (429, "You exceeded your current quota", "insufficient_quota", ModelAccessError),
        (400, "This model's maximum context length is 10 tokens", "context_length_exceeded", ContextOverflowError),
        (400, "stop: at most 4", None, ModelError),
        (422, "temperature: too hot", None, ModelError),
    ],
)
async def test_what_will_not_pass_is_not_tried_again_and_tells_no_secret(clients, caplog, status, message, code, error):
    caplog.set_level(logging.DEBUG, "adaplan_envs")
    async with Server((status, fault(message, code))) as server:
        with pytest.raises(ModelError) as caught:
            await clients(server).chat(HELLO)
    assert type(caught.value) is error and len(server.requests) == 1
    assert KEY not in str(caught.value) and KEY not in caplog.text and caught.value.__cause__ is None


async def test_a_wrong_key_names_where_it_comes_from(clients):
    async with Server((401, fault("Incorrect API key provided"))) as server:
        with pytest.raises(ModelAccessError, match="set the right key in OPENAI_API_KEY"):
            await clients(server).chat(HELLO)


@pytest.mark.parametrize("status", [400, 404, 500])
async def test_a_name_that_the_server_does_not_list_stops_a_run_and_shows_the_nearest(clients, status):
    async with Server((status, fault("pinned to another")), models=["m-large", "other"]) as server:
        with pytest.raises(ModelAccessError, match=r"pinned to another.*no model of that name.*'m-large', 'other'"):
            await clients(server, retries=1).chat(HELLO)
    assert server.listings == 1


@pytest.mark.parametrize("models", [None, [], ["m"]])
@pytest.mark.parametrize("status", [400, 500])
async def test_a_server_that_lists_the_name_or_nothing_is_not_blamed_on_it(clients, status, models):
    async with Server((status, fault("broken")), models=models) as server:
        with pytest.raises(ModelError, match="broken") as caught:
            await clients(server, retries=1).chat(HELLO)
    assert type(caught.value) is ModelError


async def test_a_model_that_has_answered_is_known_though_the_server_does_not_list_it(clients):
    async with Server((200, good()), (400, fault("stop: at most 4")), models=["other"]) as server:
        client = clients(server)
        await client.chat(HELLO)
        with pytest.raises(ModelError, match="at most 4") as caught:
            await client.chat(HELLO)
    assert type(caught.value) is ModelError and server.listings == 0


async def test_a_conversation_too_long_stays_one_whatever_the_server_lists(clients):
    async with Server((400, fault("x", "context_length_exceeded")), models=["other"]) as server:
        with pytest.raises(ContextOverflowError):
            await clients(server).chat(HELLO)


async def test_a_stop_string_that_the_server_leaves_in_the_text_is_cut_off(clients, tmp_path):
    async with Server((200, good("go right\nObservation: you"))) as server:
        client = clients(server, cache=tmp_path)
        for _ in range(2):  # from the server, from the cache
            reply = await client.chat(HELLO, Sampling(stop=("you", "\nObservation:")))
            assert (reply.text, reply.finish_reason) == ("go right", "stop")


async def test_the_key_is_sent_but_never_described_or_kept(tmp_path, clients):
    async with Server((200, good())) as server:
        await clients(server, cache=tmp_path).chat(HELLO)
        assert f"Bearer {KEY}" in server.headers[0]
        server.url = server.url.replace("http://", "http://user:hidden@") + "?token=hidden"
        client = clients(server, cache=tmp_path)
        await client.chat(HELLO, Sampling(max_tokens=3))
    files = [path.read_text() for path in sorted(tmp_path.rglob("*.json"))]
    assert len(files) == 2
    assert not any(secret in text for text in [*files, json.dumps(client.describe())] for secret in (KEY, "hidden"))


SCHEMA = {"type": "object", "properties": {"score": {"enum": [0, 1]}}, "required": ["score"]}


async def test_json_is_asked_for_in_the_best_way_that_the_server_knows(clients, tmp_path):
    refused = (400, fault("This response_format type is unavailable now"))
    async with Server(refused, (422, fault("unsupported field: response_format")), (200, good("{}"))) as server:
        client = clients(server, cache=tmp_path)
        held = Sampling(json_schema=SCHEMA)
        assert (await client.chat(HELLO, held)).text == "{}"
        asked = [request.get("response_format") for request in server.requests]
        form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA}}
        assert asked == [form, {"type": "json_object"}, None]
        assert client.failures == {"400": 1, "422": 1}
        await client.chat([*HELLO, *HELLO], held)  # the server is not asked again what it has refused
        assert [request.get("response_format") for request in server.requests[3:]] == [None]
        assert (await clients(server, cache=tmp_path).chat(HELLO, held)).usage.requests == 0


async def test_a_server_is_not_asked_to_choose(clients):
    async with Server((200, good("up"))) as server:
        with pytest.raises(ConfigError, match="admissible=False"):
            await clients(server).chat(HELLO, Sampling(choices=("up", "down")))
        assert server.requests == []


async def test_a_request_that_is_refused_for_another_reason_fails_as_before(clients):
    async with Server((400, fault("temperature is too high"))) as server:
        with pytest.raises(ModelError, match="temperature"):
            await clients(server).chat(HELLO, Sampling(json_schema=SCHEMA))
        assert len(server.requests) == 1
        with pytest.raises(ModelError):
            await clients(server, extra={"response_format": None}).chat(HELLO, Sampling(json_schema=SCHEMA))
        assert "response_format" not in server.requests[-1]


async def test_a_cached_answer_costs_nothing_and_differs_by_content(tmp_path, clients):
    async with Server((200, good("one")), (200, good("two")), (200, good("three"))) as server:
        first = clients(server, cache=tmp_path, prices=(1, 1))
        assert (await first.chat(HELLO)).usage.cost > 0
        again = await clients(server, cache=tmp_path, prices=(1, 1)).chat(HELLO)
        assert again.text == "one" and again.usage.cost == 0 and again.usage.requests == 0
        assert (await first.chat(HELLO, Sampling(max_tokens=5))).text == "two"
        chance = Sampling(temperature=1)
        assert [(await first.chat(HELLO, chance)).text for _ in range(2)] == ["three"] * 2
        assert len(server.requests) == 4  # what is left to chance is not kept
        for path in sorted(tmp_path.rglob("*.json")):
            path.write_text("{half")
        assert (await first.chat(HELLO)).text == "three"


async def test_no_more_requests_than_allowed_are_under_way(clients):
    async def slow(request):
        for _ in range(20):
            await asyncio.sleep(0)
        return 200, good(request["messages"][0]["content"])

    async with Server(slow) as server:
        client = clients(server, concurrency=3)
        texts = [f"t{n}" for n in range(12)]
        replies = await asyncio.gather(*(client.chat([{"role": "user", "content": text}]) for text in texts))
    assert [reply.text for reply in replies] == texts and server.most == 3


async def test_many_requests_at_once_get_the_connections_they_need_and_use_them_again(clients):
    everybody = asyncio.Event()

    async def together(request):
        if server.running == 3 * POOL:
            everybody.set()
        await everybody.wait()  # nobody is answered before all have asked
        return 200, good(request["messages"][0]["content"])

    async with Server(together) as server:
        client = clients(server, concurrency=64)
        texts = [f"t{n}" for n in range(3 * POOL)]
        for _ in range(2):
            replies = await asyncio.gather(*(client.chat([{"role": "user", "content": text}]) for text in texts))
            assert [reply.text for reply in replies] == texts
        (connections,) = client._by_loop.values()
        assert connections._under_way == [0, 0, 0]


def test_a_client_works_in_one_event_loop_after_another():
    client: list[ChatClient] = []

    async def once() -> str:
        async with Server((200, good())) as server:
            if not client:
                client.append(ChatClient("m", base_url=server.url, api_key=KEY))
            client[0]._base_url = server.url
            text = (await client[0].chat(HELLO)).text
            await client[0].aclose()
            return text

    assert [asyncio.run(once()) for _ in range(2)] == ["hi", "hi"]


async def test_without_a_key_nothing_is_struck_from_a_message():
    async with Server((404, fault("nonesuch"))) as server:
        client = ChatClient("m", base_url=server.url)
        with pytest.raises(ModelAccessError, match="nonesuch"):
            await client.chat(HELLO)
        await client.aclose()


def test_a_key_is_needed_for_openai_itself_but_not_for_a_server_of_ones_own():
    with pytest.raises(ModelAccessError, match="OPENAI_API_KEY"):
        ChatClient("m")
    ChatClient("m", base_url="http://localhost:1/v1")
    with pytest.raises(ConfigError, match="openai:MODEL"):
        load_model("openai:", api_key=KEY)
    with pytest.raises(ConfigError, match="did you mean 'timeout'"):
        load_model("openai:m", api_key=KEY, timeuot=3)


async def test_an_agent_plays_over_an_api(play_async):
    async with Server((200, good("Thought: go\nAction: right"))) as server:
        model = load_model("openai:m", base_url=server.url, api_key=KEY)
        decisions, info, _ = await play_async(make_agent("react", model))
        reply = await model.chat([{"role": "system", "content": "s"}, *HELLO])
        await model.aclose()
    assert info["success"] and decisions[0].usage.prompt_tokens == 10 and reply.text.startswith("Thought")
    assert [message["role"] for message in server.requests[2]["messages"]][:4] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert KEY not in json.dumps(model.describe())
