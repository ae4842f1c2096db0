"""Event classes: names are taken once, options are checked at import, old versions are read."""

from __future__ import annotations

import importlib.util
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import attrs
import msgspec
import pydantic
import pytest

from outrider import (
    ConfigError,
    EventNameWarning,
    InvalidEventError,
    MissingDependencyError,
    upcast,
)
from outrider import event as declare
from outrider.errors import shown
from outrider.event_types import (
    DECLARED,
    VERSION_MAX,
    EventType,
    EventTypes,
    field_names,
)


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what a test declares end with it."""
    for name in ("_by_name", "_by_class", "_upcasts"):
        monkeypatch.setattr(DECLARED, name, dict(getattr(DECLARED, name)))


@dataclass(frozen=True)
class AsDataclass:
    id: int
    who: str = ""


@attrs.frozen
class AsAttrs:
    id: int
    who: str = ""


class AsStruct(msgspec.Struct, frozen=True):
    id: int
    who: str = ""


class AsModel(pydantic.BaseModel, frozen=True):
    id: int
    who: str = ""


KINDS: list[Any] = [AsDataclass, AsAttrs, AsStruct, AsModel]


def declaration(cls: type, **options: Any) -> EventType:
    declare("teapot.filled", **options)(cls)
    found = DECLARED.named("teapot.filled")
    assert found is not None
    return found


@pytest.mark.parametrize("cls", KINDS)
def test_the_decorator_returns_the_class_unchanged(cls: type) -> None:
    before = dict(vars(cls))

    assert declare("teapot.filled", key="id")(cls) is cls
    assert dict(vars(cls)) == before


@pytest.mark.parametrize("cls", KINDS)
def test_the_fields_of_every_kind_of_class_are_known(cls: type) -> None:
    assert field_names(cls) == frozenset({"id", "who"})


def test_the_fields_of_a_plain_class_are_not_known() -> None:
    assert field_names(SimpleNamespace) is None


@pytest.mark.parametrize("cls", KINDS)
def test_getters_take_a_field_or_a_function(cls: type) -> None:
    found = declaration(
        cls, key="id", entity=("teapot", lambda e: e.id + 1), data_subject="who", keep="7d"
    )
    instance = cls(id=1, who="me")

    assert found.key is not None
    assert found.entity is not None
    assert found.data_subject is not None
    assert found.key(instance) == 1
    assert (found.entity_type, found.entity(instance)) == ("teapot", 2)
    assert found.data_subject(instance) == "me"
    assert found.keep == timedelta(days=7)


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"key": "ident"}, "key= of 'teapot.filled' names 'ident'"),
        ({"entity": ("teapot", "ident")}, "entity= of 'teapot.filled' names 'ident'"),
        ({"data_subject": "whom"}, "data_subject= of 'teapot.filled' names 'whom'"),
        (
            {"sensitive": ["whom"], "data_subject": "id"},
            "sensitive= of 'teapot.filled' names 'whom'",
        ),
    ],
)
def test_an_option_that_names_no_field_is_refused_at_import(
    cls: type, options: Any, named: str
) -> None:
    with pytest.raises(ConfigError, match=f"{named}, which is no field; fields are id, who"):
        declare("teapot.filled", **options)(cls)


@pytest.mark.parametrize(
    "version", [0, -1, VERSION_MAX + 1, True, "1", 1.0, None, 10**5000], ids=shown
)
def test_a_version_that_is_no_count_is_refused(version: Any) -> None:
    with pytest.raises(ConfigError, match=r"versions are 1, 2, 3, …"):
        declare("teapot.filled", version=version)
    with pytest.raises(ConfigError, match=r"versions are 1, 2, 3, …"):
        upcast("teapot.filled", from_version=version)


@pytest.mark.requirement("NEV-07")
def test_a_class_says_its_version() -> None:
    assert declaration(AsDataclass).version == 1
    assert declaration(AsDataclass, version=VERSION_MAX).version == VERSION_MAX


@pytest.mark.parametrize("name", ["teapot filled", "outrider.filled", "", 5])
def test_a_name_outside_the_grammar_is_refused_at_import(name: Any) -> None:
    with pytest.raises(InvalidEventError):
        declare(name)
    with pytest.raises(InvalidEventError):
        upcast(name, from_version=1)


def test_only_classes_are_decorated() -> None:
    function: Any = test_only_classes_are_decorated

    with pytest.raises(ConfigError, match="decorates a class, not"):
        declare("teapot.filled")(function)


def test_a_keep_that_is_no_duration_is_refused_at_import() -> None:
    with pytest.raises(ConfigError, match="is not a duration"):
        declare("teapot.filled", keep="a year")(AsDataclass)


def test_a_private_field_of_an_attrs_class_is_refused_because_it_would_not_be_written() -> None:
    @attrs.frozen
    class Hidden:
        _id: int

    with pytest.raises(ConfigError, match=r"has the field '_id', .*; drop the underscore"):
        declare("teapot.filled")(Hidden)


@pytest.mark.requirement("EKB-17")
def test_two_classes_cannot_have_one_name() -> None:
    declare("teapot.filled")(AsDataclass)

    with pytest.raises(
        ConfigError, match=r"by two classes, .*\.AsDataclass and .*\.AsStruct; give"
    ):
        declare("teapot.filled")(AsStruct)

    assert DECLARED.of(AsDataclass(1)).cls is AsDataclass
    with pytest.raises(ConfigError, match="AsStruct is not an event class"):
        DECLARED.of(AsStruct(1))


@pytest.mark.requirement("EKB-16")
def test_a_class_name_is_a_name_but_no_name_is_derived_from_the_class() -> None:
    declare("TeapotFilled")(AsDataclass)

    assert DECLARED.named("TeapotFilled") is not None
    assert DECLARED.named("AsDataclass") is None


def reloaded() -> type:
    return make_dataclass("Again", [("id", int)], namespace={"__module__": __name__})


def test_the_same_class_may_be_declared_again_as_a_reload_does() -> None:
    first, second = reloaded(), reloaded()
    declare("teapot.filled", key="id")(first)

    declare("teapot.filled")(second)

    assert DECLARED.of(second(1)).key is None
    # An object from before the reload is still one of the class.
    assert DECLARED.of(first(1)).cls is second


def test_a_dataclass_with_slots_above_the_decorator_is_found() -> None:
    @dataclass(slots=True)
    @declare("teapot.filled")
    class Slotted:
        id: int

    assert DECLARED.of(Slotted(1)).name == "teapot.filled"
    assert DECLARED.of(Slotted(1)).name == "teapot.filled"


@pytest.mark.parametrize("thing", [1, None, {}, AsDataclass, SimpleNamespace(id=1)], ids=shown)
def test_what_is_no_event_class_is_refused_with_both_remedies(thing: object) -> None:
    with pytest.raises(ConfigError, match=r"(?s)is not an event class; decorate .* or emit a name"):
        DECLARED.of(thing)


def test_a_subclass_is_no_event_of_its_base() -> None:
    declare("teapot.filled")(AsDataclass)

    class Special(AsDataclass):
        pass

    with pytest.raises(ConfigError, match="Special is not an event class"):
        DECLARED.of(Special(1))


@pytest.mark.parametrize("cls", KINDS)
def test_sensitive_fields_need_a_subject(cls: type) -> None:
    with pytest.raises(ConfigError, match="has sensitive fields but no data_subject=; name the"):
        declare("teapot.filled", sensitive=["who"])(cls)


def test_sensitive_fields_are_a_sequence_not_a_text() -> None:
    with pytest.raises(ConfigError, match=re.escape("is a sequence of fields; write ('who',)")):
        declare("teapot.filled", sensitive="who", data_subject=lambda e: e.id)(AsDataclass)


def test_sensitive_fields_need_the_package_that_encrypts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    with pytest.raises(
        MissingDependencyError, match=r'pip install "outrider\[crypto\]"'
    ) as refused:
        declare("teapot.filled", sensitive=["who"], data_subject="id")(AsDataclass)

    assert refused.value.extra == "crypto"
    assert DECLARED.named("teapot.filled") is None


@pytest.mark.parametrize(
    "options",
    [
        {"key": "who", "data_subject": "id"},
        {"entity": ("teapot", "who"), "data_subject": "id"},
        {"data_subject": "who"},
    ],
)
def test_a_sensitive_field_is_no_key_because_keys_are_stored_as_they_are(options: Any) -> None:
    with pytest.raises(ConfigError, match="names 'who', which is sensitive"):
        declare("teapot.filled", sensitive=["who"], **options)(AsDataclass)


def seed_names() -> list[str]:
    """Return the names of events in the documents that Outrider was built from."""
    entities = {
        "account": "created updated archived",
        "market": "created updated",
        "product": "created updated archived",
        "variant": "pricing_set",
        "customer": "created updated redacted address_added",
        "order": "created updated cancelled placed",
        "payment": "created refunded",
        "fulfillment": "created shipped delivered",
        "return": "requested approved completed",
        "inventory": "adjusted",
        "voucher": "issued redeemed disabled",
        "tax_rate": "set",
        "setting": "created updated deleted",
        "theme": "created activated archived",
        "notification_preference": "set",
        "email": "sent delivered failed",
        "checkout": "created payment_started completed abandoned",
        "storefront_key": "created revoked",
    }
    canon = (
        "SIGNAL_RECEIVED SIGNAL_PROCESSING_STARTED SIGNAL_PROCESSED SIGNAL_PROCESSING_FAILED "
        "RUN_STARTED RUN_CHECKPOINT_CREATED RUN_COMPLETED RUN_FAILED RUN_CANCELLED STEP_STARTED "
        "STEP_COMPLETED STEP_FAILED STEP_SKIPPED STEP_RETRIED EFFECT_REQUESTED EFFECT_EXECUTING "
        "EFFECT_COMPLETED EFFECT_FAILED EFFECT_RETRYING EFFECT_DEAD_LETTERED TOOL_CALLED "
        "TOOL_COMPLETED TOOL_FAILED"
    )
    dotted = [f"{entity}.{verb}" for entity, verbs in entities.items() for verb in verbs.split()]
    return dotted + canon.split()


@pytest.mark.parametrize(
    "name",
    [
        *seed_names(),
        *("OrderPlaced", "order.placed_v2", "order.placedV2", "user.logged_in", "user.signed_up"),
        *("order.rolled_back", "payment.timed_out", "order.sent_to_customer", "file.read"),
        *("flag.unset", "key.reset", "stock.rebuilt", "price.risen", "car.stolen", "deal.won"),
        *("invoice.overpaid", "terms.agreed", "slot.freed", "job.undone", "mail.resent", "a.paid"),
        *("HTTPRequestReceived", "door.shut", "money.withdrawn", "rule.overridden"),
    ],
)
def test_names_in_the_past_tense_pass_without_a_word(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        declare(name)


@pytest.mark.requirement("CAN-05")
@pytest.mark.parametrize(
    "name",
    [
        *("STEP_COMPLETE", "RUN_START", "SEND_EMAIL", "API_CALL", "order.place", "order.create"),
        *("OrderPlace", "order.set_price", "order", "feed.need", "order.proceed", "a.exceed"),
        *("flower.bed", "image.embed", "message.send", "user.login", "order.v2", "order.2"),
    ],
)
def test_a_name_that_is_no_past_tense_is_warned_about_and_accepted(name: str) -> None:
    with pytest.warns(
        EventNameWarning, match=r"prefer the past tense, like 'order.placed'"
    ) as seen:
        declare(name)(AsDataclass)

    assert seen[0].filename == __file__
    assert DECLARED.of(AsDataclass(1)).name == name


def chain() -> EventTypes:
    types = EventTypes()
    types.add_upcast("teapot.filled", 1, lambda data: {**data, "two": True})
    types.add_upcast("teapot.filled", 2, lambda data: {**data, "three": True})
    return types


@pytest.mark.requirement("NEV-07")
def test_upcasts_lead_from_any_version_to_the_newest() -> None:
    assert chain().upcast("teapot.filled", 1, {}) == (3, {"two": True, "three": True})
    assert chain().upcast("teapot.filled", 2, {}) == (3, {"three": True})
    assert chain().upcast("teapot.filled", 3, {}) == (3, {})


def test_an_upcast_stops_where_a_step_is_missing() -> None:
    types = EventTypes()
    types.add_upcast("teapot.filled", 2, dict)

    assert types.upcast("teapot.filled", 1, {"a": 1}) == (1, {"a": 1})
    assert types.upcast("teapot.emptied", 2, {"a": 1}) == (2, {"a": 1})


def other_step(data: dict[str, Any]) -> dict[str, Any]:
    return data


def test_two_upcasts_from_one_version_are_refused() -> None:
    upcast("teapot.filled", from_version=1)(other_step)
    upcast("teapot.filled", from_version=1)(other_step)  # a reload

    @upcast("teapot.filled", from_version=2)
    def step(data: dict[str, Any]) -> dict[str, Any]:
        return data

    with pytest.raises(
        ConfigError, match=r"has two upcasts from version 1, .*other_step and .*step"
    ):
        upcast("teapot.filled", from_version=1)(step)


def test_the_decorator_of_an_upcast_returns_the_function_unchanged() -> None:
    assert upcast("teapot.filled", from_version=1)(other_step) is other_step


def test_classes_may_be_declared_while_another_thread_looks_one_up() -> None:
    types = EventTypes()
    types.add(EventType(name="teapot.filled", cls=reloaded()))
    real_module = types._by_name["teapot.filled"].cls.__module__

    class Meddling(type):
        @property
        def __module__(cls) -> str:  # type: ignore[override] # asked for in the middle of the look
            types.add(EventType(name=f"teapot.filled_{len(list(types))}", cls=reloaded()))
            return real_module

    cls: Callable[[], object] = Meddling("Meddler", (), {})

    with pytest.raises(ConfigError, match="is not an event class"):
        types.of(cls())


def test_what_is_declared_is_listed_by_name() -> None:
    declare("teapot.filled")(AsDataclass)

    assert [found.cls for found in DECLARED if found.name == "teapot.filled"] == [AsDataclass]
