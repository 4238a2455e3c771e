"""Tokens in files: what a line means, what a mistake costs, and that removing a line revokes its token at once."""

import os
import stat
from pathlib import Path

import pytest

from omega.cellstate.errors import BadInput
from omega.web.access.roles import Visitor
from omega.web.access.tokens import Tokens, append_line, digest, new_token, read, token_line, write_private

ADA, BOB = Visitor("ada", "submitter"), Visitor("bob", "operator")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.txt"
    append_line(path, token_line("one", "ada", "submitter"))
    append_line(path, token_line("two", "bob", "operator"))
    return path


def changed(path: Path, text: str) -> None:
    """Write a file as an editor does, and so that its time differs."""
    write_private(path, text)


def test_the_file_has_hashes_alone_and_is_its_owners(file: Path) -> None:
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "one" not in file.read_text()
    assert read(file) == ({digest("one"): ADA, digest("two"): BOB}, [])
    assert len(new_token()) >= 43
    assert new_token() != new_token()


def test_a_line_is_appended_also_where_the_last_one_has_no_end(file: Path) -> None:
    file.write_text(file.read_text().rstrip("\n"))
    append_line(file, token_line("three", "eve", "reader"))
    assert [visitor.user for visitor in read(file)[0].values()] == ["ada", "bob", "eve"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("nonsense", "want HASH USER ROLE"),
        ("one ada reader", "want sha256: and 64 hexadecimal digits"),
        (f"{digest('x')} ada king", "role 'king' is unknown"),
        (f"{digest('x').upper()} ada reader", "want sha256:"),
        (f"{digest('x')} a,b reader", "user 'a,b'"),
        (f"{digest('x')} {'u' * 129} reader", "use 1 to 128 letters"),
        (f"{digest('x')} ada reader operator", "want HASH USER ROLE"),
        (f"{digest('one')} ada operator", "has two meanings"),
        ("\u202e\x1b[31m ada reader", "want sha256:"),
    ],
)
def test_a_mistake_costs_its_own_line_alone(file: Path, line: str, problem: str) -> None:
    with file.open("a") as end:
        end.write(f"# people\n\n{line}\n- eve reader  # by the proxy\n")
    found, wrong = read(file)
    assert len(wrong) == 1
    assert problem in wrong[0]
    assert "line 5: " in wrong[0]
    assert "\x1b" not in wrong[0]
    assert found[digest("two")] == BOB
    assert found["user:eve"] == Visitor("eve", "reader")
    assert found.get(digest("one"), ADA) == ADA
    assert digest("x") not in found


def test_a_token_with_two_meanings_has_none(file: Path) -> None:
    append_line(file, token_line("one", "ada", "operator"))
    assert digest("one") not in read(file)[0]


def test_bytes_that_are_no_text_are_a_mistake_of_their_line(file: Path) -> None:
    with file.open("ab") as end:
        end.write(b"\xff\xfe\x00 ada reader\n")
    found, wrong = read(file)
    assert (len(found), len(wrong)) == (2, 1)


def test_a_file_that_others_can_write_is_refused(file: Path) -> None:
    for mode in (0o620, 0o602):
        file.chmod(mode)
        with pytest.raises(BadInput, match="others can write it; run chmod go-w"):
            read(file)
    file.chmod(0o644)
    assert len(read(file)[0]) == 2


def test_a_huge_file_is_refused(file: Path) -> None:
    with file.open("r+b") as end:
        end.truncate(1 << 30)
    with pytest.raises(BadInput, match="larger than 4 MiB"):
        read(file)


def test_tokens_follow_their_file(file: Path) -> None:
    told = list[str]()
    tokens = Tokens(file, {digest("start"): Visitor("root", "operator")}, told.append)
    assert tokens.visitor(digest("one")) == ADA
    changed(file, token_line("two", "bob", "reader") + "\n")
    assert tokens.visitor(digest("one")) is None, "revoked"
    assert tokens.visitor(digest("two")) == Visitor("bob", "reader"), "with another role"
    file.unlink()
    assert tokens.visitor(digest("two")) is None, "nothing of an absent file is valid"
    assert tokens.visitor(digest("two")) is None
    assert [each.partition(": ")[2] for each in told] == ["no such file or directory; its tokens are not valid"]
    assert tokens.visitor(digest("start")) is not None
    append_line(file, token_line("one", "ada", "submitter"))
    assert tokens.visitor(digest("one")) == ADA
    with file.open("a") as end:
        end.write("oops\n")
    assert tokens.visitor(digest("one")) == ADA
    assert "want HASH USER ROLE" in told[-1]
    file.chmod(0o666)
    os.utime(file)
    assert tokens.visitor(digest("one")) is None, "others could have written it"
    assert "others can write it" in told[-1]


def test_a_file_replaced_within_one_tick_of_its_clock_is_read(file: Path) -> None:
    tokens = Tokens(file)
    assert tokens.visitor(digest("one")) == ADA
    before = file.stat()
    text = file.read_text().replace("ada", "eve")
    write_private(file, text)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    found = tokens.visitor(digest("one"))
    assert found is not None
    assert found.user == "eve"


def test_a_private_file_replaces_what_is_there_and_follows_no_link(tmp_path: Path) -> None:
    other, link = tmp_path / "other", tmp_path / "web" / "7070.token"
    other.write_text("mine")
    link.parent.mkdir()
    link.symlink_to(other)
    write_private(link, "secret\n")
    assert (other.read_text(), link.read_text()) == ("mine", "secret\n")
    assert stat.S_IMODE(link.stat().st_mode) == 0o600
    assert [path.name for path in link.parent.iterdir()] == ["7070.token"]
