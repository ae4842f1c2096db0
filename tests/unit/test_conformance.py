"""The conformance table: complete, never edited by hand, and never more than the tests prove."""

from __future__ import annotations

import csv
import importlib.util
import sys
from collections import Counter
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

ROOT = Path(__file__).parents[2]
TOTALS = {
    "OO-EM": 62,
    "OO-EX": 24,
    "OO-ST": 48,
    "OO-IN": 12,
    "OO-TM": 32,
    "OO-DS": 30,
    "OO-PL": 55,
    "OO-PB": 26,
    "OO-RF": 39,
    "OO-OR": 31,
    "OO-RO": 58,
    "OO-V1": 8,
    "EKB": 45,
    "NEV": 38,
    "CAN": 100,
}
LEVELS = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY", "REC", "PROHIB", "IS"}


def load_generator() -> ModuleType:
    """Import conformance/generate.py, which is a script and in no package."""
    path = ROOT / "conformance/generate.py"
    spec = importlib.util.spec_from_file_location("conformance_generate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


generate = load_generator()


def requirements() -> list[dict[str, str]]:
    with (ROOT / "conformance/requirements.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with our requirements and rules, no answers and no tests."""
    copytree(ROOT / "conformance", tmp_path / "conformance")
    write(tmp_path, "conformance/answers.toml", "")
    return tmp_path


def write(project: Path, name: str, text: str) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def run(project: Path, *options: str) -> int:
    code: int = generate.main(["--root", str(project), *options])
    return code


def table(project: Path) -> dict[str, list[str]]:
    """Return the cells of the page's rows, by requirement."""
    page = (project / "docs/reference/conformance.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return {cells[0]: cells for cells in rows}


def test_every_core_requirement_is_there_once() -> None:
    ids = [row["id"] for row in requirements()]

    assert len(ids) == 608
    assert len(set(ids)) == 608
    assert Counter(name.rpartition("-")[0] for name in ids) == TOTALS


def test_the_ids_of_a_group_have_no_holes() -> None:
    numbers = [int(row["id"].rpartition("-")[2]) for row in requirements()]

    assert numbers == [number for size in TOTALS.values() for number in range(1, size + 1)]


@pytest.mark.requirement("OO-IN-12")
def test_levels_are_the_key_words_of_rfc_2119_or_explained() -> None:
    assert {row["level"].removesuffix(" (if)") for row in requirements()} == LEVELS
    assert "have their RFC 2119 meaning" in generate.INTRO


def test_every_row_says_who_is_bound_and_to_what() -> None:
    for row in requirements():
        assert set(row["layer"].split(",")) <= set("ASRPODC"), row
        assert all(row.values()), row


@pytest.mark.requirement("OO-IN-09")
def test_the_page_says_what_the_tests_and_answers_say() -> None:
    assert generate.main(["--check"]) == 0


def test_a_page_that_differs_fails_the_check(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(project, "--check") == 1
    assert run(project) == 0
    assert run(project, "--check") == 0

    write(project, "tests/test_a.py", '@pytest.mark.requirement("CAN-01")\ndef test_a(): ...\n')

    assert run(project, "--check") == 1
    assert "out of date" in capsys.readouterr().err


def test_answers_stand_in_the_order_of_the_requirements() -> None:
    order = {row["id"]: number for number, row in enumerate(requirements())}
    answers = generate.read_answers(ROOT / "conformance/answers.toml")

    assert [answer.ids for answer in answers] == sorted(
        (sorted(answer.ids, key=order.__getitem__) for answer in answers),
        key=lambda ids: order[ids[0]],
    )


def test_every_deviation_cites_one_of_the_rules() -> None:
    conformance = generate.load(ROOT)
    deviations = [a for a in conformance.answers.values() if a.state == "deviation"]

    assert len(conformance.rules) == 24
    assert deviations
    assert {answer.rule for answer in deviations} <= {rule.id for rule in conformance.rules}


FORMS = """\
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.requirement("CAN-01")]
KEYS = pytest.mark.requirement("CAN-02")
CASES = [
    pytest.param(1, marks=KEYS),
    pytest.param(2, marks=[pytest.mark.slow, pytest.mark.requirement("CAN-03")]),
]


@pytest.mark.requirement("CAN-04", "CAN-05")
def test_function(): ...


@pytest.mark.requirement("CAN-04")
async def test_coroutine(): ...


@pytest.mark.parametrize("case", CASES)
def test_cases(case): ...


@pytest.mark.parametrize("case", [pytest.param(1, marks=pytest.mark.requirement("CAN-06"))])
def test_cases_in_place(case): ...


@pytest.mark.requirement("CAN-07")
class TestThing:
    pytestmark = pytest.mark.requirement("CAN-08")

    @pytest.mark.requirement("CAN-09")
    def test_method(self): ...

    class TestInner:
        @pytest.mark.requirement("CAN-10")
        def test_nested(self): ...
"""


def test_markers_are_found_in_every_form(project: Path) -> None:
    write(project, "tests/unit/test_forms.py", FORMS)

    name = "tests/unit/test_forms.py"
    assert generate.collect(project) == {
        "CAN-01": [name],
        "CAN-02": [f"{name}::test_cases"],
        "CAN-03": [f"{name}::test_cases"],
        "CAN-04": [f"{name}::test_coroutine", f"{name}::test_function"],
        "CAN-05": [f"{name}::test_function"],
        "CAN-06": [f"{name}::test_cases_in_place"],
        "CAN-07": [f"{name}::TestThing"],
        "CAN-08": [f"{name}::TestThing"],
        "CAN-09": [f"{name}::TestThing::test_method"],
        "CAN-10": [f"{name}::TestThing::TestInner::test_nested"],
    }


CONTRACT = """\
class ConnectionContract:
    @pytest.mark.requirement("OO-IN-01")
    def test_rollback_drops(self): ...
"""


def test_a_contract_counts_once_somebody_runs_it(project: Path) -> None:
    suite = "src/outrider/testing/contracts/connections.py"
    write(project, suite, CONTRACT)

    assert generate.collect(project) == {}

    driver = "class TestSqlite(contracts.ConnectionContract): ...\n"
    write(project, "tests/contract/test_connections.py", driver)

    node = f"{suite}::ConnectionContract::test_rollback_drops"
    assert generate.collect(project) == {"OO-IN-01": [node]}


def test_examples_count_too(project: Path) -> None:
    name = "examples/01-sqlite-hello/test_hello.py"
    write(project, name, '@pytest.mark.requirement("CAN-01")\ndef test_it(): ...\n')

    assert generate.collect(project) == {"CAN-01": [f"{name}::test_it"]}


ASIDE = {
    "skipped": """\
@pytest.mark.skip(reason="later")
@pytest.mark.requirement("CAN-01")
def test_it(): ...
""",
    "expected to fail": """\
@pytest.mark.requirement("CAN-01")
@pytest.mark.xfail
class TestIt:
    @pytest.mark.requirement("CAN-02")
    def test_it(self): ...
""",
    "skipped module": """\
pytestmark = [pytest.mark.requirement("CAN-01"), pytest.mark.skip]
@pytest.mark.requirement("CAN-02")
def test_it(): ...
""",
    "case expected to fail": """\
MARKS = pytest.mark.requirement("CAN-01")
@pytest.mark.parametrize("x", [pytest.param(1, marks=[pytest.mark.xfail, MARKS])])
def test_it(x): ...
""",
    "no test": """\
@pytest.mark.requirement("CAN-01")
def helper(): ...
""",
}


@pytest.mark.parametrize("text", ASIDE.values(), ids=ASIDE)
def test_a_test_that_cannot_fail_proves_nothing(project: Path, text: str) -> None:
    write(project, "tests/test_aside.py", text)

    assert generate.collect(project) == {}


@pytest.mark.parametrize("mark", ['"CAN-999"', "IDS", "*IDS"])
def test_an_unknown_requirement_in_a_marker_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str], mark: str
) -> None:
    write(project, "tests/test_a.py", f"@pytest.mark.requirement({mark})\ndef test_a(): ...\n")

    assert run(project) == 2
    message = f"tests/test_a.py::test_a: unknown requirement {mark.strip(chr(34))}\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        ('ids = ["CAN-999"]\nstate = "not applicable"\nnote = "so"', "unknown requirement CAN-999"),
        (
            'ids = ["CAN-01", "CAN-01"]\nstate = "not applicable"\nnote = "so"',
            "CAN-01 is answered 2 times",
        ),
        (
            'ids = ["CAN-01"]\nstate = "deviation"\nrule = "X-99"\nnote = "so"',
            "CAN-01 cites the unknown rule X-99",
        ),
        ('ids = ["CAN-01"]\nstate = "met"\nnote = "so"', "is none of"),
        ('ids = ["CAN-01"]\nstate = "not applicable"', "is none of"),
        ('ids = ["CAN-01"]\nstate = "not applicable"\nnote = ""', "is none of"),
        (
            'ids = ["CAN-01"]\nstate = "documented"\npage = "docs/no.md"\nnote = "so"',
            "there is no page docs/no.md",
        ),
        (
            'ids = ["CAN-01"]\nstate = "documented"\npage = "docs/a.md#no"\nnote = "so"',
            "docs/a.md has no heading #no",
        ),
    ],
)
def test_a_wrong_answer_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str], answer: str, complaint: str
) -> None:
    write(project, "docs/a.md", "# A\n\n```\n# no\n```\n")
    write(project, "conformance/answers.toml", f"[[answer]]\n{answer}\n")

    assert run(project) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("anchor", ["#what-is-at-least-once", "#mine", ""])
def test_a_documented_row_links_to_its_page(project: Path, anchor: str) -> None:
    page = f"docs/explanation/guarantees.md{anchor}"
    write(project, page.partition("#")[0], "## What is *at-least-once*?\n\n## Another {#mine}\n")
    answer = f'ids = ["CAN-01"]\nstate = "documented"\npage = "{page}"\nnote = "Says it."'
    write(project, "conformance/answers.toml", f"[[answer]]\n{answer}\n")

    assert run(project) == 0
    link = f"[explanation/guarantees.md{anchor}](../explanation/guarantees.md{anchor}): Says it."
    assert table(project)["CAN-01"][4:] == [link, "documented"]


def test_an_answer_beside_a_test_is_refused_unless_it_is_a_deviation(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, "tests/test_a.py", '@pytest.mark.requirement("CAN-05")\ndef test_a(): ...\n')
    answer = '[[answer]]\nids = ["CAN-05"]\nnote = "A lint."\n'
    write(project, "conformance/answers.toml", f'{answer}state = "not applicable"\n')
    assert run(project) == 2
    assert "tests/test_a.py::test_a proves it" in capsys.readouterr().err

    write(project, "conformance/answers.toml", f'{answer}state = "deviation"\nrule = "X-22"\n')
    assert run(project) == 0
    said = "[X-22](#x-22): A lint.<br>`tests/test_a.py::test_a`"
    assert table(project)["CAN-05"][4:] == [said, "deviation"]


def test_a_row_starts_with_its_id_and_ends_with_its_state(project: Path) -> None:
    write(project, "tests/test_a.py", '@pytest.mark.requirement("CAN-01")\ndef test_a(): ...\n')

    assert run(project) == 0

    rows = table(project)
    assert all(rows[row["id"]][-1] in generate.STATES for row in requirements())
    assert rows["CAN-01"][1:3] == ["MUST", "A"]
    assert rows["CAN-01"][4:] == ["`tests/test_a.py::test_a`", "met"]
    assert rows["CAN-02"][-1] == "not yet"
    assert rows["**all**"] == ["**all**", "608", "1", "0", "0", "0", "607"]
