"""keys: the job's key, keys for purposes and proofs, byte for byte as docs/channel.md says.

The long numbers are those of OpenSSL's command line.
"""

from __future__ import annotations

import hashlib

import pytest

from dlc_channel import keys

JOB = {"DLC_JOB_TOKEN": "5ec4e7"}


def by_hand(key: bytes, text: bytes) -> bytes:
    """HMAC-SHA256 out of its definition: RFC 2104."""
    block = key.ljust(64, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block) + text).digest()
    return hashlib.sha256(bytes(byte ^ 0x5C for byte in block) + inner).digest()


def test_a_jobs_key_is_a_hash_of_where_it_comes_from_and_of_the_text() -> None:
    assert keys.job_key(JOB, ["a"]) == hashlib.sha256(b"dlc/2 job13:DLC_JOB_TOKEN6:5ec4e7").digest()
    assert keys.job_key({}, ["b", "a"]) == hashlib.sha256(b"dlc/2 job5:hosts1:a1:b").digest()
    assert keys.job_key(JOB, []).hex() == "8af055f9b89cec20f3dd86e4d65f286d3b7e2059015a038bfc1292976c8b418a"


def test_a_key_for_a_purpose_and_a_proof_are_hmacs_as_they_were_on_the_first_day() -> None:
    key = keys.job_key(JOB, [])
    assert keys.purpose_key(key, "group") == by_hand(key, b"dlc/2 group")
    assert keys.purpose_key(key, "group").hex() == "37a9bccf80f62848d10356281dddfc209d32791324cc0bcbfd6824d8b3939401"
    assert keys.data_token(key) == by_hand(key, b"dlc/2 data").hex()
    assert keys.proof(b"k", b"call", b"", b"a:b") == by_hand(b"k", b"4:call0:3:a:b")
    assert (
        keys.proof(b"k", b"call", b"", b"a:b").hex()
        == "66fb55d073404fe7e64283fa115c536fad185833afaf9c84d0d7827882c5c641"
    )


def test_the_token_comes_first_then_the_arn_then_the_name_then_the_hosts() -> None:
    everything = {"DLC_JOB_TOKEN": "t", "TRAINING_JOB_ARN": "a", "TRAINING_JOB_NAME": "n", "SAGEMAKER_JOB_NAME": "s"}
    found = []
    while everything:
        assert not keys.is_guessable(everything)
        found.append(keys.job_key(everything, ["h"]))
        assert found[-1] == keys.job_key({**everything, "OTHER": "x"}, ["h"])
        del everything[next(iter(everything))]
    assert keys.is_guessable({"DLC_JOB_TOKEN": ""})
    found.append(keys.job_key({}, ["a", "b"]))
    assert found[-1] == keys.job_key({}, ["b", "a"])
    found += [keys.job_key({}, ["ab"]), keys.job_key({"TRAINING_JOB_NAME": "h"}, [])]
    assert len(set(found)) == len(found)


def test_no_two_purposes_have_one_key() -> None:
    purposes = ("group", "probe", "exec", "ranks", "data", "lease", "batch", "control")
    assert len({keys.purpose_key(b"k" * 32, purpose) for purpose in purposes}) == len(purposes)


def test_the_data_services_key_follows_from_the_jobs_variables_and_from_nothing_else() -> None:
    job = {"TRAINING_JOB_NAME": "job", "SM_HOSTS": '["a"]'}
    assert keys.data_key(job) == keys.data_key({**job, "HOSTNAME": "x"})
    found = {keys.data_key(job), keys.data_key({**job, "DLC_DATA_TOKEN": "t"}), keys.data_key({"SM_HOSTS": '["a"]'})}
    assert len(found | {keys.data_key(job, "own"), keys.data_key({})}) == 5


def test_a_process_that_no_launcher_started_holds_the_key_of_those_that_one_did() -> None:
    told = {"DLC_DATA_TOKEN": keys.data_token(keys.job_key(JOB, ["algo-1", "algo-2"]))}
    assert keys.data_key(told) == keys.data_key(JOB)
    assert keys.data_key({**told, "DLC_JOB_TOKEN": "another"}) == keys.data_key(told)


@pytest.mark.parametrize("parts", [(b"ab", b"c"), (b"a", b"b", b"c"), (b"abc",), (b"a", b"cb"), (b"bc", b"a"), ()])
def test_a_proof_is_of_its_parts_in_their_order_and_of_its_key(parts: tuple[bytes, ...]) -> None:
    right = keys.proof(b"k", b"a", b"bc")
    assert right == keys.proof(b"k", b"a", b"bc")
    assert right not in (keys.proof(b"k", *parts), keys.proof(b"l", b"a", b"bc"))
