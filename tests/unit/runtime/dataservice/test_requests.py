"""What a consumer asks of whom, under any sequence of joins, losses, delays and answers."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dlc_runtime.dataservice.schedule.requests import MOST_LOST_SERVERS, LateRequest, Request, RequestQueue
from harness.examples import examples

IDS = 40
MOST = 6
EACH = 3
ELSEWHERE_AFTER = 10.0


class Deliveries(RuleBasedStateMachine):
    """Servers here are lists of questions that a rule answers, forgets or delays."""

    ordered = True

    def __init__(self) -> None:
        super().__init__()
        self.queue = RequestQueue(self.ordered, MOST, EACH, ELSEWHERE_AFTER)
        self.queue.add(range(IDS))
        self.now = 0.0
        self.next_server = 0
        self.servers: dict[int, list[int]] = {}
        self.taken: list[int] = []

    def send(self) -> None:
        for request in self.queue.next_requests(self.now):
            self.servers[request.server].append(request.id)

    @rule()
    def join(self) -> None:
        self.servers[self.next_server] = []
        self.queue.add_server(self.next_server)
        self.next_server += 1
        self.send()

    @precondition(lambda self: self.servers)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        server = data.draw(st.sampled_from(sorted(self.servers)))
        del self.servers[server]
        self.queue.drop_server(server)
        self.send()

    @precondition(lambda self: any(self.servers.values()))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        server = data.draw(st.sampled_from([server for server, owed in self.servers.items() if owed]))
        id_ = self.servers[server].pop(0)
        self.queue.add_answer(server, id_, f"batch {id_}", self.now)
        self.send()

    @rule(seconds=st.sampled_from([0.1, 5.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.send()

    @precondition(lambda self: self.queue.next_id() is not None)
    @rule()
    def take(self) -> None:
        id_ = self.queue.next_id()
        assert id_ is not None
        assert self.queue.take(id_) == f"batch {id_}"
        self.taken.append(id_)
        self.send()

    @invariant()
    def no_id_comes_out_twice_and_the_order_is_kept(self) -> None:
        assert len(set(self.taken)) == len(self.taken)
        if self.ordered:
            assert self.taken == list(range(len(self.taken)))

    @invariant()
    def the_window_is_bounded(self) -> None:
        assert len(self.queue.waiting) + len(self.queue.held) <= MOST

    def teardown(self) -> None:
        """Whatever happened, one server that answers brings the epoch to its end."""
        if not self.servers:
            self.join()
        for _ in range(20 * IDS):
            if self.queue.is_empty:
                break
            self.now += ELSEWHERE_AFTER
            self.send()
            for server, owed in self.servers.items():
                while owed:
                    self.queue.add_answer(server, id_ := owed.pop(0), f"batch {id_}", self.now)
            while self.queue.next_id() is not None:
                self.take()
        assert sorted(self.taken) == list(range(IDS))


class FirstCome(Deliveries):
    ordered = False


TestOrdered = Deliveries.TestCase
TestFirstCome = FirstCome.TestCase
TestOrdered.settings = TestFirstCome.settings = settings(examples(60), stateful_step_count=60)


def asked(servers: int, ids: int = IDS, ordered: bool = True) -> tuple[RequestQueue, list[Request]]:
    queue = RequestQueue(ordered, MOST, EACH, ELSEWHERE_AFTER)
    queue.add(range(ids))
    for server in range(servers):
        queue.add_server(server)
    return queue, queue.next_requests(0.0)


def test_questions_are_spread_over_the_servers_and_bounded_for_each() -> None:
    _, found = asked(2)
    assert [request.id for request in found] == list(range(MOST))
    assert sorted(request.server for request in found) == [0, 0, 0, 1, 1, 1]


def test_only_what_a_lost_server_owed_is_asked_again() -> None:
    queue, found = asked(2)
    owed = [request.id for request in found if request.server == 0]
    queue.drop_server(0)
    assert queue.next_requests(0.1) == [Request(1, id_) for id_ in owed]


def test_a_slow_answer_is_asked_elsewhere_and_the_first_one_counts() -> None:
    queue, _ = asked(1, ids=1)
    queue.add_server(1)
    assert queue.next_requests(ELSEWHERE_AFTER - 1) == []
    assert queue.next_requests(ELSEWHERE_AFTER + 2) == [Request(1, 0)]
    assert queue.add_answer(1, 0, "its", ELSEWHERE_AFTER + 3)
    assert not queue.add_answer(0, 0, "late", ELSEWHERE_AFTER + 3)
    assert queue.take(0) == "its"
    assert queue.is_empty


def test_a_server_that_let_us_wait_is_asked_last_until_it_answers() -> None:
    queue, _ = asked(1, ids=4)
    queue.add_server(1)
    queue.next_requests(ELSEWHERE_AFTER + 2)
    assert queue.slow == {0}
    queue.add_answer(0, 1, "its", ELSEWHERE_AFTER + 3)
    assert queue.slow == set()


def test_what_waits_behind_slow_batches_of_a_server_that_answers_is_not_made_twice() -> None:
    queue, found = asked(2, ids=EACH)
    assert {request.server for request in found} == {0, 1}
    first, *_, last = (request.id for request in found if request.server == 0)
    queue.add_answer(0, first, "its", ELSEWHERE_AFTER - 1)
    queue.add_answer(1, 1, "its", ELSEWHERE_AFTER - 1)
    pace = ELSEWHERE_AFTER - 1
    assert queue.next_requests(ELSEWHERE_AFTER + 2) == []  # asked long ago, but its server was heard of
    assert queue.next_requests(pace + 2 * ELSEWHERE_AFTER) == []  # it takes as long for each
    assert queue.next_requests(4 * pace + 1) == [Request(1, last)]  # more than it took for any other


def test_each_answer_that_comes_sooner_halves_what_a_server_is_waited_for() -> None:
    queue, _ = asked(1, ids=3)
    queue.add_server(1)
    for id_, now in ((0, 40.0), (1, 40.0)):
        queue.add_answer(0, id_, "its", now)
    assert queue.next_requests(99.0) == []
    assert queue.next_requests(101.0) == [Request(1, 2)]


def test_an_id_that_loses_server_after_server_is_named_as_the_cause() -> None:
    queue = RequestQueue(True, 1, 1, ELSEWHERE_AFTER)
    queue.add([7, 8])
    causes = []
    for server in range(MOST_LOST_SERVERS):
        queue.add_server(server)
        queue.next_requests(float(server))
        causes.append(queue.drop_server(server))
    assert causes == [None] * (MOST_LOST_SERVERS - 1) + [7]


def test_a_late_id_is_told_with_the_servers_that_owe_it() -> None:
    queue, _ = asked(1, ids=2)
    assert queue.first_late(4.0, 5.0) is None
    late = queue.first_late(5.0, 5.0)
    assert late is not None
    assert (late.id, late.servers) == (0, (0,))


def test_an_id_is_late_since_its_first_request_however_often_it_was_asked_again() -> None:
    queue, _ = asked(1, ids=1)
    queue.add_server(1)
    assert queue.next_requests(ELSEWHERE_AFTER + 2) == [Request(1, 0)]
    assert queue.first_late(20.0, 20.0) == LateRequest(0, (0, 1), 0.0)


def test_an_epoch_whose_ids_are_still_to_come_is_empty_and_not_over() -> None:
    queue = RequestQueue(False, MOST, EACH, ELSEWHERE_AFTER)
    queue.is_complete = False
    assert queue.is_empty
    assert not queue.is_over
    queue.is_complete = True
    assert queue.is_over


def test_an_id_is_asked_of_three_servers_at_most() -> None:
    queue, first = asked(1, ids=1)
    for server in (1, 2, 3):
        queue.add_server(server)
    later = [queue.next_requests(turn * (ELSEWHERE_AFTER + 1)) for turn in (1, 2, 3)]
    assert [first, *later] == [[Request(0, 0)], [Request(1, 0)], [Request(2, 0)], []]
