from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mailer.errors import InvalidEmail
from mailer.templates import Templates

Write = Callable[[dict[str, str]], Templates]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def _write(files: dict[str, str]) -> Templates:
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="")
        return Templates(tmp_path)

    return _write


def refused(templates: Templates, template: Any = "t-v1", /, **context: Any) -> InvalidEmail:
    with pytest.raises(InvalidEmail) as caught:
        templates.render(template, context)
    error = caught.value
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    return error


def body(write: Write, text: str) -> Templates:
    return write({"t-v1/subject.txt": "Hello", "t-v1/body.txt": text})


def test_all_three_files_are_rendered(write: Write) -> None:
    templates = write(
        {
            "welcome-v12/subject.txt": "Welcome, {{ name }}\n",
            "welcome-v12/body.txt": "Dear {{ name }},\nhello.\n",
            "welcome-v12/body.html": "<p>Dear {{ name }}</p>",
        }
    )

    rendered = templates.render("welcome-v12", {"name": "Zoë & <Co>"})

    assert rendered.subject == "Welcome, Zoë & <Co>"
    assert rendered.text == "Dear Zoë & <Co>,\nhello."
    assert rendered.html == "<p>Dear Zoë &amp; &lt;Co&gt;</p>"
    assert rendered.version == "v12"


@pytest.mark.parametrize(("file", "attribute"), [("body.txt", "text"), ("body.html", "html")])
def test_one_body_is_enough(write: Write, file: str, attribute: str) -> None:
    rendered = write({"t-v1/subject.txt": "Hello", f"t-v1/{file}": "Hi"}).render("t-v1", {})

    assert {"text": rendered.text, "html": rendered.html} == {
        "text": None,
        "html": None,
        attribute: "Hi",
    }


def test_names_are_those_that_can_be_rendered(write: Write) -> None:
    templates = write(
        {
            "b-v1/subject.txt": "",
            "a-v2/subject.txt": "",
            "a-v1/subject.txt": "",
            "no_version/subject.txt": "",
            "no-subject-v1/body.txt": "",
            "_layouts/base.html": "",
            "stray-v1": "",
        }
    )

    assert templates.names() == ["a-v1", "a-v2", "b-v1"]


def test_folder_that_is_not_there_has_no_templates(tmp_path: Path) -> None:
    templates = Templates(tmp_path / "missing")

    assert templates.names() == []
    assert refused(templates).field == "template"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "t",
        "t-v",
        "T-v1",
        "-v1",
        "_layouts-v1",
        "../t-v1",
        "t-v1/../t-v1",
        "/t-v1",
        "t-v1\n",
        "t-v\u0661",
        "t v1-v1",
        None,
        7,
    ],
)
def test_name_that_is_no_name_is_refused(write: Write, name: Any) -> None:
    error = refused(body(write, "Hi"), name)

    assert error.field == "template"
    assert "welcome-v1" in error.problem


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({}, "subject.txt"),
        ({"t-v1/body.txt": "Hi"}, "subject.txt"),
        ({"t-v1/subject.txt": "Hello"}, "body.txt"),
        ({"t-v1/subject.txt": "Hello", "t-v1/body.txt": "a\n{% if %}"}, "line 2"),
        ({"t-v1/subject.txt": "Hello", "t-v1/body.txt": "{{ a | nofilter }}"}, "nofilter"),
        ({"t-v1/subject.txt": "{{ open", "t-v1/body.txt": "Hi"}, "subject.txt"),
    ],
)
def test_broken_template_is_named(write: Write, files: dict[str, str], word: str) -> None:
    error = refused(write(files))

    assert error.field == "template"
    assert word in error.problem


def test_file_that_is_not_utf8_is_named(write: Write, tmp_path: Path) -> None:
    templates = body(write, "Hi")
    (tmp_path / "t-v1/body.txt").write_bytes(b"caf\xe9")

    assert "t-v1/body.txt" in refused(templates).problem


@pytest.mark.parametrize(
    ("text", "context", "name"),
    [
        ("{{ name }}", {}, "'name'"),
        ("{{ user.surname }}", {"user": {}}, "'surname'"),
        ("{{ user['surname'] }}", {"user": {}}, "'surname'"),
        ("{{ user.name.first }}", {"user": {}}, "'name'"),
        ("{% if not ready %}x{% endif %}", {}, "'ready'"),
        ("{% for x in rows %}{% endfor %}", {}, "'rows'"),
        ("{{ name | upper }}", {}, "'name'"),
    ],
)
def test_missing_variable_is_named(
    write: Write, text: str, context: dict[str, Any], name: str
) -> None:
    error = refused(body(write, text), **context)

    assert error.field == "context"
    assert name in error.problem
    assert "t-v1/body.txt" in error.problem


@pytest.mark.parametrize(
    ("text", "context"),
    [
        ("{{ prices[email] }}", {"prices": {}, "email": "jane"}),
        ("{{ amount + 1 }}", {"amount": "jane"}),
        ("{{ amount | round }}", {"amount": "jane"}),
        ("{{ when.strftime() }}", {"when": "jane"}),
        ("{{ 1 / (name | length - 4) }}", {"name": "jane"}),
        ("{{ call() }}", {"call": "jane"}),
    ],
)
def test_no_error_shows_a_value_of_the_context(
    write: Write, text: str, context: dict[str, Any]
) -> None:
    assert "jane" not in str(refused(body(write, text), **context))


@pytest.mark.parametrize(
    "text",
    [
        "{{ name.__class__.__mro__ }}",
        "{{ ''.__class__ }}",
        "{{ rows.append(1) }}",
        "{{ rows.clear() }}",
        "{{ name.format.__globals__ }}",
        "{{ '{0.__class__}'.format(name) }}",
        "{% for x in range(10000000) %}{% endfor %}",
    ],
)
def test_sandbox_holds(write: Write, text: str) -> None:
    rows = [0]

    error = refused(body(write, text), name="jane", rows=rows)

    assert error.field in {"template", "context"}
    assert rows == [0]


def test_output_without_end_is_cut(write: Write) -> None:
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}xxxxxxxxxx"

    error = refused(body(write, loops + "{% endfor %}{% endfor %}"))

    assert error.field == "template"
    assert "characters" in error.problem


def test_template_that_includes_itself_ends(write: Write) -> None:
    assert refused(body(write, "{% include 'body.txt' %}")).field == "template"


@pytest.mark.parametrize("value", ["a\nBcc: x", "a\r\n b", "a\n", "\n", "a\x00", "a\u2028"])
def test_value_cannot_break_the_subject(write: Write, value: str) -> None:
    templates = write({"t-v1/subject.txt": "Hi {{ name }}!", "t-v1/body.txt": "Hi"})

    error = refused(templates, name=value)

    assert error.field == "subject"
    assert "Bcc" not in str(error)


def test_subject_file_of_two_lines_is_refused(write: Write) -> None:
    templates = write({"t-v1/subject.txt": "one\ntwo\n", "t-v1/body.txt": "Hi"})

    assert refused(templates).field == "subject"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_subject_file_may_end_its_line(write: Write, end: str) -> None:
    templates = write({"t-v1/subject.txt": f"Hello{end}", "t-v1/body.txt": "Hi"})

    assert templates.render("t-v1", {}).subject == "Hello"


def test_layouts_and_own_files_can_be_used(write: Write) -> None:
    templates = write(
        {
            "_layouts/base.html": "<html>{% block main %}{% endblock %}"
            "{% include 'foot.html' %}</html>",
            "_layouts/foot.html": "<i>{{ shop }}</i>",
            "t-v1/subject.txt": "Hello",
            "t-v1/body.html": "{% extends '_layouts/base.html' %}"
            "{% block main %}{% include 'part.html' %}{% endblock %}",
            "t-v1/part.html": "<b>{{ name }}</b>",
        }
    )

    rendered = templates.render("t-v1", {"name": "<J>", "shop": "A&B"})

    assert rendered.html == "<html><b>&lt;J&gt;</b><i>A&amp;B</i></html>"


@pytest.mark.parametrize(
    "path", ["../other-v1/body.txt", "other-v1/body.txt", "/etc/passwd", "../../etc/passwd", "no"]
)
def test_include_stays_inside(write: Write, path: str) -> None:
    templates = write(
        {
            "other-v1/body.txt": "other",
            "t-v1/subject.txt": "Hello",
            "t-v1/body.txt": f"{{% include '{path}' %}}",
        }
    )

    assert refused(templates).field == "template"


def test_html_never_includes_unescaped_text(write: Write) -> None:
    templates = write(
        {
            "t-v1/subject.txt": "Hello",
            "t-v1/body.html": "{% include 'part.txt' %}",
            "t-v1/part.txt": "{{ name }}",
        }
    )

    assert refused(templates, name="<script>").field == "template"


def test_rendering_changes_no_later_rendering(write: Write) -> None:
    templates = body(write, "{% set name = name ~ '!' %}{{ name }}")

    assert [templates.render("t-v1", {"name": "Jo"}).text for _ in range(2)] == ["Jo!", "Jo!"]


def test_representation_shows_no_content(write: Write) -> None:
    assert repr(body(write, "secret").render("t-v1", {})) == "Rendered(version='v1')"
